/*
 * The steps of compact.h as a state machine: each step is one job of the queue or one work job, and
 * its completion chooses the next. Copying is paced to COPY_BYTES_PER_S, and one segment is worked
 * on at a time, so clients hardly notice.
 */
#include "datad/store/compact_private.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"

#define COPY_BYTES_PER_S  (64ULL * 1024 * 1024)
#define SCRUB_BYTES_PER_S (16ULL * 1024 * 1024)
#define NS_PER_S          1000000000ULL

static void compact_next(struct compact *compact, enum compact_step step);

/* ---- Steps ---- */

static void compact_rest(struct compact *compact)
{
    if (compact->segment != NULL) {
        segment_release(compact->store->table, compact->segment);
        compact->segment = NULL;
    }
    mem_free(compact->writer.crcs);
    compact->writer.crcs = NULL;
    compact->step = COMPACT_IDLE;
}

static void step_chosen(struct compact *compact)
{
    bool verify = compact->job.verify;

    compact->scrub = compact->job.scrub;

    if (compact->job.rc == RC_OK) {
        compact->generation = compact->job.generation;
        compact->segment = segment_acquire(compact->store->table, compact->generation);
    }
    if (compact->segment == NULL) {
        compact_rest(compact);
        return;
    }
    compact->scan_at = 0;
    compact->passes = 0;
    compact->moved = 0;
    compact->copied_bytes = 0;
    compact->unreadable = false;
    compact_next(compact, verify ? COMPACT_VERIFY : COMPACT_SCAN);
}

/* What follows when the items at hand are done. */
static void step_batch_done(struct compact *compact)
{
    if (!compact->scan_done) {
        compact_next(compact, COMPACT_SCAN);
        return;
    }
    compact_next(compact, COMPACT_RETIRE);
}

