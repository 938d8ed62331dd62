/*
 * A node without an identity: asks the addresses it was given whether there is a cluster, and asks
 * that for ids. It never makes one.
 *
 *     CLUSTER_STATUS of each in turn -> a member? -> CLUSTER_JOIN -> ids -> identity -> member
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "metad/cluster/node_private.h"
#include "metad/store/message.h"

static const uint64_t WAIT_SAY_NS = 30ULL * 1000000000ULL;

static void text_of(ProtobufCBinaryData from, char *out, size_t room)
{
    (void)snprintf(out, room, "%.*s", (int)(from.len < room ? from.len : room - 1),
                   (const char *)from.data);
}

static void wait_why(struct node *node, const char *text)
{
    (void)snprintf(node->why, sizeof(node->why), "%s", text);
}

/* Somebody else leads: next time there. */
static void wait_follow(struct node *node, struct slice head, struct arena *arena)
{
    const Kist__ClusterHint *hint = message_unpack(arena, &kist__cluster_hint__descriptor, head);
    char address[ENV_ADDRESS_MAX];

    if (hint == NULL) {
        return;
    }
    if (hint->text.len > 0) {
        text_of(hint->text, node->why, sizeof(node->why));
    }
    text_of(hint->leader_address, address, sizeof(address));
    seeds_add(node, address);
    for (uint32_t i = 0; i < node->seed_count; i++) {
        if (address[0] != '\0' && strcmp(node->seed_addresses[i], address) == 0) {
            node->seed_next = i;
        }
    }
}

static void join_done(struct rpc_call *call)
{
    struct node *node = CONTAINER_OF(call, struct node, call);
    struct arena arena;

    node->calling = false;
    if (node->down_busy || node->state != NODE_JOINING) {
        return;
    }
    node->state = NODE_WAITING;
    arena_init(&arena);
    if (call->rc == RC_OK) {
        const Kist__ClusterForm *form =
            message_unpack(&arena, &kist__cluster_form__descriptor, call->reply_head);
        struct node_identity identity;

        if (form == NULL || !node_identity_from_form(form, &identity)) {
            wait_why(node, "the answer to a join cannot be read");
        } else {
            memcpy(identity.uuid, node->identity.uuid, NODE_UUID_BYTES);
            node->identity = identity;
            node_become_member(node);
        }
    } else {
        wait_why(node, rc_text(call->rc));
        wait_follow(node, call->reply_head, &arena);
    }
    arena_deinit(&arena);
}

static void join_ask(struct node *node, struct node_peer *seed)
{
    node_entry_message(&node->self, &node->self_node);
    kist__cluster_hello__init(&node->hello);
    node->hello.node = &node->self_node;
    node->call = (struct rpc_call){.method = RPC_CLUSTER_JOIN,
                                   .purpose = RPC_CONTROL,
                                   .message = &node->hello.base,
                                   .timeout_ms = NODE_JOIN_MS,
                                   .done = join_done};
    node->calling = true;
    node->state = NODE_JOINING;
    rpc_call(seed->rpc, &node->call);
}

static struct node_peer *seed_by_address(struct node *node, const char *address)
{
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        struct node_peer *seed = &node->seeds[i];

        if (seed->rpc != NULL && !seed->closing && strcmp(seed->address, address) == 0) {
            return seed;
        }
    }
    return NULL;
}

static void status_done(struct rpc_call *call)
{
    struct node *node = CONTAINER_OF(call, struct node, call);
    struct node_peer *seed = seed_by_address(node, node->called);
    const Kist__ClusterStatus *status = NULL;
    struct arena arena;

    node->calling = false;
    if (node->down_busy || node->state != NODE_WAITING) {
        return;
    }
    arena_init(&arena);
    if (call->rc == RC_OK) {
        status = message_unpack(&arena, &kist__cluster_status__descriptor, call->reply_head);
    }
    if (call->rc != RC_OK) {
        wait_why(node, rc_text(call->rc));
    } else if (status == NULL || status->state != NODE_MEMBER) {
        wait_why(node, "its peers wait too");
    } else if (seed != NULL) {
        join_ask(node, seed);
    }
    arena_deinit(&arena);
}

static void wait_ask(struct node *node)
{
    for (uint32_t i = 0; i < node->seed_count; i++) {
        struct node_peer *seed = &node->seeds[node->seed_next % node->seed_count];

        node->seed_next = (node->seed_next + 1) % node->seed_count;
        if (seed->rpc == NULL || seed->closing || !rpc_peer_up(seed->rpc, RPC_CONTROL)) {
            continue;
        }
        (void)snprintf(node->called, sizeof(node->called), "%s", seed->address);
        node->call = (struct rpc_call){.method = RPC_CLUSTER_STATUS,
                                       .purpose = RPC_CONTROL,
                                       .timeout_ms = NODE_CALL_MS,
                                       .done = status_done};
        node->calling = true;
        rpc_call(seed->rpc, &node->call);
        return;
    }
    wait_why(node,
             node->seed_count > 0 ? "none of its peers can be reached" : "it was given no peers");
}

void wait_tick(struct node *node)
{
    uint64_t now_ns = node->env->clock->mono_ns(node->env);

    seeds_open(node);
    if (!node->calling && node->state == NODE_WAITING) {
        wait_ask(node);
    }
    if (node->said_ns == 0 || now_ns - node->said_ns >= WAIT_SAY_NS) {
        node->said_ns = now_ns;
        LOG_INFO("node_waiting",
                 "for=\"kist admin cluster init, or a cluster to join\" peers=%u%s%s%s",
                 node->seed_count, node->why[0] != '\0' ? " because=\"" : "", node->why,
                 node->why[0] != '\0' ? "\"" : "");
    }
}
