/*
 * PutObject.
 *
 *     acl -> check -> store -> commit -> reply
 *
 * `store` reads the body to its end (signature, length, digest and checksum verified) and makes its
 * bytes durable, or keeps a small one for the command. Nothing is visible before `commit`, one
 * entry of metad's log; so a body cut short never replaces what was there. Conditions are decided
 * in the apply.
 */
#include "common/base/limits.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/write_body.h"
#include "gateway/web/form.h"

struct put_object {
    struct s3_request base;
    struct body_write write;
    Kist__PutObject message;
    Kist__Record record;
    Kist__Conditions conditions;
    struct acl_request acl;
};

static struct put_object *put_of(struct task *task)
{
    return CONTAINER_OF(task, struct put_object, base.task);
}

static enum step_result put_acl(struct task *task)
{
    struct put_object *op = put_of(task);

    return s3_acl_from_request(&op->base, &op->acl);
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
    if (s3_record_from_request(req, &op->record) == STEP_FAIL ||
        s3_record_tags_and_lock(req, &op->record) == STEP_FAIL ||
        object_lock_needs_digest(req, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_write_body_begin(req, CHECKSUM_NONE, LIMIT_PUT_BYTES);
}

static enum step_result put_store(struct task *task)
{
    struct put_object *op = put_of(task);

    return body_write_store(&op->base, &op->write, true);
}

static enum step_result put_commit(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;
    struct piece_list longer = body_write_record(req, &op->write, &op->record);

    if (s3_acl_to_record(req, &op->acl, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.pieces = longer.pieces;
    op->message.n_pieces = longer.count;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.record = &op->record;
    op->message.change = req->form != NULL ? KIST__CHANGE_KIND__CHANGE_POST : 0;
    return body_write_commit(req, &op->write, META_PUT_OBJECT, &op->message.base,
                             op->record.inline_body ? op->write.path.body : SLICE_EMPTY);
}

static enum step_result put_reply(struct task *task)
{
    struct put_object *op = put_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->write.call.reply;

    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    s3_reply_header(req, "ETag", s3_record_etag(req->arena, &op->record, true));
    s3_reply_checksums(req, op->record.checksums, op->record.n_checksums, 0);
    /* AWS gives it after an append only; versitygw's client wants it of every upload. */
    s3_reply_header(req, "x-amz-object-size",
                    arena_printf(req->arena, "%llu", (unsigned long long)op->record.size));
    if (reply->record != NULL) {
        s3_reply_new_version(req, reply->record);
        s3_reply_expiration(req, reply->record);
    }
    if (req->form != NULL) {
        return form_reply(req, s3_record_etag(req->arena, &op->record, true));
    }
    return s3_reply_empty(req, 200);
}

static void put_abort(struct task *task)
{
    body_write_abort(S3_REQUEST_OF(task), &put_of(task)->write);
}

const struct s3_handler put_object = {
    .state_size = sizeof(struct put_object),
    .flags = BODY_STREAM,
    .steps =
        {
                {"acl", put_acl},
                {"check", put_check},
                {"store", put_store},
                {"commit", put_commit},
                {"reply", put_reply},
                },
    .abort = put_abort,
};
