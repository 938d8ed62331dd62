/* Writers, readers and deleters of shards. What they are told goes into the shard's fate. */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "tests/sim/datad_world.h"

enum { WRITERS_MAX = 12 };

struct datad_writer {
    struct shard_writer call;
    struct datad_world *world;
    struct datad_shard *shard;
    uint64_t start;
    uint64_t written;
    char *bytes;
    enum { WRITER_BEGIN, WRITER_APPEND, WRITER_SEAL, WRITER_ABORT, WRITER_PUT } step;
    enum rc failure;
};

struct datad_reader {
    struct shard_read call;
    struct datad_world *world;
    struct datad_shard *shard;
    bool hidden;  /* when it began, and nothing was under way on it: must not be seen */
    bool settled; /* when it began, and nothing was under way on it: must be there */
    char *bytes;
};

struct datad_deleter {
    struct shard_delete call;
    struct datad_world *world;
    struct datad_shard *shard;
};

void client_bytes(const struct datad_shard *shard, uint64_t at, char *to, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t word = (shard->seed + (at + i) / 8) * 0x9e3779b97f4a7c15ULL;

        to[i] = (char)((word ^ (word >> 29)) >> ((at + i) % 8 * 8));
    }
}

static struct datad_shard *shard_new(struct datad_world *world)
{
    struct datad_shard *shard = &world->shards[world->shard_count++];
    uint64_t now_ms = world->env->clock->wall_ns(world->env) / SIM_MS;

    *shard = (struct datad_shard){.seed = sim_random(world->sim), .busy = true};
    be32_put(shard->id.extent.bytes, 1);
    be32_put(shard->id.extent.bytes + 4, (uint32_t)world->starts);
    be64_put(shard->id.extent.bytes + 8, now_ms);
    be64_put(shard->id.extent.bytes + 16, ++world->next_number);
    shard->id.index = (uint32_t)sim_below(world->sim, 4);
    shard->disk = (unsigned)sim_below(world->sim, DATAD_DISKS);
    shard->size = sim_below(world->sim, DATAD_SHARD_BYTES_MAX);
    if (sim_chance(world->sim, 500)) {
        shard->size = sim_below(world->sim, 20000);
    }
    if (sim_chance(world->sim, 100)) {
        shard->size = sim_below(world->sim, 4) * LIMIT_BLOCK_BYTES;
    }
    return shard;
}

/* ---- Writing ---- */

static void writer_go(struct datad_writer *writer)
{
    struct data_client *data = &writer->world->local->base;
    struct datad_shard *shard = writer->shard;

    if (writer->failure != RC_OK || (writer->written > 0 && sim_chance(writer->world->sim, 30))) {
        writer->step = WRITER_ABORT;
        data->abort(data, &writer->call);
        return;
    }
    if (writer->written < shard->size) {
        uint64_t left = shard->size - writer->written;
        uint64_t len = (1 + sim_below(writer->world->sim, 4)) * LIMIT_BLOCK_BYTES;
        uint64_t at = writer->written;

        len = len < left ? len : left;
        writer->step = WRITER_APPEND;
        writer->written += len;
        data->append(data, &writer->call, slice_of(writer->bytes + at, (size_t)len));
        return;
    }
    writer->step = WRITER_SEAL;
    shard->fate = SHARD_MAYBE;
    data->seal(data, &writer->call);
}

static void writer_finish(struct datad_writer *writer)
{
    writer->shard->busy = false;
    writer->world->writers -= 1;
    mem_free(writer->bytes);
    mem_free(writer);
}

static void writer_done(struct shard_writer *call)
{
    struct datad_writer *writer = CONTAINER_OF(call, struct datad_writer, call);
    struct datad_shard *shard = writer->shard;

    CHECK(writer->start == writer->world->starts, "a call of an earlier program completes");
    world_trace(writer->world->sim, "shard %td: step %d: %s", shard - writer->world->shards,
                (int)writer->step, rc_name(call->rc));
    if (call->rc != RC_OK && writer->step != WRITER_ABORT) {
        world_count_up("writes failed", 1);
    }
    switch (writer->step) {
    case WRITER_BEGIN:
        if (call->rc != RC_OK) {
            CHECK(call->rc == RC_IO || call->rc == RC_FULL || call->rc == RC_NOT_FOUND, "begin: %s",
                  rc_name(call->rc));
            writer_finish(writer);
            return;
        }
        writer_go(writer);
        return;
    case WRITER_APPEND:
        writer->failure = call->rc;
        writer_go(writer);
        return;
    case WRITER_SEAL:
    case WRITER_PUT:
        if (call->rc == RC_OK) {
            shard->fate = SHARD_SEALED;
            writer->world->sealed += 1;
            world_count_up("shards sealed", 1);
        } else {
            shard->unsure = true;
        }
        writer_finish(writer);
        return;
    case WRITER_ABORT:
        world_count_up("aborts", 1);
        writer_finish(writer);
        return;
    }
}

