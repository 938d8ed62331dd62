/* See rpc_transport.h. */
#include "metad/raft/rpc_transport.h"

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/message.h"
#include "metad/raft/replica_table.h"

enum {
    ROUTES_MAX = 64,
    GATHER_BYTES_MAX = 256 * 1024, /* gathered frames leave at once beyond this */
    FRAME_KIND_AT = 5
};

struct transport_node {
    uint64_t id; /* 0: unused */
    uint64_t incarnation;
    struct rpc_peer *peer;
    struct buffer gathered; /* of this turn */
};

struct rpc_transport {
    struct raft_transport base;
    struct env *env;
    struct rpc *rpc;
    struct rpc_service service;
    struct env_post post;
    bool posted;
    struct transport_node nodes[RPC_TRANSPORT_NODES_MAX];
    struct {
        uint64_t replica_id;
        uint64_t node_id;
    } routes[ROUTES_MAX];
    uint32_t route_count;
    struct replica_table replicas;
    void (*close_done)(void *owner);
    void *close_owner;
};

static struct transport_node *node_find(struct rpc_transport *transport, uint64_t id)
{
    for (uint32_t i = 0; i < RPC_TRANSPORT_NODES_MAX; i++) {
        if (transport->nodes[i].id == id) {
            return &transport->nodes[i];
        }
    }
    return NULL;
}

/* Makes one; NULL: too many. */
static struct transport_node *node_reserve(struct rpc_transport *transport, uint64_t id)
{
    struct transport_node *node = node_find(transport, id);

    for (uint32_t i = 0; node == NULL && i < RPC_TRANSPORT_NODES_MAX; i++) {
        if (transport->nodes[i].peer == NULL) {
            node = &transport->nodes[i]; /* unused, or of a node that is gone */
            node->id = id;
            node->incarnation = 0;
            buffer_clear(&node->gathered);
        }
    }
    return node;
}

static struct transport_node *route_find(struct rpc_transport *transport, uint64_t replica_id)
{
    for (uint32_t i = 0; i < transport->route_count; i++) {
        if (transport->routes[i].replica_id == replica_id) {
            return node_find(transport, transport->routes[i].node_id);
        }
    }
    return NULL;
}

/* ---- Out ---- */

static void node_flush(struct transport_node *node)
{
    struct slice body = buffer_slice(&node->gathered);

    if (body.len > 0 && node->peer != NULL) {
        (void)rpc_send(node->peer, RPC_CONTROL, RPC_RAFT_MESSAGES, SLICE_EMPTY, &body, 1);
    }
    buffer_clear(&node->gathered);
}

static void transport_flush(struct env_post *post)
{
    struct rpc_transport *transport = CONTAINER_OF(post, struct rpc_transport, post);

    transport->posted = false;
    for (uint32_t i = 0; i < RPC_TRANSPORT_NODES_MAX; i++) {
        if (transport->nodes[i].id != 0) {
            node_flush(&transport->nodes[i]);
        }
    }
    if (transport->close_done != NULL) {
        void (*done)(void *owner) = transport->close_done;
        void *owner = transport->close_owner;

        for (uint32_t i = 0; i < RPC_TRANSPORT_NODES_MAX; i++) {
            buffer_deinit(&transport->nodes[i].gathered);
        }
        mem_free(transport);
        done(owner);
    }
}

static void transport_post(struct rpc_transport *transport)
{
    if (!transport->posted) {
        transport->posted = true;
        transport->env->post(transport->env, &transport->post);
    }
}

static void record_put(char out[RPC_TRANSPORT_RECORD_BYTES], uint64_t group, uint64_t from,
                       uint64_t to, size_t len)
{
    le64_put(out, group);
    le64_put(out + 8, from);
    le64_put(out + 16, to);
    le32_put(out + 24, (uint32_t)len);
}

/* A copy's frames go apart, so that they never delay a heartbeat. */
static bool frame_is_bulk(struct slice frame)
{
    return frame.len > FRAME_KIND_AT && (frame.data[FRAME_KIND_AT] == FRAME_SNAPSHOT_BEGIN ||
                                         frame.data[FRAME_KIND_AT] == FRAME_SNAPSHOT_CHUNK);
}

static void transport_send(struct raft_transport *base, uint64_t group, uint64_t from, uint64_t to,
                           struct slice bytes)
{
    struct rpc_transport *transport = CONTAINER_OF(base, struct rpc_transport, base);
    struct transport_node *node = route_find(transport, to);
    char record[RPC_TRANSPORT_RECORD_BYTES];

    ASSERT(bytes.len <= FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX);
    if (node == NULL || node->peer == NULL || transport->close_done != NULL) {
        return;
    }
    record_put(record, group, from, to, bytes.len);
    if (frame_is_bulk(bytes)) {
        (void)rpc_send(node->peer, RPC_BULK, RPC_RAFT_MESSAGES, slice_of(record, sizeof(record)),
                       &bytes, 1);
        return;
    }
    if (node->gathered.len + bytes.len > GATHER_BYTES_MAX) {
        node_flush(node);
    }
    if (bytes.len > GATHER_BYTES_MAX / 2) {
        const struct slice parts[] = {slice_of(record, sizeof(record)), bytes};

        node_flush(node); /* links keep their order */
        (void)rpc_send(node->peer, RPC_CONTROL, RPC_RAFT_MESSAGES, SLICE_EMPTY, parts, 2);
        return;
    }
    buffer_append(&node->gathered, slice_of(record, sizeof(record)));
    buffer_append(&node->gathered, bytes);
    transport_post(transport);
}

