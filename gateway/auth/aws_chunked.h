/*
 * The framing of aws-chunked bodies (AWS: "Signature calculations: transferring payload in multiple
 * chunks"), signed or not, with or without trailers. Holds no data bytes: the caller reads those
 * straight into their place and shows them here. Byte by byte or all at once makes no difference.
 *
 *     SIZE line -> data -> empty line -> SIZE line -> ... -> "0" SIZE line -> trailer lines ->
 * empty line
 */
#ifndef GATEWAY_AUTH_AWS_CHUNKED_H
#define GATEWAY_AUTH_AWS_CHUNKED_H

#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "gateway/auth/sigv4.h"

enum aws_chunked_state {
    AWS_CHUNKED_SIZE = 0, /* a line with the size, perhaps a signature */
    AWS_CHUNKED_DATA,     /* data_left bytes */
    AWS_CHUNKED_DATA_END, /* the empty line behind them */
    AWS_CHUNKED_TRAILER,  /* lines up to an empty one */
    AWS_CHUNKED_END
};

struct aws_chunked {
    enum aws_chunked_state state;
    uint64_t data_left;  /* of the current chunk */
    uint64_t total_left; /* of the decoded body: sizes that exceed it are refused */
    /* The one trailer that may come, in lower case; empty: none. */
    struct slice trailer_name;
    bool trailer_seen;
    size_t trailer_value_len;
    char trailer_value[128];
    const char *error_text; /* replaces the message of the error that was returned */
    /* Private. */
    const struct sigv4_result *auth;
    struct sha256_hash hash; /* of the current chunk, or of the trailers */
    char previous[64];
    char claimed[64]; /* signature of the current chunk, or of the trailers */
    bool trailer_signed;
    bool small_chunk; /* the last one was: another may not follow */
    size_t line_len;
    size_t trailer_bytes;
    char line[LIMIT_CHUNK_HEADER_BYTES];
};

/* `auth->mode` is one of the three streaming forms; `trailer_name` and `auth` are borrowed. */
void aws_chunked_init(struct aws_chunked *chunked, const struct sigv4_result *auth,
                      uint64_t decoded_length, struct slice trailer_name);

/* Takes framing (never in state DATA) up to the next data byte or the end; `*used` bytes of `bytes`
 * were taken. S3_OK, or why the body is refused. */
enum s3_error aws_chunked_frame(struct aws_chunked *chunked, struct slice bytes, size_t *used);

/* The next bytes of data, at most data_left. At the end of a signed chunk its signature is
 * verified. */
enum s3_error aws_chunked_data(struct aws_chunked *chunked, struct slice bytes);

#endif
