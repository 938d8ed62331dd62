/* Leases: only what a majority answered counts, from the time before it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metad/raft/lease.h"

#define MS       1000000ULL
#define ELECTION (1000 * MS)

static struct consensus_configuration voters(uint32_t count)
{
    struct consensus_configuration members = {.count = count};

    for (uint32_t i = 0; i < count; i++) {
        members.members[i] = (struct consensus_member){.id = i + 1, .voter = true};
    }
    return members;
}

/* A majority of three is the leader and one more; it starts when that round was opened. */
static void majority_gives_the_lease(void **state)
{
    const struct consensus_configuration members = voters(3);
    struct lease lease;
    uint64_t reached = 0;

    (void)state;
    lease_begin(&lease, 4);
    assert_int_equal(lease_round(&lease, 100 * MS, false), 1);
    assert_int_equal(lease_reached(&lease, &members, 1), 0);
    assert_int_equal(lease_until(&lease, 0, ELECTION), 0);
    lease_answered(&lease, 2, 1);
    reached = lease_reached(&lease, &members, 1);
    assert_int_equal(reached, 1);
    assert_int_equal(lease_until(&lease, reached, ELECTION), 100 * MS + 900 * MS);
}

/* Learners and strangers give nothing, however often they answer. */
static void only_voters_count(void **state)
{
    struct consensus_configuration members = voters(3);
    struct lease lease;

    (void)state;
    members.members[1].voter = false;
    members.members[2].voter = false;
    members.members[members.count++] = (struct consensus_member){.id = 4, .voter = true};
    members.members[members.count++] = (struct consensus_member){.id = 5, .voter = true};
    lease_begin(&lease, 4);
    (void)lease_round(&lease, 0, false);
    lease_answered(&lease, 2, 1);
    lease_answered(&lease, 3, 1);
    lease_answered(&lease, 99, 1);
    assert_int_equal(lease_reached(&lease, &members, 1), 0);
    lease_answered(&lease, 5, 1);
    assert_int_equal(lease_reached(&lease, &members, 1), 1);
}

/* A round that was never opened, or so long ago that its start is forgotten, gives none. */
static void unknown_rounds_give_none(void **state)
{
    const struct consensus_configuration members = voters(2);
    struct lease lease;

    (void)state;
    lease_begin(&lease, 4);
    (void)lease_round(&lease, 0, false);
    lease_answered(&lease, 2, 50);
    assert_int_equal(lease_reached(&lease, &members, 1), 0);
    lease_answered(&lease, 2, 1);
    for (uint64_t i = 1; i < LEASE_ROUNDS_MAX; i++) {
        (void)lease_round(&lease, i * 10 * MS, true);
    }
    assert_int_not_equal(lease_until(&lease, lease_reached(&lease, &members, 1), ELECTION), 0);
    (void)lease_round(&lease, 10000 * MS, true);
    assert_int_equal(lease_until(&lease, lease_reached(&lease, &members, 1), ELECTION), 0);
}

/* The only voter needs nobody; one that hands over has none, whatever was answered. */
static void alone_and_handed_over(void **state)
{
    const struct consensus_configuration alone = voters(1);
    struct lease lease;

    (void)state;
    lease_begin(&lease, 4);
    assert_int_equal(lease_until(&lease, lease_reached(&lease, &alone, 1), ELECTION), UINT64_MAX);
    assert_int_equal(lease_reached(&lease, &alone, 2), 0); /* not a voter itself */
    lease.ended = true;
    assert_int_equal(lease_until(&lease, lease_reached(&lease, &alone, 1), ELECTION), 0);
}

/* Rounds of one moment are one, so that their starts are remembered long enough; reads force a new
 * one. */
static void rounds_are_not_opened_too_often(void **state)
{
    struct lease lease;

    (void)state;
    lease_begin(&lease, 4);
    assert_int_equal(lease_round(&lease, 10 * MS, false), 1);
    assert_int_equal(lease_round(&lease, 14 * MS, false), 1);
    assert_int_equal(lease_round(&lease, 15 * MS, false), 2);
    assert_int_equal(lease_round(&lease, 15 * MS, true), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(majority_gives_the_lease),        cmocka_unit_test(only_voters_count),
        cmocka_unit_test(unknown_rounds_give_none),        cmocka_unit_test(alone_and_handed_over),
        cmocka_unit_test(rounds_are_not_opened_too_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
