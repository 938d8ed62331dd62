/* See rebuild.h. Each function starts the next asynchronous call and returns. */
#include "datad/repair/rebuild.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/ec/ec.h"

#define NS_PER_S 1000000000ULL

static void chunk_begin(struct rebuild *rebuild);
static void chunk_read(struct rebuild *rebuild);

uint64_t repair_pace_wait(struct repair_pace *pace, uint64_t now_ns, uint64_t bytes)
{
    uint64_t start = pace->next_ns > now_ns ? pace->next_ns : now_ns;

    pace->next_ns = start + bytes * NS_PER_S / pace->bytes_per_s;
    return start - now_ns;
}

static void rebuild_finish(struct rebuild *rebuild)
{
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++) {
        mem_free(rebuild->buffers[i]);
        rebuild->buffers[i] = NULL;
    }
    mem_free(rebuild->out);
    rebuild->out = NULL;
    rebuild->done(rebuild);
}

static struct rebuild *rebuild_of(struct shard_writer *writer)
{
    return CONTAINER_OF(writer, struct rebuild, writer);
}

static void writer_ended(struct shard_writer *writer)
{
    struct rebuild *rebuild = rebuild_of(writer);

    if (rebuild->rc == RC_OK) {
        rebuild->rc = writer->rc;
    }
    rebuild_finish(rebuild);
}

static void rebuild_fail(struct rebuild *rebuild, enum rc rc)
{
    rebuild->rc = rc;
    rebuild->writer.done = writer_ended;
    rebuild->data->abort(rebuild->data, &rebuild->writer);
}

/* ---- One chunk ---- */

static void chunk_appended(struct shard_writer *writer)
{
    struct rebuild *rebuild = rebuild_of(writer);

    if (writer->rc != RC_OK) {
        rebuild_fail(rebuild, writer->rc);
        return;
    }
    rebuild->at += rebuild->len;
    chunk_begin(rebuild);
}

static void decode_run(struct env_work *work)
{
    struct rebuild *rebuild = CONTAINER_OF(work, struct rebuild, work);
    bool ok;

    if (rebuild->replica) {
        memcpy(rebuild->out, rebuild->buffers[__builtin_ctz(rebuild->present)], rebuild->len);
        return;
    }
    ok = ec_rebuild(ec_get(rebuild->k, rebuild->m), rebuild->len, rebuild->buffers,
                    rebuild->present, rebuild->want, rebuild->out);
    ASSERT(ok);
}

static void decode_done(struct env_work *work)
{
    struct rebuild *rebuild = CONTAINER_OF(work, struct rebuild, work);

    rebuild->writer.done = chunk_appended;
    rebuild->data->append(rebuild->data, &rebuild->writer, slice_of(rebuild->out, rebuild->len));
}

static void chunk_arrived(struct shard_read *read)
{
    struct rebuild *rebuild = CONTAINER_OF(read - read->shard.index, struct rebuild, reads[0]);
    uint32_t bit = 1U << read->shard.index;

    rebuild->pending -= 1;
    if (read->rc == RC_OK) {
        rebuild->present |= bit;
        rebuild->failed &= ~bit;
    } else {
        rebuild->failed |= bit;
    }
    if (rebuild->pending == 0) {
        chunk_read(rebuild);
    }
}

/* The next shard to ask in this chunk: good ones first, the doubtful target itself last.
 * LIMIT_SHARDS: none. */
static uint32_t chunk_choose(const struct rebuild *rebuild)
{
    uint32_t tried = rebuild->present | rebuild->failed;
    uint32_t self = 1U << rebuild->want;
    uint32_t candidates = rebuild->good & ~tried & ~self;

    candidates = candidates != 0 ? candidates : (rebuild->doubtful & ~tried & ~self);
    candidates = candidates != 0 ? candidates : (rebuild->doubtful & ~tried & self);
    return candidates != 0 ? (uint32_t)__builtin_ctz(candidates) : LIMIT_SHARDS;
}

