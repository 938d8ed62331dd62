#include "tests/lib/sim_kv.h"

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/bytes.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/kv/kv_batch.h"
#include "tests/lib/sim_map.h"

/* A write since the last flush, to be replayed. */
struct kv_logged {
    struct list link;
    enum kv_write_mode mode;
    struct buffer ops; /* kind, family, key, value: see log_encode() */
};

struct kv_fault {
    enum rc rc;
    uint64_t from; /* of the call counter */
};

struct sim_kv;

struct sim_kv_disk {
    struct sim *sim;
    const struct sim_node *node; /* may be NULL */
    bool exists;
    bool write_ahead_log;
    uint32_t family_count;
    struct sim_map base[KV_FAMILIES_MAX]; /* as last flushed */
    struct list log;                      /* struct kv_logged, in order */
    uint64_t log_count;
    uint64_t calls;
    uint64_t writes;
    struct kv_fault fault;
    struct kv_fault write_fault;
    uint32_t miss_per_mille;
    struct sim_kv *open;
};

struct sim_kv {
    struct kv kv;
    struct sim_kv_disk *disk;
    struct kv_options options;
    struct sim_map live[KV_FAMILIES_MAX];
    uint32_t snapshots;
    uint32_t iterators;
    uint32_t pins;
};

struct kv_snapshot {
    uint64_t seq[KV_FAMILIES_MAX];
};

struct kv_iter {
    struct sim_kv *store;
    struct sim_map *map;
    struct kv_iter_options options;
    uint64_t seq;
    struct sim_map_node *at;
    enum rc rc;
};

static struct sim_kv *store_of(struct kv *kv)
{
    return CONTAINER_OF(kv, struct sim_kv, kv);
}

static enum rc disk_call(struct sim_kv_disk *disk, bool write)
{
    disk->calls += 1;
    disk->writes += write;
    if (disk->node != NULL && sim_stopped(disk->node)) {
        return RC_IO;
    }
    if (disk->fault.rc != RC_OK && disk->calls >= disk->fault.from) {
        return disk->fault.rc;
    }
    if (write && disk->write_fault.rc != RC_OK && disk->writes >= disk->write_fault.from) {
        return disk->write_fault.rc;
    }
    return RC_OK;
}

static bool disk_misses(struct sim_kv_disk *disk)
{
    return disk->sim != NULL && disk->miss_per_mille > 0 &&
           sim_chance(disk->sim, disk->miss_per_mille);
}

/* ---- The log ---- */

static void put_u32(struct buffer *out, size_t value)
{
    char bytes[4];

    ASSERT(value <= UINT32_MAX);
    le32_put(bytes, (uint32_t)value);
    buffer_append(out, slice_of(bytes, sizeof(bytes)));
}

static void log_encode(struct buffer *out, const struct kv_batch_op *op)
{
    put_u32(out, op->kind);
    put_u32(out, op->family);
    put_u32(out, op->key.len);
    put_u32(out, op->value.len);
    buffer_append(out, op->key);
    buffer_append(out, op->value);
}

static size_t log_decode(struct slice from, struct kv_batch_op *op)
{
    size_t key_len = le32_get(from.data + 8);
    size_t value_len = le32_get(from.data + 12);

    op->kind = (enum kv_batch_kind)le32_get(from.data);
    op->family = le32_get(from.data + 4);
    op->key = slice_of(from.data + 16, key_len);
    op->value = slice_of(from.data + 16 + key_len, value_len);
    return 16 + key_len + value_len;
}

static void op_apply(struct sim_map *maps, const struct kv_batch_op *op)
{
    struct sim_map *map = &maps[op->family];

    switch (op->kind) {
    case KV_BATCH_PUT:
        sim_map_put(map, op->key, op->value);
        break;
    case KV_BATCH_DELETE:
        sim_map_delete(map, op->key);
        break;
    case KV_BATCH_DELETE_RANGE:
        sim_map_delete_range(map, op->key, op->value);
        break;
    }
}

static void logged_apply(struct sim_map *maps, const struct kv_logged *logged)
{
    struct slice rest = buffer_slice(&logged->ops);

    while (rest.len > 0) {
        struct kv_batch_op op;

        rest = slice_after(rest, log_decode(rest, &op));
        op_apply(maps, &op);
    }
}

