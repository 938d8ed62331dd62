/* What goes wrong in the raft world. Never more at a time than a group is to survive for ever; any
 * number of replicas may be down for a while, because their disks keep what was synced. */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/raft_world.h"

static struct raft_node *fault_node(struct raft_world *world)
{
    return &world->nodes[sim_below(world->sim, world->node_count)];
}

static void fault_crash(struct raft_world *world)
{
    struct raft_node *node = fault_node(world);

    if (node->replica != NULL) {
        node_crash(node, sim_chance(world->sim, 500) ? SIM_POWER : SIM_KILL);
        node_restart_in(node, sim_below(world->sim, 3 * SIM_S));
    }
}

static void fault_crash_all(struct raft_world *world)
{
    for (unsigned i = 0; i < world->node_count; i++) {
        if (world->nodes[i].replica != NULL) {
            node_crash(&world->nodes[i], SIM_POWER);
            node_restart_in(&world->nodes[i], sim_below(world->sim, 2 * SIM_S));
        }
    }
}

static void fault_close(struct raft_world *world)
{
    struct raft_node *node = fault_node(world);

    if (node->replica != NULL && !node->closing) {
        node_close(node);
        node_restart_in(node, 1 * SIM_S + sim_below(world->sim, 3 * SIM_S));
    }
}

static void fault_partition(struct raft_world *world)
{
    struct raft_node *node = fault_node(world);
    bool one_way = sim_chance(world->sim, 300);

    for (unsigned i = 0; i < world->node_count; i++) {
        if (i != node->number) {
            world->cut[node->number][i] = true;
            world->cut[i][node->number] = !one_way;
        }
    }
    world_trace(world->sim, "replica %llu is cut off", (unsigned long long)node->id);
    world_count_up("partitions", 1);
}

static void fault_split(struct raft_world *world)
{
    uint64_t side = sim_random(world->sim);

    for (unsigned i = 0; i < world->node_count; i++) {
        for (unsigned j = 0; j < world->node_count; j++) {
            world->cut[i][j] = ((side >> i) & 1) != ((side >> j) & 1);
        }
    }
    world_count_up("partitions", 1);
}

static void fault_mend(struct raft_world *world)
{
    memset(world->cut, 0, sizeof(world->cut));
}

/* A sync of the log fails: every replica on that disk stops, loudly, until it is started again. */
static void fault_disk(struct raft_world *world)
{
    struct raft_node *node = fault_node(world);

    if (node->replica != NULL && !node->closing) {
        sim_kv_fail_writes(node->disk, RC_IO, 1 + sim_below(world->sim, 5));
        world_count_up("failing disks", 1);
    }
}

/* ---- Membership ---- */

struct fault_change {
    struct membership_change change;
    struct raft_world *world;
};

static void change_done(struct membership_change *change)
{
    struct fault_change *item = CONTAINER_OF(change, struct fault_change, change);

    item->world->change_pending = false;
    if (change->rc == RC_OK) {
        struct raft_node *node = node_by_id(item->world, change->replica_id);

        world_trace(item->world->sim, "membership change %d of %llu", (int)change->kind,
                    (unsigned long long)change->replica_id);
        world_count_up("membership changes", 1);
        if (node != NULL && change->kind == MEMBER_REMOVE && node->replica != NULL) {
            node_crash(node, SIM_KILL);
            node_renew(node);
            node_restart_in(node, 100 * SIM_MS);
        }
    }
    mem_free(item);
}

static void change_submit(struct raft_world *world, struct raft_node *leader, int kind, uint64_t id)
{
    struct fault_change *item = mem_alloc(sizeof(*item));

    item->world = world;
    item->change.done = change_done;
    item->change.replica_id = id;
    if (kind == 0) {
        item->change.kind = MEMBER_ADD_LEARNER;
    } else if (kind == 1) {
        item->change.kind = MEMBER_PROMOTE;
    } else {
        item->change.kind = MEMBER_REMOVE;
    }
    replica_change_membership(leader->replica, &item->change);
}

static void fault_member(struct raft_world *world)
{
    struct raft_node *leader = node_serving(world);
    struct replica_peer peers[RAFT_NODES_MAX + 4];
    uint32_t count;
    uint32_t voters = 0;

    if (leader == NULL) {
        return;
    }
    count = replica_members(leader->replica, peers, RAFT_NODES_MAX + 4);
    for (uint32_t i = 0; i < count; i++) {
        voters += peers[i].voter;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!peers[i].voter && sim_chance(world->sim, 700)) {
            change_submit(world, leader, 1, peers[i].replica_id);
            return;
        }
    }
    for (unsigned n = 0; n < world->node_count; n++) {
        bool member = false;

        for (uint32_t i = 0; i < count; i++) {
            member = member || peers[i].replica_id == world->nodes[n].id;
        }
        if (!member && world->nodes[n].replica != NULL && sim_chance(world->sim, 500)) {
            change_submit(world, leader, 0, world->nodes[n].id);
            return;
        }
    }
    if (voters >= 3 && voters == count) {
        uint64_t victim = peers[sim_below(world->sim, count)].replica_id;

        if (victim != leader->id) {
            change_submit(world, leader, 2, victim);
        }
    }
}

static void fault_run(struct sim_call *call)
{
    struct raft_world *world = CONTAINER_OF(call, struct raft_world, fault);
    uint64_t what = sim_below(world->sim, 100);

    if (what < 20) {
        fault_crash(world);
    } else if (what < 23) {
        fault_crash_all(world);
    } else if (what < 30) {
        fault_close(world);
    } else if (what < 42) {
        fault_partition(world);
    } else if (what < 48) {
        fault_split(world);
    } else if (what < 72) {
        fault_mend(world);
    } else if (what < 76) {
        fault_disk(world);
    } else if (what < 90) {
        fault_member(world);
    } else {
        world->drop_per_mille = sim_chance(world->sim, 500) ? 0 : 100;
        world->latency_max_ns = sim_chance(world->sim, 200) ? 100 * SIM_MS : 2 * SIM_MS;
    }
    for (unsigned i = 0; i < world->node_count; i++) {
        struct raft_node *node = &world->nodes[i];

        if (node->replica != NULL && !node->closing &&
            replica_state(node->replica) == REPLICA_STOPPED && sim_chance(world->sim, 500)) {
            node_crash(node, SIM_KILL);
            node_restart_in(node, sim_below(world->sim, SIM_S));
        }
    }
    sim_call_at(world->sim, NULL, &world->fault, sim_below(world->sim, 800 * SIM_MS));
}

void faults_start(struct raft_world *world)
{
    world->fault.run = fault_run;
    sim_call_at(world->sim, NULL, &world->fault, 2 * SIM_S);
}

/* Everything works again: from here on the group must get on by itself. */
void faults_heal(struct raft_world *world)
{
    sim_call_stop(world->sim, &world->fault);
    fault_mend(world);
    world->drop_per_mille = 0;
    world->latency_max_ns = 2 * SIM_MS;
    for (unsigned i = 0; i < world->node_count; i++) {
        struct raft_node *node = &world->nodes[i];

        sim_kv_fail_writes(node->disk, RC_OK, 0);
        if (node->replica != NULL && !node->closing &&
            replica_state(node->replica) == REPLICA_STOPPED) {
            node_crash(node, SIM_KILL);
        }
        node_restart_in(node, 5 * SIM_S);
    }
}
