/* Opening, states and closing of one disk. What its thread does is in commit.c. */
#include "datad/store/store.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/store/commit.h"
#include "datad/store/recover.h"

enum {
    SCRATCH_BYTES = 4 * SEGMENT_ALIGN + SEGMENT_BLOCKS_MAX * SEGMENT_CRC_BYTES,
    SEGMENTS_PER_DISK = 64 /* a small disk gets segments of a 64th, not one that fills it */
};

enum store_state store_state(const struct store *store)
{
    return (enum store_state)atomic_load_explicit(&store->state, memory_order_acquire);
}

enum rc store_read_rc(const struct store *store)
{
    return store_state(store) == STORE_MISSING || store->index.kv == NULL ? RC_NOT_FOUND : RC_OK;
}

enum rc store_write_rc(const struct store *store)
{
    switch (store_state(store)) {
    case STORE_HEALTHY:
        return RC_OK;
    case STORE_FULL:
        return RC_FULL;
    case STORE_MISSING:
        return RC_NOT_FOUND;
    case STORE_READ_ONLY:
    case STORE_FAILED:
        break;
    }
    return RC_IO;
}

const char *store_state_text(enum store_state state)
{
    static const char *const texts[] = {"healthy", "full", "read-only", "missing", "failed"};

    ASSERT((size_t)state < ARRAY_LEN(texts));
    return texts[state];
}

void store_isolate(struct store *store, enum store_state state, const char *why)
{
    int now = atomic_load(&store->state);

    ASSERT(state >= STORE_READ_ONLY);
    while (now < STORE_READ_ONLY) {
        if (atomic_compare_exchange_weak(&store->state, &now, (int)state)) {
            (void)snprintf(store->error_text, sizeof(store->error_text), "%s", why);
            LOG_ERROR("disk_isolated", "disk=%llu path=%s state=%s why=\"%s\"",
                      (unsigned long long)store->options.id, store->options.path,
                      store_state_text(state), why);
            return;
        }
    }
}

/* 1 / 64 of the disk as a power of two, within the bounds. */
static uint64_t segment_bytes_default(const struct store *store)
{
    uint64_t total = atomic_load(&store->total_bytes);
    uint64_t bytes = STORE_SEGMENT_BYTES;

    while (bytes > STORE_SEGMENT_BYTES_MIN && bytes > total / SEGMENTS_PER_DISK) {
        bytes /= 2;
    }
    return bytes;
}

static enum rc make_directory(struct env *env, const char *path, const char *parent, bool *made)
{
    enum rc rc = env->file->mkdir(env, path);

    *made = rc == RC_OK;
    if (rc == RC_OK) {
        rc = env->file->sync_directory(env, parent);
    }
    return rc == RC_EXISTS ? RC_OK : rc;
}

/* Nothing was here: the file `refill` says so until repair has put everything in its place, also to
 * a later start. */
static enum rc mark_fresh(struct store *store, bool made)
{
    struct env *env = store->env;
    struct env_stat stat;
    char path[SEGMENT_PATH_BYTES];
    int file;
    enum rc rc = RC_OK;

    (void)snprintf(path, sizeof(path), "%s/refill", store->directory);
    if (made) {
        rc = env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, NULL);
        if (rc == RC_OK) {
            env->file->close(env, file);
            rc = env->file->sync_directory(env, store->directory);
        }
    }
    atomic_store(&store->fresh, env->file->stat(env, path, &stat) == RC_OK);
    return rc;
}

