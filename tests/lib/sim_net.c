/*
 * Addresses, listeners, connects of the simulated world, and the table of network calls; the bytes
 * move in sim_pipe.c. Addresses: "host:port"; the host is a node's name, or 127.0.0.1, [::1] and
 * localhost for the node itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim_pipe.h"

enum { NET_CONNECT_S = 3 };

struct sim_listener {
    struct list link; /* node->listeners */
    struct sim_node *node;
    struct env_listener *listener;
    char host[ENV_ADDRESS_MAX];
    uint16_t port;
    struct list backlog; /* struct net_backlog */
};

struct net_backlog {
    struct list link;
    struct sim_end *end;
};

struct net_connect {
    struct env_write *write;
    struct sim_end *end;
    char address[ENV_ADDRESS_MAX];
};

static struct sim_listener *listener_of(struct env_listener *listener)
{
    struct sim_listener *impl;

    memcpy(&impl, listener->reserved, sizeof(impl));
    ASSERT(impl != NULL);
    return impl;
}

/* ---- Addresses and listeners ---- */

static bool address_split(const char *address, char host[ENV_ADDRESS_MAX], uint16_t *port)
{
    const char *colon = strrchr(address, ':');
    char *end;
    unsigned long number;

    if (colon == NULL || (size_t)(colon - address) >= ENV_ADDRESS_MAX) {
        return false;
    }
    number = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || end == colon + 1 || number > 65535) {
        return false;
    }
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    *port = (uint16_t)number;
    return true;
}

static bool host_is_local(const char *host)
{
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "[::1]") == 0 ||
           strcmp(host, "localhost") == 0 || strcmp(host, "0.0.0.0") == 0 ||
           strcmp(host, "[::]") == 0;
}

static enum rc net_listen(struct env *env, struct env_listener *listener, const char *address,
                          struct error *error)
{
    struct sim_node *node = sim_node_of(env);
    struct sim_listener *impl = mem_alloc(sizeof(*impl));

    ASSERT(listener->on_accept != NULL && listener->on_close != NULL);
    if (!address_split(address, impl->host, &impl->port)) {
        mem_free(impl);
        return error_set(error, RC_INVALID, "listen on %s: not host:port", address);
    }
    if (impl->port == 0) {
        impl->port = node->sim->next_port++;
    }
    impl->node = node;
    impl->listener = listener;
    list_init(&impl->backlog);
    list_push_back(&node->listeners, &impl->link);
    memcpy(listener->reserved, &impl, sizeof(impl));
    return RC_OK;
}

static void net_listener_address(struct env *env, struct env_listener *listener,
                                 char out[ENV_ADDRESS_MAX])
{
    const struct sim_listener *impl = listener_of(listener);

    (void)env;
    (void)snprintf(out, ENV_ADDRESS_MAX, "%.60s:%u", impl->host, (unsigned)impl->port);
}

static void listener_closed_run(struct sim_event *event)
{
    struct env_listener *listener = event->subject;

    listener->on_close(listener);
}

static void backlog_drop(struct sim_listener *impl)
{
    while (!list_empty(&impl->backlog)) {
        struct net_backlog *item =
            CONTAINER_OF(list_pop_front(&impl->backlog), struct net_backlog, link);

        item->end->closed = true;
        (void)end_fly(item->end, FLIGHT_RST);
        mem_free(item);
    }
}

static void net_listener_close(struct env *env, struct env_listener *listener)
{
    struct sim_listener *impl = listener_of(listener);
    struct sim_node *node = sim_node_of(env);

    backlog_drop(impl);
    list_remove(&impl->link);
    mem_free(impl);
    memset(listener->reserved, 0, sizeof(impl));
    (void)sim_event_new(node->sim, node, 1, listener_closed_run, listener);
}

static struct sim_listener *listener_pick(struct sim_node *node, uint16_t port)
{
    struct sim_listener *picked = NULL;
    uint64_t count = 0;

