/*
 * Drives lifecycle and jobs, on the loop of the leader:
 *
 *     pass: `due` rows whose time has come, a batch -> RUN_DUE -> one step of every running job
 *           -> again while there is more, else a pause
 *
 * Apply decides; this only proposes, and may stop anywhere: rows go by the command that handles
 * them, jobs go on from their rows. A look reads from behind the last row of the one before, so
 * that it does not walk over what it has just deleted; now and then from the beginning, for a row
 * that came late.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/server_private.h"
#include "metad/store/message.h"

enum {
    LIFECYCLE_IDLE_MS = 500,
    LIFECYCLE_RETRY_MS = 5000,
    LIFECYCLE_WRITE_MS = 10000,
    LIFECYCLE_FULL_MS = 600000, /* all rows are looked at from the beginning */
    LIFECYCLE_BATCH_BYTES = LIMIT_COMMAND_BYTES * 3 / 4,
    LIFECYCLE_JOBS = 64, /* that get a step in one pass */
    DUE_TIME_BYTES = 8
};

static const uint64_t NS_PER_MS = 1000000ULL;
static const uint64_t LATE_NS = 60ULL * 1000000000ULL; /* a row may come this late */
static const uint64_t JOB_KEEP_NS = 7ULL * 24 * 3600 * 1000000000ULL;

struct lifecycle {
    struct task task;
    struct metad *metad;
    struct env *env;
    struct machine *machine; /* of the leader here; NULL: not ours to do */
    struct env_timer timer;
    bool busy;
    struct arena arena; /* of the pass */
    /* The look. */
    struct env_work work;
    struct store *store;
    uint64_t now_ns;
    struct row_key after; /* last due row that was handled; len 0: from the beginning */
    uint64_t full_after_ns;
    ProtobufCBinaryData rows[LIMIT_DUE_ROWS];
    uint32_t row_count;
    bool more_rows;
    bool restart;       /* another leader: from the beginning */
    uint64_t job_after; /* jobs take turns */
    uint64_t jobs[LIFECYCLE_JOBS];
    uint32_t job_count;
    uint32_t job_at;
    bool job_running; /* one of them has more to do */
    enum rc rc;
    struct error error;
    /* The commands. */
    struct meta_write write;
    Kist__RunDue run_due;
    Kist__RunJob run_job;
    void (*close_done)(void *owner);
    void *close_owner;
};

static struct lifecycle *lifecycle_of(struct task *task)
{
    return CONTAINER_OF(task, struct lifecycle, task);
}

/* ---- The look, on a work thread ---- */

static struct kv_iter *look_open(struct lifecycle *lifecycle, enum row_kind kind,
                                 struct slice after, struct row_key *lower, struct row_key *upper)
{
    const struct kv_ops *ops = lifecycle->store->kv->ops;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;

    key_range(lower, RANGE_FIRST, kind, SLICE_EMPTY);
    *upper = *lower;
    (void)row_key_after_prefix(upper);
    if (after.len > 0) {
        lower->len = 0;
        row_key_append(lower, after);
        row_key_append(lower, SLICE("\0"));
    }
    options.lower = row_key_slice(lower);
    options.upper = row_key_slice(upper);
    iter = ops->iter_open(lifecycle->store->kv, &options);
    ops->iter_seek(iter, options.lower);
    return iter;
}

/* In order of time: none behind one that is not due yet. */
static void look_rows(struct lifecycle *lifecycle)
{
    const struct kv_ops *ops = lifecycle->store->kv->ops;
    struct row_key prefix;
    struct row_key lower;
    struct row_key upper;
    size_t bytes = 0;
    struct kv_iter *iter;

    key_range(&prefix, RANGE_FIRST, KIND_DUE, SLICE_EMPTY);
    iter = look_open(lifecycle, KIND_DUE, row_key_slice(&lifecycle->after), &lower, &upper);
    while (ops->iter_valid(iter)) {
        struct slice key = ops->iter_key(iter);

        if (key.len < prefix.len + DUE_TIME_BYTES ||
            be64_get(key.data + prefix.len) > lifecycle->now_ns) {
            break;
        }
        if (lifecycle->row_count == LIMIT_DUE_ROWS || bytes + key.len > LIFECYCLE_BATCH_BYTES) {
            lifecycle->more_rows = true;
            break;
        }
        bytes += key.len;
        lifecycle->rows[lifecycle->row_count++] = message_field(arena_copy(&lifecycle->arena, key));
        ops->iter_next(iter);
    }
    lifecycle->rc = ops->iter_rc(iter, &lifecycle->error);
    ops->iter_close(iter);
}

