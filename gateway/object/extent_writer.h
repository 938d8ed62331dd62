/*
 * One extent on its way to the disks of a placement group: every call goes to all shards that are
 * still alive, and completes when all have answered. A shard that fails drops out; the extent goes
 * on for as long as the policy can hold.
 *
 *     put  |  begin -> append ... -> seal        abort at any time between calls
 */
#ifndef GATEWAY_OBJECT_EXTENT_WRITER_H
#define GATEWAY_OBJECT_EXTENT_WRITER_H

#include "common/base/limits.h"
#include "gateway/gateway.h"

enum extent_kind { EXTENT_KIND_REPLICA = 1, EXTENT_KIND_STRIPED = 2 }; /* Extent.kind */

enum extent_step { EXTENT_NEW = 0, EXTENT_BEGIN, EXTENT_APPEND, EXTENT_SEAL, EXTENT_ABORT };

struct extent_writer;

struct extent_shard {
    struct shard_writer call;
    struct extent_writer *extent;
};

struct extent_writer {
    void (*done)(struct extent_writer *writer); /* of the call under way; never inside it */
    enum rc rc; /* of that call: RC_OK, or the extent cannot be saved */
    /* In. */
    struct data_client *data;
    const Kist__PlacementGroup *group;
    enum extent_kind kind;
    struct extent_id id;
    struct extent_id layout;
    uint64_t home_bucket;
    struct slice home_key;
    /* Out. */
    uint32_t durable; /* shards whose seal (or put) succeeded */
    /* Private. */
    uint32_t alive;              /* shards that have not failed */
    uint32_t open;               /* begun, neither sealed nor aborted */
    uint32_t count;              /* shards */
    uint32_t pending;            /* answers of the call under way */
    enum extent_step step;       /* the call under way, or the last */
    struct extent_shard *shards; /* `count` of them */
};

/* Healthy now, and among those the one with most parity, then most data shards (common/placement):
 * the scheme itself when all disks are there. `start` (any number) spreads the choice. NULL: none
 * that keeps at least one loss tolerable, though the scheme does. */
const Kist__PlacementGroup *extent_choose_group(const struct view *view, struct data_client *data,
                                                uint64_t start);

/* Why extent_choose_group() found none: RC_FULL when a disk is full, which trying again does not
 * change; else RC_BUSY. */
enum rc extent_no_group(const struct view *view, struct data_client *data);

/* `shards`: room for all of them, the caller's. The fields under "In" and `done` are set already.
 * Shards of at most `shard_bytes`. */
void extent_writer_init(struct extent_writer *writer, struct extent_shard *shards,
                        uint64_t shard_bytes);
/* Shards of the extent, k + m (of a replica 1 + m). */
uint32_t extent_writer_shards(const struct extent_writer *writer);

/* `units[i]`: bytes of shard i, borrowed until done. */
void extent_writer_put(struct extent_writer *writer, const struct slice *units);
void extent_writer_begin(struct extent_writer *writer);
void extent_writer_append(struct extent_writer *writer, const struct slice *units);
void extent_writer_seal(struct extent_writer *writer);
/* Drops what was begun and not sealed. False: nothing to drop, `done` does not follow. */
bool extent_writer_abort(struct extent_writer *writer);

#endif