    for (struct list *at = node->listeners.next; at != &node->listeners; at = at->next) {
        struct sim_listener *impl = CONTAINER_OF(at, struct sim_listener, link);

        if (impl->port == port) {
            count += 1;
            if (sim_below(node->sim, count) == 0) {
                picked = impl;
            }
        }
    }
    return picked;
}

static struct sim_node *node_by_host(struct sim_node *self, const char *host)
{
    struct sim *sim = self->sim;

    if (host_is_local(host)) {
        return self;
    }
    for (struct list *at = sim->nodes.next; at != &sim->nodes; at = at->next) {
        struct sim_node *node = CONTAINER_OF(at, struct sim_node, link);

        if (strcmp(node->name, host) == 0) {
            return node;
        }
    }
    return NULL;
}

static void accept_run(struct sim_event *event)
{
    struct env_listener *listener = event->subject;
    struct sim_listener *impl;

    memcpy(&impl, listener->reserved, sizeof(impl));
    if (impl != NULL && !list_empty(&impl->backlog)) {
        listener->on_accept(listener);
    }
}

static enum rc net_accept(struct env *env, struct env_listener *listener, struct env_stream *stream)
{
    struct sim_listener *impl = listener_of(listener);
    struct net_backlog *item;

    (void)env;
    if (list_empty(&impl->backlog)) {
        return RC_AGAIN;
    }
    ASSERT(stream->on_read != NULL && stream->on_close != NULL);
    item = CONTAINER_OF(list_pop_front(&impl->backlog), struct net_backlog, link);
    end_bind(stream, item->end);
    mem_free(item);
    return RC_OK;
}

/* ---- Connecting ---- */

static void connect_made(struct sim_end *end, struct sim_node *to, struct sim_listener *listener)
{
    struct sim_end *far = end_new(to);
    struct net_backlog *item = mem_alloc(sizeof(*item));

    far->peer = end;
    end->peer = far;
    (void)snprintf(far->address, sizeof(far->address), "%s:%u", end->node->name,
                   (unsigned)(20000 + end->sim->now % 20000));
    item->end = far;
    list_push_back(&listener->backlog, &item->link);
    (void)sim_event_new(end->sim, to, sim_between(end->sim, 1, 20 * SIM_US), accept_run,
                        listener->listener);
}

static void connect_run(struct sim_event *event)
{
    struct net_connect *connect = event->subject;
    struct sim_end *end = connect->end;
    char host[ENV_ADDRESS_MAX];
    uint16_t port = 0;
    struct sim_node *to = NULL;
    struct sim_listener *listener = NULL;
    enum rc rc = RC_IO;

    if (address_split(connect->address, host, &port)) {
        to = node_by_host(end->node, host);
    }
    if (to != NULL && !to->stopped && !sim_is_cut(end->node, to) && !sim_is_cut(to, end->node)) {
        listener = listener_pick(to, port);
    } else if (to != NULL) {
        rc = RC_TIMEOUT;
    }
    end->connect = NULL;
    if (listener != NULL) {
        connect_made(end, to, listener);
        rc = RC_OK;
    }
    if (rc != RC_OK) {
        end->reset = true;
    }
    end_write_complete(end->node, connect->write, rc);
    mem_free(connect);
}

static void connect_drop(struct sim_event *event)
{
    struct net_connect *connect = event->subject;

    connect->end->connect = NULL;
    mem_free(connect);
}

/* The stream is closed before it was connected. */
static void connect_cancel(struct sim_end *end)
{
    struct net_connect *connect;

    if (end->connect != NULL) {
        connect = end->connect->subject;
        end_write_complete(end->node, connect->write, RC_CANCELLED);
        mem_free(connect);
        end_event_stop(end->sim, &end->connect);
    }
}

