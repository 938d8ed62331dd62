/*
 * What write_path and read_path stand between, for their tests: a simulated loop, datads in memory,
 * a view with placement groups, a scripted client.
 */
#ifndef TESTS_UNIT_GATEWAY_OBJECT_WORLD_H
#define TESTS_UNIT_GATEWAY_OBJECT_WORLD_H

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/task/task.h"
#include "gateway/gateway.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/fake_data.h"
#include "tests/unit/gateway/fake_http.h"

struct object_world {
    struct env *env;
    struct fake_data data;
    struct fake_http http;
    struct gateway_config config;
    struct gateway gateway;
    struct view *view;
    struct arena arena;
    struct task task;
    bool done;
};

struct world_group {
    uint32_t k;
    uint32_t m;
    uint64_t first_disk;
};

static inline struct view *world_view(const struct world_group *groups, size_t count)
{
    Kist__PlacementGroup *rows[16];
    struct view_disk disks[FAKE_DISKS_MAX];
    struct view_parts parts = {.version = 1,
                               .groups = rows,
                               .group_count = count,
                               .disks = disks,
                               .disk_count = FAKE_DISKS_MAX};

    for (size_t i = 0; i < count; i++) {
        rows[i] = malloc(sizeof(*rows[i]));
        kist__placement_group__init(rows[i]);
        rows[i]->id = i + 1;
        rows[i]->epoch = 5;
        rows[i]->data_shards = groups[i].k;
        rows[i]->parity_shards = groups[i].m;
        rows[i]->n_disks = groups[i].k + groups[i].m;
        rows[i]->disks = malloc(rows[i]->n_disks * sizeof(*rows[i]->disks));
        for (size_t j = 0; j < rows[i]->n_disks; j++) {
            rows[i]->disks[j] = groups[i].first_disk + j;
        }
    }
    for (uint64_t i = 0; i < FAKE_DISKS_MAX; i++) {
        disks[i] = (struct view_disk){.id = i, .healthy = true};
    }
    return view_new(&parts);
}

static inline void world_init(struct object_world *world, uint64_t seed,
                              const struct world_group *groups, size_t count)
{
    memset(world, 0, sizeof(*world));
    world->env = sim_env_alone(seed);
    fake_data_init(&world->data, world->env);
    fake_http_init(&world->http);
    arena_init(&world->arena);
    world->view = world_view(groups, count);
    world->config = (struct gateway_config){.inline_bytes_max = LIMIT_INLINE_BYTES,
                                            .replica_bytes_max = LIMIT_REPLICA_BYTES,
                                            .extent_bytes_max = LIMIT_EXTENT_BYTES,
                                            .hedge_ms = 50,
                                            .incarnation = 1,
                                            .cluster_epoch = 1};
    world->gateway =
        (struct gateway){.env = world->env, .data = &world->data.base, .config = &world->config};
    world->gateway.memory.budget_bytes = LIMIT_STREAM_MEMORY_BYTES;
    list_init(&world->gateway.memory.waiting);
}

static inline void world_deinit(struct object_world *world)
{
    view_unref(world->view);
    arena_deinit(&world->arena);
    fake_http_deinit(&world->http);
    fake_data_deinit(&world->data);
    sim_free(sim_of(world->env));
}

/* Bytes that differ from place to place. */
static inline char *world_bytes(struct object_world *world, size_t len)
{
    char *bytes = arena_alloc_raw(&world->arena, len + 1);
    uint64_t value = 1;

    for (size_t i = 0; i < len; i++) {
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[i] = (char)(value >> 56);
    }
    return bytes;
}

/* Lets the client and the disks go on until `*flag`; false when all stand still. */
static inline bool world_run(struct object_world *world, const bool *flag)
{
    while (!*flag) {
        bool moved = fake_http_run(&world->http);

        if (!*flag && !sim_step(sim_of(world->env)) && !moved) {
            return false;
        }
    }
    return true;
}

/* What is in the background ends as well. */
static inline void world_settle(struct object_world *world)
{
    while (world->data.pending > 0 && sim_step(sim_of(world->env))) {
    }
}

#endif
