#include "tests/lib/sim_map.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { MAP_LEVELS = 14 };

struct sim_map_node {
    char *key;
    size_t key_len;
    uint64_t seq;
    struct sim_value *value; /* NULL: deleted */
    struct sim_map_node *prev;
    uint32_t levels;
    struct sim_map_node *next[];
};

static struct sim_value *value_new(struct slice from)
{
    struct sim_value *value = mem_alloc_raw(sizeof(*value) + from.len);

    value->refs = 1;
    value->len = from.len;
    if (from.len > 0) {
        memcpy(value->data, from.data, from.len);
    }
    return value;
}

void sim_value_unref(struct sim_value *value)
{
    ASSERT(value->refs > 0);
    value->refs -= 1;
    if (value->refs == 0) {
        mem_free(value);
    }
}

static struct sim_map_node *node_new(uint32_t levels)
{
    struct sim_map_node *node = mem_alloc(sizeof(*node) + levels * sizeof(struct sim_map_node *));

    node->levels = levels;
    return node;
}

static void node_free(struct sim_map_node *node)
{
    if (node->value != NULL) {
        sim_value_unref(node->value);
    }
    mem_free(node->key);
    mem_free(node);
}

void sim_map_init(struct sim_map *map)
{
    *map = (struct sim_map){.head = node_new(MAP_LEVELS), .rng = 0x2545f4914f6cdd1dULL};
}

void sim_map_deinit(struct sim_map *map)
{
    struct sim_map_node *node = map->head;

    while (node != NULL) {
        struct sim_map_node *next = node->next[0];

        node_free(node);
        node = next;
    }
    map->head = NULL;
}

struct slice sim_map_key(const struct sim_map_node *node)
{
    return slice_of(node->key, node->key_len);
}

struct slice sim_map_value(const struct sim_map_node *node)
{
    return slice_of(node->value->data, node->value->len);
}

/* Order of nodes: key, then newest first. */
static bool node_before(const struct sim_map_node *node, struct slice key, uint64_t seq)
{
    int order = slice_cmp(sim_map_key(node), key);

    return order != 0 ? order < 0 : node->seq > seq;
}

/* The first node at or after (key, seq); `path` (may be NULL) gets the ones before it, by level. */
static struct sim_map_node *map_find(const struct sim_map *map, struct slice key, uint64_t seq,
                                     struct sim_map_node **path)
{
    struct sim_map_node *node = map->head;

    for (uint32_t level = MAP_LEVELS; level-- > 0;) {
        while (node->next[level] != NULL && node_before(node->next[level], key, seq)) {
            node = node->next[level];
        }
        if (path != NULL) {
            path[level] = node;
        }
    }
    return node->next[0];
}

static uint32_t random_levels(struct sim_map *map)
{
    uint32_t levels = 1;

    map->rng ^= map->rng << 13;
    map->rng ^= map->rng >> 7;
    map->rng ^= map->rng << 17;
    for (uint64_t bits = map->rng; (bits & 3) == 0 && levels < MAP_LEVELS; bits >>= 2) {
        levels += 1;
    }
    return levels;
}

static void map_unlink(struct sim_map *map, struct sim_map_node *node)
{
    struct sim_map_node *path[MAP_LEVELS];
    const struct sim_map_node *found = map_find(map, sim_map_key(node), node->seq, path);

    ASSERT(found == node);
    for (uint32_t level = 0; level < node->levels; level++) {
        path[level]->next[level] = node->next[level];
    }
    if (node->next[0] != NULL) {
        node->next[0]->prev = node->prev;
    }
    map->count -= 1;
    map->bytes -= node->key_len + (node->value != NULL ? node->value->len : 0);
    node_free(node);
}

static void map_insert(struct sim_map *map, struct slice key, struct sim_value *value)
{
    struct sim_map_node *path[MAP_LEVELS];
    struct sim_map_node *node = node_new(random_levels(map));

    (void)map_find(map, key, map->seq, path);
    node->key = mem_copy(key.data, key.len);
    node->key_len = key.len;
    node->seq = map->seq;
    node->value = value;
    for (uint32_t level = 0; level < node->levels; level++) {
        node->next[level] = path[level]->next[level];
        path[level]->next[level] = node;
    }
    node->prev = path[0];
    if (node->next[0] != NULL) {
        node->next[0]->prev = node;
    }
    map->count += 1;
    map->bytes += key.len + (value != NULL ? value->len : 0);
}

static struct sim_map_node *map_newest(const struct sim_map *map, struct slice key)
{
    struct sim_map_node *node = map_find(map, key, UINT64_MAX, NULL);

    return node != NULL && slice_eq(sim_map_key(node), key) ? node : NULL;
}

void sim_map_put(struct sim_map *map, struct slice key, struct slice value)
{
    struct sim_map_node *node = map_newest(map, key);

    map->seq += 1;
    if (node != NULL && map->pins == 0) {
        map->bytes -= node->value != NULL ? node->value->len : 0;
        if (node->value != NULL) {
            sim_value_unref(node->value);
        }
        node->value = value_new(value);
        map->bytes += value.len;
        return;
    }
    map->garbage = map->garbage || node != NULL;
    map_insert(map, key, value_new(value));
}

