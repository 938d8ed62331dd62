/*
 * DELETE of a key with x-minio-force-delete: a job that deletes everything under that prefix.
 *
 *     check -> ask -> confirm -> commit -> reply
 *
 * Answers 202 with x-kist-job-id as soon as the job is durable; `kist admin job show ID` has its
 * progress. Without more each current version is deleted as DeleteObject does; with
 * x-kist-all-versions all versions and markers go. What clients write after the request stays.
 *
 * A statement of a policy may concern some keys below the prefix only, and no single question asks
 * for all of them: so beside the permission the caller must own the bucket, or be root.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lock.h"

struct delete_prefix {
    struct s3_request base;
    struct meta_refresh refresh;
    struct meta_write call;
    Kist__PutJob message;
    Kist__Job job;
};

static struct delete_prefix *prefix_of(struct task *task)
{
    return CONTAINER_OF(task, struct delete_prefix, base.task);
}

/* "true", or absent when it may be. */
static enum step_result prefix_flag(struct s3_request *req, const char *name, bool *value)
{
    struct slice text = s3_header(req, name);

    *value = slice_eq_nocase(text, SLICE("true"));
    if (text.data == NULL || *value) {
        return STEP_NEXT;
    }
    (void)s3_fail(req, S3_InvalidArgument, NULL);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", text);
    return STEP_FAIL;
}

static bool prefix_owner(const struct s3_request *req)
{
    return !req->auth.anonymous && (slice_eq(req->auth.user, SLICE("root")) ||
                                    slice_eq(s3_slice(req->bucket->owner), req->auth.user));
}

static enum step_result prefix_check(struct task *task)
{
    struct delete_prefix *op = prefix_of(task);
    struct s3_request *req = &op->base;
    bool force;
    bool all;

    op->job = (Kist__Job)KIST__JOB__INIT;
    if (prefix_flag(req, "x-minio-force-delete", &force) == STEP_FAIL ||
        prefix_flag(req, "x-kist-all-versions", &all) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->job.all_versions = all;
    if (req->auth.canonical_request.len == 0) { /* version 2 signs only headers of AWS */
        return s3_fail(req, S3_InvalidRequest,
                       "Deleting a prefix needs a request of Signature Version 4.");
    }
    if (s3_has_param(req, "versionId")) {
        return s3_fail(req, S3_InvalidRequest, "A version cannot be named with a prefix.");
    }
    if (!prefix_owner(req) ||
        !s3_allowed_key(req, all ? "s3:DeleteObjectVersion" : "s3:DeleteObject", req->bucket,
                        req->key)) {
        return s3_fail(req, S3_AccessDenied, NULL);
    }
    return STEP_NEXT;
}

static enum step_result prefix_ask(struct task *task)
{
    return object_lock_bypass_ask(S3_REQUEST_OF(task), &prefix_of(task)->refresh);
}

static enum step_result prefix_confirm(struct task *task)
{
    return object_lock_bypass_confirm(S3_REQUEST_OF(task));
}

static enum step_result prefix_commit(struct task *task)
{
    struct delete_prefix *op = prefix_of(task);
    struct s3_request *req = &op->base;

    op->job.kind = KIST__JOB_KIND__JOB_DELETE_PREFIX;
    op->job.bucket_id = req->bucket->id;
    op->job.bucket = req->bucket->name;
    op->job.prefix = s3_bytes(req->key);
    op->job.bypass_governance = object_lock_bypass(req, req->key);
    op->job.user = s3_bytes(req->auth.user);
    op->message = (Kist__PutJob)KIST__PUT_JOB__INIT;
    op->message.action = KIST__JOB_ACTION__JOB_CREATE;
    op->message.generation = req->bucket->generation;
    op->message.job = &op->job;
    return s3_write(req, &op->call, META_PUT_JOB, &op->message.base, SLICE_EMPTY);
}

static enum step_result prefix_reply(struct task *task)
{
    struct delete_prefix *op = prefix_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->call.reply;

    if (reply->outcome == KIST__OUTCOME__IN_USE) {
        return s3_fail(req, S3_SlowDown, NULL);
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    if (reply->job == NULL) {
        return task_fail(task, RC_CORRUPT, "metad answered a job without its row");
    }
    s3_reply_header(req, "x-kist-job-id",
                    arena_printf(req->arena, "%llu", (unsigned long long)reply->job->id));
    return s3_reply_empty(req, 202);
}

const struct s3_handler delete_prefix = {
    .state_size = sizeof(struct delete_prefix),
    .flags = CHECKS_MORE,
    .steps =
        {
                {"check", prefix_check},
                {"ask", prefix_ask},
                {"confirm", prefix_confirm},
                {"commit", prefix_commit},
                {"reply", prefix_reply},
                },
};
