/*
 * The datad of one process: opens a store per disk, makes clients, and keeps house once a second on
 * the loop that opened it: space and presence, flushes of the indexes, compaction.
 *
 *     close: clients refuse -> nothing is under way -> JOB_CLOSE on every queue -> free -> done
 */
#include "datad/datad.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/service/data_local.h"
#include "datad/store/compact.h"

enum {
    CLIENTS_MAX = 256,
    TICK_MS = 1000,
    CLOSE_POLL_MS = 2,
    FLUSH_MS = 30 * 1000, /* what a crash makes the next start replay is bounded by these two */
    CACHE_BYTES = 8 * 1024 * 1024
};

#define FLUSH_BYTES     (512ULL * 1024 * 1024)
#define CLOSE_NOT_ASKED UINT32_MAX
#define NS_PER_MS       1000000ULL

struct datad_disk {
    struct datad *datad;
    struct store *store;
    char *path;
    struct store_job job; /* tick, close */
    bool job_running;
    bool filled; /* the next job says so */
    struct env_work flush;
    bool flushing;
    uint64_t flushed_ms;
    struct compact *compact;
};

struct datad_client_slot {
    struct data_local *local;
    struct env_post post; /* close */
    struct datad *datad;
};

struct datad {
    struct env *env;
    struct datad_disk disks[DATAD_DISKS_MAX];
    struct store *stores[DATAD_DISKS_MAX];
    uint32_t disk_count;
    struct datad_client_slot *clients[CLIENTS_MAX];
    uint32_t client_count;
    struct kv_cache *cache;
    struct env_timer timer;
    bool closing;
    _Atomic uint32_t clients_told;
    uint32_t close_jobs;
    void (*done)(void *arg);
    void *arg;
};

static uint64_t now_ms(struct datad *datad)
{
    return datad->env->clock->mono_ns(datad->env) / NS_PER_MS;
}

/* ---- House keeping ---- */

static void flush_run(struct env_work *work)
{
    struct datad_disk *disk = CONTAINER_OF(work, struct datad_disk, flush);
    struct store *store = disk->store;
    struct error error = {0};
    enum rc rc = store->index.kv->ops->flush(store->index.kv, &error);

    /* Without a flush the next start replays more, nothing is lost: a full disk is no reason to
     * stop. */
    if (rc != RC_OK) {
        LOG_WARN("index_flush_failed", "disk=%llu error=\"%s\"",
                 (unsigned long long)store->options.id, error.text);
    }
}

static void flush_done(struct env_work *work)
{
    struct datad_disk *disk = CONTAINER_OF(work, struct datad_disk, flush);

    disk->flushing = false;
}

static void disk_flush(struct datad_disk *disk)
{
    struct store *store = disk->store;
    struct env *env = disk->datad->env;
    uint64_t now = now_ms(disk->datad);
    uint64_t batches = atomic_load(&store->unflushed);
    uint64_t bytes = atomic_load(&store->allocated);

    if (disk->flushing || batches == 0 ||
        (now - disk->flushed_ms < FLUSH_MS && bytes < FLUSH_BYTES)) {
        return;
    }
    atomic_fetch_sub(&store->unflushed, batches);
    atomic_fetch_sub(&store->allocated, bytes);
    disk->flushed_ms = now;
    disk->flushing = true;
    disk->flush = (struct env_work){.run = flush_run, .done = flush_done};
    env->worker->submit(env, NULL, &disk->flush);
}

static void disk_job_done(struct store_job *job)
{
    struct datad_disk *disk = CONTAINER_OF(job, struct datad_disk, job);

    disk->job_running = false;
    if (job->kind == JOB_CLOSE) {
        disk->datad->close_jobs -= 1;
    }
}

static void disk_submit(struct datad_disk *disk, enum store_job_kind kind)
{
    ASSERT(!disk->job_running);
    disk->job_running = true;
    disk->job = (struct store_job){.kind = kind, .done = disk_job_done};
    store_submit(disk->store, disk->datad->env, &disk->job);
}

