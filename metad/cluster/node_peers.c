/* Connections to the other processes: members by their ids, and addresses where some may be found.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "metad/cluster/node_private.h"

static void peer_closed(void *owner)
{
    struct node_peer *peer = owner;
    struct node *node = peer->node;

    *peer = (struct node_peer){.node = node};
    if (!node->down_busy && node->state == NODE_MEMBER) {
        peers_sync(node);
    }
}

static void peer_close(struct node_peer *peer)
{
    if (peer->rpc == NULL || peer->closing) {
        return;
    }
    peer->closing = true;
    if (peer->id != 0 && peer->node->transport != NULL) {
        rpc_transport_set_peer(peer->node->transport, peer->id, NULL);
    }
    rpc_peer_close(peer->rpc, peer_closed);
}

/* An address told who is there: a member that has moved is found again. */
static void seed_found(struct node_peer *seed, const struct rpc_identity *who)
{
    struct node *node = seed->node;
    struct node_entry *entry =
        node->state == NODE_MEMBER ? node_table_find(&node->table, who->node_id) : NULL;
    struct node_peer *peer = entry != NULL ? peers_of(node, who->node_id) : NULL;

    if (peer == NULL || strcmp(peer->address, seed->address) == 0 ||
        rpc_peer_up(peer->rpc, RPC_CONTROL)) {
        return;
    }
    LOG_INFO("node_moved", "node=%llu address=%s", (unsigned long long)who->node_id, seed->address);
    (void)snprintf(entry->address, sizeof(entry->address), "%s", seed->address);
    (void)snprintf(peer->address, sizeof(peer->address), "%s", seed->address);
    rpc_peer_move(peer->rpc, peer->address);
}

static void peer_on_state(struct rpc_peer *rpc, enum rpc_purpose purpose, bool up,
                          const struct error *why)
{
    struct node_peer *peer = rpc_peer_owner(rpc);
    const struct rpc_identity *who = rpc_peer_identity(rpc);

    if (up && peer->id == 0 && who != NULL && !peer->closing) {
        seed_found(peer, who);
    }
    if (purpose == RPC_CONTROL && peer->id != 0) {
        LOG_INFO("node_link", "node=%llu address=%s up=%d%s%s%s", (unsigned long long)peer->id,
                 peer->address, up ? 1 : 0, up || why == NULL ? "" : " error=\"",
                 up || why == NULL ? "" : why->text, up || why == NULL ? "" : "\"");
    }
}

static void peer_open(struct node *node, struct node_peer *peer, uint64_t id, const char *address)
{
    const struct rpc_peer_options options = {
        .address = peer->address, .node_id = id, .owner = peer, .on_state = peer_on_state};

    ASSERT(peer->rpc == NULL);
    peer->node = node;
    peer->id = id;
    peer->closing = false;
    (void)snprintf(peer->address, sizeof(peer->address), "%s", address);
    peer->rpc = rpc_peer_open(node->rpc, &options);
    if (id != 0 && node->transport != NULL) {
        rpc_transport_set_peer(node->transport, id, peer->rpc);
    }
}

struct node_peer *peers_of(struct node *node, uint64_t id)
{
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        if (node->peers[i].rpc != NULL && !node->peers[i].closing && node->peers[i].id == id) {
            return &node->peers[i];
        }
    }
    return NULL;
}

static void peers_ensure(struct node *node, const struct node_entry *entry)
{
    struct node_peer *peer = peers_of(node, entry->id);

    if (peer != NULL) {
        if (strcmp(peer->address, entry->address) != 0) {
            (void)snprintf(peer->address, sizeof(peer->address), "%s", entry->address);
            rpc_peer_move(peer->rpc, peer->address);
        }
        return;
    }
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        if (node->peers[i].rpc == NULL) {
            peer_open(node, &node->peers[i], entry->id, entry->address);
            return;
        }
    }
}

void peers_sync(struct node *node)
{
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        struct node_peer *peer = &node->peers[i];

        if (peer->rpc != NULL && node_table_find(&node->table, peer->id) == NULL) {
            peer_close(peer);
        }
    }
    for (uint32_t i = 0; i < node->table.count; i++) {
        const struct node_entry *entry = &node->table.entries[i];

        if (entry->replica_id != 0) {
            rpc_transport_set_route(node->transport, entry->replica_id, entry->id);
        }
        if (entry->id != node->identity.node_id) {
            peers_ensure(node, entry);
        }
    }
}

void seeds_add(struct node *node, const char *address)
{
    if (address[0] == '\0' || strcmp(address, node->options.advertise) == 0 ||
        node->seed_count == NODE_PEERS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < node->seed_count; i++) {
        if (strcmp(node->seed_addresses[i], address) == 0) {
            return;
        }
    }
    (void)snprintf(node->seed_addresses[node->seed_count], ENV_ADDRESS_MAX, "%s", address);
    node->seed_count++;
}

void seeds_open(struct node *node)
{
    for (uint32_t i = 0; i < node->seed_count; i++) {
        if (node->seeds[i].rpc == NULL) {
            peer_open(node, &node->seeds[i], 0, node->seed_addresses[i]);
        }
    }
}

void seeds_close(struct node *node)
{
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        peer_close(&node->seeds[i]);
    }
}

bool peers_close(struct node *node)
{
    bool all = true;

    seeds_close(node);
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        peer_close(&node->peers[i]);
        all = all && node->peers[i].rpc == NULL && node->seeds[i].rpc == NULL;
    }
    return all;
}
