/* Replicas on nodes: their disks, starts, crashes, and the links between them. */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/raft_world.h"

/* A message on its way. */
struct raft_message {
    struct sim_call call;
    struct raft_world *world;
    unsigned from;
    unsigned to;
    uint64_t from_id;
    uint64_t to_id;
    struct buffer bytes;
};

struct raft_node *node_by_id(struct raft_world *world, uint64_t id)
{
    for (unsigned i = 0; i < world->node_count; i++) {
        if (world->nodes[i].id == id) {
            return &world->nodes[i];
        }
    }
    return NULL;
}

struct raft_node *node_serving(struct raft_world *world)
{
    for (unsigned i = 0; i < world->node_count; i++) {
        struct raft_node *node = &world->nodes[i];

        if (node->replica != NULL && !node->closing && !sim_stopped(node->host) &&
            replica_state(node->replica) == REPLICA_SERVING) {
            return node;
        }
    }
    return NULL;
}

static void message_arrive(struct sim_call *call)
{
    struct raft_message *message = CONTAINER_OF(call, struct raft_message, call);
    struct raft_world *world = message->world;
    struct raft_node *to = &world->nodes[message->to];

    if (!world->cut[message->from][message->to] && to->replica != NULL && !to->closing &&
        to->id == message->to_id && !sim_stopped(to->host)) {
        replica_receive(to->replica, message->from_id, buffer_slice(&message->bytes));
    }
    buffer_deinit(&message->bytes);
    mem_free(message);
}

static void transport_send(struct raft_transport *transport, uint64_t group, uint64_t from,
                           uint64_t to, struct slice bytes)
{
    struct raft_node *node = CONTAINER_OF(transport, struct raft_node, transport);
    struct raft_world *world = node->world;
    const struct raft_node *peer = node_by_id(world, to);
    struct raft_message *message;
    uint64_t due;

    CHECK(group == RAFT_GROUP && from == node->id, "a message from %llu sent by %llu",
          (unsigned long long)from, (unsigned long long)node->id);
    world_count_up("messages", 1);
    if (peer == NULL || world->cut[node->number][peer->number] ||
        sim_chance(world->sim, world->drop_per_mille)) {
        return;
    }
    message = mem_alloc(sizeof(*message));
    *message = (struct raft_message){
        .call = {.run = message_arrive},
        .world = world,
        .from = node->number,
        .to = peer->number,
        .from_id = from,
        .to_id = to,
    };
    buffer_init(&message->bytes);
    buffer_append(&message->bytes, bytes);
    due = sim_now(world->sim) + 100 * SIM_US + sim_below(world->sim, world->latency_max_ns);
    if (due < world->link_due[node->number][peer->number]) {
        due = world->link_due[node->number][peer->number]; /* links are FIFO */
    }
    world->link_due[node->number][peer->number] = due;
    sim_call_at(world->sim, NULL, &message->call, due - sim_now(world->sim));
}

void node_watch(struct raft_node *node)
{
    struct raft_world *world = node->world;
    enum replica_state state;
    uint64_t term;

    if (node->replica == NULL || sim_stopped(node->host)) {
        return;
    }
    state = replica_state(node->replica);
    if (state != REPLICA_LEADER && state != REPLICA_SERVING) {
        return;
    }
    term = replica_term(node->replica);
    ASSERT(term < RAFT_TERM_MAX);
    if (world->leader[term] == 0) {
        world->leader[term] = node->id;
        world_count_up("terms with a leader", 1);
        world_trace(world->sim, "replica %llu leads term %llu", (unsigned long long)node->id,
                    (unsigned long long)term);
    }
    CHECK(world->leader[term] == node->id, "term %llu has two leaders, %llu and %llu",
          (unsigned long long)term, (unsigned long long)world->leader[term],
          (unsigned long long)node->id);
}

static void node_on_change(struct replica *replica, void *owner)
{
    struct raft_node *node = owner;

    if (node->replica == replica) {
        node_watch(node);
        if (replica_state(replica) == REPLICA_STOPPED) {
            world_trace(node->world->sim, "replica %llu stopped: %s", (unsigned long long)node->id,
                        replica_error(replica)->text);
        }
    }
}

