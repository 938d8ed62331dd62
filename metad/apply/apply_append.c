/*
 * APPEND_OBJECT: bytes behind those of the current version, which becomes a new one. What the
 * command carries by what is there, proto/command.proto says. No datad is asked.
 *
 *     the old bytes                                  the new version
 *     none, or inline, and all fit inline            one inline body, written anew
 *     none, or inline, and they do not               the command's pieces are all there is
 *     a layout only the old version names, which     the same layout, longer by the new pieces: its
 *     is dropped                                     last row is written again, whatever the size
 *     any other layout                               a layout of its own: references to the old
 *                                                    pieces, then the new ones
 */
#include "common/base/assert.h"
#include "metad/apply/conditions.h"
#include "metad/apply/layout_writer.h"
#include "metad/apply/lock.h"
#include "metad/apply/record_check.h"
#include "metad/apply/version.h"

enum { APPEND_PIECES_MAX = LIMIT_PARTS };

struct append {
    struct apply *apply;
    const Kist__AppendObject *call;
    struct version_key key;
    Kist__Record *old; /* NULL: absent */
    Kist__Record *record;
    Kist__Piece **pieces; /* of the command */
    size_t count;
    bool extends;  /* the old version's layout goes on */
    bool in_place; /* and the old version's own layout is the new one's */
};

/* ---- Judging ---- */

static bool append_check(struct append *op)
{
    const Kist__AppendObject *call = op->call;
    struct apply *apply = op->apply;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key) || !apply_check_id(apply, call->copy_id)) {
        return false;
    }
    if (call->record == NULL || call->record->shared != NULL) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "record");
    }
    op->pieces = call->n_pieces > 0 ? call->pieces : call->record->pieces;
    op->count = call->n_pieces > 0 ? call->n_pieces : call->record->n_pieces;
    return record_check(apply, call->record);
}

static bool append_judge_offset(struct append *op)
{
    const Kist__AppendObject *call = op->call;
    uint64_t size = op->old != NULL ? op->old->size : 0;
    uint64_t stamp = op->old != NULL ? op->old->stamp : 0;

    if (call->offset != size) {
        op->apply->reply.record = op->old;
        return apply_refuse(op->apply, KIST__OUTCOME__INVALID_OFFSET);
    }
    if (call->stamp != stamp) {
        return apply_refuse_text(op->apply, KIST__OUTCOME__PRECONDITION_FAILED, "object changed");
    }
    if (call->record->size < size || (op->old != NULL && call->record->size == size)) {
        return apply_refuse_text(op->apply, KIST__OUTCOME__INVALID_ARGUMENT, "nothing to append");
    }
    return call->record->size <= LIMIT_OBJECT_BYTES ||
           apply_refuse(op->apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
}

static bool append_judge_inline(struct append *op)
{
    const Kist__Record *record = op->call->record;

    if (op->extends || record->layout_id.len > 0 || record->size > LIMIT_INLINE_BYTES ||
        op->apply->body.len != record->size - op->call->offset) {
        return apply_refuse_text(op->apply, KIST__OUTCOME__INVALID_ARGUMENT, "inline body");
    }
    return true;
}

static bool append_judge_pieces(struct append *op)
{
    const Kist__Record *record = op->call->record;
    struct apply *apply = op->apply;
    uint64_t size = op->extends ? record->size - op->call->offset : record->size;
    struct layout_name layout = {.bucket_id = op->call->bucket_id,
                                 .key = message_bytes(op->call->key),
                                 .id = message_bytes(record->layout_id)};

    if (record->inline_body || apply->body.len > 0 || !apply_check_id(apply, record->layout_id)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "body and pieces");
    }
    for (size_t i = 0; i < op->count; i++) {
        if (op->pieces[i]->owner != NULL) {
            return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "foreign pieces");
        }
    }
    if (op->extends && op->old->piece_count + op->count > APPEND_PIECES_MAX) {
        return apply_refuse_text(apply, KIST__OUTCOME__ENTITY_TOO_LARGE,
                                 "the object was appended to too often");
    }
    return layout_check_pieces(apply, op->pieces, op->count, size) &&
           layout_check_new(apply, &layout);
}

static bool append_judge(struct append *op)
{
    struct version replaced;
    Kist__Outcome outcome;

    op->old = version_current(&op->key);
    outcome = conditions_write(op->call->conditions, op->old);
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = version_replaced(&op->key, &replaced);
    }
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(op->apply, outcome);
    }
    if (!append_judge_offset(op)) {
        return false;
    }
    op->extends = op->old != NULL && op->old->layout_id.len > 0;
    op->in_place = op->extends && op->old->shared == NULL && replaced.record == op->old;
    return op->count == 0 ? append_judge_inline(op) : append_judge_pieces(op);
}

/* ---- Bytes ---- */

