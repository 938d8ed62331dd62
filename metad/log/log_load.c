/*
 * Reading a group's rows: all of them at start-up, runs of entries later for slow followers and for
 * apply; and the rare blocking writes of start-up.
 *
 * Everything read is verified. A gap, an entry above a hole, a snapshot beyond the last entry:
 * RC_CORRUPT. The caller stops the replica; the layer above wipes the group and has it refilled.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/log/log_store_internal.h"

enum { READ_BLOCK_BYTES_MIN = 4096 };

/* False with error->rc RC_OK: no such row. */
static bool group_row(struct log_store *store, uint64_t group, enum log_row_kind kind,
                      struct kv_pin *pin, char key[LOG_GROUP_KEY_BYTES], struct error *error)
{
    enum rc rc = RC_OK;

    log_group_key(key, group, kind);
    rc = kv_get(store->kv, LOG_FAMILY_GROUPS, slice_of(key, LOG_GROUP_KEY_BYTES), KV_ANY, pin,
                error);
    if (rc == RC_NOT_FOUND) {
        error->rc = RC_OK;
    }
    return rc == RC_OK;
}

static enum rc load_numbers(struct log_store *store, uint64_t group, enum log_row_kind kind,
                            uint64_t *numbers, uint32_t count, struct error *error)
{
    char key[LOG_GROUP_KEY_BYTES];
    struct kv_pin pin;
    enum rc rc = RC_OK;

    error->rc = RC_OK;
    if (!group_row(store, group, kind, &pin, key, error)) {
        return error->rc;
    }
    rc = log_numbers_decode(slice_of(key, sizeof(key)), pin.value, numbers, count, error);
    kv_release(store->kv, &pin);
    return rc;
}

static enum rc load_snapshot(struct log_store *store, uint64_t group, enum log_row_kind kind,
                             struct log_snapshot *out, struct error *error)
{
    char key[LOG_GROUP_KEY_BYTES];
    struct kv_pin pin;
    enum rc rc = RC_OK;

    error->rc = RC_OK;
    if (!group_row(store, group, kind, &pin, key, error)) {
        return error->rc;
    }
    rc = log_snapshot_decode(slice_of(key, sizeof(key)), pin.value, out, error);
    kv_release(store->kv, &pin);
    return rc;
}

static enum rc load_entries(struct log_store *store, uint64_t group, struct log_load *load,
                            struct error *error)
{
    char lower[LOG_ENTRY_KEY_BYTES];
    char upper[LOG_ENTRY_KEY_BYTES];
    struct kv_iter_options options = {.family = LOG_FAMILY_ENTRIES, .bulk = true};
    const struct kv_ops *ops = store->kv->ops;
    struct kv_iter *iter = NULL;
    uint64_t next = 0;
    uint64_t term = 0;
    enum rc rc = RC_OK;

    log_entry_key(lower, group, 0);
    log_entry_key(upper, group, UINT64_MAX);
    options.lower = slice_of(lower, sizeof(lower));
    options.upper = slice_of(upper, sizeof(upper));
    iter = ops->iter_open(store->kv, &options);
    for (ops->iter_seek(iter, options.lower); rc == RC_OK && ops->iter_valid(iter);
         ops->iter_next(iter)) {
        struct log_entry entry;
        uint64_t index = 0;

        rc = log_entry_decode(ops->iter_key(iter), ops->iter_value(iter), &index, &entry, error);
        if (rc != RC_OK) {
            break;
        }
        if (next != 0 && index != next) {
            rc =
                error_set(error, RC_CORRUPT, "log entry %llu is missing", (unsigned long long)next);
            break;
        }
        if (entry.term < term) {
            rc = error_set(error, RC_CORRUPT,
                           "log entry %llu is of an older term than the one before",
                           (unsigned long long)index);
            break;
        }
        if (next == 0) {
            load->state.first_index = index;
        }
        term = entry.term;
        next = index + 1;
        load->entry(load, index, &entry);
    }
    if (rc == RC_OK) {
        rc = ops->iter_rc(iter, error);
    }
    ops->iter_close(iter);
    load->state.last_index = next != 0 ? next - 1 : 0;
    return rc;
}

static enum rc load_check(struct log_state *state, struct error *error)
{
    const uint64_t start = state->snapshot.index;

