/*
 * A streamed copy of the state at one instant (FORMAT.md), for a replica that must be filled:
 *
 *     export   one kv snapshot, all replicated families in order, chunks of about 256 KiB
 *     install  into the next numbered store; the old one serves until install_finish() has swapped
 *
 * Bounded memory on both sides: one chunk.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "metad/apply/machine_private.h"

enum {
    CHUNK_MAGIC = 0x7863736b,
    CHUNK_HEADER_BYTES =
        20, /* magic u32, last u32, rows u32, bytes u32, CRC32C u32 of these and the rows */
    CHUNK_CRC_AT = 16,
    CHUNK_BYTES = 256 * 1024,
    ROW_HEADER_BYTES = 9, /* family u8, key length u32, value length u32 */
    ROW_VALUE_BYTES_MAX = 16 * 1024 * 1024
};

static const uint8_t copied_families[] = {FAMILY_CURRENT, FAMILY_ROWS, FAMILY_INLINE,
                                          FAMILY_UPLOADS, FAMILY_HISTORY};

static struct machine *machine_of(struct state_machine *base)
{
    return CONTAINER_OF(base, struct machine, base);
}

/* ---- Export ---- */

struct machine_export {
    struct store *store;
    struct kv_snapshot *snapshot;
    struct kv_iter *iter;
    size_t family_at;
};

static void export_open_family(struct machine_export *export)
{
    struct kv *kv = export->store->kv;
    struct kv_iter_options options = {
        .family = copied_families[export->family_at], .snapshot = export->snapshot, .bulk = true};

    export->iter = kv->ops->iter_open(kv, &options);
    kv->ops->iter_seek(export->iter, SLICE_EMPTY);
}

enum rc machine_export_open(struct state_machine *base, void **out, uint64_t *index,
                            struct error *error)
{
    struct machine *machine = machine_of(base);
    struct machine_export *export = mem_alloc(sizeof(*export));
    struct kv *kv;
    struct kv_pin pin;
    enum rc rc;

    export->store = machine_store(machine);
    kv = export->store->kv;
    export->snapshot = kv->ops->snapshot(kv);
    rc = kv->ops->get(kv, FAMILY_LOCAL, machine_applied_key(), KV_ANY, export->snapshot, &pin,
                      error);
    *index = 0;
    if (rc == RC_OK) {
        *index = pin.value.len == 8 ? le64_get(pin.value.data) : 0;
        kv_release(kv, &pin);
    } else if (rc != RC_NOT_FOUND) {
        machine_export_close(base, export);
        return error_prefix(error, "export state");
    }
    export_open_family(export);
    *out = export;
    return RC_OK;
}

static void chunk_add_row(struct buffer *chunk, uint8_t family, struct slice key,
                          struct slice value)
{
    char header[ROW_HEADER_BYTES];

    ASSERT(value.len <= ROW_VALUE_BYTES_MAX);
    header[0] = (char)family;
    le32_put(header + 1, (uint32_t)key.len);
    le32_put(header + 5, (uint32_t)value.len);
    buffer_append(chunk, slice_of(header, sizeof(header)));
    buffer_append(chunk, key);
    buffer_append(chunk, value);
}

static uint32_t chunk_crc(const char *header, const char *rows, size_t len)
{
    return crc32c(crc32c(0, header, CHUNK_CRC_AT), rows, len);
}

static void chunk_seal(struct buffer *chunk, bool last, uint32_t rows)
{
    char *header = chunk->data;
    uint32_t len = (uint32_t)(chunk->len - CHUNK_HEADER_BYTES);

    le32_put(header, CHUNK_MAGIC);
    le32_put(header + 4, last ? 1 : 0);
    le32_put(header + 8, rows);
    le32_put(header + 12, len);
    le32_put(header + CHUNK_CRC_AT, chunk_crc(header, header + CHUNK_HEADER_BYTES, len));
}

