/*
 * PutObject.
 *
 *     check -> store -> commit -> reply
 *
 * `store` reads the body to its end (signature, length, digest and checksum verified) and makes its
 * bytes durable, or keeps a small one for the command. Nothing is visible before `commit`, one
 * entry of metad's log; so a body cut short never replaces what was there. Conditions are decided
 * in the apply.
 */
#include "common/base/limits.h"
#include "gateway/object/write_path.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/write_body.h"

struct put_object {
    struct s3_request base;
    struct write_path write;
    struct meta_write call;
    Kist__PutObject message;
    Kist__Record record;
    Kist__Conditions conditions;
    bool stored;    /* write_path was started */
    bool committed; /* a command was handed over */
};

static struct put_object *put_of(struct task *task)
{
    return CONTAINER_OF(task, struct put_object, base.task);
}

static enum step_result put_check(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;
    bool conditional;

    if (s3_has_param(req, "versionId")) {
        return s3_fail(req, S3_InvalidArgument, "This operation does not accept a version-id.");
    }
    if (s3_refuse_unsupported(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (s3_write_conditions(req, &op->conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message = (Kist__PutObject)KIST__PUT_OBJECT__INIT;
    op->message.conditions = conditional ? &op->conditions : NULL;
    op->record = (Kist__Record)KIST__RECORD__INIT;
    if (s3_record_from_request(req, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_write_body_begin(req, CHECKSUM_NONE, LIMIT_PUT_BYTES);
}

static enum step_result put_store(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;

    op->stored = true;
    op->write = (struct write_path){
        .gateway = req->gateway,
        .view = req->view,
        .payload = &req->payload,
        .arena = req->arena,
        .bucket_id = req->bucket->id,
        .key = req->key,
        .layout = gateway_new_id(req->gateway),
        .allow_inline = true,
    };
    return write_path_start(&op->write, task);
}

static enum step_result put_commit(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;
    Kist__Record *record = &op->record;

    record->size = op->write.size;
    record->owner = s3_bytes(req->auth.user);
    record->etag = s3_bytes(slice_of(req->payload.md5, MD5_BYTES));
    record->n_checksums = s3_write_body_checksums(req, &record->checksums);
    record->inline_body = op->write.is_inline && op->write.size > 0;
    if (!op->write.is_inline) {
        record->layout_id = s3_bytes(slice_of(op->write.layout.bytes, EXTENT_ID_BYTES));
        record->piece_count = (uint32_t)op->write.piece_count;
        record->pieces = op->write.pieces;
        record->n_pieces = op->write.piece_count;
        if (record->n_pieces > LIMIT_RECORD_PIECES) {
            record->n_pieces = LIMIT_RECORD_PIECES;
            op->message.pieces = op->write.pieces;
            op->message.n_pieces = op->write.piece_count;
        }
    }
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.record = record;
    op->committed = true;
    return s3_write(req, &op->call, META_PUT_OBJECT, &op->message.base,
                    record->inline_body ? op->write.body : SLICE_EMPTY);
}

static enum step_result put_reply(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->call.reply);
    }
    s3_reply_header(req, "ETag", s3_record_etag(req->arena, &op->record, true));
    s3_reply_checksums(req, op->record.checksums, op->record.n_checksums, 0);
    return s3_reply_empty(req, 200);
}

static void put_abort(struct task *task)
{
    struct put_object *op = put_of(task);

    if (!op->stored) {
        return;
    }
    if (!s3_maybe_applied(&op->base, &op->call, op->committed)) {
        write_path_discard(&op->write);
    }
    s3_write_body_error(&op->base, &op->write);
}

const struct s3_handler put_object = {
    .state_size = sizeof(struct put_object),
    .flags = BODY_STREAM,
    .steps =
        {
                {"check", put_check},
                {"store", put_store},
                {"commit", put_commit},
                {"reply", put_reply},
                },
    .abort = put_abort,
};
