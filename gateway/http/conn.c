/*
 * One client connection: what arrives, which state follows, how long it may take. Replies are in
 * reply.c.
 *
 * Bounds: at most one read (LIMIT_HTTP_READ_BYTES) of bytes that nobody asked for is held, then
 * reading stops until they are used; heads are bounded by head_scan(); replies are borrowed from
 * the handler or small. Requests of one client are served in order, one at a time.
 *
 * Time: one timer, moved lazily. A deadline that moves later costs nothing; the timer finds out
 * when it fires.
 */
#include "gateway/http/conn.h"

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/metrics/metrics.h"

/* ---- Time ---- */

static void conn_arm(struct conn *conn, uint64_t now)
{
    struct env *env = conn->server->env;

    if (conn->armed_ns == 0 || conn->deadline_ns < conn->armed_ns) {
        conn->armed_ns = conn->deadline_ns;
        env->clock->timer_start(env, &conn->timer,
                                conn->deadline_ns > now ? conn->deadline_ns - now : 0);
    }
}

static void conn_deadline_at(struct conn *conn, uint64_t from_ns, uint64_t timeout_ms, uint64_t now)
{
    conn->deadline_ns = from_ns + timeout_ms * 1000000;
    conn_arm(conn, now);
}

void conn_deadline(struct conn *conn, uint64_t timeout_ms)
{
    struct env *env = conn->server->env;
    uint64_t now = env->clock->mono_ns(env);

    conn_deadline_at(conn, now, timeout_ms, now);
}

void conn_no_deadline(struct conn *conn)
{
    conn->deadline_ns = 0;
}

enum {
    /* A client that sends so much within body_timeout_ms is slow, not stopped (as in reply.c for
     * one that reads). One byte now and then must not hold a request for ever. */
    BODY_PACE_BYTES = 16384
};

void conn_body_wait(struct conn *conn)
{
    struct env *env = conn->server->env;
    uint64_t timeout_ns = conn->server->options.body_timeout_ms * 1000000;
    uint64_t left_ns = timeout_ns > conn->slow_wait_ns ? timeout_ns - conn->slow_wait_ns : 0;

    if (conn->slow_from_ns == 0) {
        uint64_t now = env->clock->mono_ns(env);

        conn->slow_from_ns = now;
        conn->deadline_ns = now + left_ns;
        conn_arm(conn, now);
    }
}

void conn_body_got(struct conn *conn, size_t len)
{
    struct env *env = conn->server->env;

    if (conn->slow_from_ns != 0) {
        conn->slow_wait_ns += env->clock->mono_ns(env) - conn->slow_from_ns;
        conn->slow_from_ns = 0;
    }
    conn->slow_bytes += len;
    if (conn->slow_bytes >= BODY_PACE_BYTES) {
        conn->slow_bytes = 0;
        conn->slow_wait_ns = 0;
    }
}

/* ---- Giving up ---- */

static void read_complete(struct conn *conn, enum rc rc, size_t len)
{
    struct http_read *read = conn->read;

    conn->read = NULL;
    read->rc = rc;
    read->len = len;
    read->done(read);
}

static void conn_tell_hangup(struct conn *conn)
{
    if (conn->active && !conn->hangup_told) {
        conn->hangup_told = true;
        if (conn->exchange.on_hangup != NULL) {
            conn->exchange.on_hangup(&conn->exchange);
        }
    }
}

void conn_fail(struct conn *conn, enum rc rc, bool tell)
{
    struct env *env = conn->server->env;

    if (conn->state == CONN_CLOSED) {
        return;
    }
    conn->state = CONN_CLOSED;
    conn->failed = rc;
    conn->body_failed = true;
    conn->body_rc = rc;
    conn->in = SLICE_EMPTY;
    conn->deadline_ns = 0;
    conn->armed_ns = 0;
    env->clock->timer_stop(env, &conn->timer);
    wire_close(&conn->wire);
    if (tell) {
        conn_tell_hangup(conn);
    }
}

void conn_cut(struct conn *conn, enum rc rc)
{
    conn_enter(conn);
    conn_fail(conn, rc, true);
    if (conn->read != NULL) {
        read_complete(conn, rc, 0);
    }
    conn_leave(conn);
}

static void conn_free(struct conn *conn)
{
    struct http_server *server = conn->server;

    list_remove(&conn->link);
    arena_deinit(&conn->arena);
    buffer_deinit(&conn->held);
    buffer_deinit(&conn->head);
    mem_free(conn);
    metric_gauge_add(METRIC_CONNECTIONS, -1);
    server_conn_gone(server);
}

/* ---- The head ---- */