void store_filled(struct store *store)
{
    char path[SEGMENT_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/refill", store->directory);
    if (store->env->file->unlink(store->env, path) == RC_OK) {
        (void)store->env->file->sync_directory(store->env, store->directory);
    }
    atomic_store(&store->fresh, false);
}

static enum rc open_directories(struct store *store, struct error *error)
{
    struct env *env = store->env;
    struct env_stat stat;
    bool made = false;
    enum rc rc = env->file->stat(env, store->options.path, &stat);

    if (rc != RC_OK || !stat.is_directory) {
        store_isolate(store, STORE_MISSING, "directory is not there");
        return error_set(error, RC_NOT_FOUND, "%s: directory is not there", store->options.path);
    }
    rc = make_directory(env, store->directory, store->options.path, &made);
    rc = rc == RC_OK ? make_directory(env, store->segment_directory, store->directory, &made) : rc;
    rc = rc == RC_OK ? mark_fresh(store, made) : rc;
    if (rc != RC_OK) {
        enum store_state state = rc == RC_DENIED ? STORE_READ_ONLY : STORE_FAILED;
        store_isolate(store, state, "cannot make directories");
        return error_set(error, rc, "%s: make directories: %s", store->directory, rc_text(rc));
    }
    return RC_OK;
}

static void store_paths(struct store *store)
{
    size_t max = STORE_PATH_BYTES;
    const char *path = store->options.path;

    ASSERT(strlen(path) + 32 < max);
    (void)snprintf(store->directory, max, "%s/data", path);
    (void)snprintf(store->segment_directory, max, "%s/data/segments", path);
    (void)snprintf(store->index_directory, max, "%s/data/index", path);
}

static enum rc open_steps(struct store *store, struct error *error)
{
    enum rc rc = open_directories(store, error);

    if (rc != RC_OK) {
        return rc;
    }
    space_update(store);
    if (store->options.segment_bytes == 0) {
        store->options.segment_bytes = segment_bytes_default(store);
    }
    store->options.segment_bytes = segment_align_up(store->options.segment_bytes);
    rc = epochs_load(&store->epochs, store->env, store->directory, error);
    if (rc != RC_OK) {
        store_isolate(store, STORE_READ_ONLY, error->text);
        return rc;
    }
    rc = recover_index(store, error);
    rc = rc == RC_OK ? recover_segments(store, error) : rc;
    space_sum(store);
    if (rc != RC_OK) {
        store_isolate(store, rc == RC_DENIED ? STORE_READ_ONLY : STORE_FAILED, error->text);
    }
    return rc;
}

struct store *store_open(const struct store_options *options, struct error *error)
{
    struct store *store = mem_alloc(sizeof(*store));
    struct error own = {0};

    store->options = *options;
    store->env = options->env;
    if (store->options.free_bytes_min == 0) {
        store->options.free_bytes_min = STORE_FREE_BYTES_MIN;
    }
    if (store->options.kv_open == NULL) {
        store->options.kv_open = kv_rocksdb_open;
    }
    store_paths(store);
    store->table = mem_alloc(sizeof(*store->table));
    segment_table_init(store->table, store->env, store->segment_directory);
    list_init(&store->segments);
    hash_map_init(&store->writers);
    store->batch = kv_batch_new();
    store->scratch = mem_alloc_pages(SCRATCH_BYTES);
    store->generation_next = 1;
    store->queue = (struct env_queue){.name = "kist-disk", .batch = commit_batch};
    if (open_steps(store, &own) != RC_OK && error != NULL) {
        *error = own;
    }
    return store;
}

void store_start(struct store *store, struct env *env)
{
    env->worker->queue_open(env, &store->queue);
}

static void store_job_done(struct env_work *work)
{
    struct store_job *job = CONTAINER_OF(work, struct store_job, work);

    job->done(job);
}

void store_submit(struct store *store, struct env *env, struct store_job *job)
{
    ASSERT(job->done != NULL);
    job->store = store;
    job->segment = NULL;
    job->next = NULL;
    job->rc = RC_OK;
    job->work = (struct env_work){.done = store_job_done};
    env->worker->submit(env, &store->queue, &job->work);
}

void store_free(struct store *store, struct env *env)
{
    env->worker->queue_close(env, &store->queue);
    index_close(&store->index);
    segment_table_deinit(store->table);
    mem_free(store->table);
    epochs_deinit(&store->epochs);
    hash_map_deinit(&store->writers);
    kv_batch_free(store->batch);
    mem_free(store->scratch);
    mem_free(store);
}

bool store_take_bad(struct store *store, struct shard_id *out)
{
    uint32_t taken = atomic_load_explicit(&store->bad_taken, memory_order_relaxed);

    if (taken == atomic_load_explicit(&store->bad_put, memory_order_acquire)) {
        return false;
    }
    *out = store->bad[taken % STORE_BAD_MAX];
    atomic_store_explicit(&store->bad_taken, taken + 1, memory_order_release);
    return true;
}