/* Running ones, and those that ended a week ago: their rows go. */
static void look_jobs(struct lifecycle *lifecycle)
{
    const struct kv_ops *ops = lifecycle->store->kv->ops;
    struct row_key after;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter *iter;

    key_range_u64(&after, RANGE_FIRST, KIND_JOB, lifecycle->job_after, SLICE_EMPTY);
    iter = look_open(lifecycle, KIND_JOB, row_key_slice(&after), &lower, &upper);
    while (ops->iter_valid(iter) && lifecycle->job_count < LIFECYCLE_JOBS) {
        const Kist__Job *job =
            message_unpack(&lifecycle->arena, &kist__job__descriptor, ops->iter_value(iter));

        if (job == NULL) {
            lifecycle->rc = error_set(&lifecycle->error, RC_CORRUPT, "a job row does not decode");
            break;
        }
        if (job->state == KIST__JOB_STATE__JOB_RUNNING ||
            (job->finished != 0 && job->finished + JOB_KEEP_NS < lifecycle->now_ns)) {
            lifecycle->jobs[lifecycle->job_count++] = job->id;
        }
        ops->iter_next(iter);
    }
    lifecycle->job_after =
        lifecycle->job_count == LIFECYCLE_JOBS ? lifecycle->jobs[LIFECYCLE_JOBS - 1] : 0;
    if (lifecycle->rc == RC_OK) {
        lifecycle->rc = ops->iter_rc(iter, &lifecycle->error);
    }
    ops->iter_close(iter);
}

static void look_run(struct env_work *work)
{
    struct lifecycle *lifecycle = CONTAINER_OF(work, struct lifecycle, work);

    look_rows(lifecycle);
    if (lifecycle->rc == RC_OK) {
        look_jobs(lifecycle);
    }
}

static void look_done(struct env_work *work)
{
    struct lifecycle *lifecycle = CONTAINER_OF(work, struct lifecycle, work);

    store_unref(lifecycle->store);
    task_resume(&lifecycle->task, lifecycle->rc);
}

/* A row that was applied while a look at its time was under way lies behind the cursor. */
static void look_begin(struct lifecycle *lifecycle)
{
    uint64_t mono_ns = lifecycle->env->clock->mono_ns(lifecycle->env);
    struct row_key late;

    if (lifecycle->restart || mono_ns >= lifecycle->full_after_ns) {
        lifecycle->restart = false;
        lifecycle->after.len = 0;
        lifecycle->full_after_ns = mono_ns + LIFECYCLE_FULL_MS * NS_PER_MS;
    } else if (!lifecycle->more_rows && lifecycle->after.len > 0 && lifecycle->now_ns > LATE_NS) {
        key_range_u64(&late, RANGE_FIRST, KIND_DUE, lifecycle->now_ns - LATE_NS, SLICE_EMPTY);
        if (slice_cmp(row_key_slice(&late), row_key_slice(&lifecycle->after)) < 0) {
            lifecycle->after = late;
        }
    }
}

static enum step_result pass_look(struct task *task)
{
    struct lifecycle *lifecycle = lifecycle_of(task);

    look_begin(lifecycle);
    lifecycle->now_ns = lifecycle->env->clock->wall_ns(lifecycle->env);
    lifecycle->row_count = 0;
    lifecycle->job_count = 0;
    lifecycle->job_at = 0;
    lifecycle->more_rows = false;
    lifecycle->job_running = false;
    lifecycle->store = machine_store(lifecycle->machine);
    lifecycle->work.run = look_run;
    lifecycle->work.done = look_done;
    lifecycle->env->worker->submit(lifecycle->env, NULL, &lifecycle->work);
    return STEP_WAIT;
}

/* ---- The commands ---- */

static enum step_result pass_write(struct lifecycle *lifecycle, enum meta_command command,
                                   const ProtobufCMessage *message)
{
    struct meta_client *client = lifecycle->metad->client;

    lifecycle->write = (struct meta_write){.command = command,
                                           .message = message,
                                           .deadline_ms = LIFECYCLE_WRITE_MS,
                                           .arena = &lifecycle->arena};
    return client->write(client, &lifecycle->write, &lifecycle->task);
}

static enum step_result pass_due(struct task *task)
{
    struct lifecycle *lifecycle = lifecycle_of(task);

    lifecycle->write.reply = NULL;
    if (lifecycle->row_count == 0) {
        return STEP_NEXT;
    }
    kist__run_due__init(&lifecycle->run_due);
    lifecycle->run_due.rows = lifecycle->rows;
    lifecycle->run_due.n_rows = lifecycle->row_count;
    return pass_write(lifecycle, META_RUN_DUE, &lifecycle->run_due.base);
}

static enum step_result pass_due_done(struct task *task)
{
    struct lifecycle *lifecycle = lifecycle_of(task);
    const Kist__Reply *reply = lifecycle->write.reply;
    struct slice last;