static void logged_free(struct kv_logged *logged)
{
    list_remove(&logged->link);
    buffer_deinit(&logged->ops);
    mem_free(logged);
}

/* Everything in the log becomes part of the tables. */
static void disk_flush(struct sim_kv_disk *disk)
{
    while (!list_empty(&disk->log)) {
        struct kv_logged *logged = CONTAINER_OF(disk->log.next, struct kv_logged, link);

        logged_apply(disk->base, logged);
        logged_free(logged);
    }
    disk->log_count = 0;
}

static bool disk_has_unlogged(const struct sim_kv_disk *disk)
{
    for (struct list *at = disk->log.next; at != &disk->log; at = at->next) {
        if (CONTAINER_OF(at, struct kv_logged, link)->mode == KV_UNLOGGED) {
            return true;
        }
    }
    return false;
}

/* ---- Reads ---- */

static enum rc sim_kv_get(struct kv *kv, uint32_t family, struct slice key, unsigned flags,
                          const struct kv_snapshot *snapshot, struct kv_pin *out,
                          struct error *error)
{
    struct sim_kv *store = store_of(kv);
    enum rc rc = disk_call(store->disk, false);
    struct sim_value *value;

    ASSERT(family < store->options.family_count);
    if (rc != RC_OK) {
        return error_set(error, rc, "get: %s", rc_text(rc));
    }
    if ((flags & KV_CACHED_ONLY) != 0 && disk_misses(store->disk)) {
        return RC_AGAIN;
    }
    value = sim_map_get(&store->live[family], key,
                        snapshot != NULL ? snapshot->seq[family] : UINT64_MAX);
    if (value == NULL) {
        return RC_NOT_FOUND;
    }
    value->refs += 1;
    store->pins += 1;
    out->value = slice_of(value->data, value->len);
    out->handle = value;
    return RC_OK;
}

static void sim_kv_release(struct kv *kv, struct kv_pin *pin)
{
    struct sim_kv *store = store_of(kv);

    if (pin->handle == NULL) {
        return;
    }
    ASSERT(store->pins > 0);
    store->pins -= 1;
    sim_value_unref(pin->handle);
    *pin = (struct kv_pin){.handle = NULL};
}

static uint64_t sim_kv_sequence(struct kv *kv)
{
    const struct sim_kv *store = store_of(kv);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < store->options.family_count; i++) {
        sum += store->live[i].seq;
    }
    return sum;
}

static struct kv_snapshot *sim_kv_snapshot(struct kv *kv)
{
    struct sim_kv *store = store_of(kv);
    struct kv_snapshot *snapshot = mem_alloc(sizeof(*snapshot));

    for (uint32_t i = 0; i < store->options.family_count; i++) {
        snapshot->seq[i] = store->live[i].seq;
        sim_map_pin(&store->live[i]);
    }
    store->snapshots += 1;
    return snapshot;
}

static void sim_kv_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot)
{
    struct sim_kv *store = store_of(kv);

    ASSERT(store->snapshots > 0);
    for (uint32_t i = 0; i < store->options.family_count; i++) {
        sim_map_unpin(&store->live[i]);
    }
    store->snapshots -= 1;
    mem_free(snapshot);
}

/* ---- Iterators ---- */

static struct kv_iter *sim_kv_iter_open(struct kv *kv, const struct kv_iter_options *options)
{
    struct sim_kv *store = store_of(kv);
    struct kv_iter *iter = mem_alloc(sizeof(*iter));

    ASSERT(options->family < store->options.family_count);
    iter->store = store;
    iter->map = &store->live[options->family];
    iter->options = *options;
    iter->seq =
        options->snapshot != NULL ? options->snapshot->seq[options->family] : iter->map->seq;
    sim_map_pin(iter->map);
    store->iterators += 1;
    return iter;
}

static void sim_kv_iter_close(struct kv_iter *iter)
{
    ASSERT(iter->store->iterators > 0);
    sim_map_unpin(iter->map);
    iter->store->iterators -= 1;
    mem_free(iter);
}