static bool append_inline(struct append *op)
{
    struct apply *apply = op->apply;
    struct slice body = apply->body;
    struct slice old = SLICE_EMPTY;
    struct row_key row;
    char *all;

    if (op->old != NULL && op->old->inline_body) {
        key_inline(&row, op->call->bucket_id, op->key.key, op->old->stamp);
        if (!apply_get(apply, FAMILY_INLINE, &row, &old) || old.len != op->old->size) {
            apply_fail(apply, "an inline body is missing");
            return false;
        }
    }
    op->record->inline_body = op->record->size > 0;
    if (!op->record->inline_body) {
        return true;
    }
    ASSERT(old.len + body.len == op->record->size);
    all = arena_alloc_raw(apply->arena, old.len + body.len);
    if (old.len > 0) {
        memcpy(all, old.data, old.len);
    }
    if (body.len > 0) {
        memcpy(all + old.len, body.data, body.len);
    }
    apply_put_inline(apply, op->call->bucket_id, op->key.key, apply->stamp,
                     slice_of(all, old.len + body.len));
    return true;
}

/* The first pieces stand in the record as well. */
static void append_piece(struct append *op, struct layout_writer *writer, Kist__Piece *piece)
{
    Kist__Record *record = op->record;

    if (record->n_pieces < LIMIT_RECORD_PIECES) {
        record->pieces[record->n_pieces++] = piece;
    }
    layout_writer_add(writer, piece);
}

static void append_new_pieces(struct append *op, struct layout_writer *writer)
{
    for (size_t i = 0; i < op->count; i++) {
        append_piece(op, writer, op->pieces[i]);
    }
    layout_writer_finish(writer);
    layout_queue_repairs(op->apply, &writer->layout, op->pieces, op->count);
}

/* ---- The same layout, longer ---- */

static bool append_last_row(struct append *op, const struct layout_name *layout,
                            struct layout_writer *writer)
{
    const Kist__LayoutChunk *chunk = NULL;
    struct apply_walk walk;
    struct row_key prefix;

    key_object(&prefix, layout->bucket_id, layout->key, KIND_LAYOUT, layout->id);
    apply_walk_open(&walk, op->apply, FAMILY_ROWS, &prefix);
    if (apply_walk_last(&walk)) {
        chunk = message_unpack(op->apply->arena, &kist__layout_chunk__descriptor,
                               arena_copy(op->apply->arena, walk.value));
    }
    apply_walk_close(&walk);
    if (chunk == NULL || chunk->n_pieces > LIMIT_LAYOUT_CHUNK_PIECES) {
        apply_fail(op->apply, "the last row of a layout does not decode");
        return false;
    }
    layout_writer_resume(writer, chunk);
    return true;
}

static bool append_in_place(struct append *op)
{
    Kist__Record *record = op->record;
    struct layout_name layout = {.bucket_id = op->call->bucket_id,
                                 .key = op->key.key,
                                 .id = message_bytes(op->old->layout_id)};
    struct layout_writer writer;
    bool has_rows = op->old->piece_count > op->old->n_pieces;

    record->layout_id = op->old->layout_id;
    record->piece_count = op->old->piece_count + (uint32_t)op->count;
    layout_writer_init(&writer, op->apply, &layout, record->piece_count > LIMIT_RECORD_PIECES);
    if (has_rows && !append_last_row(op, &layout, &writer)) {
        return false;
    }
    for (size_t i = 0; i < op->old->n_pieces; i++) {
        if (has_rows) {
            record->pieces[record->n_pieces++] = op->old->pieces[i];
        } else {
            append_piece(op, &writer, op->old->pieces[i]);
        }
    }
    append_new_pieces(op, &writer);
    return true;
}

/* ---- A layout of its own, with references to the old one ---- */

/* The piece as it stands in the new layout; its extents belong to the old one, or to the layout
 * that the old one refers to. */
static Kist__Piece *append_reference(struct append *op, const Kist__Piece *from,
                                     const Kist__Reference *old)
{
    Kist__Piece *piece = arena_alloc(op->apply->arena, sizeof(*piece));
    Kist__Reference *reference = arena_alloc(op->apply->arena, sizeof(*reference));

    *piece = *from;
    *reference = from->owner != NULL ? *from->owner : *old;
    reference->reference_id = op->call->copy_id;
    piece->owner = reference;
    if (!layout_has_reference(op->apply, reference) &&
        !layout_add_reference(op->apply, reference, op->call->bucket_id, op->key.key)) {
        return NULL;
    }
    return piece;
}

static bool append_old_pieces(struct append *op, struct layout_writer *writer,
                              Kist__Piece *const *pieces, size_t count, const Kist__Reference *old)
{
    for (size_t i = 0; i < count; i++) {
        Kist__Piece *piece = append_reference(op, pieces[i], old);

        if (piece == NULL) {
            return false;
        }
        append_piece(op, writer, piece);
    }
    return true;
}

