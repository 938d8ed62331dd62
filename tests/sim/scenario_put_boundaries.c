/*
 * Scenario: a power cut at every single file change of a put, one after the other
 * (DESIGN 1.1, 5.3).
 *
 *     a first shard is sealed -> a second is being written when the machine stops at change n ->
 * start
 *
 * For every n: the first shard is whole; the second is whole or not there, and whole if its seal
 * was answered. Ends at the first n that the put does not reach.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/datad_world.h"

enum { BOUNDARIES_MAX = 400, SECOND_BYTES = 300 * 1024 };

struct put_call {
    struct shard_writer call;
    char *bytes;
    bool done;
};

static void put_done(struct shard_writer *call)
{
    CONTAINER_OF(call, struct put_call, call)->done = true;
}

static bool put_is_over(void *arg)
{
    return ((const struct put_call *)arg)->done;
}

static struct datad_shard *put_start(struct datad_world *world, struct put_call *put, uint64_t size)
{
    struct datad_shard *shard = &world->shards[world->shard_count++];
    struct data_client *data = &world->local->base;

    *shard = (struct datad_shard){.seed = sim_random(world->sim), .size = size};
    shard->id.index = world->shard_count;
    shard->id.extent.bytes[3] = 1;
    for (unsigned i = 0; i < 8; i++) { /* milliseconds, big endian */
        uint64_t now_ms = world->env->clock->wall_ns(world->env) / SIM_MS;

        shard->id.extent.bytes[8 + i] = (uint8_t)(now_ms >> (56 - 8 * i));
    }
    shard->fate = SHARD_MAYBE;
    *put = (struct put_call){.bytes = mem_alloc((size_t)size)};
    client_bytes(shard, 0, put->bytes, (size_t)size);
    put->call.disk = world->disks[0].id;
    put->call.shard = shard->id;
    put->call.origin.home_key = SLICE("key");
    put->call.origin.home_bucket = 1;
    put->call.origin.group = 1;
    put->call.origin.group_epoch = 1;
    put->call.done = put_done;
    data->put(data, &put->call, slice_of(put->bytes, (size_t)size));
    return shard;
}

static struct datad_world *world_make(uint64_t seed)
{
    struct datad_world *world = mem_alloc(sizeof(*world));

    world->sim = sim_new(seed);
    world->host = sim_node_new(world->sim, "d");
    world->shards = mem_alloc(16 * sizeof(struct datad_shard));
    sim_kv_paths_open(world->sim);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        (void)snprintf(world->disks[i].path, sizeof(world->disks[i].path), "/d%u", i);
        world->disks[i].id = i + 1;
        sim_mount(world->host, world->disks[i].path);
        sim_kv_paths_bind(world->disks[i].path, world->host);
    }
    return world;
}

/* False: the put was over before change `boundary`. */
static bool boundary_run(uint64_t seed, unsigned boundary)
{
    struct datad_world *world = world_make(seed + boundary);
    struct put_call first;
    struct put_call second;
    struct datad_shard *shard;
    bool reached;

    disks_open(world);
    shard = put_start(world, &first, 5000);
    CHECK(sim_run_until(world->sim, put_is_over, &first, 10 * SIM_S), "a put does not complete");
    CHECK(first.call.rc == RC_OK, "a put on a healthy disk: %s", rc_name(first.call.rc));
    shard->fate = SHARD_SEALED;
    shard = put_start(world, &second, SECOND_BYTES);
    sim_stop_after(world->host, boundary);
    (void)sim_run_until(world->sim, put_is_over, &second, 10 * SIM_S);
    reached = sim_stopped(world->host);
    CHECK(reached || second.done, "a put does not complete");
    if (second.done && second.call.rc == RC_OK) {
        shard->fate = SHARD_SEALED;
    }
    disks_crash(world, SIM_POWER);
    disks_open(world);
    disks_verify(world);
    disks_close(world);
    sim_kv_paths_close();
    sim_free(world->sim);
    return reached;
}

void scenario_put_boundaries(uint64_t seed)
{
    unsigned boundary = 1;

    while (boundary < BOUNDARIES_MAX && boundary_run(seed * 1000, boundary)) {
        boundary += 1;
    }
    CHECK(boundary > 3 && boundary < BOUNDARIES_MAX, "a put made %u file changes", boundary);
    world_count_up("boundaries", boundary);
}
