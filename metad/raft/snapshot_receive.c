/*
 * A copy of the state from the leader, and the swap.
 *
 *     BEGIN -> install_begin, CHUNK -> install_chunk ... (apply queue, the old state stays)
 *     last  -> core: INSTALL -> it agrees -> `installing` row (synced)
 *           -> install_finish (apply queue) -> `installed` row, the log reset (synced) -> core
 *
 * Between the two rows nothing is applied and a restart repeats the swap (replica.c). A session
 * that is replaced by another, or falls silent, is forgotten: what it staged is overwritten by
 * install_begin.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

enum { CHUNKS_WAITING_MAX = 4 };

struct receive_chunk {
    struct list link;
    uint64_t sequence;
    bool last;
    size_t len;
    char bytes[];
};

struct snapshot_receive {
    struct replica *replica;
    uint64_t from;
    uint64_t term;
    uint64_t session;
    struct log_snapshot snapshot;
    uint64_t received; /* chunks */
    struct list chunks;
    struct receive_chunk *chunk; /* of the job under way; NULL: install_begin, or the swap */
    bool working;
    bool finishing; /* the core agreed: the swap is under way */
    bool aborted;
    struct env_work work;
    enum rc rc;
    struct error error;
};

static void receive_next(struct snapshot_receive *s);

static void receive_free(struct snapshot_receive *s)
{
    ASSERT(!s->working);
    while (!list_empty(&s->chunks)) {
        mem_free(CONTAINER_OF(list_pop_front(&s->chunks), struct receive_chunk, link));
    }
    mem_free(s->chunk);
    if (s->replica->receiving == s) {
        s->replica->receiving = NULL;
    }
    mem_free(s);
}

static void receive_abort(struct snapshot_receive *s)
{
    s->aborted = true;
    if (!s->working) {
        receive_free(s);
    }
}

static void answer(struct replica *r, uint64_t to, uint64_t session, uint64_t sequence,
                   bool refused)
{
    const struct frame_header header = link_header(r, to, FRAME_SNAPSHOT_RESULT);

    buffer_clear(&r->frame);
    frame_begin(&r->frame, &header);
    frame_snapshot_result(&r->frame, session, sequence, refused);
    link_send_frame(r, to);
}

/* Apply queue. */
static void job_run(struct env_work *work)
{
    struct snapshot_receive *s = CONTAINER_OF(work, struct snapshot_receive, work);
    struct state_machine *machine = s->replica->machine;

    if (s->finishing) {
        s->rc = machine->install_finish(machine, s->snapshot.index, &s->error);
    } else if (s->chunk != NULL) {
        s->rc =
            machine->install_chunk(machine, slice_of(s->chunk->bytes, s->chunk->len), &s->error);
    } else {
        s->rc = machine->install_begin(machine, &s->error);
    }
}

/* The last chunk is staged: the core decides whether it is still wanted. */
static void offer(struct snapshot_receive *s)
{
    struct replica *r = s->replica;
    const struct consensus_message message = {
        .kind = MESSAGE_INSTALL,
        .peer = s->from,
        .term = s->term,
        .install.snapshot = &s->snapshot,
    };

    if (s->term != consensus_term(r->core) || consensus_installing(r->core) ||
        consensus_role(r->core) == CONSENSUS_LEADER || s->snapshot.index <= r->applied) {
        receive_abort(s);
        return;
    }
    driver_carry_out(
        r, consensus_receive(r->core, replica_now_ms(r), &message, &r->update, &r->step_error),
        NULL);
    if (!s->finishing && !r->stopped) {
        receive_abort(s); /* it has all that by now */
    }
}

static void chunk_done(struct snapshot_receive *s)
{
    struct receive_chunk *chunk = s->chunk;
    const bool last = chunk != NULL && chunk->last;

    if (chunk != NULL) {
        s->chunk = NULL;
        answer(s->replica, s->from, s->session, chunk->sequence, false);
        mem_free(chunk);
    }
    if (last) {
        offer(s);
    } else {
        receive_next(s);
    }
}

static void installed(struct replica *r)
{
    struct snapshot_receive *s = r->receiving;

    ASSERT(s != NULL && s->finishing);
    entry_log_reset(&r->entries, &s->snapshot);
    r->applied = s->snapshot.index;
    r->flushed = s->snapshot.index;
    r->flushed_bytes = r->entries.bytes_total;
    r->configured = s->snapshot.configuration_index;
    atomic_store(&r->shared_applied, r->applied);
    r->installing = false;
    LOG_INFO("snapshot_installed", "group=%llu replica=%llu index=%llu",
             (unsigned long long)r->group, (unsigned long long)r->id,
             (unsigned long long)s->snapshot.index);
    driver_carry_out(
        r,
        consensus_installed(r->core, replica_now_ms(r), &s->snapshot, &r->update, &r->step_error),
        NULL);
    s->working = false;
    receive_free(s);
}

