/*
 * Frees what nothing names any more (DESIGN 4.4), on the loop of the leader:
 *
 *     pass: purge rows (uploads of deleted buckets) -> queue rows that are due, a batch at a time
 *     row:  CONDEMN -> shards deleted on their disks, extent by extent -> RECLAIMED
 *
 * Apply decides; this only proposes and carries out, and may stop anywhere: every step can be
 * repeated. A row whose shards could not all be deleted (a disk is away) stays for a later pass.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/client/data_client.h"
#include "common/log/log.h"
#include "metad/server_private.h"
#include "metad/store/message.h"

enum {
    RECLAIM_WORKERS = 32, /* rows under way: their entries share syncs */
    RECLAIM_BATCH = 256,
    RECLAIM_PURGE_STEPS = 64, /* of one pass */
    RECLAIM_IDLE_MS = 1000,
    RECLAIM_RETRY_MS = 10000,
    RECLAIM_WRITE_MS = 10000
};

static const uint64_t NS_PER_MS = 1000000ULL;

struct reclaim_row {
    struct slice queue_key;
    Kist__Reclaim *row;
};

/* One row under way. */
struct reclaim_worker {
    struct task task;
    struct reclaim *reclaim;
    bool busy;
    struct arena arena;
    const struct reclaim_row *row; /* NULL: a purge step */
    uint64_t purge_bucket;
    uint32_t purge_steps;
    struct view *view;
    struct meta_write write;
    union {
        Kist__Condemn condemn;
        Kist__Reclaimed reclaimed;
        Kist__PurgeBucket purge;
    } message;
    /* Extents to delete. */
    Kist__Piece **pieces;
    size_t piece_count;
    size_t piece_at;
    bool from_rows; /* they come from layout rows, a row at a time */
    bool rows_end;
    uint64_t next_offset;
    struct env_work work;
    struct store *store;
    enum rc rc;
    struct shard_delete deletes[LIMIT_SHARDS];
    uint32_t deleting;
};

struct reclaim {
    struct metad *metad;
    struct env *env;
    struct data_client *data;
    struct machine *machine; /* of the leader here; NULL: not ours to do */
    struct env_timer timer;
    bool scanning;
    struct env_work work;
    struct store *store;
    uint64_t due_max;
    struct slice cursor; /* last queue key of the batch before */
    struct arena arena;  /* of the batch */
    struct reclaim_row rows[RECLAIM_BATCH];
    uint32_t row_count;
    uint32_t row_at;
    bool more; /* the queue goes on behind the batch */
    uint64_t purge_bucket;
    bool failed; /* something was left for later in this pass */
    enum rc rc;
    struct error error;
    struct reclaim_worker workers[RECLAIM_WORKERS];
    uint32_t busy_count;
    void (*close_done)(void *owner);
    void *close_owner;
};

static void reclaim_go_on(struct reclaim *reclaim);

/* ---- The queue, on a work thread ---- */

static void scan_purges(struct reclaim *reclaim)
{
    const struct kv_ops *ops = reclaim->store->kv->ops;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;
    struct row_name name;

    key_range(&lower, RANGE_FIRST, KIND_PURGE, SLICE_EMPTY);
    upper = lower;
    (void)row_key_after_prefix(&upper);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = ops->iter_open(reclaim->store->kv, &options);
    ops->iter_seek(iter, options.lower);
    if (ops->iter_valid(iter) && row_name_parse(&reclaim->arena, ops->iter_key(iter), &name) &&
        name.suffix.len == 8) {
        reclaim->purge_bucket = be64_get(name.suffix.data);
    }
    ops->iter_close(iter);
}

