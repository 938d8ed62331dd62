/*
 * Frames to bytes. Small frames gather in conn->staged and are sealed together, long bodies are
 * sealed from where they lie, and one write a turn gives all of it to the kernel:
 *
 *     staged (plaintext) ── seal ──▶ sealed ── try_write ──▶ kernel, or ▶ sending ── write
 *
 * While the kernel takes no more, nothing is taken from the queues: they stay bounded, and what
 * waits in them can still be cancelled.
 */
#include "common/rpc/rpc_private.h"

#include <string.h>

#include "common/codec/crc.h"
#include "common/metrics/metrics.h"

enum {
    SEAL_DIRECT_BYTES = 8 * 1024, /* from here on copying costs more than a record of its own */
    STAGED_BYTES = 64 * 1024,
    FLUSH_ROUNDS = 16
};

static void conn_on_written(struct env_write *write);

void rpc_conn_dirty(struct rpc_conn *conn)
{
    if (list_empty(&conn->dirty_link) && conn->state != RPC_CONN_CLOSING) {
        list_push_back(&conn->rpc->dirty, &conn->dirty_link);
        rpc_turn_soon(conn->rpc);
    }
}

size_t rpc_conn_backlog(const struct rpc_conn *conn)
{
    return conn->staged.len + conn->sealed.len + (conn->writing ? conn->sending.len : 0);
}

/* ---- Making frames ---- */

static void conn_seal(struct rpc_conn *conn, struct slice bytes)
{
    if (tls_session_seal(conn->tls, bytes, &conn->sealed) != RC_OK) {
        conn->broken = true;
    }
}

static void conn_seal_staged(struct rpc_conn *conn)
{
    if (conn->staged.len > 0) {
        conn_seal(conn, buffer_slice(&conn->staged));
        buffer_clear(&conn->staged);
    }
}

/* Header and head; the body's bytes are counted, not appended. */
static void frame_begin(struct buffer *to, struct rpc_frame *frame, const ProtobufCMessage *message,
                        struct slice head, const struct slice *body, size_t body_count)
{
    size_t head_len = message != NULL ? protobuf_c_message_get_packed_size(message) : head.len;
    char *at = buffer_reserve(to, RPC_FRAME_HEADER_BYTES + head_len);
    uint8_t *packed = (uint8_t *)at + RPC_FRAME_HEADER_BYTES;

    ASSERT(head_len <= LIMIT_RPC_HEAD_BYTES);
    frame->head_len = (uint32_t)head_len;
    frame->body_len = 0;
    for (size_t i = 0; i < body_count; i++) {
        frame->body_len += (uint32_t)body[i].len;
        if ((frame->flags & RPC_FRAME_FLAG_BODY_CRC) != 0) {
            frame->body_crc = crc32c(frame->body_crc, body[i].data, body[i].len);
        }
    }
    if (message != NULL) {
        (void)protobuf_c_message_pack(message, packed);
    } else if (head_len > 0) {
        memcpy(packed, head.data, head_len);
    }
    rpc_frame_seal(frame, at);
    to->len += RPC_FRAME_HEADER_BYTES + head_len;
}

void rpc_frame_append(struct buffer *to, struct rpc_frame *frame, const ProtobufCMessage *message,
                      struct slice head, const struct slice *body, size_t body_count)
{
    frame_begin(to, frame, message, head, body, body_count);
    for (size_t i = 0; i < body_count; i++) {
        if (body[i].len > 0) {
            buffer_append(to, body[i]);
        }
    }
}

void rpc_conn_emit(struct rpc_conn *conn, struct rpc_frame *frame, const ProtobufCMessage *message,
                   struct slice head, const struct slice *body, size_t body_count)
{
    struct buffer *to = conn->tls != NULL ? &conn->staged : &conn->sealed;

    frame->version = frame->kind == RPC_FRAME_HELLO ? RPC_FRAME_VERSION_MIN : conn->version;
    frame->flags = conn->tls == NULL ? RPC_FRAME_FLAG_BODY_CRC : 0;
    frame_begin(to, frame, message, head, body, body_count);
    for (size_t i = 0; i < body_count; i++) {
        if (conn->tls != NULL && body[i].len >= SEAL_DIRECT_BYTES) {
            conn_seal_staged(conn);
            conn_seal(conn, body[i]);
        } else if (body[i].len > 0) {
            buffer_append(to, body[i]);
        }
    }
    if (conn->staged.len >= STAGED_BYTES) {
        conn_seal_staged(conn);
    }
    conn->rpc->stats.frames_sent += 1;
    rpc_conn_dirty(conn);
}

void rpc_conn_emit_bytes(struct rpc_conn *conn, struct slice frames)
{
    if (conn->tls == NULL) {
        buffer_append(&conn->sealed, frames);
    } else {
        conn_seal_staged(conn);
        conn_seal(conn, frames);
    }
    rpc_conn_dirty(conn);
}

void rpc_conn_emit_short(struct rpc_conn *conn, enum rpc_frame_kind kind, uint64_t id,
                         uint16_t status, uint32_t value)
{
    struct rpc_frame frame = {.kind = (uint8_t)kind, .id = id, .status = status, .value = value};

    rpc_conn_emit(conn, &frame, NULL, SLICE_EMPTY, NULL, 0);
}