enum rc machine_export_next(struct state_machine *base, void *handle, struct buffer *chunk,
                            bool *end, struct error *error)
{
    struct machine_export *export = handle;
    const struct kv_ops *ops = export->store->kv->ops;
    uint32_t rows = 0;

    (void)base;
    buffer_clear(chunk);
    memset(buffer_reserve(chunk, CHUNK_HEADER_BYTES), 0, CHUNK_HEADER_BYTES);
    chunk->len = CHUNK_HEADER_BYTES;
    *end = false;
    while (chunk->len < CHUNK_BYTES) {
        if (ops->iter_valid(export->iter)) {
            chunk_add_row(chunk, copied_families[export->family_at], ops->iter_key(export->iter),
                          ops->iter_value(export->iter));
            rows += 1;
            ops->iter_next(export->iter);
            continue;
        }
        if (ops->iter_rc(export->iter, error) != RC_OK) {
            return error_prefix(error, "export state");
        }
        if (export->family_at + 1 == ARRAY_LEN(copied_families)) {
            *end = true;
            break;
        }
        ops->iter_close(export->iter);
        export->family_at += 1;
        export_open_family(export);
    }
    chunk_seal(chunk, *end, rows);
    return RC_OK;
}

void machine_export_close(struct state_machine *base, void *handle)
{
    struct machine_export *export = handle;
    struct kv *kv = export->store->kv;

    (void)base;
    if (export->iter != NULL) {
        kv->ops->iter_close(export->iter);
    }
    kv->ops->snapshot_free(kv, export->snapshot);
    store_unref(export->store);
    mem_free(export);
}

/* ---- Install ---- */

struct machine_install {
    struct store *store;
    uint64_t number;
    struct kv_batch *batch;
};

static void install_end(struct machine *machine, bool forget)
{
    struct machine_install *install = machine->install;
    char path[MACHINE_PATH_MAX];

    if (install == NULL) {
        return;
    }
    machine->install = NULL;
    if (install->store != NULL) {
        store_retire(install->store);
        store_unref(install->store);
    }
    if (forget) {
        machine_mark_remove(machine, MARK_STAGED);
        machine_store_path(machine, install->number, path);
        machine_remove_directory(machine->options.env, path);
    }
    kv_batch_free(install->batch);
    mem_free(install);
}

/* At close: a whole copy stays for the next start. */
void machine_install_drop(struct machine *machine)
{
    install_end(machine, false);
}

enum rc machine_install_begin(struct state_machine *base, struct error *error)
{
    struct machine *machine = machine_of(base);
    struct machine_install *install;
    char path[MACHINE_PATH_MAX];
    enum rc rc;

    install_end(machine, true);
    machine_mark_remove(machine, MARK_STAGED);
    install = mem_alloc(sizeof(*install));
    install->number = machine->number + 1;
    install->batch = kv_batch_new();
    machine->install = install;
    machine_store_path(machine, install->number, path);
    machine_remove_directory(machine->options.env, path);
    rc = machine_open_store(machine, install->number, false, &install->store, error);
    if (rc == RC_OK) {
        rc = store_clear(install->store, error); /* what a failed attempt left */
    }
    if (rc != RC_OK) {
        install_end(machine, true);
        return error_prefix(error, "install state");
    }
    return RC_OK;
}

static bool family_copied(uint8_t family)
{
    for (size_t i = 0; i < ARRAY_LEN(copied_families); i++) {
        if (copied_families[i] == family) {
            return true;
        }
    }
    return false;
}

/* One row off the front; false when it is malformed. */
static bool take_row(struct slice *from, struct kv_batch *batch)
{
    struct slice rest = slice_after(*from, ROW_HEADER_BYTES);
    uint32_t key_len;
    uint32_t value_len;

    if (from->len < ROW_HEADER_BYTES || !family_copied((uint8_t)from->data[0])) {
        return false;
    }
    key_len = le32_get(from->data + 1);
    value_len = le32_get(from->data + 5);
    if (key_len == 0 || key_len > ROW_KEY_BYTES_MAX || value_len > ROW_VALUE_BYTES_MAX ||
        (uint64_t)key_len + value_len > rest.len) {
        return false;
    }
    kv_batch_put(batch, (uint8_t)from->data[0], slice_of(rest.data, key_len),
                 slice_of(rest.data + key_len, value_len));
    *from = slice_after(rest, (size_t)key_len + value_len);
    return true;
}

