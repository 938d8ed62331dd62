/*
 * Bytes to frames. What comes is opened into the loop's scratch memory and frames are taken from
 * there; only the beginning of a frame that is not whole yet is kept, in conn->in. A long frame is
 * then read straight into memory of its own size, which a request may take over as it is.
 */
#include "common/rpc/rpc_private.h"

#include <string.h>

#include "common/codec/crc.h"
#include "common/metrics/metrics.h"

/* The other side lives when whole frames come, or much of a long one. Small reads alone do not say
 * so: behind a damaged length its pings would be eaten for ever. */
enum { HEARD_BYTES_MIN = 1024 };

/* ---- Frames ---- */

static void frame_dispatch(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                           struct slice body)
{
    switch ((enum rpc_frame_kind)frame->kind) {
    case RPC_FRAME_REQUEST:
        rpc_request_take(conn, frame, head, body);
        break;
    case RPC_FRAME_REPLY:
        rpc_call_take_reply(conn, frame, head, body);
        break;
    case RPC_FRAME_MESSAGE:
        rpc_message_take(conn, frame, head, body);
        break;
    case RPC_FRAME_CANCEL: {
        struct rpc_slot *slot = rpc_slot_find(conn, frame->id);

        if (slot != NULL && slot->kind == RPC_SLOT_REQUEST) {
            rpc_request_cancel(slot->what);
        }
        break;
    }
    case RPC_FRAME_OPEN:
    case RPC_FRAME_ACCEPT:
    case RPC_FRAME_DATA:
    case RPC_FRAME_CREDIT:
    case RPC_FRAME_END:
        rpc_stream_take(conn, frame, head, body);
        break;
    case RPC_FRAME_PING:
        conn->pong_due = true;
        rpc_conn_dirty(conn);
        break;
    case RPC_FRAME_PONG:
        break;
    case RPC_FRAME_DRAIN:
        if (conn->out != NULL) {
            rpc_link_drained(conn->out);
        }
        break;
    case RPC_FRAME_HELLO:
    case RPC_FRAME_GOODBYE:
    case RPC_FRAME_KIND_END:
        rpc_conn_refuse(conn, RC_INVALID, "a second hello");
        break;
    }
}

/* Kinds that the side that connected may send, and the other one. */
static bool frame_fits_side(const struct rpc_conn *conn, uint8_t kind)
{
    switch ((enum rpc_frame_kind)kind) {
    case RPC_FRAME_REQUEST:
    case RPC_FRAME_CANCEL:
    case RPC_FRAME_MESSAGE:
    case RPC_FRAME_OPEN:
        return conn->accepted;
    case RPC_FRAME_REPLY:
    case RPC_FRAME_ACCEPT:
    case RPC_FRAME_DRAIN:
        return !conn->accepted;
    case RPC_FRAME_HELLO:
    case RPC_FRAME_GOODBYE:
    case RPC_FRAME_DATA:
    case RPC_FRAME_CREDIT:
    case RPC_FRAME_END:
    case RPC_FRAME_PING:
    case RPC_FRAME_PONG:
    case RPC_FRAME_KIND_END:
        return true;
    }
    return false;
}

static void frame_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                       struct slice body)
{
    if (frame->kind == RPC_FRAME_GOODBYE) {
        rpc_goodbye_take(conn, head);
    } else if (conn->state == RPC_CONN_GREETING) {
        if (frame->kind != RPC_FRAME_HELLO || frame->version != RPC_FRAME_VERSION_MIN) {
            rpc_conn_refuse(conn, RC_INVALID, "no hello");
        } else {
            rpc_hello_take(conn, head);
        }
    } else if (frame->version != conn->version || !frame_fits_side(conn, frame->kind)) {
        rpc_conn_refuse(conn, RC_INVALID, "frame: out of place");
    } else {
        frame_dispatch(conn, frame, head, body);
    }
}

static bool frame_too_long_for_hello(const struct rpc_conn *conn, size_t need)
{
    return conn->state == RPC_CONN_GREETING && need > RPC_HELLO_BYTES_MAX;
}

/* Takes all whole frames from the front; returns how many bytes that were. */
static size_t frames_take(struct rpc_conn *conn, struct slice bytes)
{
    size_t used = 0;

    conn->need = RPC_FRAME_HEADER_BYTES;
    while (conn->state != RPC_CONN_CLOSING && used < bytes.len) {
        struct slice rest = slice_after(bytes, used);
        struct rpc_frame frame;
        struct error error = {0};
        struct slice head;
        struct slice body;
        enum rc rc = rpc_frame_parse(rest, &frame, &conn->need, &error);

        if ((rc != RC_OK && rc != RC_AGAIN) || frame_too_long_for_hello(conn, conn->need)) {
            rpc_conn_refuse(conn, rc != RC_OK && rc != RC_AGAIN ? rc : RC_LIMIT,
                            error.text[0] != '\0' ? error.text : "hello: too long");
            break;
        }
        if (rc == RC_AGAIN || rest.len < conn->need) {
            break;
        }
        head = slice_of(rest.data + RPC_FRAME_HEADER_BYTES, frame.head_len);
        body = slice_of(head.data + head.len, frame.body_len);
        if ((frame.flags & RPC_FRAME_FLAG_BODY_CRC) != 0 &&
            crc32c(0, body.data, body.len) != frame.body_crc) {
            rpc_conn_refuse(conn, RC_CORRUPT, "frame: checksum mismatch of the body");
            break;
        }
        conn->heard_ns = conn->rpc->now_ns;
        used += conn->need;
        conn->need = RPC_FRAME_HEADER_BYTES;
        frame_take(conn, &frame, head, body);
    }
    return used;
}

