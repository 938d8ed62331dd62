/*
 * Hands committed entries to the state machine, in order, on the apply queue, one job at a time:
 * what is committed meanwhile makes the next one larger.
 *
 *     (applied, min(commit, persisted)] -> job -> machine->apply -> results to their proposals
 *
 * Entries come from memory, or from the log store where they are no longer cached. Never beyond
 * what is durable here, because the state may be flushed at any time.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/replica_internal.h"

static void entry_fill(struct apply_entry *to, uint64_t index, const struct log_entry *from)
{
    *to = (struct apply_entry){.index = index, .term = from->term};
    if (from->type == ENTRY_COMMAND) {
        to->data = slice_of(from->data, from->len);
    }
}

/* Apply queue. */
static bool job_read(struct replica *r, struct apply_job *job)
{
    if (log_store_read(r->log, &job->read, &job->error) != RC_OK) {
        error_prefix(&job->error, "apply");
        return false;
    }
    job->count = job->read.entry_count;
    for (uint32_t i = 0; i < job->count; i++) {
        entry_fill(&job->entries[i], job->read.from + i, &job->read_entries[i]);
    }
    return true;
}

static void job_run(struct env_work *work)
{
    struct replica *r = CONTAINER_OF(work, struct replica, apply.work);
    struct apply_job *job = &r->apply;

    job->good = !job->from_disk || job_read(r, job);
    if (job->good) {
        job->good = r->machine->apply(r->machine, job->entries, job->count, &job->error);
    }
    if (job->good) {
        atomic_store(&r->shared_applied, job->entries[job->count - 1].index);
    }
}

static void job_release(struct apply_job *job)
{
    if (job->from_disk) {
        mem_free(job->read.block);
        job->read.block = NULL;
    } else {
        for (uint32_t i = 0; i < job->count; i++) {
            entry_block_unref(job->blocks[i]);
        }
    }
}

static void job_done(struct env_work *work)
{
    struct replica *r = CONTAINER_OF(work, struct replica, apply.work);
    struct apply_job *job = &r->apply;

    job->running = false;
    if (job->good) {
        r->applied = job->entries[job->count - 1].index;
        for (uint32_t i = 0; i < job->count; i++) {
            propose_applied(r, job->entries[i].index, job->entries[i].term, job->entries[i].result);
        }
    } else {
        driver_fail(r, &job->error);
    }
    job_release(job);
    entry_log_evict(&r->entries,
                    r->applied < r->entries.persisted ? r->applied : r->entries.persisted,
                    REPLICA_CACHE_BYTES);
    driver_settle(r);
}

static void job_from_cache(struct replica *r, struct apply_job *job, uint64_t from, uint64_t to)
{
    size_t bytes = 0;

    job->from_disk = false;
    for (uint64_t index = from; index <= to && job->count < REPLICA_APPLY_ENTRIES; index++) {
        const struct log_entry *entry = entry_log_get(&r->entries, index);

        ASSERT(entry != NULL);
        bytes += entry->len;
        if (job->count > 0 && bytes > REPLICA_APPLY_BYTES) {
            break;
        }
        entry_fill(&job->entries[job->count], index, entry);
        job->blocks[job->count] = entry->block;
        if (entry->block != NULL) {
            entry->block->refs++;
        }
        job->count++;
    }
}

static void job_from_disk(struct replica *r, struct apply_job *job, uint64_t from, uint64_t to)
{
    const uint64_t uncached = r->entries.cache_first - 1;

    job->from_disk = true;
    job->read = (struct log_read){
        .group = r->group,
        .from = from,
        .to = to < uncached ? to : uncached,
        .bytes_max = REPLICA_APPLY_BYTES,
        .entries = job->read_entries,
        .entry_max = REPLICA_APPLY_ENTRIES,
    };
}

void apply_start(struct replica *r)
{
    struct apply_job *job = &r->apply;
    const uint64_t limit = r->commit < r->entries.persisted ? r->commit : r->entries.persisted;
    const uint64_t from = r->applied + 1;

    /* Apply that lags behind must not fill the memory. */
    entry_log_evict(&r->entries, r->entries.persisted, REPLICA_UNAPPLIED_BYTES);
    if (job->running || r->stopped || r->installing || consensus_installing(r->core) ||
        from > limit) {
        return;
    }
    ASSERT(from >= r->entries.first_index);
    job->running = true;
    job->count = 0;
    job->error.rc = RC_OK;
    if (from >= r->entries.cache_first) {
        job_from_cache(r, job, from, limit);
    } else {
        job_from_disk(r, job, from, limit);
    }
    job->work.run = job_run;
    job->work.done = job_done;
    r->env->worker->submit(r->env, &r->apply_queue, &job->work);
}