static bool append_old_rows(struct append *op, struct layout_writer *writer,
                            const Kist__Reference *old)
{
    struct apply *apply = op->apply;
    struct apply_walk walk;
    struct row_key prefix;
    bool ok = true;

    key_object(&prefix, old->home_bucket, message_bytes(old->home_key), KIND_LAYOUT,
               message_bytes(old->layout_id));
    apply_walk_open(&walk, apply, FAMILY_ROWS, &prefix);
    while (ok && apply_walk_next(&walk)) {
        const Kist__LayoutChunk *chunk = message_unpack(
            apply->arena, &kist__layout_chunk__descriptor, arena_copy(apply->arena, walk.value));

        if (chunk == NULL) {
            apply_fail(apply, "a layout row does not decode");
            ok = false;
        } else {
            ok = append_old_pieces(op, writer, chunk->pieces, chunk->n_pieces, old);
        }
    }
    apply_walk_close(&walk);
    return ok && apply->error.rc == RC_OK;
}

static bool append_shared(struct append *op)
{
    const Kist__Record *old = op->old;
    Kist__Record *record = op->record;
    Kist__Reference own = KIST__REFERENCE__INIT;
    const Kist__Reference *reference = old->shared != NULL ? old->shared : &own;
    struct layout_name layout = {.bucket_id = op->call->bucket_id,
                                 .key = op->key.key,
                                 .id = message_bytes(op->call->record->layout_id)};
    struct layout_writer writer;
    bool ok;

    own.layout_id = old->layout_id;
    own.home_bucket = op->call->bucket_id;
    own.home_key = op->call->key;
    record->layout_id = op->call->record->layout_id;
    record->shared = NULL;
    record->piece_count = old->piece_count + (uint32_t)op->count;
    layout_writer_init(&writer, op->apply, &layout, record->piece_count > LIMIT_RECORD_PIECES);
    ok = old->piece_count > old->n_pieces
             ? append_old_rows(op, &writer, reference)
             : append_old_pieces(op, &writer, old->pieces, old->n_pieces, reference);
    if (!ok) {
        return false;
    }
    append_new_pieces(op, &writer);
    ASSERT(writer.piece_count == record->piece_count);
    return true;
}

static void append_fresh(struct append *op)
{
    Kist__Record *record = op->record;
    struct layout_name layout = {.bucket_id = op->call->bucket_id,
                                 .key = op->key.key,
                                 .id = message_bytes(op->call->record->layout_id)};
    struct layout_writer writer;

    record->inline_body = false;
    record->layout_id = op->call->record->layout_id;
    record->piece_count = (uint32_t)op->count;
    layout_writer_init(&writer, op->apply, &layout, op->count > LIMIT_RECORD_PIECES);
    append_new_pieces(op, &writer);
}

/* Somebody else may name the old layout: then it stays as it is. */
static bool append_extend(struct append *op)
{
    struct layout_name old = {.bucket_id = op->call->bucket_id, .key = op->key.key};

    ASSERT(op->old != NULL);
    old.id = message_bytes(op->old->layout_id);
    op->in_place = op->in_place && layout_home(op->apply, &old) == NULL;
    return op->in_place ? append_in_place(op) : append_shared(op);
}

static bool append_bytes(struct append *op)
{
    op->record->pieces =
        arena_alloc(op->apply->arena, LIMIT_RECORD_PIECES * sizeof(*op->record->pieces));
    op->record->n_pieces = 0;
    if (op->count == 0) {
        return append_inline(op);
    }
    if (op->extends) {
        return append_extend(op);
    }
    append_fresh(op);
    return true;
}

/* What was there, with the size and the sums of the whole. */
static Kist__Record *append_record(struct append *op)
{
    Kist__Record *from = op->call->record;
    Kist__Record *record = arena_alloc(op->apply->arena, sizeof(*record));

    *record = op->old != NULL ? *op->old : *from;
    record->size = from->size;
    record->etag = from->etag;
    record->checksums = from->checksums;
    record->n_checksums = from->n_checksums;
    record->part_count = 0;
    record->segments = op->old != NULL ? from->segments : 0;
    record->delete_marker = false;
    record->lock = lock_of_new(op->apply, op->key.bucket, op->old != NULL ? NULL : from->lock);
    return record;
}

void apply_append_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__AppendObject *call = (const Kist__AppendObject *)message;
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_APPEND};
    struct append op = {.apply = apply, .call = call};

    if (!append_check(&op)) {
        return;
    }
    version_key_init(&op.key, apply, call->bucket_id, message_bytes(call->key));
    if (!append_judge(&op) ||
        (op.old == NULL && !lock_check_new(apply, op.key.bucket, call->record->lock))) {
        return;
    }
    op.record = append_record(&op);
    if (!append_bytes(&op)) {
        return;
    }
    cause.user = message_bytes(op.record->owner);
    version_put(&op.key, op.record, op.in_place, &cause);
    apply->reply.record = op.record;
}
