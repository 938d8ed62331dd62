/*
 * Five replicas under faults drawn from seeds: lost messages, partitions, power cuts, kill -9,
 * empty directories, changes of members, logs trimmed all the time.
 *
 * Crashed programs leave their memory behind, so leak checks are off in this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "tests/lib/raft_world.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
 * the sanitizer asks for this name */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
 */

enum { FAULT_NODES = 5, CHAOS_MS = 30000, SEEDS = 12, CALLS_MAX = 8192 };

struct call {
    struct proposal proposal;
    struct slice part;
    char bytes[64];
    uint64_t value;
    struct raft_world_node *node;
    uint64_t incarnation;
    bool done;
    struct chaos *chaos;
};

struct chaos {
    struct raft_world world;
    struct call *calls;
    uint32_t call_count;
    uint64_t value;
    struct membership_change change;
    bool changing;
    uint64_t change_since;
    uint64_t heal_at;
    uint64_t restart_at[FAULT_NODES];
    struct replica_read read;
    bool reading;
    uint64_t read_answered;
    struct raft_world_node *read_node;
    uint64_t read_incarnation;
    uint64_t reads;
    uint64_t ok;
    uint32_t crash_per_mille; /* each ms */
    uint32_t propose_per_mille;
};

static void call_done(struct proposal *proposal)
{
    struct call *call = CONTAINER_OF(proposal, struct call, proposal);
    struct raft_world *world = &call->chaos->world;

    call->done = true;
    if (proposal->rc == RC_OK) {
        assert_int_equal(le64_get(proposal->result), call->value);
        assert_int_equal(world->history[proposal->index].value, call->value);
        mem_free(proposal->result);
        call->chaos->ok++;
        if (proposal->index > world->answered) {
            world->answered = proposal->index;
        }
    } else {
        assert_true(proposal->rc == RC_AMBIGUOUS || proposal->rc == RC_NOT_LEADER ||
                    proposal->rc == RC_BUSY);
    }
}

static void propose_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    struct raft_world_node *node = &world->nodes[sim_below(world->sim, FAULT_NODES)];
    const uint64_t count = 1 + sim_below(world->sim, 8);

    if (!node->up || node->replica == NULL) {
        return;
    }
    for (uint64_t i = 0; i < count && chaos->call_count < CALLS_MAX; i++) {
        struct call *call = &chaos->calls[chaos->call_count++];

        call->chaos = chaos;
        call->node = node;
        call->value = ++chaos->value;
        le64_put(call->bytes, call->value);
        call->part = slice_of(call->bytes, sizeof(call->bytes));
        call->proposal = (struct proposal){.parts = &call->part, .part_count = 1};
        call->proposal.done = call_done;
        replica_propose(node->replica, &call->proposal);
    }
}

static void read_done(struct replica_read *read)
{
    struct chaos *chaos = CONTAINER_OF(read, struct chaos, read);

    chaos->reading = false;
    if (read->rc == RC_OK) {
        chaos->reads++;
        assert_true(chaos->read_node->state.index >= chaos->read_answered);
    }
}

static void read_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    struct raft_world_node *node = &world->nodes[sim_below(world->sim, FAULT_NODES)];

    if (chaos->reading &&
        (!chaos->read_node->up || chaos->read_node->incarnation != chaos->read_incarnation)) {
        chaos->reading = false; /* died with its node */
    }
    if (chaos->reading || !node->up || node->replica == NULL) {
        return;
    }
    chaos->reading = true;
    chaos->read_node = node;
    chaos->read_incarnation = node->incarnation;
    chaos->read_answered = world->answered;
    chaos->read = (struct replica_read){.done = read_done};
    replica_read_index(node->replica, &chaos->read);
}

static void change_done(struct membership_change *change)
{
    CONTAINER_OF(change, struct chaos, change)->changing = false;
}

static bool member_of(struct raft_world_node *leader, uint64_t id, bool *voter, uint32_t *voters)
{
    struct replica_peer members[RAFT_WORLD_NODES * 2];
    const uint32_t count = replica_members(leader->replica, members, RAFT_WORLD_NODES * 2);
    bool found = false;

    *voters = 0;
    for (uint32_t i = 0; i < count; i++) {
        *voters += members[i].voter ? 1U : 0U;
        if (members[i].replica_id == id) {
            found = true;
            *voter = members[i].voter;
        }
    }
    return found;
}

