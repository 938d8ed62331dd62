/*
 * The datads, as a gateway, a repair or a reclaim sees them: shards by disk id. In `kist serve` a
 * call runs against the datad in the same process (datad/service/data_local.c); between processes
 * it is an RPC.
 *
 * One client per loop; calls and completions on that loop; a completion never runs inside its call.
 */
#ifndef COMMON_CLIENT_DATA_CLIENT_H
#define COMMON_CLIENT_DATA_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"

enum { EXTENT_ID_BYTES = 24 };

/* Never reused. memcmp order: cluster epoch u32, incarnation u32, milliseconds u64, counter u64
 * (all big endian). Layout ids and upload ids are of the same kind. */
struct extent_id {
    uint8_t bytes[EXTENT_ID_BYTES];
};

struct shard_id {
    struct extent_id extent;
    uint32_t index; /* 0 .. k+m-1: position in the placement group */
};

/* What the shard's header on disk names, so that an audit can ask the home about it. */
struct shard_origin {
    struct extent_id layout;
    uint64_t home_bucket;
    struct slice home_key; /* borrowed until begin completes */
    uint64_t group;
    uint64_t group_epoch;
};

struct data_client;

/* One shard being written: begin, any number of appends (one under way at a time per writer;
 * several writers side by side), then seal or abort. All but the last append are multiples of
 * LIMIT_BLOCK_BYTES. A writer belongs to the world while a call is under way, otherwise to the
 * caller. */
struct shard_writer {
    uint64_t disk;
    struct shard_id shard;
    struct shard_origin origin;
    uint64_t reserved_bytes; /* no more than this will be appended */
    uint32_t attempt;        /* 0: a client's write; repair and move pass their task's number */
    void (*done)(struct shard_writer *writer); /* of the call under way */
    enum rc rc; /* of that call. RC_NOT_FOUND: disk unknown or gone; RC_FULL; RC_IO;
                   RC_EXISTS: the id is or was held; RC_STALE: old group epoch */
    /* Private. */
    uint64_t reserved[80];
};

/* Part of a shard, verified against its block checksums. */
struct shard_read {
    uint64_t disk;
    struct shard_id shard;
    uint64_t at;
    size_t len;
    void *to; /* `len` bytes, borrowed until done */
    void (*done)(struct shard_read *read);
    enum rc rc; /* RC_NOT_FOUND: no such shard or disk; RC_CORRUPT: a block failed; RC_IO */
    /* Private. */
    uint64_t reserved[80];
};

struct shard_delete {
    uint64_t disk;
    struct shard_id shard;
    void (*done)(struct shard_delete *call);
    enum rc rc; /* RC_OK also when it was not there */
    /* Private. */
    uint64_t reserved[32];
};

/* Inventory: does the disk hold this shard? Metadata only; the payload is not read. */
struct shard_stat {
    uint64_t disk;
    struct shard_id shard;
    bool want_origin; /* also what the shard's header on disk names: one more read */
    void (*done)(struct shard_stat *call);
    enum rc rc; /* RC_OK: held. RC_NOT_FOUND: not held (or the disk is gone); RC_CORRUPT: held, but
                   a block failed its checksum before; RC_IO */
    /* Out; `attempt` also when it is not held any more (0 when never). */
    uint32_t attempt;
    bool removed; /* with RC_NOT_FOUND: a remove took it away */
    uint64_t length;
    struct shard_origin origin; /* home_key points into `key` */
    char key[1024];
    /* Private. */
    uint64_t reserved[16];
};

struct data_client {
    void (*begin)(struct data_client *data, struct shard_writer *writer);
    /* `bytes` borrowed until done. Not durable yet. */
    void (*append)(struct data_client *data, struct shard_writer *writer, struct slice bytes);
    /* Done: the shard is durable (fdatasync returned) and readable. The writer is finished either
     * way. */
    void (*seal)(struct data_client *data, struct shard_writer *writer);
    /* Done: nothing of it will be seen again. */
    void (*abort)(struct data_client *data, struct shard_writer *writer);
    /* begin + append + seal in one call: for shards of one piece. */
    void (*put)(struct data_client *data, struct shard_writer *writer, struct slice bytes);
    void (*read)(struct data_client *data, struct shard_read *read);
    void (*remove)(struct data_client *data, struct shard_delete *call);
    bool (*healthy)(struct data_client *data, uint64_t disk); /* present, not read-only, not full */
    void (*stat)(struct data_client *data, struct shard_stat *call);
    bool (*full)(struct data_client *data,
                 uint64_t disk); /* why it is not healthy; NULL: unknown */
    /* Of the file system, as last seen; false when the disk is gone. NULL: unknown. */
    bool (*space)(struct data_client *data, uint64_t disk, uint64_t *total_bytes,
                  uint64_t *free_bytes);
};

#endif
