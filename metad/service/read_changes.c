/*
 * A page of the change feed, in the order of apply. The feed is one for all buckets of the range;
 * who reads one bucket passes over the others' rows once, because the cursor moves with what was
 * looked at, not with what was found.
 *
 *     cursor, or where the feed was trimmed -> rows, a bounded number -> those that match
 */
#include "common/base/bytes.h"
#include "metad/service/read.h"
#include "metad/store/message.h"

enum { CHANGES_ROWS_MAX = 1500, CHANGE_KEY_TAIL = 12 };

struct changes {
    struct read_context *read;
    struct meta_changes *call;
    struct arena scratch; /* of one row */
};

static bool changes_before(uint64_t stamp, uint32_t number, uint64_t other_stamp,
                           uint32_t other_number)
{
    return stamp < other_stamp || (stamp == other_stamp && number < other_number);
}

/* RC_OK also when there is no such row: `*out` is NULL. */
static enum rc changes_load(struct read_context *read, struct arena *arena, enum row_kind kind,
                            struct slice suffix, const ProtobufCMessageDescriptor *type, void **out)
{
    struct row_key row;
    enum rc rc;

    *out = NULL;
    key_range(&row, RANGE_FIRST, kind, suffix);
    rc = read_load(read, FAMILY_ROWS, &row, type, arena, out);
    if (rc == RC_NOT_FOUND) {
        *out = NULL;
        rc = RC_OK;
    }
    return rc;
}

/* Where to begin; sets what the feed's row says. */
static enum rc changes_start(struct changes *changes, struct row_key *start)
{
    struct meta_changes *call = changes->call;
    uint8_t number[4];
    void *found;
    enum rc rc;

    call->next_stamp = call->after_stamp;
    call->next_number = call->after_number;
    if (call->sink.len > 0) {
        rc = changes_load(changes->read, call->arena, KIND_CURSOR, call->sink,
                          &kist__feed_cursor__descriptor, &found);
        if (rc != RC_OK) {
            return rc;
        }
        call->sink_lost = found != NULL ? ((Kist__FeedCursor *)found)->lost : 0;
        if (call->resume && found != NULL) {
            call->next_stamp = ((Kist__FeedCursor *)found)->stamp;
            call->next_number = ((Kist__FeedCursor *)found)->number;
        }
    }
    rc = changes_load(changes->read, call->arena, KIND_FEED, SLICE_EMPTY,
                      &kist__feed_state__descriptor, &found);
    if (rc != RC_OK) {
        return rc;
    }
    if (found != NULL) {
        const Kist__FeedState *state = found;

        call->feed_bytes = state->bytes;
        call->feed_count = state->count;
        if (changes_before(call->next_stamp, call->next_number, state->trimmed_stamp,
                           state->trimmed_number)) {
            call->lost = !call->from_oldest && (call->next_stamp != 0 || call->next_number != 0);
            call->next_stamp = state->trimmed_stamp;
            call->next_number = state->trimmed_number;
        }
    }
    be32_put(number, call->next_number + (call->next_number < UINT32_MAX ? 1 : 0));
    key_range_u64(start, RANGE_FIRST, KIND_CHANGE, call->next_stamp,
                  slice_of(number, sizeof(number)));
    return RC_OK;
}

static bool changes_match(const struct meta_changes *call, const Kist__Change *change)
{
    bool told = call->sink.len == 0;

    for (size_t i = 0; !told && i < change->n_targets; i++) {
        told = slice_eq(message_bytes(change->targets[i]->sink), call->sink);
    }
    if (call->bucket_id != 0 &&
        (change->bucket_id != call->bucket_id || change->kind == KIST__CHANGE_KIND__CHANGE_TEST)) {
        return false;
    }
    return told && slice_starts(message_bytes(change->key), call->prefix);
}

static enum rc changes_row(struct changes *changes, struct slice key, struct slice value)
{
    struct meta_changes *call = changes->call;
    const Kist__Change *change;

