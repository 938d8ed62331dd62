/*
 * Placement groups: which disks hold the shards of an extent (DESIGN 5.1, 5.2, 5.4). Made by this
 * algorithm, then stored as rows of root: changing the algorithm moves nothing.
 *
 * Beside the groups of the scheme, narrower fallback groups are prepared for when disks are
 * missing. A writer takes, among the groups whose disks are all healthy, the one with most parity,
 * then with most data shards: that is the scheme itself, then the widest one of the same tolerance,
 * then less tolerance.
 */
#ifndef COMMON_PLACEMENT_PLACE_H
#define COMMON_PLACEMENT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"

enum { PLACE_GROUPS_PER_DISK = 100, PLACE_GROUPS_MAX = 2048 };

struct place_scheme {
    uint32_t data_shards;
    uint32_t parity_shards;
};

struct place_group {
    uint32_t data_shards;
    uint32_t parity_shards;
    uint32_t disks[LIMIT_SHARDS]; /* places in the list of disks, 0 .. disk_count - 1 */
};

/* The scheme for a number of failure domains (DESIGN 5.1): 1+0, 1+1, 2+1, 2+2, 4+2, 6+3, 8+4. */
struct place_scheme place_scheme_for(uint32_t disk_count);

/* Fills `out` (room for PLACE_GROUPS_MAX) with the groups of the scheme, then the fallback groups;
 * returns how many, and how many of them are of the scheme. Each disk is in about
 * PLACE_GROUPS_PER_DISK groups of the scheme, each position of a group is spread over the disks. */
uint32_t place_groups(uint32_t disk_count, struct place_group *out, uint32_t *scheme_count);

/* How many of `domains` (e.g. block devices: domains[i] is that of disk i) may be lost, whichever,
 * so that every group of the scheme still has data_shards shards. */
uint32_t place_losses_tolerated(const struct place_group *groups, uint32_t count,
                                const uint64_t *domains, uint32_t disk_count);

#endif
