/*
 * The bytes of a form's file, as a payload reads them: from the body, up to the delimiter behind
 * them. What follows is left to the connection.
 */
#ifndef GATEWAY_WEB_FORM_SOURCE_H
#define GATEWAY_WEB_FORM_SOURCE_H

#include "gateway/auth/payload.h"

struct form_source {
    struct payload_source base;
    /* Private. */
    struct http_exchange *http;
    struct slice delimiter;
    char *window;
    size_t from; /* unread bytes of the window: from .. len */
    size_t len;
    size_t capacity;
    bool body_ended;
    enum rc rc; /* of the body */
    struct http_read raw;
    struct http_read *waiting;
};

/* `begin`: what has come of the file already (copied). `delimiter` is borrowed. */
void form_source_init(struct form_source *source, struct http_exchange *http, struct slice begin,
                      struct slice delimiter);
/* How many bytes of `bytes` are surely the file's; `*ends`: the delimiter follows them. */
size_t form_source_safe(struct slice bytes, struct slice delimiter, bool *ends);

#endif
