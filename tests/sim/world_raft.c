/*
 * World "raft": a group of one to five replicas and some spare nodes.
 *
 *     safety (faults on, checks on every entry, answer and read) -> heal -> liveness (all catch up)
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/raft_world.h"

enum { RAFT_FAULTS_S = 30, RAFT_HEAL_S = 60 };

static bool all_caught_up(void *arg)
{
    struct raft_world *world = arg;
    struct raft_node *leader = node_serving(world);
    struct replica_peer peers[RAFT_NODES_MAX + 4];
    uint32_t count;

    if (leader == NULL) {
        return false;
    }
    count = replica_members(leader->replica, peers, RAFT_NODES_MAX + 4);
    for (uint32_t i = 0; i < count; i++) {
        const struct raft_node *node = node_by_id(world, peers[i].replica_id);

        if (node == NULL) {
            continue; /* its directory is lost; the others carry on */
        }
        if (node->replica == NULL || node->toy.now.applied < world->applied_max) {
            return false;
        }
    }
    return leader->toy.now.applied == world->applied_max;
}

static bool op_is_done(void *arg)
{
    const struct raft_op *op = arg;

    return op->fate != OP_PENDING;
}

static bool is_serving(void *arg)
{
    return node_serving(arg) != NULL;
}

static void check_liveness(struct raft_world *world)
{
    bool written = false;

    CHECK(sim_run_until(world->sim, is_serving, world, RAFT_HEAL_S * SIM_S),
          "no leader %d s after everything was healed", RAFT_HEAL_S);
    for (unsigned i = 0; i < 20 && !written; i++) {
        struct raft_op *op;

        CHECK(sim_run_until(world->sim, is_serving, world, RAFT_HEAL_S * SIM_S),
              "the leader is gone and no other comes");
        op = client_propose(world, node_serving(world));
        CHECK(sim_run_until(world->sim, op_is_done, op, 20 * SIM_S),
              "a proposal is not answered for 20 s in a healthy group");
        written = op->fate == OP_DONE;
    }
    CHECK(written, "no write succeeds in a healthy group");
    CHECK(sim_run_until(world->sim, all_caught_up, world, RAFT_HEAL_S * SIM_S),
          "not all members catch up in a healthy group");
}

static void check_equal(struct raft_world *world)
{
    const struct raft_node *leader = node_serving(world);

    for (unsigned i = 0; i < world->node_count; i++) {
        const struct raft_node *node = &world->nodes[i];

        if (node->replica != NULL && node->toy.now.applied == leader->toy.now.applied) {
            CHECK(node->toy.now.hash == leader->toy.now.hash, "replicas %llu and %llu differ",
                  (unsigned long long)node->id, (unsigned long long)leader->id);
        }
    }
}

void world_raft(uint64_t seed)
{
    static const unsigned sizes[] = {1, 2, 3, 3, 3, 5};
    struct raft_world *world = mem_alloc(sizeof(*world));

    world->sim = sim_new(seed);
    world->next_id = 1;
    world->latency_max_ns = 2 * SIM_MS;
    world->first_members = sizes[sim_below(world->sim, ARRAY_LEN(sizes))];
    world->node_count = world->first_members + (world->first_members >= 3 ? 1 : 0);
    for (unsigned i = 0; i < world->node_count; i++) {
        node_init(world, i);
        world->nodes[i].first_member = i < world->first_members;
        node_restart_in(&world->nodes[i], sim_below(world->sim, SIM_S));
    }
    client_start(world);
    faults_start(world);
    sim_run_for(world->sim, RAFT_FAULTS_S * SIM_S);
    faults_heal(world);
    client_stop(world);
    sim_run_for(world->sim, 10 * SIM_S);
    check_liveness(world);
    check_equal(world);
    client_check_end(world);
    world_count_up("entries", world->applied_max);
    CHECK(world->acked > 0, "nothing was ever written");
}
