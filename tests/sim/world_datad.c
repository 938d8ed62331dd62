/*
 * World "datad": two disks under writers, readers and deleters.
 *
 *     work -> stop at some file change, or a crash, or an orderly close -> start -> verify all ->
 * again
 *
 * Checked after every start: what was answered sealed reads back whole; what was not sealed, was
 * aborted or deleted is not seen; no read ever gives wrong bytes; the index made again from
 * segments is the same. Faults: power cuts with torn writes at every boundary, kill -9, full disks,
 * failing writes and syncs, bit rot (each flipped bit may cost one shard, never more, never
 * silently).
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/datad_world.h"

enum { DATAD_ROUNDS = 8 };

static bool disks_lie(const struct datad_world *world)
{
    bool lie = false;

    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        lie = lie || world->disks[i].lies;
    }
    return lie;
}

static bool node_has_stopped(void *arg)
{
    return sim_stopped(arg);
}

static void faults_choose(struct datad_world *world)
{
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        struct sim_disk_faults *faults = sim_disk_faults(world->host, world->disks[i].path);

        *faults = (struct sim_disk_faults){.capacity_bytes = 1ULL << 40};
        switch (sim_below(world->sim, 8)) {
        case 0:
            faults->capacity_bytes = sim_disk_used(world->host, world->disks[i].path) +
                                     sim_below(world->sim, 8) * 1024 * 1024;
            break;
        case 1:
            faults->sync_error_ppm = 20000;
            world->disks[i].lies = true;
            break;
        case 2:
            faults->write_error_ppm = 5000;
            break;
        case 3:
            faults->slow_ns = 20 * SIM_MS;
            break;
        default:
            break;
        }
    }
}

static void faults_none(struct datad_world *world)
{
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        *sim_disk_faults(world->host, world->disks[i].path) =
            (struct sim_disk_faults){.capacity_bytes = 1ULL << 40};
    }
}

/* Past the first block: without a segment's header all of it is lost, which is the other disks' to
 * mend. */
static void flip_bits(struct datad_world *world)
{
    struct datad_disk *disk = &world->disks[sim_below(world->sim, DATAD_DISKS)];
    char directory[48];
    uint32_t count;
    const char *path;
    uint64_t size;

    (void)snprintf(directory, sizeof(directory), "%s/data/segments", disk->path);
    count = sim_file_count(world->host, directory);
    if (count == 0) {
        return;
    }
    path = sim_file_at(world->host, directory, (uint32_t)sim_below(world->sim, count));
    size = sim_file_size(world->host, path);
    if (size > SEGMENT_ALIGN &&
        sim_file_flip(world->host, path,
                      SEGMENT_ALIGN + sim_below(world->sim, size - SEGMENT_ALIGN),
                      (unsigned)sim_below(world->sim, 8))) {
        disk->flips += 1;
        world_count_up("flipped bits", 1);
    }
}

/* kill -9, mostly a power cut. A disk whose sync failed is not started again on the same page
 * cache, which would show what the platter lacks: fault budget. */
static void crash_choose(struct datad_world *world)
{
    bool power = disks_lie(world) || sim_chance(world->sim, 700);

    disks_crash(world, power ? SIM_POWER : SIM_KILL);
}

static void round_end(struct datad_world *world)
{
    switch (sim_below(world->sim, 4)) {
    case 0: /* at any moment */
        sim_run_for(world->sim, sim_below(world->sim, 400 * SIM_MS));
        crash_choose(world);
        break;
    case 1:
        sim_run_for(world->sim, sim_below(world->sim, 400 * SIM_MS));
        faults_none(world);
        disks_close(world);
        break;
    default: /* in the middle of a change of a file */
        sim_run_for(world->sim, sim_below(world->sim, 200 * SIM_MS));
        sim_stop_after(world->host, 1 + sim_below(world->sim, 60));
        (void)sim_run_until(world->sim, node_has_stopped, world->host, 20 * SIM_S);
        crash_choose(world);
        break;
    }
}

/* A start may be cut short as well. */
static void start_interrupted(struct datad_world *world)
{
    struct env *env;

    if (!sim_chance(world->sim, 300)) {
        return;
    }
    sim_stop_after(world->host, 1 + sim_below(world->sim, 10));
    env = sim_env_new(world->host);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        struct store_options options = {.env = env,
                                        .id = world->disks[i].id,
                                        .path = world->disks[i].path,
                                        .segment_bytes = 1024 * 1024,
                                        .free_bytes_min = 1024 * 1024,
                                        .kv_open = sim_kv_paths_kv_open,
                                        .cluster_epoch = 1};
        struct error error = {.rc = RC_OK};

        (void)store_open(&options, &error);
    }
    disks_crash(world, SIM_POWER);
    world_count_up("interrupted starts", 1);
}

void world_datad(uint64_t seed)
{
    struct datad_world *world = mem_alloc(sizeof(*world));
    bool rot = seed % 3 == 0;

    world->sim = sim_new(seed);
    world->host = sim_node_new(world->sim, "d");
    world->shards = mem_alloc(DATAD_SHARDS_MAX * sizeof(struct datad_shard));
    sim_kv_paths_open(world->sim);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        (void)snprintf(world->disks[i].path, sizeof(world->disks[i].path), "/d%u", i);
        world->disks[i].id = i + 1;
        sim_mount(world->host, world->disks[i].path);
        sim_kv_paths_bind(world->disks[i].path, world->host);
    }
    for (unsigned round = 0; round < DATAD_ROUNDS; round++) {
        start_interrupted(world);
        disks_open(world);
        disks_verify(world);
        faults_choose(world);
        datad_client_start(world);
        round_end(world);
        faults_none(world);
        if (rot && round > 3) {
            flip_bits(world);
        }
        if (!disks_lie(world) && sim_chance(world->sim, 250)) {
            disks_check_rebuild(world);
        }
    }
    if (!disks_lie(world)) {
        disks_check_rebuild(world);
    }
    CHECK(world->sealed > 0, "nothing was ever written");
}
