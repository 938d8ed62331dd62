/* Where shards lie decides what survives: groups must be of distinct disks, even, and there when
 * disks are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "common/placement/place.h"

static struct place_group groups[PLACE_GROUPS_MAX];

/* Two shards of one extent on one disk would make its loss count twice. */
static void members_are_distinct(void **state)
{
    (void)state;
    for (uint32_t disks = 1; disks <= LIMIT_DISKS; disks++) {
        uint32_t scheme_count = 0;
        uint32_t count = place_groups(disks, groups, &scheme_count);

        assert_true(scheme_count <= count && count <= PLACE_GROUPS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t seen = 0;

            for (uint32_t j = 0; j < groups[i].data_shards + groups[i].parity_shards; j++) {
                assert_true(groups[i].disks[j] < disks);
                assert_int_equal(seen >> groups[i].disks[j] & 1, 0);
                seen |= 1ULL << groups[i].disks[j];
            }
        }
    }
}

/* The table of DESIGN 5.1. */
static void scheme_follows_the_number_of_domains(void **state)
{
    static const struct {
        uint32_t disks, data, parity;
    } rows[] = {
        {1,  1, 0},
        {2,  1, 1},
        {3,  2, 1},
        {4,  2, 2},
        {5,  2, 2},
        {6,  4, 2},
        {8,  4, 2},
        {9,  6, 3},
        {11, 6, 3},
        {12, 8, 4},
        {64, 8, 4}
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct place_scheme scheme = place_scheme_for(rows[i].disks);

        assert_int_equal(scheme.data_shards, rows[i].data);
        assert_int_equal(scheme.parity_shards, rows[i].parity);
    }
}

/* A disk that is in more groups fills first and then stops all writes to them. */
static void load_is_even(void **state)
{
    (void)state;
    for (uint32_t disks = 2; disks <= 20; disks++) {
        uint32_t scheme_count = 0;
        uint32_t uses[LIMIT_DISKS] = {0};
        uint32_t first[LIMIT_DISKS] = {0};
        uint32_t least = UINT32_MAX;
        uint32_t most = 0;

        (void)place_groups(disks, groups, &scheme_count);
        for (uint32_t i = 0; i < scheme_count; i++) {
            first[groups[i].disks[0]] += 1;
            for (uint32_t j = 0; j < groups[i].data_shards + groups[i].parity_shards; j++) {
                uses[groups[i].disks[j]] += 1;
            }
        }
        for (uint32_t i = 0; i < disks; i++) {
            least = uses[i] < least ? uses[i] : least;
            most = uses[i] > most ? uses[i] : most;
            assert_true(first[i] * disks * 2 >= scheme_count); /* no disk is never first */
        }
        assert_true(most - least <= 1);
        assert_true(least >= PLACE_GROUPS_PER_DISK);
    }
}

/* The best group (most parity, then most data) whose disks are all in `healthy`; NULL when none. */
static const struct place_group *best_group(uint32_t count, uint64_t healthy)
{
    const struct place_group *best = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct place_group *group = &groups[i];
        bool usable = true;

        for (uint32_t j = 0; j < group->data_shards + group->parity_shards; j++) {
            usable = usable && (healthy >> group->disks[j] & 1) != 0;
        }
        if (usable && (best == NULL || group->parity_shards > best->parity_shards ||
                       (group->parity_shards == best->parity_shards &&
                        group->data_shards > best->data_shards))) {
            best = group;
        }
    }
    return best;
}

/* Writes go on while disks are missing (DESIGN 5.4): whichever they are, a group is left. */
static void fallback_groups_cover_every_loss(void **state)
{
    static const struct {
        uint32_t disks, healthy, data, parity;
    } rows[] = {
        {2, 2, 1, 1},
        {3, 3, 2, 1},
        {3, 2, 1, 1},
        {4, 4, 2, 2},
        {4, 3, 1, 2},
        {4, 2, 1, 1},
        {5, 4, 2, 2},
        {5, 3, 1, 2},
        {5, 2, 1, 1},
        {6, 5, 2, 2},
        {6, 4, 2, 2},
        {6, 3, 1, 2},
        {8, 6, 4, 2},
        {8, 5, 2, 2},
        {8, 2, 1, 1}
    };

    (void)state;
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        uint32_t scheme_count = 0;
        uint32_t count = place_groups(rows[row].disks, groups, &scheme_count);

        for (uint64_t healthy = 0; healthy < 1ULL << rows[row].disks; healthy++) {
            const struct place_group *best;

            if ((uint32_t)__builtin_popcountll(healthy) != rows[row].healthy) {
                continue;
            }
            best = best_group(count, healthy);
            if (best == NULL) {
                fail_msg("no group for the disks %llx", (unsigned long long)healthy);
                return;
            }
            assert_int_equal(best->parity_shards, rows[row].parity);
            assert_true(best->data_shards >= rows[row].data ||
                        best->data_shards * 2 >= rows[row].data);
        }
    }
}

/* Four directories on one device survive two directories and no device: what is printed must say
 * so. */
static void losses_count_block_devices(void **state)
{
    const uint64_t own[] = {1, 2, 3, 4};
    const uint64_t one[] = {7, 7, 7, 7};
    const uint64_t two[] = {7, 7, 8, 8};
    const uint64_t uneven[] = {7, 7, 7, 8};
    uint32_t scheme_count = 0;

    (void)state;
    (void)place_groups(4, groups, &scheme_count);
    assert_int_equal(place_losses_tolerated(groups, scheme_count, own, 4), 2);
    assert_int_equal(place_losses_tolerated(groups, scheme_count, one, 4), 0);
    assert_int_equal(place_losses_tolerated(groups, scheme_count, two, 4), 1);
    assert_int_equal(place_losses_tolerated(groups, scheme_count, uneven, 4), 0);
    (void)place_groups(1, groups, &scheme_count);
    assert_int_equal(place_losses_tolerated(groups, scheme_count, own, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_distinct),
        cmocka_unit_test(scheme_follows_the_number_of_domains),
        cmocka_unit_test(load_is_even),
        cmocka_unit_test(fallback_groups_cover_every_loss),
        cmocka_unit_test(losses_count_block_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