/* Adds, promotes or removes whoever comes up. Ids that are gone for good are removed first. */
static void change_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    struct raft_world_node *leader = raft_world_leader(world);
    struct raft_world_node *node = &world->nodes[sim_below(world->sim, FAULT_NODES)];
    struct replica_peer members[RAFT_WORLD_NODES * 2];
    uint32_t count = 0;
    uint32_t voters = 0;
    bool voter = false;

    if (chaos->changing && sim_now(world->sim) - chaos->change_since > 20 * SIM_S) {
        chaos->changing = false; /* its leader died */
    }
    if (leader == NULL || chaos->changing) {
        return;
    }
    chaos->change = (struct membership_change){.done = change_done, .replica_id = node->id};
    count = replica_members(leader->replica, members, RAFT_WORLD_NODES * 2);
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;

        for (uint32_t k = 0; k < FAULT_NODES; k++) {
            known = known || world->nodes[k].id == members[i].replica_id;
        }
        if (!known) {
            chaos->change.kind = MEMBER_REMOVE;
            chaos->change.replica_id = members[i].replica_id;
            break;
        }
    }
    if (chaos->change.replica_id == node->id) {
        if (!member_of(leader, node->id, &voter, &voters)) {
            chaos->change.kind = MEMBER_ADD_LEARNER;
        } else if (!voter) {
            chaos->change.kind = MEMBER_PROMOTE;
        } else if (voters > 3 && sim_chance(world->sim, 300)) {
            chaos->change.kind = MEMBER_REMOVE;
        } else {
            return;
        }
    }
    chaos->changing = true;
    chaos->change_since = sim_now(world->sim);
    replica_change_membership(leader->replica, &chaos->change);
}

static uint32_t down_count(const struct raft_world *world)
{
    uint32_t down = 0;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        down += world->nodes[i].up && !world->nodes[i].closing ? 0U : 1U;
    }
    return down;
}

/* A voter that is lost for good counts against the majority until it is removed: never two of them.
 */
static bool may_wipe(struct raft_world *world, const struct raft_world_node *node)
{
    struct raft_world_node *leader = raft_world_leader(world);
    struct replica_peer members[RAFT_WORLD_NODES * 2];
    uint32_t count = 0;
    uint32_t voters = 0;

    if (leader == NULL || leader == node) {
        return false;
    }
    count = replica_members(leader->replica, members, RAFT_WORLD_NODES * 2);
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;

        voters += members[i].voter ? 1U : 0U;
        for (uint32_t k = 0; k < FAULT_NODES; k++) {
            known = known || world->nodes[k].id == members[i].replica_id;
        }
        if (!known) {
            return false;
        }
    }
    return voters >= 4;
}

static void crash_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    const uint32_t at = (uint32_t)sim_below(world->sim, FAULT_NODES);
    struct raft_world_node *node = &world->nodes[at];

    if (!node->up || down_count(world) >= 2) {
        return;
    }
    if (sim_chance(world->sim, 150) && may_wipe(world, node)) {
        raft_world_crash(world, at, SIM_POWER);
        raft_world_wipe(world, at);
    } else {
        raft_world_crash(world, at, sim_chance(world->sim, 500) ? SIM_POWER : SIM_KILL);
    }
    chaos->restart_at[at] = sim_now(world->sim) + (50 + sim_below(world->sim, 3000)) * SIM_MS;
}

/* A disk that fails now and then: its replica must stop by itself; the program is then started
 * again. */
static void fail_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    struct raft_world_node *node = &world->nodes[sim_below(world->sim, FAULT_NODES)];

    if (node->up && down_count(world) < 2) {
        sim_kv_fail_writes(node->disk, RC_IO, 1 + sim_below(world->sim, 20));
    }
}

static void stopped_restart(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        struct raft_world_node *node = &world->nodes[i];

        if (node->up && !node->closing && replica_state(node->replica) == REPLICA_STOPPED) {
            assert_int_equal(replica_error(node->replica)->rc, RC_IO);
            raft_world_crash(world, i, SIM_POWER);
            sim_kv_fail_writes(node->disk, RC_OK, 1);
            chaos->restart_at[i] = sim_now(world->sim) + 500 * SIM_MS;
        }
    }
}

