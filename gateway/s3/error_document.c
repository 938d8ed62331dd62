/*
 * The error document (AWS: "Error responses"): Code, Message, what the code's readers expect,
 * Resource, RequestId, HostId. Clients and people compare CanonicalRequest and StringToSign with
 * their own.
 */
#include "common/base/limits.h"
#include "common/codec/time_format.h"
#include "gateway/s3/dispatch.h"
#include "gateway/web/form.h"
#include "gateway/xml/xml_writer.h"

static void error_signature(const struct s3_request *req, struct xml_writer *xml)
{
    static const char digits[] = "0123456789abcdef";
    const struct sigv4_result *auth = &req->auth;
    char *hex = arena_alloc_raw(req->arena, auth->string_to_sign.len * 3 + 1);
    size_t at = 0;

    for (size_t i = 0; i < auth->string_to_sign.len; i++) {
        unsigned char byte = (unsigned char)auth->string_to_sign.data[i];

        hex[at++] = digits[byte >> 4];
        hex[at++] = digits[byte & 15];
        hex[at++] = ' ';
    }
    xml_writer_text(xml, "AWSAccessKeyId", auth->access_key);
    xml_writer_text(xml, "StringToSign", auth->string_to_sign);
    xml_writer_text(xml, "SignatureProvided", auth->signature_provided);
    xml_writer_raw(xml, "StringToSignBytes", slice_of(hex, at > 0 ? at - 1 : 0));
    xml_writer_text(xml, "CanonicalRequest", auth->canonical_request);
}

/* Which condition it was: the first one that the request holds, in the order of their weight. */
static void error_condition(const struct s3_request *req, struct xml_writer *xml)
{
    static const struct {
        const char *header;
        const char *name;
    } conditions[] = {
        {"x-amz-copy-source-if-match",            "x-amz-copy-source-If-Match"           },
        {"x-amz-copy-source-if-none-match",       "x-amz-copy-source-If-None-Match"      },
        {"x-amz-copy-source-if-unmodified-since", "x-amz-copy-source-If-Unmodified-Since"},
        {"x-amz-copy-source-if-modified-since",   "x-amz-copy-source-If-Modified-Since"  },
        {"if-match",                              "If-Match"                             },
        {"if-none-match",                         "If-None-Match"                        },
        {"if-unmodified-since",                   "If-Unmodified-Since"                  },
    };

    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        if (s3_header(req, conditions[i].header).data != NULL) {
            xml_writer_str(xml, "Condition", conditions[i].name);
            return;
        }
    }
}

static void error_denied(const struct s3_request *req, struct xml_writer *xml)
{
    char text[TIME_ISO8601_BYTES + 1];
    struct env *env = req->gateway->env;

    if (req->auth.headers_not_signed.len > 0) {
        xml_writer_text(xml, "HeadersNotSigned", req->auth.headers_not_signed);
    }
    if (req->auth.expired_s == 0) {
        return;
    }
    if (req->auth.expired_after_s > 0) {
        xml_writer_u64(xml, "X-Amz-Expires", req->auth.expired_after_s);
    }
    if (req->auth.expired_s < UINT32_MAX) {
        time_format_iso8601(req->auth.expired_s * 1000000000U, text);
        xml_writer_raw(xml, "Expires", slice_of(text, TIME_ISO8601_BYTES));
    }
    time_format_iso8601(env->clock->wall_ns(env), text);
    xml_writer_raw(xml, "ServerTime", slice_of(text, TIME_ISO8601_BYTES));
}

static void error_digest(const struct s3_request *req, struct xml_writer *xml)
{
    if (req->error == S3_InvalidDigest) {
        xml_writer_text(xml, "Content-MD5", s3_header(req, "content-md5"));
    } else if (req->error == S3_XAmzContentSHA256Mismatch) {
        xml_writer_text(xml, "ClientComputedContentSHA256", req->payload.digest_expected);
        xml_writer_text(xml, "S3ComputedContentSHA256", req->payload.digest_calculated);
    } else if (req->payload.digest_expected.len > 0) {
        xml_writer_text(xml, "ExpectedDigest", req->payload.digest_expected);
        xml_writer_text(xml, "CalculatedDigest", req->payload.digest_calculated);
    }
}

