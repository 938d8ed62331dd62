/*
 * One client connection and the server it belongs to: shared by conn.c (reading, states, time),
 * reply.c (what handlers call) and server.c. Not for other folders: those use http.h.
 *
 *              head complete            reply ends               flushed, body unread
 *     HEAD ──────────────────> EXCHANGE ──────────> ENDING ─────────────────────────> DRAIN ──>
 * HEAD │ refused                   │ handler aborts   │ flushed, body read, keep-alive ──────> HEAD
 *      └──────> ENDING             v                  │ flushed, close
 *                                CLOSED <── LINGER <──┘          (any state: reset, timeout ->
 * CLOSED)
 */
#ifndef GATEWAY_HTTP_CONN_H
#define GATEWAY_HTTP_CONN_H

#include "common/base/assert.h"
#include "common/base/list.h"
#include "gateway/http/body.h"
#include "gateway/http/http.h"
#include "gateway/http/parser.h"
#include "gateway/http/response.h"
#include "gateway/http/wire.h"

enum {
    /* Slices of one http_reply_write(): a row of shards and some framing. */
    REPLY_SLICES_MAX = 32,
    /* An unread body up to this is drained to keep the connection. */
    DRAIN_BYTES_MAX = 256 * 1024,
    /* While closing, what the client still sends is thrown away for a while, so that our reply is
     * not lost to the reset that unread bytes cause (RFC 9112 9.6). */
    LINGER_BYTES_MAX = 16 * 1024 * 1024,
    LINGER_MS = 2000,
    /* Connections beyond the bound that may linger after their 503. */
    REFUSED_MAX = 256,
    /* A buffer of unread bytes up to this is kept by an idle connection. */
    HELD_BYTES_KEPT = 4096
};

enum conn_state {
    CONN_HEAD = 0, /* waits for a request, or for the rest of its head */
    CONN_EXCHANGE, /* a handler has it */
    CONN_ENDING,   /* the reply is ended; its last bytes are on their way */
    CONN_DRAIN,    /* the reply is out; the rest of the request's body is thrown away */
    CONN_LINGER,   /* our side is shut; waits for the client to end its side */
    CONN_CLOSED    /* the wire is closing or closed */
};

/* Slices on their way out, and which of them are body. */
struct out {
    struct slice slices[REPLY_SLICES_MAX + 3];
    uint32_t at;
    uint32_t count;
    uint32_t body_from;
    uint32_t body_to;
    size_t piece_bytes; /* of the wire_write() under way */
    char chunk_line[20];
};

struct conn {
    struct list link; /* server->conns */
    struct http_server *server;
    struct wire wire;
    enum conn_state state;
    uint32_t depth; /* of conn_enter() */

    /* Unread bytes: `in` lies in `held`, or, during on_read, in what just came. */
    struct slice in;
    struct buffer held;
    bool in_borrowed;

    struct head_scan scan;
    uint64_t started_ns; /* first byte of the current head; 0: none yet */
    bool blank_skipped;  /* an empty line before the head */
    struct arena arena;
    struct http_exchange exchange;
    struct body body;
    struct http_read *read;   /* waiting */
    uint64_t slow_wait_ns;    /* waited for body bytes since the last BODY_PACE_BYTES of them */
    uint64_t slow_from_ns;    /* this wait began; 0: none */
    uint64_t slow_bytes;      /* what came since */
    struct http_write *write; /* waiting */

    struct buffer head; /* of the reply, until it goes out with the first body bytes */
    struct out out;
    int64_t reply_length;
    uint64_t reply_bytes; /* body bytes taken from the handler */
    uint64_t discarded_bytes;

    bool active; /* the handler has not ended the exchange */
    bool reply_started;
    bool reply_chunked;
    bool reply_bodiless;
    bool continue_due; /* the client waits for 100 Continue */
    bool close_after;
    bool body_failed; /* broken framing, or the client stopped sending */
    enum rc body_rc;  /* then: why */
    bool eof;         /* the client ended its side */
    bool hangup_told;
    bool wire_closed;
    enum rc failed; /* the connection was given up: RC_CLOSED, RC_TIMEOUT */

    struct env_timer timer;
    uint64_t deadline_ns; /* 0: none */
    uint64_t armed_ns;    /* when the timer fires; 0: not running */
};

struct http_server {
    struct env *env;
    struct http_options options;
    struct env_listener listener;
    struct list conns;
    uint32_t conn_count;
    struct http_date date;
    char *scratch; /* see wire.h */
    bool draining;
    bool listener_closed;
    struct env_timer drain_timer;
    void (*on_closed)(struct http_server *server);
    char address[ENV_ADDRESS_MAX];
};

/* Accepts the waiting connection; on failure nothing is left behind. */
enum rc conn_accept(struct http_server *server);
/* Bracket every entry from outside; the outermost leave goes on with what can be done, and may free
 * the connection. */
void conn_enter(struct conn *conn);
void conn_leave(struct conn *conn);
/* The connection is given up. `tell`: the handler did not ask for it. */
void conn_fail(struct conn *conn, enum rc rc, bool tell);
/* The time of the read or write under way is over. */
void conn_time_out(struct conn *conn);
/* As conn_fail() by us or by the client, and what the handler waits for is answered. */
void conn_cut(struct conn *conn, enum rc rc);
/* No byte may be missing for longer than this from now. */
void conn_deadline(struct conn *conn, uint64_t timeout_ms);
/* A wait for body bytes: the time goes on from the waits before, until BODY_PACE_BYTES have come.
 */
void conn_body_wait(struct conn *conn);
void conn_body_got(struct conn *conn, size_t len);
void conn_no_deadline(struct conn *conn);
/* The reply is complete: everything is with the wire. */
void conn_replied(struct conn *conn);
/* Closes if no request is under way: for the end of the server. */
void conn_close_idle(struct conn *conn);

/* server.c: a connection is gone. */
void server_conn_gone(struct http_server *server);

/* reply.c: goes on after wire_write(). */
void reply_on_written(struct conn *conn, enum rc rc);
/* Replies to a head that cannot be served, and closes. */
void reply_refuse(struct conn *conn, int status);

static inline struct conn *conn_of(struct http_exchange *exchange)
{
    return CONTAINER_OF(exchange, struct conn, exchange);
}

#endif
