#include "gateway/auth/canonical.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/codec/percent.h"

/* Which of the request's headers the signature covers. */
struct canonical_cover {
    uint64_t bits[LIMIT_HTTP_HEADERS / 64];
};

static char *canonical_put(char *to, struct slice text)
{
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    return to + text.len;
}

/* Room for everything: a byte becomes at most three. */
static size_t canonical_bound(const struct http_request *request, const struct sigv4_query *query,
                              const struct sigv4_claim *claim)
{
    size_t bound = request->method_name.len + 3 * request->path.len +
                   2 * claim->signed_headers.len + claim->content_sha.len + 16;

    for (uint32_t i = 0; i < query->count; i++) {
        bound += query->params[i].name.len + query->params[i].value.len + 2;
    }
    for (uint32_t i = 0; i < request->header_count; i++) {
        bound += request->headers[i].value.len + 2;
    }
    return bound;
}

/* NULL for a bad escape. A raw "+" is a plus, as it is in the key. */
static char *canonical_path(char *to, struct slice path)
{
    while (path.len > 0) {
        size_t run = slice_find(path, '%');
        int high;
        int low;

        to = percent_encode_to(to, slice_of(path.data, run), true);
        path = slice_after(path, run);
        if (path.len == 0) {
            break;
        }
        high = path.len > 2 ? hex_digit(path.data[1]) : -1;
        low = path.len > 2 ? hex_digit(path.data[2]) : -1;
        if (high < 0 || low < 0) {
            return NULL;
        }
        /* An encoded "/" is part of the key like any other: it is written plain. */
        char c = (char)(high * 16 + low);
        to = percent_encode_to(to, slice_of(&c, 1), true);
        path = slice_after(path, 3);
    }
    return to;
}

static bool canonical_less(const struct sigv4_param *a, const struct sigv4_param *b)
{
    int order = slice_cmp(a->name, b->name);

    return order != 0 ? order < 0 : slice_cmp(a->value, b->value) < 0;
}

/* By encoded name, then value. Few, and mostly in order already: insertion. */
static void canonical_sort(struct sigv4_query *query)
{
    for (uint32_t i = 1; i < query->count; i++) {
        struct sigv4_param moving = query->params[i];
        uint32_t at = i;

        for (; at > 0 && canonical_less(&moving, &query->params[at - 1]); at--) {
            query->params[at] = query->params[at - 1];
        }
        query->params[at] = moving;
    }
}

static char *canonical_query(char *to, const struct sigv4_query *query, bool presigned)
{
    bool first = true;

    for (uint32_t i = 0; i < query->count; i++) {
        const struct sigv4_param *param = &query->params[i];

        if (presigned && slice_eq(param->name, SLICE("X-Amz-Signature"))) {
            continue;
        }
        if (!first) {
            *to++ = '&';
        }
        first = false;
        to = canonical_put(to, param->name);
        *to++ = '=';
        to = canonical_put(to, param->value);
    }
    return to;
}

/* Runs of blanks become one. */
static char *canonical_value(char *to, struct slice value)
{
    bool blank = false;

    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i] == '\t' ? ' ' : value.data[i];

        if (c != ' ' || !blank) {
            *to++ = c;
        }
        blank = c == ' ';
    }
    return to;
}

/* "name:value,value\n" of all headers of that name; NULL when there is none or it was listed
 * before. */
static char *canonical_header(char *to, const struct http_request *request, struct slice name,
                              struct canonical_cover *cover)
{
    bool found = false;

    to = canonical_put(to, name);
    *to++ = ':';
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (!slice_eq(request->headers[i].name, name)) {
            continue;
        }
        if ((cover->bits[i / 64] >> (i % 64) & 1) != 0) {
            return NULL;
        }
        cover->bits[i / 64] |= 1ULL << (i % 64);
        if (found) {
            *to++ = ',';
        }
        found = true;
        to = canonical_value(to, slice_trim(request->headers[i].value));
    }
    *to++ = '\n';
    return found ? to : NULL;
}

static char *canonical_headers(char *to, const struct http_request *request, struct slice names,
                               struct canonical_cover *cover, struct slice *missing)
{
    while (names.len > 0) {
        size_t end = slice_find(names, ';');
        struct slice name = slice_of(names.data, end);
        char *next = name.len == 0 ? NULL : canonical_header(to, request, name, cover);

        if (next == NULL) {
            *missing = name;
            return NULL;
        }
        to = next;
        names = slice_after(names, end + 1);
    }
    return to;
}

/* Otherwise whoever holds a presigned URL could add an ACL, or metadata, or another key. */
static bool canonical_all_signed(const struct http_request *request,
                                 const struct canonical_cover *cover, struct arena *arena,
                                 struct sigv4_result *out)
{
    struct slice names = SLICE_EMPTY;

    for (uint32_t i = 0; i < request->header_count; i++) {
        struct slice name = request->headers[i].name;
        bool needs = slice_starts(name, SLICE("x-amz-")) || slice_starts(name, SLICE("x-kist-")) ||
                     slice_starts(name, SLICE("x-minio-")) || slice_eq(name, SLICE("host"));

        if (needs && (cover->bits[i / 64] >> (i % 64) & 1) == 0) {
            names = names.len == 0 ? name
                                   : arena_printf(arena, "%.*s, %.*s", (int)names.len, names.data,
                                                  (int)name.len, name.data);
        }
    }
    if (names.len == 0) {
        return true;
    }
    out->headers_not_signed = names;
    return sigv4_refuse(out, S3_AccessDenied,
                        SLICE("There were headers present in the request which were not signed"));
}

bool canonical_request(const struct http_request *request, struct sigv4_query *query,
                       const struct sigv4_claim *claim, struct arena *arena,
                       struct sigv4_result *out)
{
    struct canonical_cover cover = {0};
    struct slice missing = SLICE_EMPTY;
    size_t bound = canonical_bound(request, query, claim);
    char *text = arena_alloc_raw(arena, bound);
    char *at = text;

    if (request->header_count > LIMIT_HTTP_HEADERS) {
        return sigv4_refuse(out, S3_RequestHeaderSectionTooLarge, SLICE_EMPTY);
    }
    at = canonical_put(at, request->method_name);
    *at++ = '\n';
    at = canonical_path(at, request->path);
    if (at == NULL) {
        return sigv4_refuse(out, S3_InvalidURI, SLICE_EMPTY);
    }
    *at++ = '\n';
    canonical_sort(query);
    at = canonical_query(at, query, claim->presigned);
    *at++ = '\n';
    at = canonical_headers(at, request, claim->signed_headers, &cover, &missing);
    if (at == NULL) {
        return sigv4_refuse(
            out, S3_SignatureDoesNotMatch,
            arena_printf(arena,
                         "A header named in SignedHeaders is empty, repeated, or not in the "
                         "request: '%.*s'",
                         (int)missing.len, missing.data == NULL ? "" : missing.data));
    }
    *at++ = '\n';
    at = canonical_put(at, claim->signed_headers);
    *at++ = '\n';
    at = canonical_put(at, claim->content_sha);
    ASSERT((size_t)(at - text) <= bound);
    out->canonical_request = slice_of(text, (size_t)(at - text));
    return canonical_all_signed(request, &cover, arena, out);
}
