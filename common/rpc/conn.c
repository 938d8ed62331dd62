/*
 * One connection, from connect or accept to its end:
 *
 *     CONNECTING → SECURING (TLS) → GREETING (hello each way) → UP → CLOSING → freed
 *
 * All before UP has one time limit. What is open under a connection is in its slots; when it ends,
 * each of them learns so exactly once.
 */
#include "common/rpc/rpc_private.h"

#include <stdio.h>
#include <string.h>

#include "common/log/log.h"

enum { SLOTS_FIRST = 16, DEAD_PINGS = 3, NUMBER_SHIFT = 16 };

static void conn_on_timer(struct env_timer *timer);
static void conn_on_close(struct env_stream *stream);
static void conn_on_connect(struct env_write *write);

struct rpc_conn *rpc_conn_new(struct rpc *rpc)
{
    struct rpc_conn *conn = mem_alloc(sizeof(*conn));

    conn->rpc = rpc;
    conn->version = RPC_FRAME_VERSION_MIN;
    conn->stream.on_read = rpc_conn_on_read;
    conn->stream.on_close = conn_on_close;
    conn->connect.done = conn_on_connect;
    conn->timer.fire = conn_on_timer;
    conn->heard_ns = rpc->env->clock->mono_ns(rpc->env);
    conn->slot_max = LIMIT_RPC_INFLIGHT;
    conn->inflight_bytes_max = LIMIT_RPC_INFLIGHT_BYTES;
    list_init(&conn->dirty_link);
    list_init(&conn->replies);
    list_init(&conn->ready);
    buffer_init(&conn->in);
    buffer_init(&conn->staged);
    buffer_init(&conn->sealed);
    buffer_init(&conn->sending);
    list_push_back(&rpc->conns, &conn->link);
    rpc->conn_count += 1;
    return conn;
}

/* ---- Beginning ---- */

void rpc_conn_connect(struct rpc_link *link)
{
    struct rpc *rpc = link->peer->rpc;
    struct rpc_conn *conn = rpc_conn_new(rpc);

    conn->out = link;
    conn->purpose = link->purpose;
    conn->state = RPC_CONN_CONNECTING;
    memcpy(conn->address, link->peer->address, sizeof(conn->address));
    link->conn = conn;
    rpc->env->clock->timer_start(rpc->env, &conn->timer,
                                 rpc->options.connect_timeout_ms * RPC_NS_PER_MS);
    rpc->env->net->connect(rpc->env, &conn->connect, &conn->stream, conn->address);
}

static void conn_on_connect(struct env_write *write)
{
    struct rpc_conn *conn = CONTAINER_OF(write, struct rpc_conn, connect);
    struct rpc *rpc = conn->rpc;

    if (conn->state != RPC_CONN_CONNECTING) {
        return; /* given up meanwhile */
    }
    rpc_enter(rpc);
    if (write->rc != RC_OK) {
        rpc_conn_fail(conn, write->rc, "cannot connect");
    } else {
        conn->tls = rpc_security_session(rpc->options.security, true);
        conn->state = conn->tls != NULL ? RPC_CONN_SECURING : RPC_CONN_GREETING;
        rpc->env->net->read_start(rpc->env, &conn->stream);
        if (conn->tls != NULL) {
            rpc_conn_take(conn, SLICE_EMPTY);
        } else {
            rpc_hello_send(conn);
        }
    }
    rpc_leave(rpc);
}

void rpc_conn_secured(struct rpc_conn *conn)
{
    if (!rpc_security_proved(conn->rpc->options.security, conn->tls, &conn->joining)) {
        rpc_conn_refuse(conn, RC_DENIED, "tls: the other end did not prove that it belongs");
        return;
    }
    conn->state = RPC_CONN_GREETING;
    if (!conn->accepted) {
        rpc_hello_send(conn);
    }
}

void rpc_conn_up(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;

    conn->state = RPC_CONN_UP;
    conn->up_ns = rpc->now_ns;
    conn->heard_ns = rpc->now_ns;
    rpc->env->clock->timer_start(rpc->env, &conn->timer, rpc->options.idle_ping_ms * RPC_NS_PER_MS);
    if (conn->out != NULL) {
        rpc_link_up(conn->out);
    }
    if (conn->accepted && rpc->draining) {
        conn->drain_due = true;
    }
    rpc_conn_dirty(conn);
}

