/*
 * CONDEMN, RECLAIMED, SET_DURABLE: what is done to a layout behind its object (DESIGN 4.4, 5.4).
 * They are routed by the home's key and need neither bucket nor generation: a layout outlives its
 * bucket.
 *
 *     queue row -> CONDEMN (refused when named or referenced) -> shards deleted -> RECLAIMED
 */
#include "common/base/assert.h"
#include "metad/apply/liveness.h"

static bool layout_name_ok(struct apply *apply, uint64_t bucket_id, ProtobufCBinaryData key,
                           ProtobufCBinaryData layout_id)
{
    if (bucket_id == 0) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "bucket");
    }
    return apply_check_key(apply, key) && apply_check_id(apply, layout_id);
}

/* ---- Condemn ---- */

/* References that pieces of a condemned layout hold on other layouts. */
static void release_layout_rows(struct apply *apply, const struct layout_name *layout)
{
    struct apply_walk walk;
    struct row_key prefix;

    key_object(&prefix, layout->bucket_id, layout->key, KIND_LAYOUT, layout->id);
    apply_walk_open(&walk, apply, FAMILY_ROWS, &prefix);
    while (apply_walk_next(&walk)) {
        struct arena arena;
        const Kist__LayoutChunk *chunk;

        arena_init(&arena);
        chunk = message_unpack(&arena, &kist__layout_chunk__descriptor, walk.value);
        if (chunk == NULL) {
            apply_fail(apply, "a layout row does not decode");
        } else {
            layout_unreference_pieces(apply, chunk->pieces, chunk->n_pieces);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
}

static void reply_own_pieces(struct apply *apply, const Kist__Home *home)
{
    Kist__Reply *reply = &apply->reply;

    reply->pieces = arena_alloc(apply->arena, (home->n_pieces + 1) * sizeof(*reply->pieces));
    for (size_t i = 0; i < home->n_pieces; i++) {
        if (home->pieces[i]->owner == NULL) {
            reply->pieces[reply->n_pieces++] = home->pieces[i];
        }
    }
}

/* The pieces of a short list come in the answer, those of a long one stand in the layout's rows. */
void apply_condemn(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__Condemn *call = (const Kist__Condemn *)message;
    struct layout_name layout = {.bucket_id = call->bucket_id,
                                 .key = message_bytes(call->key),
                                 .id = message_bytes(call->layout_id)};
    Kist__Home fresh = KIST__HOME__INIT;
    Kist__Home *home;

    if (!layout_name_ok(apply, call->bucket_id, call->key, call->layout_id)) {
        return;
    }
    home = layout_home(apply, &layout);
    if (home != NULL && home->state == HOME_CONDEMNED) {
        reply_own_pieces(apply, home);
        return;
    }
    if (layout_is_named(apply, &layout, home)) {
        (void)apply_refuse(apply, KIST__OUTCOME__STILL_REFERENCED);
        return;
    }
    if (home == NULL) {
        home = &fresh;
        home->pieces = call->pieces;
        home->n_pieces = call->n_pieces;
    }
    home->state = HOME_CONDEMNED;
    home->condemned_at = apply->stamp;
    layout_put_home(apply, &layout, home);
    layout_unreference_pieces(apply, home->pieces, home->n_pieces);
    release_layout_rows(apply, &layout);
    reply_own_pieces(apply, home);
}

/* ---- Reclaimed ---- */

static void delete_rows(struct apply *apply, const struct layout_name *layout, enum row_kind kind)
{
    struct apply_walk walk;
    struct row_key row;

    key_object(&row, layout->bucket_id, layout->key, kind, layout->id);
    apply_walk_open(&walk, apply, FAMILY_ROWS, &row);
    while (apply_walk_next(&walk)) {
        ASSERT(walk.key.len <= sizeof(row.bytes));
        row.len = 0;
        row_key_append(&row, walk.key);
        apply_delete(apply, FAMILY_ROWS, &row);
    }
    apply_walk_close(&walk);
}

/* Deletes the queue row a caller names, if it is one. */
static void delete_queue_row(struct apply *apply, ProtobufCBinaryData queue_key)
{
    struct row_key prefix;
    struct row_key row = {.len = 0};

    key_range(&prefix, apply->range_id, KIND_RECLAIM, SLICE_EMPTY);
    if (queue_key.len > sizeof(row.bytes) ||
        !slice_starts(message_bytes(queue_key), row_key_slice(&prefix))) {
        return;
    }
    row_key_append(&row, message_bytes(queue_key));
    apply_delete(apply, FAMILY_ROWS, &row);
}

void apply_reclaimed(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__Reclaimed *call = (const Kist__Reclaimed *)message;
    struct layout_name layout = {.bucket_id = call->bucket_id,
                                 .key = message_bytes(call->key),
                                 .id = message_bytes(call->layout_id)};
    const Kist__Home *home;
    struct row_key row;

    if (!layout_name_ok(apply, call->bucket_id, call->key, call->layout_id)) {
        return;
    }
    home = layout_home(apply, &layout);
    if (home != NULL && home->state == HOME_CONDEMNED) {
        delete_rows(apply, &layout, KIND_LAYOUT);
        delete_rows(apply, &layout, KIND_LAYOUT_PARTS);
        key_object(&row, layout.bucket_id, layout.key, KIND_HOME, layout.id);
        apply_delete(apply, FAMILY_ROWS, &row);
    }
    /* Otherwise the row is a hint that no longer holds, or this is a repeat. */
    delete_queue_row(apply, call->queue_key);
}

/* ---- Set durable ---- */

/* The queue row, unless Complete has given it to another layout meanwhile. */
static void delete_repair_row(struct apply *apply, const Kist__SetDurable *call)
{
    struct row_key prefix;
    struct row_key row = {.len = 0};
    const Kist__Repair *repair;

    key_range(&prefix, apply->range_id, KIND_REPAIR, SLICE_EMPTY);
    if (call->queue_key.len > sizeof(row.bytes) ||
        !slice_starts(message_bytes(call->queue_key), row_key_slice(&prefix))) {
        return;
    }
    row_key_append(&row, message_bytes(call->queue_key));
    repair = apply_load(apply, FAMILY_ROWS, &row, &kist__repair__descriptor);
    if (repair != NULL &&
        slice_eq(message_bytes(repair->layout_id), message_bytes(call->layout_id)) &&
        slice_eq(message_bytes(repair->extent_id), message_bytes(call->extent_id))) {
        apply_delete(apply, FAMILY_ROWS, &row);
    }
}

struct set_durable {
    struct apply *apply;
    const Kist__SetDurable *call;
    struct layout_name layout;
    bool found;
    uint32_t missing;
};

/* True when one of the pieces was changed. */
static bool mark_pieces(struct set_durable *op, Kist__Piece *const *pieces, size_t count)
{
    bool changed = false;

    for (size_t i = 0; i < count; i++) {
        Kist__Extent *extent = pieces[i]->extent;
        uint32_t all;

        if (pieces[i]->owner != NULL || extent == NULL ||
            !slice_eq(message_bytes(extent->id), message_bytes(op->call->extent_id))) {
            continue;
        }
        all = (uint32_t)((1ULL << extent_shards(extent)) - 1);
        changed = changed || (op->call->durable & all & ~extent->durable) != 0;
        extent->durable |= op->call->durable & all;
        op->found = true;
        op->missing = all & ~extent->durable;
    }
    return changed;
}

static void mark_owner(struct set_durable *op)
{
    bool in_history;
    Kist__Record *record = layout_owner(op->apply, &op->layout, &in_history);

    if (record != NULL && mark_pieces(op, record->pieces, record->n_pieces)) {
        layout_put_owner(op->apply, &op->layout, record, in_history);
    }
}

static void mark_home(struct set_durable *op)
{
    Kist__Home *home = layout_home(op->apply, &op->layout);

    if (home != NULL && mark_pieces(op, home->pieces, home->n_pieces)) {
        layout_put_home(op->apply, &op->layout, home);
    }
}

static void mark_rows(struct set_durable *op, enum family family, enum row_kind kind,
                      struct slice suffix)
{
    const ProtobufCMessageDescriptor *type =
        kind == KIND_PART ? &kist__part__descriptor : &kist__layout_chunk__descriptor;
    struct apply_walk walk;
    struct row_key row;

    key_object(&row, op->layout.bucket_id, op->layout.key, kind, suffix);
    apply_walk_open(&walk, op->apply, family, &row);
    while (apply_walk_next(&walk)) {
        struct arena arena;
        ProtobufCMessage *message;
        bool changed = false;

        arena_init(&arena);
        message = message_unpack(&arena, type, walk.value);
        if (message == NULL) {
            apply_fail(op->apply, "a row with pieces does not decode");
        } else if (kind == KIND_LAYOUT) {
            Kist__LayoutChunk *chunk = (Kist__LayoutChunk *)message;

            changed = mark_pieces(op, chunk->pieces, chunk->n_pieces);
        } else {
            Kist__Part *part = (Kist__Part *)message;

            changed = slice_eq(message_bytes(part->layout_id), op->layout.id) &&
                      mark_pieces(op, part->pieces, part->n_pieces);
        }
        if (changed) {
            row.len = 0;
            row_key_append(&row, walk.key);
            apply_put_message(op->apply, family, &row, message);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
}

void apply_set_durable(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__SetDurable *call = (const Kist__SetDurable *)message;
    struct set_durable op = {
        .apply = apply,
        .call = call,
        .layout = {.bucket_id = call->bucket_id,
                   .key = message_bytes(call->key),
                   .id = message_bytes(call->layout_id)}
    };

    if (!layout_name_ok(apply, call->bucket_id, call->key, call->layout_id) ||
        !apply_check_id(apply, call->extent_id)) {
        return;
    }
    mark_owner(&op);
    mark_home(&op);
    mark_rows(&op, FAMILY_ROWS, KIND_LAYOUT, op.layout.id);
    if (!op.found) {
        mark_rows(&op, FAMILY_UPLOADS, KIND_PART, SLICE_EMPTY);
    }
    /* Repaired, or no longer there to repair. */
    if (op.missing == 0) {
        delete_repair_row(apply, call);
    }
}
