/*
 * GetBucketNotificationConfiguration, PutBucketNotificationConfiguration. Sinks are configured at
 * the server; apply writes a test event for each target into the change feed, from which the
 * deliverer (gateway/events) sends it like any other.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/notification_xml.h"
#include "gateway/s3/setting.h"

static enum step_result get_notification_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    notification_xml_write(&xml, s3_settings(req->bucket)->notification);
    return s3_reply_xml(req, 200);
}

static enum step_result put_notification_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "NotificationConfiguration");
    Kist__Notification *notification = arena_alloc(req->arena, sizeof(*notification));
    Kist__Settings *value;

    if (root == NULL || notification_xml_read(req, root, notification) == STEP_FAIL) {
        return STEP_FAIL;
    }
    value = setting_begin(op, SETTING_NOTIFICATION);
    value->notification = notification->n_targets > 0 ? notification : NULL;
    return STEP_NEXT;
}

const struct s3_handler get_bucket_notification = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_notification_reply},
                },
};

const struct s3_handler put_bucket_notification = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_notification_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
