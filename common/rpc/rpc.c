/*
 * One process's end: open, listen, close, and the turn. What must not happen inside the call that
 * causes it (completions, writes, the end of connections) is put on a list and happens in the turn,
 * which runs at the end of every callback from the world, or is posted.
 */
#include "common/rpc/rpc_private.h"

#include <stdio.h>
#include <string.h>

#include "common/log/log.h"
#include "common/metrics/metrics.h"

enum {
    CONNECT_TIMEOUT_MS = 1000,
    BACKOFF_MAX_MS = 2000,
    IDLE_PING_MS = 3000,
    WINDOW_BYTES = 1024 * 1024,
    TURN_ROUNDS = 16, /* then others get the loop */
    REFUSALS_WINDOW_S = 60
};

static void rpc_on_post(struct env_post *post);

/* ---- Life ---- */

static void options_fill(struct rpc_options *options)
{
    options->connect_timeout_ms =
        options->connect_timeout_ms != 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    options->backoff_max_ms =
        options->backoff_max_ms != 0 ? options->backoff_max_ms : BACKOFF_MAX_MS;
    options->idle_ping_ms = options->idle_ping_ms != 0 ? options->idle_ping_ms : IDLE_PING_MS;
    options->stream_window_bytes =
        options->stream_window_bytes != 0 ? options->stream_window_bytes : WINDOW_BYTES;
}

struct rpc *rpc_open(const struct rpc_options *options)
{
    struct rpc *rpc = mem_alloc(sizeof(*rpc));

    ASSERT(options->env != NULL && options->security != NULL);
    rpc->options = *options;
    rpc->options.identity.release[RPC_RELEASE_MAX - 1] = '\0';
    rpc->env = options->env;
    options_fill(&rpc->options);
    list_init(&rpc->conns);
    list_init(&rpc->peers);
    list_init(&rpc->listeners);
    list_init(&rpc->completed);
    list_init(&rpc->stream_events);
    list_init(&rpc->cancelled);
    list_init(&rpc->sent);
    list_init(&rpc->link_events);
    list_init(&rpc->dirty);
    list_init(&rpc->pool);
    for (size_t i = 0; i < RPC_WHEEL_SLOTS; i++) {
        list_init(&rpc->wheel[i]);
    }
    rpc->wheel_timer.fire = rpc_wheel_fire;
    rpc->post.run = rpc_on_post;
    rpc->scratch = mem_alloc_raw(RPC_SCRATCH_BYTES);
    rpc->now_ns = rpc->env->clock->mono_ns(rpc->env);
    rpc_method_labels();
    return rpc;
}

void *rpc_owner(const struct rpc *rpc)
{
    return rpc->options.owner;
}

struct env *rpc_env(const struct rpc *rpc)
{
    return rpc->env;
}

const struct rpc_identity *rpc_self(const struct rpc *rpc)
{
    return &rpc->options.identity;
}

void rpc_set_epoch(struct rpc *rpc, uint64_t cluster_epoch)
{
    rpc->options.identity.cluster_epoch = cluster_epoch;
}

void rpc_serve(struct rpc *rpc, enum rpc_method method, struct rpc_service *service)
{
    ASSERT(rpc_method_find((uint32_t)method) != NULL);
    rpc->services[method] = service;
}

void rpc_stats(const struct rpc *rpc, struct rpc_stats *out)
{
    *out = rpc->stats;
    out->connections = rpc->conn_count;
    out->requests = rpc->served_count;
    for (struct list *at = rpc->conns.next; at != &rpc->conns; at = at->next) {
        out->queued_bytes += rpc_conn_backlog(CONTAINER_OF(at, struct rpc_conn, link));
    }
}

static void listeners_close(struct rpc *rpc)
{
    if (rpc->listeners_closed) {
        return;
    }
    rpc->listeners_closed = true;
    for (struct list *at = rpc->listeners.next; at != &rpc->listeners; at = at->next) {
        rpc->env->net->listener_close(rpc->env,
                                      &CONTAINER_OF(at, struct rpc_listener, link)->listener);
    }
}

void rpc_drain(struct rpc *rpc)
{
    rpc->draining = true;
    listeners_close(rpc);
    for (struct list *at = rpc->conns.next; at != &rpc->conns; at = at->next) {
        struct rpc_conn *conn = CONTAINER_OF(at, struct rpc_conn, link);

        if (conn->accepted && conn->state == RPC_CONN_UP) {
            conn->drain_due = true;
            rpc_conn_dirty(conn);
        }
    }
}

