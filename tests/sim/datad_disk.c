/* The disks: start, crash, and what must be true of them after every start. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/sim/datad_world.h"

/* Far more often than in the real world, where it is once a second. */
static void tick_run(struct sim_call *call)
{
    struct datad_world *world = CONTAINER_OF(call, struct datad_world, tick);

    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        compact_tick(world->disks[i].compact);
    }
    sim_call_at(world->sim, world->host, &world->tick, 10 * SIM_MS);
}

void disks_open(struct datad_world *world)
{
    world->starts += 1;
    world_trace(world->sim, "start %llu", (unsigned long long)world->starts);
    world->env = sim_env_new(world->host);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        struct datad_disk *disk = &world->disks[i];
        struct store_options options = {
            .env = world->env,
            .id = disk->id,
            .path = disk->path,
            .segment_bytes = (1 + sim_below(world->sim, 4)) * 1024 * 1024,
            .free_bytes_min = 1024 * 1024,
            .kv_open = sim_kv_paths_kv_open,
            .cluster_epoch = 1,
        };
        struct error error = {.rc = RC_OK};

        disk->store = store_open(&options, &error);
        CHECK(error.rc == RC_OK, "open disk %u: %s", i, error.text);
        store_start(disk->store, world->env);
        disk->compact = compact_new(disk->store, world->env);
        world->stores[i] = disk->store;
    }
    world->local = data_local_new(world->env, world->stores, DATAD_DISKS);
    world->tick.run = tick_run;
    sim_call_at(world->sim, world->host, &world->tick, 10 * SIM_MS);
}

void disks_crash(struct datad_world *world, enum sim_crash how)
{
    world_trace(world->sim, "crash: %s", how == SIM_POWER ? "power cut" : "kill -9");
    sim_crash(world->host, how);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        sim_kv_paths_crash(world->disks[i].path, how);
        world->disks[i].store = NULL;
        world->disks[i].compact = NULL;
        world->disks[i].lies = world->disks[i].lies && how == SIM_KILL;
    }
    world->env = NULL;
    world->local = NULL;
    datad_client_crashed(world);
    world_count_up("crashes", 1);
}

/* ---- An orderly close ---- */

static bool writers_are_done(void *arg)
{
    const struct datad_world *world = arg;

    return world->writers == 0;
}

static bool local_is_idle(void *arg)
{
    const struct datad_world *world = arg;

    return data_local_idle(world->local);
}

static bool compact_is_idle(void *arg)
{
    return compact_idle(arg);
}

static void job_done(struct store_job *job)
{
    job->kind = JOB_TICK; /* tells job_is_done() */
}

static bool job_is_done(void *arg)
{
    const struct store_job *job = arg;

    return job->kind == JOB_TICK;
}

void disks_close(struct datad_world *world)
{
    datad_client_stop(world);
    CHECK(sim_run_until(world->sim, writers_are_done, world, 60 * SIM_S), "writers do not end");
    data_local_close(world->local);
    CHECK(sim_run_until(world->sim, local_is_idle, world, 60 * SIM_S), "the client is not idle");
    sim_call_stop(world->sim, &world->tick);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        compact_stop(world->disks[i].compact);
        CHECK(sim_run_until(world->sim, compact_is_idle, world->disks[i].compact, 60 * SIM_S),
              "compaction does not stop");
        compact_free(world->disks[i].compact);
        world->disks[i].compact = NULL;
    }
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        struct store_job job = {.kind = JOB_CLOSE, .done = job_done};

        store_submit(world->disks[i].store, world->env, &job);
        CHECK(sim_run_until(world->sim, job_is_done, &job, 60 * SIM_S), "the disk does not close");
    }
    data_local_free(world->local);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        store_free(world->disks[i].store, world->env);
        world->disks[i].store = NULL;
    }
    CHECK(sim_open_files(world->host) == 0, "%u files are left open", sim_open_files(world->host));
    world->env = NULL;
    world->local = NULL;
    world_trace(world->sim, "closed");
    world_count_up("closes", 1);
}

/* ---- Verification ---- */

struct verify_read {
    struct shard_read call;
    bool done;
};

static void verify_done(struct shard_read *call)
{
    CONTAINER_OF(call, struct verify_read, call)->done = true;
}

static bool verify_is_done(void *arg)
{
    return ((const struct verify_read *)arg)->done;
}

static enum rc shard_read_whole(struct datad_world *world, const struct datad_shard *shard)
{
    struct verify_read read = {
        .call = {.disk = world->disks[shard->disk].id,
                 .shard = shard->id,
                 .len = (size_t)shard->size,
                 .done = verify_done}
    };
    char *bytes = mem_alloc((size_t)shard->size + 1);
    char *want = mem_alloc((size_t)shard->size + 1);
    struct data_client *data = &world->local->base;

    read.call.to = bytes;
    data->read(data, &read.call);
    CHECK(sim_run_until(world->sim, verify_is_done, &read, 60 * SIM_S), "a read does not complete");
    if (read.call.rc == RC_OK) {
        client_bytes(shard, 0, want, (size_t)shard->size);
        CHECK(memcmp(bytes, want, (size_t)shard->size) == 0, "wrong bytes after a restart");
    }
    mem_free(bytes);
    mem_free(want);
    return read.call.rc;
}

