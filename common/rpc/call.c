/*
 * Calls, on the side that asks:
 *
 *     QUEUED (in the link) ── frame sealed ──▶ SENT (in a slot) ── reply ──▶ done
 *         └── cancelled, past its deadline, nobody there, or the connection broke ──▶ ENDING ──▶
 * done
 *
 * A call that is given up after it was sent leaves a zombie in its slot until the reply comes, so
 * that what is under way over there stays bounded.
 */
#include "common/rpc/rpc_private.h"

#include "common/metrics/metrics.h"

enum call_state { CALL_NONE, CALL_QUEUED, CALL_SENT, CALL_ENDING };

/* ---- Deadlines: a wheel of lists, a slot a tick ---- */

static struct list *wheel_slot(struct rpc *rpc, uint64_t tick)
{
    return &rpc->wheel[tick % RPC_WHEEL_SLOTS];
}

static void wheel_start(struct rpc *rpc)
{
    rpc->wheel_running = true;
    rpc->env->clock->timer_start(rpc->env, &rpc->wheel_timer, RPC_WHEEL_TICK_MS * RPC_NS_PER_MS);
}

static void wheel_add(struct rpc *rpc, struct rpc_call *call)
{
    uint64_t now = rpc->env->clock->mono_ns(rpc->env);
    uint64_t tick_ns = RPC_WHEEL_TICK_MS * RPC_NS_PER_MS;

    call->deadline_ns = now + call->timeout_ms * RPC_NS_PER_MS;
    if (rpc->wheel_count == 0) {
        rpc->wheel_tick = now / tick_ns;
    }
    /* The first tick that begins after the deadline: never early. */
    list_push_back(wheel_slot(rpc, call->deadline_ns / tick_ns + 1), &call->deadline_link);
    rpc->wheel_count += 1;
    if (!rpc->wheel_running) {
        wheel_start(rpc);
    }
}

static void wheel_remove(struct rpc *rpc, struct rpc_call *call)
{
    if (call->deadline_ns != 0) {
        list_remove(&call->deadline_link);
        rpc->wheel_count -= 1;
        call->deadline_ns = 0;
    }
}

static void call_give_up(struct rpc_call *call, enum rc rc);

static void wheel_slot_expire(struct rpc *rpc, struct list *slot)
{
    struct list *at = slot->next;

    while (at != slot) {
        struct rpc_call *call = CONTAINER_OF(at, struct rpc_call, deadline_link);

        at = at->next;
        if (call->deadline_ns <= rpc->now_ns) {
            call_give_up(call, RC_TIMEOUT);
        }
    }
}

void rpc_wheel_fire(struct env_timer *timer)
{
    struct rpc *rpc = CONTAINER_OF(timer, struct rpc, wheel_timer);
    uint64_t now_tick;

    rpc_enter(rpc);
    rpc->wheel_running = false;
    now_tick = rpc->now_ns / (RPC_WHEEL_TICK_MS * RPC_NS_PER_MS);
    if (now_tick - rpc->wheel_tick > RPC_WHEEL_SLOTS) {
        rpc->wheel_tick = now_tick - RPC_WHEEL_SLOTS; /* all of them, once */
    }
    while (rpc->wheel_tick < now_tick) {
        rpc->wheel_tick += 1;
        wheel_slot_expire(rpc, wheel_slot(rpc, rpc->wheel_tick));
    }
    if (rpc->wheel_count > 0) {
        wheel_start(rpc);
    }
    rpc_leave(rpc);
}

/* ---- Beginning ---- */

static size_t call_size(const struct rpc_call *call, bool *fits)
{
    size_t head =
        call->message != NULL ? protobuf_c_message_get_packed_size(call->message) : call->head.len;
    size_t body = 0;

    for (uint32_t i = 0; i < call->body_count; i++) {
        body += call->body[i].len;
    }
    *fits = head <= LIMIT_RPC_HEAD_BYTES && body <= LIMIT_RPC_BODY_BYTES;
    return RPC_FRAME_HEADER_BYTES + head + body;
}

static enum rc call_admit(const struct rpc_peer *peer, const struct rpc_link *link,
                          const struct rpc_call *call)
{
    bool down =
        link->state == RPC_LINK_BACKOFF || (link->state == RPC_LINK_CONNECTING && link->failed);

    if (peer->closing || (down && !call->wait_connected)) {
        return RC_CLOSED;
    }
    return link->call_count < LIMIT_RPC_QUEUED ? RC_OK : RC_BUSY;
}

