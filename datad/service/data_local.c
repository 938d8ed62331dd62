/* The client's table, and the calls that are one job: remove, stat. */
#include "datad/service/data_local.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

struct local_job { /* remove, suspect */
    struct data_local *local;
    struct shard_delete *call; /* NULL: nobody waits */
    struct store_job job;
    struct env_post post;
};

struct local_stat {
    struct data_local *local;
    struct shard_stat *call;
    struct store *store;
    struct env_work work;
    struct env_post post;
    enum rc rc;
};

struct store *data_local_store(const struct data_local *local, uint64_t disk)
{
    for (uint32_t i = 0; i < local->store_count; i++) {
        if (local->stores[i]->options.id == disk) {
            return local->stores[i];
        }
    }
    return NULL;
}

void data_local_begin(struct data_local *local)
{
    atomic_store(&local->used, true); /* before `closing` is looked at */
    atomic_fetch_add_explicit(&local->active, 1, memory_order_relaxed);
}

void data_local_end(struct data_local *local)
{
    uint32_t before = atomic_fetch_sub_explicit(&local->active, 1, memory_order_release);

    ASSERT(before > 0);
}

static bool local_healthy(struct data_client *data, uint64_t disk)
{
    const struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    const struct store *store = data_local_store(local, disk);

    return store != NULL && store_state(store) == STORE_HEALTHY;
}

static bool local_full(struct data_client *data, uint64_t disk)
{
    const struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    const struct store *store = data_local_store(local, disk);

    return store != NULL && store_state(store) == STORE_FULL;
}

static bool local_space(struct data_client *data, uint64_t disk, uint64_t *total_bytes,
                        uint64_t *free_bytes)
{
    const struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    const struct store *store = data_local_store(local, disk);

    if (store == NULL) {
        return false;
    }
    *total_bytes = atomic_load_explicit(&store->total_bytes, memory_order_relaxed);
    *free_bytes = atomic_load_explicit(&store->free_bytes, memory_order_relaxed);
    return true;
}

/* ---- Remove ---- */

static void job_finish(struct local_job *job, enum rc rc)
{
    struct data_local *local = job->local;
    struct shard_delete *call = job->call;

    mem_free(job);
    if (call != NULL) {
        call->rc = rc;
        call->done(call);
    }
    data_local_end(local);
}

static void job_done(struct store_job *done)
{
    struct local_job *job = CONTAINER_OF(done, struct local_job, job);

    job_finish(job, job->job.rc);
}

static void job_refused(struct env_post *post)
{
    struct local_job *job = CONTAINER_OF(post, struct local_job, post);

    job_finish(job, job->job.rc);
}

static void local_remove(struct data_client *data, struct shard_delete *call)
{
    struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    struct store *store = data_local_store(local, call->disk);
    struct local_job *job = mem_alloc(sizeof(*job));

    data_local_begin(local);
    job->local = local;
    job->call = call;
    job->job.kind = JOB_REMOVE;
    job->job.shard = call->shard;
    job->job.done = job_done;
    if (store != NULL && !atomic_load(&local->closing)) {
        store_submit(store, local->env, &job->job);
        return;
    }
    job->job.rc = store == NULL ? RC_NOT_FOUND : RC_CLOSED;
    job->post.run = job_refused;
    local->env->post(local->env, &job->post);
}

void local_suspect(struct data_local *local, struct store *store, const struct shard_id *shard,
                   uint64_t at)
{
    struct local_job *job = mem_alloc(sizeof(*job));

    data_local_begin(local);
    job->local = local;
    job->job.kind = JOB_SUSPECT;
    job->job.shard = *shard;
    job->job.suspect_at = at;
    job->job.done = job_done;
    store_submit(store, local->env, &job->job);
}

void local_index_failed(struct data_local *local, struct store *store, enum rc rc)
{
    struct local_job *job = mem_alloc(sizeof(*job));

    data_local_begin(local);
    job->local = local;
    job->job.kind = JOB_INDEX_FAILED;
    job->job.failure = rc;
    job->job.done = job_done;
    store_submit(store, local->env, &job->job);
}

/* ---- Stat ---- */

static void stat_finish(struct local_stat *stat)
{
    struct data_local *local = stat->local;
    struct shard_stat *call = stat->call;

    call->rc = stat->rc;
    mem_free(stat);
    call->done(call);
    data_local_end(local);
}

static void stat_posted(struct env_post *post)
{
    stat_finish(CONTAINER_OF(post, struct local_stat, post));
}

