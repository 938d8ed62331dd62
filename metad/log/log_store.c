/*
 * The log writer: everything pending becomes one batch with one sync.
 *
 *     log_store_write ... log_store_write      (loop)
 *              \             /
 *           writer_batch: rows -> kv batch -> synced write        (writer thread)
 *                      |
 *                write_done: RC_OK, or the store is failed and every watcher hears of it   (loop)
 *
 * Promise: when `done` runs with RC_OK the write and all before it survive a power cut. It does not
 * retry: after a failed sync nobody knows what the disk holds.
 */
#include "metad/log/log_store.h"

#include <stdatomic.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/log/log_rows.h"
#include "metad/log/log_store_internal.h"

enum {
    BATCH_BYTES_MAX = 8 * 1024 * 1024, /* larger ones are split: each is copied into memory twice */
    BLOB_BYTES_MIN = 1024,
    ENTRIES_MEMTABLE_BYTES = 4 * 1024 * 1024,
    GROUPS_MEMTABLE_BYTES = 512 * 1024
};

#define SPACE_LOOK_NS 1000000000ULL

void log_store_kv_options(struct kv_options *options)
{
    options->family_count = 2;
    options->families[LOG_FAMILY_GROUPS] = (struct kv_family){
        .name = "groups",
        .memtable_bytes = GROUPS_MEMTABLE_BYTES,
    };
    options->families[LOG_FAMILY_ENTRIES] = (struct kv_family){
        .name = "entries",
        .blobs = true,
        .blob_bytes_min = BLOB_BYTES_MIN,
        .memtable_bytes = ENTRIES_MEMTABLE_BYTES,
    };
    options->write_ahead_log = true;
    options->background_threads = 1;
}

static void batch_delete_entries(struct kv_batch *batch, uint64_t group, uint64_t from, uint64_t to)
{
    char from_key[LOG_ENTRY_KEY_BYTES];
    char to_key[LOG_ENTRY_KEY_BYTES];

    log_entry_key(from_key, group, from);
    log_entry_key(to_key, group, to);
    kv_batch_delete_range(batch, LOG_FAMILY_ENTRIES, slice_of(from_key, sizeof(from_key)),
                          slice_of(to_key, sizeof(to_key)));
}

void log_batch_put_numbers(struct kv_batch *batch, uint64_t group, enum log_row_kind kind,
                           const uint64_t *numbers, uint32_t count)
{
    char key[LOG_GROUP_KEY_BYTES];
    char value[LOG_GROUP_VALUE_BYTES_MAX];
    const size_t len = log_numbers_encode(value, group, kind, numbers, count);

    log_group_key(key, group, kind);
    kv_batch_put(batch, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)), slice_of(value, len));
}

static void batch_put_snapshot(struct kv_batch *batch, uint64_t group, enum log_row_kind kind,
                               const struct log_snapshot *snapshot)
{
    char key[LOG_GROUP_KEY_BYTES];
    char value[LOG_GROUP_VALUE_BYTES_MAX];
    const size_t len = log_snapshot_encode(value, group, kind, snapshot);

    log_group_key(key, group, kind);
    kv_batch_put(batch, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)), slice_of(value, len));
}

void log_batch_put_entry(struct kv_batch *batch, uint64_t group, uint64_t index,
                         const struct log_entry *entry)
{
    char key[LOG_ENTRY_KEY_BYTES];
    char header[LOG_ENTRY_HEADER_BYTES];
    struct slice parts[2];

    log_entry_key(key, group, index);
    log_entry_header(header, key, entry);
    parts[0] = slice_of(header, sizeof(header));
    parts[1] = slice_of(entry->data, entry->len);
    kv_batch_put_parts(batch, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), parts, 2);
}

void log_batch_add(struct kv_batch *batch, const struct log_write *write)
{
    if (write->what & LOG_WRITE_TERM) {
        const uint64_t numbers[2] = {write->term, write->vote};

        log_batch_put_numbers(batch, write->group, LOG_ROW_TERM, numbers, 2);
    }
    if (write->what & LOG_WRITE_TRUNCATE) {
        batch_delete_entries(batch, write->group, write->truncate_from, UINT64_MAX);
    }
    if (write->what & LOG_WRITE_ENTRIES) {
        for (uint32_t i = 0; i < write->entry_count; i++) {
            log_batch_put_entry(batch, write->group, write->first_index + i, &write->entries[i]);
        }
    }
    if (write->what & LOG_WRITE_TRIM) {
        batch_put_snapshot(batch, write->group, LOG_ROW_SNAPSHOT, write->snapshot);
        batch_delete_entries(batch, write->group, 0, write->trim_below);
    }
    if (write->what & LOG_WRITE_INSTALLING) {
        batch_put_snapshot(batch, write->group, LOG_ROW_INSTALLING, write->snapshot);
    }
    if (write->what & LOG_WRITE_INSTALLED) {
        char key[LOG_GROUP_KEY_BYTES];

        batch_delete_entries(batch, write->group, 0, UINT64_MAX);
        batch_put_snapshot(batch, write->group, LOG_ROW_SNAPSHOT, write->snapshot);
        log_group_key(key, write->group, LOG_ROW_INSTALLING);
        kv_batch_delete(batch, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)));
    }
}

/* Writer thread. */
static enum rc writer_flush(struct log_store *store)
{
    struct error error = {.rc = RC_OK};

