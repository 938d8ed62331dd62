#include "common/meta_rpc/meta_remote.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/meta_rpc/remote_private.h"

/* ---- Nodes ---- */

static int node_add(struct meta_remote *remote, uint64_t node_id, const char *address)
{
    struct remote_node *node = &remote->nodes[remote->node_count];
    struct rpc_peer_options options = {
        .address = node->address, .node_id = node_id, .owner = remote};

    if (remote->node_count == META_REMOTE_NODES_MAX || strlen(address) >= sizeof(node->address)) {
        return -1;
    }
    (void)snprintf(node->address, sizeof(node->address), "%s", address);
    node->node_id = node_id;
    node->peer = rpc_peer_open(remote->rpc, &options);
    remote->node_count += 1;
    return (int)remote->node_count - 1;
}

static uint64_t node_id_of(const struct remote_node *node)
{
    const struct rpc_identity *identity = rpc_peer_identity(node->peer);

    return identity != NULL ? identity->node_id : node->node_id;
}

int remote_node_named(struct meta_remote *remote, uint64_t node_id, const char *address)
{
    for (uint32_t i = 0; i < remote->node_count; i++) {
        if (strcmp(remote->nodes[i].address, address) == 0) {
            return (int)i;
        }
    }
    for (uint32_t i = 0; node_id != 0 && i < remote->node_count; i++) {
        struct remote_node *node = &remote->nodes[i];

        if (node_id_of(node) != node_id || strlen(address) >= sizeof(node->address)) {
            continue;
        }
        if (node->node_id == node_id) {
            /* It was named to us before, under another address: it has moved. */
            (void)snprintf(node->address, sizeof(node->address), "%s", address);
            rpc_peer_move(node->peer, address);
        }
        return (int)i;
    }
    return node_add(remote, node_id, address);
}

/* ---- Life ---- */

struct meta_remote *meta_remote_open(const struct meta_remote_options *options)
{
    struct meta_remote *remote = mem_alloc(sizeof(*remote));

    ASSERT(options->address_count >= 1 && options->address_count <= META_REMOTE_NODES_MAX);
    remote->rpc = options->rpc;
    remote->env = rpc_env(options->rpc);
    remote->owner = options->owner;
    remote->on_open = options->on_open;
    remote->leader = -1;
    list_init(&remote->ops);
    list_init(&remote->refreshing);
    list_init(&remote->refreshes);
    remote_read_calls(&remote->base);
    remote->base.write = remote_write;
    remote->base.refresh = remote_refresh;
    remote->base.view = remote_view;
    remote->base.change_stamp = remote_change_stamp;
    remote->base.ready = remote_ready;
    for (uint32_t i = 0; i < options->address_count; i++) {
        (void)node_add(remote, 0, options->addresses[i]);
    }
    ASSERT(remote->node_count >= 1);
    remote->next = (uint32_t)(remote->env->random(remote->env) % remote->node_count);
    remote_view_open(remote);
    return remote;
}

struct meta_client *meta_remote_client(struct meta_remote *remote)
{
    return &remote->base;
}

void meta_remote_stats(const struct meta_remote *remote, struct meta_remote_stats *out)
{
    *out = remote->stats;
}

/* ---- Close ---- */

static void close_peer_done(void *owner)
{
    struct meta_remote *remote = owner;
    void (*done)(void *owner) = remote->close_done;
    void *close_owner = remote->owner;

    ASSERT(remote->closing_peers > 0);
    remote->closing_peers -= 1;
    if (remote->closing_peers > 0) {
        return;
    }
    remote_view_free(remote);
    mem_free(remote);
    done(close_owner);
}

void remote_close_go_on(struct meta_remote *remote)
{
    if (!remote->closing || !list_empty(&remote->ops) || remote->closing_peers > 0) {
        return;
    }
    remote->closing_peers = remote->node_count;
    for (uint32_t i = 0, count = remote->node_count; i < count; i++) {
        rpc_peer_close(remote->nodes[i].peer, close_peer_done);
    }
}

void meta_remote_close(struct meta_remote *remote, void (*done)(void *owner))
{
    ASSERT(!remote->closing);
    remote->closing = true;
    remote->close_done = done;
    remote_view_close(remote);
    remote_op_cancel_all(remote);
    remote_close_go_on(remote);
}
