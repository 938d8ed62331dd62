/*
 * Another process, and the connections to it: one a purpose, made anew for as long as the peer is
 * open (lazy ones while there is something to send). And one-way messages, which belong to a link.
 *
 *     IDLE → CONNECTING → UP → (ends) → BACKOFF → CONNECTING ...
 */
#include "common/rpc/rpc_private.h"

#include <stdio.h>
#include <string.h>

#include "common/metrics/metrics.h"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_SHIFT_MAX = 10,
    STEADY_MS = 1000 /* a connection that lived so long was a good one: again at once */
};

static void link_on_timer(struct env_timer *timer);

struct rpc_peer *rpc_peer_open(struct rpc *rpc, const struct rpc_peer_options *options)
{
    struct rpc_peer *peer = mem_alloc(sizeof(*peer));

    ASSERT(!rpc->closing && options->address != NULL);
    peer->rpc = rpc;
    peer->owner = options->owner;
    peer->on_state = options->on_state;
    peer->node_id = options->node_id;
    peer->lazy = options->lazy;
    (void)snprintf(peer->address, sizeof(peer->address), "%s", options->address);
    for (int i = 0; i < RPC_PURPOSE_COUNT; i++) {
        struct rpc_link *link = &peer->links[i];

        link->peer = peer;
        link->purpose = (enum rpc_purpose)i;
        link->timer.fire = link_on_timer;
        list_init(&link->event_link);
        list_init(&link->calls);
        list_init(&link->streams);
        buffer_init(&link->messages);
    }
    list_push_back(&rpc->peers, &peer->link);
    if (!peer->lazy) {
        rpc_link_want(&peer->links[RPC_CONTROL]);
    }
    return peer;
}

void *rpc_peer_owner(const struct rpc_peer *peer)
{
    return peer->owner;
}

bool rpc_peer_up(const struct rpc_peer *peer, enum rpc_purpose purpose)
{
    return peer->links[purpose].state == RPC_LINK_UP;
}

const struct error *rpc_peer_why(const struct rpc_peer *peer, enum rpc_purpose purpose)
{
    return &peer->links[purpose].why;
}

const struct rpc_identity *rpc_peer_identity(const struct rpc_peer *peer)
{
    return peer->known ? &peer->identity : NULL;
}

/* ---- Connecting ---- */

static void link_connect(struct rpc_link *link)
{
    link->state = RPC_LINK_CONNECTING;
    rpc_conn_connect(link);
}

void rpc_link_want(struct rpc_link *link)
{
    if (link->state == RPC_LINK_IDLE && !link->peer->closing) {
        link_connect(link);
    }
}

static bool link_has_work(const struct rpc_link *link)
{
    return (link->purpose == RPC_CONTROL && !link->peer->lazy) || !list_empty(&link->calls) ||
           !list_empty(&link->streams);
}

static void link_on_timer(struct env_timer *timer)
{
    struct rpc_link *link = CONTAINER_OF(timer, struct rpc_link, timer);
    struct rpc *rpc = link->peer->rpc;

    rpc_enter(rpc);
    link->state = RPC_LINK_IDLE;
    if (!link_has_work(link)) {
        link->failed = false; /* whoever comes next may try */
    } else {
        rpc_link_want(link);
    }
    rpc_leave(rpc);
}

/* Doubled each time, and a quarter more or less, so that a restarted peer is not met by all of them
 * at one instant. */
static uint64_t link_backoff_ns(struct rpc_link *link)
{
    struct rpc *rpc = link->peer->rpc;
    uint32_t shift = link->attempt < BACKOFF_SHIFT_MAX ? link->attempt : BACKOFF_SHIFT_MAX;
    uint64_t ms = (uint64_t)BACKOFF_FIRST_MS << shift;
    uint64_t ns;

    ms = ms < rpc->options.backoff_max_ms ? ms : rpc->options.backoff_max_ms;
    ns = ms * RPC_NS_PER_MS;
    return ns - ns / 4 + rpc->env->random(rpc->env) % (ns / 2 + 1);
}

static void messages_drop(struct rpc_link *link)
{
    struct rpc *rpc = link->peer->rpc;

    rpc->stats.messages_dropped += link->message_count;
    if (link->message_count > 0) {
        metric_add(METRIC_RPC_MESSAGES_DROPPED, 0, link->message_count);
    }
    link->message_count = 0;
    link->messages_at = 0;
    buffer_deinit(&link->messages);
    buffer_init(&link->messages);
}

/* Nobody is there: who does not want to wait may ask another. */
static void link_fail_queued(struct rpc_link *link, enum rc rc, bool all)
{
    struct list *at = link->calls.next;

    while (at != &link->calls) {
        struct rpc_call *call = CONTAINER_OF(at, struct rpc_call, link);

        at = at->next;
        if (all || !call->wait_connected) {
            list_remove(&call->link);
            link->call_count -= 1;
            rpc_call_complete_soon(call, rc);
        }
    }
    while (!list_empty(&link->streams)) {
        rpc_stream_broken(CONTAINER_OF(link->streams.next, struct rpc_stream, link), rc);
    }
}