    if (state->last_index == 0) { /* no entries */
        state->first_index = start + 1;
        state->last_index = start;
        return RC_OK;
    }
    if (state->first_index == 0 || state->first_index > start + 1) {
        return error_set(error, RC_CORRUPT, "log begins at %llu, but its start is %llu",
                         (unsigned long long)state->first_index, (unsigned long long)start);
    }
    if (state->last_index < start) {
        return error_set(error, RC_CORRUPT, "log ends at %llu, before its start %llu",
                         (unsigned long long)state->last_index, (unsigned long long)start);
    }
    if (state->term == 0) {
        return error_set(error, RC_CORRUPT, "log has entries, but no term");
    }
    return RC_OK;
}

enum rc log_store_load(struct log_store *store, uint64_t group, struct log_load *load,
                       struct error *error)
{
    struct log_state *state = &load->state;
    uint64_t term_vote[2] = {0, 0};
    enum rc rc = RC_OK;

    *state = (struct log_state){0};
    rc = load_numbers(store, group, LOG_ROW_REPLICA, &state->replica_id, 1, error);
    if (rc == RC_OK) {
        rc = load_numbers(store, group, LOG_ROW_TERM, term_vote, 2, error);
    }
    if (rc == RC_OK) {
        rc = load_snapshot(store, group, LOG_ROW_SNAPSHOT, &state->snapshot, error);
    }
    if (rc == RC_OK) {
        rc = load_snapshot(store, group, LOG_ROW_INSTALLING, &state->installing, error);
    }
    state->term = term_vote[0];
    state->vote = term_vote[1];
    if (rc == RC_OK) {
        rc = load_entries(store, group, load, error);
    }
    if (rc == RC_OK) {
        rc = load_check(state, error);
    }
    return rc == RC_OK
               ? rc
               : error_prefix(error, "load the log of group %llu", (unsigned long long)group);
}

static enum rc write_now(struct log_store *store, struct kv_batch *batch, struct error *error)
{
    const enum rc rc = kv_write(store->kv, batch, KV_SYNCED, error);

    kv_batch_free(batch);
    return rc == RC_OK ? rc : error_prefix(error, "write the replicated log");
}

enum rc log_store_create(struct log_store *store, uint64_t group, uint64_t replica_id,
                         struct slice bootstrap, struct error *error)
{
    struct kv_batch *batch = kv_batch_new();

    ASSERT(replica_id != 0);
    ASSERT(bootstrap.len <= LOG_CONFIGURATION_BYTES_MAX);
    log_batch_put_numbers(batch, group, LOG_ROW_REPLICA, &replica_id, 1);
    if (bootstrap.len > 0) {
        const uint64_t term_vote[2] = {1, 0};
        const struct log_entry entry = {.term = 1,
                                        .type = ENTRY_CHANGE,
                                        .data = bootstrap.data,
                                        .len = (uint32_t)bootstrap.len};

        log_batch_put_numbers(batch, group, LOG_ROW_TERM, term_vote, 2);
        log_batch_put_entry(batch, group, 1, &entry);
    }
    return write_now(store, batch, error);
}

enum rc log_store_installed(struct log_store *store, uint64_t group,
                            const struct log_snapshot *snapshot, struct error *error)
{
    const struct log_write write = {
        .what = LOG_WRITE_INSTALLED, .group = group, .snapshot = snapshot};
    struct kv_batch *batch = kv_batch_new();

    log_batch_add(batch, &write);
    return write_now(store, batch, error);
}

enum rc log_store_wipe(struct log_store *store, uint64_t group, struct error *error)
{
    static const enum log_row_kind kinds[] = {LOG_ROW_TERM, LOG_ROW_SNAPSHOT, LOG_ROW_REPLICA,
                                              LOG_ROW_INSTALLING};
    struct kv_batch *batch = kv_batch_new();
    char key[LOG_GROUP_KEY_BYTES];
    char from[LOG_ENTRY_KEY_BYTES];
    char to[LOG_ENTRY_KEY_BYTES];

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        log_group_key(key, group, kinds[i]);
        kv_batch_delete(batch, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)));
    }
    log_entry_key(from, group, 0);
    log_entry_key(to, group, UINT64_MAX);
    kv_batch_delete_range(batch, LOG_FAMILY_ENTRIES, slice_of(from, sizeof(from)),
                          slice_of(to, sizeof(to)));
    return write_now(store, batch, error);
}

