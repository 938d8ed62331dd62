#include "gateway/auth/sigv2.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "common/codec/base64.h"
#include "common/codec/percent.h"
#include "common/codec/time_format.h"
#include "common/crypto/hmac.h"

/* Sub-resources and overrides: part of what is signed. Sorted. */
static const char *const signed_params[] = {"accelerate",
                                            "acl",
                                            "analytics",
                                            "cors",
                                            "defaultObjectAcl",
                                            "delete",
                                            "inventory",
                                            "lifecycle",
                                            "location",
                                            "logging",
                                            "metrics",
                                            "notification",
                                            "object-lock",
                                            "partNumber",
                                            "policy",
                                            "replication",
                                            "requestPayment",
                                            "response-cache-control",
                                            "response-content-disposition",
                                            "response-content-encoding",
                                            "response-content-language",
                                            "response-content-type",
                                            "response-expires",
                                            "restore",
                                            "select",
                                            "select-type",
                                            "storageClass",
                                            "tagging",
                                            "torrent",
                                            "uploadId",
                                            "uploads",
                                            "versionId",
                                            "versioning",
                                            "versions",
                                            "website"};

/* Not signed, and harmless: they choose what a listing shows, or carry the signature. */
static const char *const free_params[] = {"AWSAccessKeyId",
                                          "Expires",
                                          "Signature",
                                          "content-md5",
                                          "content-type",
                                          "continuation-token",
                                          "delimiter",
                                          "encoding-type",
                                          "fetch-owner",
                                          "key-marker",
                                          "list-type",
                                          "marker",
                                          "max-keys",
                                          "max-parts",
                                          "max-uploads",
                                          "part-number-marker",
                                          "prefix",
                                          "start-after",
                                          "upload-id-marker",
                                          "version-id-marker",
                                          "x-id"};

enum { SIGNATURE_TEXT_BYTES = 28 }; /* base64 of 20 bytes */

static bool name_in(struct slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_eq_str(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* Exactly one, decoded. */
static bool param_once(const struct sigv4_query *query, const char *name, struct arena *arena,
                       struct slice *out)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < query->count; i++) {
        if (slice_eq_str(query->params[i].name, name)) {
            found += 1;
            if (!percent_decode(arena, query->params[i].value, false, out)) {
                return false;
            }
        }
    }
    return found == 1 && out->len > 0;
}

static int header_order(const void *a, const void *b)
{
    const struct http_header *const *x = a;
    const struct http_header *const *y = b;
    int order = slice_cmp((*x)->name, (*y)->name);

    return order != 0 ? order : (*x > *y) - (*x < *y); /* repeated ones as they came */
}

/* "name:value\n" of every x-amz-* header, repeated ones joined by ",". */
static void put_amz_headers(const struct http_request *request, struct buffer *text)
{
    const struct http_header *sorted[LIMIT_HTTP_HEADERS] = {NULL};
    size_t count = 0;

    for (uint32_t i = 0; i < request->header_count && count < LIMIT_HTTP_HEADERS; i++) {
        if (slice_starts(request->headers[i].name, SLICE("x-amz-"))) {
            sorted[count++] = &request->headers[i];
        }
    }
    qsort(sorted, count, sizeof(sorted[0]), header_order);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && slice_eq(sorted[i]->name, sorted[i - 1]->name)) {
            text->len -= 1; /* the line feed */
            buffer_append_byte(text, ',');
        } else {
            buffer_append(text, sorted[i]->name);
            buffer_append_byte(text, ':');
        }
        buffer_append(text, slice_trim(sorted[i]->value));
        buffer_append_byte(text, '\n');
    }
}

/* "/bucket" of a virtual host, the path as sent, the signed parameters sorted, their values
 * decoded. */
static bool put_resource(const struct http_request *request, const struct sigv4_query *query,
                         struct slice bucket, struct arena *arena, struct buffer *text)
{
    char mark = '?';

    if (bucket.len > 0) {
        buffer_append_byte(text, '/');
        buffer_append(text, bucket);
    }
    buffer_append(text, request->path);
    if (bucket.len == 0 && request->path.len > 1 &&
        slice_find(slice_after(request->path, 1), '/') + 1 == request->path.len) {
        buffer_append_byte(text, '/'); /* "/bucket" is signed as "/bucket/" */
    }
    for (size_t k = 0; k < ARRAY_LEN(signed_params); k++) {
        for (uint32_t i = 0; i < query->count; i++) {
            struct slice value;

            if (!slice_eq_str(query->params[i].name, signed_params[k])) {
                continue;
            }
            if (!percent_decode(arena, query->params[i].value, false, &value)) {
                return false;
            }
            buffer_append_byte(text, mark);
            mark = '&';
            buffer_append(text, query->params[i].name);
            if (value.len > 0) {
                buffer_append_byte(text, '=');
                buffer_append(text, value);
            }
        }
    }
    return true;
}

