/*
 * A shard coming in, from the caller's side:
 *
 *     begin --queue--> region --append: pool, checksums and pwrite, repeated--> seal --queue-->
 * done
 *
 * Bytes do not pile up unsynced in the page cache until the seal: an append that brings a segment
 * over EARLY_SYNC_BYTES has it synced and waits for that, which also slows the writer to the disk's
 * speed.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "datad/service/data_local.h"

enum {
    EARLY_SYNC_BYTES = 16 * 1024 * 1024,
    UNSYNCED_BYTES_MAX = 64 * 1024 * 1024 /* over this every append waits for a sync */
};

enum local_step { STEP_IDLE, STEP_BEGIN, STEP_APPEND, STEP_SEAL, STEP_ABORT, STEP_PUT };

struct local_writer {
    struct data_local *local;
    struct store *store; /* NULL: refused */
    struct shard_writer *call;
    struct list link; /* in local->writers */
    enum local_step step;
    bool whole; /* put() of a long shard: begin, append and seal follow by themselves */
    bool synced_early;
    enum rc rc; /* of the step, or of the put */
    struct slice bytes;
    uint64_t unsynced; /* of the segment when its early sync began */
    struct store_writer writer;
    struct store_job job;
    struct env_work work;
    struct env_io io;
    struct env_post post;
};

static void writer_step(struct local_writer *writer, enum local_step step);

static struct local_writer *writer_of(const struct shard_writer *call)
{
    return (struct local_writer *)(uintptr_t)call->reserved[0];
}

/* Answers the call under way. The writer goes when it is finished or never began. */
static void writer_answer(struct local_writer *writer, enum rc rc, bool finished)
{
    struct shard_writer *call = writer->call;
    struct data_local *local = writer->local;

    writer->step = STEP_IDLE;
    if (finished) {
        list_remove(&writer->link);
        mem_free(writer->writer.crcs);
        mem_free(writer);
    }
    if (call != NULL) {
        call->reserved[0] = finished ? 0 : call->reserved[0];
        call->rc = rc;
        call->done(call);
    }
    data_local_end(local);
}

static void writer_refused(struct env_post *post)
{
    struct local_writer *writer = CONTAINER_OF(post, struct local_writer, post);

    writer_answer(writer, writer->rc, writer->step != STEP_APPEND);
}

/* Answers later: never inside the call. */
static void writer_refuse(struct local_writer *writer, enum local_step step, enum rc rc)
{
    writer->step = step;
    writer->rc = rc;
    writer->post.run = writer_refused;
    writer->local->env->post(writer->local->env, &writer->post);
}

/* ---- Jobs of the queue ---- */

static void writer_job_done(struct store_job *job)
{
    struct local_writer *writer = CONTAINER_OF(job, struct local_writer, job);
    enum rc rc = job->rc;

    switch (writer->step) {
    case STEP_BEGIN:
        if (rc == RC_OK && writer->whole) {
            writer_step(writer, STEP_APPEND);
        } else {
            writer_answer(writer, rc, rc != RC_OK);
        }
        return;
    case STEP_APPEND: /* the queue knows now that a write failed */
        if (writer->whole) {
            writer_step(writer, STEP_ABORT);
        } else {
            writer_answer(writer, writer->rc, false);
        }
        return;
    case STEP_ABORT:
        writer_answer(writer, writer->whole ? writer->rc : rc, true);
        return;
    case STEP_SEAL:
    case STEP_PUT:
        writer_answer(writer, rc, true);
        return;
    case STEP_IDLE:
        break;
    }
    ASSERT(false);
}

static void writer_submit(struct local_writer *writer, enum store_job_kind kind)
{
    writer->job.kind = kind;
    writer->job.writer = &writer->writer;
    writer->job.done = writer_job_done;
    store_submit(writer->store, writer->local->env, &writer->job);
}

/* ---- Append ---- */

static void append_run(struct env_work *work)
{
    struct local_writer *writer = CONTAINER_OF(work, struct local_writer, work);
    struct store_writer *to = &writer->writer;
    struct env *env = writer->store->env;
    uint64_t payload_at = to->at + SEGMENT_ALIGN;
    uint32_t block = segment_block_count(to->appended_bytes);
    struct slice rest = writer->bytes;

    for (; rest.len > 0; block++) {
        size_t len = rest.len < SEGMENT_BLOCK ? rest.len : SEGMENT_BLOCK;
        to->crcs[block] = segment_block_crc(&to->segment->identity, &to->shard, payload_at, block,
                                            slice_of(rest.data, len));
        rest = slice_after(rest, len);
    }
    writer->rc = atomic_load(&to->segment->failed)
                     ? RC_IO
                     : env->file->write(env, to->segment->file, &writer->bytes, 1,
                                        payload_at + to->appended_bytes);
}

static void append_finish(struct local_writer *writer)
{
    if (writer->rc != RC_OK) {
        writer->job.failure = writer->rc;
        writer_submit(writer, JOB_WRITE_FAILED);
        return;
    }
    if (writer->whole) {
        writer_step(writer, STEP_SEAL);
    } else {
        writer_answer(writer, RC_OK, false);
    }
}

static void append_synced(struct env_io *io)
{
    struct local_writer *writer = CONTAINER_OF(io, struct local_writer, io);
    struct segment *segment = writer->writer.segment;

    if (io->rc == RC_OK) {
        /* Two may have subtracted the same bytes: then the next early sync comes later, no more. */
        uint64_t now = atomic_load(&segment->unsynced);
        atomic_store(&segment->unsynced, now > writer->unsynced ? now - writer->unsynced : 0);
    }
    if (writer->synced_early) {
        atomic_store(&segment->syncing, false);
    }
    atomic_fetch_add(&writer->store->syncs, 1);
    writer->rc = io->rc;
    append_finish(writer);
}

