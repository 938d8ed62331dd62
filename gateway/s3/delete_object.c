/*
 * DeleteObject: remove an object.
 *
 *     check -> commit -> reply
 *
 * A delete changes metadata only: the shards are reclaimed later, so no datad is contacted here and
 * a lost one cannot fail us. A key that does not exist is a success, so that a client which lost
 * our reply may repeat the request.
 */
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/unsupported.h"

struct delete_object {
    struct s3_request base;
    struct meta_write call;
    Kist__DeleteObjects message;
    Kist__DeleteObjects__Item item;
    Kist__DeleteObjects__Item *items[1];
    Kist__Conditions conditions;
    bool conditional;
};

static struct delete_object *delete_of(struct task *task)
{
    return CONTAINER_OF(task, struct delete_object, base.task);
}

static enum step_result delete_check(struct task *task)
{
    struct delete_object *op = delete_of(task);

    if (s3_refuse_version(&op->base) == STEP_FAIL ||
        s3_refuse_unsupported(&op->base) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_delete_conditions(&op->base, &op->conditions, &op->conditional);
}

static enum step_result delete_commit(struct task *task)
{
    struct delete_object *op = delete_of(task);
    struct s3_request *req = &op->base;

    op->item = (Kist__DeleteObjects__Item)KIST__DELETE_OBJECTS__ITEM__INIT;
    op->item.key = s3_bytes(req->key);
    op->item.conditions = op->conditional ? &op->conditions : NULL;
    op->items[0] = &op->item;
    op->message = (Kist__DeleteObjects)KIST__DELETE_OBJECTS__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.items = op->items;
    op->message.n_items = 1;
    return s3_write(req, &op->call, META_DELETE_OBJECTS, &op->message.base, SLICE_EMPTY);
}

static enum step_result delete_reply(struct task *task)
{
    struct delete_object *op = delete_of(task);
    const Kist__Reply *reply = op->call.reply;

    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(&op->base, reply);
    }
    if (reply->n_deleted > 0 && reply->deleted[0]->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail(&op->base, s3_error_from_outcome(reply->deleted[0]->outcome), NULL);
    }
    return s3_reply_empty(&op->base, 204);
}

const struct s3_handler delete_object = {
    .state_size = sizeof(struct delete_object),
    .steps =
        {
                {"check", delete_check},
                {"commit", delete_commit},
                {"reply", delete_reply},
                },
};
