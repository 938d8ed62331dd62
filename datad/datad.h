/*
 * The data service of one process: one datad over all its directories, each a disk. Segments,
 * index, group commit, reads, deletes, compaction, refill of what a disk lacks.
 */
#ifndef DATAD_DATAD_H
#define DATAD_DATAD_H

#include "common/client/data_client.h"
#include "common/env/env.h"
#include "common/kv/kv.h"

struct datad;
struct meta_client;

enum { DATAD_DISKS_MAX = 64 };

struct datad_disk_options {
    uint64_t id;      /* minted by root, stands in the directory's identity file */
    const char *path; /* DIR/data is ours */
};

struct datad_options {
    struct env *env; /* the loop it lives on */
    struct datad_disk_options disks[DATAD_DISKS_MAX];
    uint32_t disk_count;
    uint64_t segment_bytes;  /* 0: 512 MiB */
    uint64_t free_bytes_min; /* below this of free space a disk takes no writes; 0: 256 MiB */
    uint64_t cache_bytes;    /* block cache of the indexes together */
    uint32_t cluster_epoch;
    /* NULL: kv_rocksdb_open. The simulator gives its own. */
    enum rc (*kv_open)(struct kv **out, const struct kv_options *options, struct error *error);
};

/* Opens and recovers every disk (index replayed, or rebuilt from segments). A disk that fails is
 * reported missing, not fatal. Blocking: at start-up, on the calling thread. */
enum rc datad_open(struct datad **out, const struct datad_options *options, struct error *error);
/* Completes what is under way, then flushes and closes. */
void datad_close(struct datad *datad, void (*done)(void *arg), void *arg);

/* A client for the loop of `env`; any number. Freed by datad_close(). */
struct data_client *datad_client(struct datad *datad, struct env *env);

struct datad_disk_status {
    uint64_t id;
    const char *path;
    bool healthy;
    char state[24]; /* "healthy", "full", "missing", "failed", "read-only" */
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t segment_count;
    uint64_t live_bytes; /* of shards that exist */
    uint64_t dead_bytes; /* deleted, not yet compacted */
    uint64_t bad_blocks; /* checksum failures seen since start */
    uint64_t syncs;      /* fdatasync calls since start */
    bool fresh;    /* nothing was there at open, now or before, and repair has not filled it yet */
    char why[160]; /* not healthy or full: what happened */
};
/* Any thread. Returns how many. */
uint32_t datad_status(struct datad *datad, struct datad_disk_status *out, uint32_t max);

/* Shards whose checksums failed since the last call, for repair. One loop only. Returns how many.
 */
struct datad_bad {
    uint64_t disk;
    struct shard_id shard;
};
uint32_t datad_take_bad(struct datad *datad, struct datad_bad *out, uint32_t max);

/* A disk was empty at open, now or at an earlier start, and its refill is not complete. */
bool datad_needs_refill(struct datad *datad);
/* Repair found every shard in its place: the disks are as full as they should be. On the loop of
 * datad. */
void datad_filled(struct datad *datad);

#endif
