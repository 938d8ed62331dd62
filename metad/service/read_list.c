/*
 * A page of keys, at one point in time (one iterator):
 *
 *     key without the delimiter behind the prefix   an entry, next
 *     key with it                                   one common prefix, then a seek past all keys
 *                                                   that share it: O(log n), whatever it holds
 */
#include "common/base/assert.h"
#include "metad/service/read.h"
#include "metad/store/message.h"
#include "metad/store/record_peek.h"

/* The first key of the page; false when nothing can follow. */
static bool list_start(const struct meta_list *call, const struct row_key *prefix,
                       struct row_key *start)
{
    *start = *prefix;
    if (call->after.len == 0 || call->after.len > LIMIT_KEY_BYTES) {
        return call->after.len == 0;
    }
    key_bucket(start, call->bucket_id);
    row_key_append(start, call->after);
    if (call->after_prefix) {
        if (!row_key_after_prefix(start)) {
            return false;
        }
    } else {
        row_key_append(start, SLICE("\0")); /* the least key that is greater */
    }
    if (slice_cmp(row_key_slice(start), row_key_slice(prefix)) < 0) {
        *start = *prefix;
    }
    return true;
}

static enum rc add_prefix(struct read_walk *walk, struct meta_list *call, struct slice name)
{
    struct row_key next;

    key_bucket(&next, call->bucket_id);
    row_key_append(&next, name);
    call->entries[call->entry_count++] = (struct meta_entry){.name = arena_copy(call->arena, name)};
    if (!row_key_after_prefix(&next)) {
        return read_corrupt(walk->read, "a key without successor");
    }
    return read_walk_seek(walk, &next) ? RC_OK : RC_AGAIN;
}

static enum rc add_key(struct read_walk *walk, struct meta_list *call, struct slice name)
{
    const Kist__Record *record = record_listed(call->arena, read_walk_value(walk), call->whole);

    if (record == NULL) {
        return read_corrupt(walk->read, "a record");
    }
    call->entries[call->entry_count++] =
        (struct meta_entry){.name = arena_copy(call->arena, name), .record = record};
    return read_walk_next(walk) ? RC_OK : RC_AGAIN;
}

static enum rc list_entry(struct read_walk *walk, struct meta_list *call)
{
    struct slice name;
    uint64_t bucket_id;
    size_t end;

    if (!current_parse(read_walk_key(walk), &bucket_id, &name)) {
        return read_corrupt(walk->read, "a key of the current family");
    }
    end = read_rolled_up(name, call->prefix.len, call->delimiter);
    if (end > 0) {
        return add_prefix(walk, call, slice_of(name.data, end));
    }
    return add_key(walk, call, name);
}

enum rc read_list(struct read_context *read, void *arg)
{
    struct meta_list *call = arg;
    struct row_key prefix;
    struct row_key start;
    struct read_walk walk;
    enum rc rc = read_check_bucket(read, call->bucket_id, call->generation);

    call->entry_count = 0;
    call->truncated = false;
    if (rc != RC_OK || call->prefix.len > LIMIT_KEY_BYTES) {
        return rc;
    }
    if (!read->again) {
        ASSERT(call->limit >= 1);
        ASSERT(call->limit <= LIMIT_LIST_KEYS);
        call->entries = arena_alloc_raw(call->arena, call->limit * sizeof(*call->entries));
    }
    key_bucket(&prefix, call->bucket_id);
    row_key_append(&prefix, call->prefix);
    if (!list_start(call, &prefix, &start)) {
        return RC_OK;
    }
    read_walk_open(&walk, read, FAMILY_CURRENT, &start, &prefix, false);
    while (rc == RC_OK && read_walk_valid(&walk) && call->entry_count < call->limit) {
        rc = list_entry(&walk, call);
    }
    if (rc == RC_OK) {
        call->truncated = read_walk_valid(&walk);
        rc = call->truncated ? RC_OK : read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}
