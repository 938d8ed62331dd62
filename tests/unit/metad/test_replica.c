/* One replica and three: proposals, elections, restarts, in the simulated world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/lib/raft_world.h"

/* A group of one leads at once and answers what it applied: the path of every single-node store. */
static void single_applies_and_answers(void **state)
{
    struct raft_world world;

    (void)state;
    raft_world_init(&world, 1);
    raft_world_start(&world, 0, 1);
    assert_ptr_equal(raft_world_wait_leader(&world), &world.nodes[0]);
    for (uint64_t value = 1; value <= 100; value++) {
        assert_int_equal(raft_world_propose(&world.nodes[0], value), RC_OK);
    }
    assert_int_equal(replica_applied(world.nodes[0].replica), world.nodes[0].state.index);
    assert_true(replica_lease(world.nodes[0].replica, UINT64_MAX - 1));
    assert_int_equal(raft_world_read_index(&world.nodes[0]), RC_OK);
    raft_world_deinit(&world);
}

/* A clean stop flushes: the next start has nothing to apply again, and the log begins there. */
static void single_stop_flushes_and_trims(void **state)
{
    struct raft_world world;

    (void)state;
    raft_world_init(&world, 3);
    raft_world_start(&world, 0, 1);
    (void)raft_world_wait_leader(&world);
    for (uint64_t value = 1; value <= 10; value++) {
        assert_int_equal(raft_world_propose(&world.nodes[0], value), RC_OK);
    }
    raft_world_stop(&world, 0);
    assert_int_equal(world.nodes[0].flushed.index, world.nodes[0].state.index);
    raft_world_start(&world, 0, 0);
    (void)raft_world_wait_leader(&world);
    assert_int_equal(raft_world_propose(&world.nodes[0], 11), RC_OK);
    raft_world_deinit(&world);
}

/* A leader that is cut off says so: no lease, no answers, and in-doubt proposals are called in
 * doubt. */
static void cut_off_leader_admits_it(void **state)
{
    struct raft_world world;
    struct raft_world_node *old = NULL;

    (void)state;
    raft_world_init(&world, 5);
    for (uint32_t i = 0; i < 3; i++) {
        raft_world_start(&world, i, 3);
    }
    old = raft_world_wait_leader(&world);
    raft_world_run_ms(&world, 500);
    assert_true(replica_lease(old->replica, sim_now(world.sim)));
    world.sides[old->number] = 1;
    assert_int_equal(raft_world_propose(old, 7), RC_AMBIGUOUS);
    assert_false(replica_lease(old->replica, sim_now(world.sim)));
    assert_int_equal(raft_world_propose(old, 8), RC_NOT_LEADER);
    assert_int_equal(raft_world_read_index(old), RC_NOT_LEADER);
    world.sides[old->number] = 0;
    (void)raft_world_wait_leader(&world);
    assert_true(raft_world_wait_level(&world, 5000));
    raft_world_deinit(&world);
}

/* A clean stop hands over: the others need no election timeout to find a new leader. */
static void stop_hands_leadership_over(void **state)
{
    struct raft_world world;
    struct raft_world_node *old = NULL;
    uint64_t since = 0;

    (void)state;
    raft_world_init(&world, 6);
    for (uint32_t i = 0; i < 3; i++) {
        raft_world_start(&world, i, 3);
    }
    old = raft_world_wait_leader(&world);
    assert_int_equal(raft_world_propose(old, 1), RC_OK);
    raft_world_run_ms(&world, 300);
    since = sim_now(world.sim);
    raft_world_stop(&world, old->number);
    (void)raft_world_wait_leader(&world);
    assert_true(sim_now(world.sim) - since < 500 * SIM_MS);
    raft_world_deinit(&world);
}

/* An empty replica joins as a learner, is filled by a copy when the log was trimmed, and is
 * promoted. */
static void learner_is_filled_and_promoted(void **state)
{
    struct raft_world world;
    struct raft_world_node *leader = NULL;
    enum rc rc = RC_BUSY;

    (void)state;
    raft_world_init(&world, 7);
    world.log_bytes_max = 2000;
    raft_world_start(&world, 0, 1);
    leader = raft_world_wait_leader(&world);
    for (uint64_t value = 1; value <= 300; value++) {
        assert_int_equal(raft_world_propose(leader, value), RC_OK);
    }
    raft_world_start(&world, 1, 0);
    assert_int_equal(raft_world_change(leader, MEMBER_ADD_LEARNER, world.nodes[1].id), RC_OK);
    for (uint32_t i = 0; i < 200 && rc == RC_BUSY; i++) {
        rc = raft_world_change(leader, MEMBER_PROMOTE, world.nodes[1].id);
        raft_world_run_ms(&world, 50);
    }
    assert_int_equal(rc, RC_OK);
    assert_true(world.installs > 0);
    assert_true(raft_world_wait_level(&world, 5000));
    assert_int_equal(raft_world_propose(leader, 1000), RC_OK);
    assert_int_equal(raft_world_change(leader, MEMBER_REMOVE, world.nodes[1].id), RC_OK);
    assert_int_equal(raft_world_propose(leader, 1001), RC_OK);
    raft_world_deinit(&world);
}

