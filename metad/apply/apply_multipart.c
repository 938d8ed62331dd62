/*
 * CREATE_UPLOAD, PUT_PART, ABORT_UPLOAD, PURGE_BUCKET. Completing one is in apply_complete.c.
 *
 * Every part upload has a layout of its own; its row names it. Part rows go with their upload row
 * in the same command, so a part that arrives after Complete or Abort is refused and its shards are
 * the gateway's to drop.
 */
#include "common/base/assert.h"
#include "metad/apply/due.h"
#include "metad/apply/liveness.h"
#include "metad/apply/lock.h"
#include "metad/apply/record_check.h"
#include "metad/apply/upload.h"

enum { PURGE_PARTS_MAX = 2000 }; /* of one PURGE_BUCKET: some 10 ms */

static const uint64_t NS_PER_S = 1000000000ULL;

/* ---- Upload rows ---- */

Kist__Upload *upload_load(struct apply *apply, uint64_t bucket_id, struct slice key,
                          struct slice upload_id)
{
    struct row_key row;

    key_object(&row, bucket_id, key, KIND_UPLOAD, upload_id);
    return apply_load(apply, FAMILY_UPLOADS, &row, &kist__upload__descriptor);
}

void upload_delete(struct apply *apply, uint64_t bucket_id, struct slice key,
                   struct slice upload_id)
{
    const Kist__Upload *upload = upload_load(apply, bucket_id, key, upload_id);
    struct row_key row;

    if (upload != NULL) {
        due_forget_upload(apply, bucket_id, key, upload);
    }
    key_object(&row, bucket_id, key, KIND_UPLOAD, upload_id);
    apply_delete(apply, FAMILY_UPLOADS, &row);
    apply_usage(apply, bucket_id, 0, 0, -1);
}

void apply_create_upload(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__CreateUpload *call = (const Kist__CreateUpload *)message;
    struct slice key = message_bytes(call->key);
    Kist__Upload *upload = call->upload;
    struct row_key row;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key)) {
        return;
    }
    if (upload == NULL || upload->template_ == NULL || upload->upload_id.len != ID_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "upload");
        return;
    }
    if (!record_check(apply, upload->template_) ||
        !lock_check_new(apply, apply_bucket(apply, call->bucket_id), upload->template_->lock)) {
        return;
    }
    if (upload_load(apply, call->bucket_id, key, message_bytes(upload->upload_id)) != NULL) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "upload id was used");
        return;
    }
    upload->stamp = apply->stamp;
    key_object(&row, call->bucket_id, key, KIND_UPLOAD, message_bytes(upload->upload_id));
    apply_put_message(apply, FAMILY_UPLOADS, &row, &upload->base);
    apply_usage(apply, call->bucket_id, 0, 0, 1);
    due_note_upload(apply, call->bucket_id, key, upload);
}

/* ---- Parts ---- */

static bool part_check(struct apply *apply, const Kist__PutPart *call)
{
    const Kist__Part *part = call->part;
    struct layout_name layout = {.bucket_id = call->bucket_id, .key = message_bytes(call->key)};

    if (part == NULL || part->number < 1 || part->number > LIMIT_PARTS || part->etag.len != 16 ||
        part->n_checksums > 8) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "part");
    }
    if (part->size > LIMIT_PUT_BYTES) {
        return apply_refuse(apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
    }
    if (part->size == 0 && part->n_pieces == 0 && part->layout_id.len == 0) {
        return true;
    }
    if (!apply_check_id(apply, part->layout_id)) {
        return false;
    }
    layout.id = message_bytes(part->layout_id);
    return layout_check_pieces(apply, part->pieces, part->n_pieces, part->size) &&
           layout_check_new(apply, &layout);
}

static void part_replace(struct apply *apply, const Kist__PutPart *call, const struct row_key *row)
{
    const Kist__Part *old = apply_load(apply, FAMILY_UPLOADS, row, &kist__part__descriptor);

    if (old == NULL ||
        slice_eq(message_bytes(old->layout_id), message_bytes(call->part->layout_id))) {
        return;
    }
    layout_drop_part(apply, call->bucket_id, message_bytes(call->key), old);
}

void apply_put_part(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutPart *call = (const Kist__PutPart *)message;
    struct slice key = message_bytes(call->key);
    struct slice upload_id = message_bytes(call->upload_id);
    Kist__Part *part = call->part;
    struct layout_name layout = {.bucket_id = call->bucket_id, .key = key};
    struct row_key row;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key)) {
        return;
    }
    if (upload_id.len != ID_BYTES || upload_load(apply, call->bucket_id, key, upload_id) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_UPLOAD);
        return;
    }
    if (!part_check(apply, call)) {
        return;
    }
    layout.id = message_bytes(part->layout_id);
    if (!layout_reference_pieces(apply, &layout, part->pieces, part->n_pieces)) {
        return;
    }
    key_object_u32(&row, call->bucket_id, key, KIND_PART, upload_id, part->number);
    part_replace(apply, call, &row);
    part->stamp = apply->stamp;
    for (size_t i = 0; i < part->n_pieces; i++) {
        part->pieces[i]->part = part->number;
    }
    layout_queue_repairs(apply, &layout, part->pieces, part->n_pieces);
    apply_put_message(apply, FAMILY_UPLOADS, &row, &part->base);
    apply->reply.part = part;
}

/* ---- The end of an upload without an object ---- */

/* Drops at most `max` parts of the upload; false when some are left. */
static bool upload_drop_parts(struct apply *apply, uint64_t bucket_id, struct slice key,
                              struct slice upload_id, uint32_t *max)
{
    struct apply_walk walk;
    struct row_key row;

