/* See transport.h. */
#include "metad/raft/transport.h"

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "metad/raft/replica_table.h"

enum {
    QUEUE_BYTES_MAX = 32 * 1024 * 1024,
    DELIVER_MAX = 256 /* messages of one turn of the loop */
};

struct local_message {
    struct list link;
    uint64_t group;
    uint64_t from;
    uint64_t to;
    size_t len;
    char bytes[];
};

struct local_transport {
    struct raft_transport base;
    struct env *env;
    struct env_post post;
    bool posted;
    struct list queue;
    size_t queue_bytes;
    struct replica_table replicas;
    void (*close_done)(void *owner);
    void *close_owner;
};

static void transport_post(struct local_transport *transport)
{
    if (!transport->posted) {
        transport->posted = true;
        transport->env->post(transport->env, &transport->post);
    }
}

static void transport_deliver(struct env_post *post)
{
    struct local_transport *transport = CONTAINER_OF(post, struct local_transport, post);

    transport->posted = false;
    for (uint32_t i = 0; i < DELIVER_MAX && !list_empty(&transport->queue); i++) {
        struct local_message *message =
            CONTAINER_OF(list_pop_front(&transport->queue), struct local_message, link);
        struct replica *replica =
            replica_table_find(&transport->replicas, message->group, message->to);

        transport->queue_bytes -= message->len;
        if (replica != NULL) {
            replica_receive(replica, message->from, slice_of(message->bytes, message->len));
        }
        mem_free(message);
    }
    if (!list_empty(&transport->queue)) {
        transport_post(transport);
    } else if (transport->close_done != NULL && !transport->posted) {
        void (*done)(void *owner) = transport->close_done;
        void *owner = transport->close_owner;

        mem_free(transport);
        done(owner);
    }
}

static void transport_send(struct raft_transport *base, uint64_t group, uint64_t from, uint64_t to,
                           struct slice bytes)
{
    struct local_transport *transport = CONTAINER_OF(base, struct local_transport, base);
    struct local_message *message = NULL;

    if (transport->queue_bytes + bytes.len > QUEUE_BYTES_MAX || transport->close_done != NULL) {
        return;
    }
    message = mem_alloc_raw(sizeof(*message) + bytes.len);
    list_init(&message->link);
    message->group = group;
    message->from = from;
    message->to = to;
    message->len = bytes.len;
    memcpy(message->bytes, bytes.data, bytes.len);
    transport->queue_bytes += bytes.len;
    list_push_back(&transport->queue, &message->link);
    transport_post(transport);
}

struct local_transport *local_transport_new(struct env *env)
{
    struct local_transport *transport = mem_alloc(sizeof(*transport));

    transport->base.send = transport_send;
    transport->env = env;
    transport->post.run = transport_deliver;
    list_init(&transport->queue);
    return transport;
}

void local_transport_close(struct local_transport *transport, void (*done)(void *owner),
                           void *owner)
{
    ASSERT(transport->replicas.count == 0 && done != NULL);
    transport->close_done = done;
    transport->close_owner = owner;
    transport_post(transport);
}

struct raft_transport *local_transport_base(struct local_transport *transport)
{
    return &transport->base;
}

void local_transport_add(struct local_transport *transport, uint64_t group, uint64_t id,
                         struct replica *replica)
{
    replica_table_add(&transport->replicas, group, id, replica);
}

void local_transport_remove(struct local_transport *transport, uint64_t group, uint64_t id)
{
    replica_table_remove(&transport->replicas, group, id);
}
