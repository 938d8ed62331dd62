/*
 * One step of a job: rows of a family from behind the cursor, a bounded number of them; at the end
 * of the family the next phase begins.
 *
 *     JOB_DUE                          current -> history -> uploads
 *     JOB_DELETE_PREFIX                current
 *     JOB_DELETE_PREFIX, all versions  history -> current
 *
 * History goes first, so that removing a newest version promotes nothing but what is locked. What
 * was made after the job is left alone: the end of a job does not depend on how fast clients write.
 */
#include "common/base/assert.h"
#include "metad/apply/due.h"
#include "metad/apply/job.h"
#include "metad/apply/version.h"

enum { STEP_ROWS = 256, STEP_PHASES = 3 }; /* of one step: some 10 ms */

struct job_run {
    struct apply *apply;
    Kist__Job *job;
};

/* One row of a walk. */
typedef void (*job_row_fn)(struct job_run *run, const struct apply_walk *walk);

struct job_phase {
    enum family family;
    job_row_fn row;
};

/* ---- Keys ---- */

static bool row_object(struct job_run *run, const struct apply_walk *walk, struct row_name *out)
{
    if (!row_name_parse(run->apply->arena, arena_copy(run->apply->arena, walk->key), out)) {
        apply_fail(run->apply, "a key of an object's row does not decode");
        return false;
    }
    return true;
}

static void *row_value(struct job_run *run, const struct apply_walk *walk,
                       const ProtobufCMessageDescriptor *type)
{
    void *message = message_unpack(run->apply->arena, type, walk->value);

    if (message == NULL) {
        apply_fail(run->apply, "a row that a job walks does not decode");
    }
    return message;
}

static bool row_current(struct job_run *run, const struct apply_walk *walk, struct slice *key)
{
    uint64_t bucket_id;

    if (!current_parse(arena_copy(run->apply->arena, walk->key), &bucket_id, key)) {
        apply_fail(run->apply, "a key of a current row does not decode");
        return false;
    }
    return true;
}

/* ---- Due rows ---- */

static void due_current(struct job_run *run, const struct apply_walk *walk)
{
    const Kist__Record *record = row_value(run, walk, &kist__record__descriptor);
    struct slice key;

    if (record != NULL && row_current(run, walk, &key)) {
        due_note(run->apply, run->job->bucket_id, key, record, DUE_CURRENT);
        run->job->done += 1;
    }
}

static void due_history(struct job_run *run, const struct apply_walk *walk)
{
    const Kist__Record *record = row_value(run, walk, &kist__record__descriptor);
    struct row_name name;

    if (record != NULL && row_object(run, walk, &name)) {
        bool newest = record->delete_marker && record->noncurrent_since == 0;

        due_note(run->apply, run->job->bucket_id, name.key, record,
                 newest ? DUE_MARKER : DUE_NONCURRENT);
        run->job->done += 1;
    }
}

static void due_upload(struct job_run *run, const struct apply_walk *walk)
{
    const Kist__Upload *upload;
    struct row_name name;

    if (row_kind_of(walk->key) != KIND_UPLOAD) {
        return;
    }
    upload = row_value(run, walk, &kist__upload__descriptor);
    if (upload != NULL && row_object(run, walk, &name)) {
        due_note_upload(run->apply, run->job->bucket_id, name.key, upload);
        run->job->done += 1;
    }
}

/* ---- Deletes ---- */

static struct version_cause delete_cause(const struct job_run *run)
{
    return (struct version_cause){.kind = KIST__CHANGE_KIND__CHANGE_DELETE,
                                  .user = message_bytes(run->job->user)};
}

static void count_delete(struct job_run *run, Kist__Outcome outcome)
{
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        run->job->done += 1;
    } else {
        run->job->skipped += 1;
    }
}

/* An earlier delete of this step may have moved it: it is found anew. */
static void delete_version(struct job_run *run, struct slice key, uint64_t stamp, uint32_t tie)
{
    struct version_cause cause = delete_cause(run);
    struct version_key at;
    struct version version;

    version_key_init(&at, run->apply, run->job->bucket_id, key);
    if (version_find_exact(&at, stamp, tie, &version)) {
        count_delete(run, version_remove(&at, &version, &cause, run->job->bypass_governance));
    }
}

static void delete_history(struct job_run *run, const struct apply_walk *walk)
{
    struct row_name name;
    uint64_t stamp;
    uint32_t tie;

    if (!row_object(run, walk, &name)) {
        return;
    }
    if (!history_parse(name.suffix, &stamp, &tie)) {
        apply_fail(run->apply, "a key of a history row does not decode");
    } else if (stamp <= run->job->created) {
        delete_version(run, name.key, stamp, tie);
    }
}

