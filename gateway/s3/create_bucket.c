/*
 * CreateBucket.
 *
 *     check -> commit -> reply
 *
 * Whether the name is free is decided in the apply. As at AWS, making one's own bucket again is a
 * success in us-east-1 and 409 BucketAlreadyOwnedByYou elsewhere.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/router.h"
#include "gateway/s3/unsupported.h"
#include "gateway/xml/xml_reader.h"

struct create_bucket {
    struct s3_request base;
    struct meta_write call;
    Kist__CreateBucket message;
};

static struct create_bucket *create_bucket_of(struct task *task)
{
    return CONTAINER_OF(task, struct create_bucket, base.task);
}

static bool create_bucket_is_region(struct slice text)
{
    unsigned dashes = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        dashes += c == '-' ? 1 : 0;
        if (c != '-' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) {
            return false;
        }
    }
    return dashes >= 2 || slice_eq(text, SLICE("EU"));
}

static enum step_result create_bucket_location(struct s3_request *req, struct slice location)
{
    if (location.len == 0 || slice_eq(location, req->gateway->config->region)) {
        return STEP_NEXT;
    }
    if (create_bucket_is_region(location)) {
        return s3_failf(req, S3_IllegalLocationConstraintException,
                        "The %.*s location constraint is incompatible for the region specific "
                        "endpoint this request was sent to.",
                        (int)location.len, location.data);
    }
    (void)s3_fail(req, S3_InvalidLocationConstraint, NULL);
    s3_error_detail(req, "LocationConstraint", location);
    return STEP_FAIL;
}

static enum step_result create_bucket_check(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const struct xml_node *root;
    static const char *const absent[] = {"Location", "Bucket", "Tags"};

    if (!router_bucket_name_valid(req->bucket_name)) {
        return s3_fail(req, S3_InvalidBucketName, NULL);
    }
    if (s3_refuse_unsupported(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (req->document.len == 0) {
        return STEP_NEXT;
    }
    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "CreateBucketConfiguration")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(absent); i++) {
        if (xml_child(root, absent[i]) != NULL) {
            return s3_failf(req, S3_NotImplemented,
                            "CreateBucketConfiguration with %s is not implemented.", absent[i]);
        }
    }
    return create_bucket_location(req, xml_child_text(root, "LocationConstraint"));
}

static enum step_result create_bucket_commit(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    struct s3_request *req = &op->base;

    op->message = (Kist__CreateBucket)KIST__CREATE_BUCKET__INIT;
    op->message.name = s3_bytes(req->bucket_name);
    op->message.owner = s3_bytes(req->auth.user);
    op->message.region = s3_bytes(req->gateway->config->region);
    return s3_write(req, &op->call, META_CREATE_BUCKET, &op->message.base, SLICE_EMPTY);
}

static enum step_result create_bucket_reply(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    struct s3_request *req = &op->base;
    bool again = op->call.reply->outcome == KIST__OUTCOME__BUCKET_OWNED &&
                 slice_eq(req->gateway->config->region, SLICE("us-east-1"));

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK && !again) {
        return s3_fail_outcome(req, op->call.reply);
    }
    s3_reply_header(
        req, "Location",
        arena_printf(req->arena, "/%.*s", (int)req->bucket_name.len, req->bucket_name.data));
    s3_reply_header(req, "x-amz-bucket-arn",
                    arena_printf(req->arena, "arn:aws:s3:::%.*s", (int)req->bucket_name.len,
                                 req->bucket_name.data));
    return s3_reply_empty(req, 200);
}

const struct s3_handler create_bucket = {
    .state_size = sizeof(struct create_bucket),
    .flags = BODY_DOCUMENT | NO_BUCKET_LOOKUP,
    .steps =
        {
                {"check", create_bucket_check},
                {"commit", create_bucket_commit},
                {"reply", create_bucket_reply},
                },
};