    if (kv_batch_count(store->batch) == 0) {
        return RC_OK;
    }
    if (kv_write(store->kv, store->batch, KV_SYNCED, &error) != RC_OK) {
        atomic_store(&store->failed, true);
        store->error = error;
        error_prefix(&store->error, "write the replicated log");
        kv_batch_clear(store->batch);
        LOG_ERROR("log_write_failed", "error=\"%s\"", store->error.text);
        return store->error.rc;
    }
    return RC_OK;
}

static void writer_batch(struct env_queue *queue, struct list *works)
{
    struct log_store *store = CONTAINER_OF(queue, struct log_store, queue);
    enum rc rc = RC_OK;

    for (struct list *at = works->next; at != works; at = at->next) {
        struct log_write *write =
            CONTAINER_OF(CONTAINER_OF(at, struct env_work, link), struct log_write, work);

        if (!atomic_load(&store->failed)) {
            log_batch_add(store->batch, write);
            if (kv_batch_bytes(store->batch) > BATCH_BYTES_MAX) {
                (void)writer_flush(store);
            }
        }
    }
    if (!atomic_load(&store->failed)) {
        (void)writer_flush(store);
    }
    /* One failed part fails all of them: the order of completions must stay the order of the log.
     */
    rc = atomic_load(&store->failed) ? RC_IO : RC_OK;
    for (struct list *at = works->next; at != works; at = at->next) {
        CONTAINER_OF(CONTAINER_OF(at, struct env_work, link), struct log_write, work)->rc = rc;
    }
}

static void watchers_tell(struct log_store *store)
{
    struct list told;

    list_init(&told);
    while (!list_empty(&store->watchers)) {
        struct log_watch *watch =
            CONTAINER_OF(list_pop_front(&store->watchers), struct log_watch, link);

        list_push_back(&told, &watch->link);
        watch->failed(watch, &store->error);
    }
    while (!list_empty(&told)) {
        list_push_back(&store->watchers, list_pop_front(&told));
    }
}

static void write_done(struct env_work *work)
{
    struct log_write *write = CONTAINER_OF(work, struct log_write, work);
    struct log_store *store = write->store;

    ASSERT(store->pending > 0);
    store->pending--;
    if (write->rc != RC_OK && !store->told) {
        store->told = true;
        watchers_tell(store);
    }
    write->done(write);
}

static void write_run(struct env_work *work)
{
    (void)work; /* the queue has a batch function */
}

void log_store_write(struct log_store *store, struct env *env, struct log_write *write)
{
    ASSERT(write->done != NULL && write->what != 0);
    ASSERT((write->what & (LOG_WRITE_TRIM | LOG_WRITE_INSTALLING | LOG_WRITE_INSTALLED)) == 0 ||
           write->snapshot != NULL);
    write->store = store;
    write->rc = RC_OK;
    write->work.run = write_run;
    write->work.done = write_done;
    store->pending++;
    env->worker->submit(env, &store->queue, &write->work);
}

void log_store_watch(struct log_store *store, struct log_watch *watch)
{
    list_push_back(&store->watchers, &watch->link);
}

void log_store_unwatch(struct log_watch *watch)
{
    list_remove(&watch->link);
}

void log_store_guard_space(struct log_store *store, const char *path, uint64_t floor_bytes)
{
    mem_free(store->space_path);
    store->space_path = mem_copy(path, strlen(path));
    store->space_floor_bytes = floor_bytes;
    store->space_next_ns = 0;
}

bool log_store_full(struct log_store *store)
{
    struct env *env = store->env;
    const uint64_t now_ns = env->clock->mono_ns(env);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;

    if (store->space_path == NULL || now_ns < store->space_next_ns) {
        return store->full;
    }
    store->space_next_ns = now_ns + SPACE_LOOK_NS;
    if (env->file->space(env, store->space_path, &free_bytes, &total_bytes) == RC_OK) {
        const bool full = free_bytes < store->space_floor_bytes;

        if (full != store->full) {
            LOG_WARN(full ? "log_disk_full" : "log_disk_has_room", "path=%s free_bytes=%llu",
                     store->space_path, (unsigned long long)free_bytes);
        }
        store->full = full;
    }
    return store->full;
}

enum rc log_store_open(struct log_store **out, struct env *env, struct kv *kv, struct error *error)
{
    struct log_store *store = NULL;
    enum rc rc = RC_OK;

    ASSERT(env != NULL && kv != NULL);
    /* What came back from the store's own log may be in the page cache only (a failed sync, kill
     * -9): it is written into tables and synced before anybody may act on it. */
    rc = kv->ops->flush(kv, error);
    if (rc != RC_OK) {
        return error_prefix(error, "open the replicated log: rewrite what was recovered");
    }
    store = mem_alloc(sizeof(*store));
    store->env = env;
    store->kv = kv;
    store->batch = kv_batch_new();
    list_init(&store->watchers);
    store->queue.name = "metad-log";
    store->queue.batch = writer_batch;
    env->worker->queue_open(env, &store->queue);
    *out = store;
    return RC_OK;
}

void log_store_close(struct log_store *store)
{
    ASSERT(store->pending == 0);
    ASSERT(list_empty(&store->watchers));
    store->env->worker->queue_close(store->env, &store->queue);
    kv_batch_free(store->batch);
    kv_close(store->kv);
    mem_free(store->space_path);
    mem_free(store);
}
