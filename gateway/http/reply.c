/*
 * What handlers call: bodies in, replies out.
 *
 *     http_reply_start   head formatted, kept
 *     http_reply_write   head + framing + body in one system call; the rest in pieces, each with
 * its own time, so that a slow client is told from a stopped one http_reply_end     the last bytes,
 * copied when they must wait
 *
 * Every completion that was promised comes, also after the connection failed; until then the
 * exchange's arena stays.
 */
#include <assert.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/metrics/metrics.h"
#include "gateway/http/conn.h"

enum {
    /* A client that takes so much within body_timeout_ms is slow, not stopped. What the kernel
     * takes beyond it goes along without waiting. */
    WAIT_PIECE_BYTES = 16384
};

static_assert((int)WAIT_PIECE_BYTES <= (int)WIRE_PIECE_BYTES, "one wire_write()");

#define CONTINUE_LINE SLICE("HTTP/1.1 100 Continue\r\n\r\n")

/* ---- Bodies in ---- */

static void send_continue(struct conn *conn)
{
    conn->continue_due = false;
    wire_put(&conn->wire, CONTINUE_LINE);
}

static void read_answer(struct http_read *read, enum rc rc, size_t len)
{
    read->rc = rc;
    read->len = len;
}

/* True: `read` has its answer. */
static bool read_now(struct conn *conn, struct http_read *read, void *to, size_t len)
{
    size_t got = 0;

    if (conn->body_failed) {
        read_answer(read, conn->body_rc, 0);
        return true;
    }
    switch (body_take(&conn->body, &conn->in, to, len, &got)) {
    case BODY_DATA:
        conn_body_got(conn, got);
        conn->continue_due = false; /* it did not wait */
        read_answer(read, RC_OK, got);
        return true;
    case BODY_END:
        read_answer(read, RC_OK, got);
        return true;
    case BODY_BAD:
        conn->body_failed = true;
        conn->body_rc = RC_CLOSED;
        conn->close_after = true;
        conn->in = SLICE_EMPTY;
        read_answer(read, RC_CLOSED, 0);
        return true;
    case BODY_MORE:
        break;
    }
    return false;
}

bool http_body_read(struct http_exchange *exchange, struct http_read *read, void *to, size_t len)
{
    struct conn *conn = conn_of(exchange);
    bool answered;

    ASSERT(conn->active && conn->read == NULL);
    ASSERT(len > 0 && read->done != NULL);
    conn_enter(conn);
    answered = read_now(conn, read, to, len);
    if (!answered) {
        read->to = to;
        read->to_len = len;
        conn->read = read;
        if (conn->continue_due) {
            send_continue(conn);
        }
        conn_body_wait(conn);
    }
    conn_leave(conn);
    return answered;
}

/* ---- Bytes out ---- */

static void out_push(struct out *out, struct slice bytes)
{
    if (bytes.len > 0) {
        ASSERT(out->count < ARRAY_LEN(out->slices));
        out->slices[out->count] = bytes;
        out->count += 1;
    }
}

static size_t slices_total(const struct slice *from, size_t count)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++) {
        ASSERT(from[i].len <= SIZE_MAX / 2 - total);
        total += from[i].len;
    }
    return total;
}

/* Head (if it waits), framing, body. `end` adds what ends a chunked body. */
static void out_fill(struct conn *conn, const struct slice *from, size_t count, size_t total,
                     bool end)
{
    struct out *out = &conn->out;

    out->at = 0;
    out->count = 0;
    out_push(out, buffer_slice(&conn->head));
    if (conn->reply_chunked && total > 0) {
        int len = snprintf(out->chunk_line, sizeof(out->chunk_line), "%zx\r\n", total);

        ASSERT(len > 0 && (size_t)len < sizeof(out->chunk_line));
        out_push(out, slice_of(out->chunk_line, (size_t)len));
    }
    out->body_from = out->count;
    for (size_t i = 0; i < count; i++) {
        out_push(out, from[i]);
    }
    out->body_to = out->count;
    if (conn->reply_chunked && total > 0) {
        out_push(out, SLICE("\r\n"));
    }
    if (conn->reply_chunked && end) {
        out_push(out, SLICE("0\r\n\r\n"));
    }
}