/* ---- While it is up ---- */

static void conn_check_idle(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;
    uint64_t ping_ns = rpc->options.idle_ping_ms * RPC_NS_PER_MS;
    uint64_t idle_ns = rpc->now_ns - conn->heard_ns;

    if (conn->writing && rpc->now_ns - conn->write_ns > LIMIT_RPC_STALL_S * RPC_NS_PER_S) {
        rpc_conn_fail(conn, RC_TIMEOUT, "the other end reads nothing");
        return;
    }
    if (!conn->paused && idle_ns >= DEAD_PINGS * ping_ns) {
        rpc_conn_fail(conn, RC_TIMEOUT, "nothing heard");
        return;
    }
    if (!conn->writing && idle_ns >= ping_ns - ping_ns / 8) {
        rpc_conn_emit_short(conn, RPC_FRAME_PING, 0, 0, 0);
    }
    rpc->env->clock->timer_start(rpc->env, &conn->timer, ping_ns);
}

static void conn_on_timer(struct env_timer *timer)
{
    struct rpc_conn *conn = CONTAINER_OF(timer, struct rpc_conn, timer);
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    if (conn->state == RPC_CONN_UP) {
        conn_check_idle(conn);
    } else if (conn->state != RPC_CONN_CLOSING) {
        static const char *const what[] = {"no connection in time", "no TLS handshake in time",
                                           "no hello in time"};

        rpc_conn_fail(conn, RC_TIMEOUT, what[conn->state]);
    }
    rpc_leave(rpc);
}

/* ---- Slots ---- */

static void slots_grow(struct rpc_conn *conn, uint32_t count)
{
    uint32_t old = conn->slot_count;

    while (conn->slot_count <= count) {
        conn->slot_count = conn->slot_count == 0 ? SLOTS_FIRST : 2 * conn->slot_count;
    }
    conn->slots = mem_realloc(conn->slots, conn->slot_count * sizeof(*conn->slots));
    memset(&conn->slots[old], 0, (conn->slot_count - old) * sizeof(*conn->slots));
    for (uint32_t i = old; i < conn->slot_count; i++) {
        conn->slots[i].next_free = i + 1;
    }
}

struct rpc_slot *rpc_slot_take(struct rpc_conn *conn)
{
    uint32_t at = conn->slot_free;
    struct rpc_slot *slot;

    if (conn->slots_used >= conn->slot_max) {
        return NULL;
    }
    if (at >= conn->slot_count) {
        slots_grow(conn, at);
    }
    slot = &conn->slots[at];
    conn->slot_free = slot->next_free;
    conn->slots_used += 1;
    conn->next_number += 1;
    *slot = (struct rpc_slot){.id = conn->next_number << NUMBER_SHIFT | at};
    return slot;
}

struct rpc_slot *rpc_slot_find(struct rpc_conn *conn, uint64_t id)
{
    uint32_t at = (uint32_t)(id & ((1U << NUMBER_SHIFT) - 1));

    if (at >= conn->slot_count || conn->slots[at].kind == RPC_SLOT_FREE ||
        conn->slots[at].id != id) {
        return NULL;
    }
    return &conn->slots[at];
}

struct rpc_slot *rpc_slot_claim(struct rpc_conn *conn, uint64_t id)
{
    uint32_t at = (uint32_t)(id & ((1U << NUMBER_SHIFT) - 1));

    if (at >= LIMIT_RPC_INFLIGHT || id >> NUMBER_SHIFT <= conn->next_number) {
        return NULL; /* numbers only rise: what was seen once is never taken again */
    }
    if (at >= conn->slot_count) {
        slots_grow(conn, at);
    }
    if (conn->slots[at].kind != RPC_SLOT_FREE) {
        return NULL;
    }
    conn->next_number = id >> NUMBER_SHIFT;
    conn->slots_used += 1;
    conn->slots[at] = (struct rpc_slot){.id = id};
    return &conn->slots[at];
}

void rpc_slot_release(struct rpc_conn *conn, struct rpc_slot *slot)
{
    ASSERT(slot->kind != RPC_SLOT_FREE && conn->slots_used > 0);
    conn->slots_used -= 1;
    conn->inflight_bytes -= slot->bytes;
    *slot = (struct rpc_slot){.next_free = conn->slot_free};
    conn->slot_free = (uint32_t)(slot - conn->slots);
    if (conn->drained != NULL && conn->slots_used == 0) {
        rpc_conn_dirty(conn);
    }
}