/* ---- What is sent next ---- */

/* One of each in turn, so that a stream does not hold up calls, nor calls a stream. */
static void conn_fill(struct rpc_conn *conn)
{
    bool any = true;

    if (conn->pong_due) {
        conn->pong_due = false;
        rpc_conn_emit_short(conn, RPC_FRAME_PONG, 0, 0, 0);
    }
    if (conn->drain_due) {
        conn->drain_due = false;
        rpc_conn_emit_short(conn, RPC_FRAME_DRAIN, 0, 0, 0);
    }
    while (any && conn->state == RPC_CONN_UP && !conn->broken &&
           rpc_conn_backlog(conn) < LIMIT_RPC_OUT_BYTES) {
        any = rpc_message_emit(conn);
        any = rpc_reply_emit(conn) || any;
        any = rpc_call_emit(conn) || any;
        any = rpc_stream_emit(conn) || any;
    }
}

static bool conn_has_more(const struct rpc_conn *conn)
{
    return rpc_conn_backlog(conn) > 0 || !list_empty(&conn->replies) || !list_empty(&conn->ready);
}

/* Answers to one who does not read them pile up: then we do not read either. */
static void conn_pause(struct rpc_conn *conn)
{
    struct env *env = conn->rpc->env;
    size_t backlog = rpc_conn_backlog(conn);

    if (!conn->paused && backlog > LIMIT_RPC_ANSWER_BYTES && conn->accepted) {
        conn->paused = true;
        env->net->read_stop(env, &conn->stream);
    } else if (conn->paused && backlog < LIMIT_RPC_ANSWER_BYTES / 2) {
        conn->paused = false;
        conn->heard_ns = conn->rpc->now_ns;
        env->net->read_start(env, &conn->stream);
    }
}

static void buffer_swap(struct buffer *a, struct buffer *b)
{
    struct buffer held = *a;

    *a = *b;
    *b = held;
}

static void buffer_trim(struct buffer *buffer)
{
    buffer_clear(buffer);
    if (buffer->capacity > RPC_KEEP_BYTES_MAX) {
        buffer_deinit(buffer);
        buffer_init(buffer);
    }
}

/* Gives the kernel what is sealed. True: it took all at once. */
static bool conn_write(struct rpc_conn *conn)
{
    struct env *env = conn->rpc->env;
    struct slice bytes = buffer_slice(&conn->sealed);
    size_t took = env->net->try_write(env, &conn->stream, &bytes, 1);

    conn->rpc->stats.writes += 1;
    metric_add(METRIC_RPC_SENT_BYTES, 0, bytes.len);
    if (took == bytes.len) {
        buffer_trim(&conn->sealed);
        return true;
    }
    buffer_swap(&conn->sealed, &conn->sending);
    bytes = slice_after(bytes, took);
    conn->writing = true;
    conn->write_ns = conn->rpc->now_ns;
    conn->write.done = conn_on_written;
    env->net->write(env, &conn->write, &conn->stream, &bytes, 1);
    return false;
}

void rpc_conn_flush(struct rpc_conn *conn)
{
    uint32_t round = 0;

    while (conn->state != RPC_CONN_CLOSING && conn->state != RPC_CONN_CONNECTING &&
           !conn->writing) {
        conn_fill(conn);
        if (conn->state == RPC_CONN_CLOSING || conn->broken) {
            break;
        }
        conn_seal_staged(conn);
        if (conn->sealed.len == 0) {
            break;
        }
        round += 1;
        if (conn_write(conn) && round >= FLUSH_ROUNDS) {
            break;
        }
    }
    if (conn->state == RPC_CONN_CLOSING) {
        return;
    }
    if (conn->drained != NULL && conn->slots_used == 0 && rpc_conn_backlog(conn) == 0) {
        rpc_conn_fail(conn, RC_CLOSED, NULL); /* the last one is answered */
        return;
    }
    conn_pause(conn);
    if (conn->broken || (!conn->writing && round >= FLUSH_ROUNDS && conn_has_more(conn))) {
        rpc_conn_dirty(conn); /* others first */
    }
}

void rpc_conn_push(struct rpc_conn *conn)
{
    if (conn->writing || conn->state == RPC_CONN_CONNECTING || conn->broken) {
        return;
    }
    conn_seal_staged(conn);
    if (conn->sealed.len > 0) {
        struct env *env = conn->rpc->env;
        struct slice bytes = buffer_slice(&conn->sealed);

        (void)env->net->try_write(env, &conn->stream, &bytes, 1);
        buffer_clear(&conn->sealed);
    }
}

static void conn_on_written(struct env_write *write)
{
    struct rpc_conn *conn = CONTAINER_OF(write, struct rpc_conn, write);
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    conn->writing = false;
    buffer_trim(&conn->sending);
    if (write->rc != RC_OK) {
        rpc_conn_fail(conn, write->rc, "cannot write");
    } else {
        rpc_conn_dirty(conn);
    }
    rpc_leave(rpc);
}