void rpc_link_event(struct rpc_link *link)
{
    struct rpc *rpc = link->peer->rpc;

    if (list_empty(&link->event_link)) {
        list_push_back(&rpc->link_events, &link->event_link);
        rpc_turn_soon(rpc);
    }
}

void rpc_link_told(struct rpc_link *link)
{
    struct rpc_peer *peer = link->peer;
    bool up = link->state == RPC_LINK_UP;

    if (up != link->told_up) {
        link->told_up = up;
        if (peer->on_state != NULL && !peer->closing) {
            peer->on_state(peer, link->purpose, up, &link->why);
        }
    }
}

void rpc_link_up(struct rpc_link *link)
{
    link->state = RPC_LINK_UP;
    link->failed = false;
    link->why = (struct error){.rc = RC_OK};
    link->peer->identity = link->conn->other;
    link->peer->known = true;
    rpc_link_event(link);
}

void rpc_link_down(struct rpc_link *link, struct rpc_conn *conn, enum rc rc, const char *text)
{
    struct rpc *rpc = link->peer->rpc;
    bool was_up = conn->up_ns != 0;
    bool steady = was_up && rpc->now_ns - conn->up_ns >= STEADY_MS * RPC_NS_PER_MS;

    if (link->conn != conn) {
        return; /* drained: another has taken its place */
    }
    link->conn = NULL;
    (void)error_set(&link->why, rc, "%s: %s", conn->address, text);
    messages_drop(link);
    link->attempt = steady ? 0 : link->attempt + 1;
    if (!was_up) {
        link->failed = true;
        link_fail_queued(link, RC_CLOSED, false);
    }
    rpc_link_event(link);
    if (link->peer->closing || !link_has_work(link)) {
        /* Not sooner than after the backoff either, when it is wanted again. */
        link->state = link->peer->closing ? RPC_LINK_IDLE : RPC_LINK_BACKOFF;
    } else {
        link->state = RPC_LINK_BACKOFF;
    }
    if (link->state == RPC_LINK_BACKOFF) {
        rpc->env->clock->timer_start(rpc->env, &link->timer, steady ? 0 : link_backoff_ns(link));
    }
}

/* The other end takes no new calls here: what is under way goes on there, and new ones go over
 * another connection (to its successor, if that listens already). */
void rpc_link_drained(struct rpc_link *link)
{
    struct rpc_conn *conn = link->conn;
    struct rpc *rpc = link->peer->rpc;

    link->conn = NULL;
    conn->out = NULL;
    conn->drained = link->peer;
    messages_drop(link);
    (void)error_set(&link->why, RC_CLOSED, "%s: it drains", conn->address);
    link->failed = true; /* until it is back */
    link_fail_queued(link, RC_CLOSED, false);
    link->state = RPC_LINK_BACKOFF;
    rpc_link_event(link);
    rpc->env->clock->timer_start(rpc->env, &link->timer, link_backoff_ns(link));
    rpc_conn_dirty(conn);
}

void rpc_peer_move(struct rpc_peer *peer, const char *address)
{
    if (strcmp(peer->address, address) == 0) {
        return;
    }
    (void)snprintf(peer->address, sizeof(peer->address), "%s", address);
    for (int i = 0; i < RPC_PURPOSE_COUNT; i++) {
        struct rpc_link *link = &peer->links[i];

        link->attempt = 0;
        if (link->conn != NULL) {
            rpc_conn_fail(link->conn, RC_CLOSED, "it moved");
        }
    }
}

/* ---- Closing ---- */

void rpc_peer_close(struct rpc_peer *peer, void (*done)(void *owner))
{
    struct rpc *rpc = peer->rpc;

    ASSERT(!peer->closing && done != NULL);
    peer->closing = true;
    peer->close_done = done;
    for (int i = 0; i < RPC_PURPOSE_COUNT; i++) {
        struct rpc_link *link = &peer->links[i];

        link_fail_queued(link, RC_CLOSED, true);
        if (link->conn != NULL) {
            rpc_conn_fail(link->conn, RC_CLOSED, NULL);
        }
        rpc->env->clock->timer_stop(rpc->env, &link->timer);
        link->state = RPC_LINK_IDLE;
        messages_drop(link);
    }
    for (struct list *at = rpc->conns.next; at != &rpc->conns; at = at->next) {
        struct rpc_conn *conn = CONTAINER_OF(at, struct rpc_conn, link);

        if (conn->drained == peer) {
            rpc_conn_fail(conn, RC_CLOSED, NULL);
        }
    }
    rpc->reap = true;
    rpc_turn_soon(rpc);
}