static bool scan_row(struct reclaim *reclaim, struct slice key, struct slice value)
{
    struct reclaim_row *row = &reclaim->rows[reclaim->row_count];

    row->row = message_unpack(&reclaim->arena, &kist__reclaim__descriptor, value);
    if (row->row == NULL) {
        reclaim->rc = error_set(&reclaim->error, RC_CORRUPT, "a reclaim row does not decode");
        return false;
    }
    if (row->row->due > reclaim->due_max) {
        return false; /* in order of time: none behind it is due */
    }
    row->queue_key = arena_copy(&reclaim->arena, key);
    reclaim->row_count += 1;
    return true;
}

static void scan_run(struct env_work *work)
{
    struct reclaim *reclaim = CONTAINER_OF(work, struct reclaim, work);
    const struct kv_ops *ops = reclaim->store->kv->ops;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS, .bulk = true};
    struct kv_iter *iter;

    reclaim->rc = RC_OK;
    reclaim->purge_bucket = 0;
    scan_purges(reclaim);
    key_range(&lower, RANGE_FIRST, KIND_RECLAIM, SLICE_EMPTY);
    upper = lower;
    (void)row_key_after_prefix(&upper);
    if (reclaim->cursor.len > 0) {
        lower.len = 0;
        row_key_append(&lower, reclaim->cursor);
        row_key_append(&lower, SLICE("\0"));
    }
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = ops->iter_open(reclaim->store->kv, &options);
    ops->iter_seek(iter, options.lower);
    reclaim->more = false;
    while (ops->iter_valid(iter)) {
        if (reclaim->row_count == RECLAIM_BATCH) {
            reclaim->more = true;
            break;
        }
        if (!scan_row(reclaim, ops->iter_key(iter), ops->iter_value(iter))) {
            break;
        }
        ops->iter_next(iter);
    }
    if (reclaim->rc == RC_OK) {
        reclaim->rc = ops->iter_rc(iter, &reclaim->error);
    }
    ops->iter_close(iter);
}

/* ---- Layout rows of a long list, on a work thread ---- */

static void chunk_run(struct env_work *work)
{
    struct reclaim_worker *worker = CONTAINER_OF(work, struct reclaim_worker, work);
    const Kist__Reclaim *row = worker->row->row;
    const struct kv_ops *ops = worker->store->kv->ops;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;
    const Kist__LayoutChunk *chunk;

    key_object(&upper, row->bucket_id, message_bytes(row->key), KIND_LAYOUT,
               message_bytes(row->layout_id));
    (void)row_key_after_prefix(&upper);
    key_object_u64(&lower, row->bucket_id, message_bytes(row->key), KIND_LAYOUT,
                   message_bytes(row->layout_id), worker->next_offset);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = ops->iter_open(worker->store->kv, &options);
    ops->iter_seek(iter, options.lower);
    worker->rc = RC_OK;
    if (!ops->iter_valid(iter)) {
        worker->rows_end = true;
        worker->rc = ops->iter_rc(iter, NULL);
    } else {
        chunk =
            message_unpack(&worker->arena, &kist__layout_chunk__descriptor, ops->iter_value(iter));
        if (chunk == NULL) {
            worker->rc = RC_CORRUPT;
        } else {
            worker->pieces = chunk->pieces;
            worker->piece_count = chunk->n_pieces;
            worker->piece_at = 0;
            worker->next_offset = chunk->offset + 1;
        }
    }
    ops->iter_close(iter);
}

static void chunk_done(struct env_work *work)
{
    struct reclaim_worker *worker = CONTAINER_OF(work, struct reclaim_worker, work);

    store_unref(worker->store);
    task_resume(&worker->task, worker->rc);
}

/* ---- One row ---- */

static struct reclaim_worker *worker_of(struct task *task)
{
    return CONTAINER_OF(task, struct reclaim_worker, task);
}

static enum step_result worker_write(struct reclaim_worker *worker, enum meta_command command,
                                     const ProtobufCMessage *message)
{
    struct meta_client *client = worker->reclaim->metad->client;

    worker->write = (struct meta_write){.command = command,
                                        .message = message,
                                        .deadline_ms = RECLAIM_WRITE_MS,
                                        .arena = &worker->arena};
    return client->write(client, &worker->write, &worker->task);
}

