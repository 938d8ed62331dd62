/*
 * Policy (DESIGN 5.4): k + 1 shards must be durable wherever there is parity at all, so that one
 * loss is still tolerated; metad refuses fewer than it asks, too. With m = 1 that means all of
 * them: a group that lost a disk takes no more writes, and the next extent goes to a narrower one.
 */
#include "gateway/object/extent_writer.h"

#include <string.h>

#include "common/base/assert.h"

/* ---- Choice of the group ---- */

static bool group_healthy(const struct view *view, struct data_client *data,
                          const Kist__PlacementGroup *group)
{
    for (size_t i = 0; i < group->n_disks; i++) {
        const struct view_disk *disk = view_disk(view, group->disks[i]);

        if (disk == NULL || !disk->healthy || !data->healthy(data, group->disks[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t group_rank(const Kist__PlacementGroup *group)
{
    return group->parity_shards * (LIMIT_DATA_SHARDS + 1) + group->data_shards;
}

static bool group_well_formed(const Kist__PlacementGroup *group)
{
    return group->data_shards >= 1 && group->data_shards <= LIMIT_DATA_SHARDS &&
           group->parity_shards <= LIMIT_PARITY_SHARDS &&
           group->n_disks == (size_t)group->data_shards + group->parity_shards;
}

const Kist__PlacementGroup *extent_choose_group(const struct view *view, struct data_client *data,
                                                uint64_t start)
{
    const Kist__PlacementGroup *best = NULL;
    size_t count = view_group_count(view);
    uint32_t widest = 0;
    uint32_t best_rank = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t rank = group_rank(view_group_at(view, i));

        widest = rank > widest ? rank : widest;
    }
    for (size_t i = 0; i < count && best_rank < widest; i++) {
        const Kist__PlacementGroup *group = view_group_at(view, (start % count + i) % count);
        uint32_t rank = group_rank(group);

        if (rank > best_rank && group_well_formed(group) && group_healthy(view, data, group)) {
            best = group;
            best_rank = rank;
        }
    }
    if (best != NULL && best->parity_shards == 0 && widest > LIMIT_DATA_SHARDS) {
        return NULL; /* the cluster promises to survive a loss: single copies are not for us to make
                      */
    }
    return best;
}

enum rc extent_no_group(const struct view *view, struct data_client *data)
{
    for (size_t i = 0; data->full != NULL && i < view_group_count(view); i++) {
        const Kist__PlacementGroup *group = view_group_at(view, i);

        for (size_t j = 0; j < group->n_disks; j++) {
            if (data->full(data, group->disks[j])) {
                return RC_FULL;
            }
        }
    }
    return RC_BUSY;
}

/* ---- Calls to all shards ---- */

uint32_t extent_writer_shards(const struct extent_writer *writer)
{
    uint32_t data = writer->kind == EXTENT_KIND_REPLICA ? 1 : writer->group->data_shards;

    return data + writer->group->parity_shards;
}

static uint32_t extent_need(const struct extent_writer *writer)
{
    uint32_t data = writer->kind == EXTENT_KIND_REPLICA ? 1 : writer->group->data_shards;

    return data + (writer->group->parity_shards > 0 ? 1 : 0);
}

/* What a shard's failure means for the whole extent: the client may try again, or the disk is full.
 */
static enum rc extent_rc(enum rc rc)
{
    switch ((int)rc) {
    case RC_FULL:
        return RC_FULL;
    case RC_STALE: /* the group moved, or the disk went, since the view was made */
    case RC_NOT_FOUND:
    case RC_BUSY:
        return RC_BUSY;
    default:
        return RC_IO;
    }
}

static void extent_shard_done(struct shard_writer *call)
{
    struct extent_shard *shard = CONTAINER_OF(call, struct extent_shard, call);
    struct extent_writer *writer = shard->extent;
    uint32_t bit = 1U << call->shard.index;

    ASSERT(writer->pending > 0);
    writer->pending -= 1;
    if ((writer->alive & bit) == 0) {
        /* It had failed before and was only aborted now. */
    } else if (call->rc != RC_OK) {
        writer->alive &= ~bit;
        writer->rc = extent_rc(call->rc);
        if (writer->step == EXTENT_BEGIN) {
            writer->open &= ~bit; /* it never was */
        }
    } else if (writer->step == EXTENT_SEAL) {
        writer->durable |= bit;
    }
    if (writer->pending > 0) {
        return;
    }
    if ((uint32_t)__builtin_popcount(writer->alive) >= extent_need(writer)) {
        writer->rc = RC_OK;
    }
    writer->done(writer);
}

void extent_writer_init(struct extent_writer *writer, struct extent_shard *shards,
                        uint64_t shard_bytes)
{
    writer->shards = shards;
    writer->count = extent_writer_shards(writer);
    writer->alive = (uint32_t)((1ULL << writer->count) - 1);
    writer->open = 0;
    writer->durable = 0;
    writer->pending = 0;
    writer->step = EXTENT_NEW;
    writer->rc = RC_OK;
    ASSERT(writer->count <= LIMIT_SHARDS && writer->count <= writer->group->n_disks);
    for (uint32_t i = 0; i < writer->count; i++) {
        struct shard_writer *call = &shards[i].call;

        memset(&shards[i], 0, sizeof(shards[i]));
        shards[i].extent = writer;
        call->disk = writer->group->disks[i];
        call->shard = (struct shard_id){.extent = writer->id, .index = i};
        call->origin = (struct shard_origin){.layout = writer->layout,
                                             .home_bucket = writer->home_bucket,
                                             .home_key = writer->home_key,
                                             .group = writer->group->id,
                                             .group_epoch = writer->group->epoch};
        call->reserved_bytes = shard_bytes;
        call->done = extent_shard_done;
    }
}

/* All of `shards` count as pending before the first is asked. */
static void extent_call(struct extent_writer *writer, uint32_t shards, enum extent_step step)
{
    ASSERT(writer->pending == 0);
    ASSERT(shards != 0);
    writer->rc = RC_OK;
    writer->step = step;
    writer->pending = (uint32_t)__builtin_popcount(shards);
}

void extent_writer_put(struct extent_writer *writer, const struct slice *units)
{
    uint32_t alive = writer->alive;

    extent_call(writer, alive, EXTENT_SEAL);
    for (uint32_t i = 0; i < writer->count; i++) {
        if ((alive >> i & 1) != 0) {
            writer->data->put(writer->data, &writer->shards[i].call, units[i]);
        }
    }
}

void extent_writer_begin(struct extent_writer *writer)
{
    uint32_t alive = writer->alive;

    extent_call(writer, alive, EXTENT_BEGIN);
    writer->open = alive;
    for (uint32_t i = 0; i < writer->count; i++) {
        if ((alive >> i & 1) != 0) {
            writer->data->begin(writer->data, &writer->shards[i].call);
        }
    }
}

void extent_writer_append(struct extent_writer *writer, const struct slice *units)
{
    uint32_t alive = writer->alive;

    extent_call(writer, alive, EXTENT_APPEND);
    for (uint32_t i = 0; i < writer->count; i++) {
        if ((alive >> i & 1) != 0) {
            writer->data->append(writer->data, &writer->shards[i].call, units[i]);
        }
    }
}

/* Ends every open shard: those in `seal` are made durable, the others dropped. */
static void extent_end(struct extent_writer *writer, uint32_t seal)
{
    uint32_t open = writer->open;

    extent_call(writer, open, seal != 0 ? EXTENT_SEAL : EXTENT_ABORT);
    writer->open = 0;
    for (uint32_t i = 0; i < writer->count; i++) {
        struct shard_writer *call = &writer->shards[i].call;

        if ((open & seal) >> i & 1) {
            writer->data->seal(writer->data, call);
        } else if (open >> i & 1) {
            writer->data->abort(writer->data, call);
        }
    }
}

void extent_writer_seal(struct extent_writer *writer)
{
    ASSERT(writer->alive != 0 && (writer->alive & ~writer->open) == 0);
    extent_end(writer, writer->alive);
}

bool extent_writer_abort(struct extent_writer *writer)
{
    if (writer->open == 0) {
        return false; /* never begun, or sealed: sealed shards are deleted, not aborted */
    }
    writer->alive = 0;
    extent_end(writer, 0);
    return true;
}