static void net_connect(struct env *env, struct env_write *write, struct env_stream *stream,
                        const char *address)
{
    struct sim_node *node = sim_node_of(env);
    struct net_connect *connect = mem_alloc(sizeof(*connect));
    struct sim_event *event;
    char host[ENV_ADDRESS_MAX];
    uint16_t port;
    uint64_t delay = end_latency(node->sim);

    ASSERT(write->done != NULL && stream->on_read != NULL && stream->on_close != NULL);
    connect->write = write;
    connect->end = end_new(node);
    (void)snprintf(connect->address, sizeof(connect->address), "%s", address);
    (void)snprintf(connect->end->address, sizeof(connect->end->address), "%s", address);
    end_bind(stream, connect->end);
    if (address_split(address, host, &port)) {
        const struct sim_node *to = node_by_host(node, host);

        delay = to != NULL && (sim_is_cut(node, to) || sim_is_cut(to, node)) ? NET_CONNECT_S * SIM_S
                                                                             : delay;
    }
    event = sim_event_new(node->sim, node, delay, connect_run, connect);
    event->drop = connect_drop;
    connect->end->connect = event;
}

/* ---- The calls of an open stream ---- */

static void net_peer_address(struct env *env, struct env_stream *stream, char out[ENV_ADDRESS_MAX])
{
    (void)env;
    memcpy(out, end_of(stream)->address, ENV_ADDRESS_MAX);
}

static void net_read_start(struct env *env, struct env_stream *stream)
{
    struct sim_end *end = end_of(stream);

    (void)env;
    ASSERT(!end->closed);
    end->reading = true;
    end_deliver_soon(end);
}

static void net_read_stop(struct env *env, struct env_stream *stream)
{
    struct sim_end *end = end_of(stream);

    (void)env;
    end->reading = false;
    end_event_stop(end->sim, &end->deliver);
}

static size_t net_try_write(struct env *env, struct env_stream *stream, const struct slice *from,
                            size_t count)
{
    struct sim_end *end = end_of(stream);
    struct slice copy[ENV_WRITE_SLICES_MAX];

    (void)env;
    ASSERT(count <= ENV_WRITE_SLICES_MAX);
    ASSERT(list_empty(&end->writes) && !end->closed && !end->fin_wanted);
    if (end->reset || end->peer == NULL || count == 0) {
        return 0;
    }
    memcpy(copy, from, count * sizeof(struct slice));
    return end_send(end, copy, count);
}

static void net_write(struct env *env, struct env_write *write, struct env_stream *stream,
                      const struct slice *from, size_t count)
{
    struct sim_end *end = end_of(stream);
    struct net_write *item;

    (void)env;
    ASSERT(write->done != NULL && count <= ENV_WRITE_SLICES_MAX);
    ASSERT(!end->closed && !end->fin_wanted);
    if (end->reset) {
        end_write_complete(end->node, write, RC_IO);
        return;
    }
    item = mem_alloc(sizeof(*item));
    item->write = write;
    item->count = count;
    if (count > 0) {
        memcpy(item->from, from, count * sizeof(struct slice));
    }
    list_push_back(&end->writes, &item->link);
    end_pump_soon(end);
}

static void net_shutdown(struct env *env, struct env_stream *stream)
{
    struct sim_end *end = end_of(stream);

    (void)env;
    ASSERT(!end->closed);
    end->fin_wanted = true;
    end_pump_soon(end);
}

static void closed_run(struct sim_event *event)
{
    struct sim_end *end = event->subject;
    struct env_stream *stream = end->stream;

    end->stream = NULL;
    memset(stream->reserved, 0, sizeof(end));
    ends_release(end);
    stream->on_close(stream);
}

static void net_close(struct env *env, struct env_stream *stream)
{
    struct sim_end *end = end_of(stream);
    bool unread = end->inbox.len > 0;

    (void)env;
    ASSERT(!end->closed);
    end_event_stop(end->sim, &end->deliver);
    end_event_stop(end->sim, &end->pump);
    connect_cancel(end);
    end_writes_fail(end, RC_CANCELLED);
    end->closed = true;
    end->reading = false;
    if (end->peer != NULL && !end->reset) {
        if (unread) {
            (void)end_fly(end, FLIGHT_RST);
        } else if (!end->fin_sent) {
            end->fin_sent = true;
            (void)end_fly(end, FLIGHT_FIN);
        }
    }
    (void)sim_event_new(end->sim, end->node, 10 * SIM_US, closed_run, end);
}