/* A clean stop, which hands leadership over. */
static void stop_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    struct raft_world_node *leader = raft_world_leader(world);

    if (leader != NULL && !leader->closing && down_count(world) < 2) {
        raft_world_stop_begin(world, leader->number);
    }
}

static void stopping(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        if (raft_world_stop_end(world, i)) {
            chaos->restart_at[i] =
                sim_now(world->sim) + (50 + sim_below(world->sim, 2000)) * SIM_MS;
        }
    }
}

static void restart_some(struct chaos *chaos, bool all)
{
    struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        if (!world->nodes[i].up && (all || chaos->restart_at[i] <= sim_now(world->sim))) {
            sim_kv_fail_writes(world->nodes[i].disk, RC_OK, 1);
            raft_world_start(world, i, 0);
        }
    }
}

static void partition_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        world->sides[i] = (uint32_t)sim_below(world->sim, 2);
    }
    chaos->heal_at = sim_now(world->sim) + (200 + sim_below(world->sim, 4000)) * SIM_MS;
}

/* One way only: who does not hear its leader stands for election, and the others still hear both.
 */
static void deafen_some(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        for (uint32_t k = 0; k < FAULT_NODES; k++) {
            world->deaf[i][k] = sim_chance(world->sim, 250);
        }
    }
    chaos->heal_at = sim_now(world->sim) + (200 + sim_below(world->sim, 6000)) * SIM_MS;
}

static void heal(struct chaos *chaos)
{
    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        chaos->world.sides[i] = 0;
        for (uint32_t k = 0; k < FAULT_NODES; k++) {
            chaos->world.deaf[i][k] = false;
        }
    }
    chaos->heal_at = 0;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* What may begin in each millisecond. */
static void chaos_break(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;

    if (sim_chance(world->sim, chaos->crash_per_mille)) {
        crash_some(chaos);
    }
    if (sim_below(world->sim, 5000) == 0) {
        fail_some(chaos);
    }
    if (chaos->heal_at == 0 && sim_below(world->sim, 3000) == 0) {
        if (sim_chance(world->sim, 500)) {
            partition_some(chaos);
        } else {
            deafen_some(chaos);
        }
    }
    if (sim_below(world->sim, 3000) == 0) {
        stop_some(chaos);
    }
}

static void chaos_run(struct chaos *chaos)
{
    struct raft_world *world = &chaos->world;
    const uint64_t end = sim_now(world->sim) + CHAOS_MS * SIM_MS;
    const bool trace = setting("RAFT_TRACE", 0) != 0; /* a line a second */

    while (sim_now(world->sim) < end) {
        sim_run_for(world->sim, SIM_MS);
        (void)raft_world_leases(world);
        restart_some(chaos, false);
        if (chaos->heal_at != 0 && chaos->heal_at <= sim_now(world->sim)) {
            heal(chaos);
        }
        if (sim_chance(world->sim, chaos->propose_per_mille)) {
            propose_some(chaos);
        }
        if (sim_chance(world->sim, 20)) {
            read_some(chaos);
        }
        if (sim_chance(world->sim, 3)) {
            change_some(chaos);
        }
        chaos_break(chaos);
        stopped_restart(chaos);
        stopping(chaos);
        if (trace && (sim_now(world->sim) / SIM_MS) % 1000 == 0) {
            raft_world_print(world);
        }
    }
}

/* What was said never to be applied is not in the history; what was answered is (checked at once).
 */
static void answers_check(const struct chaos *chaos)
{
    const struct raft_world *world = &chaos->world;

    for (uint32_t i = 0; i < chaos->call_count; i++) {
        const struct call *call = &chaos->calls[i];

        if (!call->done || call->proposal.rc == RC_OK || call->proposal.rc == RC_AMBIGUOUS) {
            continue;
        }
        for (uint64_t k = 1; k < world->history_max; k++) {
            assert_int_not_equal(world->history[k].value, call->value);
        }
    }
}

