/*
 * Flushes the state and trims the log behind it.
 *
 *     log grew by log_bytes_max, or 30 s with entries -> machine->flush (apply queue)
 *         -> core: the log begins at the flushed index -> rows below go, but for a trailing part
 *
 * Promise: the log is never trimmed beyond what the machine says a restart goes on from, nor beyond
 * what a copy under way to a peer will need.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

enum { TRAILING_PART = 4 /* a quarter of log_bytes_max is kept for slow followers */ };

static void flush_run(struct env_work *work)
{
    struct replica *r = CONTAINER_OF(work, struct replica, flush.work);
    struct flush_job *job = &r->flush;

    job->rc = r->machine->flush(r->machine, &job->index, &job->error);
}

static uint64_t trim_below(const struct replica *r, uint64_t index)
{
    uint64_t below = entry_log_keep_from(&r->entries, index, r->log_bytes_max / TRAILING_PART);
    const uint64_t hold = snapshot_send_hold(r);

    if (hold < UINT64_MAX && below > hold + 1) {
        below = hold + 1;
    }
    return below < index + 1 ? below : index + 1;
}

static void trim(struct replica *r, uint64_t index)
{
    const struct entry_change *change = entry_log_change_at(&r->entries, index);
    struct log_snapshot *snapshot = NULL;
    uint64_t below = 0;

    /* After a restart the state may be ahead of what the core knows to be committed. */
    if (r->installing || consensus_installing(r->core) || change == NULL || index > r->commit ||
        index <= r->entries.snapshot.index || index > r->entries.last_index) {
        return;
    }
    below = trim_below(r, index);
    snapshot = mem_alloc(sizeof(*snapshot));
    snapshot->index = index;
    snapshot->term = entry_log_term(&r->entries, index);
    snapshot->configuration_index = change->index;
    snapshot->configuration_len = change->len;
    memcpy(snapshot->configuration, change->bytes, change->len);
    driver_carry_out(r,
                     consensus_trimmed(r->core, replica_now_ms(r), snapshot,
                                       (uint32_t)(index + 1 - below), &r->update, &r->step_error),
                     NULL);
    if (r->stopped) {
        mem_free(snapshot);
        return;
    }
    entry_log_trim(&r->entries, snapshot, below);
    LOG_DEBUG("log_trimmed", "group=%llu replica=%llu start=%llu first=%llu",
              (unsigned long long)r->group, (unsigned long long)r->id, (unsigned long long)index,
              (unsigned long long)below);
    driver_write_snapshot(r, LOG_WRITE_TRIM, snapshot, below, NULL);
}

static void flush_done(struct env_work *work)
{
    struct replica *r = CONTAINER_OF(work, struct replica, flush.work);
    struct flush_job *job = &r->flush;

    job->running = false;
    if (job->rc != RC_OK) {
        error_prefix(&job->error, "flush the state");
        driver_fail(r, &job->error);
    } else if (!r->stopped) {
        r->flushed = job->index;
        trim(r, job->index);
    }
    driver_settle(r);
}

bool trim_flush(struct replica *r)
{
    if (r->flush.running || r->stopped || r->installing || r->applied <= r->flushed) {
        return false;
    }
    r->flush.running = true;
    r->flush.error.rc = RC_OK;
    r->flushed_bytes = r->entries.bytes_total;
    r->flush.work.run = flush_run;
    r->flush.work.done = flush_done;
    r->env->worker->submit(r->env, &r->apply_queue, &r->flush.work);
    return true;
}

void trim_timer(struct env_timer *timer)
{
    struct replica *r = CONTAINER_OF(timer, struct replica, flush_timer);

    r->flush_armed = false;
    if (!r->closing) {
        (void)trim_flush(r);
    }
}

void trim_consider(struct replica *r)
{
    if (r->flush.running || r->closing || r->applied <= r->flushed) {
        return;
    }
    if (r->entries.bytes_total - r->flushed_bytes > r->log_bytes_max) {
        (void)trim_flush(r);
    } else if (!r->flush_armed) {
        r->flush_armed = true;
        r->env->clock->timer_start(r->env, &r->flush_timer, REPLICA_FLUSH_AGE_MS * REPLICA_MS_NS);
    }
}
