/*
 * Copies of the state for peers that lag behind the log.
 *
 *     core: INSTALL -> export_open -> BEGIN -> chunk, chunk -> ... -> last -> (the peer swaps) ->
 * result
 *                                       ^--------- RESULT ------'
 *
 * Two chunks are under way at most. A session that gets no answer for ten election timeouts is
 * dropped; the core asks for another. While one lives the log is not trimmed beyond what the peer
 * will need next. The copy is streamed beside the library, which hears of it only when it stands
 * ready at the peer.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

enum { CHUNKS_IN_FLIGHT = 2, QUIET_ELECTIONS = 10 };

struct snapshot_send {
    struct replica *replica;
    uint64_t peer;
    uint64_t session;
    uint64_t hold; /* applied when it began: the copy is of this index or later */
    struct log_snapshot snapshot;
    void *handle; /* the machine's; NULL: not open, or closed */
    struct buffer chunk;
    uint64_t sent; /* chunks */
    uint64_t answered;
    bool opening;
    bool last_read; /* the chunk in `chunk` is the last */
    bool last_sent;
    bool working; /* a job is under way */
    bool aborted;
    struct env_work work;
    struct env_timer timer; /* quiet for too long */
    enum rc rc;
    struct error error;
};

static void send_next(struct snapshot_send *s);

static void send_free(struct snapshot_send *s)
{
    struct link *link = link_find(s->replica, s->peer);

    ASSERT(!s->working);
    s->replica->env->clock->timer_stop(s->replica->env, &s->timer);
    if (link != NULL && link->sending == s) {
        link->sending = NULL;
    }
    buffer_deinit(&s->chunk);
    mem_free(s);
}

/* Work thread. */
static void close_run(struct env_work *work)
{
    struct snapshot_send *s = CONTAINER_OF(work, struct snapshot_send, work);

    s->replica->machine->export_close(s->replica->machine, s->handle);
}

static void close_done(struct env_work *work)
{
    struct snapshot_send *s = CONTAINER_OF(work, struct snapshot_send, work);
    struct replica *r = s->replica;

    s->working = false;
    s->handle = NULL;
    if (s->aborted) {
        send_free(s);
    }
    driver_settle(r);
}

/* Ends the export; the session itself ends when it is aborted. */
static void send_close(struct snapshot_send *s)
{
    if (s->working) {
        return; /* the job's end comes back here */
    }
    if (s->handle != NULL) {
        s->working = true;
        s->work.run = close_run;
        s->work.done = close_done;
        s->replica->env->worker->submit(s->replica->env, NULL, &s->work);
    } else if (s->aborted) {
        send_free(s);
    }
}

static void send_abort(struct snapshot_send *s)
{
    s->aborted = true;
    s->replica->env->clock->timer_stop(s->replica->env, &s->timer);
    send_close(s);
}

static void send_quiet(struct env_timer *timer)
{
    struct snapshot_send *s = CONTAINER_OF(timer, struct snapshot_send, timer);

    LOG_WARN("snapshot_send_dropped", "group=%llu replica=%llu peer=%llu",
             (unsigned long long)s->replica->group, (unsigned long long)s->replica->id,
             (unsigned long long)s->peer);
    send_abort(s);
}

static void quiet_restart(struct snapshot_send *s)
{
    s->replica->env->clock->timer_start(s->replica->env, &s->timer,
                                        s->replica->election_ns * QUIET_ELECTIONS);
}

static void frame_open(struct snapshot_send *s, enum message_kind kind)
{
    const struct frame_header header = link_header(s->replica, s->peer, kind);

    buffer_clear(&s->replica->frame);
    frame_begin(&s->replica->frame, &header);
}

/* The copy's term and configuration come from the log, which was not trimmed beyond `hold`. */
static bool send_begin(struct snapshot_send *s)
{
    struct replica *r = s->replica;
    const uint64_t index = s->snapshot.index;
    const struct entry_change *change = entry_log_change_at(&r->entries, index);

    s->snapshot.term = entry_log_term(&r->entries, index);
    if (change == NULL || s->snapshot.term == 0) {
        return false;
    }
    s->snapshot.configuration_index = change->index;
    s->snapshot.configuration_len = change->len;
    memcpy(s->snapshot.configuration, change->bytes, change->len);
    frame_open(s, FRAME_SNAPSHOT_BEGIN);
    frame_snapshot_begin(&r->frame, s->session, &s->snapshot);
    link_send_frame(r, s->peer);
    LOG_INFO("snapshot_send_begun", "group=%llu replica=%llu peer=%llu index=%llu",
             (unsigned long long)r->group, (unsigned long long)r->id, (unsigned long long)s->peer,
             (unsigned long long)index);
    return true;
}

