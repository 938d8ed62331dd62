/* Leases under the faults that could break them: each test fails when one of the promises behind is
 * taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/raft_world.h"

enum { QUIET_MS = 8000 };

static void three_start(struct raft_world *world)
{
    for (uint32_t i = 0; i < 3; i++) {
        raft_world_start(world, i, 3);
    }
}

static void three(struct raft_world *world, uint64_t seed)
{
    raft_world_init(world, seed);
    three_start(world);
}

static struct raft_world_node *other_of(struct raft_world *world, const struct raft_world_node *a,
                                        const struct raft_world_node *b)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (&world->nodes[i] != a && &world->nodes[i] != b) {
            return &world->nodes[i];
        }
    }
    return NULL;
}

/* One that does not hear the leader, but whom the third hears, asks for votes again and again:
 * refused while the leader is heard by the others. It would be elected at once, and two would
 * answer reads.
 */
static void deaf_follower_gets_no_vote(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct raft_world world;
        struct raft_world_node *leader = NULL;
        const struct raft_world_node *deaf = NULL;

        three(&world, seed);
        leader = raft_world_wait_leader(&world);
        assert_int_equal(raft_world_propose(leader, 1), RC_OK);
        raft_world_run_ms(&world, 300);
        deaf = other_of(&world, leader, NULL);
        world.deaf[deaf->number][leader->number] = true;
        world.deaf[leader->number][deaf->number] = true;
        for (uint32_t ms = 0; ms < QUIET_MS; ms++) {
            raft_world_run_ms(&world, 1);
            assert_int_equal(raft_world_leases(&world), 1);
        }
        assert_ptr_equal(raft_world_leader(&world), leader);
        raft_world_deinit(&world);
    }
}

/* A voter that was restarted does not remember whom it heard: it refuses for one election timeout.
 */
static void restarted_voter_refuses_for_a_while(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct raft_world world;
        struct raft_world_node *leader = NULL;
        const struct raft_world_node *deaf = NULL;
        const struct raft_world_node *voter = NULL;

        raft_world_init(&world, seed);
        world.heartbeat_ms = 400; /* a restarted voter hears nobody for a while */
        three_start(&world);
        leader = raft_world_wait_leader(&world);
        assert_int_equal(raft_world_propose(leader, 1), RC_OK);
        raft_world_run_ms(&world, 300);
        deaf = other_of(&world, leader, NULL);
        voter = other_of(&world, leader, deaf);
        world.deaf[deaf->number][leader->number] = true;
        world.deaf[leader->number][deaf->number] = true;
        raft_world_run_ms(&world, 1000 + seed * 50);
        for (uint32_t round = 0; round < 10; round++) {
            raft_world_stop(&world, voter->number);
            raft_world_start(&world, voter->number, 0);
            for (uint32_t ms = 0; ms < 300; ms++) {
                raft_world_run_ms(&world, 1);
                (void)raft_world_leases(&world);
            }
        }
        raft_world_deinit(&world);
    }
}

/* A leader that hands over has no lease from then on, though it may not hear that another was
 * elected. */
static void hand_over_ends_the_lease_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct raft_world world;
        struct raft_world_node *leader = NULL;
        uint32_t moved = 0;

        three(&world, seed);
        leader = raft_world_wait_leader(&world);
        assert_int_equal(raft_world_propose(leader, 1), RC_OK);
        raft_world_run_ms(&world, 300);
        for (uint32_t i = 0; i < 3; i++) {
            world.deaf[leader->number][i] = true;
        }
        raft_world_stop_begin(&world, leader->number);
        for (uint32_t ms = 0; ms < 1500; ms++) {
            raft_world_run_ms(&world, 1);
            moved += raft_world_leases(&world);
            (void)raft_world_stop_end(&world, leader->number);
        }
        assert_true(moved > 0);
        assert_ptr_not_equal(raft_world_leader(&world), leader);
        raft_world_deinit(&world);
    }
}

/* A leader that hears nobody loses its lease before anybody else can be elected, also while it
 * still leads. */
static void cut_off_leader_loses_its_lease_in_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct raft_world world;
        struct raft_world_node *leader = NULL;

        three(&world, seed);
        leader = raft_world_wait_leader(&world);
        assert_int_equal(raft_world_propose(leader, 1), RC_OK);
        raft_world_run_ms(&world, 300 + seed);
        world.sides[leader->number] = 1;
        raft_world_run_ms(&world, 700);
        assert_int_equal(raft_world_leases(&world), 1);
        raft_world_run_ms(&world, 202);
        assert_int_equal(raft_world_leases(&world), 0);
        for (uint32_t ms = 0; ms < 3000; ms++) {
            raft_world_run_ms(&world, 1);
            (void)raft_world_leases(&world);
        }
        raft_world_deinit(&world);
    }
}

/* A new leader has a lease with the first answers, not with the next heartbeat. */
static void new_leader_has_a_lease_at_once(void **state)
{
    struct raft_world world;

    (void)state;
    three(&world, 5);
    (void)raft_world_wait_leader(&world);
    raft_world_run_ms(&world, 10);
    assert_int_equal(raft_world_leases(&world), 1);
    raft_world_deinit(&world);
}

/* A read without a lease costs a round, not a wait for the next heartbeat; cut off it is refused.
 */
static void read_index_asks_at_once(void **state)
{
    struct raft_world world;
    struct raft_world_node *leader = NULL;
    uint64_t since = 0;

    (void)state;
    three(&world, 3);
    leader = raft_world_wait_leader(&world);
    assert_int_equal(raft_world_propose(leader, 1), RC_OK);
    for (uint32_t i = 0; i < 3; i++) { /* until the lease has run out, but not the leadership */
        world.deaf[leader->number][i] = true;
    }
    raft_world_run_ms(&world, 950);
    if (!replica_lease(leader->replica, sim_now(world.sim))) {
        for (uint32_t i = 0; i < 3; i++) {
            world.deaf[leader->number][i] = false;
        }
        since = sim_now(world.sim);
        assert_int_equal(raft_world_read_index(leader), RC_OK);
        assert_true(sim_now(world.sim) - since < 50 * SIM_MS);
    }
    raft_world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deaf_follower_gets_no_vote),
        cmocka_unit_test(restarted_voter_refuses_for_a_while),
        cmocka_unit_test(hand_over_ends_the_lease_first),
        cmocka_unit_test(cut_off_leader_loses_its_lease_in_time),
        cmocka_unit_test(new_leader_has_a_lease_at_once),
        cmocka_unit_test(read_index_asks_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
