/*
 * kv.h on RocksDB, by its C API (kv_shim.cc for what that lacks).
 *
 *     options -> families (one RocksDB column family each) -> reads on any thread, batches, atomic
 * flush
 *
 * Promises: KV_SYNCED returns after fdatasync of the write-ahead log; kv flush() is atomic over
 * families. A log that is damaged before its last record is an error at open (RC_CORRUPT), never a
 * silent cut: what was acknowledged is not rolled back. Block checksums are XXH3, verified on every
 * read.
 */
#include <rocksdb/c.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/kv/kv_batch.h"
#include "common/kv/kv_rocksdb_options.h"
#include "common/kv/kv_shim.h"

enum {
    SKIPPED_KEYS_MAX = 2000
}; /* deleted rows in one step of a cached_only iterator: some 0.2 ms */

struct kv_rocksdb {
    struct kv base;
    rocksdb_t *db;
    struct kv_rocksdb_setup setup;
    rocksdb_column_family_handle_t *families[KV_FAMILIES_MAX];
    bool blobs[KV_FAMILIES_MAX];
    uint32_t family_count;
    rocksdb_readoptions_t *read_any;
    rocksdb_readoptions_t *read_cached;
    rocksdb_writeoptions_t *write_modes[3]; /* by enum kv_write_mode */
};

struct kv_snapshot {
    const rocksdb_snapshot_t *handle;
};

struct kv_iter {
    struct kv_rocksdb *owner;
    rocksdb_iterator_t *handle;
    rocksdb_readoptions_t *options;
};

static struct kv_rocksdb *self_of(struct kv *kv)
{
    return CONTAINER_OF(kv, struct kv_rocksdb, base);
}

/* Takes `text`. The C API gives Status::ToString() only, so the class is read from its beginning.
 */
enum rc kv_rocksdb_error(char *text, struct error *error)
{
    static const struct {
        const char *prefix;
        enum rc rc;
    } rows[] = {
        {"Result incomplete",           RC_AGAIN  },
        {"Corruption",                  RC_CORRUPT},
        {"IO error: No space left",     RC_FULL   },
        {"IO error: While lock file",   RC_LOCKED },
        {"IO error: lock ",             RC_LOCKED },
        {"Invalid argument",            RC_INVALID},
        {"Not implemented",             RC_INVALID},
        {"Operation aborted: Shutdown", RC_CLOSED },
    };
    enum rc rc = RC_IO;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strncmp(text, rows[i].prefix, strlen(rows[i].prefix)) == 0) {
            rc = rows[i].rc;
            break;
        }
    }
    if (rc == RC_IO && strstr(text, "No space left") != NULL) {
        rc = RC_FULL;
    }
    (void)error_set(error, rc, "%s", text);
    rocksdb_free(text);
    return rc;
}

/* NOLINTNEXTLINE(readability-function-size): the parameters of kv_ops.get, one of them `self` */
static enum rc kv_rocksdb_get(struct kv *kv, uint32_t family, struct slice key, unsigned flags,
                              const struct kv_snapshot *snapshot, struct kv_pin *out,
                              struct error *error)
{
    struct kv_rocksdb *self = self_of(kv);
    rocksdb_readoptions_t *options =
        (flags & KV_CACHED_ONLY) != 0 ? self->read_cached : self->read_any;
    rocksdb_readoptions_t *own = NULL;
    rocksdb_pinnableslice_t *pin;
    char *text = NULL;
    size_t len;

    ASSERT(family < self->family_count);
    if (snapshot != NULL) {
        own = rocksdb_readoptions_create();
        rocksdb_readoptions_set_snapshot(own, snapshot->handle);
        rocksdb_readoptions_set_read_tier(own, (flags & KV_CACHED_ONLY) != 0 ? 1 : 0);
        options = own;
    }
    pin =
        rocksdb_get_pinned_cf(self->db, options, self->families[family], key.data, key.len, &text);
    if (own != NULL) {
        rocksdb_readoptions_destroy(own);
    }
    if (text != NULL) {
        return kv_rocksdb_error(text, error);
    }
    if (pin == NULL) {
        return RC_NOT_FOUND;
    }
    out->value.data = rocksdb_pinnableslice_value(pin, &len);
    out->value.len = len;
    out->handle = pin;
    return RC_OK;
}

