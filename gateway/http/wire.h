/*
 * The bytes between us and one client, plain or TLS: what conn.c and reply.c need of a stream.
 * Keeps env's promises: nothing is called back from inside a call, everything completes once.
 *
 *     plain   try_write ────────────────────────────> kernel            on_read <── kernel
 *     TLS     try_write ─> seal ─> `out` ─> `flight` ─> kernel          on_read <── open <── kernel
 *
 * At most one piece (WIRE_PIECE_BYTES) is sealed ahead of the kernel, so a client that stops
 * reading holds a bounded buffer. Thread: the loop of `env`.
 */
#ifndef GATEWAY_HTTP_WIRE_H
#define GATEWAY_HTTP_WIRE_H

#include <stdbool.h>

#include "common/base/buffer.h"
#include "common/env/env.h"
#include "gateway/http/tls.h"

enum {
    WIRE_PIECE_BYTES = 49152,          /* three TLS records */
    WIRE_SCRATCH_BYTES = 65536 + 16384 /* what one read brings, and a record to be sealed */
};

struct wire {
    /* As env_stream.on_read: the callee takes in all bytes. */
    void (*on_read)(struct wire *wire, struct slice bytes, enum rc rc);
    /* The wire_write() is complete. */
    void (*on_written)(struct wire *wire, enum rc rc);
    void (*on_close)(struct wire *wire); /* memory is free to reuse */
    /* Private. */
    struct env *env;
    struct tls_session *tls; /* NULL: plain */
    struct env_stream stream;
    struct env_write write;        /* of borrowed bytes */
    struct env_write flight_write; /* of our own bytes in `flight` */
    struct buffer out;             /* put or sealed, not yet under way */
    struct buffer flight;
    char *scratch; /* of the loop: for TLS records */
    bool writing;  /* `write` is under way */
    bool flying;   /* `flight_write` is under way */
    bool wanted;   /* on_written is owed */
    bool reading;
    bool shut; /* the end of our writes is asked for */
    bool closing;
    enum rc failed; /* of a write: RC_OK while all is well */
};

/* Accepts the connection that waits at `listener`. The callbacks are set, all else zero. `tls`
 * NULL: plain. `scratch` (WIRE_SCRATCH_BYTES) is shared by the wires of a loop. */
enum rc wire_accept(struct wire *wire, struct env *env, struct env_listener *listener,
                    struct tls_context *tls, char *scratch);
/* False during the TLS handshake: nothing can be written yet. */
bool wire_ready(const struct wire *wire);
void wire_read(struct wire *wire, bool on); /* cheap when nothing changes */
/* Takes what goes without waiting: bytes taken; 0 while busy. At most ENV_WRITE_SLICES_MAX slices.
 */
size_t wire_try_write(struct wire *wire, const struct slice *from, size_t count);
/* After a try_write() that took a part: trying again may succeed. */
bool wire_takes_more(const struct wire *wire);
/* Completes with on_written when these and all earlier bytes are with the kernel; count 0: only
 * waits for the earlier ones. At most WIRE_PIECE_BYTES, borrowed until then. One at a time. */
void wire_write(struct wire *wire, const struct slice *from, size_t count);
/* Copies and sends when it can; the caller bounds it. Not while a wire_write() is under way. */
void wire_put(struct wire *wire, struct slice bytes);
/* Bytes are on their way to the kernel: try_write() takes nothing. */
bool wire_busy(const struct wire *wire);
void wire_shutdown(struct wire *wire); /* after what is under way: end of our writes */
void wire_close(struct wire *wire);    /* once; ends with on_close */

#endif