static void step_next_item(struct compact *compact)
{
    compact->item_at += 1;
    if (compact->item_at < compact->item_count) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

static void step_begun(struct compact *compact)
{
    enum rc rc = compact->job.rc;

    if (rc == RC_OK) {
        compact_next(compact, COMPACT_COPY);
    } else if (rc == RC_NOT_FOUND || rc == RC_EXISTS) {
        step_next_item(compact); /* deleted or replaced meanwhile, or being written */
    } else {
        compact_rest(compact);
    }
}

static void step_retired(struct compact *compact)
{
    if (compact->job.rc == RC_OK) {
        segment_release(compact->store->table, compact->segment);
        compact->segment = NULL;
        compact_next(compact, COMPACT_UNLINK);
        return;
    }
    if (compact->job.rc != RC_BUSY || compact->passes + 1 >= PASSES_MAX) {
        compact_rest(compact);
        return;
    }
    compact->passes += 1;
    if (compact->moved > 0) {
        compact->moved = 0;
        compact->scan_at = 0;
        compact_next(compact, COMPACT_SCAN);
    } else {
        compact_next(compact, COMPACT_RECOUNT);
    }
}

static void step_recounted(struct compact *compact)
{
    if (compact->rc == RC_OK && compact->rows == 0) {
        compact->job.recounted = true;
        compact_next(compact, COMPACT_RETIRE);
        return;
    }
    LOG_WARN("segment_not_compacted", "disk=%llu segment=%016llx shards=%llu",
             (unsigned long long)compact->store->options.id,
             (unsigned long long)compact->generation, (unsigned long long)compact->rows);
    compact->job.failure = RC_CORRUPT; /* marks it stuck */
    compact_next(compact, COMPACT_VERIFIED);
}

static void step_verified(struct compact *compact)
{
    if (compact->rc == RC_OK && compact->bad_at < compact->bad_count) {
        compact_next(compact, COMPACT_SUSPECT);
        return;
    }
    if (compact->rc == RC_OK && !compact->scan_done) {
        bool urgent = store_state(compact->store) == STORE_FULL;
        if (compact->scrub && urgent) {
            compact_rest(compact);
        } else {
            compact_next(compact, compact->scrub ? COMPACT_VERIFY_PAUSE : COMPACT_VERIFY);
        }
        return;
    }
    if (compact->unreadable) {
        LOG_WARN("segment_unreadable", "disk=%llu segment=%016llx",
                 (unsigned long long)compact->store->options.id,
                 (unsigned long long)compact->generation);
    } else if (!compact->scrub) {
        LOG_INFO("segment_verified", "disk=%llu segment=%016llx",
                 (unsigned long long)compact->store->options.id,
                 (unsigned long long)compact->generation);
    }
    compact->job.failure = compact->unreadable ? RC_IO : RC_OK;
    compact_next(compact, COMPACT_VERIFIED);
}

static void step_forgotten(struct compact *compact)
{
    LOG_INFO("segment_compacted", "disk=%llu segment=%016llx copied_bytes=%llu",
             (unsigned long long)compact->store->options.id,
             (unsigned long long)compact->generation, (unsigned long long)compact->copied_bytes);
    compact_rest(compact);
}

static void step_scanned(struct compact *compact)
{
    compact->item_at = 0;
    if (compact->rc != RC_OK) {
        compact_rest(compact);
    } else if (compact->delete_count > 0) {
        compact_next(compact, COMPACT_DELETES);
    } else if (compact->item_count > 0) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

static void step_deletes_kept(struct compact *compact)
{
    if (compact->job.rc != RC_OK) {
        compact_rest(compact);
    } else if (compact->item_count > 0) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

/* A copy failed. If its source could not be read, the shard is told to repair and the segment left
 * alone. */
static void step_aborted(struct compact *compact)
{
    const struct compact_item *item = &compact->items[compact->item_at];

    if (!compact->unreadable) {
        compact_rest(compact);
        return;
    }
    compact->bad[0] = (struct compact_bad){.shard = item->shard, .at = item->at};
    compact->bad_count = 1;
    compact->bad_at = 0;
    compact->rc = RC_OK;
    compact->scan_done = true;
    compact_next(compact, COMPACT_SUSPECT);
}

/* The step is done: which is next? */
static void compact_done(struct compact *compact)
{
    switch (compact->step) {
    case COMPACT_CHOOSE:
        step_chosen(compact);
        return;
    case COMPACT_SCAN:
        step_scanned(compact);
        return;
    case COMPACT_DELETES:
        step_deletes_kept(compact);
        return;
    case COMPACT_BEGIN:
        step_begun(compact);
        return;
    case COMPACT_COPY:
        compact_next(compact, compact->rc == RC_OK ? COMPACT_SEAL : COMPACT_ABORT);
        return;
    case COMPACT_SEAL:
        compact->moved += compact->job.rc == RC_OK ? 1 : 0;
        compact_next(compact, COMPACT_PAUSE);
        return;
    case COMPACT_PAUSE:
        step_next_item(compact);
        return;
    case COMPACT_RETIRE:
        step_retired(compact);
        return;
    case COMPACT_RECOUNT:
        step_recounted(compact);
        return;
    case COMPACT_UNLINK:
        if (compact->rc == RC_OK) {
            compact_next(compact, COMPACT_FORGET);
            return;
        }
        break;
    case COMPACT_FORGET:
        step_forgotten(compact);
        return;
    case COMPACT_VERIFY:
        compact->bad_at = 0;
        step_verified(compact);
        return;
    case COMPACT_VERIFY_PAUSE:
        compact_next(compact, COMPACT_VERIFY);
        return;
    case COMPACT_SUSPECT:
        compact->bad_at += 1;
        step_verified(compact);
        return;
    case COMPACT_ABORT:
        step_aborted(compact);
        return;
    case COMPACT_VERIFIED:
    case COMPACT_IDLE:
        break;
    }
    compact_rest(compact);
}

static void compact_job_done(struct store_job *job)
{
    compact_done(CONTAINER_OF(job, struct compact, job));
}

static void compact_work_done(struct env_work *work)
{
    compact_done(CONTAINER_OF(work, struct compact, work));
}

static void compact_paused(struct env_timer *timer)
{
    compact_done(CONTAINER_OF(timer, struct compact, timer));
}

static void compact_submit(struct compact *compact, enum store_job_kind kind)
{
    struct store_job *job = &compact->job;

    *job = (struct store_job){.kind = kind,
                              .done = compact_job_done,
                              .generation = compact->generation,
                              .failure = job->failure,
                              .recounted = job->recounted,
                              .entries = compact->deletes,
                              .entry_count = compact->delete_count};
    if (kind == JOB_BEGIN || kind == JOB_SEAL || kind == JOB_ABORT) {
        ASSERT(compact->item_at < ITEMS_MAX);
        job->writer = &compact->writer;
        job->origin = &compact->items[compact->item_at].origin;
    } else if (kind == JOB_SUSPECT) {
        job->shard = compact->bad[compact->bad_at].shard;
        job->suspect_at = compact->bad[compact->bad_at].at;
    }
    store_submit(compact->store, compact->env, job);
}

static void compact_work(struct compact *compact, void (*run)(struct env_work *work))
{
    compact->work = (struct env_work){.run = run, .done = compact_work_done};
    compact->env->worker->submit(compact->env, NULL, &compact->work);
}

static void compact_begin_item(struct compact *compact)
{
    ASSERT(compact->item_at < ITEMS_MAX);
    const struct compact_item *item = &compact->items[compact->item_at];
    uint32_t blocks = segment_block_count(item->length);

    mem_free(compact->writer.crcs);
    compact->writer =
        (struct store_writer){.shard = item->shard,
                              .attempt = item->attempt,
                              .group = item->origin.group,
                              .group_epoch = item->origin.group_epoch,
                              .reserved_bytes = item->length,
                              .move = true,
                              .move_segment = compact->generation,
                              .move_at = item->at,
                              .crcs = mem_alloc_raw((size_t)blocks * SEGMENT_CRC_BYTES)};
    list_init(&compact->writer.link);
    compact_submit(compact, JOB_BEGIN);
}

/* A stop is heeded wherever nothing would be left half done in memory. */
static bool compact_may_stop(enum compact_step step)
{
    return step != COMPACT_SEAL && step != COMPACT_ABORT && step != COMPACT_COPY &&
           step != COMPACT_FORGET;
}

static void compact_next(struct compact *compact, enum compact_step step)
{
    const struct compact_item *item =
        &compact->items[compact->item_at < ITEMS_MAX ? compact->item_at : 0];

    if (compact->stopping && compact_may_stop(step)) {
        compact_rest(compact);
        return;
    }
    compact->step = step;
    switch (step) {
    case COMPACT_CHOOSE:
        compact->generation = 0;
        compact->job.recounted = false;
        compact_submit(compact, JOB_CHOOSE);
        return;
    case COMPACT_SCAN:
        compact_work(compact, compact_scan_run);
        return;
    case COMPACT_DELETES:
        compact_submit(compact, JOB_KEEP_DELETES);
        return;
    case COMPACT_BEGIN:
        compact_begin_item(compact);
        return;
    case COMPACT_COPY:
        compact_work(compact, compact_copy_run);
        return;
    case COMPACT_SEAL:
        compact_submit(compact, JOB_SEAL);
        return;
    case COMPACT_ABORT:
        compact_submit(compact, JOB_ABORT);
        return;
    case COMPACT_PAUSE:
        compact->timer.fire = compact_paused;
        compact->env->clock->timer_start(compact->env, &compact->timer,
                                         item->length * NS_PER_S / COPY_BYTES_PER_S);
        return;
    case COMPACT_RETIRE:
        compact_submit(compact, JOB_RETIRE);
        return;
    case COMPACT_RECOUNT:
        compact_work(compact, compact_recount_run);
        return;
    case COMPACT_UNLINK:
        compact_work(compact, compact_unlink_run);
        return;
    case COMPACT_FORGET:
        compact_submit(compact, JOB_FORGET);
        return;
    case COMPACT_VERIFY:
        compact_work(compact, compact_verify_run);
        return;
    case COMPACT_VERIFY_PAUSE:
        compact->timer.fire = compact_paused;
        compact->env->clock->timer_start(compact->env, &compact->timer,
                                         compact->verified_bytes * NS_PER_S / SCRUB_BYTES_PER_S);
        return;
    case COMPACT_SUSPECT:
        compact_submit(compact, JOB_SUSPECT);
        return;
    case COMPACT_VERIFIED:
        compact_submit(compact, JOB_VERIFIED);
        return;
    case COMPACT_IDLE:
        break;
    }
    ASSERT(false);
}

/* ---- Life ---- */

struct compact *compact_new(struct store *store, struct env *env)
{
    struct compact *compact = mem_alloc(sizeof(*compact));

    compact->store = store;
    compact->env = env;
    return compact;
}

void compact_free(struct compact *compact)
{
    ASSERT(compact->step == COMPACT_IDLE);
    compact->env->clock->timer_stop(compact->env, &compact->timer);
    mem_free(compact);
}

void compact_tick(struct compact *compact)
{
    enum store_state state = store_state(compact->store);

    if (compact->step == COMPACT_IDLE && !compact->stopping &&
        (state == STORE_HEALTHY || state == STORE_FULL)) {
        compact_next(compact, COMPACT_CHOOSE);
    }
}

void compact_stop(struct compact *compact)
{
    compact->stopping = true;
    if (compact->step == COMPACT_PAUSE || compact->step == COMPACT_VERIFY_PAUSE) {
        compact->env->clock->timer_start(compact->env, &compact->timer, 0);
    }
}

bool compact_idle(const struct compact *compact)
{
    return compact->step == COMPACT_IDLE;
}
