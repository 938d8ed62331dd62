/* The steps of check.h, in the order of the table at the end. */
#include "datad/repair/check.h"

#include "common/base/assert.h"
#include "common/ec/stripe.h"

enum { EXTENT_KIND_REPLICA = 1, EXTENT_KIND_STRIPED = 2, PIECES_PAGE = 64 };

static struct check *check_of(struct task *task)
{
    return CONTAINER_OF(task, struct check, task);
}

static struct slice bytes_of(ProtobufCBinaryData data)
{
    return slice_of(data.data, data.len);
}

static ProtobufCBinaryData binary_of(struct slice bytes)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)bytes.data, .len = bytes.len};
}

/* ---- Origin: what the header of a bad shard names ---- */

static void origin_done(struct shard_stat *stat)
{
    struct check *check = CONTAINER_OF(stat, struct check, stats[0]);

    /* The mark that it is bad is why we ask. */
    task_resume(&check->task, stat->rc == RC_CORRUPT ? RC_OK : stat->rc);
}

static enum step_result check_origin(struct task *task)
{
    struct check *check = check_of(task);

    if (check->from != CHECK_HINT) {
        return STEP_NEXT;
    }
    check->stats[0] = (struct shard_stat){
        .disk = check->disk, .shard = check->hint, .want_origin = true, .done = origin_done};
    check->data->stat(check->data, &check->stats[0]);
    return STEP_WAIT;
}

static enum step_result check_named(struct task *task)
{
    struct check *check = check_of(task);
    const struct shard_stat *stat = &check->stats[0];

    if (check->from == CHECK_HINT) {
        check->bucket_id = stat->origin.home_bucket;
        check->key = arena_copy(&check->arena, stat->origin.home_key);
        check->layout_id =
            arena_copy(&check->arena, slice_of(&stat->origin.layout, EXTENT_ID_BYTES));
        check->extent_id =
            arena_copy(&check->arena, slice_of(&check->hint.extent, EXTENT_ID_BYTES));
    }
    return STEP_NEXT;
}

/* ---- Resolve: the extent in its layout, page by page; its absence is an answer ---- */

static const Kist__Extent *resolve_find(const struct check *check)
{
    const struct meta_pieces *call = &check->pieces;

    for (size_t i = 0; i < call->piece_count; i++) {
        const Kist__Piece *piece = call->pieces[i];
        if (piece->owner == NULL && piece->extent != NULL &&
            slice_eq(bytes_of(piece->extent->id), check->extent_id)) {
            return piece->extent;
        }
    }
    return NULL;
}

static enum step_result resolve_ask(struct task *task)
{
    struct check *check = CONTAINER_OF(task, struct check, resolve);
    uint64_t offset = check->pieces.offset;

    check->pieces = (struct meta_pieces){.bucket_id = check->bucket_id,
                                         .key = check->key,
                                         .layout_id = check->layout_id,
                                         .offset = offset,
                                         .limit = PIECES_PAGE,
                                         .arena = &check->arena};
    return check->meta->pieces(check->meta, &check->pieces, task);
}

static enum step_result resolve_next(struct task *task)
{
    struct check *check = CONTAINER_OF(task, struct check, resolve);
    struct meta_pieces *call = &check->pieces;
    enum step_result result;

    check->extent = resolve_find(check);
    if (check->extent != NULL || call->piece_count == 0) {
        return STEP_DONE;
    }
    call->offset = call->first_offset;
    for (size_t i = 0; i < call->piece_count; i++) {
        call->offset += call->pieces[i]->length;
    }
    result = resolve_ask(task);
    return result == STEP_NEXT ? STEP_REPEAT : result == STEP_WAIT ? STEP_AGAIN : result;
}

static const struct step resolve_steps[] = {
    {"ask",  resolve_ask },
    {"next", resolve_next},
    {NULL,   NULL        }
};

static void resolve_ended(struct task *resolve)
{
    struct check *check = CONTAINER_OF(resolve, struct check, resolve);
    enum rc rc = resolve->error.rc == RC_NOT_FOUND ? RC_OK : resolve->error.rc;

    check->resolve_over = true;
    if (check->waits) {
        check->waits = false;
        task_resume(&check->task, rc);
    }
}

static enum step_result resolve_start(struct check *check)
{
    check->extent = NULL;
    check->pieces.offset = 0;
    check->resolve_over = false;
    check->waits = false;
    task_start(&check->resolve, resolve_steps, resolve_ended);
    if (check->resolve_over) {
        enum rc rc = check->resolve.error.rc;
        return rc == RC_OK || rc == RC_NOT_FOUND
                   ? STEP_NEXT
                   : task_fail(&check->task, rc, "layout: %s", rc_text(rc));
    }
    check->waits = true;
    return STEP_WAIT;
}

static enum step_result check_resolve(struct task *task)
{
    struct check *check = check_of(task);