static void chunk_ask(struct rebuild *rebuild, uint32_t shard)
{
    if (rebuild->buffers[shard] == NULL) {
        rebuild->buffers[shard] = mem_alloc_raw(rebuild->chunk_bytes);
    }
    rebuild->reads[shard] = (struct shard_read){
        .disk = rebuild->disks[shard],
        .shard = {rebuild->extent, shard},
        .at = rebuild->at,
        .len = rebuild->len,
        .to = rebuild->buffers[shard],
        .done = chunk_arrived
    };
    rebuild->pending += 1;
    rebuild->failed |= 1U << shard; /* until it has arrived: it is not chosen again */
}

/* Asks for as many as are still short; decodes when k are there. */
static void chunk_read(struct rebuild *rebuild)
{
    uint32_t need = rebuild->replica ? 1 : rebuild->k;
    uint32_t self = 1U << rebuild->want;
    uint32_t chosen[LIMIT_SHARDS];
    uint32_t count = 0;

    need = (rebuild->present & self) != 0 ? 1 : need;
    if ((uint32_t)__builtin_popcount(rebuild->present) >= need) {
        rebuild->work = (struct env_work){.run = decode_run, .done = decode_done};
        rebuild->env->worker->submit(rebuild->env, NULL, &rebuild->work);
        return;
    }
    while ((uint32_t)__builtin_popcount(rebuild->present) + count < need) {
        uint32_t shard = chunk_choose(rebuild);
        if (shard == LIMIT_SHARDS) {
            break;
        }
        chosen[count] = shard;
        count += 1;
        chunk_ask(rebuild, shard);
    }
    if (count == 0) {
        rebuild_fail(rebuild, RC_CORRUPT);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        rebuild->data->read(rebuild->data, &rebuild->reads[chosen[i]]);
    }
}

static void chunk_paced(struct env_timer *timer)
{
    chunk_read(CONTAINER_OF(timer, struct rebuild, timer));
}

static void chunk_begin(struct rebuild *rebuild)
{
    uint64_t left = rebuild->shard_length - rebuild->at;
    uint64_t now_ns = rebuild->env->clock->mono_ns(rebuild->env);

    if (left == 0) {
        rebuild->writer.done = writer_ended;
        rebuild->data->seal(rebuild->data, &rebuild->writer);
        return;
    }
    rebuild->len = left < rebuild->chunk_bytes ? (size_t)left : rebuild->chunk_bytes;
    rebuild->present = 0;
    rebuild->failed = 0;
    rebuild->pending = 0;
    rebuild->timer.fire = chunk_paced;
    rebuild->env->clock->timer_start(
        rebuild->env, &rebuild->timer,
        repair_pace_wait(rebuild->pace, now_ns, rebuild->len * (rebuild->k + 1ULL)));
}

/* ---- Begin ---- */

static void rebuild_begun(struct shard_writer *writer)
{
    struct rebuild *rebuild = rebuild_of(writer);

    if (writer->rc != RC_OK) {
        rebuild->rc = writer->rc;
        rebuild_finish(rebuild);
        return;
    }
    chunk_begin(rebuild);
}

void rebuild_start(struct rebuild *rebuild)
{
    size_t chunk = REBUILD_MEMORY_BYTES / (rebuild->k + 1);

    ASSERT(rebuild->k >= 1 && rebuild->k + rebuild->m <= LIMIT_SHARDS);
    ASSERT(rebuild->want < rebuild->k + rebuild->m && rebuild->attempt > 0);
    chunk = chunk / LIMIT_BLOCK_BYTES * LIMIT_BLOCK_BYTES;
    rebuild->chunk_bytes = chunk > 0 ? chunk : LIMIT_BLOCK_BYTES;
    rebuild->out = mem_alloc_raw(rebuild->chunk_bytes);
    rebuild->at = 0;
    rebuild->rc = RC_OK;
    rebuild->timer = (struct env_timer){0};
    rebuild->writer = (struct shard_writer){
        .disk = rebuild->disks[rebuild->want],
        .shard = {rebuild->extent, rebuild->want},
        .origin = rebuild->origin,
        .reserved_bytes = rebuild->shard_length,
        .attempt = rebuild->attempt,
        .done = rebuild_begun
    };
    rebuild->data->begin(rebuild->data, &rebuild->writer);
}