static void out_advance(struct conn *conn, size_t taken)
{
    struct out *out = &conn->out;

    while (taken > 0) {
        struct slice *slice = &out->slices[out->at];
        size_t step = taken < slice->len ? taken : slice->len;

        ASSERT(out->at < out->count);
        if (out->at >= out->body_from && out->at < out->body_to) {
            conn->exchange.sent_bytes += step;
            metric_add(METRIC_SENT_BYTES, 0, step);
        }
        *slice = slice_after(*slice, step);
        taken -= step;
        out->at += slice->len == 0 ? 1 : 0;
    }
}

/* Hands over what goes without waiting. True: everything. */
static bool out_try(struct conn *conn)
{
    struct out *out = &conn->out;

    while (out->at < out->count) {
        uint32_t left = out->count - out->at;
        uint32_t count = left < ENV_WRITE_SLICES_MAX ? left : ENV_WRITE_SLICES_MAX;
        size_t total = slices_total(out->slices + out->at, count);
        size_t taken = wire_try_write(&conn->wire, out->slices + out->at, count);

        ASSERT(taken <= total);
        out_advance(conn, taken);
        if (taken < total && !wire_takes_more(&conn->wire)) {
            return false;
        }
    }
    return true;
}

/* The next piece leaves by an asynchronous write: it tells us when the client has taken so much. */
static void out_wait(struct conn *conn)
{
    struct out *out = &conn->out;
    struct slice piece[ENV_WRITE_SLICES_MAX];
    size_t count = 0;

    out->piece_bytes = 0;
    for (uint32_t i = out->at; i < out->count && count < ENV_WRITE_SLICES_MAX; i++) {
        size_t room = WAIT_PIECE_BYTES - out->piece_bytes;

        if (room == 0) {
            break;
        }
        piece[count] = out->slices[i];
        piece[count].len = piece[count].len < room ? piece[count].len : room;
        out->piece_bytes += piece[count].len;
        count += 1;
    }
    wire_write(&conn->wire, piece, count);
    conn_deadline(conn, conn->server->options.body_timeout_ms);
}

static void write_complete(struct conn *conn, enum rc rc)
{
    struct http_write *write = conn->write;

    conn->write = NULL;
    buffer_clear(&conn->head);
    if (conn->read == NULL) {
        conn_no_deadline(conn);
    }
    write->rc = rc;
    write->done(write);
}

void reply_on_written(struct conn *conn, enum rc rc)
{
    if (rc != RC_OK || conn->state == CONN_CLOSED) {
        conn_fail(conn, RC_CLOSED, true);
        write_complete(conn, conn->failed);
        return;
    }
    out_advance(conn, conn->out.piece_bytes);
    if (out_try(conn)) {
        write_complete(conn, RC_OK);
    } else {
        out_wait(conn);
    }
}

/* ---- Replies ---- */

/* Whether the connection can be kept must be told before the body of the request was looked at. */
static bool reply_must_close(const struct conn *conn)
{
    if (conn->close_after || conn->eof || conn->body_failed || conn->server->draining) {
        return true;
    }
    if (body_ended(&conn->body)) {
        return false;
    }
    /* A client that was not asked for its body may or may not send it. */
    if (conn->continue_due && conn->in.len == 0) {
        return true;
    }
    return !conn->exchange.request.chunked && conn->body.remaining > DRAIN_BYTES_MAX;
}

void http_reply_start(struct http_exchange *exchange, int status, const struct http_header *headers,
                      size_t header_count, int64_t content_length)
{
    struct conn *conn = conn_of(exchange);
    struct env *env = conn->server->env;
    bool bodiless = response_is_bodiless(status);
    struct response_head head = {
        .status = status,
        .minor = exchange->request.minor,
        .content_length = bodiless ? -1 : content_length,
        .headers = headers,
        .header_count = header_count,
    };

    ASSERT(conn->active && !conn->reply_started);
    ASSERT(status >= 200 && content_length >= -1);
    conn->reply_started = true;
    exchange->status = status;
    conn->reply_bodiless = bodiless || exchange->request.method == HTTP_HEAD;
    conn->reply_length = content_length;
    head.chunked = !bodiless && content_length < 0 && exchange->request.minor > 0;
    conn->reply_chunked = head.chunked && !conn->reply_bodiless;
    conn->close_after =
        reply_must_close(conn) || (!conn->reply_bodiless && content_length < 0 && !head.chunked);
    head.close = conn->close_after;
    head.date = http_date_get(&conn->server->date, env->clock->wall_ns(env));
    buffer_clear(&conn->head);
    if (conn->continue_due && !head.close) {
        /* An empty body: nothing would be sent later. botocore counts a final reply without it as
         * the reply of every following request of the connection. */
        conn->continue_due = false;
        buffer_append(&conn->head, CONTINUE_LINE);
    }
    response_head_put(&conn->head, &head);
}

