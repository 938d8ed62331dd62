/*
 * What the headers say about the body: its length, its form, its digests. Everything that can be
 * refused is refused here, before the client was asked for a byte. Texts are those of AWS where we
 * know them.
 */
#include <string.h>

#include "common/base/limits.h"
#include "common/codec/base64.h"
#include "gateway/auth/payload_state.h"

static enum s3_error headers_refuse(const char **text, enum s3_error error, const char *why)
{
    *text = why;
    return error;
}

/* ---- Length ---- */

static enum s3_error headers_length(struct payload *payload, const struct http_request *request,
                                    bool streaming)
{
    struct slice decoded = http_header_get(request, "x-amz-decoded-content-length");

    if (!request->has_length && !request->chunked) {
        return S3_MissingContentLength;
    }
    if (!streaming) {
        payload->has_length = request->has_length;
        payload->length = request->has_length ? request->content_length : 0;
        return S3_OK;
    }
    if (decoded.data == NULL) {
        return S3_MissingContentLength;
    }
    if (!slice_to_u64(decoded, INT64_MAX, &payload->length)) {
        return S3_MissingContentLength; /* as AWS answers text, too */
    }
    payload->has_length = true;
    return S3_OK;
}

/* ---- Digests ---- */

static enum s3_error headers_md5(struct payload_state *state, const struct http_request *request,
                                 const char **text)
{
    struct slice value = http_header_get(request, "content-md5");
    size_t len = 0;

    if (value.data == NULL) {
        return S3_OK;
    }
    if (http_header_count(request, "content-md5") > 1 ||
        !base64_decode(value, state->content_md5, sizeof(state->content_md5), &len) ||
        len != sizeof(state->content_md5)) {
        return headers_refuse(text, S3_InvalidDigest,
                              "The Content-Md5 you specified is not valid.");
    }
    state->has_content_md5 = true;
    return S3_OK;
}

/* In CompleteMultipartUpload these headers speak of the object, not of the XML in the body. */
static bool headers_are_of_object(const struct http_request *request)
{
    struct slice rest = request->query;

    if (request->method != HTTP_POST) {
        return false;
    }
    while (rest.len > 0) {
        size_t end = slice_find(rest, '&');

        if (slice_starts(slice_of(rest.data, end), SLICE("uploadId="))) {
            return true;
        }
        rest = slice_after(rest, end + 1);
    }
    return false;
}

static const char *const headers_many_checksums =
    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";

/* x-amz-checksum-<algorithm> of any name, also of one that is not known. Unknown ones are refused:
 * the client counts on a check. */
static bool headers_is_checksum(struct slice name)
{
    return slice_starts(name, SLICE("x-amz-checksum-")) &&
           !slice_eq(name, SLICE("x-amz-checksum-algorithm")) &&
           !slice_eq(name, SLICE("x-amz-checksum-mode")) &&
           !slice_eq(name, SLICE("x-amz-checksum-type"));
}

/* At most one x-amz-checksum-<algorithm> header. */
static enum s3_error headers_checksum(struct payload *payload, const struct http_request *request,
                                      struct arena *arena, const char **text)
{
    const struct http_header *found = NULL;

    for (uint32_t i = 0; i < request->header_count; i++) {
        if (!headers_is_checksum(request->headers[i].name)) {
            continue;
        }
        if (found != NULL) {
            return headers_refuse(text, S3_InvalidRequest, headers_many_checksums);
        }
        found = &request->headers[i];
    }
    if (found == NULL) {
        return S3_OK;
    }
    payload->algorithm = checksum_by_header(found->name);
    if (payload->algorithm == CHECKSUM_NONE) {
        return headers_refuse(
            text, S3_InvalidRequest,
            "The algorithm type you specified in x-amz-checksum- header is invalid.");
    }
    if (!checksum_parse(payload->algorithm, found->value, &payload->declared)) {
        return headers_refuse(text, S3_InvalidRequest,
                              arena_printf(arena, "Value for %s header is invalid.",
                                           checksum_header(payload->algorithm))
                                  .data);
    }
    return S3_OK;
}

/* x-amz-trailer names one checksum, which then comes behind the body. */
static enum s3_error headers_trailer(struct payload *payload, const struct http_request *request,
                                     struct slice *name, const char **text)
{
    struct slice value = http_header_get(request, "x-amz-trailer");
    bool trailed = payload->auth->mode == PAYLOAD_SIGNED_TRAILER ||
                   payload->auth->mode == PAYLOAD_UNSIGNED_TRAILER;

    *name = SLICE_EMPTY;
    if (value.data == NULL) {
        return S3_OK;
    }
    if (!trailed) {
        return headers_refuse(text, S3_InvalidRequest,
                              "x-amz-trailer was given, but x-amz-content-sha256 does not announce "
                              "a trailer.");
    }
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)i;

        if (slice_eq_nocase(value, slice_str(checksum_header(algorithm)))) {
            if (payload->algorithm != CHECKSUM_NONE) {
                return headers_refuse(text, S3_InvalidRequest, headers_many_checksums);
            }
            payload->algorithm = algorithm;
            *name = slice_str(checksum_header(algorithm));
            return S3_OK;
        }
    }
    return headers_refuse(text, S3_InvalidRequest,
                          "The value specified in the x-amz-trailer header is not supported");
}

/* What the SDK says it computed must be what it sends. */
static enum s3_error headers_sdk_algorithm(const struct payload *payload,
                                           const struct http_request *request, const char **text)
{
    struct slice value = http_header_get(request, "x-amz-sdk-checksum-algorithm");
    enum checksum_algorithm algorithm;

    if (value.data == NULL) {
        return S3_OK;
    }
    algorithm = checksum_by_name(value);
    if (algorithm == CHECKSUM_NONE ||
        (payload->algorithm != CHECKSUM_NONE && payload->algorithm != algorithm)) {
        return headers_refuse(text, S3_InvalidRequest,
                              "Value for x-amz-sdk-checksum-algorithm header is invalid.");
    }
    if (payload->algorithm == CHECKSUM_NONE) {
        return headers_refuse(text, S3_InvalidRequest,
                              "x-amz-sdk-checksum-algorithm specified, but no corresponding "
                              "x-amz-checksum-* or x-amz-trailer headers were found.");
    }
    return S3_OK;
}

enum s3_error payload_headers(struct payload *payload, struct payload_state *state,
                              const struct payload_options *options, const char **text)
{
    const struct http_request *request = &payload->http->request;
    struct slice trailer = SLICE_EMPTY;
    enum s3_error error;

    state->streaming = payload->auth->mode == PAYLOAD_SIGNED_CHUNKS ||
                       payload->auth->mode == PAYLOAD_SIGNED_TRAILER ||
                       payload->auth->mode == PAYLOAD_UNSIGNED_TRAILER;
    error = headers_length(payload, request, state->streaming);
    if (error == S3_OK && payload->has_length && payload->length > options->length_max) {
        error = S3_EntityTooLarge;
    }
    if (error == S3_OK) {
        error = headers_md5(state, request, text);
    }
    if (error == S3_OK && !headers_are_of_object(request)) {
        error = headers_checksum(payload, request, payload->http->arena, text);
        if (error == S3_OK) {
            error = headers_trailer(payload, request, &trailer, text);
        }
        if (error == S3_OK) {
            error = headers_sdk_algorithm(payload, request, text);
        }
    }
    if (error == S3_OK && state->streaming) {
        aws_chunked_init(&state->chunked, payload->auth, payload->length, trailer);
    }
    return error;
}
