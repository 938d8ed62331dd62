/*
 * ListBuckets: the caller's buckets in order of their names (root sees all).
 *
 *     refresh -> reply
 *
 * The view is refreshed first: a bucket made through another gateway must be in the list.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/page_token.h"

enum { BUCKETS_PAGE_MAX = 10000 };

struct list_buckets {
    struct s3_request base;
    struct meta_refresh refresh;
    struct page_token token;
    uint64_t limit;
};

static struct list_buckets *list_buckets_of(struct task *task)
{
    return CONTAINER_OF(task, struct list_buckets, base.task);
}

static enum step_result list_buckets_check(struct task *task)
{
    struct list_buckets *op = list_buckets_of(task);
    struct s3_request *req = &op->base;
    struct slice max = s3_param(req, "max-buckets");
    struct slice token = s3_param(req, "continuation-token");

    op->limit = BUCKETS_PAGE_MAX;
    if (max.data != NULL && (!slice_to_u64(max, BUCKETS_PAGE_MAX, &op->limit) || op->limit == 0)) {
        (void)s3_failf(req, S3_InvalidArgument,
                       "Argument max-buckets must be an integer between 1 and %d.",
                       BUCKETS_PAGE_MAX);
        s3_error_detail(req, "ArgumentName", SLICE("max-buckets"));
        s3_error_detail(req, "ArgumentValue", max);
        return STEP_FAIL;
    }
    if (token.len > 0 && !page_token_decode(req->arena, token, &op->token)) {
        return s3_fail(req, S3_InvalidArgument, "The continuation token provided is incorrect");
    }
    return STEP_NEXT;
}

static enum step_result list_buckets_refresh(struct task *task)
{
    struct list_buckets *op = list_buckets_of(task);

    return op->base.gateway->meta->refresh(op->base.gateway->meta, &op->refresh, task);
}

static bool list_buckets_shows(const struct list_buckets *op, const Kist__Bucket *bucket)
{
    const struct s3_request *req = &op->base;
    struct slice region = s3_param(req, "bucket-region");

    return s3_allowed(req, "s3:ListAllMyBuckets", bucket) &&
           slice_starts(s3_slice(bucket->name), s3_param(req, "prefix")) &&
           (op->token.after.len == 0 || slice_cmp(s3_slice(bucket->name), op->token.after) > 0) &&
           (region.data == NULL || slice_eq(region, req->gateway->config->region));
}

static enum step_result list_buckets_reply(struct task *task)
{
    struct list_buckets *op = list_buckets_of(task);
    struct s3_request *req = &op->base;
    const struct view *view = req->gateway->meta->view(req->gateway->meta);
    struct page_token next = {0};
    struct xml_writer xml;
    uint64_t count = 0;
    size_t i;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "ListAllMyBucketsResult", XML_NS_S3);
    xml_writer_open(&xml, "Owner");
    xml_writer_text(&xml, "ID", req->auth.user);
    xml_writer_text(&xml, "DisplayName", req->auth.user);
    xml_writer_close(&xml);
    xml_writer_open(&xml, "Buckets");
    for (i = 0; i < view_bucket_count(view); i++) {
        const Kist__Bucket *bucket = view_bucket_at(view, i);

        if (!list_buckets_shows(op, bucket)) {
            continue;
        }
        if (count == op->limit) {
            break;
        }
        xml_writer_open(&xml, "Bucket");
        xml_writer_text(&xml, "Name", s3_slice(bucket->name));
        xml_writer_raw(&xml, "CreationDate", s3_iso8601(req->arena, bucket->created));
        xml_writer_text(&xml, "BucketRegion", req->gateway->config->region);
        xml_writer_close(&xml);
        next.after = s3_slice(bucket->name);
        count += 1;
    }
    xml_writer_close(&xml);
    if (i < view_bucket_count(view)) {
        xml_writer_raw(&xml, "ContinuationToken", page_token_encode(req->arena, &next));
    }
    if (s3_param(req, "prefix").len > 0) {
        xml_writer_text(&xml, "Prefix", s3_param(req, "prefix"));
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler list_buckets = {
    .state_size = sizeof(struct list_buckets),
    .steps =
        {
                {"check", list_buckets_check},
                {"refresh", list_buckets_refresh},
                {"reply", list_buckets_reply},
                },
};