static void kv_rocksdb_release(struct kv *kv, struct kv_pin *pin)
{
    (void)kv;
    if (pin->handle != NULL) {
        rocksdb_pinnableslice_destroy(pin->handle);
        *pin = (struct kv_pin){0};
    }
}

static void kv_rocksdb_translate(struct kv_rocksdb *self, const struct kv_batch *batch,
                                 rocksdb_writebatch_t *to)
{
    struct kv_batch_op op;
    size_t at = 0;

    while (kv_batch_each(batch, &at, &op)) {
        rocksdb_column_family_handle_t *family = self->families[op.family];

        ASSERT(op.family < self->family_count);
        switch (op.kind) {
        case KV_BATCH_PUT:
            rocksdb_writebatch_put_cf(to, family, op.key.data, op.key.len, op.value.data,
                                      op.value.len);
            break;
        case KV_BATCH_DELETE:
            rocksdb_writebatch_delete_cf(to, family, op.key.data, op.key.len);
            break;
        case KV_BATCH_DELETE_RANGE:
            rocksdb_writebatch_delete_range_cf(to, family, op.key.data, op.key.len, op.value.data,
                                               op.value.len);
            break;
        }
    }
}

static enum rc kv_rocksdb_write(struct kv *kv, struct kv_batch *batch, enum kv_write_mode mode,
                                struct error *error)
{
    struct kv_rocksdb *self = self_of(kv);
    rocksdb_writebatch_t *to = rocksdb_writebatch_create();
    char *text = NULL;

    kv_rocksdb_translate(self, batch, to);
    rocksdb_write(self->db, self->write_modes[mode], to, &text);
    rocksdb_writebatch_destroy(to);
    if (text != NULL) {
        return kv_rocksdb_error(text, error);
    }
    kv_batch_clear(batch);
    return RC_OK;
}

static uint64_t kv_rocksdb_sequence(struct kv *kv)
{
    return rocksdb_get_latest_sequence_number(self_of(kv)->db);
}

static struct kv_snapshot *kv_rocksdb_snapshot(struct kv *kv)
{
    struct kv_snapshot *snapshot = mem_alloc(sizeof(*snapshot));

    snapshot->handle = rocksdb_create_snapshot(self_of(kv)->db);
    return snapshot;
}

static void kv_rocksdb_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot)
{
    rocksdb_release_snapshot(self_of(kv)->db, snapshot->handle);
    mem_free(snapshot);
}

static struct kv_iter *kv_rocksdb_iter_open(struct kv *kv, const struct kv_iter_options *options)
{
    struct kv_rocksdb *self = self_of(kv);
    struct kv_iter *iter = mem_alloc(sizeof(*iter));

    ASSERT(options->family < self->family_count);
    iter->owner = self;
    iter->options = rocksdb_readoptions_create();
    if (options->lower.len > 0) {
        rocksdb_readoptions_set_iterate_lower_bound(iter->options, options->lower.data,
                                                    options->lower.len);
    }
    if (options->upper.len > 0) {
        rocksdb_readoptions_set_iterate_upper_bound(iter->options, options->upper.data,
                                                    options->upper.len);
    }
    if (options->snapshot != NULL) {
        rocksdb_readoptions_set_snapshot(iter->options, options->snapshot->handle);
    }
    if (options->cached_only) {
        rocksdb_readoptions_set_read_tier(iter->options, 1);
        /* A run of deleted rows is as slow as a disk: on a loop it is left to a work job. */
        rocksdb_readoptions_set_max_skippable_internal_keys(iter->options, SKIPPED_KEYS_MAX);
    }
    if (options->bulk) {
        rocksdb_readoptions_set_readahead_size(iter->options, 1 << 20);
        rocksdb_readoptions_set_fill_cache(iter->options, 0);
    }
    rocksdb_readoptions_set_background_purge_on_iterator_cleanup(iter->options, 1);
    iter->handle =
        rocksdb_create_iterator_cf(self->db, iter->options, self->families[options->family]);
    return iter;
}