static void finish_done(struct snapshot_receive *s)
{
    struct replica *r = s->replica;
    struct log_snapshot *row = mem_alloc_raw(sizeof(*row));

    *row = s->snapshot;
    s->working = true; /* until the row is durable */
    driver_write_snapshot(r, LOG_WRITE_INSTALLED, row, 0, installed);
}

static void job_done(struct env_work *work)
{
    struct snapshot_receive *s = CONTAINER_OF(work, struct snapshot_receive, work);
    struct replica *r = s->replica;

    s->working = false;
    if (r->stopped || s->aborted) {
        receive_free(s);
    } else if (s->finishing) {
        if (s->rc == RC_OK) {
            finish_done(s);
        } else {
            error_prefix(&s->error, "swap in the copied state");
            driver_fail(r, &s->error);
        }
    } else if (s->rc != RC_OK) {
        LOG_WARN("snapshot_install_failed", "group=%llu replica=%llu error=\"%s\"",
                 (unsigned long long)r->group, (unsigned long long)r->id, s->error.text);
        answer(r, s->from, s->session, 0, true);
        receive_free(s);
    } else {
        chunk_done(s);
    }
    driver_settle(r);
}

static void job_submit(struct snapshot_receive *s)
{
    s->working = true;
    s->error.rc = RC_OK;
    s->work.run = job_run;
    s->work.done = job_done;
    s->replica->env->worker->submit(s->replica->env, &s->replica->apply_queue, &s->work);
}

static void receive_next(struct snapshot_receive *s)
{
    if (!s->working && !list_empty(&s->chunks)) {
        s->chunk = CONTAINER_OF(list_pop_front(&s->chunks), struct receive_chunk, link);
        job_submit(s);
    }
}

void snapshot_receive_begin(struct replica *r, const struct frame *frame)
{
    struct snapshot_receive *s = r->receiving;
    const struct log_snapshot *snapshot = &frame->begin.snapshot;

    if (frame->header.term != consensus_term(r->core) ||
        consensus_leader(r->core) != frame->header.from || r->closing || r->installing) {
        return;
    }
    if (s != NULL) {
        receive_abort(s);
        if (r->receiving != NULL) {
            return; /* its job still runs: the leader's session will fall silent and be repeated */
        }
    }
    if (snapshot->index <= r->applied) {
        answer(r, frame->header.from, frame->begin.session, 0, true);
        return;
    }
    s = mem_alloc(sizeof(*s));
    s->replica = r;
    s->from = frame->header.from;
    s->term = frame->header.term;
    s->session = frame->begin.session;
    s->snapshot = *snapshot;
    list_init(&s->chunks);
    r->receiving = s;
    job_submit(s);
}

void snapshot_receive_chunk(struct replica *r, const struct frame *frame)
{
    struct snapshot_receive *s = r->receiving;
    struct receive_chunk *chunk = NULL;

    if (s == NULL || s->aborted || s->finishing || s->session != frame->chunk.session) {
        answer(r, frame->header.from, frame->chunk.session, 0, true);
        return;
    }
    if (frame->chunk.sequence != s->received + 1 ||
        s->received >= CHUNKS_WAITING_MAX + frame->chunk.sequence) {
        answer(r, s->from, s->session, 0, true); /* one was lost: from the beginning */
        receive_abort(s);
        return;
    }
    s->received++;
    chunk = mem_alloc_raw(sizeof(*chunk) + frame->chunk.bytes.len);
    list_init(&chunk->link);
    chunk->sequence = frame->chunk.sequence;
    chunk->last = frame->chunk.last;
    chunk->len = frame->chunk.bytes.len;
    if (chunk->len > 0) {
        memcpy(chunk->bytes, frame->chunk.bytes.data, chunk->len);
    }
    list_push_back(&s->chunks, &chunk->link);
    receive_next(s);
}

static void installing_durable(struct replica *r)
{
    struct snapshot_receive *s = r->receiving;

    ASSERT(s != NULL && s->finishing);
    job_submit(s);
}

void snapshot_receive_accepted(struct replica *r)
{
    struct snapshot_receive *s = r->receiving;
    struct log_snapshot *row = mem_alloc_raw(sizeof(*row));

    ASSERT(s != NULL && !s->finishing && !s->working);
    s->finishing = true;
    s->working = true; /* until the row is durable */
    r->installing = true;
    *row = s->snapshot;
    driver_write_snapshot(r, LOG_WRITE_INSTALLING, row, 0, installing_durable);
}

void snapshot_receive_unwritten(struct replica *r)
{
    struct snapshot_receive *s = r->receiving;

    ASSERT(r->stopped && s != NULL && s->finishing);
    s->working = false;
    receive_free(s);
}

void snapshot_receive_abort(struct replica *r)
{
    if (r->receiving != NULL && !r->receiving->finishing) {
        receive_abort(r->receiving);
    }
}

bool snapshot_receive_idle(const struct replica *r)
{
    return r->receiving == NULL;
}
