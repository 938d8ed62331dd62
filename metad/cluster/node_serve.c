/* What a node answers others about the cluster (proto/cluster.proto). */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/log/log.h"
#include "metad/cluster/node_private.h"
#include "metad/store/message.h"

static void serve_reply(struct rpc_request *request, enum rc rc, const ProtobufCMessage *message)
{
    struct rpc_reply reply = {.rc = rc, .message = message};

    rpc_reply(request, &reply);
}

/* Not here, or not so: says where, or why. */
void serve_hint(struct node *node, struct rpc_request *request, enum rc rc, const char *text)
{
    Kist__ClusterHint hint = KIST__CLUSTER_HINT__INIT;
    struct node_leader leader;

    if (node_leader(node, &leader)) {
        hint.leader_id = leader.node_id;
        hint.leader_address = message_field(slice_str(leader.address));
    }
    hint.text = message_field(slice_str(text));
    serve_reply(request, rc, &hint.base);
}

/* ---- Status ---- */

static void status_replica(struct node *node, struct arena *arena, Kist__ClusterStatus *out)
{
    const struct replica *replica = node_replica(node);
    struct replica_peer members[NODE_TABLE_MAX];
    uint32_t count;

    if (replica == NULL) {
        return;
    }
    out->term = replica_term(replica);
    out->applied = replica_applied(replica);
    out->last_index = replica_last_index(replica);
    count = replica_members(replica, members, NODE_TABLE_MAX);
    out->members = arena_alloc(arena, (count + 1) * sizeof(*out->members));
    out->n_members = count;
    for (uint32_t i = 0; i < count; i++) {
        out->members[i] = arena_alloc(arena, sizeof(Kist__ClusterMember));
        kist__cluster_member__init(out->members[i]);
        out->members[i]->replica_id = members[i].replica_id;
        out->members[i]->voter = members[i].voter;
    }
}

static void serve_status(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.status);
    Kist__ClusterStatus status = KIST__CLUSTER_STATUS__INIT;
    struct node_leader leader;
    struct arena arena;

    arena_init(&arena);
    status.state =
        node->state == NODE_JOINING && node->transport == NULL && node->identity.node_id == 0
            ? NODE_WAITING
            : node->state;
    status.name = message_field(slice_str(node->options.name));
    status.address = message_field(slice_str(node->options.advertise));
    status.release = message_field(slice_str(KIST_VERSION));
    status.error = message_field(slice_str(node->why));
    status.incarnation = node->incarnation;
    status.wall_ns = node->env->clock->wall_ns(node->env);
    if (node->identity.node_id != 0) {
        status.cluster_id =
            message_field(slice_of(node->identity.cluster_id, RPC_CLUSTER_ID_BYTES));
        status.cluster_epoch = node->identity.cluster_epoch;
        status.node_id = node->identity.node_id;
        status.nodes = node_table_messages(&node->table, &arena);
        status.n_nodes = node->table.count;
    }
    if (node_leader(node, &leader)) {
        status.leader_id = leader.node_id;
        status.leader_address = message_field(slice_str(leader.address));
        status.serving = leader.self;
    }
    status_replica(node, &arena, &status);
    serve_reply(request, RC_OK, &status.base);
    arena_deinit(&arena);
}

/* ---- Init ---- */

static void serve_form(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.form);
    struct node_identity identity;
    const Kist__ClusterForm *form;
    const struct node_entry *self = NULL;
    struct arena arena;

    arena_init(&arena);
    form = message_unpack(&arena, &kist__cluster_form__descriptor, request->head);
    if (node->state == NODE_MEMBER || node->identity.node_id != 0) {
        serve_hint(node, request, RC_EXISTS, "it is of a cluster already");
    } else if (node->state != NODE_WAITING || node->down_busy) {
        serve_hint(node, request, RC_BUSY, "it is joining a cluster");
    } else if (form == NULL || !node_identity_from_form(form, &identity)) {
        serve_hint(node, request, RC_INVALID, "not a list of members");
    } else {
        self = node_table_find(&identity.table, identity.node_id);
        if (strcmp(self->address, node->options.advertise) != 0) {
            serve_hint(node, request, RC_INVALID, "its address is another");
        } else {
            memcpy(identity.uuid, node->identity.uuid, NODE_UUID_BYTES);
            identity.founder = true;
            node->identity = identity;
            node_become_member(node);
            rpc_reply_rc(request, node->failed ? RC_IO : RC_OK);
        }
    }
    arena_deinit(&arena);
}

static void serve_invite(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.invite);
    const Kist__ClusterChange *call;
    struct arena arena;

    arena_init(&arena);
    call = message_unpack(&arena, &kist__cluster_change__descriptor, request->head);
    if (node->state != NODE_WAITING) {
        serve_hint(node, request, RC_EXISTS, "it is of a cluster already");
    } else if (call == NULL || call->n_peers == 0 || call->n_peers > NODE_PEERS_MAX) {
        serve_hint(node, request, RC_INVALID, "no peers");
    } else {
        for (size_t i = 0; i < call->n_peers; i++) {
            struct slice text = arena_copy(&arena, message_bytes(call->peers[i]));

            if (text.len > 0 && text.len < ENV_ADDRESS_MAX) {
                seeds_add(node, text.data);
            }
        }
        rpc_reply_rc(request, RC_OK);
    }
    arena_deinit(&arena);
}

