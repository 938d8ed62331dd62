/* Reads the two places where a signature can stand. Texts are those of AWS where we know them. */
#include "gateway/auth/sigv4_claim.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/codec/percent.h"
#include "common/codec/time_format.h"

bool sigv4_refuse(struct sigv4_result *out, enum s3_error error, struct slice text)
{
    out->error = error;
    out->text = text;
    return false;
}

/* ---- Query ---- */

/* Decodes and re-encodes in one pass. "+" is a blank, as everywhere in S3 queries. */
static bool claim_canonical(struct slice text, struct arena *arena, struct slice *out)
{
    bool plain = true;

    for (size_t i = 0; i < text.len && plain; i++) {
        char c = text.data[i];

        plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '.' || c == '_' || c == '~';
    }
    if (plain) {
        *out = text;
        return true;
    }
    struct slice decoded;
    if (!percent_decode(arena, text, true, &decoded)) {
        return false;
    }
    *out = percent_encode(arena, decoded, false);
    return true;
}

bool sigv4_query_parse(struct slice query, struct arena *arena, struct sigv4_query *parsed,
                       struct sigv4_result *out)
{
    parsed->count = 0;
    while (query.len > 0) {
        size_t end = slice_find(query, '&');
        struct slice item = slice_of(query.data, end);
        size_t equals = slice_find(item, '=');

        query = slice_after(query, end + 1);
        if (item.len == 0) {
            continue;
        }
        if (parsed->count == SIGV4_PARAMS_MAX) {
            return sigv4_refuse(out, S3_InvalidURI, SLICE("Too many query parameters."));
        }
        struct sigv4_param *param = &parsed->params[parsed->count++];
        if (!claim_canonical(slice_of(item.data, equals), arena, &param->name) ||
            !claim_canonical(slice_after(item, equals + 1), arena, &param->value)) {
            return sigv4_refuse(out, S3_InvalidURI, SLICE_EMPTY);
        }
    }
    return true;
}

/* How many parameters of that name there are; the first one's value. */
static uint32_t claim_find(const struct sigv4_query *query, const char *name, struct slice *value)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < query->count; i++) {
        if (slice_eq_str(query->params[i].name, name)) {
            if (found == 0) {
                *value = query->params[i].value;
            }
            found += 1;
        }
    }
    return found;
}

/* ---- Credential ---- */

enum { CLAIM_CREDENTIAL_PARTS = 5 };

static size_t claim_count(struct slice text, char separator)
{
    size_t count = 1;

    for (size_t i = 0; i < text.len; i++) {
        count += text.data[i] == separator ? 1 : 0;
    }
    return count;
}

/* Cuts what follows the last '/' off `text`. */
static bool claim_cut_last(struct slice *text, struct slice *last)
{
    for (size_t i = text->len; i > 0; i--) {
        if (text->data[i - 1] == '/') {
            *last = slice_after(*text, i);
            text->len = i - 1;
            return true;
        }
    }
    return false;
}

/* Access keys hold no slash. */
bool sigv4_credential_parse(struct slice text, struct sigv4_credential *out)
{
    struct slice whole = text;

    if (claim_count(text, '/') != CLAIM_CREDENTIAL_PARTS) {
        return false;
    }
    if (!claim_cut_last(&text, &out->terminal) || !claim_cut_last(&text, &out->service) ||
        !claim_cut_last(&text, &out->region) || !claim_cut_last(&text, &out->date)) {
        return false;
    }
    out->access_key = text;
    out->scope = slice_after(whole, text.len + 1);
    return text.len > 0 && text.len <= LIMIT_ACCESS_KEY_BYTES;
}

/* ---- Authorization header ---- */

static bool claim_malformed(struct sigv4_result *out, struct slice text)
{
    return sigv4_refuse(out, S3_AuthorizationHeaderMalformed, text);
}

enum { CLAIM_COMPONENTS = 3 };

