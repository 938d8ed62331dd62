/*
 * GetBucketVersioning, PutBucketVersioning. A bucket whose versioning was never set has no Status.
 * MFA delete is not enforced, so asking for it is refused.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

enum { VERSIONING_ENABLED = 1, VERSIONING_SUSPENDED = 2 };

static enum step_result get_versioning_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Versioning *versioning = s3_settings(req->bucket)->versioning;
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "VersioningConfiguration", XML_NS_S3);
    if (versioning != NULL) {
        xml_writer_str(&xml, "Status",
                       versioning->state == VERSIONING_ENABLED ? "Enabled" : "Suspended");
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result put_versioning_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "VersioningConfiguration");
    Kist__Versioning *versioning;
    struct slice status;
    struct slice mfa;

    if (root == NULL) {
        return STEP_FAIL;
    }
    status = xml_child_text(root, "Status");
    mfa = xml_child_text(root, "MfaDelete");
    if (slice_eq(mfa, SLICE("Enabled")) || s3_header(req, "x-amz-mfa").data != NULL) {
        return s3_fail(req, S3_NotImplemented, "MFA delete is not implemented.");
    }
    if (mfa.data != NULL && !slice_eq(mfa, SLICE("Disabled"))) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (status.data == NULL) {
        return s3_fail(req, S3_IllegalVersioningConfigurationException, NULL);
    }
    versioning = arena_alloc(req->arena, sizeof(*versioning));
    kist__versioning__init(versioning);
    if (slice_eq(status, SLICE("Enabled"))) {
        versioning->state = VERSIONING_ENABLED;
    } else if (slice_eq(status, SLICE("Suspended"))) {
        versioning->state = VERSIONING_SUSPENDED;
    } else {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    setting_begin(op, SETTING_VERSIONING)->versioning = versioning;
    return STEP_NEXT;
}

const struct s3_handler get_bucket_versioning = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_versioning_reply},
                },
};

const struct s3_handler put_bucket_versioning = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_versioning_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
