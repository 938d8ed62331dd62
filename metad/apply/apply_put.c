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
#include "metad/apply/lock.h"
#include "metad/apply/record_check.h"
#include "metad/apply/version.h"

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

static bool put_check(struct apply *apply, const Kist__PutObject *put, struct version_key *key)
{
    struct version replaced;
    Kist__Outcome outcome;

    if (put->record == NULL || put->record->shared != NULL) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "record");
    }
    outcome = conditions_write(put->conditions, version_current(key));
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = version_replaced(key, &replaced);
    }
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(apply, outcome);
    }
    if (put->record->size > LIMIT_PUT_BYTES) {
        return apply_refuse(apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
    }
    return record_check(apply, put->record) &&
           lock_check_new(apply, key->bucket, put->record->lock) && put_check_body(apply, put);
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
    Kist__Record *record = put->record;
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_PUT};
    struct version_key key;

    if (!apply_check_bucket(apply, put->bucket_id, put->generation) ||
        !apply_check_key(apply, put->key) || !version_check_kind(apply, put->change)) {
        return;
    }
    version_key_init(&key, apply, put->bucket_id, message_bytes(put->key));
    if (!put_check(apply, put, &key)) {
        return;
    }
    record->part_count = 0;
    record->delete_marker = false;
    record->lock = lock_of_new(apply, key.bucket, record->lock);
    if (record->layout_id.len > 0) {
        put_layout(apply, put, record);
    } else if (record->inline_body) {
        apply_put_inline(apply, put->bucket_id, key.key, apply->stamp, apply->body);
    }
    if (put->change != 0) {
        cause.kind = (Kist__ChangeKind)put->change;
    }
    cause.user = message_bytes(record->owner);
    version_put(&key, record, false, &cause);
    apply->reply.record = record;
}