/* Faults and bounds, after each move. */
static void iter_settle(struct kv_iter *iter, struct sim_map_node *at)
{
    enum rc rc = disk_call(iter->store->disk, false);

    if (rc == RC_OK && iter->options.cached_only && disk_misses(iter->store->disk)) {
        rc = RC_AGAIN;
    }
    iter->rc = rc;
    iter->at = rc == RC_OK ? at : NULL;
    if (iter->at != NULL) {
        struct slice key = sim_map_key(iter->at);

        if ((iter->options.upper.len > 0 && slice_cmp(key, iter->options.upper) >= 0) ||
            (iter->options.lower.len > 0 && slice_cmp(key, iter->options.lower) < 0)) {
            iter->at = NULL;
        }
    }
}

static void sim_kv_iter_seek(struct kv_iter *iter, struct slice key)
{
    if (iter->options.lower.len > 0 && slice_cmp(key, iter->options.lower) < 0) {
        key = iter->options.lower;
    }
    iter_settle(iter, sim_map_seek(iter->map, key, iter->seq));
}

static void sim_kv_iter_seek_prev(struct kv_iter *iter, struct slice key)
{
    struct sim_map_node *at = sim_map_seek_prev(iter->map, key, iter->seq);

    if (iter->options.upper.len > 0 && slice_cmp(key, iter->options.upper) >= 0) {
        at = sim_map_seek_prev(iter->map, iter->options.upper, iter->seq);
        if (at != NULL && slice_eq(sim_map_key(at), iter->options.upper)) {
            at = sim_map_prev(iter->map, at, iter->seq);
        }
    }
    iter_settle(iter, at);
}

static void sim_kv_iter_next(struct kv_iter *iter)
{
    ASSERT(iter->at != NULL);
    iter_settle(iter, sim_map_next(iter->map, iter->at, iter->seq));
}

static void sim_kv_iter_prev(struct kv_iter *iter)
{
    ASSERT(iter->at != NULL);
    iter_settle(iter, sim_map_prev(iter->map, iter->at, iter->seq));
}

static bool sim_kv_iter_valid(struct kv_iter *iter)
{
    return iter->at != NULL;
}

static enum rc sim_kv_iter_rc(struct kv_iter *iter, struct error *error)
{
    return iter->rc == RC_OK ? RC_OK : error_set(error, iter->rc, "scan: %s", rc_text(iter->rc));
}

static struct slice sim_kv_iter_key(struct kv_iter *iter)
{
    ASSERT(iter->at != NULL);
    return sim_map_key(iter->at);
}

static struct slice sim_kv_iter_value(struct kv_iter *iter)
{
    ASSERT(iter->at != NULL);
    return sim_map_value(iter->at);
}

/* ---- Writes ---- */

static enum rc sim_kv_write(struct kv *kv, struct kv_batch *batch, enum kv_write_mode mode,
                            struct error *error)
{
    struct sim_kv *store = store_of(kv);
    struct sim_kv_disk *disk = store->disk;
    enum rc rc = disk_call(disk, true);
    struct kv_logged *logged;
    struct kv_batch_op op;
    size_t at = 0;

    if (rc != RC_OK) {
        return error_set(error, rc, "write: %s", rc_text(rc));
    }
    logged = mem_alloc(sizeof(*logged));
    logged->mode = store->options.write_ahead_log ? mode : KV_UNLOGGED;
    buffer_init(&logged->ops);
    while (kv_batch_each(batch, &at, &op)) {
        ASSERT(op.family < store->options.family_count);
        log_encode(&logged->ops, &op);
        op_apply(store->live, &op);
    }
    list_push_back(&disk->log, &logged->link);
    disk->log_count += 1;
    kv_batch_clear(batch);
    return RC_OK;
}

static enum rc sim_kv_flush(struct kv *kv, struct error *error)
{
    struct sim_kv_disk *disk = store_of(kv)->disk;
    enum rc rc = disk_call(disk, true);

    if (rc != RC_OK) {
        return error_set(error, rc, "flush: %s", rc_text(rc));
    }
    disk_flush(disk);
    return RC_OK;
}

/* Rows that the filter drops go from the tables and from view; what is in the log stays as written.
 */
static enum rc sim_kv_compact(struct kv *kv, uint32_t family, struct slice from, struct slice to)
{
    struct sim_kv *store = store_of(kv);
    const struct kv_family *options = &store->options.families[family];
    enum rc rc = sim_kv_flush(kv, NULL);
    struct sim_map_node *node;