/* ---- To the leader ---- */

void serve_reply_form(struct node *node, struct rpc_request *request,
                      const struct node_entry *entry)
{
    Kist__ClusterForm form = KIST__CLUSTER_FORM__INIT;
    struct node_table table = node->table;
    struct arena arena;

    arena_init(&arena);
    if (node_table_find(&table, entry->id) == NULL && table.count < NODE_TABLE_MAX) {
        table.entries[table.count++] = *entry;
    }
    form.cluster_id = message_field(slice_of(node->identity.cluster_id, RPC_CLUSTER_ID_BYTES));
    form.cluster_epoch = node->identity.cluster_epoch;
    form.node_id = entry->id;
    form.replica_id = entry->replica_id;
    form.nodes = node_table_messages(&table, &arena);
    form.n_nodes = table.count;
    serve_reply(request, RC_OK, &form.base);
    arena_deinit(&arena);
}

static void join_queue(struct node *node, struct rpc_request *request,
                       const struct node_entry *entry)
{
    struct lead *lead = &node->lead;

    for (uint32_t i = 0; i < NODE_JOINS_MAX; i++) {
        if (lead->joins_waiting[i].request == NULL) {
            lead->joins_waiting[i] = (struct node_ask){.request = request, .entry = *entry};
            lead_tick(node);
            return;
        }
    }
    serve_hint(node, request, RC_BUSY, "too many join at once");
}

/* The row of an emptied directory's address leaves. False: refused, and answered. */
static bool join_replaces(struct node *node, struct rpc_request *request,
                          const struct node_entry *entry)
{
    struct node_entry *old = node_table_find_address(&node->table, entry->address);
    const struct node_peer *peer = old != NULL ? peers_of(node, old->id) : NULL;
    struct node_entry leaves;

    if (old == NULL || old->state == NODE_ROW_LEAVES) {
        return true;
    }
    if (old->id == node->identity.node_id ||
        (peer != NULL && rpc_peer_up(peer->rpc, RPC_CONTROL))) {
        serve_hint(node, request, RC_EXISTS, "its address is that of a member that runs");
        return false;
    }
    if (!old->has_row ||
        (old->incarnation == 0 && !rpc_transport_heard(node->transport, old->id))) {
        serve_hint(node, request, RC_BUSY, "it is a first member that waits for init");
        return false;
    }
    LOG_WARN("node_replaced", "node=%llu address=%s", (unsigned long long)old->id, old->address);
    leaves = *old;
    leaves.state = NODE_ROW_LEAVES;
    lead_hello(node, &leaves);
    return true;
}

static void serve_join(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.join);
    const Kist__ClusterHello *call;
    struct node_entry entry;
    struct node_entry *known = NULL;
    struct arena arena;

    arena_init(&arena);
    call = message_unpack(&arena, &kist__cluster_hello__descriptor, request->head);
    if (!node_serving(node)) {
        serve_hint(node, request, RC_NOT_LEADER, "the cluster has no leader yet");
    } else if (call == NULL || call->node == NULL || !node_entry_read(call->node, &entry)) {
        serve_hint(node, request, RC_INVALID, "not a node");
    } else {
        for (uint32_t i = 0; i < node->table.count; i++) {
            if (memcmp(node->table.entries[i].uuid, entry.uuid, NODE_UUID_BYTES) == 0) {
                known = &node->table.entries[i];
            }
        }
        if (known != NULL) {
            serve_reply_form(node, request, known); /* its answer was lost */
        } else if (node->table.count >= NODE_TABLE_MAX) {
            serve_hint(node, request, RC_LIMIT, "the cluster has too many nodes");
        } else if (join_replaces(node, request, &entry)) {
            join_queue(node, request, &entry);
        }
    }
    arena_deinit(&arena);
}

static void serve_hello(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.hello);
    const Kist__ClusterHello *call;
    struct node_entry entry;
    const struct node_entry *known;
    struct arena arena;

    arena_init(&arena);
    call = message_unpack(&arena, &kist__cluster_hello__descriptor, request->head);
    if (!node_serving(node)) {
        serve_hint(node, request, RC_NOT_LEADER, "");
    } else if (call == NULL || call->node == NULL || !node_entry_read(call->node, &entry)) {
        serve_hint(node, request, RC_INVALID, "not a node");
    } else {
        known = node_table_find(&node->table, entry.id);
        if (known == NULL) {
            /* A table that is behind would send a member away: only what was read since it leads
             * counts. */
            serve_hint(node, request, node->rows_busy || node->rows_stale ? RC_BUSY : RC_NOT_FOUND,
                       "no such node");
        } else if (entry.incarnation < known->incarnation) {
            serve_hint(node, request, RC_STALE, "a later process of this node runs");
        } else {
            entry.state = known->state;
            lead_hello(node, &entry);
            rpc_reply_rc(request, RC_OK);
        }
    }
    arena_deinit(&arena);
}