/* One empty line before a request is passed over (RFC 9112 2.2). False: the next byte decides. */
static bool head_skip_blank(struct conn *conn)
{
    if (conn->blank_skipped || conn->scan.at > 0 || conn->in.len == 0 || conn->in.data[0] != '\r') {
        return true;
    }
    if (conn->in.len == 1) {
        return false;
    }
    if (conn->in.data[1] == '\n') {
        conn->in = slice_after(conn->in, 2);
        conn->blank_skipped = true;
    }
    return true;
}

static void exchange_begin(struct conn *conn)
{
    struct http_exchange *exchange = &conn->exchange;

    exchange->started_ns = conn->started_ns;
    exchange->on_hangup = NULL;
    exchange->user = NULL;
    exchange->status = 0;
    exchange->sent_bytes = 0;
    body_init(&conn->body, &exchange->request);
    conn->active = true;
    conn->reply_started = false;
    conn->reply_bytes = 0;
    conn->discarded_bytes = 0;
    conn->body_failed = false;
    conn->hangup_told = false;
    conn->continue_due = exchange->request.expect_continue;
    conn->close_after = !exchange->request.keep_alive;
    conn->state = CONN_EXCHANGE;
    conn_no_deadline(conn);
    conn->server->options.on_request(conn->server, exchange);
}

static void head_wait(struct conn *conn)
{
    const struct http_options *options = &conn->server->options;
    struct env *env = conn->server->env;

    if (conn->in.len > 0 && conn->started_ns == 0) {
        uint64_t now = env->clock->mono_ns(env);

        conn->started_ns = now;
        conn_deadline_at(conn, now, options->header_timeout_ms, now);
    }
    if (conn->eof || (conn->server->draining && conn->in.len == 0)) {
        conn_fail(conn, RC_CLOSED, false);
    }
}

/* True when the state has changed. */
static bool conn_step_head(struct conn *conn)
{
    struct env *env = conn->server->env;
    int status = 0;
    size_t len = 0;

    if (conn->in.len > 0 && head_skip_blank(conn)) {
        len = head_scan(&conn->scan, conn->in, &status);
    }
    if (len == 0 && status == 0) {
        head_wait(conn);
        return false;
    }
    if (conn->started_ns == 0) {
        conn->started_ns = env->clock->mono_ns(env);
    }
    if (status == 0) {
        status = head_parse(slice_of(conn->in.data, len), conn->scan.lines, &conn->arena,
                            &conn->exchange.request);
    }
    if (status != 0) {
        conn->in = SLICE_EMPTY;
        conn->body_failed = true;
        reply_refuse(conn, status);
        return true;
    }
    conn->in = slice_after(conn->in, len);
    exchange_begin(conn);
    return true;
}

/* ---- After the reply ---- */

static void conn_linger(struct conn *conn)
{
    conn->discarded_bytes = 0;
    if (conn->eof) {
        conn_fail(conn, RC_CLOSED, false);
        return;
    }
    conn->state = CONN_LINGER;
    wire_shutdown(&conn->wire);
    conn_deadline(conn, LINGER_MS);
}

static void conn_next_head(struct conn *conn)
{
    conn->state = CONN_HEAD;
    conn->scan = (struct head_scan){0};
    conn->started_ns = 0;
    conn->slow_wait_ns = 0;
    conn->slow_from_ns = 0;
    conn->slow_bytes = 0;
    conn->blank_skipped = false;
    conn_deadline(conn, conn->server->options.idle_timeout_ms);
}

void conn_replied(struct conn *conn)
{
    ASSERT(!conn->active && conn->read == NULL && conn->write == NULL);
    if (wire_busy(&conn->wire)) {
        if (conn->state != CONN_ENDING) {
            conn->state = CONN_ENDING;
            conn_deadline(conn, conn->server->options.body_timeout_ms);
            wire_write(&conn->wire, NULL, 0);
        }
        return;
    }
    if (conn->close_after || conn->eof || conn->body_failed || conn->server->draining) {
        conn_linger(conn);
    } else if (body_ended(&conn->body)) {
        conn_next_head(conn);
    } else {
        conn->state = CONN_DRAIN;
        conn_deadline(conn, conn->server->options.body_timeout_ms);
    }
}

static bool conn_step_drain(struct conn *conn)
{
    size_t got = 0;
    enum body_result result = BODY_MORE;

    while (conn->in.len > 0 && conn->discarded_bytes <= DRAIN_BYTES_MAX) {
        result = body_take(&conn->body, &conn->in, NULL, conn->in.len, &got);
        conn->discarded_bytes += got;
        if (result != BODY_DATA) {
            break;
        }
    }
    if (result == BODY_BAD || conn->discarded_bytes > DRAIN_BYTES_MAX || conn->eof) {
        conn->in = SLICE_EMPTY;
        conn_linger(conn);
        return true;
    }
    if (body_ended(&conn->body)) {
        conn_next_head(conn);
        return true;
    }
    return false;
}

