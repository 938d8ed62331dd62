#include "metad/apply/machine.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "metad/apply/apply.h"
#include "metad/apply/change.h"
#include "metad/apply/command_table.h"
#include "metad/apply/entry.h"
#include "metad/apply/machine_private.h"

enum { APPLIED_VALUE_BYTES = 8 };

/* A repeat may come as late as the deadline, and its answer must still be there. */
static const uint64_t REQUEST_MARGIN_NS = 60ULL * 1000000000ULL;
static const uint64_t REQUEST_UNBOUNDED_NS = 900ULL * 1000000000ULL;

static struct machine *machine_of(struct state_machine *base)
{
    return CONTAINER_OF(base, struct machine, base);
}

struct slice machine_applied_key(void)
{
    return SLICE("applied");
}

/* ---- One entry ---- */

static void batch_applied(struct machine *machine, uint64_t index)
{
    char value[APPLIED_VALUE_BYTES];

    le64_put(value, index);
    kv_batch_put(machine->batch, FAMILY_LOCAL, machine_applied_key(),
                 slice_of(value, sizeof(value)));
}

static void batch_stamp(struct machine *machine, uint64_t stamp)
{
    Kist__RangeState state = KIST__RANGE_STATE__INIT;
    struct row_key row;

    state.last_stamp = stamp;
    key_range(&row, RANGE_FIRST, KIND_RANGE_STATE, SLICE_EMPTY);
    kv_batch_put(machine->batch, FAMILY_ROWS, row_key_slice(&row),
                 message_pack(&machine->arena, &state.base));
}

static void *result_new(struct slice reply)
{
    struct machine_result *result = mem_alloc_raw(sizeof(*result) + reply.len);

    result->len = reply.len;
    memcpy(result->reply, reply.data, reply.len);
    return result;
}

/* The packed answer of the first attempt; false when this is the first. */
static bool repeat_find(struct apply *apply, const struct row_key *row, struct slice *reply)
{
    const Kist__Request *request = apply_load(apply, FAMILY_ROWS, row, &kist__request__descriptor);

    if (request == NULL || request->due < apply->stamp) {
        return false;
    }
    *reply = message_bytes(request->reply);
    return true;
}

static void repeat_keep(struct apply *apply, const struct row_key *row, const struct entry *entry,
                        struct slice reply)
{
    Kist__Request request = KIST__REQUEST__INIT;

    request.due = entry->deadline_ns != 0 ? entry->deadline_ns + REQUEST_MARGIN_NS
                                          : apply->stamp + REQUEST_UNBOUNDED_NS;
    request.reply = message_field(reply);
    apply_put_message(apply, FAMILY_ROWS, row, &request.base);
}

static bool id_is_set(const uint8_t id[REQUEST_ID_BYTES])
{
    uint8_t any = 0;

    for (size_t i = 0; i < REQUEST_ID_BYTES; i++) {
        any |= id[i];
    }
    return any != 0;
}

/* Judges and applies; the packed reply. What a refused command put into the batch is dropped. */
static struct slice apply_command(struct machine *machine, struct apply *apply,
                                  const struct command *command, const struct entry *entry,
                                  const ProtobufCMessage *message)
{
    struct slice id = slice_of(entry->request_id, REQUEST_ID_BYTES);
    struct slice reply;
    struct row_key row;
    bool keeps = id_is_set(entry->request_id) && command_request_row(command, message, id, &row);

    if (keeps && repeat_find(apply, &row, &reply)) {
        return reply;
    }
    if (entry->deadline_ns != 0 && apply->stamp > entry->deadline_ns) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__EXPIRED, "past the deadline");
    } else {
        command->apply(apply, message);
        change_finish(apply);
    }
    reply = message_pack(&machine->arena, &apply->reply.base);
    if (apply->reply.outcome != KIST__OUTCOME__OUTCOME_OK) {
        kv_batch_clear(machine->batch);
        apply->root_changed = false;
        apply->bucket_changed = 0;
    } else if (keeps) {
        /* A refusal changed nothing: judged anew, a repeat of it is as right as the first. */
        repeat_keep(apply, &row, entry, reply);
    }
    return reply;
}

static enum rc decode_command(struct machine *machine, const struct entry *entry,
                              const struct command **command, ProtobufCMessage **message,
                              struct error *error)
{
    *command = command_find(entry->command);
    if (*command == NULL) {
        return error_set(error, RC_UNSUPPORTED, "command %u is of a later release", entry->command);
    }
    *message = message_unpack(&machine->arena, (*command)->type, entry->message);
    if (*message == NULL) {
        return error_set(error, RC_CORRUPT, "command %s does not decode", (*command)->name);
    }
    if (!message_known(*message)) {
        return error_set(error, RC_UNSUPPORTED, "command %s has fields of a later release",
                         (*command)->name);
    }
    return RC_OK;
}