    key_object(&row, bucket_id, key, KIND_PART, upload_id);
    apply_walk_open(&walk, apply, FAMILY_UPLOADS, &row);
    while (apply_walk_next(&walk)) {
        struct arena arena;
        const Kist__Part *part;

        if (*max == 0) {
            apply_walk_close(&walk);
            return false;
        }
        *max -= 1;
        arena_init(&arena);
        part = message_unpack(&arena, &kist__part__descriptor, walk.value);
        if (part == NULL || walk.key.len > sizeof(row.bytes)) {
            apply_fail(apply, "a part row does not decode");
        } else {
            layout_drop_part(apply, bucket_id, key, part);
            row.len = 0;
            row_key_append(&row, walk.key);
            apply_delete(apply, FAMILY_UPLOADS, &row);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
    return apply->error.rc == RC_OK;
}

uint32_t upload_abort(struct apply *apply, uint64_t bucket_id, struct slice key,
                      struct slice upload_id)
{
    uint32_t max = LIMIT_PARTS;

    if (!upload_drop_parts(apply, bucket_id, key, upload_id, &max)) {
        apply_fail(apply, "an upload has more parts than there are numbers");
        return 0;
    }
    upload_delete(apply, bucket_id, key, upload_id);
    return LIMIT_PARTS - max;
}

/* A repeat of an abort is a success (AWS), but only of one that there was. */
static void abort_remember(struct apply *apply, uint64_t bucket_id, struct slice key,
                           struct slice upload_id)
{
    Kist__Request request = KIST__REQUEST__INIT;
    struct row_key row;

    request.due = apply->stamp + LIMIT_COMPLETE_REPEAT_S * NS_PER_S;
    key_object(&row, bucket_id, key, KIND_COMPLETED, upload_id);
    apply_put_message(apply, FAMILY_ROWS, &row, &request.base);
}

static bool was_aborted(struct apply *apply, uint64_t bucket_id, struct slice key,
                        struct slice upload_id)
{
    const Kist__Request *request;
    struct row_key row;

    key_object(&row, bucket_id, key, KIND_COMPLETED, upload_id);
    request = apply_load(apply, FAMILY_ROWS, &row, &kist__request__descriptor);
    return request != NULL && request->due >= apply->stamp && request->digest.len == 0;
}

void apply_abort_upload(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__AbortUpload *call = (const Kist__AbortUpload *)message;
    struct slice key = message_bytes(call->key);
    struct slice upload_id = message_bytes(call->upload_id);
    const Kist__Upload *upload = NULL;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key)) {
        return;
    }
    if (upload_id.len == ID_BYTES) {
        upload = upload_load(apply, call->bucket_id, key, upload_id);
    }
    if (upload == NULL) {
        if (upload_id.len != ID_BYTES || !was_aborted(apply, call->bucket_id, key, upload_id)) {
            (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_UPLOAD);
        }
        return;
    }
    if (call->if_match_initiated != 0 && call->if_match_initiated != upload->stamp / NS_PER_S) {
        (void)apply_refuse(apply, KIST__OUTCOME__PRECONDITION_FAILED);
        return;
    }
    (void)upload_abort(apply, call->bucket_id, key, upload_id);
    abort_remember(apply, call->bucket_id, key, upload_id);
}

/* ---- Behind a deleted bucket ---- */

/* The upload with the lowest key of the bucket. */
static bool purge_find(struct apply *apply, uint64_t bucket_id, struct row_name *out)
{
    struct apply_walk walk;
    struct row_key prefix;
    bool found;

    key_bucket(&prefix, bucket_id);
    apply_walk_open(&walk, apply, FAMILY_UPLOADS, &prefix);
    found = apply_walk_next(&walk);
    if (found && !row_name_parse(apply->arena, arena_copy(apply->arena, walk.key), out)) {
        apply_fail(apply, "a key of the uploads family does not decode");
        found = false;
    }
    apply_walk_close(&walk);
    return found;
}

/* One bounded step: parts of one upload. What is left is found by the next step; the last one
 * deletes the `purge` row. */
void apply_purge_bucket(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PurgeBucket *call = (const Kist__PurgeBucket *)message;
    uint32_t max = PURGE_PARTS_MAX;
    struct row_name name;
    struct row_key row;
    struct slice upload_id;
    struct slice value;

    key_range_u64(&row, apply->range_id, KIND_PURGE, call->bucket_id, SLICE_EMPTY);
    if (call->bucket_id == 0 || !apply_get(apply, FAMILY_ROWS, &row, &value)) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_BUCKET);
        return;
    }
    if (bucket_table_get(apply->buckets, call->bucket_id) != 0) {
        (void)apply_refuse(apply, KIST__OUTCOME__BUCKET_EXISTS);
        return;
    }
    if (!purge_find(apply, call->bucket_id, &name)) {
        if (apply->error.rc == RC_OK) {
            apply_delete(apply, FAMILY_ROWS, &row);
        }
        return;
    }
    upload_id = slice_of(name.suffix.data, name.suffix.len < ID_BYTES ? 0 : ID_BYTES);
    if (upload_id.len == 0) {
        apply_fail(apply, "a key of the uploads family is too short");
        return;
    }
    if (upload_drop_parts(apply, call->bucket_id, name.key, upload_id, &max)) {
        key_object(&row, call->bucket_id, name.key, KIND_UPLOAD, upload_id);
        apply_delete(apply, FAMILY_UPLOADS, &row);
    }
}
