/*
 * One extent made whole: who holds which shard, rebuild what is missing, tell metad.
 *
 *     origin (a hint: only a shard is known) -> resolve (a queue row: only an extent id is known)
 *       -> stat every shard of the current group -> rebuild each that is missing or bad
 *       -> still owned? (else what was rebuilt is removed again) -> SET_DURABLE
 *
 * Lives on one loop; several run side by side, each with an arena of its own.
 */
#ifndef DATAD_REPAIR_CHECK_H
#define DATAD_REPAIR_CHECK_H

#include "common/client/meta_client.h"
#include "datad/repair/rebuild.h"

enum check_from { CHECK_PIECE, CHECK_QUEUE, CHECK_HINT };

struct check_result {
    uint32_t missing; /* shards that were not there, or bad */
    uint32_t rebuilt; /* of these, now there */
    uint64_t rebuilt_bytes;
    bool lost; /* fewer than k survivors could be read: data is lost unless a disk comes back */
    bool gone; /* no layout of that name owns the extent (any more) */
};

struct check {
    /* In. */
    struct env *env;
    struct meta_client *meta;
    struct data_client *data;
    struct repair_pace *pace;
    enum check_from from;
    uint64_t disk;        /* HINT */
    struct shard_id hint; /* HINT */
    uint64_t bucket_id;   /* PIECE, QUEUE; these are borrowed until done */
    struct slice key;
    struct slice layout_id;
    struct slice extent_id;   /* QUEUE */
    struct slice queue_key;   /* QUEUE: of the row that is done when nothing is missing */
    const Kist__Piece *piece; /* PIECE */
    void (*done)(struct check *check);
    /* Out. */
    struct check_result result;
    /* Private. */
    struct task task;    /* its error says why nothing could be told */
    struct task resolve; /* sub-task: the extent in its layout */
    bool resolve_over;
    bool waits; /* the task waits for `resolve` */
    struct arena arena;
    const Kist__Extent *extent;
    uint64_t group_epoch;
    uint64_t disks[LIMIT_SHARDS];
    uint32_t count;
    uint32_t held; /* bitmaps */
    uint32_t bad;
    uint32_t to_do;
    uint32_t rebuilt;
    bool doubt; /* a shard was removed by somebody: is the extent still owned? */
    uint32_t attempts[LIMIT_SHARDS];
    uint32_t pending;
    struct shard_stat stats[LIMIT_SHARDS];
    struct rebuild rebuild;
    struct shard_delete undo;
    struct meta_pieces pieces;
    struct meta_write write;
    Kist__SetDurable durable;
};

void check_start(struct check *check);

#endif