/* "Name=value" number `at` of the header, into its place. */
static bool claim_component(struct slice item, unsigned at, struct slice places[CLAIM_COMPONENTS],
                            struct arena *arena, struct sigv4_result *out)
{
    static const char *const names[CLAIM_COMPONENTS] = {"Credential", "SignedHeaders", "Signature"};
    size_t equals = slice_find(item, '=');

    if (equals == item.len) {
        return claim_malformed(out, arena_printf(arena,
                                                 "The authorization header is malformed; the "
                                                 "authorization component \"%.*s\" is malformed.",
                                                 (int)item.len, item.data));
    }
    places[at] = slice_after(item, equals + 1);
    if (!slice_eq_str(slice_of(item.data, equals), names[at]) || places[at].len == 0) {
        return claim_malformed(
            out,
            arena_printf(arena, "The authorization header is malformed; missing %s.", names[at]));
    }
    return true;
}

static bool claim_components(struct slice value, struct arena *arena, struct sigv4_claim *claim,
                             struct sigv4_result *out)
{
    struct slice places[CLAIM_COMPONENTS];

    if (claim_count(value, ',') != CLAIM_COMPONENTS) {
        return claim_malformed(out,
                               SLICE("The authorization header is malformed; the authorization "
                                     "header requires three components: Credential, "
                                     "SignedHeaders, and Signature."));
    }
    for (unsigned i = 0; i < CLAIM_COMPONENTS; i++) {
        size_t end = slice_find(value, ',');

        if (!claim_component(slice_trim(slice_of(value.data, end)), i, places, arena, out)) {
            return false;
        }
        value = slice_after(value, end + 1);
    }
    claim->signed_headers = places[1];
    claim->signature = places[2];
    if (!sigv4_credential_parse(places[0], &claim->credential)) {
        return claim_malformed(out,
                               SLICE("The authorization header is malformed; the Credential is "
                                     "mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/"
                                     "SERVICE/aws4_request\"."));
    }
    return true;
}

/* Algorithms that are not ours get an answer that says so. */
static bool claim_algorithm(struct slice value, struct slice *rest, struct sigv4_result *out)
{
    static const struct slice ours = {.data = "AWS4-HMAC-SHA256", .len = 16};
    size_t blank = slice_find(value, ' ');
    struct slice name = slice_of(value.data, blank);

    if (blank == value.len) {
        out->argument = value;
        return sigv4_refuse(
            out, S3_InvalidArgument,
            SLICE("Authorization header is invalid -- one and only one ' ' (space) required."));
    }
    if (slice_eq(name, ours)) {
        *rest = slice_trim(slice_after(value, blank));
        return true;
    }
    if (slice_eq(name, SLICE("AWS"))) {
        return sigv4_refuse(out, S3_InvalidRequest,
                            SLICE("The authorization mechanism you have provided is not supported. "
                                  "Please use AWS4-HMAC-SHA256."));
    }
    if (slice_starts(name, SLICE("AWS4-ECDSA-P256-SHA256"))) {
        return sigv4_refuse(out, S3_NotImplemented,
                            SLICE("Signature Version 4A (AWS4-ECDSA-P256-SHA256) is not "
                                  "implemented. Please use AWS4-HMAC-SHA256."));
    }
    out->argument = name;
    return sigv4_refuse(out, S3_InvalidArgument, SLICE("Unsupported Authorization Type"));
}

/* The time of signing: x-amz-date, or else Date. Either in the short form or as an HTTP date. */
static bool claim_date(const struct http_request *request, struct arena *arena,
                       struct sigv4_claim *claim, struct sigv4_result *out)
{
    struct slice text = http_header_get(request, "x-amz-date");
    bool ok;