bool rpc_peer_reap(struct rpc_peer *peer)
{
    void (*done)(void *owner) = peer->close_done;
    void *owner = peer->owner;

    if (!peer->closing || peer->calls > 0 || peer->streams > 0) {
        return false;
    }
    for (int i = 0; i < RPC_PURPOSE_COUNT; i++) {
        ASSERT(list_empty(&peer->links[i].calls) && peer->links[i].conn == NULL);
        list_remove(&peer->links[i].event_link);
        buffer_deinit(&peer->links[i].messages);
    }
    list_remove(&peer->link);
    mem_free(peer);
    done(owner);
    return true;
}

/* ---- One-way messages ---- */

bool rpc_send(struct rpc_peer *peer, enum rpc_purpose purpose, enum rpc_method method,
              struct slice head, const struct slice *body, size_t body_count)
{
    struct rpc_link *link = &peer->links[purpose];
    struct rpc *rpc = peer->rpc;
    struct rpc_frame frame = {.kind = RPC_FRAME_MESSAGE, .method = (uint16_t)method};
    size_t len = RPC_FRAME_HEADER_BYTES + head.len;
    bool wanted =
        link->state == RPC_LINK_UP || (link->state == RPC_LINK_CONNECTING && !link->failed);

    for (size_t i = 0; i < body_count; i++) {
        len += body[i].len;
    }
    ASSERT(head.len <= LIMIT_RPC_HEAD_BYTES);
    ASSERT(len - RPC_FRAME_HEADER_BYTES - head.len <= LIMIT_RPC_BODY_BYTES);
    if (link->state == RPC_LINK_IDLE && !peer->closing) {
        rpc_link_want(link);
        wanted = true;
    }
    if (!wanted || link->messages.len - link->messages_at + len > LIMIT_RPC_MESSAGE_QUEUE_BYTES) {
        rpc->stats.messages_dropped += 1;
        metric_add(METRIC_RPC_MESSAGES_DROPPED, 0, 1);
        return false;
    }
    if (link->messages_at > 0 && link->messages_at >= link->messages.len / 2) {
        buffer_consume(&link->messages, link->messages_at);
        link->messages_at = 0;
    }
    frame.version = link->conn != NULL ? link->conn->version : RPC_FRAME_VERSION_MIN;
    if (link->conn != NULL && link->conn->tls == NULL) {
        frame.flags = RPC_FRAME_FLAG_BODY_CRC;
    }
    rpc_frame_append(&link->messages, &frame, NULL, head, body, body_count);
    link->message_count += 1;
    if (link->state == RPC_LINK_UP) {
        rpc_conn_dirty(link->conn);
    }
    return true;
}

bool rpc_message_emit(struct rpc_conn *conn)
{
    struct rpc_link *link = conn->out;
    size_t room = LIMIT_RPC_OUT_BYTES;
    size_t len = 0;

    if (link == NULL || link->message_count == 0) {
        return false;
    }
    while (link->message_count > 0 && len < room) {
        struct slice rest = slice_after(buffer_slice(&link->messages), link->messages_at + len);
        struct rpc_frame frame;
        size_t need;
        enum rc rc = rpc_frame_parse(rest, &frame, &need, NULL);

        ASSERT(rc == RC_OK && need <= rest.len); /* our own */
        if (frame.version != conn->version) {
            frame.version = conn->version; /* queued before the hello */
            rpc_frame_seal(&frame, link->messages.data + link->messages_at + len);
        }
        len += need;
        link->message_count -= 1;
        conn->rpc->stats.frames_sent += 1;
    }
    rpc_conn_emit_bytes(conn, slice_of(link->messages.data + link->messages_at, len));
    link->messages_at += len;
    if (link->message_count == 0) {
        link->messages_at = 0;
        buffer_clear(&link->messages);
        if (link->messages.capacity > RPC_KEEP_BYTES_MAX) {
            buffer_deinit(&link->messages);
            buffer_init(&link->messages);
        }
    }
    return true;
}

void rpc_message_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                      struct slice body)
{
    const struct rpc_method_row *row = rpc_method_find(frame->method);
    struct rpc_service *service = row != NULL ? conn->rpc->services[row->method] : NULL;
    struct rpc_message message = {.from = &conn->other, .head = head, .body = body};

    if (row == NULL || row->kind != RPC_KIND_MESSAGE || service == NULL ||
        service->on_message == NULL || (conn->joining && !row->join)) {
        conn->rpc->stats.messages_dropped += 1;
        metric_add(METRIC_RPC_MESSAGES_DROPPED, 0, 1);
        return;
    }
    message.method = row->method;
    metric_add(METRIC_RPC_REQUESTS, row->series, 1);
    service->on_message(service, &message);
}