/* METHOD \n Content-MD5 \n Content-Type \n Date or Expires \n headers resource */
static bool string_to_sign(const struct http_request *request, const struct sigv4_query *query,
                           const struct sigv4_options *options, struct slice when,
                           struct arena *arena, struct slice *out)
{
    struct buffer text;
    bool ok;

    buffer_init(&text);
    buffer_append(&text, request->method_name);
    buffer_append_byte(&text, '\n');
    buffer_append(&text, http_header_get(request, "content-md5"));
    buffer_append_byte(&text, '\n');
    buffer_append(&text, http_header_get(request, "content-type"));
    buffer_append_byte(&text, '\n');
    buffer_append(&text, when);
    buffer_append_byte(&text, '\n');
    put_amz_headers(request, &text);
    ok = put_resource(request, query, options->virtual_bucket, arena, &text);
    *out = arena_copy(arena, buffer_slice(&text));
    buffer_deinit(&text);
    return ok;
}

static bool params_allowed(const struct sigv4_query *query, struct arena *arena,
                           struct sigv4_result *out)
{
    for (uint32_t i = 0; i < query->count; i++) {
        struct slice name = query->params[i].name;

        /* Signers repeat the headers they signed in the query; here only the headers count. */
        if (!slice_starts(name, SLICE("x-amz-")) &&
            !name_in(name, signed_params, ARRAY_LEN(signed_params)) &&
            !name_in(name, free_params, ARRAY_LEN(free_params))) {
            return sigv4_refuse(
                out, S3_AccessDenied,
                arena_printf(arena,
                             "Signature Version 2 does not sign the parameter %.*s. Please use "
                             "AWS4-HMAC-SHA256.",
                             (int)name.len, name.data));
        }
    }
    return true;
}

static const struct view_key *key_known(const struct view *view, struct slice access_key)
{
    const struct view_key *known = view_access_key(view, access_key);

    return known != NULL && known->user != NULL && !known->user->disabled &&
                   known->key->secret_key.len > 0 &&
                   known->key->secret_key.len <= LIMIT_SECRET_KEY_BYTES
               ? known
               : NULL;
}

static bool signature_matches(const struct view_key *key, struct slice provided,
                              struct slice to_sign)
{
    uint8_t code[HASH_SHA1_BYTES];
    char text[SIGNATURE_TEXT_BYTES];

    hmac_sha1(key->key->secret_key.data, key->key->secret_key.len, to_sign.data, to_sign.len, code);
    ASSERT(base64_encoded_len(sizeof(code)) == sizeof(text));
    (void)base64_encode(text, code, sizeof(code));
    return provided.len == sizeof(text) && crypto_equal(provided.data, text, sizeof(text));
}

bool sigv2_query_verify(const struct http_request *request, const struct sigv4_query *query,
                        const struct view *view, const struct sigv4_options *options,
                        struct arena *arena, struct sigv4_result *out)
{
    struct slice content = http_header_get(request, "x-amz-content-sha256");
    struct slice expires = SLICE_EMPTY;
    struct slice provided = SLICE_EMPTY;
    const struct view_key *key;
    uint64_t expires_s = 0;

    out->presigned = true;
    if (!param_once(query, "AWSAccessKeyId", arena, &out->access_key) ||
        !param_once(query, "Signature", arena, &provided) ||
        !param_once(query, "Expires", arena, &expires)) {
        return sigv4_refuse(out, S3_AccessDenied,
                            SLICE("Query-string authentication requires the Signature, Expires "
                                  "and AWSAccessKeyId parameters"));
    }
    if (!slice_to_u64(expires, UINT64_MAX, &expires_s)) {
        return sigv4_refuse(out, S3_AccessDenied,
                            SLICE("Invalid date (should be seconds since epoch)"));
    }
    if (content.data != NULL && !slice_eq(content, SLICE("UNSIGNED-PAYLOAD"))) {
        return sigv4_refuse(out, S3_InvalidRequest,
                            SLICE("A signed payload needs Signature Version 4."));
    }
    if (!params_allowed(query, arena, out)) {
        return false;
    }
    key = key_known(view, out->access_key);
    if (key == NULL) {
        return sigv4_refuse(out, S3_InvalidAccessKeyId, SLICE_EMPTY);
    }
    if (options->now_s > expires_s) {
        out->expired_s = expires_s;
        return sigv4_refuse(out, S3_AccessDenied, SLICE("Request has expired."));
    }
    out->signature_provided = provided;
    if (!string_to_sign(request, query, options, expires, arena, &out->string_to_sign) ||
        !signature_matches(key, provided, out->string_to_sign)) {
        return sigv4_refuse(out, S3_SignatureDoesNotMatch, SLICE_EMPTY);
    }
    out->mode = PAYLOAD_UNSIGNED;
    out->user = slice_of(key->user->name.data, key->user->name.len);
    return true;
}

