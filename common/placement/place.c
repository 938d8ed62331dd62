/*
 * Groups are chosen one after the other, always taking the disks that are in the fewest groups so
 * far (ties go round, so that the same disks are not always together). Then each position takes the
 * member that held it least: shard 0 is read more often than parity, so positions must be even too.
 */
#include "common/placement/place.h"

#include <stddef.h>
#include <string.h>

#include "common/base/assert.h"

enum { FALLBACK_SETS_MAX = 96 };

struct place_balance {
    uint32_t disk_count;
    uint32_t uses[LIMIT_DISKS];                    /* groups that a disk is in */
    uint32_t together[LIMIT_DISKS][LIMIT_DISKS];   /* groups that two disks share */
    uint32_t positions[LIMIT_DISKS][LIMIT_SHARDS]; /* groups where a disk has this position */
};

struct place_scheme place_scheme_for(uint32_t disk_count)
{
    static const struct {
        uint32_t disks;
        struct place_scheme scheme;
    } rows[] = {
        {12, {8, 4}},
        {9,  {6, 3}},
        {6,  {4, 2}},
        {4,  {2, 2}},
        {3,  {2, 1}},
        {2,  {1, 1}},
        {1,  {1, 0}},
    };

    ASSERT(disk_count >= 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (disk_count >= rows[i].disks) {
            return rows[i].scheme;
        }
    }
    return (struct place_scheme){.data_shards = 1};
}

/* Smaller is better: few groups, then few shared with those chosen already. */
static uint64_t place_cost(const struct place_balance *balance, uint32_t disk,
                           const uint32_t *chosen, uint32_t chosen_count)
{
    uint64_t shared = 0;

    for (uint32_t i = 0; i < chosen_count; i++) {
        shared += balance->together[disk][chosen[i]];
    }
    return ((uint64_t)balance->uses[disk] << 32) + shared;
}

static void place_choose(const struct place_balance *balance, uint32_t width, uint32_t turn,
                         uint32_t *members)
{
    bool taken[LIMIT_DISKS] = {false};

    for (uint32_t n = 0; n < width; n++) {
        uint32_t best = UINT32_MAX;
        uint64_t best_cost = UINT64_MAX;

        for (uint32_t i = 0; i < balance->disk_count; i++) {
            uint32_t disk = (i + turn) % balance->disk_count;
            uint64_t cost = taken[disk] ? UINT64_MAX : place_cost(balance, disk, members, n);

            if (cost < best_cost) {
                best = disk;
                best_cost = cost;
            }
        }
        ASSERT(best != UINT32_MAX);
        taken[best] = true;
        members[n] = best;
    }
}

/* Gives each position the member that held it least, and counts the group. */
static void place_order(struct place_balance *balance, const uint32_t *members, uint32_t width,
                        struct place_group *group)
{
    bool placed[LIMIT_SHARDS] = {false};

    for (uint32_t position = 0; position < width; position++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < width; i++) {
            uint32_t member = (i + position) % width;

            if (!placed[member] &&
                (best == UINT32_MAX || balance->positions[members[member]][position] <
                                           balance->positions[members[best]][position])) {
                best = member;
            }
        }
        ASSERT(best < width);
        placed[best] = true;
        group->disks[position] = members[best];
        balance->positions[members[best]][position] += 1;
    }
    for (uint32_t i = 0; i < width; i++) {
        balance->uses[members[i]] += 1;
        for (uint32_t j = 0; j < width; j++) {
            balance->together[members[i]][members[j]] += i != j ? 1 : 0;
        }
    }
}

/* Next subset of `width` out of `disk_count` in lexicographic order; false at the end. */
static bool subset_next(uint32_t *members, uint32_t width, uint32_t disk_count)
{
    for (uint32_t i = width; i > 0; i--) {
        if (members[i - 1] < disk_count - width + (i - 1)) {
            members[i - 1] += 1;
            for (uint32_t j = i; j < width; j++) {
                members[j] = members[j - 1] + 1;
            }
            return true;
        }
    }
    return false;
}

static uint64_t subset_count(uint32_t disk_count, uint32_t width)
{
    uint64_t count = 1;

    for (uint32_t i = 1; i <= width && count <= FALLBACK_SETS_MAX * 64ULL; i++) {
        count = count * (disk_count - width + i) / i;
    }
    return count;
}

