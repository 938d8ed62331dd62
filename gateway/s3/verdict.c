#include "gateway/s3/verdict.h"

#include <string.h>

#include "gateway/s3/judge.h"
#include "gateway/s3/router.h"
#include "gateway/web/form.h"

/* Preflights, forms and websites carry no signature, or carry it where the handler finds it. */
static bool verdict_comes_later(const struct s3_request *req)
{
    return req->website != NULL || (req->op != NULL && req->op->handler != NULL &&
                                    (req->op->handler->flags & AUTH_LATER) != 0);
}

static enum s3_error verdict_refuse(struct s3_request *req, enum s3_error error, const char *text)
{
    (void)s3_fail(req, error, text);
    return error;
}

static enum s3_error verdict_no_method(struct s3_request *req, const char *resource_type)
{
    (void)s3_fail(req, S3_MethodNotAllowed, NULL);
    s3_error_detail(req, "Method", req->http->request.method_name);
    s3_error_detail(req, "ResourceType", slice_str(resource_type));
    return S3_MethodNotAllowed;
}

/* What belongs to another operation: the client meant something else than what we would do. */
static enum s3_error verdict_stray(struct s3_request *req, const struct s3_route *route)
{
    enum http_method method = req->http->request.method;

    if (method == HTTP_PUT && req->op->query != NULL && strcmp(req->op->query, "uploadId") == 0 &&
        !s3_has_param(req, "partNumber")) {
        return verdict_no_method(req, "UPLOAD");
    }
    if (route->target != ON_OBJECT || req->op->query != NULL) {
        return S3_OK;
    }
    if (method == HTTP_PUT && s3_has_param(req, "partNumber")) {
        (void)s3_fail(req, S3_InvalidArgument,
                      "This operation does not accept partNumber without uploadId");
        s3_error_detail(req, "ArgumentName", SLICE("partNumber"));
        s3_error_detail(req, "ArgumentValue", SLICE("partNumber")); /* AWS: not its value */
        return S3_InvalidArgument;
    }
    if (method == HTTP_GET && s3_has_param(req, "uploads")) {
        return verdict_refuse(req, S3_InvalidRequest,
                              "Key is not expected for the GET method ?uploads subresource");
    }
    if (method == HTTP_GET && s3_has_param(req, "versions")) {
        return verdict_refuse(req, S3_InvalidRequest,
                              "There is no such thing as the ?versions sub-resource for a key");
    }
    return S3_OK;
}

static enum s3_error verdict_stray_source(struct s3_request *req)
{
    struct slice source = s3_header(req, "x-amz-copy-source");

    if (source.data == NULL || req->http->request.method == HTTP_PUT) {
        return S3_OK;
    }
    (void)s3_fail_argument(req, "x-amz-copy-source", source,
                           "You can only specify a copy source header for copy requests.");
    return S3_InvalidArgument;
}

/* ---- Callers without a name ---- */

/* What AWS lets no policy and no ACL give to them, and how it says so. */
static const struct {
    const char *name;
    const char *text;
} verdict_named_only[] = {
    {"CopyObject",                    "Anonymous users cannot copy objects. Please authenticate."   },
    {"CreateBucket",                  "Anonymous users cannot invoke this API. Please authenticate."},
    {"CreateMultipartUpload",
     "Anonymous users cannot initiate multipart uploads. Please authenticate."                      },
    {"DeleteBucketOwnershipControls",
     "s3:PutBucketOwnershipControls does not support Anonymous requests!"                           },
    {"GetBucketOwnershipControls",
     "s3:GetBucketOwnershipControls does not support Anonymous requests!"                           },
    {"PutBucketAcl",                  "Anonymous users cannot invoke this API. Please authenticate."},
    {"PutBucketOwnershipControls",
     "s3:PutBucketOwnershipControls does not support Anonymous requests!"                           },
    {"PutObjectAcl",                  "Anonymous users cannot invoke this API. Please authenticate."},
    {"SelectObjectContent",           "Anonymous users cannot invoke this API. Please authenticate."},
};

/* Overrides of a reply's headers must be signed: else a link to another's object would make his
 * server say what the link's author wants. */
static bool verdict_overrides(const struct s3_request *req)
{
    for (uint32_t i = 0; i < req->param_count; i++) {
        if (slice_starts(req->params[i].name, SLICE("response-"))) {
            return req->op->target == ON_OBJECT && req->op->query == NULL;
        }
    }
    return false;
}

