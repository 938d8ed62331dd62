/*
 * DeleteBucket: only when nothing is in it (decided in the apply); open uploads go with it.
 *
 *     commit -> reply
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lookup.h"

struct delete_bucket {
    struct s3_request base;
    struct meta_write call;
    Kist__DeleteBucket message;
};

static enum step_result delete_bucket_commit(struct task *task)
{
    struct delete_bucket *op = CONTAINER_OF(task, struct delete_bucket, base.task);

    op->message = (Kist__DeleteBucket)KIST__DELETE_BUCKET__INIT;
    op->message.name = s3_bytes(op->base.bucket_name);
    op->message.bucket_id = op->base.bucket->id;
    return s3_write(&op->base, &op->call, META_DELETE_BUCKET, &op->message.base, SLICE_EMPTY);
}

static enum step_result delete_bucket_reply(struct task *task)
{
    struct delete_bucket *op = CONTAINER_OF(task, struct delete_bucket, base.task);

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        if (op->call.reply->outcome == KIST__OUTCOME__BUCKET_NOT_EMPTY &&
            s3_ever_versioned(op->base.bucket)) {
            return s3_fail(&op->base, S3_BucketNotEmpty,
                           "The bucket you tried to delete is not empty. You must delete all "
                           "versions in the bucket.");
        }
        return s3_fail_outcome(&op->base, op->call.reply);
    }
    return s3_reply_empty(&op->base, 204);
}

const struct s3_handler delete_bucket = {
    .state_size = sizeof(struct delete_bucket),
    .steps =
        {
                {"commit", delete_bucket_commit},
                {"reply", delete_bucket_reply},
                },
};