    if (reply == NULL) {
        return STEP_NEXT;
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK || reply->first == 0 ||
        reply->first > lifecycle->row_count) {
        return task_fail(task, RC_INVALID, "RUN_DUE was refused (%d)", (int)reply->outcome);
    }
    lifecycle->more_rows = lifecycle->more_rows || reply->first < lifecycle->row_count;
    last = message_bytes(lifecycle->rows[reply->first - 1]);
    ASSERT(last.len <= sizeof(lifecycle->after.bytes));
    lifecycle->after.len = 0;
    row_key_append(&lifecycle->after, last);
    return STEP_NEXT;
}

/* Entered again after each job's step. */
static enum step_result pass_jobs(struct task *task)
{
    struct lifecycle *lifecycle = lifecycle_of(task);
    const Kist__Reply *reply = lifecycle->write.reply;
    enum step_result result;

    if (lifecycle->job_at > 0 && reply != NULL && reply->job != NULL) {
        lifecycle->job_running =
            lifecycle->job_running || reply->job->state == KIST__JOB_STATE__JOB_RUNNING;
        if (reply->job->finished == reply->stamp) {
            LOG_INFO("job_ended", "id=%llu state=%d done=%llu skipped=%llu",
                     (unsigned long long)reply->job->id, (int)reply->job->state,
                     (unsigned long long)reply->job->done, (unsigned long long)reply->job->skipped);
        }
    }
    if (lifecycle->job_at == lifecycle->job_count) {
        return STEP_NEXT;
    }
    kist__run_job__init(&lifecycle->run_job);
    lifecycle->run_job.id = lifecycle->jobs[lifecycle->job_at++];
    result = pass_write(lifecycle, META_RUN_JOB, &lifecycle->run_job.base);
    if (result == STEP_NEXT) {
        return STEP_REPEAT;
    }
    return result == STEP_WAIT ? STEP_AGAIN : result;
}

static const struct step pass_steps[] = {
    {"look",     pass_look    },
    {"due",      pass_due     },
    {"due_done", pass_due_done},
    {"jobs",     pass_jobs    },
    {NULL,       NULL         }
};

/* ---- Passes ---- */

static void close_finish(struct lifecycle *lifecycle)
{
    void (*done)(void *owner) = lifecycle->close_done;
    void *owner = lifecycle->close_owner;

    arena_deinit(&lifecycle->arena);
    mem_free(lifecycle);
    done(owner);
}

static void pass_later(struct lifecycle *lifecycle, uint64_t wait_ms)
{
    lifecycle->env->clock->timer_start(lifecycle->env, &lifecycle->timer, wait_ms * NS_PER_MS);
}

static void pass_done(struct task *task)
{
    struct lifecycle *lifecycle = lifecycle_of(task);
    bool failed = task->error.rc != RC_OK;

    if (failed && task->error.rc == RC_CORRUPT) {
        LOG_ERROR("lifecycle_failed", "error=\"%s\"", task->error.text);
    } else if (failed) {
        LOG_DEBUG("lifecycle_later", "error=\"%s\"", task->error.text);
    }
    lifecycle->busy = false;
    arena_reset(&lifecycle->arena);
    if (lifecycle->close_done != NULL) {
        close_finish(lifecycle);
    } else if (failed) {
        lifecycle->more_rows = false;
        pass_later(lifecycle, LIFECYCLE_RETRY_MS);
    } else {
        bool more = lifecycle->more_rows || lifecycle->job_running || lifecycle->job_after != 0;

        pass_later(lifecycle, more ? 0 : LIFECYCLE_IDLE_MS);
    }
}

static void lifecycle_timer(struct env_timer *timer)
{
    struct lifecycle *lifecycle = CONTAINER_OF(timer, struct lifecycle, timer);

    if (lifecycle->close_done != NULL) {
        return;
    }
    if (lifecycle->machine == NULL || lifecycle->metad->client == NULL) {
        pass_later(lifecycle, LIFECYCLE_IDLE_MS);
        return;
    }
    lifecycle->busy = true;
    task_start(&lifecycle->task, pass_steps, pass_done);
}

/* ---- Life ---- */

struct lifecycle *lifecycle_open(struct metad *metad)
{
    struct lifecycle *lifecycle = mem_alloc(sizeof(*lifecycle));

    lifecycle->metad = metad;
    lifecycle->env = metad->env;
    lifecycle->timer.fire = lifecycle_timer;
    arena_init(&lifecycle->arena);
    pass_later(lifecycle, LIFECYCLE_IDLE_MS);
    return lifecycle;
}

void lifecycle_leader(struct lifecycle *lifecycle, struct machine *machine)
{
    lifecycle->machine = machine;
    lifecycle->restart = true;
}

void lifecycle_close(struct lifecycle *lifecycle, void (*done)(void *owner), void *owner)
{
    lifecycle->machine = NULL;
    lifecycle->close_done = done;
    lifecycle->close_owner = owner;
    lifecycle->env->clock->timer_stop(lifecycle->env, &lifecycle->timer);
    if (!lifecycle->busy) {
        close_finish(lifecycle);
    }
}
