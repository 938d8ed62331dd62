/* Listens, accepts up to a bound, and ends: idle connections at once, requests within their time.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "gateway/http/conn.h"

static void on_accept(struct env_listener *listener)
{
    struct http_server *server = CONTAINER_OF(listener, struct http_server, listener);
    enum rc rc = conn_accept(server);

    if (rc != RC_OK && rc != RC_AGAIN) {
        LOG_WARN("http_accept_failed", "rc=%s connections=%u", rc_name(rc), server->conn_count);
    }
}

static void server_finish(struct http_server *server)
{
    if (!server->draining || !server->listener_closed || server->conn_count > 0 ||
        server->on_closed == NULL) {
        return;
    }
    server->env->clock->timer_stop(server->env, &server->drain_timer);
    void (*done)(struct http_server *) = server->on_closed;
    server->on_closed = NULL;
    done(server);
    mem_free(server->scratch);
    mem_free(server);
}

void server_conn_gone(struct http_server *server)
{
    ASSERT(server->conn_count > 0);
    server->conn_count -= 1;
    server_finish(server);
}

static void on_listener_close(struct env_listener *listener)
{
    struct http_server *server = CONTAINER_OF(listener, struct http_server, listener);

    server->listener_closed = true;
    server_finish(server);
}

enum rc http_server_open(struct http_server **out, struct env *env,
                         const struct http_options *options, struct error *error)
{
    struct http_server *server;
    enum rc rc;

    ASSERT(options->on_request != NULL && options->connections_max > 0);
    ASSERT(options->idle_timeout_ms > 0 && options->header_timeout_ms > 0);
    ASSERT(options->body_timeout_ms > 0);
    *out = NULL;
    server = mem_alloc(sizeof(*server));
    server->env = env;
    server->options = *options;
    list_init(&server->conns);
    server->listener.on_accept = on_accept;
    server->listener.on_close = on_listener_close;
    rc = env->net->listen(env, &server->listener, options->address, error);
    if (rc != RC_OK) {
        mem_free(server);
        return rc;
    }
    server->options.address = NULL; /* only borrowed */
    if (options->tls != NULL) {
        server->scratch = mem_alloc_raw(WIRE_SCRATCH_BYTES);
    }
    env->net->listener_address(env, &server->listener, server->address);
    *out = server;
    return RC_OK;
}

void *http_server_user(const struct http_server *server)
{
    return server->options.user;
}

void http_server_address(struct http_server *server, char out[ENV_ADDRESS_MAX])
{
    memcpy(out, server->address, ENV_ADDRESS_MAX);
}

uint32_t http_server_connections(const struct http_server *server)
{
    return server->conn_count;
}

/* Calls `each` for all connections there are now. None is freed meanwhile: that takes an on_close.
 */
static void server_each(struct http_server *server, void (*each)(struct conn *conn))
{
    struct list *link = server->conns.next;

    while (link != &server->conns) {
        struct list *next = link->next;

        each(CONTAINER_OF(link, struct conn, link));
        link = next;
    }
}

static void cut(struct conn *conn)
{
    conn_cut(conn, RC_TIMEOUT);
}

static void on_drained(struct env_timer *timer)
{
    struct http_server *server = CONTAINER_OF(timer, struct http_server, drain_timer);

    server_each(server, cut);
}

void http_server_close(struct http_server *server, uint64_t drain_ms,
                       void (*done)(struct http_server *server))
{
    struct env *env = server->env;

    ASSERT(!server->draining && done != NULL);
    server->draining = true;
    server->on_closed = done;
    env->net->listener_close(env, &server->listener);
    server->drain_timer.fire = on_drained;
    env->clock->timer_start(env, &server->drain_timer, drain_ms * 1000000);
    server_each(server, conn_close_idle);
}
