/*
 * Takes a request's body out of the bytes that come from the client: by Content-Length or chunked
 * (RFC 9112 7.1). Holds no bytes: what it does not take stays with the caller. Any thread.
 */
#ifndef GATEWAY_HTTP_BODY_H
#define GATEWAY_HTTP_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"
#include "gateway/http/http.h"

enum body_result {
    BODY_MORE = 0, /* all of `in` is taken and the body is not at its end */
    BODY_DATA,     /* `*got` bytes were put out */
    BODY_END,      /* nothing is left; `in` begins with what follows the body */
    BODY_BAD       /* the framing is broken; the connection must close */
};

struct body {
    uint64_t remaining; /* of the body, or of the current chunk */
    /* Private. */
    uint32_t state;
    uint32_t line_bytes;  /* of the current size line or trailer line */
    uint64_t extra_bytes; /* extensions and trailers so far */
    bool chunked;
    bool colon; /* the current trailer line has one */
};

void body_init(struct body *body, const struct http_request *request);
/* Nothing more will come. */
bool body_ended(const struct body *body);
/* Takes from the front of `*in` until `to` (len > 0) is full, `in` is empty or the body ends. `to`
 * NULL: throws away up to `len` bytes. */
enum body_result body_take(struct body *body, struct slice *in, void *to, size_t len, size_t *got);

#endif
