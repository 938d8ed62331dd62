/*
 * GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycle.
 *
 * What the rules do to versions is decided in metad's apply (metad/apply/apply_due.c); putting
 * rules also makes the job that looks at what is there already.
 */
#include "common/lifecycle/lifecycle.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_xml.h"
#include "gateway/s3/setting.h"

/* Only transitions depend on it, but clients (Terraform) read back what they have put. */
static const char default_size_header[] = "x-amz-transition-default-minimum-object-size";

static struct slice default_size_text(const Kist__Lifecycle *lifecycle)
{
    return lifecycle->varies_by_class ? SLICE("varies_by_storage_class")
                                      : SLICE("all_storage_classes_128K");
}

static enum step_result get_lifecycle_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Lifecycle *lifecycle = s3_settings(req->bucket)->lifecycle;
    struct xml_writer xml;

    if (lifecycle == NULL) {
        (void)s3_fail(req, S3_NoSuchLifecycleConfiguration, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_reply_header(req, default_size_header, default_size_text(lifecycle));
    s3_xml_begin(req, &xml);
    lifecycle_xml_write(req, &xml, lifecycle);
    return s3_reply_xml(req, 200);
}

static enum step_result put_lifecycle_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "LifecycleConfiguration");
    Kist__Lifecycle *lifecycle = arena_alloc(req->arena, sizeof(*lifecycle));
    uint64_t day_ms = req->gateway->config->lifecycle_day_ms;
    struct slice size = s3_header(req, default_size_header);

    kist__lifecycle__init(lifecycle);
    if (root == NULL || lifecycle_xml_read(req, root, lifecycle) == STEP_FAIL) {
        return STEP_FAIL;
    }
    lifecycle->varies_by_class = slice_eq(size, SLICE("varies_by_storage_class"));
    if (size.data != NULL && !slice_eq(size, default_size_text(lifecycle))) {
        (void)s3_fail(req, S3_InvalidArgument, NULL);
        s3_error_detail(req, "ArgumentName", slice_str(default_size_header));
        s3_error_detail(req, "ArgumentValue", size);
        return STEP_FAIL;
    }
    lifecycle->day_ms = day_ms > 0 ? day_ms : LIFECYCLE_DAY_MS;
    setting_begin(op, SETTING_LIFECYCLE)->lifecycle = lifecycle;
    return STEP_NEXT;
}

static enum step_result put_lifecycle_reply(struct task *task)
{
    struct setting_op *op = setting_op_of(task);

    s3_reply_header(&op->base, default_size_header, default_size_text(op->value->lifecycle));
    return setting_reply(task);
}

static enum step_result delete_lifecycle_check(struct task *task)
{
    (void)setting_begin(setting_op_of(task), SETTING_LIFECYCLE);
    return STEP_NEXT;
}

const struct s3_handler get_bucket_lifecycle = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_lifecycle_reply},
                },
};

const struct s3_handler put_bucket_lifecycle = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT | NEEDS_CHECKSUM,
    .steps =
        {
                {"check", put_lifecycle_check},
                {"write", setting_write},
                {"reply", put_lifecycle_reply},
                },
};

const struct s3_handler delete_bucket_lifecycle = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_lifecycle_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