/* Work thread. */
static void step_run(struct env_work *work)
{
    struct snapshot_send *s = CONTAINER_OF(work, struct snapshot_send, work);
    struct state_machine *machine = s->replica->machine;

    if (s->opening) {
        s->rc = machine->export_open(machine, &s->handle, &s->snapshot.index, &s->error);
        if (s->rc != RC_OK) {
            s->handle = NULL;
        }
    } else {
        buffer_clear(&s->chunk);
        s->rc = machine->export_next(machine, s->handle, &s->chunk, &s->last_read, &s->error);
    }
}

static void step_done(struct env_work *work)
{
    struct snapshot_send *s = CONTAINER_OF(work, struct snapshot_send, work);
    struct replica *r = s->replica;
    const bool opened = s->opening;

    s->working = false;
    s->opening = false;
    if (s->aborted || r->stopped) {
        send_abort(s);
    } else if (s->rc != RC_OK || s->chunk.len > FRAME_BODY_BYTES_MAX / 2) {
        LOG_WARN("snapshot_export_failed", "group=%llu replica=%llu error=\"%s\"",
                 (unsigned long long)r->group, (unsigned long long)r->id, s->error.text);
        send_abort(s);
    } else if (opened) {
        if (send_begin(s)) {
            send_next(s);
        } else {
            send_abort(s);
        }
    } else {
        s->sent++;
        frame_open(s, FRAME_SNAPSHOT_CHUNK);
        frame_snapshot_chunk(&r->frame, s->session, s->sent, s->last_read, buffer_slice(&s->chunk));
        link_send_frame(r, s->peer);
        s->last_sent = s->last_read;
        if (s->last_sent) {
            buffer_deinit(&s->chunk);
            buffer_init(&s->chunk);
            send_close(s);
        } else {
            send_next(s);
        }
    }
    driver_settle(r);
}

static void step_submit(struct snapshot_send *s)
{
    s->working = true;
    s->error.rc = RC_OK;
    s->work.run = step_run;
    s->work.done = step_done;
    s->replica->env->worker->submit(s->replica->env, NULL, &s->work);
}

static void send_next(struct snapshot_send *s)
{
    if (!s->working && !s->last_sent && !s->aborted && s->handle != NULL &&
        s->sent - s->answered < CHUNKS_IN_FLIGHT) {
        step_submit(s);
    }
}

void snapshot_send_start(struct replica *r, uint64_t peer)
{
    struct link *link = link_reserve(r, peer);
    struct snapshot_send *s = NULL;

    if (link == NULL || link->sending != NULL || r->stopped || r->closing) {
        return;
    }
    s = mem_alloc(sizeof(*s));
    s->replica = r;
    s->peer = peer;
    s->session = r->env->random(r->env) | 1;
    s->hold = r->applied;
    s->opening = true;
    s->timer.fire = send_quiet;
    buffer_init(&s->chunk);
    link->sending = s;
    quiet_restart(s);
    step_submit(s);
}

bool snapshot_send_active(struct replica *r, uint64_t peer)
{
    const struct link *link = link_find(r, peer);

    return link != NULL && link->sending != NULL && !link->sending->aborted;
}

void snapshot_send_result(struct replica *r, const struct frame *frame)
{
    struct link *link = link_find(r, frame->header.from);
    struct snapshot_send *s = link != NULL ? link->sending : NULL;

    if (s == NULL || s->aborted || s->session != frame->snapshot_result.session) {
        return;
    }
    if (frame->snapshot_result.refused || frame->snapshot_result.sequence > s->sent) {
        send_abort(s);
        return;
    }
    if (frame->snapshot_result.sequence > s->answered) {
        s->answered = frame->snapshot_result.sequence;
        quiet_restart(s);
        send_next(s);
    }
}

void snapshot_send_reached(struct replica *r, uint64_t peer, uint64_t index)
{
    struct link *link = link_find(r, peer);
    struct snapshot_send *s = link != NULL ? link->sending : NULL;

    if (s != NULL && !s->aborted && !s->opening && s->snapshot.index > 0 &&
        index >= s->snapshot.index) {
        send_abort(s); /* done, by the copy or without it */
    }
}

void snapshot_send_abort_all(struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        if (r->links[i].sending != NULL && !r->links[i].sending->aborted) {
            send_abort(r->links[i].sending);
        }
    }
}

bool snapshot_send_idle(const struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        if (r->links[i].sending != NULL) {
            return false;
        }
    }
    return true;
}

uint64_t snapshot_send_hold(const struct replica *r)
{
    uint64_t hold = UINT64_MAX;

    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        const struct snapshot_send *s = r->links[i].sending;

        if (s != NULL && !s->aborted && s->hold < hold) {
            hold = s->hold;
        }
    }
    return hold;
}
