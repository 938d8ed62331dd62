#include "common/base/hash_map.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { HASH_MAP_FIRST_SLOTS = 16 };

struct hash_map_slot {
    struct slice key;
    void *value; /* NULL with a key: deleted */
    uint64_t hash;
};

/* FNV-1a with a final mix: keys here are names and ids, not hostile input of unbounded number. */
static uint64_t hash_of(struct slice key)
{
    uint64_t hash = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ (unsigned char)key.data[i]) * 0x100000001b3ULL;
    }
    hash ^= hash >> 32;
    return hash != 0 ? hash : 1; /* 0 marks a slot never used */
}

void hash_map_init(struct hash_map *map)
{
    *map = (struct hash_map){0};
}

void hash_map_deinit(struct hash_map *map)
{
    mem_free(map->slots);
    hash_map_init(map);
}

static struct hash_map_slot *hash_map_find(const struct hash_map *map, struct slice key,
                                           uint64_t hash)
{
    size_t mask = map->capacity - 1;

    for (size_t at = hash & mask; map->slots[at].hash != 0; at = (at + 1) & mask) {
        struct hash_map_slot *slot = &map->slots[at];

        if (slot->hash == hash && slot->value != NULL && slice_eq(slot->key, key)) {
            return slot;
        }
    }
    return NULL;
}

static void hash_map_insert(struct hash_map *map, const struct hash_map_slot *from)
{
    size_t mask = map->capacity - 1;
    size_t at = from->hash & mask;

    while (map->slots[at].hash != 0) {
        at = (at + 1) & mask;
    }
    map->slots[at] = *from;
    map->used += 1;
}

static void hash_map_grow(struct hash_map *map)
{
    struct hash_map_slot *old = map->slots;
    size_t old_capacity = map->capacity;

    map->capacity = HASH_MAP_FIRST_SLOTS;
    while (map->capacity < (map->count + 1) * 2) {
        map->capacity *= 2;
    }
    map->slots = mem_alloc(map->capacity * sizeof(*map->slots));
    map->used = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].value != NULL) {
            hash_map_insert(map, &old[i]);
        }
    }
    mem_free(old);
}

void *hash_map_get(const struct hash_map *map, struct slice key)
{
    const struct hash_map_slot *slot =
        map->count > 0 ? hash_map_find(map, key, hash_of(key)) : NULL;

    return slot != NULL ? slot->value : NULL;
}

void *hash_map_put(struct hash_map *map, struct slice key, void *value)
{
    struct hash_map_slot fresh = {.key = key, .value = value, .hash = hash_of(key)};
    struct hash_map_slot *slot = map->count > 0 ? hash_map_find(map, key, fresh.hash) : NULL;

    ASSERT(value != NULL);
    if (slot != NULL) {
        void *old = slot->value;

        *slot = fresh;
        return old;
    }
    if ((map->used + 1) * 4 > map->capacity * 3) {
        hash_map_grow(map);
    }
    hash_map_insert(map, &fresh);
    map->count += 1;
    return NULL;
}

void *hash_map_remove(struct hash_map *map, struct slice key)
{
    struct hash_map_slot *slot = map->count > 0 ? hash_map_find(map, key, hash_of(key)) : NULL;
    void *old;

    if (slot == NULL) {
        return NULL;
    }
    old = slot->value;
    slot->value = NULL;
    slot->key = SLICE_EMPTY;
    map->count -= 1;
    return old;
}