static void stat_worked(struct env_work *work)
{
    stat_finish(CONTAINER_OF(work, struct local_stat, work));
}

static enum rc stat_origin(struct local_stat *stat, struct segment *segment, uint64_t at)
{
    struct shard_stat *call = stat->call;
    struct env *env = stat->store->env;
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);
    struct shard_header header;
    size_t got = 0;
    enum rc rc = env->file->read(env, segment->file, block, SEGMENT_ALIGN, at, &got);

    if (rc == RC_OK && (got != SEGMENT_ALIGN ||
                        segment_block_check(block, &segment->identity, at) != BLOCK_SHARD)) {
        rc = RC_CORRUPT;
    }
    if (rc == RC_OK) {
        memcpy(&header, block, sizeof(header));
        memcpy(call->origin.layout.bytes, header.layout, EXTENT_ID_BYTES);
        memcpy(call->key, block + sizeof(header), header.key_len);
        call->origin.home_bucket = header.home_bucket;
        call->origin.home_key = slice_of(call->key, header.key_len);
        call->origin.group = header.group;
        call->origin.group_epoch = header.group_epoch;
    }
    mem_free(block);
    return rc;
}

static enum rc stat_row(struct local_stat *stat, unsigned flags)
{
    struct shard_stat *call = stat->call;
    struct index_row row;
    struct segment *segment;
    enum rc rc = index_get(&stat->store->index, &call->shard, flags, &row, NULL);

    if (rc != RC_OK) {
        return rc;
    }
    call->attempt = row.attempt;
    call->length = row.length;
    if (row.kind == INDEX_DEAD) {
        call->removed = true;
        return RC_NOT_FOUND;
    }
    if (call->want_origin && (flags & KV_CACHED_ONLY) != 0) {
        return RC_AGAIN;
    }
    segment = segment_acquire(stat->store->table, row.segment);
    if (segment == NULL) {
        return RC_NOT_FOUND;
    }
    rc = call->want_origin ? stat_origin(stat, segment, row.at) : RC_OK;
    segment_release(stat->store->table, segment);
    return rc == RC_OK && row.suspect ? RC_CORRUPT : rc;
}

static void stat_run(struct env_work *work)
{
    struct local_stat *stat = CONTAINER_OF(work, struct local_stat, work);

    stat->rc = stat_row(stat, KV_ANY);
}

static void local_stat(struct data_client *data, struct shard_stat *call)
{
    struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    struct local_stat *stat = mem_alloc(sizeof(*stat));

    data_local_begin(local);
    stat->local = local;
    stat->call = call;
    stat->store = data_local_store(local, call->disk);
    call->attempt = 0;
    call->removed = false;
    call->length = 0;
    if (stat->store == NULL) {
        stat->rc = RC_NOT_FOUND;
    } else {
        stat->rc = atomic_load(&local->closing) ? RC_CLOSED : store_read_rc(stat->store);
    }
    if (stat->rc == RC_OK) {
        stat->rc = stat_row(stat, KV_CACHED_ONLY);
    }
    if (stat->rc == RC_AGAIN) {
        stat->work = (struct env_work){.run = stat_run, .done = stat_worked};
        local->env->worker->submit(local->env, NULL, &stat->work);
        return;
    }
    stat->post.run = stat_posted;
    local->env->post(local->env, &stat->post);
}

/* ---- Life ---- */

struct data_local *data_local_new(struct env *env, struct store *const *stores,
                                  uint32_t store_count)
{
    struct data_local *local = mem_alloc(sizeof(*local));

    ASSERT(store_count <= DATA_LOCAL_DISKS_MAX);
    local->env = env;
    local->stores = stores;
    local->store_count = store_count;
    list_init(&local->writers);
    local->base = (struct data_client){.begin = local_write_begin,
                                       .append = local_write_append,
                                       .seal = local_write_seal,
                                       .abort = local_write_abort,
                                       .put = local_write_put,
                                       .read = local_read,
                                       .remove = local_remove,
                                       .healthy = local_healthy,
                                       .stat = local_stat,
                                       .full = local_full,
                                       .space = local_space};
    return local;
}

bool data_local_refuse(struct data_local *local)
{
    atomic_store(&local->closing, true);
    return !atomic_load(&local->used);
}

void data_local_close(struct data_local *local)
{
    local_writers_drop(local);
}

bool data_local_idle(const struct data_local *local)
{
    return atomic_load_explicit(&local->active, memory_order_acquire) == 0;
}

void data_local_free(struct data_local *local)
{
    ASSERT(data_local_idle(local));
    mem_free(local);
}