void node_init(struct raft_world *world, unsigned number)
{
    struct raft_node *node = &world->nodes[number];
    char name[16];

    (void)snprintf(name, sizeof(name), "r%u", number);
    node->world = world;
    node->number = number;
    node->host = sim_node_new(world->sim, name);
    node->disk = sim_kv_disk_new(world->sim);
    node->id = world->next_id++;
    node->transport.send = transport_send;
    toy_init(&node->toy, world);
}

void node_start(struct raft_node *node)
{
    struct raft_world *world = node->world;
    struct replica_peer peers[RAFT_NODES_MAX];
    struct kv_options kv_options = {.write_ahead_log = true};
    struct error error = {.rc = RC_OK};
    struct replica_options options = {
        .machine = &node->toy.machine,
        .transport = &node->transport,
        .group = RAFT_GROUP,
        .replica_id = node->id,
        .bootstrap = peers,
        .log_bytes_max = 20000 + sim_below(world->sim, 60000),
        .owner = node,
        .on_change = node_on_change,
    };
    enum rc rc;

    ASSERT(node->replica == NULL);
    node->starts += 1;
    node->closing = false;
    sim_kv_fail_writes(node->disk, RC_OK,
                       0); /* a disk that failed was replaced by one that works */
    node->env = sim_env_new(node->host);
    log_store_kv_options(&kv_options);
    rc = sim_kv_open(&node->kv, node->disk, &kv_options, &error);
    CHECK(rc == RC_OK, "open kv: %s", error.text);
    rc = log_store_open(&node->log, node->env, node->kv, &error);
    CHECK(rc == RC_OK, "open log: %s", error.text);
    for (unsigned i = 0; node->first_member && i < world->first_members; i++) {
        peers[i] = (struct replica_peer){.replica_id = i + 1, .voter = true};
        options.bootstrap_count += 1;
    }
    options.env = node->env;
    options.log = node->log;
    rc = replica_open(&node->replica, &options, &error);
    CHECK(rc == RC_OK, "open replica %llu: %s", (unsigned long long)node->id, error.text);
    world_trace(world->sim, "replica %llu started, applied %llu", (unsigned long long)node->id,
                (unsigned long long)node->toy.now.applied);
    world_count_up("starts", 1);
}

void node_crash(struct raft_node *node, enum sim_crash how)
{
    world_trace(node->world->sim, "replica %llu crashes", (unsigned long long)node->id);
    sim_crash(node->host, how);
    sim_kv_fail_writes(node->disk, RC_OK, 0);
    sim_kv_crash(node->disk, how);
    toy_crash(&node->toy);
    node->replica = NULL;
    node->log = NULL;
    node->kv = NULL;
    node->closing = false;
    world_count_up("crashes", 1);
}

static void node_closed(void *owner)
{
    struct raft_node *node = owner;

    log_store_close(node->log); /* owns the kv */
    node->replica = NULL;
    node->log = NULL;
    node->kv = NULL;
    node->closing = false;
    world_trace(node->world->sim, "replica %llu closed", (unsigned long long)node->id);
    CHECK(node->toy.results == 0, "replica %llu kept %llu results", (unsigned long long)node->id,
          (unsigned long long)node->toy.results);
}

void node_close(struct raft_node *node)
{
    ASSERT(node->replica != NULL && !node->closing);
    node->closing = true;
    world_count_up("closes", 1);
    replica_close(node->replica, node_closed, node);
}

void node_renew(struct raft_node *node)
{
    ASSERT(node->replica == NULL);
    node->id = node->world->next_id++;
    node->disk = sim_kv_disk_new(node->world->sim);
    node->first_member = false;
    node->joined = false;
    toy_init(&node->toy, node->world);
}

static void restart_run(struct sim_call *call)
{
    struct raft_node *node = CONTAINER_OF(call, struct raft_node, restart);

    if (node->replica == NULL) {
        node_start(node);
    }
}

void node_restart_in(struct raft_node *node, uint64_t delay_ns)
{
    sim_call_stop(node->world->sim, &node->restart);
    node->restart.run = restart_run;
    sim_call_at(node->world->sim, NULL, &node->restart, delay_ns);
}