void sim_map_delete(struct sim_map *map, struct slice key)
{
    struct sim_map_node *node = map_newest(map, key);

    map->seq += 1;
    if (node == NULL || node->value == NULL) {
        return;
    }
    if (map->pins == 0) {
        map_unlink(map, node);
        return;
    }
    map->garbage = true;
    map_insert(map, key, NULL);
}

void sim_map_delete_range(struct sim_map *map, struct slice from, struct slice to)
{
    struct sim_map_node *node = sim_map_seek(map, from, UINT64_MAX);

    while (node != NULL && slice_cmp(sim_map_key(node), to) < 0) {
        char *key = mem_copy(node->key, node->key_len);
        struct slice victim = slice_of(key, node->key_len);

        sim_map_delete(map, victim);
        node = sim_map_seek(map, victim, UINT64_MAX);
        mem_free(key);
    }
}

struct sim_value *sim_map_get(const struct sim_map *map, struct slice key, uint64_t seq)
{
    const struct sim_map_node *node = map_find(map, key, seq, NULL);

    return node != NULL && slice_eq(sim_map_key(node), key) ? node->value : NULL;
}

void sim_map_pin(struct sim_map *map)
{
    map->pins += 1;
}

/* Only the newest version of each key is of use now. */
static void map_sweep(struct sim_map *map)
{
    struct sim_map_node *node = map->head->next[0];

    while (node != NULL) {
        struct sim_map_node *next = node->next[0];

        while (next != NULL && slice_eq(sim_map_key(next), sim_map_key(node))) {
            struct sim_map_node *old = next;

            next = next->next[0];
            map_unlink(map, old);
        }
        if (node->value == NULL) {
            map_unlink(map, node);
        }
        node = next;
    }
    map->garbage = false;
}

void sim_map_unpin(struct sim_map *map)
{
    ASSERT(map->pins > 0);
    map->pins -= 1;
    if (map->pins == 0 && map->garbage) {
        map_sweep(map);
    }
}

/* From `node` on: the first key that has a value at `seq`, as its visible version. */
static struct sim_map_node *visible_from(struct sim_map_node *node, uint64_t seq)
{
    while (node != NULL) {
        struct slice key = sim_map_key(node);

        while (node != NULL && node->seq > seq && slice_eq(sim_map_key(node), key)) {
            node = node->next[0];
        }
        if (node == NULL || !slice_eq(sim_map_key(node), key)) {
            continue; /* nothing of that key was there yet */
        }
        if (node->value != NULL) {
            return node;
        }
        while (node != NULL && slice_eq(sim_map_key(node), key)) {
            node = node->next[0];
        }
    }
    return NULL;
}

/* From `node` (the oldest version of its key) backwards. */
static struct sim_map_node *visible_back(const struct sim_map *map, struct sim_map_node *node,
                                         uint64_t seq)
{
    while (node != map->head) {
        struct slice key = sim_map_key(node);
        struct sim_map_node *best = NULL;

        while (node != map->head && slice_eq(sim_map_key(node), key)) {
            if (node->seq <= seq) {
                best = node;
            }
            node = node->prev;
        }
        if (best != NULL && best->value != NULL) {
            return best;
        }
    }
    return NULL;
}

struct sim_map_node *sim_map_seek(const struct sim_map *map, struct slice key, uint64_t seq)
{
    return visible_from(map_find(map, key, UINT64_MAX, NULL), seq);
}

struct sim_map_node *sim_map_seek_prev(const struct sim_map *map, struct slice key, uint64_t seq)
{
    struct sim_map_node *path[MAP_LEVELS];

    (void)map_find(map, key, 0,
                   path); /* just behind all versions of the key (sequences begin at 1) */
    return visible_back(map, path[0], seq);
}

struct sim_map_node *sim_map_last(const struct sim_map *map, uint64_t seq)
{
    struct sim_map_node *node = map->head;

    for (uint32_t level = MAP_LEVELS; level-- > 0;) {
        while (node->next[level] != NULL) {
            node = node->next[level];
        }
    }
    return visible_back(map, node, seq);
}

struct sim_map_node *sim_map_next(const struct sim_map *map, struct sim_map_node *node,
                                  uint64_t seq)
{
    struct sim_map_node *next = node->next[0];

    (void)map;
    while (next != NULL && slice_eq(sim_map_key(next), sim_map_key(node))) {
        next = next->next[0];
    }
    return visible_from(next, seq);
}

struct sim_map_node *sim_map_prev(const struct sim_map *map, struct sim_map_node *node,
                                  uint64_t seq)
{
    struct sim_map_node *prev = node->prev;

    while (prev != map->head && slice_eq(sim_map_key(prev), sim_map_key(node))) {
        prev = prev->prev;
    }
    return visible_back(map, prev, seq);
}
