/*
 * HeadBucket, GetBucketLocation: is it there, and where.
 *
 *     refresh -> reply
 *
 * dispatch has found the bucket in the view; the refresh makes sure that it is still there.
 */
#include "gateway/s3/handlers.h"

struct head_bucket {
    struct s3_request base;
    struct meta_refresh refresh;
};

static enum step_result head_bucket_refresh(struct task *task)
{
    struct head_bucket *op = CONTAINER_OF(task, struct head_bucket, base.task);

    return op->base.gateway->meta->refresh(op->base.gateway->meta, &op->refresh, task);
}

static bool head_bucket_there(const struct s3_request *req)
{
    const struct view *view = req->gateway->meta->view(req->gateway->meta);

    return view_bucket(view, req->bucket_name) != NULL;
}

static enum step_result head_bucket_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);

    if (!head_bucket_there(req)) {
        return s3_fail(req, S3_NoSuchBucket, NULL);
    }
    s3_reply_header(req, "x-amz-bucket-arn",
                    arena_printf(req->arena, "arn:aws:s3:::%.*s", (int)req->bucket_name.len,
                                 req->bucket_name.data));
    s3_reply_header(req, "x-amz-bucket-region", req->gateway->config->region);
    s3_reply_header(req, "x-amz-access-point-alias", SLICE("false"));
    s3_reply_header(req, "Content-Type", SLICE("application/xml"));
    return s3_reply_empty(req, 200);
}

static enum step_result get_location_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    struct slice region = req->gateway->config->region;
    struct xml_writer xml;

    if (!head_bucket_there(req)) {
        return s3_fail(req, S3_NoSuchBucket, NULL);
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "LocationConstraint", XML_NS_S3);
    if (!slice_eq(region, SLICE("us-east-1"))) { /* which AWS writes as nothing */
        xml_escape(&req->xml, region);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler head_bucket = {
    .state_size = sizeof(struct head_bucket),
    .steps = {{"refresh", head_bucket_refresh}, {"reply", head_bucket_reply}},
};

const struct s3_handler get_bucket_location = {
    .state_size = sizeof(struct head_bucket),
    .steps = {{"refresh", head_bucket_refresh}, {"reply", get_location_reply}},
};