/* ---- From outside ---- */

struct sim_net_faults *sim_net_faults(struct sim *sim)
{
    return &sim->net;
}

bool sim_is_cut(const struct sim_node *from, const struct sim_node *to)
{
    for (uint32_t i = 0; i < from->cut_count; i++) {
        if (from->cut[i] == to) {
            return true;
        }
    }
    return false;
}

static void cut_remove(struct sim_node *a, const struct sim_node *b)
{
    for (uint32_t i = 0; i < a->cut_count; i++) {
        if (a->cut[i] == b) {
            a->cut[i] = a->cut[--a->cut_count];
            return;
        }
    }
}

void sim_cut_way(struct sim_node *from, struct sim_node *to, bool cut)
{
    ASSERT(from != to);
    cut_remove(from, to);
    if (cut) {
        ASSERT(from->cut_count < SIM_CUTS_MAX);
        from->cut[from->cut_count++] = to;
    }
}

void sim_cut(struct sim_node *a, struct sim_node *b, bool cut)
{
    sim_cut_way(a, b, cut);
    sim_cut_way(b, a, cut);
}

uint32_t sim_open_streams(const struct sim_node *node)
{
    uint32_t count = 0;

    for (struct list *at = node->sim->ends.next; at != &node->sim->ends; at = at->next) {
        const struct sim_end *end = CONTAINER_OF(at, struct sim_end, link);

        count += end->node == node && end->stream != NULL;
    }
    return count;
}

void sim_net_crash(struct sim_node *node)
{
    while (!list_empty(&node->listeners)) {
        struct sim_listener *impl =
            CONTAINER_OF(list_pop_front(&node->listeners), struct sim_listener, link);

        backlog_drop(impl);
        mem_free(impl);
    }
    for (struct list *at = node->sim->ends.next; at != &node->sim->ends;) {
        struct sim_end *end = CONTAINER_OF(at, struct sim_end, link);

        at = at->next;
        if (end->node != node || (end->closed && end->stream == NULL)) {
            continue;
        }
        while (!list_empty(&end->writes)) {
            mem_free(CONTAINER_OF(list_pop_front(&end->writes), struct net_write, link));
        }
        end_event_stop(end->sim, &end->deliver);
        end_event_stop(end->sim, &end->pump);
        end->closed = true;
        end->stream = NULL; /* its memory is the dead program's */
        if (end->peer != NULL && !end->reset) {
            (void)end_fly(end, FLIGHT_RST);
        }
        end->reset = true;
    }
}

void sim_net_deinit(struct sim *sim)
{
    for (struct list *at = sim->nodes.next; at != &sim->nodes; at = at->next) {
        struct sim_node *node = CONTAINER_OF(at, struct sim_node, link);

        while (!list_empty(&node->listeners)) {
            struct sim_listener *impl =
                CONTAINER_OF(list_pop_front(&node->listeners), struct sim_listener, link);

            while (!list_empty(&impl->backlog)) {
                mem_free(CONTAINER_OF(list_pop_front(&impl->backlog), struct net_backlog, link));
            }
            mem_free(impl);
        }
    }
    while (!list_empty(&sim->ends)) {
        end_free(CONTAINER_OF(sim->ends.next, struct sim_end, link));
    }
}

const struct env_net sim_net = {
    .listen = net_listen,
    .listener_address = net_listener_address,
    .listener_close = net_listener_close,
    .accept = net_accept,
    .connect = net_connect,
    .peer_address = net_peer_address,
    .read_start = net_read_start,
    .read_stop = net_read_stop,
    .try_write = net_try_write,
    .write = net_write,
    .shutdown = net_shutdown,
    .close = net_close,
};
