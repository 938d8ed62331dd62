/*
 * The body of a request as the operation sees it: aws-chunked framing removed, every signature,
 * length, digest and trailer verified. All five payload forms (sigv4.h), Content-MD5,
 * x-amz-checksum-* headers and trailers.
 *
 *     socket -> http_body_read() -> payload_read() -> stripe buffers
 *
 * The operation must read to the end (len 0) and look at `error` before it makes anything visible.
 */
#ifndef GATEWAY_AUTH_PAYLOAD_H
#define GATEWAY_AUTH_PAYLOAD_H

#include "gateway/auth/sigv4.h"
#include "gateway/http/http.h"
#include "gateway/object/checksum.h"

struct payload_read {
    void (*done)(struct payload_read *read);
    size_t len; /* bytes placed; less than asked only at the end or on error */
    bool end;   /* no more follow: payload->error says whether all is well */
};

struct payload {
    /* After payload_init(). */
    bool has_length;
    uint64_t length; /* of the decoded body */
    /* What the client declared about the content; algorithm NONE: nothing. Known at the end when it
     * comes in a trailer. */
    struct checksum_value declared;
    enum checksum_algorithm
        algorithm; /* declared by value, trailer or x-amz-sdk-checksum-algorithm */
    /* After the end. */
    enum s3_error
        error; /* S3_OK, or why the body is refused; checked before anything is made visible */
    const char *error_text;
    /* Of a digest that is not the body's, as error documents show them; else empty. */
    struct slice digest_expected;
    struct slice digest_calculated;
    uint64_t received;      /* decoded bytes so far */
    uint8_t md5[MD5_BYTES]; /* when `md5` was asked */
    struct checksum_value
        checksums[CHECKSUM_ALGORITHMS]; /* those computed have their algorithm set */
    /* Private. */
    struct http_exchange *http;
    const struct sigv4_result *auth;
    void *state; /* in the arena */
};

/* Where bytes come from, when not from the body as it is: http_body_read() for another place. */
struct payload_source {
    bool (*read)(struct payload_source *source, struct http_read *read, void *to, size_t len);
};

struct payload_options {
    const struct sigv4_result *auth; /* borrowed for the payload's life */
    bool md5;                        /* compute it (ETag); Content-MD5 is verified in any case */
    uint32_t also;       /* mask of checksum algorithms to compute besides the declared one */
    uint64_t length_max; /* more is EntityTooLarge (at once when announced) */
    uint64_t length_min; /* less is EntityTooSmall */
    struct payload_source *source; /* NULL: the body */
};

/* Checks the headers that describe the body. S3_OK or the refusal, before any body byte was asked
 * for (so an Expect: 100-continue client has sent nothing). `payload` lives in the request's arena
 * or struct. */
enum s3_error payload_init(struct payload *payload, struct http_exchange *exchange,
                           const struct payload_options *options, const char **text);
void payload_deinit(struct payload *payload); /* harmless when zeroed */

/* A body that is at hand already (a copied inline object): nothing is verified, digests are made.
 * `bytes` borrowed for the payload's life; length_max and auth of the options are not looked at. */
void payload_init_bytes(struct payload *payload, struct arena *arena, struct slice bytes,
                        const struct payload_options *options);

/* Fills `to` with `len` decoded bytes, or fewer at the end. Returns true when complete at once
 * (done is not called). One at a time; not after the end. */
bool payload_read(struct payload *payload, struct payload_read *read, void *to, size_t len);

#endif