/* After the batch was written: what readers of other threads go by. */
static void publish(struct machine *machine, const struct apply *apply, uint64_t index)
{
    if (apply->bucket_changed != 0) {
        bucket_table_set(atomic_load(&machine->store)->buckets, apply->bucket_changed,
                         apply->bucket_generation, apply->bucket_versioned);
    }
    atomic_store_explicit(&machine->last_stamp, apply->stamp, memory_order_release);
    if (apply->change_count > 0) {
        atomic_store_explicit(&machine->change_stamp, apply->stamp, memory_order_release);
    }
    if (apply->root_changed) {
        atomic_store_explicit(&machine->root_index, index, memory_order_release);
    }
}

static enum rc apply_entry(struct machine *machine, struct apply_entry *entry, bool *root_changed,
                           struct error *error)
{
    struct store *store = atomic_load(&machine->store);
    uint64_t last_stamp = atomic_load(&machine->last_stamp);
    struct apply apply = {.kv = store->kv,
                          .batch = machine->batch,
                          .arena = &machine->arena,
                          .buckets = store->buckets,
                          .bucket_cache = store->bucket_cache,
                          .range_id = RANGE_FIRST};
    const struct command *command = NULL;
    ProtobufCMessage *message = NULL;
    struct entry decoded;
    struct slice reply;

    if (entry_decode(entry->data, &decoded, error) != RC_OK ||
        decode_command(machine, &decoded, &command, &message, error) != RC_OK) {
        return error_prefix(error, "apply entry %llu", (unsigned long long)entry->index);
    }
    apply_init(&apply);
    apply.stamp = decoded.proposed_ns > last_stamp + 1 ? decoded.proposed_ns : last_stamp + 1;
    apply.body = decoded.body;
    apply.reply.stamp = apply.stamp;
    reply = apply_command(machine, &apply, command, &decoded, message);
    apply_deinit(&apply);
    if (apply.error.rc != RC_OK) {
        *error = apply.error;
        return error_prefix(error, "apply entry %llu (%s)", (unsigned long long)entry->index,
                            command->name);
    }
    batch_stamp(machine, apply.stamp);
    batch_applied(machine, entry->index);
    if (kv_write(store->kv, machine->batch, KV_UNLOGGED, error) != RC_OK) {
        return error_prefix(error, "apply entry %llu", (unsigned long long)entry->index);
    }
    publish(machine, &apply, entry->index);
    *root_changed = *root_changed || apply.root_changed;
    entry->result = result_new(reply);
    return RC_OK;
}

/* A barrier or a configuration: only the index moves. */
static enum rc apply_nothing(struct machine *machine, uint64_t index, struct error *error)
{
    batch_applied(machine, index);
    return kv_write(atomic_load(&machine->store)->kv, machine->batch, KV_UNLOGGED, error);
}

static bool machine_apply(struct state_machine *base, struct apply_entry *entries, size_t count,
                          struct error *error)
{
    struct machine *machine = machine_of(base);
    bool root_changed = false;
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++) {
        ASSERT(entries[i].index == atomic_load(&machine->applied) + 1);
        entries[i].result = NULL;
        kv_batch_clear(machine->batch);
        if (entries[i].data.len == 0) {
            ok = apply_nothing(machine, entries[i].index, error) == RC_OK;
        } else {
            ok = apply_entry(machine, &entries[i], &root_changed, error) == RC_OK;
        }
        arena_reset(&machine->arena);
        if (ok) {
            atomic_store_explicit(&machine->applied, entries[i].index, memory_order_release);
        }
    }
    if (root_changed && machine->options.on_root_change != NULL) {
        machine->options.on_root_change(machine->options.owner);
    }
    return ok;
}

static uint64_t machine_applied(struct state_machine *base)
{
    return atomic_load_explicit(&machine_of(base)->applied, memory_order_acquire);
}

static void machine_result_free(struct state_machine *base, void *result)
{
    (void)base;
    mem_free(result);
}

static enum rc machine_flush(struct state_machine *base, uint64_t *index, struct error *error)
{
    struct machine *machine = machine_of(base);
    struct kv *kv = atomic_load(&machine->store)->kv;
    uint64_t applied = atomic_load(&machine->applied);
    uint64_t stamp = atomic_load(&machine->last_stamp);