static void slots_break(struct rpc_conn *conn, enum rc rc)
{
    for (uint32_t i = 0; i < conn->slot_count; i++) {
        struct rpc_slot *slot = &conn->slots[i];
        void *what = slot->what;
        uint32_t kind = slot->kind;

        slot->kind = RPC_SLOT_FREE;
        if (kind == RPC_SLOT_CALL) {
            rpc_call_broken(what);
        } else if (kind == RPC_SLOT_REQUEST) {
            rpc_request_cancel(what);
        } else if (kind == RPC_SLOT_STREAM) {
            rpc_stream_broken(what, rc);
        }
    }
    conn->slots_used = 0;
    conn->inflight_bytes = 0;
}

/* ---- The end ---- */

static void replies_drop(struct rpc_conn *conn)
{
    while (!list_empty(&conn->replies)) {
        struct rpc_served *served =
            CONTAINER_OF(list_pop_front(&conn->replies), struct rpc_served, link);

        if (served->reply != NULL) {
            rpc_reply_sent_soon(conn->rpc, served->reply);
        }
        rpc_served_release(served);
    }
}

/* One that broke off in the middle of what it said may be an attempt: handshakes not finished,
 * frames cut short. Probes that connect and say nothing, and connections that just end, are no
 * news. */
static void conn_fail_log(struct rpc_conn *conn, enum rc rc, const char *text)
{
    bool greeting = conn->state < RPC_CONN_UP;

    conn->rpc->stats.handshakes_failed += greeting;
    if (!conn->logged && ((greeting && conn->accepted && conn->spoke) || conn->in.len > 0)) {
        conn->logged = true;
        rpc_log_refused(conn->rpc, conn->address, rc, text);
    } else if (!greeting) {
        LOG_DEBUG("rpc_connection_ended", "peer=%s rc=%s why=\"%s\"", conn->address, rc_name(rc),
                  text);
    }
}

void rpc_conn_fail(struct rpc_conn *conn, enum rc rc, const char *text)
{
    struct rpc *rpc = conn->rpc;
    struct rpc_link *link = conn->out;
    enum rpc_conn_state before = conn->state;

    if (before == RPC_CONN_CLOSING) {
        return;
    }
    if (text != NULL) {
        conn_fail_log(conn, rc, text);
    }
    conn->state = RPC_CONN_CLOSING;
    rpc->env->clock->timer_stop(rpc->env, &conn->timer);
    rpc->env->net->close(rpc->env, &conn->stream);
    slots_break(conn, RC_CLOSED);
    replies_drop(conn);
    conn->out = NULL;
    if (link != NULL) {
        rpc_link_down(link, conn, rc, text != NULL ? text : "closed");
    }
    rpc_turn_soon(rpc);
}

void rpc_conn_refuse(struct rpc_conn *conn, enum rc rc, const char *text)
{
    if (conn->state == RPC_CONN_CLOSING) {
        return;
    }
    conn->rpc->stats.frames_refused += 1;
    conn->logged = true;
    rpc_log_refused(conn->rpc, conn->address, rc, text);
    if (conn->state >= RPC_CONN_GREETING) {
        rpc_goodbye_send(conn, rc, text);
    }
    rpc_conn_push(conn); /* what the kernel takes at once, an alert of TLS too */
    rpc_conn_fail(conn, rc, text);
}

static void conn_on_close(struct env_stream *stream)
{
    struct rpc_conn *conn = CONTAINER_OF(stream, struct rpc_conn, stream);
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    conn->closed = true;
    rpc->reap = true;
    rpc_leave(rpc);
}

bool rpc_conn_reapable(const struct rpc_conn *conn)
{
    return conn->closed && conn->served_count == 0 && list_empty(&conn->dirty_link);
}

void rpc_conn_free(struct rpc_conn *conn)
{
    ASSERT(conn->state == RPC_CONN_CLOSING && conn->out == NULL);
    list_remove(&conn->link);
    conn->rpc->conn_count -= 1;
    tls_session_free(conn->tls);
    buffer_deinit(&conn->in);
    buffer_deinit(&conn->staged);
    buffer_deinit(&conn->sealed);
    buffer_deinit(&conn->sending);
    mem_free(conn->slots);
    mem_free(conn);
}
