/* What payload_headers.c finds out about a body and payload.c reads it by. Private to gateway/auth.
 */
#ifndef GATEWAY_AUTH_PAYLOAD_STATE_H
#define GATEWAY_AUTH_PAYLOAD_STATE_H

#include "gateway/auth/aws_chunked.h"
#include "gateway/auth/payload.h"

/* A framing line is under 100 bytes; what of the read behind it is data is copied once. */
enum { PAYLOAD_FRAME_BYTES = 128 };

struct payload_state {
    struct payload *payload;
    struct digest_set digests;
    uint32_t reported; /* mask of checksums the caller sees */
    bool md5;          /* the caller wants it */
    bool has_content_md5;
    uint8_t content_md5[MD5_BYTES];
    uint64_t length_max;
    uint64_t length_min;
    struct payload_source *source;
    bool streaming; /* aws-chunked */
    /* The read under way. */
    struct http_read raw;
    struct payload_read *read;
    char *to;
    size_t to_len;
    bool direct; /* `raw` reads into `to` */
    bool finished;
    /* payload_init_bytes(): what is left of the body. */
    bool from_memory;
    struct slice memory;
    /* Framing read ahead. */
    size_t frame_at;
    size_t frame_len;
    char frame[PAYLOAD_FRAME_BYTES];
    struct aws_chunked chunked; /* streaming */
};

/* Fills payload->has_length, length, algorithm, declared and the state from the headers. */
enum s3_error payload_headers(struct payload *payload, struct payload_state *state,
                              const struct payload_options *options, const char **text);

#endif