/* ---- In ---- */

bool rpc_transport_accepts(struct rpc_transport *transport, uint64_t node_id, uint64_t incarnation)
{
    struct transport_node *node = node_reserve(transport, node_id);

    if (node == NULL || node_id == 0) {
        return node_id != 0;
    }
    if (incarnation < node->incarnation) {
        return false;
    }
    node->incarnation = incarnation;
    return true;
}

bool rpc_transport_heard(struct rpc_transport *transport, uint64_t node_id)
{
    const struct transport_node *node = node_find(transport, node_id);

    return node != NULL && node->incarnation > 0;
}

static void deliver(struct rpc_transport *transport, const char *record, struct slice frame)
{
    struct replica *replica =
        replica_table_find(&transport->replicas, le64_get(record), le64_get(record + 16));

    if (replica != NULL) {
        replica_receive(replica, le64_get(record + 8), frame);
    }
}

static void transport_on_message(struct rpc_service *service, const struct rpc_message *message)
{
    struct rpc_transport *transport = CONTAINER_OF(service, struct rpc_transport, service);
    struct slice body = message->body;

    if (transport->close_done != NULL ||
        !rpc_transport_accepts(transport, message->from->node_id, message->from->incarnation)) {
        return;
    }
    if (message->head.len == RPC_TRANSPORT_RECORD_BYTES) { /* one frame, the whole body */
        if (le32_get(message->head.data + 24) == body.len) {
            deliver(transport, message->head.data, body);
        }
        return;
    }
    while (body.len >= RPC_TRANSPORT_RECORD_BYTES) {
        size_t len = le32_get(body.data + 24);

        if (len > body.len - RPC_TRANSPORT_RECORD_BYTES) {
            LOG_WARN("raft_message_malformed", "node=%llu",
                     (unsigned long long)message->from->node_id);
            return;
        }
        deliver(transport, body.data, slice_of(body.data + RPC_TRANSPORT_RECORD_BYTES, len));
        body = slice_after(body, RPC_TRANSPORT_RECORD_BYTES + len);
    }
}

/* ---- Life ---- */

struct rpc_transport *rpc_transport_new(struct env *env)
{
    struct rpc_transport *transport = mem_alloc(sizeof(*transport));

    transport->base.send = transport_send;
    transport->env = env;
    transport->post.run = transport_flush;
    transport->service.on_message = transport_on_message;
    for (uint32_t i = 0; i < RPC_TRANSPORT_NODES_MAX; i++) {
        buffer_init(&transport->nodes[i].gathered);
    }
    return transport;
}

void rpc_transport_serve(struct rpc_transport *transport, struct rpc *rpc)
{
    transport->rpc = rpc;
    rpc_serve(rpc, RPC_RAFT_MESSAGES, &transport->service);
}

void rpc_transport_close(struct rpc_transport *transport, void (*done)(void *owner), void *owner)
{
    ASSERT(transport->replicas.count == 0 && done != NULL);
    if (transport->rpc != NULL) {
        rpc_serve(transport->rpc, RPC_RAFT_MESSAGES, NULL);
    }
    transport->close_done = done;
    transport->close_owner = owner;
    transport_post(transport);
}

struct raft_transport *rpc_transport_base(struct rpc_transport *transport)
{
    return &transport->base;
}

void rpc_transport_add(struct rpc_transport *transport, uint64_t group, uint64_t id,
                       struct replica *replica)
{
    replica_table_add(&transport->replicas, group, id, replica);
}

void rpc_transport_remove(struct rpc_transport *transport, uint64_t group, uint64_t id)
{
    replica_table_remove(&transport->replicas, group, id);
}

void rpc_transport_set_peer(struct rpc_transport *transport, uint64_t node_id,
                            struct rpc_peer *peer)
{
    struct transport_node *node =
        peer != NULL ? node_reserve(transport, node_id) : node_find(transport, node_id);

    ASSERT(node_id != 0);
    if (node != NULL) {
        node->peer = peer;
        buffer_clear(&node->gathered);
    }
}

void rpc_transport_set_route(struct rpc_transport *transport, uint64_t replica_id, uint64_t node_id)
{
    for (uint32_t i = 0; i < transport->route_count; i++) {
        if (transport->routes[i].replica_id == replica_id) {
            transport->routes[i].node_id = node_id;
            return;
        }
    }
    if (transport->route_count == ROUTES_MAX) {
        /* Ids are never used again: the oldest is most likely of one that is gone. */
        memmove(&transport->routes[0], &transport->routes[1],
                (ROUTES_MAX - 1) * sizeof(transport->routes[0]));
        transport->route_count--;
    }
    transport->routes[transport->route_count].replica_id = replica_id;
    transport->routes[transport->route_count].node_id = node_id;
    transport->route_count++;
}
