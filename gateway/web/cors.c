#include "gateway/web/cors.h"

static const char *const cors_methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD"};

#define CORS_VARY "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"

/* ---- Matching ---- */

static char cors_lower(char c, bool fold)
{
    return fold && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool cors_same(const char *a, const char *b, size_t len, bool fold)
{
    for (size_t i = 0; i < len; i++) {
        if (cors_lower(a[i], fold) != cors_lower(b[i], fold)) {
            return false;
        }
    }
    return true;
}

/* At most one '*' in `pattern`: what was put was checked. */
static bool cors_glob(struct slice pattern, struct slice text, bool fold)
{
    size_t star = slice_find(pattern, '*');
    struct slice tail = slice_after(pattern, star + 1);

    if (star == pattern.len) {
        return pattern.len == text.len && cors_same(pattern.data, text.data, text.len, fold);
    }
    return text.len >= star + tail.len && cors_same(pattern.data, text.data, star, fold) &&
           (tail.len == 0 || cors_same(tail.data, text.data + text.len - tail.len, tail.len, fold));
}

static bool cors_in(const ProtobufCBinaryData *list, size_t count, struct slice text, bool fold)
{
    for (size_t i = 0; i < count; i++) {
        if (cors_glob(s3_slice(list[i]), text, fold)) {
            return true;
        }
    }
    return false;
}

static bool cors_headers_allowed(const Kist__CorsRule *rule, struct slice headers)
{
    while (headers.len > 0) {
        size_t comma = slice_find(headers, ',');
        struct slice name = slice_trim(slice_of(headers.data, comma));

        headers = slice_after(headers, comma + 1);
        if (name.len > 0 && !cors_in(rule->allowed_headers, rule->n_allowed_headers, name, true)) {
            return false;
        }
    }
    return true;
}

const Kist__CorsRule *cors_match(const Kist__Cors *cors, struct slice origin, struct slice method,
                                 struct slice headers)
{
    for (size_t i = 0; i < cors->n_rules; i++) {
        const Kist__CorsRule *rule = cors->rules[i];

        if (cors_in(rule->origins, rule->n_origins, origin, false) &&
            cors_in(rule->methods, rule->n_methods, method, false) &&
            cors_headers_allowed(rule, headers)) {
            return rule;
        }
    }
    return NULL;
}

bool cors_header_name_valid(struct slice name, bool wildcard)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool alphanumeric =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alphanumeric && slice_find(SLICE("!#$%&'+-.^_`|~"), c) == 14 &&
            (c != '*' || !wildcard)) {
            return false;
        }
    }
    return name.len > 0;
}

bool cors_method_valid(struct slice method)
{
    for (size_t i = 0; i < ARRAY_LEN(cors_methods); i++) {
        if (slice_eq_str(method, cors_methods[i])) {
            return true;
        }
    }
    return false;
}

/* ---- Replies ---- */

static void cors_join(struct buffer *to, struct slice item)
{
    if (to->len > 0) {
        buffer_append(to, SLICE(", "));
    }
    buffer_append(to, item);
}

static void cors_reply_list(struct s3_request *req, const char *name,
                            const ProtobufCBinaryData *list, size_t count)
{
    struct buffer text;

    if (count == 0) {
        return;
    }
    buffer_init(&text);
    for (size_t i = 0; i < count; i++) {
        cors_join(&text, s3_slice(list[i]));
    }
    s3_reply_header(req, name, arena_copy(req->arena, buffer_slice(&text)));
    buffer_deinit(&text);
}

/* What was asked for and is allowed, in lower case. */
static void cors_reply_headers(struct s3_request *req)
{
    struct slice rest = s3_header(req, "access-control-request-headers");
    struct buffer text;

    buffer_init(&text);
    while (rest.len > 0) {
        size_t comma = slice_find(rest, ',');
        struct slice name = slice_trim(slice_of(rest.data, comma));

        rest = slice_after(rest, comma + 1);
        if (name.len > 0) {
            cors_join(&text, name);
        }
    }
    for (size_t i = 0; i < text.len; i++) {
        text.data[i] = cors_lower(text.data[i], true);
    }
    if (text.len > 0) {
        s3_reply_header(req, "Access-Control-Allow-Headers",
                        arena_copy(req->arena, buffer_slice(&text)));
    }
    buffer_deinit(&text);
}

void cors_reply_rule(struct s3_request *req, const Kist__CorsRule *rule)
{
    struct slice origin = s3_header(req, "origin");
    bool any = false;

    for (size_t i = 0; i < rule->n_origins; i++) {
        any = any || slice_eq(s3_slice(rule->origins[i]), SLICE("*"));
    }
    s3_reply_header(req, "Access-Control-Allow-Origin", any ? SLICE("*") : origin);
    cors_reply_list(req, "Access-Control-Allow-Methods", rule->methods, rule->n_methods);
    cors_reply_headers(req);
    cors_reply_list(req, "Access-Control-Expose-Headers", rule->exposed_headers,
                    rule->n_exposed_headers);
    if (rule->has_max_age) {
        s3_reply_header(req, "Access-Control-Max-Age",
                        arena_printf(req->arena, "%d", (int32_t)rule->max_age_s));
    }
    if (!any) {
        s3_reply_header(req, "Access-Control-Allow-Credentials", SLICE("true"));
    }
    s3_reply_header(req, "Vary", SLICE(CORS_VARY));
}

void s3_reply_cors(struct s3_request *req)
{
    struct slice origin = s3_header(req, "origin");
    struct slice method = s3_header(req, "access-control-request-method");
    const Kist__CorsRule *rule;
    const Kist__Bucket *bucket;

    if (origin.len == 0 || req->view == NULL || req->http->request.method == HTTP_OPTIONS) {
        return; /* a preflight says what it has to say itself */
    }
    /* Also when the request was refused before its bucket was looked at. */
    bucket = req->bucket != NULL ? req->bucket : view_bucket(req->view, req->bucket_name);
    if (bucket == NULL || bucket->settings == NULL || bucket->settings->cors == NULL) {
        return;
    }
    rule = cors_match(bucket->settings->cors, origin,
                      method.len > 0 ? method : req->http->request.method_name,
                      s3_header(req, "access-control-request-headers"));
    if (rule != NULL) {
        cors_reply_rule(req, rule);
    }
}