void rpc_close(struct rpc *rpc, void (*done)(void *owner))
{
    ASSERT(!rpc->closing && done != NULL && list_empty(&rpc->peers));
    rpc->closing = true;
    rpc->close_done = done;
    listeners_close(rpc);
    for (struct list *at = rpc->conns.next; at != &rpc->conns; at = at->next) {
        rpc_conn_fail(CONTAINER_OF(at, struct rpc_conn, link), RC_CLOSED, NULL);
    }
    rpc_turn_soon(rpc);
}

static void rpc_free(struct rpc *rpc)
{
    void (*done)(void *owner) = rpc->close_done;
    void *owner = rpc->options.owner;

    ASSERT(rpc->conn_count == 0 && rpc->served_count == 0 && rpc->wheel_count == 0);
    rpc->env->clock->timer_stop(rpc->env, &rpc->wheel_timer);
    while (!list_empty(&rpc->pool)) {
        struct rpc_served *served =
            CONTAINER_OF(list_pop_front(&rpc->pool), struct rpc_served, link);

        buffer_deinit(&served->memory);
        buffer_deinit(&served->kept);
        mem_free(served);
    }
    mem_free(rpc->scratch);
    mem_free(rpc);
    done(owner);
}

/* ---- Listening ---- */

static void rpc_on_accept(struct env_listener *env_listener)
{
    struct rpc_listener *listener = CONTAINER_OF(env_listener, struct rpc_listener, listener);
    struct rpc *rpc = listener->rpc;
    struct rpc_conn *conn = rpc_conn_new(rpc);

    rpc_enter(rpc);
    conn->accepted = true;
    if (rpc->env->net->accept(rpc->env, env_listener, &conn->stream) != RC_OK) {
        conn->state = RPC_CONN_CLOSING;
        conn->closed = true;
        rpc->reap = true;
    } else {
        rpc->env->net->peer_address(rpc->env, &conn->stream, conn->address);
        if (rpc->conn_count > LIMIT_RPC_CONNECTIONS || rpc->listeners_closed) {
            rpc_conn_fail(conn, RC_BUSY, "too many connections");
        } else {
            conn->tls = rpc_security_session(rpc->options.security, false);
            conn->state = conn->tls != NULL ? RPC_CONN_SECURING : RPC_CONN_GREETING;
            rpc->env->clock->timer_start(rpc->env, &conn->timer,
                                         rpc->options.connect_timeout_ms * RPC_NS_PER_MS);
            rpc->env->net->read_start(rpc->env, &conn->stream);
        }
    }
    rpc_leave(rpc);
}

static void rpc_on_listener_close(struct env_listener *env_listener)
{
    struct rpc_listener *listener = CONTAINER_OF(env_listener, struct rpc_listener, listener);
    struct rpc *rpc = listener->rpc;

    rpc_enter(rpc);
    list_remove(&listener->link);
    mem_free(listener);
    rpc_leave(rpc);
}

enum rc rpc_listen(struct rpc *rpc, const char *address, struct error *error)
{
    struct rpc_listener *listener = mem_alloc(sizeof(*listener));
    enum rc rc;

    listener->rpc = rpc;
    listener->listener.on_accept = rpc_on_accept;
    listener->listener.on_close = rpc_on_listener_close;
    rc = rpc->env->net->listen(rpc->env, &listener->listener, address, error);
    if (rc != RC_OK) {
        mem_free(listener);
        return rc;
    }
    list_push_back(&rpc->listeners, &listener->link);
    return RC_OK;
}

bool rpc_address(const struct rpc *rpc, char out[ENV_ADDRESS_MAX])
{
    if (list_empty(&rpc->listeners)) {
        return false;
    }
    rpc->env->net->listener_address(
        rpc->env, &CONTAINER_OF(rpc->listeners.next, struct rpc_listener, link)->listener, out);
    return true;
}

/* ---- The turn ---- */

void rpc_turn_soon(struct rpc *rpc)
{
    if (rpc->depth == 0 && !rpc->posted) {
        rpc->posted = true;
        rpc->env->post(rpc->env, &rpc->post);
    }
}

void rpc_enter(struct rpc *rpc)
{
    if (rpc->depth == 0) {
        rpc->now_ns = rpc->env->clock->mono_ns(rpc->env);
    }
    rpc->depth += 1;
}

static bool rpc_has_work(const struct rpc *rpc)
{
    return !list_empty(&rpc->completed) || !list_empty(&rpc->stream_events) ||
           !list_empty(&rpc->cancelled) || !list_empty(&rpc->sent) ||
           !list_empty(&rpc->link_events) || !list_empty(&rpc->dirty);
}

