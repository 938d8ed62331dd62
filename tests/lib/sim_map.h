/*
 * An ordered map from bytes to versions of a value: a skip list by (key, sequence descending).
 * Backs sim_kv. While anyone is pinned (snapshots, iterators), old versions stay and no node goes
 * away.
 */
#ifndef TESTS_LIB_SIM_MAP_H
#define TESTS_LIB_SIM_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"

/* Shared by pins: reference counted. */
struct sim_value {
    uint32_t refs;
    size_t len;
    char data[];
};

struct sim_map_node;

struct sim_map {
    struct sim_map_node *head;
    size_t count; /* nodes, versions and deletions included */
    size_t bytes;
    uint64_t seq; /* of the newest change */
    uint32_t pins;
    bool garbage;
    uint64_t rng;
};

void sim_map_init(struct sim_map *map);
void sim_map_deinit(struct sim_map *map);
void sim_map_put(struct sim_map *map, struct slice key, struct slice value);
void sim_map_delete(struct sim_map *map, struct slice key);
void sim_map_delete_range(struct sim_map *map, struct slice from, struct slice to);
/* NULL: absent at `seq`. */
struct sim_value *sim_map_get(const struct sim_map *map, struct slice key, uint64_t seq);

void sim_map_pin(struct sim_map *map);
void sim_map_unpin(struct sim_map *map); /* the last one sweeps */

/* Walking, at `seq`; NULL at the end. Deleted keys are skipped. */
struct sim_map_node *sim_map_seek(const struct sim_map *map, struct slice key, uint64_t seq);
struct sim_map_node *sim_map_seek_prev(const struct sim_map *map, struct slice key, uint64_t seq);
struct sim_map_node *sim_map_last(const struct sim_map *map, uint64_t seq);
struct sim_map_node *sim_map_next(const struct sim_map *map, struct sim_map_node *node,
                                  uint64_t seq);
struct sim_map_node *sim_map_prev(const struct sim_map *map, struct sim_map_node *node,
                                  uint64_t seq);
struct slice sim_map_key(const struct sim_map_node *node);
struct slice sim_map_value(const struct sim_map_node *node);

void sim_value_unref(struct sim_value *value);

#endif
