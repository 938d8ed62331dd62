/*
 * GetBucketOwnershipControls, PutBucketOwnershipControls, DeleteBucketOwnershipControls: do ACLs
 * count, and who owns what others upload. A bucket without controls follows the rule ObjectWriter
 * (AWS), which is stored with a mark, since a bucket of before this setting has ACLs off.
 */
#include "gateway/access/acl.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

static enum step_result get_ownership_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Ownership *ownership = s3_settings(req->bucket)->ownership;
    struct xml_writer xml;

    if (ownership != NULL && ownership->unset) {
        (void)s3_fail(req, S3_OwnershipControlsNotFoundError, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "OwnershipControls", XML_NS_S3);
    xml_writer_open(&xml, "Rule");
    xml_writer_str(&xml, "ObjectOwnership", acl_ownership_name(acl_ownership(req->bucket)));
    xml_writer_close(&xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result put_ownership_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "OwnershipControls");
    const struct xml_node *rule = root != NULL ? xml_child(root, "Rule") : NULL;
    enum ownership_rule number;

    if (root == NULL) {
        return STEP_FAIL;
    }
    if (rule == NULL || xml_next(rule, "Rule") != NULL ||
        !acl_ownership_parse(xml_child_text(rule, "ObjectOwnership"), &number)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (number == OWNERSHIP_ENFORCED &&
        !acl_is_private(s3_settings(req->bucket)->acl, s3_slice(req->bucket->owner))) {
        return s3_fail(req, S3_InvalidBucketAclWithObjectOwnership, NULL);
    }
    setting_begin(op, SETTING_OWNERSHIP)->ownership = s3_ownership(req, number, false);
    return STEP_NEXT;
}

static enum step_result delete_ownership_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);

    setting_begin(op, SETTING_OWNERSHIP)->ownership =
        s3_ownership(&op->base, OWNERSHIP_WRITER, true);
    return STEP_NEXT;
}

const struct s3_handler get_bucket_ownership = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_ownership_reply},
                },
};

const struct s3_handler put_bucket_ownership = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"refresh", setting_refresh}, /* the bucket's ACL may be a reason to say no */
            {"confirm", setting_confirm},
                {"check", put_ownership_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};

const struct s3_handler delete_bucket_ownership = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_ownership_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
