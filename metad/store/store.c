#include "metad/store/store.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"

enum {
    STORE_CURRENT_MEMTABLE_BYTES = 8 * 1024 * 1024,
    STORE_ROWS_MEMTABLE_BYTES = 8 * 1024 * 1024,
    STORE_INLINE_MEMTABLE_BYTES = 8 * 1024 * 1024,
    STORE_HISTORY_MEMTABLE_BYTES = 8 * 1024 * 1024,
    STORE_SMALL_MEMTABLE_BYTES = 2 * 1024 * 1024,
    STORE_BLOB_BYTES_MIN = 512, /* shorter bodies cost less inside the table than a second read */
    REQUEST_DUE_TAG = (1 << 3) | 1 /* field 1, 64-bit */
};

bool store_request_due(struct slice value, uint64_t stamp)
{
    if (value.len < 9 || (uint8_t)value.data[0] != REQUEST_DUE_TAG) {
        return false;
    }
    return le64_get(value.data + 1) < stamp;
}

/* On compaction threads. */
static bool rows_drop(void *arg, struct slice key, struct slice value)
{
    const _Atomic uint64_t *durable_stamp = arg;
    uint8_t kind = row_kind_of(key);

    if (kind != KIND_REQUEST && kind != KIND_COMPLETED && kind != KIND_ROOT_REQUEST) {
        return false;
    }
    return store_request_due(value, atomic_load_explicit(durable_stamp, memory_order_acquire));
}

enum rc meta_store_open(struct store **out, const struct store_options *options,
                        struct error *error)
{
    struct kv_options kv = {.path = options->path,
                            .family_count = FAMILY_COUNT,
                            .cache = options->cache,
                            .write_ahead_log = false,
                            .must_exist = options->must_exist};
    kv_open_cb open = options->kv_open != NULL ? options->kv_open : kv_rocksdb_open;
    struct kv *opened = NULL;
    struct store *store;

    kv.families[FAMILY_CURRENT] = (struct kv_family){.name = "current",
                                                     .memtable_bytes = STORE_CURRENT_MEMTABLE_BYTES,
                                                     .whole_key_filter = true,
                                                     .memtable_filter = true};
    kv.families[FAMILY_ROWS] = (struct kv_family){.name = "rows",
                                                  .memtable_bytes = STORE_ROWS_MEMTABLE_BYTES,
                                                  .whole_key_filter = true,
                                                  .memtable_filter = true};
    kv.families[FAMILY_INLINE] = (struct kv_family){.name = "inline",
                                                    .blobs = true,
                                                    .blob_bytes_min = STORE_BLOB_BYTES_MIN,
                                                    .memtable_bytes = STORE_INLINE_MEMTABLE_BYTES,
                                                    .whole_key_filter = true};
    kv.families[FAMILY_LOCAL] =
        (struct kv_family){.name = "local", .memtable_bytes = STORE_SMALL_MEMTABLE_BYTES};
    kv.families[FAMILY_UPLOADS] =
        (struct kv_family){.name = "uploads", .memtable_bytes = STORE_SMALL_MEMTABLE_BYTES};
    kv.families[FAMILY_HISTORY] = (struct kv_family){.name = "history",
                                                     .memtable_bytes = STORE_HISTORY_MEMTABLE_BYTES,
                                                     .whole_key_filter = true};
    if (options->durable_stamp != NULL) {
        kv.families[FAMILY_ROWS].drop = rows_drop;
        kv.families[FAMILY_ROWS].drop_arg = (void *)(uintptr_t)options->durable_stamp;
    }
    if (open(&opened, &kv, error) != RC_OK) {
        return error_prefix(error, "open state %s", options->path);
    }
    store = mem_alloc(sizeof(*store));
    store->kv = opened;
    store->buckets = bucket_table_new();
    store->bucket_cache = bucket_cache_new();
    atomic_init(&store->references, 1);
    atomic_init(&store->parties, 2);
    *out = store;
    return RC_OK;
}

enum rc store_clear(struct store *store, struct error *error)
{
    static const char last[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    struct kv_batch *batch = kv_batch_new();
    enum rc rc;

    for (uint32_t family = 0; family < FAMILY_COUNT; family++) {
        kv_batch_delete_range(batch, family, SLICE_EMPTY, slice_of(last, sizeof(last) - 1));
    }
    rc = kv_write(store->kv, batch, KV_UNLOGGED, error);
    kv_batch_free(batch);
    return rc;
}

bool store_try_ref(struct store *store)
{
    uint32_t count = atomic_load_explicit(&store->references, memory_order_relaxed);

    while (count != 0) {
        if (atomic_compare_exchange_weak_explicit(&store->references, &count, count + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/*
 * The struct goes when both have happened: the kv was closed behind the last reference, and the
 * owner has retired it (until then a reader may be about to try for a reference).
 */
static void store_part(struct store *store)
{
    if (atomic_fetch_sub_explicit(&store->parties, 1, memory_order_acq_rel) == 1) {
        bucket_table_free(store->buckets);
        bucket_cache_free(store->bucket_cache);
        mem_free(store);
    }
}

void store_unref(struct store *store)
{
    uint32_t before = atomic_fetch_sub_explicit(&store->references, 1, memory_order_acq_rel);

    ASSERT(before >= 1);
    if (before == 1) {
        kv_close(store->kv);
        store->kv = NULL;
        store_part(store);
    }
}

void store_retire(struct store *store)
{
    store_part(store);
}