static void append_done(struct env_work *work)
{
    struct local_writer *writer = CONTAINER_OF(work, struct local_writer, work);
    struct segment *segment = writer->writer.segment;
    struct env *env = writer->local->env;
    uint64_t unsynced;

    if (writer->rc != RC_OK) {
        append_finish(writer);
        return;
    }
    writer->writer.appended_bytes += writer->bytes.len;
    unsynced = atomic_fetch_add(&segment->unsynced, writer->bytes.len) + writer->bytes.len;
    if (unsynced < EARLY_SYNC_BYTES || segment->early_file < 0) {
        append_finish(writer);
        return;
    }
    writer->synced_early = !atomic_exchange(&segment->syncing, true);
    if (!writer->synced_early && unsynced < UNSYNCED_BYTES_MAX) {
        append_finish(writer);
        return;
    }
    writer->unsynced = unsynced;
    writer->io = (struct env_io){.done = append_synced};
    env->disk->sync(env, &writer->io, segment->early_file);
}

static void writer_step(struct local_writer *writer, enum local_step step)
{
    struct env *env = writer->local->env;

    writer->step = step;
    switch (step) {
    case STEP_APPEND:
        writer->work = (struct env_work){.run = append_run, .done = append_done};
        env->worker->submit(env, NULL, &writer->work);
        return;
    case STEP_BEGIN:
        writer_submit(writer, JOB_BEGIN);
        return;
    case STEP_SEAL:
        writer_submit(writer, JOB_SEAL);
        return;
    case STEP_ABORT:
        writer_submit(writer, JOB_ABORT);
        return;
    case STEP_PUT:
        writer_submit(writer, JOB_PUT);
        return;
    case STEP_IDLE:
        break;
    }
    ASSERT(false);
}

/* ---- The calls ---- */

/* Copies what the store needs of the call; refuses (later) what cannot be. */
static struct local_writer *writer_new(struct data_local *local, struct shard_writer *call,
                                       uint64_t reserved_bytes)
{
    struct local_writer *writer = mem_alloc(sizeof(*writer));
    bool sane = reserved_bytes <= LIMIT_EXTENT_BYTES && call->shard.index < LIMIT_SHARDS &&
                call->origin.home_key.len <= LIMIT_KEY_BYTES;

    data_local_begin(local);
    writer->local = local;
    writer->call = call;
    writer->store = data_local_store(local, call->disk);
    list_push_back(&local->writers, &writer->link);
    call->reserved[0] = (uint64_t)(uintptr_t)writer;
    if (writer->store == NULL || atomic_load(&local->closing) || !sane) {
        enum rc rc = !sane ? RC_INVALID : writer->store == NULL ? RC_NOT_FOUND : RC_CLOSED;
        writer_refuse(writer, STEP_BEGIN, rc);
        return NULL;
    }
    writer->writer = (struct store_writer){
        .shard = call->shard,
        .attempt = call->attempt,
        .group = call->origin.group,
        .group_epoch = call->origin.group_epoch,
        .reserved_bytes = reserved_bytes,
        .crcs = mem_alloc_raw((size_t)segment_block_count(reserved_bytes) * SEGMENT_CRC_BYTES)};
    list_init(&writer->writer.link);
    writer->job.origin = &call->origin;
    return writer;
}

void local_write_begin(struct data_client *data, struct shard_writer *call)
{
    struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    struct local_writer *writer = writer_new(local, call, call->reserved_bytes);

    if (writer != NULL) {
        writer_step(writer, STEP_BEGIN);
    }
}

void local_write_append(struct data_client *data, struct shard_writer *call, struct slice bytes)
{
    struct local_writer *writer = writer_of(call);
    const struct store_writer *to = &writer->writer;

    (void)data;
    ASSERT(writer != NULL && writer->step == STEP_IDLE);
    data_local_begin(writer->local);
    if (to->appended_bytes % SEGMENT_BLOCK != 0 ||
        bytes.len > to->reserved_bytes - to->appended_bytes) {
        writer_refuse(writer, STEP_APPEND, RC_INVALID);
        return;
    }
    writer->bytes = bytes;
    writer_step(writer, STEP_APPEND);
}

void local_write_seal(struct data_client *data, struct shard_writer *call)
{
    struct local_writer *writer = writer_of(call);

    (void)data;
    ASSERT(writer != NULL && writer->step == STEP_IDLE);
    data_local_begin(writer->local);
    writer_step(writer, STEP_SEAL);
}

void local_write_abort(struct data_client *data, struct shard_writer *call)
{
    struct local_writer *writer = writer_of(call);

    (void)data;
    ASSERT(writer != NULL && writer->step == STEP_IDLE);
    data_local_begin(writer->local);
    writer_step(writer, STEP_ABORT);
}

void local_write_put(struct data_client *data, struct shard_writer *call, struct slice bytes)
{
    struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    struct local_writer *writer = writer_new(local, call, bytes.len);

    if (writer == NULL) {
        return;
    }
    writer->bytes = bytes;
    writer->job.bytes = bytes;
    writer->whole = bytes.len > STORE_PUT_BYTES_MAX;
    writer_step(writer, writer->whole ? STEP_BEGIN : STEP_PUT);
}

/* The callers are gone: what they left open is aborted, nobody is told. */
void local_writers_drop(struct data_local *local)
{
    struct list *at = local->writers.next;

    while (at != &local->writers) {
        struct local_writer *writer = CONTAINER_OF(at, struct local_writer, link);
        at = at->next;
        if (writer->step == STEP_IDLE) {
            writer->call = NULL;
            data_local_begin(local);
            writer_step(writer, STEP_ABORT);
        }
    }
}