static void disk_tick(struct datad_disk *disk)
{
    struct store *store = disk->store;
    uint64_t wall_ms = store->env->clock->wall_ns(store->env) / NS_PER_MS;
    uint64_t age_ms = (uint64_t)STORE_TOMBSTONE_AGE_S * 1000;
    enum store_state state = store_state(store);

    if (store->index.kv == NULL || (state != STORE_HEALTHY && state != STORE_FULL)) {
        return;
    }
    atomic_store(&store->index.drop_before_ms, wall_ms > age_ms ? wall_ms - age_ms : 0);
    if (!disk->job_running) {
        disk_submit(disk, disk->filled ? JOB_FILLED : JOB_TICK);
        disk->filled = false;
    }
    disk_flush(disk);
    compact_tick(disk->compact);
}

/* ---- Close ---- */

static bool datad_quiet(struct datad *datad)
{
    if (atomic_load(&datad->clients_told) < datad->client_count) {
        return false;
    }
    for (uint32_t i = 0; i < datad->client_count; i++) {
        if (!data_local_idle(datad->clients[i]->local)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        const struct datad_disk *disk = &datad->disks[i];
        if (disk->job_running || disk->flushing || !compact_idle(disk->compact)) {
            return false;
        }
    }
    return true;
}

static void datad_free(struct datad *datad)
{
    for (uint32_t i = 0; i < datad->client_count; i++) {
        data_local_free(datad->clients[i]->local);
        mem_free(datad->clients[i]);
    }
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        compact_free(datad->disks[i].compact);
        store_free(datad->disks[i].store, datad->env);
        mem_free(datad->disks[i].path);
    }
    kv_cache_free(datad->cache);
    mem_free(datad);
}

static void datad_close_step(struct datad *datad)
{
    void (*done)(void *arg) = datad->done;
    void *arg = datad->arg;

    if (datad->close_jobs == 0 && datad_quiet(datad)) {
        datad_free(datad);
        done(arg);
        return;
    }
    datad->env->clock->timer_start(datad->env, &datad->timer, CLOSE_POLL_MS * NS_PER_MS);
}

/* First everything comes to rest, then every queue gets its last job. */
static void datad_close_wait(struct env_timer *timer)
{
    struct datad *datad = CONTAINER_OF(timer, struct datad, timer);

    if (datad->close_jobs != CLOSE_NOT_ASKED) {
        datad_close_step(datad);
        return;
    }
    if (!datad_quiet(datad)) {
        datad->env->clock->timer_start(datad->env, timer, CLOSE_POLL_MS * NS_PER_MS);
        return;
    }
    datad->close_jobs = datad->disk_count;
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        disk_submit(&datad->disks[i], JOB_CLOSE);
    }
    datad->env->clock->timer_start(datad->env, timer, CLOSE_POLL_MS * NS_PER_MS);
}

static void client_close(struct env_post *post)
{
    struct datad_client_slot *slot = CONTAINER_OF(post, struct datad_client_slot, post);

    data_local_close(slot->local);
    atomic_fetch_add(&slot->datad->clients_told, 1);
}

void datad_close(struct datad *datad, void (*done)(void *arg), void *arg)
{
    ASSERT(!datad->closing);
    datad->closing = true;
    datad->done = done;
    datad->arg = arg;
    datad->close_jobs = CLOSE_NOT_ASKED;
    for (uint32_t i = 0; i < datad->client_count; i++) {
        struct datad_client_slot *slot = datad->clients[i];
        if (data_local_refuse(slot->local)) {
            atomic_fetch_add(&datad->clients_told, 1);
            continue;
        }
        slot->post.run = client_close;
        slot->local->env->post(slot->local->env, &slot->post);
    }
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        compact_stop(datad->disks[i].compact);
    }
    datad->timer.fire = datad_close_wait;
    datad->env->clock->timer_start(datad->env, &datad->timer, CLOSE_POLL_MS * NS_PER_MS);
}

/* ---- Open ---- */

static void datad_tick(struct env_timer *timer)
{
    struct datad *datad = CONTAINER_OF(timer, struct datad, timer);

    for (uint32_t i = 0; i < datad->disk_count; i++) {
        disk_tick(&datad->disks[i]);
    }
    datad->env->clock->timer_start(datad->env, timer, TICK_MS * NS_PER_MS);
}