void rpc_call(struct rpc_peer *peer, struct rpc_call *call)
{
    struct rpc_link *link = &peer->links[call->purpose];
    struct rpc *rpc = peer->rpc;
    bool fits;
    enum rc rc;

    ASSERT(call->state == CALL_NONE && call->done != NULL && call->body_count <= RPC_SLICES_MAX);
    ASSERT(rpc_method_find((uint32_t)call->method)->kind == RPC_KIND_REQUEST);
    call->peer = peer;
    call->conn = NULL;
    call->taken = false;
    call->answered = false;
    call->reply_head = SLICE_EMPTY;
    call->reply_body = SLICE_EMPTY;
    call->deadline_ns = 0;
    call->size = call_size(call, &fits);
    call->started_ns = rpc->env->clock->mono_ns(rpc->env);
    peer->calls += 1;
    rc = fits ? call_admit(peer, link, call) : RC_LIMIT;
    if (rc != RC_OK) {
        rpc_call_complete_soon(call, rc);
        return;
    }
    call->state = CALL_QUEUED;
    list_push_back(&link->calls, &call->link);
    link->call_count += 1;
    if (call->timeout_ms != 0) {
        wheel_add(rpc, call);
    }
    if (link->state == RPC_LINK_UP) {
        rpc_conn_dirty(link->conn);
    } else {
        rpc_link_want(link);
    }
}

bool rpc_call_emit(struct rpc_conn *conn)
{
    struct rpc_link *link = conn->out;
    struct rpc_frame frame = {.kind = RPC_FRAME_REQUEST};
    struct rpc_call *call;
    struct rpc_slot *slot;

    if (link == NULL || list_empty(&link->calls)) {
        return false;
    }
    call = CONTAINER_OF(link->calls.next, struct rpc_call, link);
    if (conn->inflight_bytes > 0 && conn->inflight_bytes + call->size > conn->inflight_bytes_max) {
        return false;
    }
    slot = rpc_slot_take(conn);
    if (slot == NULL) {
        return false;
    }
    list_remove(&call->link);
    link->call_count -= 1;
    slot->kind = RPC_SLOT_CALL;
    slot->what = call;
    slot->bytes = call->size;
    conn->inflight_bytes += call->size;
    call->conn = conn;
    call->id = slot->id;
    call->state = CALL_SENT;
    call->taken = true;
    frame.id = slot->id;
    frame.method = (uint16_t)call->method;
    if (call->deadline_ns != 0) {
        frame.value = call->deadline_ns > conn->rpc->now_ns
                          ? 1 + (uint32_t)((call->deadline_ns - conn->rpc->now_ns) / RPC_NS_PER_MS)
                          : 1;
    }
    rpc_conn_emit(conn, &frame, call->message, call->head, call->body, call->body_count);
    return true;
}

/* ---- Ending ---- */

void rpc_call_finish(struct rpc_call *call)
{
    struct rpc *rpc = call->peer->rpc;
    const struct rpc_method_row *row = rpc_method_find((uint32_t)call->method);

    call->state = CALL_NONE;
    call->peer->calls -= 1;
    if (call->peer->closing) {
        rpc->reap = true;
    }
    metric_observe_ns(METRIC_RPC_CALL_SECONDS, row->series,
                      rpc->now_ns > call->started_ns ? rpc->now_ns - call->started_ns : 0);
    call->done(call);
}

void rpc_call_complete_soon(struct rpc_call *call, enum rc rc)
{
    struct rpc *rpc = call->peer->rpc;

    wheel_remove(rpc, call);
    call->rc = rc;
    call->state = CALL_ENDING;
    list_push_back(&rpc->completed, &call->link);
    rpc_turn_soon(rpc);
}

void rpc_call_broken(struct rpc_call *call)
{
    ASSERT(call->state == CALL_SENT);
    rpc_call_complete_soon(call, RC_AMBIGUOUS);
}

static void call_give_up(struct rpc_call *call, enum rc rc)
{
    if (call->state == CALL_QUEUED) {
        list_remove(&call->link);
        call->peer->links[call->purpose].call_count -= 1;
        rpc_call_complete_soon(call, rc);
    } else if (call->state == CALL_SENT) {
        struct rpc_slot *slot = rpc_slot_find(call->conn, call->id);

        ASSERT(slot != NULL && slot->kind == RPC_SLOT_CALL);
        slot->kind = RPC_SLOT_ZOMBIE;
        slot->what = NULL;
        rpc_conn_emit_short(call->conn, RPC_FRAME_CANCEL, call->id, 0, 0);
        rpc_call_complete_soon(call, rc);
    }
}

void rpc_cancel(struct rpc_call *call)
{
    call_give_up(call, RC_CANCELLED);
}

void rpc_call_take_reply(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                         struct slice body)
{
    struct rpc_slot *slot = rpc_slot_find(conn, frame->id);
    struct rpc_call *call;

    if (slot == NULL || (slot->kind != RPC_SLOT_CALL && slot->kind != RPC_SLOT_ZOMBIE)) {
        rpc_conn_refuse(conn, RC_INVALID, "frame: reply to nothing");
        return;
    }
    call = slot->what;
    rpc_slot_release(conn, slot);
    if (conn->out != NULL && !list_empty(&conn->out->calls)) {
        rpc_conn_dirty(conn); /* room for one that waits */
    }
    if (call == NULL) {
        return;
    }
    wheel_remove(conn->rpc, call);
    call->rc = rpc_status_rc(frame->status);
    call->answered = frame->value == RPC_REPLY_OF_SERVICE;
    call->taken = call->answered;
    call->reply_head = head;
    call->reply_body = body;
    rpc_call_finish(call);
}
