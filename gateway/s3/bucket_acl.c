/*
 * GetBucketAcl, PutBucketAcl. Where ACLs are off (BucketOwnerEnforced) the answer is the owner's
 * full control, whatever list is stored from before.
 */
#include "gateway/access/acl.h"
#include "gateway/s3/acl_document.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

struct put_bucket_acl {
    struct setting_op base;
    struct acl_request acl;
};

static enum step_result get_acl_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);

    acl_document_write(req, acl_of_bucket(req->bucket), s3_slice(req->bucket->owner));
    return s3_reply_xml(req, 200);
}

static enum step_result put_acl_check(struct task *task)
{
    struct put_bucket_acl *op = CONTAINER_OF(task, struct put_bucket_acl, base.base.task);
    enum step_result result = s3_acl_for_bucket(&op->base.base, &op->acl);

    if (result == STEP_NEXT) {
        setting_begin(&op->base, SETTING_ACL)->acl = op->acl.acl;
    }
    return result;
}

const struct s3_handler get_bucket_acl = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_acl_reply},
                },
};

const struct s3_handler put_bucket_acl = {
    .state_size = sizeof(struct put_bucket_acl),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_acl_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