    arena_reset(&changes->scratch);
    change = message_unpack(&changes->scratch, &kist__change__descriptor, value);
    if (change == NULL || key.len < CHANGE_KEY_TAIL) {
        return read_corrupt(changes->read, "a change row");
    }
    call->next_stamp = be64_get(key.data + key.len - CHANGE_KEY_TAIL);
    call->next_number = be32_get(key.data + key.len - 4);
    if (changes_match(call, change)) {
        call->changes[call->change_count++] = (struct meta_change){
            .stamp = call->next_stamp,
            .number = call->next_number,
            .change = message_unpack(call->arena, &kist__change__descriptor, value)};
    }
    return RC_OK;
}

static enum rc changes_walk(struct changes *changes, const struct row_key *start)
{
    struct meta_changes *call = changes->call;
    struct row_key prefix;
    struct read_walk walk;
    uint32_t rows = 0;
    enum rc rc = RC_OK;

    key_range(&prefix, RANGE_FIRST, KIND_CHANGE, SLICE_EMPTY);
    read_walk_open(&walk, changes->read, FAMILY_ROWS, start, &prefix, false);
    while (rc == RC_OK && read_walk_valid(&walk) && call->change_count < call->limit &&
           rows < CHANGES_ROWS_MAX) {
        rc = changes_row(changes, read_walk_key(&walk), read_walk_value(&walk));
        rows += 1;
        if (rc == RC_OK && !read_walk_next(&walk)) {
            rc = RC_AGAIN;
        }
    }
    if (rc == RC_OK) {
        call->more = read_walk_valid(&walk);
        rc = call->more ? RC_OK : read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}

/* The cursor behind the newest change; never the one that means "from the oldest on". */
static enum rc changes_latest(struct changes *changes)
{
    struct meta_changes *call = changes->call;
    const struct kv_ops *ops = changes->read->store->kv->ops;
    struct row_key prefix;
    struct row_key last;
    struct read_walk walk;
    enum rc rc = RC_OK;

    key_range(&prefix, RANGE_FIRST, KIND_CHANGE, SLICE_EMPTY);
    last = prefix;
    (void)row_key_after_prefix(&last);
    read_walk_open(&walk, changes->read, FAMILY_ROWS, &prefix, &prefix, false);
    ops->iter_seek_prev(walk.iter, row_key_slice(&last));
    if (read_walk_valid(&walk)) {
        struct slice key = read_walk_key(&walk);

        call->next_stamp = be64_get(key.data + key.len - CHANGE_KEY_TAIL);
        call->next_number = be32_get(key.data + key.len - 4);
    } else {
        rc = read_walk_rc(&walk);
        call->next_number += call->next_stamp == 0 && call->next_number == 0 ? 1 : 0;
    }
    read_walk_close(&walk);
    return rc;
}

enum rc read_changes(struct read_context *read, void *arg)
{
    struct meta_changes *call = arg;
    struct changes changes = {.read = read, .call = call};
    struct row_key start;
    enum rc rc;

    call->change_count = 0;
    call->more = false;
    call->lost = false;
    call->feed_bytes = 0;
    call->feed_count = 0;
    call->sink_lost = 0;
    if (call->bucket_id != 0 && bucket_table_get(read->store->buckets, call->bucket_id) == 0) {
        return error_set(&read->error, RC_STALE, "no such bucket");
    }
    if (call->changes == NULL) {
        call->changes = arena_alloc_raw(call->arena, call->limit * sizeof(*call->changes));
    }
    rc = changes_start(&changes, &start);
    if (rc != RC_OK) {
        return rc;
    }
    if (call->latest) {
        return changes_latest(&changes);
    }
    arena_init(&changes.scratch);
    rc = changes_walk(&changes, &start);
    arena_deinit(&changes.scratch);
    return rc;
}