enum rc log_store_set_tombstone(struct log_store *store, uint64_t group, uint64_t lowest_id,
                                struct error *error)
{
    uint64_t now = 0;
    enum rc rc = log_store_tombstone(store, group, &now, error);
    struct kv_batch *batch = NULL;

    if (rc != RC_OK || lowest_id <= now) {
        return rc;
    }
    batch = kv_batch_new();
    log_batch_put_numbers(batch, group, LOG_ROW_TOMBSTONE, &lowest_id, 1);
    return write_now(store, batch, error);
}

enum rc log_store_tombstone(struct log_store *store, uint64_t group, uint64_t *lowest_id,
                            struct error *error)
{
    *lowest_id = 0;
    return load_numbers(store, group, LOG_ROW_TOMBSTONE, lowest_id, 1, error);
}

/* The block grows while entries come, so data pointers are offsets until the end. */
static void read_take(struct log_read *read, const struct log_entry *entry, size_t *capacity)
{
    const size_t need = read->block == NULL ? entry->len : read->block->len + entry->len;
    struct log_entry *to = &read->entries[read->entry_count++];

    if (read->block == NULL || need > *capacity) {
        const size_t len = read->block == NULL ? 0 : read->block->len;

        *capacity = need * 2 > READ_BLOCK_BYTES_MIN ? need * 2 : READ_BLOCK_BYTES_MIN;
        read->block = mem_realloc(read->block, sizeof(*read->block) + *capacity);
        read->block->len = len;
    }
    *to = *entry;
    to->data = NULL;
    if (entry->len > 0) {
        memcpy(read->block->bytes + read->block->len, entry->data, entry->len);
    }
    read->block->len += entry->len;
}

static void read_finish(struct log_read *read)
{
    const char *at = NULL;

    if (read->block == NULL) {
        return;
    }
    at = read->block->bytes;
    read->block->refs = read->entry_count;
    for (uint32_t i = 0; i < read->entry_count; i++) {
        read->entries[i].block = read->block;
        read->entries[i].data = at;
        at += read->entries[i].len;
    }
}

enum rc log_store_read(struct log_store *store, struct log_read *read, struct error *error)
{
    const struct kv_ops *ops = store->kv->ops;
    char lower[LOG_ENTRY_KEY_BYTES];
    char upper[LOG_ENTRY_KEY_BYTES];
    struct kv_iter_options options = {.family = LOG_FAMILY_ENTRIES, .bulk = true};
    struct kv_iter *iter = NULL;
    size_t capacity = 0;
    enum rc rc = RC_OK;

    ASSERT(read->from <= read->to && read->entry_max > 0);
    read->entry_count = 0;
    read->block = NULL;
    log_entry_key(lower, read->group, read->from);
    log_entry_key(upper, read->group, read->to + 1);
    options.lower = slice_of(lower, sizeof(lower));
    options.upper = slice_of(upper, sizeof(upper));
    iter = ops->iter_open(store->kv, &options);
    for (ops->iter_seek(iter, options.lower); ops->iter_valid(iter); ops->iter_next(iter)) {
        struct log_entry entry;
        uint64_t index = 0;

        rc = log_entry_decode(ops->iter_key(iter), ops->iter_value(iter), &index, &entry, error);
        if (rc != RC_OK || index != read->from + read->entry_count) {
            break;
        }
        read_take(read, &entry, &capacity);
        if (read->entry_count == read->entry_max || read->block->len >= read->bytes_max) {
            break;
        }
    }
    if (rc == RC_OK) {
        rc = ops->iter_rc(iter, error);
    }
    ops->iter_close(iter);
    read_finish(read);
    if (rc == RC_OK && read->entry_count == 0) {
        rc = error_set(error, RC_NOT_FOUND, "log entry %llu is not there",
                       (unsigned long long)read->from);
    }
    if (rc != RC_OK && read->block != NULL) {
        mem_free(read->block);
        read->block = NULL;
        read->entry_count = 0;
    }
    return rc;
}