    if (check->from == CHECK_PIECE) {
        check->extent = check->piece->extent;
        check->extent_id = bytes_of(check->extent->id);
        return STEP_NEXT;
    }
    return resolve_start(check);
}

/* ---- Place: where its shards belong now ---- */

static enum step_result check_place(struct task *task)
{
    struct check *check = check_of(task);
    const Kist__Extent *extent = check->extent;
    struct view *view = check->meta->view(check->meta);
    const Kist__PlacementGroup *group;

    if (extent == NULL) {
        check->result.gone = true;
        return STEP_NEXT;
    }
    group = view_group(view, extent->pg);
    check->count = extent->data_shards + extent->parity_shards;
    bool sane =
        extent->id.len == EXTENT_ID_BYTES && extent->data_shards >= 1 &&
        extent->data_shards <= LIMIT_DATA_SHARDS && extent->parity_shards <= LIMIT_PARITY_SHARDS &&
        extent->length <= LIMIT_EXTENT_BYTES && extent->stripe_unit % LIMIT_DISK_ALIGN_BYTES == 0 &&
        (extent->kind == EXTENT_KIND_STRIPED ? extent->stripe_unit > 0 : extent->data_shards == 1);
    if (!sane) {
        return task_fail(task, RC_CORRUPT, "an extent's row makes no sense");
    }
    if (group == NULL || group->n_disks < check->count) {
        return task_fail(task, RC_STALE, "placement group %llu is not known",
                         (unsigned long long)extent->pg);
    }
    memcpy(check->disks, group->disks, check->count * sizeof(check->disks[0]));
    check->group_epoch = group->epoch;
    return STEP_NEXT;
}

/* ---- Stat: all shards at once ---- */

static void stat_done(struct shard_stat *stat)
{
    struct check *check = CONTAINER_OF(stat - stat->shard.index, struct check, stats[0]);
    uint32_t index = stat->shard.index;
    uint32_t bit = 1U << index;

    check->attempts[index] = stat->attempt;
    if (stat->rc == RC_OK) {
        check->held |= bit;
    } else if (stat->rc == RC_CORRUPT) {
        check->bad |= bit;
    } else {
        check->doubt = check->doubt || stat->removed;
    }
    check->pending -= 1;
    if (check->pending == 0) {
        task_resume(&check->task, RC_OK);
    }
}

static enum step_result check_stat(struct task *task)
{
    struct check *check = check_of(task);

    if (check->result.gone) {
        return STEP_NEXT;
    }
    check->pending = check->count;
    for (uint32_t i = 0; i < check->count; i++) {
        struct shard_stat *stat = &check->stats[i];
        *stat =
            (struct shard_stat){.disk = check->disks[i], .shard = {.index = i}, .done = stat_done};
        memcpy(stat->shard.extent.bytes, check->extent->id.data, EXTENT_ID_BYTES);
        check->data->stat(check->data, stat);
    }
    return STEP_WAIT;
}

/* A shard that somebody removed: is the extent being reclaimed? Rebuilding it would make a leak. */
static enum step_result check_doubt(struct task *task)
{
    struct check *check = check_of(task);

    return check->doubt ? resolve_start(check) : STEP_NEXT;
}

static enum step_result check_plan(struct task *task)
{
    struct check *check = check_of(task);
    uint32_t all = check->count > 0 ? (uint32_t)((1ULL << check->count) - 1) : 0;

    check->result.gone = check->extent == NULL;
    check->doubt = false;
    if (!check->result.gone) {
        check->to_do = all & ~check->held;
        check->result.missing = (uint32_t)__builtin_popcount(check->to_do);
    }
    return STEP_NEXT;
}

/* ---- Rebuild: one missing shard after the other ---- */

static void rebuild_ended(struct rebuild *rebuild)
{
    struct check *check = CONTAINER_OF(rebuild, struct check, rebuild);

    if (rebuild->rc == RC_OK) {
        check->held |= 1U << rebuild->want;
        check->bad &= ~(1U << rebuild->want);
        check->rebuilt |= 1U << rebuild->want;
        check->result.rebuilt += 1;
        check->result.rebuilt_bytes += rebuild->shard_length;
    } else if (rebuild->rc == RC_CORRUPT) {
        check->result.lost = true;
    }
    task_resume(&check->task, RC_OK);
}

static enum step_result check_rebuild(struct task *task)
{
    struct check *check = check_of(task);
    const Kist__Extent *extent = check->extent;
    struct rebuild *rebuild = &check->rebuild;
    struct stripe_geometry geometry;
    uint32_t want;