    if (text.data == NULL) {
        text = http_header_get(request, "date");
    }
    ok = time_parse_amz(text, &claim->time_s);
    if (ok) {
        claim->amz_date = text;
        return true;
    }
    /* HTTP dates with two-digit years are read as this century's: no signature is that old. */
    ok = text.len > 0 && time_parse_http(text, 946684800U, &claim->time_s);
    if (!ok) {
        return sigv4_refuse(
            out, S3_AccessDenied,
            SLICE("AWS authentication requires a valid Date or x-amz-date header."));
    }
    char *formatted = arena_alloc_raw(arena, TIME_AMZ_BYTES + 1);
    time_format_amz(claim->time_s, formatted);
    claim->amz_date = slice_of(formatted, TIME_AMZ_BYTES);
    return true;
}

static bool claim_from_header(const struct http_request *request, struct slice value,
                              struct arena *arena, struct sigv4_claim *claim,
                              struct sigv4_result *out)
{
    struct slice rest;

    if (!claim_algorithm(value, &rest, out) || !claim_components(rest, arena, claim, out)) {
        return false;
    }
    claim->content_sha = http_header_get(request, "x-amz-content-sha256");
    if (claim->content_sha.len == 0) {
        return sigv4_refuse(
            out, S3_InvalidRequest,
            SLICE("Missing required header for this request: x-amz-content-sha256"));
    }
    return claim_date(request, arena, claim, out);
}

/* ---- Presigned query ---- */

static bool claim_query_error(struct sigv4_result *out, struct slice text)
{
    return sigv4_refuse(out, S3_AuthorizationQueryParametersError, text);
}

static bool claim_expires(struct slice text, struct sigv4_claim *claim, struct sigv4_result *out)
{
    if (text.len > 0 && text.data[0] == '-') {
        return claim_query_error(out, SLICE("X-Amz-Expires must be non-negative"));
    }
    if (!slice_to_u64(text, UINT64_MAX, &claim->expires_s)) {
        return claim_query_error(out, SLICE("X-Amz-Expires should be a number"));
    }
    if (claim->expires_s > LIMIT_PRESIGN_S) {
        return claim_query_error(
            out, SLICE("X-Amz-Expires must be less than a week (in seconds); that is, the given "
                       "X-Amz-Expires must be less than 604800 seconds"));
    }
    return true;
}

struct claim_fields {
    struct slice algorithm;
    struct slice credential;
    struct slice signature;
    struct slice date;
    struct slice signed_headers;
    struct slice expires;
};

/* All six, each once, decoded. */
static bool claim_query_fields(const struct sigv4_query *query, struct arena *arena,
                               struct claim_fields *fields)
{
    const struct {
        const char *name;
        struct slice *place;
    } rows[] = {
        {"X-Amz-Algorithm",     &fields->algorithm     },
        {"X-Amz-Credential",    &fields->credential    },
        {"X-Amz-Signature",     &fields->signature     },
        {"X-Amz-Date",          &fields->date          },
        {"X-Amz-SignedHeaders", &fields->signed_headers},
        {"X-Amz-Expires",       &fields->expires       },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice encoded = SLICE_EMPTY;

        if (claim_find(query, rows[i].name, &encoded) != 1 || encoded.len == 0 ||
            !percent_decode(arena, encoded, false, rows[i].place)) {
            return false;
        }
    }
    return true;
}

static bool claim_from_query(const struct http_request *request, const struct sigv4_query *query,
                             struct arena *arena, struct sigv4_claim *claim,
                             struct sigv4_result *out)
{
    struct claim_fields fields;