    if (rc != RC_OK || options->drop == NULL) {
        return rc;
    }
    node = sim_map_seek(&store->disk->base[family], from, UINT64_MAX);
    while (node != NULL && (to.len == 0 || slice_cmp(sim_map_key(node), to) < 0)) {
        char *key = mem_copy(sim_map_key(node).data, sim_map_key(node).len);
        struct slice name = slice_of(key, sim_map_key(node).len);

        if (options->drop(options->drop_arg, name, sim_map_value(node))) {
            sim_map_delete(&store->disk->base[family], name);
            sim_map_delete(&store->live[family], name);
            node = sim_map_seek(&store->disk->base[family], name, UINT64_MAX);
        } else {
            node = sim_map_next(&store->disk->base[family], node, UINT64_MAX);
        }
        mem_free(key);
    }
    return RC_OK;
}

static enum rc sim_kv_verify(struct kv *kv, struct error *error)
{
    enum rc rc = disk_call(store_of(kv)->disk, false);

    return rc == RC_OK ? RC_OK : error_set(error, rc, "verify: %s", rc_text(rc));
}

static uint64_t sim_kv_memory_bytes(struct kv *kv)
{
    const struct sim_kv *store = store_of(kv);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < store->options.family_count; i++) {
        bytes += store->live[i].bytes;
    }
    return bytes;
}

static void store_free(struct sim_kv *store)
{
    for (uint32_t i = 0; i < store->options.family_count; i++) {
        sim_map_deinit(&store->live[i]);
    }
    store->disk->open = NULL;
    mem_free(store);
}

static void sim_kv_close(struct kv *kv)
{
    struct sim_kv *store = store_of(kv);

    ASSERT(store->iterators == 0);
    ASSERT(store->snapshots == 0);
    ASSERT(store->pins == 0);
    if (disk_has_unlogged(store->disk) && disk_call(store->disk, true) == RC_OK) {
        disk_flush(store->disk);
    }
    store_free(store);
}

static const struct kv_ops sim_kv_ops = {
    .get = sim_kv_get,
    .release = sim_kv_release,
    .write = sim_kv_write,
    .sequence = sim_kv_sequence,
    .snapshot = sim_kv_snapshot,
    .snapshot_free = sim_kv_snapshot_free,
    .iter_open = sim_kv_iter_open,
    .iter_close = sim_kv_iter_close,
    .iter_seek = sim_kv_iter_seek,
    .iter_seek_prev = sim_kv_iter_seek_prev,
    .iter_next = sim_kv_iter_next,
    .iter_prev = sim_kv_iter_prev,
    .iter_valid = sim_kv_iter_valid,
    .iter_rc = sim_kv_iter_rc,
    .iter_key = sim_kv_iter_key,
    .iter_value = sim_kv_iter_value,
    .flush = sim_kv_flush,
    .compact = sim_kv_compact,
    .verify = sim_kv_verify,
    .memory_bytes = sim_kv_memory_bytes,
    .close = sim_kv_close,
};

/* ---- Open, crash ---- */

struct sim_kv_disk *sim_kv_disk_new(struct sim *sim)
{
    struct sim_kv_disk *disk = mem_alloc(sizeof(*disk));

    disk->sim = sim;
    list_init(&disk->log);
    for (uint32_t i = 0; i < KV_FAMILIES_MAX; i++) {
        sim_map_init(&disk->base[i]);
    }
    return disk;
}

void sim_kv_set_node(struct sim_kv_disk *disk, const struct sim_node *node)
{
    disk->node = node;
}

void sim_kv_disk_free(struct sim_kv_disk *disk)
{
    ASSERT(disk->open == NULL);
    while (!list_empty(&disk->log)) {
        logged_free(CONTAINER_OF(disk->log.next, struct kv_logged, link));
    }
    for (uint32_t i = 0; i < KV_FAMILIES_MAX; i++) {
        sim_map_deinit(&disk->base[i]);
    }
    mem_free(disk);
}

enum rc sim_kv_open(struct kv **out, struct sim_kv_disk *disk, const struct kv_options *options,
                    struct error *error)
{
    struct sim_kv *store;
    enum rc rc = disk_call(disk, false);