static bool conn_step_linger(struct conn *conn)
{
    conn->discarded_bytes += conn->in.len;
    conn->in = SLICE_EMPTY;
    if (conn->eof || conn->discarded_bytes > LINGER_BYTES_MAX) {
        conn_fail(conn, RC_CLOSED, false);
    }
    return false;
}

/* ---- One turn ---- */

static bool conn_step(struct conn *conn)
{
    switch (conn->state) {
    case CONN_HEAD:
        return conn_step_head(conn);
    case CONN_DRAIN:
        return conn_step_drain(conn);
    case CONN_LINGER:
        return conn_step_linger(conn);
    case CONN_EXCHANGE:
    case CONN_ENDING:
    case CONN_CLOSED:
        break;
    }
    return false;
}

/* Unread bytes that came with this read are kept; memory that is not needed goes back. */
static void conn_keep(struct conn *conn)
{
    if (conn->in.len == 0) {
        conn->in = SLICE_EMPTY;
        if (conn->held.capacity > HELD_BYTES_KEPT) {
            buffer_deinit(&conn->held);
        } else {
            buffer_clear(&conn->held);
        }
    } else if (conn->in_borrowed) {
        buffer_clear(&conn->held);
        buffer_append(&conn->held, conn->in);
        conn->in = buffer_slice(&conn->held);
    }
    conn->in_borrowed = false;
}

static bool conn_wants_bytes(const struct conn *conn)
{
    switch (conn->state) {
    case CONN_HEAD:
    case CONN_DRAIN:
    case CONN_LINGER:
        return !conn->eof;
    case CONN_EXCHANGE: /* also to see that the client hangs up */
    case CONN_ENDING:
        return !conn->eof && conn->in.len == 0;
    case CONN_CLOSED:
        break;
    }
    return false;
}

void conn_enter(struct conn *conn)
{
    conn->depth += 1;
}

void conn_leave(struct conn *conn)
{
    ASSERT(conn->depth > 0);
    if (conn->depth > 1) {
        conn->depth -= 1;
        return;
    }
    while (conn_step(conn)) {
        /* The arena of a request that has ended is reset only here: its handler may be among our
         * callers until now. */
        if (!conn->active && conn->write == NULL && conn->read == NULL) {
            arena_reset(&conn->arena);
        }
    }
    if (!conn->active && conn->write == NULL && conn->read == NULL) {
        arena_reset(&conn->arena);
    }
    conn_keep(conn);
    wire_read(&conn->wire, conn_wants_bytes(conn));
    conn->depth -= 1;
    if (conn->wire_closed && !conn->active && conn->write == NULL && conn->read == NULL) {
        conn_free(conn);
    }
}

/* ---- What happens ---- */

static void conn_take_in(struct conn *conn, struct slice bytes)
{
    if (conn->in.len == 0) {
        conn->in = bytes;
        conn->in_borrowed = true;
        return;
    }
    /* `in` is the rest of `held`. */
    buffer_consume(&conn->held, conn->held.len - conn->in.len);
    buffer_append(&conn->held, bytes);
    conn->in = buffer_slice(&conn->held);
}

/* A handler waits for body bytes, and some may have come. */
static void conn_feed_read(struct conn *conn)
{
    size_t got = 0;

    switch (body_take(&conn->body, &conn->in, conn->read->to, conn->read->to_len, &got)) {
    case BODY_DATA:
    case BODY_END:
        conn_body_got(conn, got);
        conn_no_deadline(conn);
        read_complete(conn, RC_OK, got);
        break;
    case BODY_BAD:
        conn_no_deadline(conn);
        conn->body_failed = true;
        conn->body_rc = RC_CLOSED;
        conn->close_after = true;
        conn->in = SLICE_EMPTY;
        read_complete(conn, RC_CLOSED, 0);
        break;
    case BODY_MORE:
        conn_body_wait(conn);
        break;
    }
}

/* The client has ended its side. A reply under way may still reach it, if the handler goes on. */
static void conn_on_eof(struct conn *conn)
{
    conn->eof = true;
    if (!body_ended(&conn->body)) {
        conn->body_failed = true;
        conn->body_rc = RC_CLOSED;
    }
    conn_tell_hangup(conn);
    if (conn->read != NULL) {
        read_complete(conn, RC_CLOSED, 0);
    }
}