static void delete_current(struct job_run *run, const struct apply_walk *walk)
{
    const Kist__Record *record = row_value(run, walk, &kist__record__descriptor);
    struct version_cause cause = delete_cause(run);
    Kist__Deleted deleted = KIST__DELETED__INIT;
    struct version_key at;
    struct slice key;

    if (record == NULL || record->stamp > run->job->created || !row_current(run, walk, &key)) {
        return;
    }
    if (run->job->all_versions) {
        delete_version(run, key, record->stamp, record->tie);
        return;
    }
    version_key_init(&at, run->apply, run->job->bucket_id, key);
    count_delete(run, version_delete_newest(&at, &cause, run->job->bypass_governance, &deleted));
}

/* ---- The walk ---- */

static const struct job_phase due_phases[STEP_PHASES] = {
    {FAMILY_CURRENT, due_current},
    {FAMILY_HISTORY, due_history},
    {FAMILY_UPLOADS, due_upload }
};
static const struct job_phase delete_phases[STEP_PHASES] = {
    {FAMILY_CURRENT, delete_current}
};
static const struct job_phase delete_all_phases[STEP_PHASES] = {
    {FAMILY_HISTORY, delete_history},
    {FAMILY_CURRENT, delete_current}
};

static const struct job_phase *job_phases(const Kist__Job *job)
{
    if (job->kind == KIST__JOB_KIND__JOB_DUE) {
        return due_phases;
    }
    return job->all_versions ? delete_all_phases : delete_phases;
}

static void phase_prefix(const Kist__Job *job, enum family family, struct row_key *out)
{
    if (family == FAMILY_CURRENT) {
        key_current(out, job->bucket_id, message_bytes(job->prefix));
    } else {
        key_object_prefix(out, job->bucket_id, message_bytes(job->prefix));
    }
}

/* True at the end of the family. */
static bool phase_run(struct job_run *run, const struct job_phase *phase)
{
    struct apply *apply = run->apply;
    Kist__Job *job = run->job;
    struct apply_walk walk;
    struct row_key prefix;
    uint32_t rows = 0;
    bool more = false;

    phase_prefix(job, phase->family, &prefix);
    apply_walk_open(&walk, apply, phase->family, &prefix);
    if (job->cursor.len > 0 && job->cursor.len < sizeof(walk.lower.bytes)) {
        walk.lower.len = 0;
        row_key_append(&walk.lower, message_bytes(job->cursor));
        row_key_append(&walk.lower, SLICE("\0"));
    }
    while (apply_walk_next(&walk)) {
        if (rows == STEP_ROWS) {
            more = true;
            break;
        }
        rows += 1;
        phase->row(run, &walk);
        job->cursor = message_field(arena_copy(apply->arena, walk.key));
    }
    apply_walk_close(&walk);
    job->seen += rows;
    return !more && apply->error.rc == RC_OK;
}

static void job_finish(struct apply *apply, Kist__Job *job, Kist__JobState state, const char *error)
{
    job->state = state;
    job->finished = apply->stamp;
    job->cursor = message_field(SLICE_EMPTY);
    job->error = message_field(slice_str(error));
}

bool job_step(struct apply *apply, Kist__Job *job)
{
    struct job_run run = {.apply = apply, .job = job};
    const struct job_phase *phases = job_phases(job);

    if (bucket_table_get(apply->buckets, job->bucket_id) == 0) {
        job_finish(apply, job, KIST__JOB_STATE__JOB_FAILED, "the bucket is gone");
        return job->kind != KIST__JOB_KIND__JOB_DUE;
    }
    if (job->kind == KIST__JOB_KIND__JOB_DUE) {
        const Kist__Lifecycle *rules = due_rules(apply, job->bucket_id);

        if (rules == NULL || rules->job != job->id) {
            return false; /* other rules were put: another job's work */
        }
    }
    if (job->phase >= STEP_PHASES || phases[job->phase].row == NULL) {
        job_finish(apply, job, KIST__JOB_STATE__JOB_FAILED, "the row of the job is damaged");
        return true;
    }
    job->steps += 1;
    if (!phase_run(&run, &phases[job->phase])) {
        return true;
    }
    job->phase += 1;
    job->cursor = message_field(SLICE_EMPTY);
    if (job->phase >= STEP_PHASES || phases[job->phase].row == NULL) {
        job_finish(apply, job, KIST__JOB_STATE__JOB_DONE, "");
    }
    return true;
}
