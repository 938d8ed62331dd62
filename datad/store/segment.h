/*
 * One append-only file of shards, and the table by which any thread finds it.
 *
 *     queue thread:  create -> allocate regions ... -> seal -> retire (all of it was moved away)
 *     any thread:    segment_acquire() -> read and write inside a region -> segment_release()
 *
 * The file is closed by whoever lets go last after it was retired; the struct itself stays until
 * the table is closed, so that a reader who holds a number never touches freed memory and no lock
 * is needed.
 */
#ifndef DATAD_STORE_SEGMENT_H
#define DATAD_STORE_SEGMENT_H

#include <stdatomic.h>

#include "common/base/list.h"
#include "common/env/env.h"
#include "datad/store/segment_format.h"

enum {
    SEGMENT_TABLE_CHUNK = 256,
    SEGMENT_TABLE_CHUNKS = 65536, /* 16 M segments written in the life of a disk: 8 EiB of them */
    SEGMENT_PATH_BYTES = 4200
};

enum segment_state { SEGMENT_ACTIVE, SEGMENT_SEALED, SEGMENT_RETIRED };

struct segment {
    struct segment_identity identity; /* never changes */
    int file;                         /* any thread, while held */
    int early_file; /* -1, or a second descriptor for early syncs: an error of writing back is
                       reported once per descriptor, and the one that answers clients must not miss
                       it */
    /* Of the queue thread. */
    struct list link;    /* in the store's list, in order of generation */
    struct list writers; /* open regions, in order of offset */
    struct list dirty;   /* in the running commit's list of files to sync */
    struct list touched; /* in the running commit's list of index rows to write */
    enum segment_state state;
    uint64_t allocated_bytes;
    uint64_t tail;         /* where the next region begins */
    uint64_t delete_bytes; /* of delete records written since start */
    uint64_t sealed_ms;    /* monotonic; 0: before this start */
    uint64_t scrubbed_ms;  /* monotonic; 0: not since start */
    bool stuck;            /* compaction found a shard that it cannot move */
    bool verify;           /* a sync failed: what was acknowledged must be read back */
    bool replaying;        /* recovery has not settled it yet: `tail` is what the index covers */
    /* Any thread. */
    _Atomic uint32_t hold;       /* SEGMENT_LIVE and the number of holders */
    _Atomic uint64_t live_bytes; /* written by the queue thread */
    _Atomic uint64_t end_bytes;  /* tail, for status */
    _Atomic uint64_t unsynced;   /* bytes written since the last early or full sync, about */
    _Atomic bool syncing;        /* an early sync is under way */
    _Atomic bool failed;         /* a write or sync failed: nothing unacknowledged in it succeeds */
};

struct segment_chunk {
    _Atomic(struct segment *) slots[SEGMENT_TABLE_CHUNK];
};

struct segment_table {
    struct env *env;
    const char *directory; /* borrowed */
    _Atomic(struct segment_chunk *) chunks[SEGMENT_TABLE_CHUNKS];
};

void segment_table_init(struct segment_table *table, struct env *env, const char *directory);
/* Closes every file; nobody holds a segment. */
void segment_table_deinit(struct segment_table *table);

void segment_path(const struct segment_table *table, uint64_t generation,
                  char path[SEGMENT_PATH_BYTES]);
/* For reading past the page cache: after a failed sync that holds what the disk does not. Where the
 * file system has no such reads (one in memory), plainly: *direct says which. The caller closes
 * *file. */
enum rc segment_open_direct(const struct segment_table *table, uint64_t generation, int *file,
                            bool *direct);
/* The generation in a file's name, or 0 when it is not a segment's. */
uint64_t segment_name_parse(const char *name);

struct segment_create {
    uint64_t generation;
    uint64_t allocated_bytes;
    uint64_t disk;
    uint32_t cluster_epoch;
};
/* A new file, allocated, its header and name durable. Queue thread. */
enum rc segment_create(struct segment_table *table, const struct segment_create *create,
                       struct segment **out, struct error *error);
/* An existing file: checks its header. The state is SEALED, the tail 0: recovery sets them.
 * RC_CORRUPT: no valid header. Queue thread or start-up. */
enum rc segment_open(struct segment_table *table, uint64_t generation, struct segment **out,
                     struct error *error);

/* Any thread. NULL: unknown or retired; a row that names it is out of date. */
struct segment *segment_acquire(struct segment_table *table, uint64_t generation);
void segment_release(struct segment_table *table, struct segment *segment);

/* Room for a region, or 0. Queue thread. */
uint64_t segment_allocate(struct segment *segment, uint64_t bytes);
/* No more regions; what was allocated past the tail is given back. */
void segment_seal(struct segment_table *table, struct segment *segment);
/* After a writer left: the last one of a sealed segment takes the descriptor of early syncs with
 * it. */
void segment_writers_gone(struct segment_table *table, struct segment *segment);
/* From now on nobody acquires it; the file is closed when the last holder lets go. The caller
 * unlinks. */
void segment_retire(struct segment_table *table, struct segment *segment);

#endif