static void disk_open(struct datad *datad, const struct datad_options *options, uint32_t at)
{
    struct datad_disk *disk = &datad->disks[at];
    const char *path = options->disks[at].path;
    struct error error = {0};

    disk->datad = datad;
    disk->path = mem_copy(path, strlen(path));
    disk->store = store_open(&(struct store_options){.env = options->env,
                                                     .id = options->disks[at].id,
                                                     .path = disk->path,
                                                     .segment_bytes = options->segment_bytes,
                                                     .free_bytes_min = options->free_bytes_min,
                                                     .cache = datad->cache,
                                                     .kv_open = options->kv_open,
                                                     .cluster_epoch = options->cluster_epoch},
                             &error);
    store_start(disk->store, options->env);
    disk->compact = compact_new(disk->store, options->env);
    disk->flushed_ms = now_ms(datad);
    datad->stores[at] = disk->store;
}

enum rc datad_open(struct datad **out, const struct datad_options *options, struct error *error)
{
    struct datad *datad;

    if (options->disk_count == 0 || options->disk_count > DATAD_DISKS_MAX) {
        return error_set(error, RC_INVALID, "datad: %u disks", options->disk_count);
    }
    datad = mem_alloc(sizeof(*datad));
    datad->env = options->env;
    datad->disk_count = options->disk_count;
    datad->cache = kv_cache_new(options->cache_bytes != 0 ? options->cache_bytes : CACHE_BYTES);
    for (uint32_t i = 0; i < options->disk_count; i++) {
        disk_open(datad, options, i);
    }
    datad->timer.fire = datad_tick;
    datad->env->clock->timer_start(datad->env, &datad->timer, TICK_MS * NS_PER_MS);
    *out = datad;
    return RC_OK;
}

struct data_client *datad_client(struct datad *datad, struct env *env)
{
    struct datad_client_slot *slot = mem_alloc(sizeof(*slot));

    ASSERT(datad->client_count < CLIENTS_MAX);
    slot->datad = datad;
    slot->local = data_local_new(env, datad->stores, datad->disk_count);
    datad->clients[datad->client_count] = slot;
    datad->client_count += 1;
    return &slot->local->base;
}

/* ---- Status ---- */

uint32_t datad_status(struct datad *datad, struct datad_disk_status *out, uint32_t max)
{
    uint32_t count = datad->disk_count < max ? datad->disk_count : max;

    for (uint32_t i = 0; i < count; i++) {
        struct store *store = datad->stores[i];
        enum store_state state = store_state(store);
        uint64_t segments = atomic_load(&store->segment_count);
        uint64_t end = atomic_load(&store->end_bytes);
        uint64_t live = atomic_load(&store->live_bytes) + segments * SEGMENT_ALIGN;

        out[i] = (struct datad_disk_status){
            .id = store->options.id,
            .path = datad->disks[i].path,
            .healthy = state == STORE_HEALTHY,
            .total_bytes = atomic_load(&store->total_bytes),
            .free_bytes = atomic_load(&store->free_bytes),
            .segment_count = segments,
            .live_bytes = atomic_load(&store->live_bytes),
            .dead_bytes = end > live ? end - live : 0,
            .bad_blocks = atomic_load(&store->bad_blocks),
            .syncs = atomic_load(&store->syncs),
            .fresh = atomic_load(&store->fresh),
        };
        (void)snprintf(out[i].state, sizeof(out[i].state), "%s", store_state_text(state));
        if (state >= STORE_READ_ONLY) {
            (void)snprintf(out[i].why, sizeof(out[i].why), "%.150s", store->error_text);
        }
    }
    return count;
}

uint32_t datad_take_bad(struct datad *datad, struct datad_bad *out, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < datad->disk_count; i++) {
        while (count < max && store_take_bad(datad->stores[i], &out[count].shard)) {
            out[count].disk = datad->stores[i]->options.id;
            count += 1;
        }
    }
    return count;
}

bool datad_needs_refill(struct datad *datad)
{
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        if (atomic_load(&datad->stores[i]->fresh)) {
            return true;
        }
    }
    return false;
}

void datad_filled(struct datad *datad)
{
    for (uint32_t i = 0; i < datad->disk_count; i++) {
        datad->disks[i].filled = atomic_load(&datad->stores[i]->fresh);
    }
}