static enum s3_error verdict_anonymous(struct s3_request *req)
{
    for (size_t i = 0; i < ARRAY_LEN(verdict_named_only); i++) {
        if (strcmp(req->op->name, verdict_named_only[i].name) == 0) {
            return verdict_refuse(req, S3_AccessDenied, verdict_named_only[i].text);
        }
    }
    if (req->op->handler == NULL || req->op->target == ON_SERVICE ||
        (req->op->handler->flags & NO_BUCKET_LOOKUP) != 0) {
        return verdict_refuse(req, S3_AccessDenied, NULL);
    }
    if (verdict_overrides(req)) {
        return verdict_refuse(req, S3_InvalidRequest,
                              "Request specific response headers cannot be used for anonymous GET "
                              "requests.");
    }
    return S3_OK;
}

/* ---- Route, bucket, caller ---- */

static enum s3_error verdict_route(struct s3_request *req, const struct s3_route *route)
{
    static const char *const types[S3_TARGETS] = {"SERVICE", "BUCKET", "OBJECT", "OBJECT"};
    if (route->error != S3_OK) {
        return verdict_refuse(req, route->error, route->error_text);
    }
    if (verdict_stray_source(req) != S3_OK) {
        return req->error;
    }
    if (req->op == NULL || route->stray) {
        return verdict_no_method(req, types[route->target]);
    }
    if (route->op_conflict != NULL) {
        const struct s3_op *other = route->op_conflict;

        (void)s3_failf(req, S3_InvalidArgument, "Conflicting %s: %s, %s",
                       req->op->query != NULL ? "query string parameters" : "headers",
                       other->query != NULL ? other->query : other->header,
                       req->op->query != NULL ? req->op->query : req->op->header);
        return S3_InvalidArgument;
    }
    if (verdict_stray(req, route) != S3_OK) {
        return req->error;
    }
    if (req->auth.anonymous && req->form == NULL && !verdict_comes_later(req) &&
        verdict_anonymous(req) != S3_OK) {
        return req->error;
    }
    if (req->op->handler == NULL) {
        (void)s3_failf(req, S3_NotImplemented, "The operation %s is not implemented.",
                       req->op->name);
        return S3_NotImplemented;
    }
    return S3_OK;
}

static enum s3_error verdict_bucket(struct s3_request *req, const struct s3_route *route)
{
    req->bucket = NULL;
    if (req->op->target != ON_SERVICE) {
        req->bucket = view_bucket(req->view, req->bucket_name);
    }
    if (req->bucket == NULL && route->host_bucket.len > 0) {
        req->bucket = view_bucket(req->view, route->host_bucket);
        req->bucket_name = req->bucket != NULL ? route->host_bucket : req->bucket_name;
    }
    if (req->op->target != ON_SERVICE && req->bucket == NULL &&
        (req->op->handler->flags & NO_BUCKET_LOOKUP) == 0) {
        return verdict_refuse(req, S3_NoSuchBucket, NULL);
    }
    if ((req->op->handler->flags & (NO_BUCKET_LOOKUP | AUTH_LATER)) != 0) {
        return S3_OK; /* whose it is, if it exists, is decided in the apply */
    }
    return judge_request(req);
}

/* Who asks: by the fields of a form, by a signature, or nobody. */
static enum s3_error verdict_authenticate(struct s3_request *req, const struct s3_route *route)
{
    struct gateway *gateway = req->gateway;
    struct sigv4_options options = {
        .region = gateway->config->region,
        .now_s = gateway->env->clock->wall_ns(gateway->env) / 1000000000U,
        .cache = gateway->signing_keys,
        .virtual_bucket = route->virtual_host ? route->bucket : SLICE_EMPTY,
        .sigv2 = gateway->config->sigv2 == SIGV2_ON,
        .sigv2_ahead = gateway->config->sigv2 != SIGV2_OFF,
    };

    if (req->form != NULL) {
        return form_authenticate(req, &options);
    }
    if (verdict_comes_later(req)) {
        req->auth = (struct sigv4_result){.anonymous = true};
        return S3_OK;
    }
    sigv4_verify(&req->http->request, req->view, &options, req->arena, &req->auth);
    if (req->auth.error != S3_OK) {
        (void)s3_fail(req, req->auth.error, NULL);
        req->error_text = req->auth.text;
    }
    return req->auth.error;
}

enum s3_error s3_verdict(struct s3_request *req, const struct s3_route *route)
{
    enum s3_error error;

    req->error = S3_OK;
    req->error_text = SLICE_EMPTY;
    req->error_extra = SLICE_EMPTY;
    error = verdict_authenticate(req, route);
    if (error != S3_OK) {
        return error;
    }
    error = verdict_route(req, route);
    return error != S3_OK ? error : verdict_bucket(req, route);
}
