/*
 * PUT_JOB, RUN_JOB: jobs are made, paused, resumed, cancelled; one step of one is run.
 */
#include "metad/apply/job.h"

#include "common/base/assert.h"
#include "metad/apply/root_rows.h"

static const uint64_t JOB_KEEP_NS = 7ULL * 24 * 3600 * 1000000000ULL; /* finished ones, a week */

/* ---- Rows ---- */

static void job_key(const struct apply *apply, uint64_t id, struct row_key *row)
{
    key_range_u64(row, apply->range_id, KIND_JOB, id, SLICE_EMPTY);
}

Kist__Job *job_load(struct apply *apply, uint64_t id)
{
    struct row_key row;

    job_key(apply, id, &row);
    return apply_load(apply, FAMILY_ROWS, &row, &kist__job__descriptor);
}

void job_put(struct apply *apply, const Kist__Job *job)
{
    struct row_key row;

    ASSERT(job->id != 0);
    job_key(apply, job->id, &row);
    apply_put_message(apply, FAMILY_ROWS, &row, &job->base);
}

void job_delete(struct apply *apply, uint64_t id)
{
    struct row_key row;

    job_key(apply, id, &row);
    apply_delete(apply, FAMILY_ROWS, &row);
}

static bool bucket_has(struct apply *apply, enum family family, uint64_t bucket_id)
{
    struct apply_walk walk;
    struct row_key prefix;
    bool found;

    key_bucket(&prefix, bucket_id);
    apply_walk_open(&walk, apply, family, &prefix);
    found = apply_walk_next(&walk);
    apply_walk_close(&walk);
    return found;
}

void job_rules_changed(struct apply *apply, Kist__Bucket *bucket)
{
    Kist__Lifecycle *rules = bucket->settings->lifecycle;
    Kist__Job job = KIST__JOB__INIT;

    if (rules == NULL) {
        return; /* rows that are left find no rules */
    }
    rules->job = 0;
    if (!bucket_has(apply, FAMILY_CURRENT, bucket->id) &&
        !bucket_has(apply, FAMILY_HISTORY, bucket->id) &&
        !bucket_has(apply, FAMILY_UPLOADS, bucket->id)) {
        return;
    }
    job.id = root_mint(apply, SLICE("job"), 1);
    job.kind = KIST__JOB_KIND__JOB_DUE;
    job.state = KIST__JOB_STATE__JOB_RUNNING;
    job.bucket_id = bucket->id;
    job.bucket = bucket->name;
    job.created = apply->stamp;
    job_put(apply, &job);
    rules->job = job.id;
}

/* ---- PUT_JOB ---- */

static bool job_room(struct apply *apply)
{
    struct apply_walk walk;
    struct row_key prefix;
    uint32_t count = 0;

    key_range(&prefix, apply->range_id, KIND_JOB, SLICE_EMPTY);
    apply_walk_open(&walk, apply, FAMILY_ROWS, &prefix);
    while (count < LIMIT_JOBS && apply_walk_next(&walk)) {
        count += 1;
    }
    apply_walk_close(&walk);
    return count < LIMIT_JOBS ||
           apply_refuse_text(apply, KIST__OUTCOME__IN_USE, "there are too many jobs");
}

static void job_create(struct apply *apply, Kist__Job *job, uint64_t generation)
{
    if (!apply_check_bucket(apply, job->bucket_id, generation)) {
        return;
    }
    if (job->kind != KIST__JOB_KIND__JOB_DELETE_PREFIX || job->prefix.len > LIMIT_KEY_BYTES ||
        job->user.len > LIMIT_USER_NAME_BYTES || job->bucket.len > LIMIT_BUCKET_NAME_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "job");
        return;
    }
    if (!job_room(apply)) {
        return;
    }
    *job = (Kist__Job){.base = job->base,
                       .id = root_mint(apply, SLICE("job"), 1),
                       .kind = job->kind,
                       .state = KIST__JOB_STATE__JOB_RUNNING,
                       .bucket_id = job->bucket_id,
                       .bucket = job->bucket,
                       .prefix = job->prefix,
                       .all_versions = job->all_versions,
                       .bypass_governance = job->bypass_governance,
                       .user = job->user,
                       .created = apply->stamp};
    job_put(apply, job);
    apply->reply.job = job;
}

static bool job_ended(const Kist__Job *job)
{
    return job->state != KIST__JOB_STATE__JOB_RUNNING && job->state != KIST__JOB_STATE__JOB_PAUSED;
}

/* What has ended stays as it is: asking twice is no error. */
static void job_set_state(struct apply *apply, uint64_t id, Kist__JobState state)
{
    Kist__Job *job = job_load(apply, id);

    if (job == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_JOB);
        return;
    }
    if (!job_ended(job)) {
        job->state = state;
        job->finished = state == KIST__JOB_STATE__JOB_CANCELLED ? apply->stamp : 0;
        job_put(apply, job);
    }
    apply->reply.job = job;
}

void apply_put_job(struct apply *apply, const ProtobufCMessage *message)
{
    static const struct {
        Kist__JobAction action;
        Kist__JobState state;
    } states[] = {
        {KIST__JOB_ACTION__JOB_PAUSE,  KIST__JOB_STATE__JOB_PAUSED   },
        {KIST__JOB_ACTION__JOB_RESUME, KIST__JOB_STATE__JOB_RUNNING  },
        {KIST__JOB_ACTION__JOB_CANCEL, KIST__JOB_STATE__JOB_CANCELLED},
    };
    const Kist__PutJob *call = (const Kist__PutJob *)message;

    if (call->job == NULL) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "job");
        return;
    }
    if (call->action == KIST__JOB_ACTION__JOB_CREATE) {
        job_create(apply, call->job, call->generation);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        if (states[i].action == call->action) {
            job_set_state(apply, call->job->id, states[i].state);
            return;
        }
    }
    (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "action");
}

/* ---- RUN_JOB ---- */

void apply_run_job(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__RunJob *call = (const Kist__RunJob *)message;
    Kist__Job *job = job_load(apply, call->id);

    if (job == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_JOB);
        return;
    }
    apply->reply.job = job;
    if (job_ended(job)) {
        if (apply->stamp > job->finished && apply->stamp - job->finished > JOB_KEEP_NS) {
            job_delete(apply, job->id);
        }
        return;
    }
    if (job->state != KIST__JOB_STATE__JOB_RUNNING) {
        return;
    }
    if (!job_step(apply, job)) {
        job_delete(apply, job->id);
    } else {
        job_put(apply, job);
    }
}