/* Groups of one fallback scheme: every subset of that width when there are few, so that whichever
 * disks are left are a group; otherwise a balanced choice. Enumerated subsets come often enough for
 * every member to stand first. */
static uint32_t place_fallback(uint32_t disk_count, struct place_scheme scheme,
                               struct place_group *out)
{
    struct place_balance balance = {.disk_count = disk_count};
    uint32_t width = scheme.data_shards + scheme.parity_shards;
    uint32_t members[LIMIT_SHARDS];
    uint64_t sets = subset_count(disk_count, width);
    uint32_t count = 0;
    bool all = sets * width <= FALLBACK_SETS_MAX;
    bool once = !all && sets <= FALLBACK_SETS_MAX;

    for (uint32_t i = 0; i < width; i++) {
        members[i] = i;
    }
    while (all || once) {
        for (uint32_t i = 0; i < (all ? width : 1); i++) {
            out[count].data_shards = scheme.data_shards;
            out[count].parity_shards = scheme.parity_shards;
            place_order(&balance, members, width, &out[count]);
            count += 1;
        }
        if (!subset_next(members, width, disk_count)) {
            return count;
        }
    }
    for (; count < FALLBACK_SETS_MAX; count++) {
        out[count].data_shards = scheme.data_shards;
        out[count].parity_shards = scheme.parity_shards;
        place_choose(&balance, width, count * 7, members);
        place_order(&balance, members, width, &out[count]);
    }
    return count;
}

uint32_t place_groups(uint32_t disk_count, struct place_group *out, uint32_t *scheme_count)
{
    struct place_balance balance = {.disk_count = disk_count};
    struct place_scheme scheme = place_scheme_for(disk_count);
    uint32_t width = scheme.data_shards + scheme.parity_shards;
    uint32_t count = (disk_count * PLACE_GROUPS_PER_DISK + width - 1) / width;
    uint32_t members[LIMIT_SHARDS];

    ASSERT(disk_count >= 1 && disk_count <= LIMIT_DISKS);
    memset(out, 0, PLACE_GROUPS_MAX * sizeof(*out));
    for (uint32_t i = 0; i < count; i++) {
        out[i].data_shards = scheme.data_shards;
        out[i].parity_shards = scheme.parity_shards;
        place_choose(&balance, width, i, members);
        place_order(&balance, members, width, &out[i]);
    }
    *scheme_count = count;
    /* The same tolerance with fewer data shards, then less tolerance (DESIGN 5.4). */
    for (uint32_t data = scheme.data_shards / 2; data >= 1 && scheme.parity_shards >= 1;
         data /= 2) {
        count += place_fallback(disk_count, (struct place_scheme){data, scheme.parity_shards},
                                out + count);
    }
    for (uint32_t parity = scheme.parity_shards; parity > 1; parity--) {
        count += place_fallback(disk_count, (struct place_scheme){1, parity - 1}, out + count);
    }
    ASSERT(count <= PLACE_GROUPS_MAX);
    return count;
}

/* Shards of a group that the `lost` largest domains in it hold together. */
static uint32_t group_shards_in(const struct place_group *group, const uint64_t *domains,
                                uint32_t lost)
{
    uint32_t width = group->data_shards + group->parity_shards;
    bool counted[LIMIT_SHARDS] = {false};
    uint32_t total = 0;

    for (uint32_t n = 0; n < lost; n++) {
        uint32_t best = 0;
        uint64_t best_domain = 0;

        for (uint32_t i = 0; i < width; i++) {
            uint32_t shards = 0;

            for (uint32_t j = 0; j < width; j++) {
                shards +=
                    !counted[j] && domains[group->disks[j]] == domains[group->disks[i]] ? 1 : 0;
            }
            if (shards > best) {
                best = shards;
                best_domain = domains[group->disks[i]];
            }
        }
        for (uint32_t j = 0; j < width && best > 0; j++) {
            counted[j] = counted[j] || domains[group->disks[j]] == best_domain;
        }
        total += best;
    }
    return total;
}

uint32_t place_losses_tolerated(const struct place_group *groups, uint32_t count,
                                const uint64_t *domains, uint32_t disk_count)
{
    uint32_t tolerated = disk_count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t lost = 0;

        while (lost < groups[i].parity_shards &&
               group_shards_in(&groups[i], domains, lost + 1) <= groups[i].parity_shards) {
            lost += 1;
        }
        tolerated = lost < tolerated ? lost : tolerated;
    }
    return count > 0 ? tolerated : 0;
}