/* What callbacks of this round put off comes in the next one. */
static void list_take(struct list *from, struct list *to)
{
    list_init(to);
    if (!list_empty(from)) {
        to->next = from->next;
        to->prev = from->prev;
        to->next->prev = to;
        to->prev->next = to;
        list_init(from);
    }
}

static void turn_completions(struct rpc *rpc)
{
    struct list *taken = &rpc->taken;

    list_take(&rpc->sent, taken);
    while (!list_empty(taken)) {
        struct rpc_reply *reply = CONTAINER_OF(list_pop_front(taken), struct rpc_reply, link);

        reply->sent(reply);
    }
    list_take(&rpc->completed, taken);
    while (!list_empty(taken)) {
        rpc_call_finish(CONTAINER_OF(list_pop_front(taken), struct rpc_call, link));
    }
    list_take(&rpc->cancelled, taken);
    while (!list_empty(taken)) {
        struct rpc_served *served =
            CONTAINER_OF(list_pop_front(taken), struct rpc_served, cancel_link);

        if (served->base.on_cancel != NULL) {
            served->base.on_cancel(&served->base);
        }
    }
    list_take(&rpc->stream_events, taken);
    while (!list_empty(taken)) {
        rpc_stream_event_run(CONTAINER_OF(list_pop_front(taken), struct rpc_stream, link));
    }
}

static void turn_round(struct rpc *rpc)
{
    struct list *taken = &rpc->taken;

    turn_completions(rpc);
    list_take(&rpc->link_events, taken);
    while (!list_empty(taken)) {
        rpc_link_told(CONTAINER_OF(list_pop_front(taken), struct rpc_link, event_link));
    }
    list_take(&rpc->dirty, taken);
    while (!list_empty(taken)) {
        struct rpc_conn *conn = CONTAINER_OF(list_pop_front(taken), struct rpc_conn, dirty_link);

        if (conn->broken) {
            rpc_conn_fail(conn, RC_IO, "cannot seal");
        } else {
            rpc_conn_flush(conn);
        }
    }
}

static void rpc_reap(struct rpc *rpc)
{
    struct list *at = rpc->conns.next;

    while (at != &rpc->conns) {
        struct rpc_conn *conn = CONTAINER_OF(at, struct rpc_conn, link);

        at = at->next;
        if (rpc_conn_reapable(conn)) {
            rpc_conn_free(conn);
        }
    }
    at = rpc->peers.next;
    while (at != &rpc->peers) {
        struct rpc_peer *peer = CONTAINER_OF(at, struct rpc_peer, link);

        at = at->next;
        if (rpc_peer_reap(peer)) {
            at = rpc->peers.next; /* its owner may have closed others */
        }
    }
}

void rpc_leave(struct rpc *rpc)
{
    ASSERT(rpc->depth > 0);
    if (rpc->depth > 1) {
        rpc->depth -= 1;
        return;
    }
    for (uint32_t round = 0; round < TURN_ROUNDS && rpc_has_work(rpc); round++) {
        turn_round(rpc);
    }
    if (rpc->reap) {
        rpc->reap = false;
        rpc_reap(rpc);
    }
    rpc->depth = 0;
    if (rpc_has_work(rpc) || rpc->reap) {
        rpc_turn_soon(rpc);
    } else if (rpc->closing && !rpc->posted && list_empty(&rpc->conns) &&
               list_empty(&rpc->listeners) && rpc->served_count == 0 && rpc->stream_count == 0) {
        rpc_free(rpc);
    }
}

static void rpc_on_post(struct env_post *post)
{
    struct rpc *rpc = CONTAINER_OF(post, struct rpc, post);

    rpc_enter(rpc);
    rpc->posted = false;
    rpc_leave(rpc);
}

/* ---- Refusals ---- */

void rpc_log_refused(struct rpc *rpc, const char *address, enum rc rc, const char *text)
{
    uint64_t now = rpc->now_ns;

    metric_add(METRIC_RPC_REFUSED, 0, 1);
    if (now - rpc->refusals_from_ns >= REFUSALS_WINDOW_S * RPC_NS_PER_S) {
        if (rpc->refusals > RPC_REFUSALS_PER_MINUTE) {
            LOG_WARN("rpc_refused_more", "count=%u", rpc->refusals - RPC_REFUSALS_PER_MINUTE);
        }
        rpc->refusals_from_ns = now;
        rpc->refusals = 0;
    }
    rpc->refusals += 1;
    if (rpc->refusals <= RPC_REFUSALS_PER_MINUTE) {
        LOG_WARN("rpc_refused", "peer=%s rc=%s why=\"%s\"", address, rc_name(rc), text);
    }
}