/* ---- The Authorization header ---- */

/* "AWS AKID:signature": from the right, as an access key may hold a colon. */
static bool header_parts(struct slice value, struct sigv4_result *out)
{
    struct slice rest = slice_trim(slice_after(value, sizeof("AWS ") - 1));
    size_t colon = rest.len;

    while (colon > 0 && rest.data[colon - 1] != ':') {
        colon -= 1;
    }
    if (colon <= 1 || colon == rest.len || colon - 1 > LIMIT_ACCESS_KEY_BYTES) {
        return sigv4_refuse(out, S3_InvalidArgument,
                            SLICE("AWS authorization header is invalid.  Expected "
                                  "AwsAccessKeyId:signature"));
    }
    out->access_key = slice_of(rest.data, colon - 1);
    out->signature_provided = slice_after(rest, colon);
    return true;
}

/* An HTTP date, or one that ends in "+0000" (RFC 5322): AWS's own examples and s3cmd do. */
static bool date_parse(struct slice text, uint64_t now_s, uint64_t *time_s)
{
    static const char zone[3] = {'G', 'M', 'T'};
    char gmt[TIME_HTTP_BYTES];
    const size_t kept = TIME_HTTP_BYTES - sizeof(zone);

    if (text.len == kept + 5 && (slice_eq(slice_after(text, kept), SLICE("+0000")) ||
                                 slice_eq(slice_after(text, kept), SLICE("-0000")))) {
        memcpy(gmt, text.data, kept);
        memcpy(gmt + kept, zone, sizeof(zone));
        text = slice_of(gmt, sizeof(gmt));
    }
    return time_parse_http(text, now_s, time_s) || time_parse_amz(text, time_s);
}

/* x-amz-date goes before Date, and is signed among the headers: the line of the date is empty. */
static bool header_date(const struct http_request *request, uint64_t now_s, struct slice *line,
                        struct sigv4_result *out)
{
    struct slice amz = http_header_get(request, "x-amz-date");
    uint64_t time_s;

    *line = amz.data != NULL ? SLICE_EMPTY : http_header_get(request, "date");
    out->date = amz.data != NULL ? amz : *line;
    if (out->date.len == 0 || !date_parse(out->date, now_s, &time_s)) {
        return sigv4_refuse(
            out, S3_AccessDenied,
            SLICE("AWS authentication requires a valid Date or x-amz-date header."));
    }
    if (time_s > now_s + LIMIT_CLOCK_SKEW_S || now_s > time_s + LIMIT_CLOCK_SKEW_S) {
        return sigv4_refuse(out, S3_RequestTimeTooSkewed, SLICE_EMPTY);
    }
    return true;
}

bool sigv2_header_verify(const struct http_request *request, const struct sigv4_query *query,
                         const struct view *view, const struct sigv4_options *options,
                         struct arena *arena, struct sigv4_result *out)
{
    const struct view_key *key;
    struct slice line;

    if (!header_parts(http_header_get(request, "authorization"), out) ||
        !header_date(request, options->now_s, &line, out) || !params_allowed(query, arena, out)) {
        return false;
    }
    key = key_known(view, out->access_key);
    if (key == NULL) {
        return sigv4_refuse(out, S3_InvalidAccessKeyId, SLICE_EMPTY);
    }
    if (!string_to_sign(request, query, options, line, arena, &out->string_to_sign) ||
        !signature_matches(key, out->signature_provided, out->string_to_sign)) {
        return sigv4_refuse(out, S3_SignatureDoesNotMatch, SLICE_EMPTY);
    }
    out->user = slice_of(key->user->name.data, key->user->name.len);
    return true;
}
