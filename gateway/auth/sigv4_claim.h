/*
 * What a request claims about its signature, before anything is verified: taken from the
 * Authorization header or from the query, checked for form only.
 */
#ifndef GATEWAY_AUTH_SIGV4_CLAIM_H
#define GATEWAY_AUTH_SIGV4_CLAIM_H

#include "common/base/arena.h"
#include "gateway/auth/sigv4.h"

enum { SIGV4_PARAMS_MAX = 128 };

/* A query parameter in canonical form: decoded once, encoded again. */
struct sigv4_param {
    struct slice name;
    struct slice value;
};

struct sigv4_query {
    struct sigv4_param params[SIGV4_PARAMS_MAX];
    uint32_t count;
};

/* "AKID/20130524/us-east-1/s3/aws4_request" */
struct sigv4_credential {
    struct slice access_key;
    struct slice scope; /* from the date on */
    struct slice date;
    struct slice region;
    struct slice service;
    struct slice terminal;
};

struct sigv4_claim {
    bool presigned;
    struct sigv4_credential credential;
    struct slice signed_headers; /* "host;x-amz-date" */
    struct slice signature;
    struct slice amz_date; /* 20130524T000000Z */
    uint64_t time_s;
    uint64_t expires_s;       /* presigned */
    struct slice content_sha; /* "UNSIGNED-PAYLOAD", a digest, ... */
};

enum sigv4_kind {
    SIGV4_ANONYMOUS = 0,
    SIGV4_HEADER,
    SIGV4_QUERY,
    SIGV2_QUERY,
    SIGV2_HEADER,
    SIGV4_REFUSED
};

/* Splits the query and brings it into canonical form. Failure: out->error is set. */
bool sigv4_query_parse(struct slice query, struct arena *arena, struct sigv4_query *parsed,
                       struct sigv4_result *out);

/* Which mechanism the request uses, and what it claims; SIGV4_REFUSED: out->error says why. */
enum sigv4_kind sigv4_claim_parse(const struct http_request *request,
                                  const struct sigv4_query *query, struct arena *arena,
                                  struct sigv4_claim *claim, struct sigv4_result *out);

/* "AKID/20130524/us-east-1/s3/aws4_request" taken apart; false: it has not that form. */
bool sigv4_credential_parse(struct slice text, struct sigv4_credential *out);

/* Sets error and text; returns false so that `return sigv4_refuse(...)` reads well. */
bool sigv4_refuse(struct sigv4_result *out, enum s3_error error, struct slice text);

#endif
