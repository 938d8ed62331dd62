/*
 * The policy of a bucket: GetBucketPolicy, PutBucketPolicy, DeleteBucketPolicy,
 * GetBucketPolicyStatus.
 *
 *     PUT: check -> refresh -> users -> write -> reply
 *
 * The document is kept and given back byte by byte. What it may say is decided in gateway/access;
 * here come the users that it names, who must exist, and the public access block: a "no" of either
 * is confirmed by a refresh.
 */
#include "gateway/access/policy.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

/* Whom a policy lets in does not make him one of the owner's account (AWS: 405). */
static bool policy_is_foreign(struct s3_request *req)
{
    if (!req->auth.anonymous) {
        return false;
    }
    (void)s3_fail(req, S3_MethodNotAllowed, NULL);
    s3_error_detail(req, "Method", req->http->request.method_name);
    s3_error_detail(req, "ResourceType", SLICE("BUCKETPOLICY"));
    return true;
}

/* ---- Put ---- */

struct put_policy {
    struct setting_op setting;
    struct policy *policy;
    struct meta_refresh refresh;
};

static struct put_policy *put_policy_of(struct task *task)
{
    return CONTAINER_OF(task, struct put_policy, setting.base.task);
}

static enum step_result put_policy_malformed(struct s3_request *req, const struct error *error)
{
    if (error->rc == RC_UNSUPPORTED) {
        return s3_failf(req, S3_NotImplemented,
                        "The policy implies functionality that is not implemented: %s",
                        error->text);
    }
    return s3_fail(req, S3_MalformedPolicy, error->text);
}

/* As far as the view says by which it is judged. */
static bool put_policy_blocked(const struct put_policy *op)
{
    const Kist__PublicAccessBlock *block =
        s3_settings(op->setting.base.bucket)->public_access_block;

    return block != NULL && block->block_public_policy && policy_is_public(op->policy);
}

static enum step_result put_policy_check(struct task *task)
{
    struct put_policy *op = put_policy_of(task);
    struct s3_request *req = &op->setting.base;
    struct policy_options options = {.kind = POLICY_OF_BUCKET,
                                     .bucket = s3_slice(req->bucket->name)};
    struct error error;
    Kist__Policy *stored;

    if (policy_is_foreign(req)) {
        return STEP_FAIL;
    }
    if (policy_new(&op->policy, req->document, &options, &error) != RC_OK) {
        op->policy = NULL;
        return put_policy_malformed(req, &error);
    }
    stored = arena_alloc(req->arena, sizeof(*stored));
    kist__policy__init(stored);
    stored->json = s3_bytes(req->document);
    stored->is_public = policy_is_public(op->policy);
    setting_begin(&op->setting, SETTING_POLICY)->policy = stored;
    return STEP_NEXT;
}

static bool put_policy_knows(const struct view *view, struct slice user)
{
    for (size_t i = 0; i < view_user_count(view); i++) {
        if (slice_eq(s3_slice(view_user_at(view, i)->name), user)) {
            return true;
        }
    }
    return false;
}

static bool put_policy_users_exist(const struct put_policy *op, const struct view *view)
{
    size_t count = policy_user_count(op->policy);

    for (size_t i = 0; i < count; i++) {
        if (!put_policy_knows(view, policy_user_at(op->policy, i))) {
            return false;
        }
    }
    return true;
}

static enum step_result put_policy_refresh(struct task *task)
{
    struct put_policy *op = put_policy_of(task);
    struct s3_request *req = &op->setting.base;

    return put_policy_users_exist(op, req->view) && !put_policy_blocked(op)
               ? STEP_NEXT
               : req->gateway->meta->refresh(req->gateway->meta, &op->refresh, task);
}

static enum step_result put_policy_users(struct task *task)
{
    struct put_policy *op = put_policy_of(task);
    struct s3_request *req = &op->setting.base;
    const struct view *now = req->gateway->meta->view(req->gateway->meta);

    if (put_policy_blocked(op)) {
        enum step_result result = setting_confirm(task);

        return result == STEP_NEXT ? s3_fail(req, S3_AccessDenied, NULL) : result;
    }
    if (put_policy_users_exist(op, req->view) || put_policy_users_exist(op, now)) {
        return STEP_NEXT;
    }
    return s3_fail(req, S3_MalformedPolicy, "Invalid principal in policy");
}

static enum step_result policy_reply_none(struct task *task)
{
    struct setting_op *op = setting_op_of(task);

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(&op->base, op->call.reply);
    }
    return s3_reply_empty(&op->base, 204);
}

static void put_policy_release(struct task *task)
{
    struct put_policy *op = put_policy_of(task);

    if (op->policy != NULL) {
        policy_free(op->policy);
        op->policy = NULL;
    }
}

const struct s3_handler put_bucket_policy = {
    .state_size = sizeof(struct put_policy),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_policy_check},
                {"refresh", put_policy_refresh},
                {"users", put_policy_users},
                {"write", setting_write},
                {"reply", policy_reply_none},
                },
    .release = put_policy_release,
};

/* ---- Get ---- */

static enum step_result get_policy_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Policy *policy = s3_settings(req->bucket)->policy;

    if (policy_is_foreign(req)) {
        return STEP_FAIL;
    }
    if (policy == NULL) {
        (void)s3_fail(req, S3_NoSuchBucketPolicy, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_reply_header(req, "Content-Type", SLICE("application/json"));
    req->status = 200;
    req->body = arena_copy(req->arena, s3_slice(policy->json));
    return STEP_DONE;
}

const struct s3_handler get_bucket_policy = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_policy_reply},
                },
};

static enum step_result get_policy_status_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Policy *policy = s3_settings(req->bucket)->policy;
    struct xml_writer xml;

    if (policy == NULL) {
        (void)s3_fail(req, S3_NoSuchBucketPolicy, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "PolicyStatus", XML_NS_S3);
    xml_writer_str(&xml, "IsPublic", policy->is_public ? "true" : "false");
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler get_bucket_policy_status = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_policy_status_reply},
                },
};

/* ---- Delete ---- */

static enum step_result delete_policy_check(struct task *task)
{
    if (policy_is_foreign(S3_REQUEST_OF(task))) {
        return STEP_FAIL;
    }
    (void)setting_begin(setting_op_of(task), SETTING_POLICY);
    return STEP_NEXT;
}

const struct s3_handler delete_bucket_policy = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_policy_check},
                {"write", setting_write},
                {"reply", policy_reply_none},
                },
};