    if (check->to_do == 0) {
        return STEP_NEXT;
    }
    want = (uint32_t)__builtin_ctz(check->to_do);
    check->to_do &= check->to_do - 1;
    if (!check->data->healthy(check->data, check->disks[want])) {
        return STEP_REPEAT; /* stays in the deficit until its disk is back */
    }
    geometry = (struct stripe_geometry){
        .k = extent->data_shards, .unit = extent->stripe_unit, .length = extent->length};
    *rebuild = (struct rebuild){
        .env = check->env,
        .data = check->data,
        .pace = check->pace,
        .replica = extent->kind == EXTENT_KIND_REPLICA,
        .k = extent->data_shards,
        .m = extent->parity_shards,
        .shard_length = stripe_shard_length(&geometry),
        .good = check->held,
        .doubtful = check->bad,
        .want = want,
        .attempt = check->attempts[want] + 1,
        .origin = {.home_bucket = check->bucket_id,
                   .home_key = check->key,
                   .group = extent->pg,
                   .group_epoch = check->group_epoch},
        .done = rebuild_ended
    };
    memcpy(rebuild->extent.bytes, extent->id.data, EXTENT_ID_BYTES);
    memcpy(rebuild->disks, check->disks, sizeof(rebuild->disks));
    if (check->layout_id.len == EXTENT_ID_BYTES) {
        memcpy(rebuild->origin.layout.bytes, check->layout_id.data, EXTENT_ID_BYTES);
    }
    rebuild_start(rebuild);
    return STEP_AGAIN;
}

/* ---- Still owned? Its reclaim may have passed while it was rebuilt ---- */

static void wanted_done(struct shard_stat *stat)
{
    struct check *check = CONTAINER_OF(stat - stat->shard.index, struct check, stats[0]);

    check->doubt = stat->rc == RC_NOT_FOUND && stat->removed;
    task_resume(&check->task, RC_OK);
}

static enum step_result check_wanted(struct task *task)
{
    struct check *check = check_of(task);
    uint32_t survivors = (check->held | check->bad) & ~check->rebuilt;
    struct shard_stat *stat;

    if (check->rebuilt == 0 || survivors == 0) {
        return STEP_NEXT;
    }
    stat = &check->stats[__builtin_ctz(survivors)];
    stat->done = wanted_done;
    check->data->stat(check->data, stat);
    return STEP_WAIT;
}

static enum step_result check_owned(struct task *task)
{
    struct check *check = check_of(task);

    if (check->rebuilt == 0) {
        return STEP_NEXT;
    }
    check->result.gone = check->extent == NULL;
    return STEP_NEXT;
}

static void undo_done(struct shard_delete *undo)
{
    struct check *check = CONTAINER_OF(undo, struct check, undo);

    task_resume(&check->task, RC_OK);
}

/* Only what was rebuilt here: its delete may have come before it was sealed. */
static enum step_result check_undo(struct task *task)
{
    struct check *check = check_of(task);
    uint32_t index;

    if (!check->result.gone || check->rebuilt == 0) {
        return STEP_NEXT;
    }
    index = (uint32_t)__builtin_ctz(check->rebuilt);
    check->rebuilt &= check->rebuilt - 1;
    check->undo = (struct shard_delete){
        .disk = check->disks[index], .shard = {.index = index}, .done = undo_done};
    check->undo.shard.extent = check->rebuild.extent;
    check->data->remove(check->data, &check->undo);
    return STEP_AGAIN;
}

/* ---- SET_DURABLE ---- */

static enum step_result check_tell(struct task *task)
{
    struct check *check = check_of(task);
    uint32_t durable = check->result.gone ? 0 : check->held;
    bool news = check->extent != NULL && (durable & ~check->extent->durable) != 0;

    if (!news && check->queue_key.len == 0) {
        return STEP_NEXT;
    }
    kist__set_durable__init(&check->durable);
    check->durable.bucket_id = check->bucket_id;
    check->durable.key = binary_of(check->key);
    check->durable.layout_id = binary_of(check->layout_id);
    check->durable.extent_id =
        check->extent != NULL ? check->extent->id : binary_of(check->extent_id);
    check->durable.durable = durable;
    check->durable.queue_key = binary_of(check->queue_key);
    check->write = (struct meta_write){
        .command = META_SET_DURABLE, .message = &check->durable.base, .arena = &check->arena};
    return check->meta->write(check->meta, &check->write, task);
}

static const struct step check_steps[] = {
    {"origin",  check_origin },
    {"named",   check_named  },
    {"resolve", check_resolve},
    {"place",   check_place  },
    {"stat",    check_stat   },
    {"doubt",   check_doubt  },
    {"plan",    check_plan   },
    {"rebuild", check_rebuild},
    {"wanted",  check_wanted },
    {"recheck", check_doubt  },
    {"owned",   check_owned  },
    {"undo",    check_undo   },
    {"tell",    check_tell   },
    {NULL,      NULL         },
};

static void check_ended(struct task *task)
{
    struct check *check = check_of(task);

    arena_deinit(&check->arena);
    check->done(check);
}

void check_start(struct check *check)
{
    check->result = (struct check_result){0};
    check->extent = NULL;
    check->held = 0;
    check->bad = 0;
    check->to_do = 0;
    check->count = 0;
    check->rebuilt = 0;
    check->doubt = false;
    arena_init(&check->arena);
    task_start(&check->task, check_steps, check_ended);
}