static enum step_result row_condemn(struct task *task)
{
    struct reclaim_worker *worker = worker_of(task);
    const Kist__Reclaim *row = worker->row->row;
    Kist__Condemn *call = &worker->message.condemn;

    kist__condemn__init(call);
    call->bucket_id = row->bucket_id;
    call->key = row->key;
    call->layout_id = row->layout_id;
    call->pieces = row->pieces;
    call->n_pieces = row->n_pieces;
    return worker_write(worker, META_CONDEMN, &call->base);
}

static void delete_done(struct shard_delete *call)
{
    struct reclaim_worker *worker = NULL;
    size_t at = call->shard.index;

    worker = CONTAINER_OF(call - at, struct reclaim_worker, deletes[0]);
    if (call->rc != RC_OK && worker->rc == RC_OK) {
        worker->rc = call->rc;
    }
    worker->deleting -= 1;
    if (worker->deleting == 0) {
        task_resume(&worker->task, worker->rc);
    }
}

/* All shards of one extent at once. A lost disk holds none any more. */
static enum step_result delete_extent(struct reclaim_worker *worker, const Kist__Extent *extent)
{
    struct reclaim *reclaim = worker->reclaim;
    const Kist__PlacementGroup *group = view_group(worker->view, extent->pg);

    if (reclaim->data == NULL) {
        return task_fail(&worker->task, RC_CANCELLED, "no data service");
    }
    if (group == NULL || group->n_disks > LIMIT_SHARDS || extent->id.len != EXTENT_ID_BYTES) {
        return task_fail(&worker->task, RC_NOT_FOUND, "placement group %llu is not known",
                         (unsigned long long)extent->pg);
    }
    worker->rc = RC_OK;
    worker->deleting = (uint32_t)group->n_disks;
    for (uint32_t i = 0; i < group->n_disks; i++) {
        struct shard_delete *call = &worker->deletes[i];

        *call = (struct shard_delete){.disk = group->disks[i], .done = delete_done};
        memcpy(call->shard.extent.bytes, extent->id.data, EXTENT_ID_BYTES);
        call->shard.index = i;
    }
    for (uint32_t i = 0; i < group->n_disks; i++) {
        reclaim->data->remove(reclaim->data, &worker->deletes[i]);
    }
    return STEP_AGAIN;
}

static enum step_result next_chunk(struct reclaim_worker *worker)
{
    struct reclaim *reclaim = worker->reclaim;

    if (reclaim->machine == NULL) {
        return task_fail(&worker->task, RC_NOT_LEADER, "leadership was lost");
    }
    worker->store = machine_store(reclaim->machine);
    worker->work.run = chunk_run;
    worker->work.done = chunk_done;
    reclaim->env->worker->submit(reclaim->env, NULL, &worker->work);
    return STEP_AGAIN;
}

/* Re-entered after every extent and every layout row. */
static enum step_result row_shards(struct task *task)
{
    struct reclaim_worker *worker = worker_of(task);
    const Kist__Reply *reply = worker->write.reply;

    if (reply->outcome == KIST__OUTCOME__STILL_REFERENCED) {
        return STEP_NEXT; /* the hint goes */
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return task_fail(task, RC_INVALID, "condemn was refused (%d)", (int)reply->outcome);
    }
    if (!worker->from_rows && worker->pieces == NULL && reply->n_pieces > 0) {
        worker->pieces = reply->pieces;
        worker->piece_count = reply->n_pieces;
        worker->rows_end = true;
    }
    ASSERT(worker->piece_count == 0 || worker->pieces != NULL);
    while (worker->piece_at < worker->piece_count) {
        const Kist__Piece *piece = worker->pieces[worker->piece_at++];

        if (piece->owner == NULL && piece->extent != NULL) {
            return delete_extent(worker, piece->extent);
        }
    }
    worker->from_rows = true;
    return worker->rows_end ? STEP_NEXT : next_chunk(worker);
}