static void error_details(const struct s3_request *req, struct xml_writer *xml)
{
    char now[TIME_ISO8601_BYTES + 1];
    struct env *env = req->gateway->env;

    switch ((int)req->error) {
    case S3_SignatureDoesNotMatch:
        error_signature(req, xml);
        break;
    case S3_InvalidAccessKeyId:
        xml_writer_text(xml, "AWSAccessKeyId", req->auth.access_key);
        break;
    case S3_AuthorizationHeaderMalformed:
    case S3_AuthorizationQueryParametersError:
        if (req->auth.expected_region.len > 0) {
            xml_writer_text(xml, "Region", req->auth.expected_region);
        }
        break;
    case S3_RequestTimeTooSkewed:
        time_format_iso8601(env->clock->wall_ns(env), now);
        xml_writer_text(xml, "RequestTime", req->auth.date);
        xml_writer_raw(xml, "ServerTime", slice_of(now, TIME_ISO8601_BYTES));
        xml_writer_u64(xml, "MaxAllowedSkewMilliseconds", LIMIT_CLOCK_SKEW_S * 1000ULL);
        break;
    case S3_InvalidArgument:
        if (req->auth.argument.len > 0) {
            xml_writer_str(xml, "ArgumentName", "Authorization");
            xml_writer_text(xml, "ArgumentValue", req->auth.argument);
        }
        break;
    case S3_AccessDenied:
        error_denied(req, xml);
        break;
    case S3_NoSuchBucket:
    case S3_InvalidBucketName:
    case S3_BucketAlreadyExists:
    case S3_BucketAlreadyOwnedByYou:
    case S3_BucketNotEmpty:
        xml_writer_text(xml, "BucketName", req->bucket_name);
        break;
    case S3_NoSuchKey:
        if (req->error_extra.len == 0) { /* a copy's source says its own */
            xml_writer_text(xml, "Key", req->key);
        }
        break;
    case S3_PreconditionFailed:
        error_condition(req, xml);
        break;
    case S3_EntityTooLarge:
    case S3_EntityTooSmall:
        if (req->form != NULL) {
            form_error_size(req, xml);
        }
        break;
    case S3_BadDigest:
    case S3_InvalidDigest:
    case S3_XAmzContentSHA256Mismatch:
        error_digest(req, xml);
        break;
    case S3_NoSuchUpload:
        xml_writer_text(xml, "UploadId", s3_param(req, "uploadId"));
        break;
    case S3_KeyTooLongError:
        xml_writer_u64(xml, "Size", req->key.len);
        xml_writer_u64(xml, "MaxSizeAllowed", LIMIT_KEY_BYTES);
        break;
    default:
        break;
    }
}

void s3_error_document(const struct s3_request *req, struct buffer *to)
{
    struct xml_writer xml;

    xml_writer_init(&xml, to);
    xml_writer_open(&xml, "Error");
    xml_writer_str(&xml, "Code", s3_error_code(req->error));
    if (req->error_text.len > 0) {
        xml_writer_text(&xml, "Message", req->error_text);
    } else {
        xml_writer_str(&xml, "Message", s3_error_message(req->error));
    }
    error_details(req, &xml);
    buffer_append(to, req->error_extra);
    xml_writer_text(&xml, "Resource", req->resource);
    xml_writer_raw(&xml, "RequestId", slice_of(req->request_id, S3_REQUEST_ID_BYTES));
    xml_writer_raw(&xml, "HostId", s3_host_id(req));
    xml_writer_close(&xml);
}

/* http refused the head: there is no request to speak of. */
void s3_bad_request(struct s3_service *service, struct arena *arena, int status, struct slice *body,
                    struct slice *content_type)
{
    struct xml_writer xml;
    struct buffer text;
    const char *code = "BadRequest";
    const char *message = "An error occurred when parsing the HTTP request.";

    if (status == 431) {
        code = s3_error_code(S3_RequestHeaderSectionTooLarge);
        message = s3_error_message(S3_RequestHeaderSectionTooLarge);
    } else if (status == 414) {
        code = s3_error_code(S3_InvalidURI);
        message = s3_error_message(S3_InvalidURI);
    } else if (status == 408) {
        code = s3_error_code(S3_RequestTimeout);
        message = s3_error_message(S3_RequestTimeout);
    } else if (status == 503) {
        code = s3_error_code(S3_SlowDown);
        message = s3_error_message(S3_SlowDown);
    }
    buffer_init(&text);
    xml_writer_init(&xml, &text);
    xml_writer_open(&xml, "Error");
    xml_writer_str(&xml, "Code", code);
    xml_writer_str(&xml, "Message", message);
    xml_writer_str(&xml, "RequestId", service->refused_id);
    xml_writer_raw(&xml, "HostId", slice_of(service->host_id, S3_HOST_ID_BYTES));
    xml_writer_close(&xml);
    *body = arena_copy(arena, buffer_slice(&text));
    *content_type = SLICE("application/xml");
    buffer_deinit(&text);
}