bool http_reply_write(struct http_exchange *exchange, struct http_write *write,
                      const struct slice *from, size_t count)
{
    struct conn *conn = conn_of(exchange);
    size_t total = slices_total(from, count);

    ASSERT(conn->active && conn->reply_started && conn->write == NULL);
    ASSERT(count <= REPLY_SLICES_MAX && write->done != NULL);
    write->rc = RC_OK;
    if (conn->state == CONN_CLOSED) {
        write->rc = conn->failed;
        return true;
    }
    if (conn->reply_bodiless || total == 0) {
        return true;
    }
    conn->reply_bytes += total;
    ASSERT(conn->reply_length < 0 || conn->reply_bytes <= (uint64_t)conn->reply_length);
    out_fill(conn, from, count, total, false);
    if (out_try(conn)) {
        buffer_clear(&conn->head);
        return true;
    }
    conn->write = write;
    out_wait(conn);
    return false;
}

/* All bytes that were announced are there. */
static bool reply_is_whole(const struct conn *conn, size_t last_bytes)
{
    return conn->reply_bodiless || conn->reply_length < 0 ||
           conn->reply_bytes + last_bytes == (uint64_t)conn->reply_length;
}

void http_reply_end(struct http_exchange *exchange, const struct slice *last, size_t count)
{
    struct conn *conn = conn_of(exchange);
    size_t total = slices_total(last, count);

    ASSERT(conn->active && count <= REPLY_SLICES_MAX);
    ASSERT(conn->hangup_told || (conn->write == NULL && conn->read == NULL));
    conn_enter(conn);
    conn->active = false;
    if (!conn->reply_started || !reply_is_whole(conn, total) || conn->write != NULL ||
        conn->read != NULL) {
        conn_fail(conn, RC_CLOSED, false);
    }
    if (conn->state != CONN_CLOSED) {
        if (conn->reply_bodiless) {
            total = 0;
            count = 0;
        }
        out_fill(conn, last, count, total, true);
        if (!out_try(conn)) {
            for (uint32_t i = conn->out.at; i < conn->out.count; i++) {
                wire_put(&conn->wire, conn->out.slices[i]);
            }
        }
        conn_replied(conn);
    }
    buffer_clear(&conn->head);
    conn_leave(conn);
}

void http_reply_close_after(struct http_exchange *exchange)
{
    conn_of(exchange)->close_after = true;
}

void http_abort(struct http_exchange *exchange)
{
    struct conn *conn = conn_of(exchange);

    ASSERT(conn->active);
    conn_enter(conn);
    conn->active = false;
    conn_fail(conn, RC_CLOSED, false);
    conn_leave(conn);
}

void http_time_out(struct http_exchange *exchange)
{
    struct conn *conn = conn_of(exchange);

    ASSERT(conn->active);
    conn_enter(conn);
    conn_time_out(conn);
    conn_leave(conn);
}

void reply_refuse(struct conn *conn, int status)
{
    const struct http_options *options = &conn->server->options;
    struct env *env = conn->server->env;
    struct slice body = SLICE_EMPTY;
    struct http_header type = {.name = SLICE("Content-Type")};
    struct response_head head = {.status = status, .minor = 1, .close = true};

    if (!wire_ready(&conn->wire)) {
        conn_fail(conn, RC_CLOSED, false);
        return;
    }
    if (options->bad_request_headers != NULL) {
        head.headers = options->bad_request_headers(conn->server, &conn->arena, &head.header_count);
    }
    if (options->on_bad_request != NULL) {
        options->on_bad_request(conn->server, &conn->arena, status, &body, &type.value);
    }
    if (head.headers == NULL) {
        head.headers = &type;
        head.header_count = type.value.len > 0 ? 1 : 0;
    }
    head.content_length = (int64_t)body.len;
    head.date = http_date_get(&conn->server->date, env->clock->wall_ns(env));
    buffer_clear(&conn->head);
    response_head_put(&conn->head, &head);
    buffer_append(&conn->head, body);
    conn->close_after = true;
    wire_put(&conn->wire, buffer_slice(&conn->head));
    buffer_clear(&conn->head);
    conn_replied(conn);
}
