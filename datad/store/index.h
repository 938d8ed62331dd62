/*
 * Where each shard lies: a RocksDB (kv.h) that is written without syncs and can always be made
 * again from the segments (FORMAT.md has the rows). Every batch carries the rows of the segments it
 * touches with the offset up to which they are covered, and flushes are atomic over families:
 * whatever prefix of the batches survives a crash is a consistent state to replay from.
 *
 * Reads on any thread; batches are made and written by one thread at a time (the disk's queue, or
 * open).
 */
#ifndef DATAD_STORE_INDEX_H
#define DATAD_STORE_INDEX_H

#include <stdatomic.h>

#include "common/kv/kv.h"
#include "datad/store/segment_format.h"

enum { INDEX_CRCS_MAX = 64, INDEX_KEY_BYTES = EXTENT_ID_BYTES + 4 };

enum index_kind { INDEX_LIVE = 1, INDEX_DEAD = 2 };

struct index_row {
    enum index_kind kind;
    bool suspect; /* a block failed its checksum: reads check and may fail, an inventory says no */
    uint32_t attempt;
    uint64_t segment; /* generation */
    uint64_t at;      /* of the shard's header */
    uint64_t length;  /* payload bytes */
    uint64_t dead_ms; /* kind DEAD: when */
    uint32_t
        crc_count; /* 0: shard of more than INDEX_CRCS_MAX blocks, they are in its footer only */
    uint32_t crcs[INDEX_CRCS_MAX];
};

enum index_segment_state {
    INDEX_SEGMENT_OPEN = 1, /* may grow: replayed from `covered` at open */
    INDEX_SEGMENT_CLEAN,    /* open, but nothing lies past `covered`: written at an orderly close */
    INDEX_SEGMENT_SEALED,   /* complete */
    INDEX_SEGMENT_RETIRED   /* everything has moved: the file is deleted at open */
};

struct index_segment {
    uint64_t generation;
    uint8_t uuid[SEGMENT_UUID_BYTES];
    enum index_segment_state state;
    uint64_t covered;    /* every record below is in the index */
    uint64_t live_bytes; /* regions of shards that exist */
};

struct index {
    struct kv *kv;
    _Atomic uint64_t drop_before_ms; /* tombstones of ids made before are dropped by compaction */
};

typedef enum rc (*index_kv_open)(struct kv **out, const struct kv_options *options,
                                 struct error *error);

struct index_options {
    const char *path;
    uint64_t disk;
    struct kv_cache *cache;
    index_kv_open kv_open;
};

/* RC_NOT_FOUND: another disk's index or none of ours: make it again. RC_CORRUPT likewise. */
enum rc index_open(struct index *index, const struct index_options *options, bool *fresh,
                   struct error *error);
void index_close(struct index *index);
/* Removes all rows. */
enum rc index_wipe(struct index *index, struct error *error);

void index_key(const struct shard_id *shard, uint8_t key[INDEX_KEY_BYTES]);
/* Milliseconds since 1970 in the id. */
uint64_t index_id_ms(const struct extent_id *id);

/* `flags` KV_CACHED_ONLY: RC_AGAIN where a disk read would be needed. */
enum rc index_get(struct index *index, const struct shard_id *shard, unsigned flags,
                  struct index_row *out, struct error *error);
void index_put(struct kv_batch *batch, const struct shard_id *shard, const struct index_row *row);
void index_put_segment(struct kv_batch *batch, const struct index_segment *segment);
void index_remove_segment(struct kv_batch *batch, uint64_t generation);

typedef void (*index_segment_cb)(void *list, const struct index_segment *segment);
enum rc index_each_segment(struct index *index, index_segment_cb each, void *list,
                           struct error *error);
/* Every shard row; stops when `each` says false. Slow: repair of bookkeeping only. */
typedef bool (*index_shard_cb)(void *list, const struct shard_id *shard,
                               const struct index_row *row);
enum rc index_each_shard(struct index *index, index_shard_cb each, void *list, struct error *error);

#endif