static void change_remove(struct node *node, struct rpc_request *request, uint64_t id)
{
    const struct node_entry *known = node_table_find(&node->table, id);
    struct lead *lead = &node->lead;

    if (known == NULL) {
        serve_hint(node, request, RC_NOT_FOUND, "no such node");
    } else if (node->table.count == 1) {
        serve_hint(node, request, RC_INVALID, "it is the only one");
    } else if (known->state == NODE_ROW_LEAVES) {
        rpc_reply_rc(request, RC_OK);
    } else if (lead->leaving.request != NULL) {
        serve_hint(node, request, RC_BUSY, "another one is being removed");
    } else {
        lead->leaving = (struct node_ask){.request = request, .entry = *known};
        lead->leaving.entry.state = NODE_ROW_LEAVES;
        lead_tick(node);
    }
}

static void serve_change(struct rpc_service *service, struct rpc_request *request)
{
    struct node *node = CONTAINER_OF(service, struct node, services.change);
    const Kist__ClusterChange *call;
    struct arena arena;

    arena_init(&arena);
    call = message_unpack(&arena, &kist__cluster_change__descriptor, request->head);
    if (!node_serving(node)) {
        serve_hint(node, request, RC_NOT_LEADER, "");
    } else if (call == NULL) {
        serve_hint(node, request, RC_INVALID, "not a change");
    } else if (call->kind == CLUSTER_REMOVE) {
        change_remove(node, request, call->node_id);
    } else if (call->kind == CLUSTER_TRANSFER) {
        LOG_INFO("node_transfer", "node=%llu", (unsigned long long)node->identity.node_id);
        replica_transfer(node_replica(node));
        rpc_reply_rc(request, RC_OK);
    } else {
        serve_hint(node, request, RC_UNSUPPORTED, "no such change");
    }
    arena_deinit(&arena);
}

/* ---- Begin, end ---- */

void serve_begin(struct node *node)
{
    node->services.status.on_request = serve_status;
    node->services.form.on_request = serve_form;
    node->services.join.on_request = serve_join;
    node->services.hello.on_request = serve_hello;
    node->services.change.on_request = serve_change;
    node->services.invite.on_request = serve_invite;
    node->services.clock.on_request = node_clock_serve;
    rpc_serve(node->rpc, RPC_CLUSTER_STATUS, &node->services.status);
    rpc_serve(node->rpc, RPC_CLUSTER_FORM, &node->services.form);
    rpc_serve(node->rpc, RPC_CLUSTER_JOIN, &node->services.join);
    rpc_serve(node->rpc, RPC_CLUSTER_HELLO, &node->services.hello);
    rpc_serve(node->rpc, RPC_CLUSTER_CHANGE, &node->services.change);
    rpc_serve(node->rpc, RPC_CLUSTER_INVITE, &node->services.invite);
    rpc_serve(node->rpc, RPC_CLUSTER_CLOCK, &node->services.clock);
}

void serve_end(struct node *node)
{
    static const enum rpc_method methods[] = {
        RPC_CLUSTER_STATUS, RPC_CLUSTER_FORM,   RPC_CLUSTER_JOIN, RPC_CLUSTER_HELLO,
        RPC_CLUSTER_CHANGE, RPC_CLUSTER_INVITE, RPC_CLUSTER_CLOCK};
    struct lead *lead = &node->lead;

    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        rpc_serve(node->rpc, methods[i], NULL);
    }
    for (uint32_t i = 0; i < NODE_JOINS_MAX; i++) {
        if (lead->joins_waiting[i].request != NULL) {
            serve_hint(node, lead->joins_waiting[i].request, RC_NOT_LEADER, "it stops");
            lead->joins_waiting[i].request = NULL;
        }
    }
    if (lead->leaving.request != NULL) {
        serve_hint(node, lead->leaving.request, RC_NOT_LEADER, "it stops");
        lead->leaving.request = NULL;
    }
}

void node_write_status(const struct node *node, struct buffer *out)
{
    static const char *const words[] = {"starting", "waiting", "joining", "member", "closing"};
    struct node_leader leader;
    const struct replica *replica = node_replica(node);
    bool led = node_leader(node, &leader);

    buffer_printf(out, "{\"state\":\"%s\",\"node\":%llu,\"name\":\"%s\",\"address\":\"%s\"",
                  words[node->state], (unsigned long long)node->identity.node_id,
                  node->options.name, node->options.advertise);
    buffer_printf(out, ",\"leader\":%llu,\"serving\":%s,\"term\":%llu,\"applied\":%llu}\n",
                  (unsigned long long)(led ? leader.node_id : 0), leader.self ? "true" : "false",
                  (unsigned long long)(replica != NULL ? replica_term(replica) : 0),
                  (unsigned long long)(replica != NULL ? replica_applied(replica) : 0));
}
