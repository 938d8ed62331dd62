/*
 * PUT_OBJECT: the record of a finished write becomes current, and what it replaces stops being
 * named.
 *
 *     bucket, key, record -> conditions -> extents (age, durable shards) -> rows
 *
 * The bytes are on their datads already (or come along, when inline); nothing is read from them
 * here.
 */
#include "common/base/assert.h"
#include "metad/apply/conditions.h"
#include "metad/apply/layout_writer.h"
#include "metad/apply/record_check.h"

/* Pieces of the whole layout: in the command when the record cannot hold them. */
static Kist__Piece **put_pieces(const Kist__PutObject *put, size_t *count)
{
    if (put->n_pieces > 0) {
        *count = put->n_pieces;
        return put->pieces;
    }
    *count = put->record->n_pieces;
    return put->record->pieces;
}

static bool put_check_body(struct apply *apply, const Kist__PutObject *put)
{
    const Kist__Record *record = put->record;
    size_t count;
    Kist__Piece **pieces = put_pieces(put, &count);
    struct layout_name layout = {.bucket_id = put->bucket_id,
                                 .key = message_bytes(put->key),
                                 .id = message_bytes(record->layout_id)};

    if (count == 0) {
        if (record->layout_id.len > 0 || record->size != apply->body.len ||
            record->inline_body != (record->size > 0)) {
            return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "inline body");
        }
        return true;
    }
    if (record->inline_body || apply->body.len > 0 || !apply_check_id(apply, record->layout_id)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "body and pieces");
    }
    for (size_t i = 0; i < count; i++) {
        if (pieces[i]->owner != NULL) {
            return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "foreign pieces");
        }
    }
    return layout_check_pieces(apply, pieces, count, record->size) &&
           layout_check_new(apply, &layout);
}

static bool put_check(struct apply *apply, const Kist__PutObject *put, const Kist__Record *old)
{
    Kist__Outcome outcome;

    if (put->record == NULL || put->record->shared != NULL) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "record");
    }
    outcome = conditions_write(put->conditions, old);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(apply, outcome);
    }
    if (put->record->size > LIMIT_PUT_BYTES) {
        return apply_refuse(apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
    }
    return record_check(apply, put->record) && put_check_body(apply, put);
}

static void put_layout(struct apply *apply, const Kist__PutObject *put, Kist__Record *record)
{
    struct layout_writer writer;
    size_t count;
    Kist__Piece **pieces = put_pieces(put, &count);
    struct layout_name layout = {.bucket_id = put->bucket_id,
                                 .key = message_bytes(put->key),
                                 .id = message_bytes(record->layout_id)};

    layout_writer_init(&writer, apply, &layout, count > LIMIT_RECORD_PIECES);
    for (size_t i = 0; i < count; i++) {
        layout_writer_add(&writer, pieces[i]);
    }
    layout_writer_finish(&writer);
    layout_queue_repairs(apply, &layout, pieces, count);
    record->pieces = pieces;
    record->n_pieces = count < LIMIT_RECORD_PIECES ? count : LIMIT_RECORD_PIECES;
    record->piece_count = (uint32_t)count;
}

void apply_put_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutObject *put = (const Kist__PutObject *)message;
    struct slice key = message_bytes(put->key);
    Kist__Record *record = put->record;
    const Kist__Record *old;

    if (!apply_check_bucket(apply, put->bucket_id, put->generation) ||
        !apply_check_key(apply, put->key)) {
        return;
    }
    old = apply_current(apply, put->bucket_id, key);
    if (!put_check(apply, put, old)) {
        return;
    }
    if (old != NULL) {
        layout_drop_record(apply, put->bucket_id, key, old);
    }
    record->stamp = apply->stamp;
    record->part_count = 0;
    if (record->layout_id.len > 0) {
        put_layout(apply, put, record);
    } else if (record->inline_body) {
        apply_put_inline(apply, put->bucket_id, key, apply->stamp, apply->body);
    }
    apply_put_current(apply, put->bucket_id, key, record);
    apply_usage(apply, put->bucket_id, old == NULL ? 1 : 0,
                (int64_t)record->size - (old != NULL ? (int64_t)old->size : 0), 0);
    apply->reply.record = record;
}