/* The log of another replica, or of one that was removed, is never answered for. */
static void foreign_and_removed_ids_are_refused(void **state)
{
    struct raft_world world;
    struct error error = {.rc = RC_OK};

    (void)state;
    raft_world_init(&world, 8);
    raft_world_start(&world, 0, 1);
    (void)raft_world_wait_leader(&world);
    assert_int_equal(log_store_set_tombstone(world.nodes[0].log, RAFT_WORLD_GROUP, 50, &error),
                     RC_OK);
    raft_world_stop(&world, 0);
    assert_int_equal(raft_world_try_start(&world, 0, 0, &error), RC_STALE);
    world.nodes[0].id = 60;
    assert_int_equal(raft_world_try_start(&world, 0, 0, &error), RC_STALE);
    raft_world_deinit(&world);
}

/* A failed sync stops the replica: nobody knows what the disk holds. */
static void failed_write_stops_the_replica(void **state)
{
    struct raft_world world;
    struct raft_world_node *node = NULL;

    (void)state;
    raft_world_init(&world, 9);
    raft_world_start(&world, 0, 1);
    node = raft_world_wait_leader(&world);
    sim_kv_fail_writes(node->disk, RC_IO, 1);
    assert_int_equal(raft_world_propose(node, 1), RC_AMBIGUOUS);
    assert_int_equal(replica_state(node->replica), REPLICA_STOPPED);
    assert_int_equal(replica_error(node->replica)->rc, RC_IO);
    assert_int_equal(raft_world_propose(node, 2), RC_NOT_LEADER);
    sim_kv_fail_writes(node->disk, RC_OK, 1);
    raft_world_deinit(&world);
}

/* Proposals are refused before the disk is so full that a failed write would stop the replica. */
static void full_disk_refuses_proposals(void **state)
{
    struct raft_world world;
    struct raft_world_node *node = NULL;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;

    (void)state;
    raft_world_init(&world, 10);
    raft_world_start(&world, 0, 1);
    node = raft_world_wait_leader(&world);
    assert_int_equal(node->env->file->space(node->env, "/", &free_bytes, &total_bytes), RC_OK);
    log_store_guard_space(node->log, "/", free_bytes + 1);
    assert_int_equal(raft_world_propose(node, 1), RC_FULL);
    assert_int_equal(replica_state(node->replica), REPLICA_SERVING);
    log_store_guard_space(node->log, "/", free_bytes / 2);
    assert_int_equal(raft_world_propose(node, 2), RC_OK);
    raft_world_deinit(&world);
}

struct counted {
    struct proposal proposal;
    uint32_t *left;
    uint32_t *busy;
};

static void counted_done(struct proposal *proposal)
{
    struct counted *counted = CONTAINER_OF(proposal, struct counted, proposal);

    --*counted->left;
    if (proposal->rc == RC_BUSY) {
        ++*counted->busy;
    } else {
        assert_int_equal(proposal->rc, RC_OK);
        mem_free(proposal->result);
    }
}

/* Memory is bounded: what comes beyond the limits in one moment is told to come again. */
static void too_many_proposals_are_busy(void **state)
{
    enum { COUNT = 20000 };
    static const struct slice part = {.data = "12345678", .len = 8};
    struct counted *counted = calloc(COUNT, sizeof(*counted));
    struct raft_world world;
    struct raft_world_node *node = NULL;
    uint32_t left = COUNT;
    uint32_t busy = 0;

    (void)state;
    raft_world_init(&world, 11);
    raft_world_start(&world, 0, 1);
    node = raft_world_wait_leader(&world);
    for (uint32_t i = 0; i < COUNT; i++) {
        counted[i].left = &left;
        counted[i].busy = &busy;
        counted[i].proposal.parts = &part;
        counted[i].proposal.part_count = 1;
        counted[i].proposal.done = counted_done;
        replica_propose(node->replica, &counted[i].proposal);
    }
    assert_int_equal(left, COUNT);
    for (uint32_t ms = 0; left > 0 && ms < 10000; ms++) {
        raft_world_run_ms(&world, 1);
    }
    assert_int_equal(left, 0);
    assert_int_equal(busy, COUNT - 16384);
    raft_world_deinit(&world);
    free(counted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_applies_and_answers),
        cmocka_unit_test(single_stop_flushes_and_trims),
        cmocka_unit_test(cut_off_leader_admits_it),
        cmocka_unit_test(stop_hands_leadership_over),
        cmocka_unit_test(learner_is_filled_and_promoted),
        cmocka_unit_test(foreign_and_removed_ids_are_refused),
        cmocka_unit_test(failed_write_stops_the_replica),
        cmocka_unit_test(full_disk_refuses_proposals),
        cmocka_unit_test(too_many_proposals_are_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