/* All rows are there. From now on the swap can be repeated by a later start. */
static enum rc install_stage(struct machine *machine, struct error *error)
{
    struct machine_install *install = machine->install;
    enum rc rc = install->store->kv->ops->flush(install->store->kv, error);

    return rc == RC_OK ? machine_mark_write(machine, MARK_STAGED, install->number, error) : rc;
}

enum rc machine_install_chunk(struct state_machine *base, struct slice chunk, struct error *error)
{
    struct machine_install *install = machine_of(base)->install;
    struct slice rows = slice_after(chunk, CHUNK_HEADER_BYTES);

    ASSERT(install != NULL);
    if (chunk.len < CHUNK_HEADER_BYTES || le32_get(chunk.data) != CHUNK_MAGIC ||
        le32_get(chunk.data + 12) != rows.len ||
        le32_get(chunk.data + CHUNK_CRC_AT) != chunk_crc(chunk.data, rows.data, rows.len)) {
        return error_set(error, RC_CORRUPT, "install state: a chunk fails its checksum");
    }
    kv_batch_clear(install->batch);
    for (uint32_t i = 0; i < le32_get(chunk.data + 8); i++) {
        if (!take_row(&rows, install->batch)) {
            return error_set(error, RC_CORRUPT, "install state: a row is malformed");
        }
    }
    if (kv_write(install->store->kv, install->batch, KV_UNLOGGED, error) != RC_OK ||
        (le32_get(chunk.data + 4) != 0 && install_stage(machine_of(base), error) != RC_OK)) {
        return error_prefix(error, "install state");
    }
    return RC_OK;
}

/* The installed store becomes the state. */
static void install_swap(struct machine *machine, struct store *store)
{
    struct store *old = atomic_load(&machine->store);

    machine->old_stores =
        mem_realloc(machine->old_stores, (machine->old_count + 1) * sizeof(*machine->old_stores));
    machine->old_stores[machine->old_count++] = old;
    atomic_store_explicit(&machine->store, store, memory_order_release);
    store_unref(old);
}

/* After a restart between the last chunk and the swap. */
static enum rc install_resume(struct machine *machine, struct error *error)
{
    struct machine_install *install;
    uint64_t number;
    enum rc rc = machine_mark_read(machine, MARK_STAGED, &number, error);

    if (rc != RC_OK || number == machine->number) {
        return error_set(error, RC_CORRUPT, "install state: there is no staged copy");
    }
    install = mem_alloc(sizeof(*install));
    install->number = number;
    install->batch = kv_batch_new();
    machine->install = install;
    return machine_open_store(machine, number, true, &install->store, error);
}

enum rc machine_install_finish(struct state_machine *base, uint64_t index, struct error *error)
{
    struct machine *machine = machine_of(base);
    struct machine_install *install;
    char value[8];
    enum rc rc;

    if (machine->install == NULL && install_resume(machine, error) != RC_OK) {
        return error_prefix(error, "install state");
    }
    install = machine->install;
    le64_put(value, index);
    kv_batch_clear(install->batch);
    kv_batch_put(install->batch, FAMILY_LOCAL, machine_applied_key(),
                 slice_of(value, sizeof(value)));
    rc = kv_write(install->store->kv, install->batch, KV_UNLOGGED, error);
    if (rc == RC_OK) {
        rc = install->store->kv->ops->flush(install->store->kv, error);
    }
    if (rc == RC_OK) {
        rc = machine_mark_write(machine, MARK_CURRENT, install->number, error);
    }
    if (rc == RC_OK) {
        rc = machine_load(machine, install->store, error);
    }
    if (rc != RC_OK) {
        return error_prefix(error, "install state");
    }
    machine_mark_remove(machine, MARK_STAGED);
    machine->number = install->number;
    install_swap(machine, install->store);
    install->store = NULL;
    kv_batch_free(install->batch);
    mem_free(install);
    machine->install = NULL;
    if (machine->options.on_root_change != NULL) {
        machine->options.on_root_change(machine->options.owner);
    }
    return RC_OK;
}
