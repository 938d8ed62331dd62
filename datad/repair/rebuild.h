/*
 * One lost shard from k survivors (or a copy from one), written to its disk under a new attempt.
 *
 *     begin -> [ pace -> read a chunk of k survivors -> decode (pool) -> append ]* -> seal
 *
 * Reed-Solomon works byte by byte, and a stripe takes the same range in every shard: so chunks of
 * any size will do, and memory is (k + 1) chunks whatever the extent. A survivor that fails in one
 * chunk is replaced by another for that chunk only. Lives on one loop.
 */
#ifndef DATAD_REPAIR_REBUILD_H
#define DATAD_REPAIR_REBUILD_H

#include "common/base/limits.h"
#include "common/client/data_client.h"
#include "common/env/env.h"

enum { REBUILD_MEMORY_BYTES = 1024 * 1024 }; /* at most, but at least one block for each survivor */

/* Bytes of repair traffic in time; shared by the rebuilds of a loop. */
struct repair_pace {
    uint64_t bytes_per_s;
    uint64_t next_ns;
};
/* How long to wait before moving `bytes`. */
uint64_t repair_pace_wait(struct repair_pace *pace, uint64_t now_ns, uint64_t bytes);

struct rebuild {
    /* In; unchanged until done. */
    struct env *env;
    struct data_client *data;
    struct repair_pace *pace;
    struct extent_id extent;
    bool replica; /* shards are full copies */
    uint32_t k;
    uint32_t m;
    uint64_t shard_length;
    uint64_t disks[LIMIT_SHARDS]; /* shard i on disks[i] */
    uint32_t good;                /* bitmap: held, nothing known against them */
    uint32_t doubtful;            /* bitmap: held, but a block is bad; asked last */
    uint32_t want;
    uint32_t attempt;
    struct shard_origin origin; /* the key is borrowed */
    void (*done)(struct rebuild *rebuild);
    /* Out: RC_OK: durable. RC_CORRUPT: too few survivors could be read. Others: of the disk written
     * to. */
    enum rc rc;
    /* Private. */
    struct shard_writer writer;
    struct shard_read reads[LIMIT_SHARDS];
    uint8_t *buffers[LIMIT_SHARDS]; /* by shard; NULL: none yet */
    uint8_t *out;
    size_t chunk_bytes;
    uint64_t at;
    size_t len;       /* of the chunk under way */
    uint32_t present; /* bitmap: read well in this chunk */
    uint32_t failed;  /* bitmap: could not be read in this chunk */
    uint32_t pending;
    bool begun;
    struct env_timer timer;
    struct env_work work;
};

void rebuild_start(struct rebuild *rebuild);

#endif