static void client_write(struct datad_world *world)
{
    struct datad_writer *writer;
    struct data_client *data = &world->local->base;

    if (world->writers >= WRITERS_MAX || world->shard_count == DATAD_SHARDS_MAX) {
        return;
    }
    writer = mem_alloc(sizeof(*writer));
    world->writers += 1;
    writer->world = world;
    writer->start = world->starts;
    writer->shard = shard_new(world);
    writer->bytes = mem_alloc((size_t)writer->shard->size + 1);
    client_bytes(writer->shard, 0, writer->bytes, (size_t)writer->shard->size);
    writer->call = (struct shard_writer){
        .disk = world->disks[writer->shard->disk].id,
        .shard = writer->shard->id,
        .origin = {.home_bucket = 1,
                   .home_key = SLICE("some/key"),
                   .group = 1 + sim_below(world->sim, 3),
                   .group_epoch = 1},
        .reserved_bytes = writer->shard->size + sim_below(world->sim, 3) * 5000,
        .done = writer_done,
    };
    if (sim_chance(world->sim, 400)) {
        writer->step = WRITER_PUT;
        writer->shard->fate = SHARD_MAYBE;
        data->put(data, &writer->call, slice_of(writer->bytes, (size_t)writer->shard->size));
        return;
    }
    writer->step = WRITER_BEGIN;
    data->begin(data, &writer->call);
}

/* ---- Reading ---- */

static void reader_check(const struct datad_reader *reader)
{
    struct datad_shard *shard = reader->shard;
    const struct shard_read *call = &reader->call;
    struct datad_disk *disk = &reader->world->disks[shard->disk];
    char *want;

    if (call->rc == RC_OK) {
        CHECK(!reader->hidden || disk->flips > 0, "a shard that should not be seen is read");
        want = mem_alloc(call->len + 1);
        client_bytes(shard, call->at, want, call->len);
        CHECK(memcmp(want, call->to, call->len) == 0, "wrong bytes were read");
        mem_free(want);
        world_count_up("reads", 1);
        return;
    }
    if (reader->settled && shard->fate == SHARD_SEALED && !shard->damaged) {
        /* Each flipped bit may spoil one shard. */
        CHECK(disk->damaged < disk->flips || call->rc == RC_IO, "a sealed shard is lost: %s",
              rc_name(call->rc));
        if (disk->damaged < disk->flips) {
            disk->damaged += 1;
            shard->damaged = true;
            world_count_up("damaged shards", 1);
        }
    }
}

static void reader_done(struct shard_read *call)
{
    struct datad_reader *reader = CONTAINER_OF(call, struct datad_reader, call);

    reader_check(reader);
    mem_free(reader->bytes);
    mem_free(reader);
}

static void client_read(struct datad_world *world)
{
    struct datad_shard *shard;
    struct datad_reader *reader;
    struct data_client *data = &world->local->base;
    uint64_t at;

    if (world->shard_count == 0) {
        return;
    }
    shard = &world->shards[sim_below(world->sim, world->shard_count)];
    if (shard->size == 0) {
        return;
    }
    at = sim_below(world->sim, shard->size);
    reader = mem_alloc(sizeof(*reader));
    reader->world = world;
    reader->shard = shard;
    reader->hidden = !shard->busy && !shard->unsure &&
                     (shard->fate == SHARD_NEVER || shard->fate == SHARD_DELETED);
    reader->settled = !shard->busy && shard->fate == SHARD_SEALED;
    reader->call.disk = world->disks[shard->disk].id;
    reader->call.shard = shard->id;
    reader->call.at = at;
    reader->call.len = (size_t)(1 + sim_below(world->sim, shard->size - at));
    reader->bytes = mem_alloc(reader->call.len);
    reader->call.to = reader->bytes;
    reader->call.done = reader_done;
    data->read(data, &reader->call);
}

/* ---- Deleting ---- */

static void deleter_done(struct shard_delete *call)
{
    struct datad_deleter *deleter = CONTAINER_OF(call, struct datad_deleter, call);

    world_trace(deleter->world->sim, "shard %td: delete %s",
                deleter->shard - deleter->world->shards, rc_name(call->rc));

    deleter->shard->busy = false;
    if (call->rc == RC_OK) {
        deleter->shard->fate = SHARD_DELETED;
        world_count_up("deletes", 1);
    } else {
        deleter->shard->unsure = true;
    }
    mem_free(deleter);
}

static void client_delete(struct datad_world *world)
{
    struct datad_shard *shard;
    struct datad_deleter *deleter;
    struct data_client *data = &world->local->base;

    if (world->shard_count == 0) {
        return;
    }
    shard = &world->shards[sim_below(world->sim, world->shard_count)];
    if (shard->busy || shard->fate != SHARD_SEALED) {
        return;
    }
    shard->busy = true;
    shard->fate = SHARD_DELETING;
    deleter = mem_alloc(sizeof(*deleter));
    deleter->world = world;
    deleter->shard = shard;
    deleter->call.disk = world->disks[shard->disk].id;
    deleter->call.shard = shard->id;
    deleter->call.done = deleter_done;
    data->remove(data, &deleter->call);
}

static void client_run(struct sim_call *call)
{
    struct datad_world *world = CONTAINER_OF(call, struct datad_world, client);
    uint64_t what = sim_below(world->sim, 100);

    if (what < 35) {
        client_write(world);
    } else if (what < 85) {
        client_read(world);
    } else {
        client_delete(world);
    }
    sim_call_at(world->sim, world->host, &world->client, sim_below(world->sim, 3 * SIM_MS));
}

void datad_client_start(struct datad_world *world)
{
    world->client.run = client_run;
    sim_call_at(world->sim, world->host, &world->client, 1);
}

void datad_client_stop(struct datad_world *world)
{
    sim_call_stop(world->sim, &world->client);
}

void datad_client_crashed(struct datad_world *world)
{
    world->writers = 0;
    for (unsigned i = 0; i < world->shard_count; i++) {
        world->shards[i].busy = false;
    }
}
