/*
 *     header or query -> claim (form) -> access key known? -> scope and time -> canonical request
 *         -> string to sign -> HMAC with the day's key -> compare
 *
 * Nothing here waits or allocates outside the arena (and the key cache).
 */
#include "gateway/auth/sigv4.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/codec/time_format.h"
#include "gateway/auth/canonical.h"
#include "gateway/auth/signing_key.h"
#include "gateway/auth/sigv2.h"

enum { SIGNATURE_BYTES = 64 };

static const char empty_sha256[SIGNATURE_BYTES + 1] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* ---- The payload's form ---- */

static const struct {
    const char *name;
    enum payload_mode mode;
} payload_modes[] = {
    {"UNSIGNED-PAYLOAD",                           PAYLOAD_UNSIGNED        },
    {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD",         PAYLOAD_SIGNED_CHUNKS   },
    {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", PAYLOAD_SIGNED_TRAILER  },
    {"STREAMING-UNSIGNED-PAYLOAD-TRAILER",         PAYLOAD_UNSIGNED_TRAILER},
};

static bool verify_mode(struct slice content_sha, struct sigv4_result *out)
{
    if (content_sha.len == SIGNATURE_BYTES &&
        hex_decode(content_sha, out->payload_sha256, sizeof(out->payload_sha256))) {
        out->mode = PAYLOAD_SHA256;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(payload_modes); i++) {
        if (slice_eq_str(content_sha, payload_modes[i].name)) {
            out->mode = payload_modes[i].mode;
            return true;
        }
    }
    if (slice_starts(content_sha, SLICE("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"))) {
        return sigv4_refuse(out, S3_NotImplemented,
                            SLICE("Payloads signed with AWS4-ECDSA-P256-SHA256 are not "
                                  "implemented."));
    }
    return sigv4_refuse(
        out, S3_InvalidArgument,
        SLICE("x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
              "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a "
              "valid sha256 value."));
}

static bool verify_anonymous(const struct sigv4_claim *claim, struct sigv4_result *out)
{
    out->anonymous = true;
    if (claim->content_sha.len == 0) {
        out->mode = PAYLOAD_UNSIGNED;
        return true;
    }
    if (!verify_mode(claim->content_sha, out)) {
        /* What no hash is cannot be the body's: AWS says so after it has read it. */
        out->error = S3_OK;
        out->text = SLICE_EMPTY;
        out->mode = PAYLOAD_SHA256;
        memset(out->payload_sha256, 0, sizeof(out->payload_sha256));
        return true;
    }
    if (out->mode == PAYLOAD_SIGNED_CHUNKS || out->mode == PAYLOAD_SIGNED_TRAILER) {
        return sigv4_refuse(
            out, S3_InvalidRequest,
            SLICE("Anonymous requests don't support this x-amz-content-sha256 value. "
                  "Please use UNSIGNED-PAYLOAD or "
                  "STREAMING-UNSIGNED-PAYLOAD-TRAILER."));
    }
    return true;
}

/* ---- Credential ---- */

/* The same complaint has another code and another beginning in a presigned request. */
static bool verify_malformed(const struct sigv4_claim *claim, struct arena *arena,
                             struct slice complaint, struct sigv4_result *out)
{
    return sigv4_refuse(
        out,
        claim->presigned ? S3_AuthorizationQueryParametersError : S3_AuthorizationHeaderMalformed,
        arena_printf(arena, "%s; %.*s",
                     claim->presigned ? "Error parsing the X-Amz-Credential parameter"
                                      : "The authorization header is malformed",
                     (int)complaint.len, complaint.data));
}

static bool verify_key_known(const struct sigv4_claim *claim, const struct view *view,
                             struct slice *secret, struct sigv4_result *out)
{
    const struct view_key *known = view_access_key(view, claim->credential.access_key);

    if (known == NULL || known->user == NULL || known->user->disabled ||
        known->key->secret_key.len == 0 || known->key->secret_key.len > LIMIT_SECRET_KEY_BYTES) {
        return sigv4_refuse(out, S3_InvalidAccessKeyId, SLICE_EMPTY);
    }
    *secret = slice_of(known->key->secret_key.data, known->key->secret_key.len);
    out->user = slice_of(known->user->name.data, known->user->name.len);
    return true;
}

/* AWS's own wording, which differs between the two forms. */
static bool verify_wrong_day(const struct sigv4_claim *claim, struct arena *arena,
                             struct sigv4_result *out)
{
    if (!claim->presigned) {
        return verify_malformed(claim, arena,
                                SLICE("The authorization header is malformed; Invalid credential "
                                      "date. Date is not the same as X-Amz-Date."),
                                out);
    }
    return sigv4_refuse(out, S3_AuthorizationQueryParametersError,
                        arena_printf(arena,
                                     "Invalid credential date \"%.*s\". This date is not the same "
                                     "as X-Amz-Date: \"%.*s\".",
                                     (int)claim->credential.date.len, claim->credential.date.data,
                                     TIME_DAY_BYTES, claim->amz_date.data));
}

static bool verify_scope(const struct sigv4_claim *claim, struct slice region, struct arena *arena,
                         struct sigv4_result *out)
{
    const struct sigv4_credential *credential = &claim->credential;
    uint64_t digits;

    if (!slice_eq(credential->service, SLICE("s3"))) {
        return verify_malformed(
            claim, arena,
            arena_printf(arena, "incorrect service \"%.*s\". This endpoint belongs to \"s3\".",
                         (int)credential->service.len, credential->service.data),
            out);
    }
    if (!slice_eq(credential->terminal, SLICE("aws4_request"))) {
        return verify_malformed(
            claim, arena,
            arena_printf(arena, "incorrect terminal \"%.*s\". This endpoint uses \"aws4_request\".",
                         (int)credential->terminal.len, credential->terminal.data),
            out);
    }
    if (credential->date.len != TIME_DAY_BYTES ||
        !slice_to_u64(credential->date, UINT64_MAX, &digits)) {
        return verify_malformed(
            claim, arena,
            arena_printf(arena,
                         "incorrect date format \"%.*s\". This date in the credential must be in "
                         "the format \"yyyyMMdd\".",
                         (int)credential->date.len, credential->date.data),
            out);
    }
    if (!slice_eq(credential->region, region)) {
        out->expected_region = region;
        return verify_malformed(claim, arena,
                                arena_printf(arena, "the region '%.*s' is wrong; expecting '%.*s'",
                                             (int)credential->region.len, credential->region.data,
                                             (int)region.len, region.data),
                                out);
    }
    return slice_starts(claim->amz_date, credential->date) || verify_wrong_day(claim, arena, out);
}

static bool verify_time(const struct sigv4_claim *claim, uint64_t now_s, struct sigv4_result *out)
{
    if (claim->presigned) {
        if (claim->time_s > now_s + LIMIT_CLOCK_SKEW_S) {
            return sigv4_refuse(out, S3_AccessDenied, SLICE("Request is not yet valid"));
        }
        if (now_s > claim->time_s + claim->expires_s || claim->expires_s == 0) {
            out->expired_s = claim->time_s + claim->expires_s;
            out->expired_after_s = claim->expires_s;
            return sigv4_refuse(out, S3_AccessDenied, SLICE("Request has expired."));
        }
        return true;
    }
    if (claim->time_s > now_s + LIMIT_CLOCK_SKEW_S || now_s > claim->time_s + LIMIT_CLOCK_SKEW_S) {
        return sigv4_refuse(out, S3_RequestTimeTooSkewed, SLICE_EMPTY);
    }
    return true;
}

/* ---- Signature ---- */

static char *sign_put(char *to, struct slice text)
{
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    return to + text.len;
}

/* "AWS4-HMAC-SHA256 \n date \n scope \n hex(sha256(canonical request))", without blanks. */
static struct slice sign_string(const struct sigv4_claim *claim, struct slice canonical,
                                struct arena *arena)
{
    static const struct slice algorithm = {.data = "AWS4-HMAC-SHA256\n", .len = 17};
    struct slice scope = claim->credential.scope;
    uint8_t sha256[HASH_SHA256_BYTES];
    char *text = arena_alloc_raw(arena, algorithm.len + TIME_AMZ_BYTES + 1 + scope.len + 1 +
                                            SIGNATURE_BYTES);
    char *at = text;

    ASSERT(claim->amz_date.len == TIME_AMZ_BYTES);
    sha256_of(canonical.data, canonical.len, sha256);
    at = sign_put(at, algorithm);
    at = sign_put(at, claim->amz_date);
    *at++ = '\n';
    at = sign_put(at, scope);
    *at++ = '\n';
    hex_encode(at, sha256, sizeof(sha256));
    return slice_of(text, (size_t)(at - text) + SIGNATURE_BYTES);
}

static bool verify_signature(const struct sigv4_claim *claim, struct sigv4_cache *cache,
                             struct slice secret, struct arena *arena, struct sigv4_result *out)
{
    const struct signing_key *key = signing_key_get(cache, &claim->credential, secret);
    uint8_t signature[HASH_SHA256_BYTES];

    out->string_to_sign = sign_string(claim, out->canonical_request, arena);
    out->signature_provided = claim->signature;
    hmac_sign(&key->hmac, out->string_to_sign.data, out->string_to_sign.len, signature);
    hex_encode(out->seed_signature, signature, sizeof(signature));
    if (claim->signature.len != SIGNATURE_BYTES ||
        !crypto_equal(out->seed_signature, claim->signature.data, SIGNATURE_BYTES)) {
        memset(out->seed_signature, 0, sizeof(out->seed_signature));
        return sigv4_refuse(out, S3_SignatureDoesNotMatch, SLICE_EMPTY);
    }
    memcpy(out->signing_key, key->bytes, sizeof(out->signing_key));
    out->date = claim->amz_date;
    out->scope = claim->credential.scope;
    return true;
}

/* Version 2 has no signed chunks: their seed would be its signature. */
static bool verify_sigv2_allowed(const struct sigv4_claim *claim, bool allowed,
                                 struct sigv4_result *out)
{
    if (!allowed) {
        return sigv4_refuse(out, S3_InvalidRequest,
                            SLICE("The authorization mechanism you have provided is not supported. "
                                  "Please use AWS4-HMAC-SHA256."));
    }
    out->mode = PAYLOAD_UNSIGNED;
    if (claim->content_sha.len > 0 && !verify_mode(claim->content_sha, out)) {
        return false;
    }
    if (out->mode == PAYLOAD_SIGNED_CHUNKS || out->mode == PAYLOAD_SIGNED_TRAILER) {
        return sigv4_refuse(out, S3_InvalidRequest,
                            SLICE("A signed payload needs Signature Version 4."));
    }
    return true;
}

void sigv4_verify(const struct http_request *request, const struct view *view,
                  const struct sigv4_options *options, struct arena *arena,
                  struct sigv4_result *out)
{
    struct sigv4_query query;
    struct sigv4_claim claim;
    struct slice secret = SLICE_EMPTY;
    enum sigv4_kind kind;

    memset(out, 0, sizeof(*out));
    out->error = S3_OK;
    if (!sigv4_query_parse(request->query, arena, &query, out)) {
        return;
    }
    kind = sigv4_claim_parse(request, &query, arena, &claim, out);
    switch (kind) {
    case SIGV4_REFUSED:
        return;
    case SIGV4_ANONYMOUS:
        (void)verify_anonymous(&claim, out);
        return;
    case SIGV2_QUERY:
    case SIGV2_HEADER:
        if (!verify_sigv2_allowed(
                &claim, kind == SIGV2_HEADER ? options->sigv2 : options->sigv2_ahead, out) ||
            !(kind == SIGV2_HEADER
                  ? sigv2_header_verify(request, &query, view, options, arena, out)
                  : sigv2_query_verify(request, &query, view, options, arena, out))) {
            out->user = SLICE_EMPTY;
        }
        return;
    case SIGV4_HEADER:
    case SIGV4_QUERY:
        break;
    }
    out->presigned = claim.presigned;
    out->access_key = claim.credential.access_key;
    bool ok =
        verify_mode(claim.content_sha, out) && verify_scope(&claim, options->region, arena, out) &&
        verify_key_known(&claim, view, &secret, out) && verify_time(&claim, options->now_s, out) &&
        canonical_request(request, &query, &claim, arena, out) &&
        verify_signature(&claim, options->cache, secret, arena, out);
    ASSERT(ok == (out->error == S3_OK));
    if (!ok) {
        out->user = SLICE_EMPTY;
    }
}

/* ---- Chunks and trailers ---- */

static void chunk_sign(const struct sigv4_result *auth, struct slice kind, const char previous[64],
                       struct slice hashes, char out[64])
{
    char text[512];
    char *at = text;
    uint8_t signature[HASH_SHA256_BYTES];

    ASSERT(kind.len + auth->date.len + auth->scope.len + SIGNATURE_BYTES + hashes.len + 4 <=
           sizeof(text));
    at = sign_put(at, kind);
    *at++ = '\n';
    at = sign_put(at, auth->date);
    *at++ = '\n';
    at = sign_put(at, auth->scope);
    *at++ = '\n';
    at = sign_put(at, slice_of(previous, SIGNATURE_BYTES));
    *at++ = '\n';
    at = sign_put(at, hashes);
    hmac_sha256(auth->signing_key, sizeof(auth->signing_key), text, (size_t)(at - text), signature);
    hex_encode(out, signature, sizeof(signature));
}

void sigv4_chunk_signature(const struct sigv4_result *auth, const char previous[64],
                           const uint8_t sha256[32], char out[64])
{
    char hashes[2 * SIGNATURE_BYTES + 1];

    memcpy(hashes, empty_sha256, SIGNATURE_BYTES); /* of the chunk's headers: there are none */
    hashes[SIGNATURE_BYTES] = '\n';
    hex_encode(hashes + SIGNATURE_BYTES + 1, sha256, HASH_SHA256_BYTES);
    chunk_sign(auth, SLICE("AWS4-HMAC-SHA256-PAYLOAD"), previous, slice_of(hashes, sizeof(hashes)),
               out);
}

void sigv4_trailer_signature(const struct sigv4_result *auth, const char previous[64],
                             const uint8_t sha256[32], char out[64])
{
    char hash[SIGNATURE_BYTES];

    hex_encode(hash, sha256, HASH_SHA256_BYTES);
    chunk_sign(auth, SLICE("AWS4-HMAC-SHA256-TRAILER"), previous, slice_of(hash, sizeof(hash)),
               out);
}
