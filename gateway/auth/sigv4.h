/*
 * AWS Signature Version 4 (AWS: "Authenticating Requests: AWS Signature Version 4"): header and
 * presigned query. Constant-time comparison; Host and every x-amz-*, x-kist-* and x-minio-* header
 * must be signed; 15 minutes of skew.
 */
#ifndef GATEWAY_AUTH_SIGV4_H
#define GATEWAY_AUTH_SIGV4_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/client/view.h"
#include "gateway/http/http.h"
#include "gateway/s3/error.h"

enum payload_mode {
    PAYLOAD_UNSIGNED = 0,    /* UNSIGNED-PAYLOAD, presigned, anonymous */
    PAYLOAD_SHA256,          /* hex digest of the whole body */
    PAYLOAD_SIGNED_CHUNKS,   /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
    PAYLOAD_SIGNED_TRAILER,  /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER */
    PAYLOAD_UNSIGNED_TRAILER /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
};

struct sigv4_result {
    bool anonymous; /* no credentials at all: user is empty */
    bool presigned;
    struct slice access_key;
    struct slice user; /* borrowed from the view */
    enum payload_mode mode;
    uint8_t payload_sha256[32]; /* PAYLOAD_SHA256 */
    /* For signed chunks. */
    uint8_t signing_key[32];
    char seed_signature[64];
    struct slice date;  /* 20261130T125255Z */
    struct slice scope; /* 20261130/us-east-1/s3/aws4_request */
    /* For error bodies. */
    enum s3_error error;
    struct slice text;     /* replaces the message when not empty */
    struct slice argument; /* InvalidArgument: what the Authorization header holds */
    struct slice canonical_request;
    struct slice string_to_sign;
    struct slice signature_provided;
    struct slice expected_region;    /* AuthorizationHeaderMalformed because of the region */
    uint64_t expired_s;              /* AccessDenied because the URL was good until then */
    uint64_t expired_after_s;        /* its X-Amz-Expires; 0: version 2 has none */
    struct slice headers_not_signed; /* AccessDenied because of these: "x-amz-acl, x-amz-meta-a" */
};

struct sigv4_cache; /* signing keys by (access key, date, region): one per loop */
struct sigv4_cache *sigv4_cache_new(void);
void sigv4_cache_free(struct sigv4_cache *cache);

struct sigv4_options {
    struct slice region; /* ours; a scope with another is refused, naming ours */
    uint64_t now_s;      /* wall clock */
    struct sigv4_cache *cache;
    struct slice virtual_bucket; /* named by the host; empty: path style. Version 2 signs it. */
    bool sigv2;                  /* version 2 is accepted in headers */
    bool sigv2_ahead;            /* and in what was signed ahead: presigned URLs, forms */
};

/* Fills `out`; out->error S3_OK when authenticated (or anonymous). `view` decides which access keys
 * exist: an InvalidAccessKeyId must be confirmed by the caller with a newer view. */
void sigv4_verify(const struct http_request *request, const struct view *view,
                  const struct sigv4_options *options, struct arena *arena,
                  struct sigv4_result *out);

/* One chunk's or trailer's signature, for payload.c: string to sign made of `kind`, date, scope,
 * the previous signature, and the hashes. */
void sigv4_chunk_signature(const struct sigv4_result *auth, const char previous[64],
                           const uint8_t sha256[32], char out[64]);
void sigv4_trailer_signature(const struct sigv4_result *auth, const char previous[64],
                             const uint8_t sha256[32], char out[64]);

#endif