    if (!claim_query_fields(query, arena, &fields)) {
        return claim_query_error(
            out, SLICE("Query-string authentication version 4 requires the X-Amz-Algorithm, "
                       "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and "
                       "X-Amz-Expires parameters."));
    }
    if (!slice_eq(fields.algorithm, SLICE("AWS4-HMAC-SHA256"))) {
        return claim_query_error(out, SLICE("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    if (!sigv4_credential_parse(fields.credential, &claim->credential)) {
        return claim_query_error(
            out,
            SLICE("Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; "
                  "expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."));
    }
    if (!time_parse_amz(fields.date, &claim->time_s)) {
        return claim_query_error(out, SLICE("X-Amz-Date must be in the ISO8601 Long Format "
                                            "\"yyyyMMdd'T'HHmmss'Z'\""));
    }
    claim->amz_date = fields.date;
    claim->signed_headers = fields.signed_headers;
    claim->signature = fields.signature;
    claim->content_sha = http_header_get(request, "x-amz-content-sha256");
    (void)claim_find(query, "X-Amz-Content-Sha256", &claim->content_sha);
    if (claim->content_sha.len == 0) {
        claim->content_sha = SLICE("UNSIGNED-PAYLOAD");
    }
    return claim_expires(fields.expires, claim, out);
}

/* ---- Both ---- */

/* A second copy of one of these could be the one that a proxy, or a later layer of ours, believes.
 */
static bool claim_no_duplicates(const struct http_request *request, struct sigv4_result *out,
                                struct arena *arena)
{
    static const char *const single[] = {
        "host",
        "date",
        "x-amz-date",
        "x-amz-content-sha256",
        "x-amz-security-token",
        "x-amz-decoded-content-length",
    };

    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        if (http_header_count(request, single[i]) > 1) {
            return sigv4_refuse(
                out, S3_InvalidRequest,
                arena_printf(arena, "The header %s was given more than once.", single[i]));
        }
    }
    return true;
}

enum sigv4_kind sigv4_claim_parse(const struct http_request *request,
                                  const struct sigv4_query *query, struct arena *arena,
                                  struct sigv4_claim *claim, struct sigv4_result *out)
{
    struct slice ignored = SLICE_EMPTY;
    uint32_t headers = http_header_count(request, "authorization");
    uint32_t v4 = claim_find(query, "X-Amz-Algorithm", &ignored) +
                  claim_find(query, "X-Amz-Signature", &ignored) +
                  claim_find(query, "X-Amz-Credential", &ignored);
    uint32_t v2 =
        claim_find(query, "Signature", &ignored) + claim_find(query, "AWSAccessKeyId", &ignored);
    bool token = http_header_count(request, "x-amz-security-token") > 0 ||
                 claim_find(query, "X-Amz-Security-Token", &ignored) > 0;
    bool ok;

    memset(claim, 0, sizeof(*claim));
    if (!claim_no_duplicates(request, out, arena)) {
        return SIGV4_REFUSED;
    }
    if (headers + (v4 > 0 ? 1U : 0U) + (v2 > 0 ? 1U : 0U) > 1) {
        (void)sigv4_refuse(out, S3_InvalidArgument,
                           SLICE("Only one auth mechanism allowed; only the X-Amz-Algorithm query "
                                 "parameter, Signature query string parameter or the Authorization "
                                 "header should be specified"));
        return SIGV4_REFUSED;
    }
    if (v2 > 0 && token) {
        (void)sigv4_refuse(out, S3_InvalidToken, SLICE_EMPTY);
        return SIGV4_REFUSED;
    }
    if (v2 > 0) {
        return SIGV2_QUERY;
    }
    if (headers == 0 && v4 == 0) {
        claim->content_sha = http_header_get(request, "x-amz-content-sha256");
        return SIGV4_ANONYMOUS;
    }
    if (headers > 0 && slice_starts(http_header_get(request, "authorization"), SLICE("AWS "))) {
        claim->content_sha = http_header_get(request, "x-amz-content-sha256");
        if (token) {
            (void)sigv4_refuse(out, S3_InvalidToken, SLICE_EMPTY);
            return SIGV4_REFUSED;
        }
        return SIGV2_HEADER;
    }
    claim->presigned = v4 > 0;
    ok = claim->presigned ? claim_from_query(request, query, arena, claim, out)
                          : claim_from_header(request, http_header_get(request, "authorization"),
                                              arena, claim, out);
    if (ok && token) {
        /* No session was ever issued here: the token cannot be one of ours. */
        ok = sigv4_refuse(out, S3_InvalidToken, SLICE_EMPTY);
    }
    if (!ok) {
        return SIGV4_REFUSED;
    }
    return claim->presigned ? SIGV4_QUERY : SIGV4_HEADER;
}
