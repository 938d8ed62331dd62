/*
 * OPTIONS: what a browser asks before it lets a page of another origin do something (AWS: "OPTIONS
 * object"). It comes without a signature, or with that of the request it is about, which is not
 * looked at; nothing but the bucket's CORS rules decides.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"
#include "gateway/web/cors.h"

static enum step_result preflight_forbidden(struct s3_request *req, const char *text)
{
    bool bucket = req->key.len == 0 && req->website == NULL;

    (void)s3_fail(req, S3_AccessForbidden, text);
    s3_error_detail(req, "Method", s3_header(req, "access-control-request-method"));
    s3_error_detail(req, "ResourceType", bucket ? SLICE("BUCKET") : SLICE("OBJECT"));
    return STEP_FAIL;
}

static enum step_result preflight_check_headers(struct s3_request *req, struct slice rest)
{
    while (rest.len > 0) {
        size_t comma = slice_find(rest, ',');
        struct slice name = slice_of(rest.data, comma);

        rest = slice_after(rest, comma + 1);
        if (!cors_header_name_valid(slice_trim(name), true)) {
            return s3_failf(req, S3_BadRequest,
                            "Access-Control-Request-Headers \"%.*s\" contains invalid character.",
                            (int)name.len, name.data);
        }
    }
    return STEP_NEXT;
}

static enum step_result preflight_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    struct slice origin = s3_header(req, "origin");
    struct slice method = s3_header(req, "access-control-request-method");
    struct slice headers = s3_header(req, "access-control-request-headers");
    const Kist__CorsRule *rule;
    const Kist__Cors *cors;

    if (origin.len == 0) {
        return s3_fail(req, S3_BadRequest,
                       "Insufficient information. Origin request header needed.");
    }
    if (!cors_method_valid(method)) {
        return s3_failf(req, S3_BadRequest, "Invalid Access-Control-Request-Method: %.*s",
                        method.data != NULL ? (int)method.len : 4,
                        method.data != NULL ? method.data : "null");
    }
    if (preflight_check_headers(req, headers) == STEP_FAIL) {
        return STEP_FAIL;
    }
    cors = s3_settings(req->bucket)->cors;
    rule = cors != NULL ? cors_match(cors, origin, method, headers) : NULL;
    if (rule == NULL && !s3_view_is_fresh(req)) {
        return task_fail(task, RC_STALE, "the rules may have changed meanwhile");
    }
    if (cors == NULL) {
        return preflight_forbidden(req, "CORSResponse: CORS is not enabled for this bucket.");
    }
    if (rule == NULL) {
        return preflight_forbidden(
            req, "CORSResponse: This CORS request is not allowed. This is usually because the "
                 "evalution of Origin, request method / Access-Control-Request-Method or "
                 "Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.");
    }
    cors_reply_rule(req, rule);
    return s3_reply_empty(req, 200);
}

const struct s3_handler preflight = {
    .state_size = sizeof(struct s3_request),
    .flags = AUTH_LATER,
    .steps = {{"reply", preflight_reply}},
};
