/*
 * Commands of the change feed:
 *
 *     TRIM_CHANGES   the oldest rows go, a bounded number, by age and by bytes
 *     PUT_CURSOR     how far a sink was served
 *
 * Both are proposed by the leader and can be repeated. The feed row says up to where it was
 * trimmed, so that nobody walks over what is gone, and a reader behind it is told. A sink that was
 * not served in time has each lost event counted in its cursor row, in the command that drops it.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "metad/apply/change.h"

enum { TRIM_ROWS_MAX = 1000, CHANGE_KEY_TAIL = 12, SINK_NAME_MAX = 128 };

struct trim {
    struct apply *apply;
    const Kist__TrimChanges *call;
    Kist__FeedState *state;
    uint32_t count;
};

static Kist__FeedCursor *cursor_load(struct apply *apply, ProtobufCBinaryData sink,
                                     struct row_key *row)
{
    Kist__FeedCursor *cursor;

    key_range(row, apply->range_id, KIND_CURSOR, message_bytes(sink));
    cursor = apply_load(apply, FAMILY_ROWS, row, &kist__feed_cursor__descriptor);
    if (cursor == NULL) {
        cursor = arena_alloc(apply->arena, sizeof(*cursor));
        kist__feed_cursor__init(cursor);
    }
    return cursor;
}

static bool cursor_before(uint64_t stamp, uint32_t number, uint64_t other_stamp,
                          uint32_t other_number)
{
    return stamp < other_stamp || (stamp == other_stamp && number < other_number);
}

/* Each sink that was to be told of this change and was not. */
static void trim_count_lost(struct trim *trim, struct slice value, uint64_t stamp, uint32_t number)
{
    const Kist__Change *change =
        message_unpack(trim->apply->arena, &kist__change__descriptor, value);

    if (change == NULL) {
        apply_fail(trim->apply, "a change row does not decode");
        return;
    }
    for (size_t i = 0; i < change->n_targets; i++) {
        struct row_key row;
        Kist__FeedCursor *cursor = cursor_load(trim->apply, change->targets[i]->sink, &row);

        if (cursor_before(cursor->stamp, cursor->number, stamp, number)) {
            cursor->lost += 1;
            apply_put_message(trim->apply, FAMILY_ROWS, &row, &cursor->base);
        }
    }
}

/* False: nothing more has to go. */
static bool trim_row(struct trim *trim, struct slice key, struct slice value)
{
    struct row_key row = {.len = 0};
    uint64_t stamp;
    uint32_t number;

    if (key.len < CHANGE_KEY_TAIL || key.len > sizeof(row.bytes)) {
        apply_fail(trim->apply, "the key of a change row");
        return false;
    }
    stamp = be64_get(key.data + key.len - CHANGE_KEY_TAIL);
    number = be32_get(key.data + key.len - 4);
    if (trim->count == TRIM_ROWS_MAX ||
        (stamp > trim->call->through && trim->state->bytes <= trim->call->bytes_max)) {
        return false;
    }
    row_key_append(&row, key);
    trim_count_lost(trim, value, stamp, number);
    apply_delete(trim->apply, FAMILY_ROWS, &row);
    trim->state->bytes -=
        key.len + value.len < trim->state->bytes ? key.len + value.len : trim->state->bytes;
    trim->state->count -= trim->state->count > 0 ? 1 : 0;
    trim->state->trimmed_stamp = stamp;
    trim->state->trimmed_number = number;
    trim->count += 1;
    return true;
}

void apply_trim_changes(struct apply *apply, const ProtobufCMessage *message)
{
    const struct kv_ops *ops = apply->kv->ops;
    struct trim trim = {.apply = apply, .call = (const Kist__TrimChanges *)message};
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct row_key lower;
    struct row_key upper;
    struct row_key row;
    struct kv_iter *iter;
    uint8_t number[4];

    key_range(&row, apply->range_id, KIND_FEED, SLICE_EMPTY);
    trim.state = apply_load(apply, FAMILY_ROWS, &row, &kist__feed_state__descriptor);
    if (trim.state == NULL) {
        return; /* no change was ever made */
    }
    apply->feed = trim.state;
    be32_put(number, trim.state->trimmed_number);
    key_range_u64(&lower, apply->range_id, KIND_CHANGE, trim.state->trimmed_stamp,
                  slice_of(number, sizeof(number)));
    key_range(&upper, apply->range_id, KIND_CHANGE, SLICE_EMPTY);
    (void)row_key_after_prefix(&upper);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = ops->iter_open(apply->kv, &options);
    ops->iter_seek(iter, options.lower);
    while (ops->iter_valid(iter) && apply->error.rc == RC_OK &&
           trim_row(&trim, ops->iter_key(iter), ops->iter_value(iter))) {
        ops->iter_next(iter);
    }
    if (apply->error.rc == RC_OK) {
        (void)ops->iter_rc(iter, &apply->error);
    }
    ops->iter_close(iter);
    apply->reply.first = trim.count;
}

void apply_put_cursor(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutCursor *call = (const Kist__PutCursor *)message;
    Kist__FeedCursor *cursor;
    struct row_key row;

    if (call->sink.len == 0 || call->sink.len > SINK_NAME_MAX) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "name of the sink");
        return;
    }
    cursor = cursor_load(apply, call->sink, &row);
    if (cursor_before(cursor->stamp, cursor->number, call->stamp, call->number)) {
        cursor->stamp = call->stamp;
        cursor->number = call->number;
        cursor->delivered += call->delivered;
        apply_put_message(apply, FAMILY_ROWS, &row, &cursor->base);
    }
}
