/*
 * AbortMultipartUpload: the upload and its parts go in one command; what they held is reclaimed.
 *
 *     check -> commit -> reply
 */
#include "common/codec/time_format.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/upload.h"

struct abort_upload {
    struct s3_request base;
    struct meta_write call;
    Kist__AbortUpload message;
    struct slice upload_id;
    uint64_t initiated_s;
};

static struct abort_upload *abort_of(struct task *task)
{
    return CONTAINER_OF(task, struct abort_upload, base.task);
}

static enum step_result abort_check(struct task *task)
{
    struct abort_upload *op = abort_of(task);
    struct slice initiated = s3_header(&op->base, "x-amz-if-match-initiated-time");
    struct env *env = op->base.gateway->env;

    if (initiated.data != NULL &&
        !time_parse_http(initiated, env->clock->wall_ns(env) / 1000000000U, &op->initiated_s)) {
        return s3_fail(&op->base, S3_InvalidArgument,
                       "x-amz-if-match-initiated-time must be a date.");
    }
    return upload_read_id(&op->base, &op->upload_id);
}

static enum step_result abort_commit(struct task *task)
{
    struct abort_upload *op = abort_of(task);
    struct s3_request *req = &op->base;

    op->message = (Kist__AbortUpload)KIST__ABORT_UPLOAD__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.upload_id = s3_bytes(op->upload_id);
    op->message.if_match_initiated = op->initiated_s;
    return s3_write(req, &op->call, META_ABORT_UPLOAD, &op->message.base, SLICE_EMPTY);
}

static enum step_result abort_reply(struct task *task)
{
    struct abort_upload *op = abort_of(task);

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(&op->base, op->call.reply);
    }
    return s3_reply_empty(&op->base, 204);
}

const struct s3_handler abort_upload = {
    .state_size = sizeof(struct abort_upload),
    .steps =
        {
                {"check", abort_check},
                {"commit", abort_commit},
                {"reply", abort_reply},
                },
};
