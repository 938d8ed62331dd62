/*
 * gateway/http as scripted by a test: a body that comes in pieces of any size, at once or later,
 * and a client that takes the reply at once or later. Defines the functions of http.h themselves,
 * so the program that includes it must not need the real connection.
 */
#ifndef TESTS_UNIT_GATEWAY_FAKE_HTTP_H
#define TESTS_UNIT_GATEWAY_FAKE_HTTP_H

#include <string.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "gateway/http/http.h"

struct fake_http {
    struct http_exchange exchange;
    struct arena arena;
    /* Script of the body. */
    struct slice body;
    size_t step; /* bytes of one read at most; 0: as many as asked */
    size_t body_at;
    bool later;  /* reads complete in fake_http_run() */
    bool cut;    /* the client hangs up where the body ends */
    bool repeat; /* the body's bytes over and over, `body_bytes` in all */
    uint64_t body_bytes;
    uint64_t given;
    struct http_read *reading;
    size_t reading_len;
    void *reading_to;
    /* The reply. */
    struct buffer reply;
    bool reply_later;
    struct http_write *writing;
    uint64_t reply_bytes;
};

static inline void fake_http_init(struct fake_http *fake)
{
    memset(fake, 0, sizeof(*fake));
    arena_init(&fake->arena);
    buffer_init(&fake->reply);
    fake->exchange.arena = &fake->arena;
}

static inline void fake_http_deinit(struct fake_http *fake)
{
    arena_deinit(&fake->arena);
    buffer_deinit(&fake->reply);
}

static inline void fake_http_fill(struct fake_http *fake, struct http_read *read, void *to,
                                  size_t len)
{
    uint64_t total = fake->repeat ? fake->body_bytes : fake->body.len;
    uint64_t left = total - fake->given;

    if (fake->step > 0 && len > fake->step) {
        len = fake->step;
    }
    if (len > left) {
        len = (size_t)left;
    }
    for (size_t done = 0; done < len;) {
        size_t part = fake->body.len - fake->body_at;

        part = part < len - done ? part : len - done;
        memcpy((char *)to + done, fake->body.data + fake->body_at, part);
        done += part;
        fake->body_at = (fake->body_at + part) % fake->body.len;
    }
    fake->given += len;
    read->len = len;
    read->rc = len == 0 && fake->cut ? RC_CLOSED : RC_OK;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
 * the linker makes these names. */
bool __wrap_http_body_read(struct http_exchange *exchange, struct http_read *read, void *to,
                           size_t len);
bool __wrap_http_reply_write(struct http_exchange *exchange, struct http_write *write,
                             const struct slice *from, size_t count);

bool __wrap_http_body_read(struct http_exchange *exchange, struct http_read *read, void *to,
                           size_t len)
{
    struct fake_http *fake = CONTAINER_OF(exchange, struct fake_http, exchange);

    ASSERT(len > 0);
    ASSERT(fake->reading == NULL);
    if (!fake->later) {
        fake_http_fill(fake, read, to, len);
        return true;
    }
    fake->reading = read;
    fake->reading_to = to;
    fake->reading_len = len;
    return false;
}

bool __wrap_http_reply_write(struct http_exchange *exchange, struct http_write *write,
                             const struct slice *from, size_t count)
{
    struct fake_http *fake = CONTAINER_OF(exchange, struct fake_http, exchange);

    ASSERT(fake->writing == NULL);
    for (size_t i = 0; i < count; i++) {
        buffer_append(&fake->reply, from[i]);
        fake->reply_bytes += from[i].len;
    }
    write->rc = fake->cut ? RC_CLOSED : RC_OK;
    if (fake->reply_later) {
        fake->writing = write;
    }
    return !fake->reply_later;
}

/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
 */

/* Completes what waits; false when nothing did. */
static inline bool fake_http_run(struct fake_http *fake)
{
    struct http_read *read = fake->reading;
    struct http_write *write = fake->writing;

    fake->reading = NULL;
    fake->writing = NULL;
    if (read != NULL) {
        fake_http_fill(fake, read, fake->reading_to, fake->reading_len);
        read->done(read);
    }
    if (write != NULL) {
        write->done(write);
    }
    return read != NULL || write != NULL;
}

#endif
