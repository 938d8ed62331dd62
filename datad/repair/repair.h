/*
 * Keeps every extent at its full number of shards. Three sources of work, in this order:
 *
 *     hints   shards whose checksum failed in a read: datad_take_bad(), repair_hint()
 *     queue   writes committed with some shards missing: meta->repairs(), every few seconds
 *     walk    every row that owns extents against what the disks of its group hold: at start when a
 *             disk is new (its refill), on demand, again while something is missing
 *
 * One per process, on one loop. Memory is bounded (REPAIR_PARALLEL extents at a time), traffic is
 * paced.
 */
#ifndef DATAD_REPAIR_REPAIR_H
#define DATAD_REPAIR_REPAIR_H

#include "common/client/meta_client.h"
#include "datad/datad.h"

struct repair;

enum { REPAIR_PARALLEL = 4, REPAIR_HINTS_MAX = 256 };

struct repair_options {
    struct env *env;
    struct meta_client *meta; /* of this loop, both */
    struct data_client *data;
    struct datad *datad;  /* bad shards, new disks; may be NULL (another process's datads) */
    uint64_t bytes_per_s; /* read and written; 0: 256 MiB/s */
    uint64_t poll_ms;     /* of the queue; 0: 5,000 */
};

struct repair *repair_open(const struct repair_options *options);
/* Ends after the extents under way. */
void repair_close(struct repair *repair, void (*done)(void *arg), void *arg);

/* A walk over everything, as soon as possible. */
void repair_walk(struct repair *repair);
/* "Shard X of extent Y on this disk is bad." On the loop of the repair. Dropped when too many wait:
 * the next walk finds it. */
void repair_hint(struct repair *repair, uint64_t disk, const struct shard_id *shard);

struct repair_status {
    bool walking;
    uint64_t walk_done;  /* extents looked at in this walk */
    uint64_t walk_total; /* about: of the last complete walk; 0: not known */
    uint64_t
        deficit; /* shards missing: as of the last complete walk, or found so far in this one */
    uint64_t lost_extents;   /* of these walks: fewer than k shards can be read */
    uint64_t walks;          /* complete ones since start */
    uint64_t rebuilt_shards; /* since start */
    uint64_t rebuilt_bytes;
    uint64_t failures; /* extents that could not be looked at or told about, since start */
    char error[160];   /* of the last such failure */
};
/* Any thread. */
void repair_status(const struct repair *repair, struct repair_status *out);

#endif