/* ---- Bytes ---- */

/* Where the next plaintext goes: scratch, or behind the beginning of a frame. */
static char *conn_room(struct rpc_conn *conn, size_t *room)
{
    size_t missing;

    if (conn->in.len == 0) {
        *room = RPC_SCRATCH_BYTES;
        return conn->rpc->scratch;
    }
    ASSERT(conn->need > conn->in.len);
    missing = conn->need - conn->in.len;
    /* Of a long frame no byte more than it has, so that it can be taken over whole. */
    *room = conn->need >= RPC_STEAL_BYTES_MIN || missing > LIMIT_HTTP_READ_BYTES
                ? missing
                : LIMIT_HTTP_READ_BYTES;
    return buffer_reserve(&conn->in, *room);
}

static void conn_got(struct rpc_conn *conn, const char *at, size_t got)
{
    size_t used;

    if (got == 0) {
        return;
    }
    metric_add(METRIC_RPC_RECEIVED_BYTES, 0, got);
    if (at == conn->rpc->scratch || conn->in.len == 0) {
        used = frames_take(conn, slice_of(at, got));
        if (used < got && conn->state != RPC_CONN_CLOSING) {
            buffer_append(&conn->in, slice_of(at + used, got - used));
        }
        return;
    }
    conn->in.len += got;
    conn->stolen = false;
    used = frames_take(conn, buffer_slice(&conn->in));
    if (!conn->stolen) {
        buffer_consume(&conn->in, used);
    }
    if (conn->in.len == 0 && conn->in.capacity > RPC_KEEP_BYTES_MAX) {
        buffer_deinit(&conn->in);
        buffer_init(&conn->in);
    }
}

static void conn_take_plain(struct rpc_conn *conn, struct slice bytes)
{
    while (bytes.len > 0 && conn->state != RPC_CONN_CLOSING) {
        size_t room = bytes.len;
        const char *at = bytes.data;

        if (conn->in.len > 0) {
            char *to = conn_room(conn, &room);

            room = bytes.len < room ? bytes.len : room;
            memcpy(to, bytes.data, room);
            at = to;
        }
        bytes = slice_after(bytes, room);
        conn_got(conn, at, room);
    }
}

static void conn_refused_tls(struct rpc_conn *conn, enum rc rc)
{
    char text[ERROR_TEXT_MAX];
    struct error error;
    const char *why = tls_session_reason(conn->tls);
    bool handshake = conn->state == RPC_CONN_SECURING;

    if (rc == RC_CLOSED) {
        rpc_conn_fail(conn, RC_CLOSED, "ended by the other side");
        return;
    }
    (void)error_set(&error, RC_DENIED, "tls: %s", why != NULL ? why : "refused");
    memcpy(text, error.text, sizeof(text));
    rpc_conn_refuse(conn, handshake ? RC_DENIED : RC_CORRUPT, text);
}

void rpc_conn_take(struct rpc_conn *conn, struct slice bytes)
{
    bool more = true;

    if (conn->tls == NULL) {
        conn_take_plain(conn, bytes);
        return;
    }
    while (more && conn->state != RPC_CONN_CLOSING) {
        size_t room;
        size_t got = 0;
        char *to = conn_room(conn, &room);
        enum rc rc = tls_session_open(conn->tls, &bytes, to, room, &got, &conn->sealed);

        if (conn->sealed.len > 0) {
            rpc_conn_dirty(conn);
        }
        if (rc != RC_OK) {
            conn_refused_tls(conn, rc);
            return;
        }
        if (conn->state == RPC_CONN_SECURING && tls_session_ready(conn->tls)) {
            rpc_conn_secured(conn);
        }
        if (conn->state != RPC_CONN_CLOSING) {
            conn_got(conn, to, got);
        }
        more = got == room || bytes.len > 0;
    }
}

void rpc_conn_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct rpc_conn *conn = CONTAINER_OF(stream, struct rpc_conn, stream);
    struct rpc *rpc = conn->rpc;

    if (conn->state == RPC_CONN_CLOSING) {
        return;
    }
    rpc_enter(rpc);
    if (bytes.len >= HEARD_BYTES_MIN) {
        conn->heard_ns = rpc->now_ns;
    }
    if (bytes.len > 0) {
        conn->spoke = true;
        rpc_conn_take(conn, bytes);
    }
    if (rc != RC_OK) {
        rpc_conn_fail(conn, rc, rc == RC_CLOSED ? "ended by the other side" : "reset");
    }
    rpc_leave(rpc);
}
