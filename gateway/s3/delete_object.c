/*
 * DeleteObject: remove an object, or one version of it. Without a version id, in a bucket that
 * keeps versions, a delete marker is made.
 *
 *     check -> ask -> confirm -> commit -> reply
 *
 * A delete changes metadata only: the shards are reclaimed later, so no datad is contacted here and
 * a lost one cannot fail us. A key that does not exist is a success, so that a client which lost
 * our reply may repeat the request. `ask` and `confirm` do nothing unless the request wants to pass
 * over governance in a bucket without object lock.
 */
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"

struct delete_object {
    struct s3_request base;
    struct meta_write call;
    Kist__DeleteObjects message;
    Kist__DeleteObjects__Item item;
    Kist__DeleteObjects__Item *items[1];
    Kist__Conditions conditions;
    struct meta_refresh refresh;
    struct slice version;
    bool conditional;
};

static struct delete_object *delete_of(struct task *task)
{
    return CONTAINER_OF(task, struct delete_object, base.task);
}

static enum step_result delete_check(struct task *task)
{
    struct delete_object *op = delete_of(task);

    if (s3_version_param_lenient(&op->base, &op->version) == STEP_FAIL ||
        s3_refuse_unsupported(&op->base) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_delete_conditions(&op->base, &op->conditions, &op->conditional);
}

static enum step_result delete_ask(struct task *task)
{
    return object_lock_bypass_ask(S3_REQUEST_OF(task), &delete_of(task)->refresh);
}

static enum step_result delete_confirm(struct task *task)
{
    return object_lock_bypass_confirm(S3_REQUEST_OF(task));
}

static enum step_result delete_commit(struct task *task)
{
    struct delete_object *op = delete_of(task);
    struct s3_request *req = &op->base;

    op->item = (Kist__DeleteObjects__Item)KIST__DELETE_OBJECTS__ITEM__INIT;
    op->item.key = s3_bytes(req->key);
    op->item.conditions = op->conditional ? &op->conditions : NULL;
    op->item.version = s3_bytes(op->version);
    op->item.bypass_governance = object_lock_bypass(req, req->key);
    op->items[0] = &op->item;
    op->message = (Kist__DeleteObjects)KIST__DELETE_OBJECTS__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.items = op->items;
    op->message.n_items = 1;
    op->message.user = s3_bytes(req->auth.user);
    return s3_write(req, &op->call, META_DELETE_OBJECTS, &op->message.base, SLICE_EMPTY);
}

static enum step_result delete_reply(struct task *task)
{
    struct delete_object *op = delete_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->call.reply;
    const Kist__Deleted *deleted;

    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    if (reply->n_deleted != 1) {
        return task_fail(task, RC_CORRUPT, "metad answered a delete without its result");
    }
    deleted = reply->deleted[0];
    if (deleted->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail(req, s3_error_from_outcome(deleted->outcome),
                       s3_outcome_message(deleted->outcome));
    }
    if (deleted->delete_marker) {
        s3_reply_header(req, "x-amz-delete-marker", SLICE("true"));
    }
    if (op->version.len > 0) {
        s3_reply_header(req, "x-amz-version-id", s3_param(req, "versionId"));
    } else if (deleted->delete_marker) {
        s3_reply_header(
            req, "x-amz-version-id",
            version_id_text_of(req->arena, deleted->stamp, deleted->tie, deleted->null_version));
    }
    return s3_reply_empty(req, 204);
}

const struct s3_handler delete_object = {
    .state_size = sizeof(struct delete_object),
    .steps =
        {
                {"check", delete_check},
                {"ask", delete_ask},
                {"confirm", delete_confirm},
                {"commit", delete_commit},
                {"reply", delete_reply},
                },
};