static void on_read(struct wire *wire, struct slice bytes, enum rc rc)
{
    struct conn *conn = CONTAINER_OF(wire, struct conn, wire);

    if (conn->state == CONN_CLOSED) {
        return;
    }
    conn_enter(conn);
    if (rc == RC_OK) {
        conn_take_in(conn, bytes);
        if (conn->read != NULL) {
            conn_feed_read(conn);
        }
    } else if (rc == RC_CLOSED) {
        conn_on_eof(conn);
    } else {
        conn_cut(conn, RC_CLOSED);
    }
    conn_leave(conn);
}

static void on_written(struct wire *wire, enum rc rc)
{
    struct conn *conn = CONTAINER_OF(wire, struct conn, wire);

    conn_enter(conn);
    if (conn->write != NULL) {
        reply_on_written(conn, rc);
    } else if (conn->state == CONN_ENDING) {
        if (rc != RC_OK) {
            conn_fail(conn, RC_CLOSED, false);
        } else {
            conn_replied(conn);
        }
    }
    conn_leave(conn);
}

static void on_close(struct wire *wire)
{
    struct conn *conn = CONTAINER_OF(wire, struct conn, wire);

    conn_enter(conn);
    conn->wire_closed = true;
    if (conn->read != NULL) { /* the handler aborted while it waited */
        read_complete(conn, conn->failed, 0);
    }
    conn_leave(conn);
}

void conn_time_out(struct conn *conn)
{
    if (conn->write != NULL) {
        conn_cut(conn, RC_TIMEOUT);
    } else if (conn->read != NULL) {
        conn->body_failed = true;
        conn->body_rc = RC_TIMEOUT;
        conn->close_after = true;
        conn_no_deadline(conn);
        read_complete(conn, RC_TIMEOUT, 0);
    }
}

/* Nothing moved for too long. */
static void conn_on_deadline(struct conn *conn)
{
    switch (conn->state) {
    case CONN_HEAD:
        if (conn->started_ns == 0 || !wire_ready(&conn->wire)) {
            conn_fail(conn, RC_TIMEOUT, false);
        } else {
            conn->in = SLICE_EMPTY;
            conn->body_failed = true;
            reply_refuse(conn, 408);
        }
        break;
    case CONN_EXCHANGE:
        conn_time_out(conn);
        break;
    case CONN_ENDING:
    case CONN_DRAIN:
    case CONN_LINGER:
        conn_fail(conn, RC_TIMEOUT, false);
        break;
    case CONN_CLOSED:
        break;
    }
}

static void on_timer(struct env_timer *timer)
{
    struct conn *conn = CONTAINER_OF(timer, struct conn, timer);
    struct env *env = conn->server->env;
    uint64_t now = env->clock->mono_ns(env);

    conn->armed_ns = 0;
    if (conn->deadline_ns == 0) {
        return;
    }
    if (now < conn->deadline_ns) {
        conn_arm(conn, now);
        return;
    }
    conn->deadline_ns = 0;
    conn_enter(conn);
    conn_on_deadline(conn);
    conn_leave(conn);
}

void conn_close_idle(struct conn *conn)
{
    conn_enter(conn); /* the step sees that the server drains */
    conn_leave(conn);
}

/* Too many connections: told as long as even the refused ones are few. */
static void conn_refuse_full(struct conn *conn)
{
    const struct http_server *server = conn->server;

    conn->body_failed = true;
    reply_refuse(conn, 503);
    if (server->conn_count > server->options.connections_max + REFUSED_MAX) {
        conn_fail(conn, RC_BUSY, false);
    }
}

enum rc conn_accept(struct http_server *server)
{
    struct conn *conn = mem_alloc(sizeof(*conn));
    const struct http_options *options = &server->options;
    enum rc rc;

    conn->server = server;
    conn->wire.on_read = on_read;
    conn->wire.on_written = on_written;
    conn->wire.on_close = on_close;
    conn->timer.fire = on_timer;
    rc = wire_accept(&conn->wire, server->env, &server->listener, options->tls, server->scratch);
    if (rc != RC_OK) {
        mem_free(conn);
        return rc;
    }
    arena_init(&conn->arena);
    buffer_init(&conn->held);
    buffer_init(&conn->head);
    conn->exchange.arena = &conn->arena;
    conn->exchange.env = server->env;
    conn->exchange.is_tls = options->tls != NULL;
    server->env->net->peer_address(server->env, &conn->wire.stream, conn->exchange.peer);
    list_push_back(&server->conns, &conn->link);
    server->conn_count += 1;
    metric_gauge_add(METRIC_CONNECTIONS, 1);
    metric_add(METRIC_CONNECTIONS_ALL, 0, 1);
    conn_enter(conn);
    conn_deadline(conn,
                  options->tls != NULL ? options->header_timeout_ms : options->idle_timeout_ms);
    if (server->conn_count > options->connections_max) {
        conn_refuse_full(conn);
    }
    conn_leave(conn);
    return RC_OK;
}