    if (applied != machine->flushed) {
        if (kv->ops->flush(kv, error) != RC_OK) {
            return error_prefix(error, "flush state");
        }
        machine->flushed = applied;
        atomic_store_explicit(&machine->durable_stamp, stamp, memory_order_release);
    }
    *index = applied;
    return RC_OK;
}

/* ---- Open ---- */

static enum rc load_applied(struct machine *machine, struct kv *kv, struct error *error)
{
    struct kv_pin pin;
    enum rc rc = kv_get(kv, FAMILY_LOCAL, machine_applied_key(), KV_ANY, &pin, error);
    uint64_t index;

    if (rc == RC_NOT_FOUND) {
        index = 0;
    } else if (rc != RC_OK) {
        return rc;
    } else if (pin.value.len != APPLIED_VALUE_BYTES) {
        kv_release(kv, &pin);
        return error_set(error, RC_CORRUPT, "applied index of %zu bytes", pin.value.len);
    } else {
        index = le64_get(pin.value.data);
        kv_release(kv, &pin);
    }
    machine->flushed = index;
    atomic_store(&machine->applied, index);
    atomic_store(&machine->root_index, index);
    return RC_OK;
}

static enum rc load_stamp(struct machine *machine, struct kv *kv, struct error *error)
{
    const Kist__RangeState *state;
    struct kv_pin pin;
    struct row_key row;
    enum rc rc;

    key_range(&row, RANGE_FIRST, KIND_RANGE_STATE, SLICE_EMPTY);
    rc = kv_get(kv, FAMILY_ROWS, row_key_slice(&row), KV_ANY, &pin, error);
    if (rc == RC_NOT_FOUND) {
        atomic_store(&machine->last_stamp, 0);
        return RC_OK;
    }
    if (rc != RC_OK) {
        return rc;
    }
    state = message_unpack(&machine->arena, &kist__range_state__descriptor, pin.value);
    kv_release(kv, &pin);
    if (state == NULL) {
        return error_set(error, RC_CORRUPT, "the range's state row does not decode");
    }
    atomic_store(&machine->last_stamp, state->last_stamp);
    atomic_store(&machine->durable_stamp, state->last_stamp);
    return RC_OK;
}

static enum rc load_buckets(struct machine *machine, struct store *store, struct error *error)
{
    struct kv *kv = store->kv;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;
    enum rc rc = RC_OK;

    key_range(&lower, RANGE_FIRST, KIND_RANGE_BUCKET, SLICE_EMPTY);
    upper = lower;
    (void)row_key_after_prefix(&upper);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = kv->ops->iter_open(kv, &options);
    kv->ops->iter_seek(iter, options.lower);
    while (rc == RC_OK && kv->ops->iter_valid(iter)) {
        const Kist__Bucket *bucket =
            message_unpack(&machine->arena, &kist__bucket__descriptor, kv->ops->iter_value(iter));

        if (bucket == NULL || bucket->id == 0 || bucket->generation == 0) {
            rc = error_set(error, RC_CORRUPT, "a bucket row does not decode");
        } else {
            bucket_table_set(store->buckets, bucket->id, bucket->generation,
                             bucket->settings != NULL && bucket->settings->versioning != NULL);
        }
        arena_reset(&machine->arena);
        kv->ops->iter_next(iter);
    }
    if (rc == RC_OK) {
        rc = kv->ops->iter_rc(iter, error);
    }
    kv->ops->iter_close(iter);
    return rc;
}

enum rc machine_load(struct machine *machine, struct store *store, struct error *error)
{
    enum rc rc = load_applied(machine, store->kv, error);

    if (rc == RC_OK) {
        rc = load_stamp(machine, store->kv, error);
    }
    if (rc == RC_OK) {
        rc = load_buckets(machine, store, error);
    }
    arena_reset(&machine->arena);
    return rc == RC_OK ? RC_OK : error_prefix(error, "load state");
}

enum rc machine_open_store(struct machine *machine, uint64_t number, bool must_exist,
                           struct store **out, struct error *error)
{
    char path[MACHINE_PATH_MAX];
    struct store_options options = {.path = path,
                                    .cache = machine->options.cache,
                                    .kv_open = machine->options.kv_open,
                                    .must_exist = must_exist,
                                    .durable_stamp = &machine->durable_stamp};

    machine_store_path(machine, number, path);
    return meta_store_open(out, &options, error);
}

/* A name that the page cache shows may not be on the disk yet (killed between rename and sync): it
 * must be before a flush counts in the store it names, or the other store is removed. */