static enum step_result row_reclaimed(struct task *task)
{
    struct reclaim_worker *worker = worker_of(task);
    const Kist__Reclaim *row = worker->row->row;
    Kist__Reclaimed *call = &worker->message.reclaimed;

    kist__reclaimed__init(call);
    call->bucket_id = row->bucket_id;
    call->key = row->key;
    call->layout_id = row->layout_id;
    call->queue_key = message_field(worker->row->queue_key);
    return worker_write(worker, META_RECLAIMED, &call->base);
}

static const struct step row_steps[] = {
    {"condemn",   row_condemn  },
    {"shards",    row_shards   },
    {"reclaimed", row_reclaimed},
    {NULL,        NULL         }
};

/* ---- Uploads of a deleted bucket ---- */

static enum step_result purge_step(struct task *task)
{
    struct reclaim_worker *worker = worker_of(task);
    Kist__PurgeBucket *call = &worker->message.purge;
    enum step_result result;

    if (worker->purge_steps > 0 && worker->write.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return STEP_NEXT; /* the purge row is gone: done */
    }
    if (worker->purge_steps == RECLAIM_PURGE_STEPS) {
        worker->reclaim->failed = true;
        return STEP_NEXT;
    }
    worker->purge_steps += 1;
    kist__purge_bucket__init(call);
    call->bucket_id = worker->purge_bucket;
    result = worker_write(worker, META_PURGE_BUCKET, &call->base);
    return result == STEP_WAIT ? STEP_AGAIN : result;
}

static const struct step purge_steps[] = {
    {"purge", purge_step},
    {NULL,    NULL      }
};

/* ---- Workers ---- */

static void worker_done(struct task *task)
{
    struct reclaim_worker *worker = worker_of(task);
    struct reclaim *reclaim = worker->reclaim;

    if (task->error.rc != RC_OK) {
        LOG_DEBUG("reclaim_later", "step=%s error=\"%s\"", task_step_name(task), task->error.text);
        reclaim->failed = true;
    }
    view_unref(worker->view);
    arena_deinit(&worker->arena);
    worker->busy = false;
    reclaim->busy_count -= 1;
    reclaim_go_on(reclaim);
}

static void worker_start(struct reclaim *reclaim, const struct reclaim_row *row, uint64_t bucket_id)
{
    struct meta_client *client = reclaim->metad->client;
    struct reclaim_worker *worker = NULL;

    for (uint32_t i = 0; worker == NULL && i < RECLAIM_WORKERS; i++) {
        worker = reclaim->workers[i].busy ? NULL : &reclaim->workers[i];
    }
    ASSERT(worker != NULL);
    *worker = (struct reclaim_worker){.reclaim = reclaim,
                                      .busy = true,
                                      .row = row,
                                      .purge_bucket = bucket_id,
                                      .view = view_ref(client->view(client))};
    arena_init(&worker->arena);
    reclaim->busy_count += 1;
    task_start(&worker->task, row != NULL ? row_steps : purge_steps, worker_done);
}

/* ---- Passes ---- */

static void pass_begin(struct reclaim *reclaim);

static void scan_done(struct env_work *work)
{
    struct reclaim *reclaim = CONTAINER_OF(work, struct reclaim, work);

    store_unref(reclaim->store);
    reclaim->scanning = false;
    if (reclaim->rc != RC_OK) {
        LOG_ERROR("reclaim_scan_failed", "error=\"%s\"", reclaim->error.text);
        reclaim->row_count = 0;
        reclaim->more = false;
        reclaim->failed = true;
    }
    if (reclaim->purge_bucket != 0 && reclaim->rc == RC_OK && reclaim->close_done == NULL) {
        worker_start(reclaim, NULL, reclaim->purge_bucket);
    }
    reclaim_go_on(reclaim);
}

static bool reclaim_may(const struct reclaim *reclaim)
{
    return reclaim->machine != NULL && reclaim->data != NULL && reclaim->metad->client != NULL &&
           reclaim->close_done == NULL;
}