static void chaos_seed(uint64_t seed)
{
    struct chaos *chaos = mem_alloc(sizeof(*chaos));
    struct raft_world *world = &chaos->world;
    struct raft_world_node *leader = NULL;
    enum rc rc = RC_BUSY;

    raft_world_init(world, seed);
    chaos->calls = mem_alloc(CALLS_MAX * sizeof(*chaos->calls));
    world->drop_per_mille = (uint32_t)sim_below(world->sim, 60);
    world->write_max_ns = sim_below(world->sim, 2) * (1 + sim_below(world->sim, 60)) * SIM_MS;
    world->delay_max_ns = (1 + sim_below(world->sim, 40)) * SIM_MS;
    world->log_bytes_max = 2000 + sim_below(world->sim, 20000);
    world->export_chunks = 1 + (uint32_t)sim_below(world->sim, 12);
    /* In quiet groups a replica that hears nothing is not behind: it can be elected. */
    chaos->propose_per_mille = sim_chance(world->sim, 300) ? 2 : 60;
    chaos->crash_per_mille = 1 + (uint32_t)sim_below(world->sim, 4);
    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        raft_world_start(world, i, i < 3 ? 3 : 0);
    }
    chaos_run(chaos);
    heal(chaos);
    world->drop_per_mille = 0;
    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        sim_kv_fail_writes(world->nodes[i].disk, RC_OK, 1);
    }
    for (uint32_t i = 0; i < FAULT_NODES; i++) {
        if (world->nodes[i].closing) {
            raft_world_stop(world, i);
        }
    }
    raft_world_run_ms(world, 2000);
    stopped_restart(chaos);
    restart_some(chaos, true);
    leader = raft_world_wait_leader(world);
    for (uint32_t i = 0; i < 20 && rc != RC_OK; i++) {
        leader = raft_world_wait_leader(world);
        rc = raft_world_propose(leader, ++chaos->value);
    }
    assert_int_equal(rc, RC_OK);
    assert_true(raft_world_wait_level(world, 60000));
    answers_check(chaos);
    print_message("seed %lu: %lu answered, %lu reads, %lu installs, last %lu, term %lu\n",
                  (unsigned long)seed, (unsigned long)chaos->ok, (unsigned long)chaos->reads,
                  (unsigned long)world->installs, (unsigned long)leader->state.index,
                  (unsigned long)replica_term(leader->replica));
    raft_world_deinit(world);
    mem_free(chaos->calls);
    mem_free(chaos);
}

/* Nothing answered is lost, no two replicas differ, no lease overlaps another, and all come level
 * again. */
static void chaos_keeps_every_promise(void **state)
{
    /* Replays or widens: RAFT_SEED=first RAFT_SEEDS=n */
    const uint64_t first = setting("RAFT_SEED", 1);
    const uint64_t seeds = setting("RAFT_SEEDS", SEEDS);

    (void)state;
    for (uint64_t i = 0; i < seeds; i++) {
        chaos_seed(first + i);
    }
}

/* What was answered survives a power cut at any time after it. */
static void single_survives_power_cuts(void **state)
{
    struct raft_world world;

    (void)state;
    raft_world_init(&world, 2);
    raft_world_start(&world, 0, 1);
    for (uint64_t round = 1; round <= 20; round++) {
        (void)raft_world_wait_leader(&world);
        assert_int_equal(raft_world_propose(&world.nodes[0], round), RC_OK);
        raft_world_crash(&world, 0, SIM_POWER);
        raft_world_start(&world, 0, 0);
    }
    (void)raft_world_wait_leader(&world);
    assert_true(raft_world_wait_level(&world, 1000));
    raft_world_deinit(&world);
}

/* Three elect one leader, replicate, and elect another when it dies. */
static void three_fail_over(void **state)
{
    struct raft_world world;
    struct raft_world_node *first = NULL;
    struct raft_world_node *second = NULL;

    (void)state;
    raft_world_init(&world, 4);
    for (uint32_t i = 0; i < 3; i++) {
        raft_world_start(&world, i, 3);
    }
    first = raft_world_wait_leader(&world);
    for (uint64_t value = 1; value <= 50; value++) {
        assert_int_equal(raft_world_propose(first, value), RC_OK);
    }
    assert_true(raft_world_wait_level(&world, 1000));
    raft_world_crash(&world, first->number, SIM_POWER);
    second = raft_world_wait_leader(&world);
    assert_ptr_not_equal(first, second);
    assert_int_equal(raft_world_propose(second, 51), RC_OK);
    raft_world_start(&world, first->number, 0);
    assert_true(raft_world_wait_level(&world, 5000));
    raft_world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_survives_power_cuts),
        cmocka_unit_test(three_fail_over),
        cmocka_unit_test(chaos_keeps_every_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
