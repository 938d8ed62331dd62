/*
 * Hash map from bytes to pointers: open addressing, grows at 3/4. The key's bytes are borrowed from
 * the value for as long as it is in the map. Iteration order is never used for behaviour.
 */
#ifndef COMMON_BASE_HASH_MAP_H
#define COMMON_BASE_HASH_MAP_H

#include <stddef.h>

#include "common/base/slice.h"

struct hash_map_slot;

struct hash_map {
    size_t count;
    /* Private. */
    struct hash_map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t used;     /* live and deleted slots */
};

void hash_map_init(struct hash_map *map);
void hash_map_deinit(struct hash_map *map);                       /* values are the caller's */
void *hash_map_get(const struct hash_map *map, struct slice key); /* NULL when absent */
/* Inserts or replaces; returns the value that was there, or NULL. `value` is not NULL. */
void *hash_map_put(struct hash_map *map, struct slice key, void *value);
void *hash_map_remove(struct hash_map *map, struct slice key); /* returns what was there, or NULL */

#endif