static void shard_verify(struct datad_world *world, struct datad_shard *shard, unsigned number)
{
    struct datad_disk *disk = &world->disks[shard->disk];
    enum rc rc = shard_read_whole(world, shard);

    switch (shard->fate) {
    case SHARD_NEVER:
        CHECK(rc != RC_OK, "shard %u was never sealed, but is there", number);
        return;
    case SHARD_DELETED:
        /* With a damaged delete record it may be back: ids are never used again, so that harms
         * nobody. */
        CHECK(rc != RC_OK || disk->flips > 0, "shard %u was deleted, but is there", number);
        return;
    case SHARD_MAYBE:
    case SHARD_DELETING:
        /* Torn and never answered: recovery keeps it as suspect, for repair to look at. */
        CHECK(rc == RC_OK || rc == RC_NOT_FOUND || disk->flips > 0 ||
                  (rc == RC_CORRUPT && shard->fate == SHARD_MAYBE),
              "shard %u: %s", number, rc_name(rc));
        world_trace(world->sim, "shard %u: was %s, now %s", number,
                    shard->fate == SHARD_MAYBE ? "perhaps sealed" : "perhaps deleted", rc_name(rc));
        if (disk->lies || shard->unsure) {
            return; /* never answered, and not settled before the page cache is gone */
        }
        shard->fate = rc == RC_OK                  ? SHARD_SEALED
                      : shard->fate == SHARD_MAYBE ? SHARD_NEVER
                                                   : SHARD_DELETED;
        return;
    case SHARD_SEALED:
        if (rc != RC_OK && !shard->damaged) {
            disk->damaged += 1;
            shard->damaged = true;
        }
        CHECK(rc == RC_OK || (shard->damaged && disk->damaged <= disk->flips),
              "shard %u was sealed (%llu bytes, disk %u), but a read says %s (%llu bits were "
              "flipped)",
              number, (unsigned long long)shard->size, shard->disk, rc_name(rc),
              (unsigned long long)disk->flips);
        return;
    }
}

void disks_verify(struct datad_world *world)
{
    for (unsigned i = 0; i < world->shard_count; i++) {
        if (world->shards[i].size > 0) {
            shard_verify(world, &world->shards[i], i);
        }
    }
}

/* ---- The index against one made again ---- */

struct index_dump {
    struct {
        struct shard_id id;
        uint64_t length; /* not the place: compaction may have left two copies */
        enum index_kind kind;
    } rows[DATAD_SHARDS_MAX];
    unsigned count;
};

static bool dump_row(void *list, const struct shard_id *shard, const struct index_row *row)
{
    struct index_dump *dump = list;

    CHECK(dump->count < DATAD_SHARDS_MAX, "the index has too many rows");
    dump->rows[dump->count].id = *shard;
    dump->rows[dump->count].kind = row->kind;
    dump->rows[dump->count].length = row->kind == INDEX_LIVE ? row->length : 0;
    dump->count += 1;
    return true;
}

static struct index_dump *dump_disk(struct datad_disk *disk)
{
    struct index_dump *dump = mem_alloc(sizeof(*dump));
    struct error error = {.rc = RC_OK};

    CHECK(index_each_shard(&disk->store->index, dump_row, dump, &error) == RC_OK, "%s", error.text);
    return dump;
}

static bool dump_has(const struct index_dump *dump, const struct index_dump *other, unsigned row)
{
    for (unsigned i = 0; i < dump->count; i++) {
        if (memcmp(&dump->rows[i], &other->rows[row], sizeof(other->rows[row])) == 0) {
            return true;
        }
    }
    return false;
}

/* Rows of shards whose seal was never answered may come and go: a failed write leaves what it
 * leaves. */
static bool row_counts(const struct datad_world *world, const struct shard_id *id)
{
    for (unsigned i = 0; i < world->shard_count; i++) {
        if (memcmp(&world->shards[i].id, id, sizeof(*id)) == 0) {
            return world->shards[i].fate == SHARD_SEALED;
        }
    }
    return false;
}

static void dump_compare(const struct datad_world *world, const struct index_dump *before,
                         const struct index_dump *after)
{
    for (unsigned i = 0; i < before->count; i++) {
        CHECK(dump_has(after, before, i) || !row_counts(world, &before->rows[i].id),
              "a row of the index is not found again in the segments");
    }
    for (unsigned i = 0; i < after->count; i++) {
        CHECK(dump_has(before, after, i) || !row_counts(world, &after->rows[i].id),
              "the segments give a row that the index did not have");
    }
}

void disks_check_rebuild(struct datad_world *world)
{
    struct index_dump *before[DATAD_DISKS];

    disks_open(world);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        before[i] = dump_disk(&world->disks[i]);
    }
    disks_close(world);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        sim_kv_paths_wipe(world->disks[i].path);
    }
    disks_open(world);
    for (unsigned i = 0; i < DATAD_DISKS; i++) {
        struct index_dump *after = dump_disk(&world->disks[i]);

        if (world->disks[i].flips == 0) {
            dump_compare(world, before[i], after);
        }
        mem_free(before[i]);
        mem_free(after);
    }
    disks_verify(world);
    disks_close(world);
    world_count_up("index rebuilds", 1);
}