static enum rc directories_sync(struct machine *machine, struct error *error)
{
    struct env *env = machine->options.env;
    const char *slash = strrchr(machine->path, '/');
    char parent[MACHINE_PATH_MAX] = "/";
    enum rc rc;

    if (slash == NULL) {
        (void)snprintf(parent, sizeof(parent), ".");
    } else if (slash != machine->path) {
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - machine->path), machine->path);
    }
    rc = env->file->sync_directory(env, parent);
    if (rc == RC_OK) {
        rc = env->file->sync_directory(env, machine->path);
    }
    return rc == RC_OK ? RC_OK : error_set(error, rc, "sync %s: %s", machine->path, rc_text(rc));
}

static enum rc open_current(struct machine *machine, struct store **store, struct error *error)
{
    struct env *env = machine->options.env;
    enum rc rc = env->file->mkdir(env, machine->path);

    if (rc != RC_OK && rc != RC_EXISTS) {
        return error_set(error, rc, "make %s: %s", machine->path, rc_text(rc));
    }
    rc = directories_sync(machine, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = machine_mark_read(machine, MARK_CURRENT, &machine->number, error);
    if (rc == RC_OK) {
        rc = machine_open_store(machine, machine->number, true, store, error);
    } else if (rc == RC_NOT_FOUND) {
        /* Without the mark nothing counts that may lie there. */
        machine->number = 1;
        machine_remove_others(machine, 0, 0);
        rc = machine_open_store(machine, machine->number, false, store, error);
        if (rc == RC_OK) {
            rc = store_clear(*store, error);
            if (rc == RC_OK) {
                rc = machine_mark_write(machine, MARK_CURRENT, machine->number, error);
            }
            if (rc != RC_OK) {
                store_retire(*store);
                store_unref(*store);
            }
        }
    }
    return rc;
}

static const struct state_machine machine_functions = {
    .applied = machine_applied,
    .apply = machine_apply,
    .result_free = machine_result_free,
    .flush = machine_flush,
    .export_open = machine_export_open,
    .export_next = machine_export_next,
    .export_close = machine_export_close,
    .install_begin = machine_install_begin,
    .install_chunk = machine_install_chunk,
    .install_finish = machine_install_finish,
};

static void machine_free(struct machine *machine)
{
    kv_batch_free(machine->batch);
    arena_deinit(&machine->arena);
    mem_free(machine->old_stores);
    mem_free(machine);
}

enum rc machine_open(struct machine **out, const struct machine_options *options,
                     struct error *error)
{
    struct machine *machine = mem_alloc(sizeof(*machine));
    struct store *store = NULL;
    uint64_t staged = 0;
    enum rc rc;

    ASSERT(options->env != NULL);
    machine->base = machine_functions;
    machine->options = *options;
    (void)snprintf(machine->path, sizeof(machine->path), "%s", options->path);
    machine->options.path = machine->path;
    machine->batch = kv_batch_new();
    arena_init(&machine->arena);
    rc = open_current(machine, &store, error);
    if (rc == RC_OK) {
        ASSERT(store != NULL);
        atomic_store(&machine->store, store);
        rc = machine_load(machine, store, error);
        if (rc != RC_OK) {
            store_retire(store);
            store_unref(store);
        }
    }
    if (rc != RC_OK) {
        machine_free(machine);
        return rc;
    }
    if (machine_mark_read(machine, MARK_STAGED, &staged, NULL) != RC_OK ||
        staged == machine->number) {
        staged = 0;
        machine_mark_remove(machine, MARK_STAGED);
    }
    machine_remove_others(machine, machine->number, staged);
    *out = machine;
    return RC_OK;
}

void machine_close(struct machine *machine)
{
    struct store *store = atomic_load(&machine->store);

    machine_install_drop(machine);
    store_retire(store);
    store_unref(store);
    for (size_t i = 0; i < machine->old_count; i++) {
        store_retire(machine->old_stores[i]);
    }
    machine_free(machine);
}

struct state_machine *machine_state(struct machine *machine)
{
    return &machine->base;
}

struct store *machine_store(struct machine *machine)
{
    for (;;) {
        struct store *store = atomic_load_explicit(&machine->store, memory_order_acquire);

        if (store_try_ref(store)) {
            return store;
        }
    }
}

uint64_t machine_change_stamp(const struct machine *machine)
{
    return atomic_load_explicit(&machine->change_stamp, memory_order_acquire);
}

uint64_t machine_last_stamp(const struct machine *machine)
{
    return atomic_load_explicit(&machine->last_stamp, memory_order_acquire);
}

uint64_t machine_root_index(const struct machine *machine)
{
    return atomic_load_explicit(&machine->root_index, memory_order_acquire);
}
