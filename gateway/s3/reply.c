/* How a handler answers. A failure drops the headers gathered so far; those of the error are added
 * after it. dispatch.c sends what is gathered here. */
#include <stdarg.h>
#include <stdio.h>

#include "gateway/s3/dispatch.h"
#include "gateway/s3/op.h"

enum { REPLY_HEADERS_FIRST = 24 };

void s3_reply_header(struct s3_request *req, const char *name, struct slice value)
{
    if (req->header_count == req->header_capacity) {
        uint32_t capacity =
            req->header_capacity == 0 ? REPLY_HEADERS_FIRST : req->header_capacity * 2;
        struct http_header *more = arena_alloc_raw(req->arena, capacity * sizeof(*more));

        ASSERT(capacity <= 2 * S3_REPLY_HEADERS_MAX);
        if (req->header_count > 0) {
            memcpy(more, req->headers, req->header_count * sizeof(*more));
        }
        req->headers = more;
        req->header_capacity = capacity;
    }
    req->headers[req->header_count++] =
        (struct http_header){.name = slice_str(name), .value = value};
}

enum step_result s3_reply_empty(struct s3_request *req, int status)
{
    req->status = status;
    req->body = SLICE_EMPTY;
    return STEP_DONE;
}

void s3_xml_begin(struct s3_request *req, struct xml_writer *xml)
{
    buffer_clear(&req->xml);
    xml_writer_init(xml, &req->xml);
}

enum step_result s3_reply_xml(struct s3_request *req, int status)
{
    s3_reply_header(req, "Content-Type", SLICE("application/xml"));
    req->status = status;
    req->body = buffer_slice(&req->xml);
    return STEP_DONE;
}

enum step_result s3_reply_streamed(struct s3_request *req)
{
    ASSERT(req->replied);
    req->streamed = true;
    return STEP_DONE;
}

void s3_reply_begin(struct s3_request *req, int status, uint64_t length)
{
    ASSERT(!req->replied);
    ASSERT(length <= INT64_MAX);
    s3_reply_common_headers(req);
    req->status = req->status_instead != 0 ? req->status_instead : status;
    req->replied = true;
    http_reply_start(req->http, req->status, req->headers, req->header_count, (int64_t)length);
}

void s3_reply_begin_open(struct s3_request *req, int status)
{
    ASSERT(!req->replied);
    s3_reply_common_headers(req);
    req->status = status;
    req->replied = true;
    http_reply_start(req->http, status, req->headers, req->header_count, -1);
}

/* ---- Failures ---- */

enum step_result s3_fail(struct s3_request *req, enum s3_error error, const char *text)
{
    ASSERT(error != S3_OK);
    req->error = error;
    req->header_count = 0;
    req->error_text = text != NULL ? arena_copy(req->arena, slice_str(text)) : SLICE_EMPTY;
    return task_fail(&req->task, RC_INVALID, "%s", s3_error_code(error));
}

enum step_result s3_failf(struct s3_request *req, enum s3_error error, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return s3_fail(req, error, text);
}

void s3_error_detail(struct s3_request *req, const char *name, struct slice value)
{
    struct buffer more;
    struct xml_writer xml;

    buffer_init(&more);
    buffer_append(&more, req->error_extra);
    xml_writer_init_bare(&xml, &more);
    xml_writer_text(&xml, name, value);
    req->error_extra = arena_copy(req->arena, buffer_slice(&more));
    buffer_deinit(&more);
}

enum step_result s3_fail_argument(struct s3_request *req, const char *name, struct slice value,
                                  const char *text)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return STEP_FAIL;
}

enum step_result s3_fail_outcome(struct s3_request *req, const Kist__Reply *reply)
{
    struct slice text = s3_slice(reply->text);

    ASSERT(reply->outcome != KIST__OUTCOME__OUTCOME_OK);
    if (reply->outcome == KIST__OUTCOME__STALE_GENERATION ||
        reply->outcome == KIST__OUTCOME__NO_SUCH_BUCKET) {
        return task_fail(&req->task, RC_STALE, "the bucket has changed");
    }
    if (reply->outcome == KIST__OUTCOME__SOURCE_TOO_LARGE) {
        return s3_failf(req, S3_InvalidRequest,
                        "The specified copy source is larger than the maximum allowable size for a "
                        "copy source: %llu",
                        (unsigned long long)req->gateway->config->copy_bytes_max);
    }
    if (text.len > 0) {
        return s3_failf(req, s3_error_from_outcome(reply->outcome), "%.*s", (int)text.len,
                        text.data);
    }
    return s3_fail(req, s3_error_from_outcome(reply->outcome), s3_outcome_message(reply->outcome));
}

bool s3_maybe_applied(const struct s3_request *req, const struct meta_write *call, bool started)
{
    if (!started) {
        return false;
    }
    if (call->reply != NULL) {
        return call->reply->outcome == KIST__OUTCOME__OUTCOME_OK;
    }
    switch ((int)req->task.error.rc) {
    case RC_NO_QUORUM:
    case RC_NOT_LEADER:
    case RC_BUSY:
    case RC_FULL:
        return false; /* meta_client.h: it was not applied and will not be */
    default:
        return true;
    }
}
