/*
 * CreateBucket.
 *
 *     check -> acl -> commit -> reply
 *
 * What the bucket begins with: who owns its objects (x-amz-object-ownership, else what the server
 * was started with), an ACL, object lock (which turns versioning on), tags. Whether the name is
 * free is decided in the apply. As at AWS, making one's own bucket again is a success in us-east-1
 * and 409 BucketAlreadyOwnedByYou elsewhere; also there when it asks for what the bucket is not, so
 * that nothing is silently dropped (AWS resets the bucket's ACL then).
 */
#include "gateway/s3/acl_request.h"
#include "gateway/s3/bucket_tags.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/router.h"
#include "gateway/s3/setting.h"
#include "gateway/s3/unsupported.h"
#include "gateway/xml/xml_reader.h"

struct create_bucket {
    struct s3_request base;
    struct meta_write call;
    Kist__CreateBucket message;
    Kist__Settings settings;
    Kist__ObjectLock lock;
    enum ownership_rule rule;
    struct acl_request acl;
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

static enum step_result create_bucket_bad_header(struct s3_request *req, const char *name)
{
    struct slice value = s3_header(req, name);

    (void)s3_failf(req, S3_InvalidArgument, "Invalid %s header: %.*s", name,
                   (int)(value.len < 64 ? value.len : 64), value.data);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return STEP_FAIL;
}

static enum step_result create_bucket_headers(struct create_bucket *op)
{
    struct s3_request *req = &op->base;
    struct slice lock = s3_header(req, "x-amz-bucket-object-lock-enabled");
    struct slice ownership = s3_header(req, "x-amz-object-ownership");

    op->rule = (enum ownership_rule)req->gateway->config->default_ownership;
    if (ownership.data != NULL && !acl_ownership_parse(ownership, &op->rule)) {
        return create_bucket_bad_header(req, "x-amz-object-ownership");
    }
    /* A server of ACL habits makes buckets as AWS did before 2023: without controls. */
    op->settings.ownership =
        s3_ownership(req, op->rule, ownership.data == NULL && op->rule == OWNERSHIP_WRITER);
    if (slice_eq_nocase(lock, SLICE("true"))) {
        op->lock = (Kist__ObjectLock)KIST__OBJECT_LOCK__INIT;
        op->lock.enabled = true;
        op->settings.object_lock = &op->lock;
    } else if (lock.data != NULL && !slice_eq_nocase(lock, SLICE("false"))) {
        return create_bucket_bad_header(req, "x-amz-bucket-object-lock-enabled");
    }
    return STEP_NEXT;
}

static enum step_result create_bucket_document(struct create_bucket *op)
{
    static const char *const absent[] = {"Location", "Bucket"};
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    const struct xml_node *tags;

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
    tags = xml_child(root, "Tags");
    if (tags != NULL) {
        op->settings.tags = bucket_tags_from_list(req, tags);
        if (op->settings.tags == NULL) {
            return STEP_FAIL;
        }
    }
    return create_bucket_location(req, xml_child_text(root, "LocationConstraint"));
}

static enum step_result create_bucket_check(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    struct s3_request *req = &op->base;

    op->settings = (Kist__Settings)KIST__SETTINGS__INIT;
    if (!router_bucket_name_valid(req->bucket_name)) {
        return s3_fail(req, S3_InvalidBucketName, NULL);
    }
    if (s3_refuse_unsupported(req) == STEP_FAIL || create_bucket_headers(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return create_bucket_document(op);
}

static enum step_result create_bucket_acl(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    enum step_result result = s3_acl_for_new_bucket(&op->base, &op->acl, op->rule);

    op->settings.acl = op->acl.acl;
    return result;
}

static enum step_result create_bucket_commit(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    struct s3_request *req = &op->base;

    op->message = (Kist__CreateBucket)KIST__CREATE_BUCKET__INIT;
    op->message.name = s3_bytes(req->bucket_name);
    op->message.owner = s3_bytes(req->auth.user);
    op->message.region = s3_bytes(req->gateway->config->region);
    op->message.settings = &op->settings;
    return s3_write(req, &op->call, META_CREATE_BUCKET, &op->message.base, SLICE_EMPTY);
}

static bool create_bucket_same(struct s3_request *req, const ProtobufCMessage *a,
                               const ProtobufCMessage *b)
{
    size_t len = protobuf_c_message_get_packed_size(a);
    uint8_t *bytes;

    if (b == NULL || protobuf_c_message_get_packed_size(b) != len) {
        return false;
    }
    bytes = arena_alloc_raw(req->arena, 2 * len + 1);
    (void)protobuf_c_message_pack(a, bytes);
    (void)protobuf_c_message_pack(b, bytes + len);
    return slice_eq(slice_of(bytes, len), slice_of(bytes + len, len));
}

/* Is the bucket that is there already all that is asked for? */
static bool create_bucket_satisfied(struct create_bucket *op, const Kist__Bucket *bucket)
{
    struct s3_request *req = &op->base;
    const Kist__Settings *wanted = &op->settings;
    const Kist__Settings *found = s3_settings(bucket);

    return (s3_header(req, "x-amz-object-ownership").data == NULL ||
            op->rule == acl_ownership(bucket)) &&
           (wanted->object_lock == NULL || found->object_lock != NULL) &&
           (wanted->acl == NULL ||
            create_bucket_same(req, &wanted->acl->base,
                               found->acl != NULL ? &found->acl->base : NULL)) &&
           (wanted->tags == NULL ||
            create_bucket_same(req, &wanted->tags->base,
                               found->tags != NULL ? &found->tags->base : NULL));
}

static enum step_result create_bucket_reply(struct task *task)
{
    struct create_bucket *op = create_bucket_of(task);
    struct s3_request *req = &op->base;
    bool again = op->call.reply->outcome == KIST__OUTCOME__BUCKET_OWNED &&
                 slice_eq(req->gateway->config->region, SLICE("us-east-1")) &&
                 op->call.reply->bucket != NULL &&
                 create_bucket_satisfied(op, op->call.reply->bucket);

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
                {"acl", create_bucket_acl},
                {"commit", create_bucket_commit},
                {"reply", create_bucket_reply},
                },
};
