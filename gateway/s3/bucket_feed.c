/*
 * GetBucketFeed, PutBucketFeed, DeleteBucketFeed: is every change of the bucket kept for readers
 * (GetBucketChanges)? Ours, in the form of AWS's configurations:
 *
 *     <FeedConfiguration><Status>Enabled</Status></FeedConfiguration>
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

static enum step_result get_feed_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Feed *feed = s3_settings(req->bucket)->feed;
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "FeedConfiguration", XML_NS_S3);
    xml_writer_str(&xml, "Status", feed != NULL && feed->enabled ? "Enabled" : "Disabled");
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void feed_set(struct setting_op *op, bool enabled)
{
    Kist__Feed *feed = arena_alloc(op->base.arena, sizeof(*feed));

    kist__feed__init(feed);
    feed->enabled = enabled;
    setting_begin(op, SETTING_FEED)->feed = feed;
}

static enum step_result put_feed_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    const struct xml_node *root = setting_document(&op->base, "FeedConfiguration");
    struct slice status = root != NULL ? xml_child_text(root, "Status") : SLICE_EMPTY;

    if (root == NULL) {
        return STEP_FAIL;
    }
    if (!slice_eq(status, SLICE("Enabled")) && !slice_eq(status, SLICE("Disabled"))) {
        return s3_fail(&op->base, S3_MalformedXML, NULL);
    }
    feed_set(op, slice_eq(status, SLICE("Enabled")));
    return STEP_NEXT;
}

static enum step_result delete_feed_check(struct task *task)
{
    feed_set(setting_op_of(task), false);
    return STEP_NEXT;
}

const struct s3_handler get_bucket_feed = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_feed_reply},
                },
};

const struct s3_handler put_bucket_feed = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_feed_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};

const struct s3_handler delete_bucket_feed = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_feed_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