    ASSERT(options->family_count > 0 && options->family_count <= KV_FAMILIES_MAX);
    if (rc != RC_OK) {
        return error_set(error, rc, "open: %s", rc_text(rc));
    }
    if (disk->open != NULL) {
        return error_set(error, RC_LOCKED, "open: in use");
    }
    if (!disk->exists && options->must_exist) {
        return error_set(error, RC_NOT_FOUND, "open: there is no store");
    }
    store = mem_alloc(sizeof(*store));
    store->kv.ops = &sim_kv_ops;
    store->disk = disk;
    store->options = *options;
    for (uint32_t i = 0; i < options->family_count; i++) {
        sim_map_init(&store->live[i]);
        for (struct sim_map_node *node = sim_map_seek(&disk->base[i], SLICE_EMPTY, UINT64_MAX);
             node != NULL; node = sim_map_next(&disk->base[i], node, UINT64_MAX)) {
            sim_map_put(&store->live[i], sim_map_key(node), sim_map_value(node));
        }
    }
    for (struct list *at = disk->log.next; at != &disk->log; at = at->next) {
        logged_apply(store->live, CONTAINER_OF(at, struct kv_logged, link));
    }
    disk->exists = true;
    disk->write_ahead_log = options->write_ahead_log;
    disk->family_count = options->family_count;
    disk->open = store;
    *out = &store->kv;
    return RC_OK;
}

/* How many of the log's writes a flush that nobody asked for had covered: mostly none. */
static uint64_t crash_flushed(const struct sim_kv_disk *disk)
{
    if (disk->sim == NULL || !sim_chance(disk->sim, 300)) {
        return 0;
    }
    return sim_below(disk->sim, disk->log_count + 1);
}

/* How many of the log's writes are in the log file: all up to the last synced one, and some more.
 */
static uint64_t crash_logged(const struct sim_kv_disk *disk, enum sim_crash how)
{
    uint64_t synced = 0;
    uint64_t number = 0;

    for (struct list *at = disk->log.next; at != &disk->log; at = at->next) {
        number += 1;
        if (CONTAINER_OF(at, struct kv_logged, link)->mode == KV_SYNCED) {
            synced = number;
        }
    }
    if (how == SIM_KILL) {
        return number;
    }
    return disk->sim == NULL ? synced : synced + sim_below(disk->sim, number - synced + 1);
}

void sim_kv_crash(struct sim_kv_disk *disk, enum sim_crash how)
{
    uint64_t flushed = crash_flushed(disk);
    uint64_t logged_until = crash_logged(disk, how);
    uint64_t number = 0;

    if (disk->open != NULL) {
        store_free(disk->open);
    }
    for (struct list *at = disk->log.next; at != &disk->log;) {
        struct kv_logged *logged = CONTAINER_OF(at, struct kv_logged, link);
        bool survives = number < flushed || (logged->mode != KV_UNLOGGED && number < logged_until);

        at = at->next;
        number += 1;
        if (survives) {
            logged_apply(disk->base, logged);
        }
        logged_free(logged);
    }
    disk->log_count = 0;
}

void sim_kv_fail(struct sim_kv_disk *disk, enum rc rc, uint64_t after)
{
    disk->fault = (struct kv_fault){.rc = rc, .from = disk->calls + after};
}

void sim_kv_fail_writes(struct sim_kv_disk *disk, enum rc rc, uint64_t after)
{
    disk->write_fault = (struct kv_fault){.rc = rc, .from = disk->writes + after};
}

void sim_kv_cache_misses(struct sim_kv_disk *disk, uint32_t per_mille)
{
    disk->miss_per_mille = per_mille;
}

uint64_t sim_kv_calls(const struct sim_kv_disk *disk)
{
    return disk->calls;
}

uint64_t sim_kv_unflushed(const struct sim_kv_disk *disk)
{
    return disk->log_count;
}

size_t sim_kv_rows(const struct sim_kv_disk *disk, uint32_t family)
{
    size_t rows = 0;

    ASSERT(disk->open != NULL && family < disk->family_count);
    for (struct sim_map_node *node =
             sim_map_seek(&disk->open->live[family], SLICE_EMPTY, UINT64_MAX);
         node != NULL; node = sim_map_next(&disk->open->live[family], node, UINT64_MAX)) {
        rows += 1;
    }
    return rows;
}