static void scan_start(struct reclaim *reclaim)
{
    struct slice cursor = SLICE_EMPTY;
    uint64_t now_ns = reclaim->env->clock->wall_ns(reclaim->env);
    uint64_t grace_ns = reclaim->metad->options.reclaim_grace_ms * NS_PER_MS;
    struct arena next;

    arena_init(&next);
    if (reclaim->more && reclaim->row_count > 0) {
        cursor = arena_copy(&next, reclaim->rows[reclaim->row_count - 1].queue_key);
    }
    arena_deinit(&reclaim->arena);
    reclaim->arena = next;
    reclaim->cursor = cursor;
    reclaim->row_count = 0;
    reclaim->row_at = 0;
    reclaim->due_max = now_ns > grace_ns ? now_ns - grace_ns : 0;
    reclaim->store = machine_store(reclaim->machine);
    reclaim->scanning = true;
    reclaim->work.run = scan_run;
    reclaim->work.done = scan_done;
    reclaim->env->worker->submit(reclaim->env, NULL, &reclaim->work);
}

static void pass_later(struct reclaim *reclaim)
{
    uint64_t wait_ms = reclaim->failed ? RECLAIM_RETRY_MS : RECLAIM_IDLE_MS;

    reclaim->env->clock->timer_start(reclaim->env, &reclaim->timer, wait_ms * NS_PER_MS);
}

static void pass_begin(struct reclaim *reclaim)
{
    reclaim->more = false;
    reclaim->row_count = 0;
    reclaim->failed = false;
    if (reclaim_may(reclaim)) {
        scan_start(reclaim);
    } else if (reclaim->close_done == NULL) {
        pass_later(reclaim);
    }
}

static void reclaim_timer(struct env_timer *timer)
{
    pass_begin(CONTAINER_OF(timer, struct reclaim, timer));
}

static void close_finish(struct reclaim *reclaim)
{
    void (*done)(void *owner) = reclaim->close_done;
    void *owner = reclaim->close_owner;

    arena_deinit(&reclaim->arena);
    mem_free(reclaim);
    done(owner);
}

static void reclaim_go_on(struct reclaim *reclaim)
{
    if (reclaim->scanning) {
        return;
    }
    while (reclaim_may(reclaim) && reclaim->row_at < reclaim->row_count &&
           reclaim->busy_count < RECLAIM_WORKERS) {
        worker_start(reclaim, &reclaim->rows[reclaim->row_at++], 0);
        if (reclaim->scanning) {
            return; /* the last worker ended at once and the next batch was begun */
        }
    }
    if (reclaim->busy_count > 0) {
        return;
    }
    if (reclaim->close_done != NULL) {
        close_finish(reclaim);
    } else if (reclaim_may(reclaim) && reclaim->more) {
        scan_start(reclaim);
    } else {
        pass_later(reclaim);
    }
}

/* ---- Life ---- */

struct reclaim *reclaim_open(struct metad *metad)
{
    struct reclaim *reclaim = mem_alloc(sizeof(*reclaim));

    reclaim->metad = metad;
    reclaim->env = metad->env;
    reclaim->timer.fire = reclaim_timer;
    arena_init(&reclaim->arena);
    pass_later(reclaim);
    return reclaim;
}

void reclaim_set_data(struct reclaim *reclaim, struct data_client *data)
{
    reclaim->data = data;
}

void reclaim_leader(struct reclaim *reclaim, struct machine *machine)
{
    reclaim->machine = machine;
}

void reclaim_close(struct reclaim *reclaim, void (*done)(void *owner), void *owner)
{
    reclaim->machine = NULL;
    reclaim->close_done = done;
    reclaim->close_owner = owner;
    reclaim->env->clock->timer_stop(reclaim->env, &reclaim->timer);
    if (!reclaim->scanning && reclaim->busy_count == 0) {
        close_finish(reclaim);
    }
}