static void kv_rocksdb_iter_close(struct kv_iter *iter)
{
    rocksdb_iter_destroy(iter->handle);
    rocksdb_readoptions_destroy(iter->options);
    mem_free(iter);
}

static void kv_rocksdb_iter_seek(struct kv_iter *iter, struct slice key)
{
    rocksdb_iter_seek(iter->handle, key.data, key.len);
}

static void kv_rocksdb_iter_seek_prev(struct kv_iter *iter, struct slice key)
{
    rocksdb_iter_seek_for_prev(iter->handle, key.data, key.len);
}

static void kv_rocksdb_iter_next(struct kv_iter *iter)
{
    rocksdb_iter_next(iter->handle);
}

static void kv_rocksdb_iter_prev(struct kv_iter *iter)
{
    rocksdb_iter_prev(iter->handle);
}

static bool kv_rocksdb_iter_valid(struct kv_iter *iter)
{
    return rocksdb_iter_valid(iter->handle) != 0;
}

static enum rc kv_rocksdb_iter_rc(struct kv_iter *iter, struct error *error)
{
    char *text = NULL;

    rocksdb_iter_get_error(iter->handle, &text);
    return text != NULL ? kv_rocksdb_error(text, error) : RC_OK;
}

static struct slice kv_rocksdb_iter_key(struct kv_iter *iter)
{
    size_t len;
    const char *data = rocksdb_iter_key(iter->handle, &len);

    return slice_of(data, len);
}

static struct slice kv_rocksdb_iter_value(struct kv_iter *iter)
{
    size_t len;
    const char *data = rocksdb_iter_value(iter->handle, &len);

    return slice_of(data, len);
}

static enum rc kv_rocksdb_flush(struct kv *kv, struct error *error)
{
    struct kv_rocksdb *self = self_of(kv);
    char *text = NULL;

    kv_shim_flush(self->db, self->families, self->family_count, &text);
    return text != NULL ? kv_rocksdb_error(text, error) : RC_OK;
}

static enum rc kv_rocksdb_compact(struct kv *kv, uint32_t family, struct slice from,
                                  struct slice to)
{
    struct kv_rocksdb *self = self_of(kv);

    rocksdb_compact_range_cf(self->db, self->families[family], from.data, from.len, to.data,
                             to.len);
    return RC_OK;
}

/* Tables by RocksDB; blob values by reading them, since VerifyChecksum passes them by. */
static enum rc kv_rocksdb_verify(struct kv *kv, struct error *error)
{
    struct kv_rocksdb *self = self_of(kv);
    char *text = NULL;

    kv_shim_verify(self->db, &text);
    if (text != NULL) {
        return kv_rocksdb_error(text, error);
    }
    for (uint32_t family = 0; family < self->family_count; family++) {
        struct kv_iter *iter;
        enum rc rc;

        if (!self->blobs[family]) {
            continue;
        }
        iter = kv_rocksdb_iter_open(kv, &(struct kv_iter_options){.family = family, .bulk = true});
        rocksdb_iter_seek_to_first(iter->handle);
        while (rocksdb_iter_valid(iter->handle)) {
            rocksdb_iter_next(iter->handle);
        }
        rc = kv_rocksdb_iter_rc(iter, error);
        kv_rocksdb_iter_close(iter);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

static uint64_t kv_rocksdb_memory_bytes(struct kv *kv)
{
    static const char *const properties[] = {"rocksdb.cur-size-all-mem-tables",
                                             "rocksdb.estimate-table-readers-mem"};
    struct kv_rocksdb *self = self_of(kv);
    uint64_t total = 0;

    for (uint32_t family = 0; family < self->family_count; family++) {
        for (size_t i = 0; i < ARRAY_LEN(properties); i++) {
            uint64_t value = 0;

            if (rocksdb_property_int_cf(self->db, self->families[family], properties[i], &value) ==
                0) {
                total += value;
            }
        }
    }
    return total;
}

static void kv_rocksdb_close(struct kv *kv)
{
    struct kv_rocksdb *self = self_of(kv);

    for (uint32_t i = 0; i < self->family_count; i++) {
        rocksdb_column_family_handle_destroy(self->families[i]);
    }
    rocksdb_close(self->db);
    for (size_t i = 0; i < ARRAY_LEN(self->write_modes); i++) {
        rocksdb_writeoptions_destroy(self->write_modes[i]);
    }
    rocksdb_readoptions_destroy(self->read_any);
    rocksdb_readoptions_destroy(self->read_cached);
    kv_rocksdb_setup_deinit(&self->setup);
    mem_free(self);
}

static const struct kv_ops rocksdb_ops = {
    .get = kv_rocksdb_get,
    .release = kv_rocksdb_release,
    .write = kv_rocksdb_write,
    .sequence = kv_rocksdb_sequence,
    .snapshot = kv_rocksdb_snapshot,
    .snapshot_free = kv_rocksdb_snapshot_free,
    .iter_open = kv_rocksdb_iter_open,
    .iter_close = kv_rocksdb_iter_close,
    .iter_seek = kv_rocksdb_iter_seek,
    .iter_seek_prev = kv_rocksdb_iter_seek_prev,
    .iter_next = kv_rocksdb_iter_next,
    .iter_prev = kv_rocksdb_iter_prev,
    .iter_valid = kv_rocksdb_iter_valid,
    .iter_rc = kv_rocksdb_iter_rc,
    .iter_key = kv_rocksdb_iter_key,
    .iter_value = kv_rocksdb_iter_value,
    .flush = kv_rocksdb_flush,
    .compact = kv_rocksdb_compact,
    .verify = kv_rocksdb_verify,
    .memory_bytes = kv_rocksdb_memory_bytes,
    .close = kv_rocksdb_close,
};

static void kv_rocksdb_modes(struct kv_rocksdb *self, bool write_ahead_log)
{
    self->read_any = rocksdb_readoptions_create();
    self->read_cached = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(self->read_cached, 1);
    for (size_t i = 0; i < ARRAY_LEN(self->write_modes); i++) {
        self->write_modes[i] = rocksdb_writeoptions_create();
        rocksdb_writeoptions_disable_WAL(self->write_modes[i],
                                         i == KV_UNLOGGED || !write_ahead_log ? 1 : 0);
    }
    rocksdb_writeoptions_set_sync(self->write_modes[KV_SYNCED], write_ahead_log ? 1 : 0);
}

enum rc kv_rocksdb_open(struct kv **out, const struct kv_options *options, struct error *error)
{
    struct kv_rocksdb *self = mem_alloc(sizeof(*self));
    const char *names[KV_FAMILIES_MAX];
    char *text = NULL;

    ASSERT(options->family_count > 0 && options->family_count <= KV_FAMILIES_MAX);
    self->base.ops = &rocksdb_ops;
    self->family_count = options->family_count;
    kv_rocksdb_setup_init(&self->setup, options);
    for (uint32_t i = 0; i < options->family_count; i++) {
        names[i] = i == 0 ? "default" : options->families[i].name;
        self->blobs[i] = options->families[i].blobs;
    }
    self->db = rocksdb_open_column_families(
        self->setup.options[0], options->path, (int)options->family_count, names,
        (const rocksdb_options_t *const *)self->setup.options, self->families, &text);
    if (text != NULL) {
        (void)kv_rocksdb_error(text, error);
        kv_rocksdb_setup_deinit(&self->setup);
        mem_free(self);
        return error_prefix(error, "open store %s", options->path);
    }
    kv_rocksdb_modes(self, options->write_ahead_log);
    *out = &self->base;
    return RC_OK;
}
