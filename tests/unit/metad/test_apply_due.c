/* RUN_DUE and jobs: what lifecycle does to versions, decided from rows, rules and stamps alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/client/version_id.h"
#include "tests/lib/fixture_machine.h"

enum { SETTING_LIFECYCLE = 10, ENABLED = 1, ROWS_MAX = 256, ROUNDS = 64 };

static const uint64_t DAY_MS = 10000;
static const uint64_t DAY_NS = 10000ULL * 1000000ULL;

static struct machine_fixture fixture;

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    fixture.now_ns += DAY_NS / 3; /* not at midnight */
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

/* ---- The leader's part ---- */

/* Due rows whose time has come, as metad/lifecycle.c reads them. */
static size_t due_now(struct machine_fixture *f, ProtobufCBinaryData *rows)
{
    struct store *store = machine_store(f->machine);
    const struct kv_ops *ops = store->kv->ops;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;
    size_t count = 0;

    key_range(&lower, RANGE_FIRST, KIND_DUE, SLICE_EMPTY);
    upper = lower;
    (void)row_key_after_prefix(&upper);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = ops->iter_open(store->kv, &options);
    for (ops->iter_seek(iter, options.lower); ops->iter_valid(iter) && count < ROWS_MAX;
         ops->iter_next(iter)) {
        struct slice key = ops->iter_key(iter);

        if (be64_get(key.data + lower.len) <= f->now_ns) {
            rows[count++] = message_field(arena_copy(&f->arena, key));
        }
    }
    ops->iter_close(iter);
    store_unref(store);
    return count;
}

static void run_due(struct machine_fixture *f)
{
    ProtobufCBinaryData rows[ROWS_MAX];
    Kist__RunDue call = KIST__RUN_DUE__INIT;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        call.rows = rows;
        call.n_rows = due_now(f, rows);
        if (call.n_rows == 0) {
            return;
        }
        assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->outcome,
                         KIST__OUTCOME__OUTCOME_OK);
        f->now_ns += 1;
    }
    fail_msg("rows that are due for ever");
}

static void days_later(struct machine_fixture *f, uint64_t days)
{
    f->now_ns += days * DAY_NS;
    run_due(f);
}

static Kist__Job *run_job(struct machine_fixture *f, uint64_t id)
{
    Kist__RunJob call = KIST__RUN_JOB__INIT;

    call.id = id;
    return machine_fixture_apply(f, META_RUN_JOB, &call.base, SLICE_EMPTY)->job;
}

static Kist__Job *finish_job(struct machine_fixture *f, uint64_t id)
{
    Kist__Job *job = NULL;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        job = run_job(f, id);
        if (job == NULL || job->state != KIST__JOB_STATE__JOB_RUNNING) {
            return job;
        }
    }
    return job;
}

/* ---- Rules ---- */

static Kist__LifecycleRule *add_rules(struct machine_fixture *f, Kist__Settings *settings,
                                      size_t count)
{
    Kist__Lifecycle *lifecycle = arena_alloc(&f->arena, sizeof(*lifecycle));
    Kist__LifecycleRule *rules = arena_alloc(&f->arena, count * sizeof(*rules));

    kist__settings__init(settings);
    kist__lifecycle__init(lifecycle);
    lifecycle->day_ms = DAY_MS;
    lifecycle->rules = arena_alloc(&f->arena, count * sizeof(*lifecycle->rules));
    lifecycle->n_rules = count;
    for (size_t i = 0; i < count; i++) {
        kist__lifecycle_rule__init(&rules[i]);
        rules[i].id = field_of("rule");
        rules[i].enabled = true;
        rules[i].filter = arena_alloc(&f->arena, sizeof(*rules[i].filter));
        kist__lifecycle_filter__init(rules[i].filter);
        lifecycle->rules[i] = &rules[i];
    }
    settings->lifecycle = lifecycle;
    return rules;
}

static void put_rules(struct machine_fixture *f, Kist__Settings *settings)
{
    machine_fixture_setting(f, SETTING_LIFECYCLE, settings);
}

static size_t history(struct machine_fixture *f)
{
    return machine_fixture_count(f, FAMILY_HISTORY, KIND_HISTORY);
}

static size_t due_rows(struct machine_fixture *f)
{
    return machine_fixture_count(f, FAMILY_ROWS, KIND_DUE);
}

/* ---- Expiry ---- */

/* Early is as wrong as never; an overwritten version's row must not take the new one with it. */
static void a_version_expires_once_its_own_time_has_come(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;

    add_rules(f, &settings, 1)->expire_days = 2;
    put_rules(f, &settings);
    assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    days_later(f, 1);
    assert_non_null(machine_fixture_current(f, "a"));
    assert_int_equal(machine_fixture_put_inline(f, "a", "y"), 0);
    days_later(f, 2);
    assert_non_null(machine_fixture_current(f, "a"));
    days_later(f, 1);
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(due_rows(f), 0);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
}

/* A rule of a year must not keep a row of each overwritten version for a year. */
static void rows_go_with_their_versions(void **state)
{
    struct machine_fixture *f = *state;
    Kist__AbortUpload abort = KIST__ABORT_UPLOAD__INIT;
    Kist__Settings settings;
    Kist__LifecycleRule *rules;

    rules = add_rules(f, &settings, 1);
    rules[0].expire_days = 365;
    rules[0].noncurrent_days = 400;
    rules[0].abort_days = 7;
    put_rules(f, &settings);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    }
    assert_int_equal(due_rows(f), 1);
    assert_int_equal(machine_fixture_delete(f, "a"), 0);
    assert_int_equal(due_rows(f), 0);
    abort.bucket_id = f->bucket_id;
    abort.generation = f->generation;
    abort.key = field_of("a");
    abort.upload_id = machine_fixture_upload(f, "a");
    assert_int_equal(due_rows(f), 1);
    assert_int_equal(machine_fixture_apply(f, META_ABORT_UPLOAD, &abort.base, SLICE_EMPTY)->outcome,
                     0);
    assert_int_equal(due_rows(f), 0);
    machine_fixture_versioning(f, ENABLED);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    }
    assert_int_equal(due_rows(f), 5); /* one of the newest, one of each older one */
}

/* Rules may be taken back until the last moment. */
static void rules_of_the_moment_decide(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;

    add_rules(f, &settings, 1)->expire_days = 1;
    put_rules(f, &settings);
    assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    add_rules(f, &settings, 1)->expire_days = 5;
    put_rules(f, &settings);
    days_later(f, 3);
    assert_non_null(machine_fixture_current(f, "a"));
    assert_int_equal(due_rows(f), 1); /* the later row */
    kist__settings__init(&settings);
    put_rules(f, &settings);
    days_later(f, 9);
    assert_non_null(machine_fixture_current(f, "a"));
    assert_int_equal(due_rows(f), 0);
}

/* A proposal may come twice, or too early by a clock that is wrong. */
static void rows_may_be_named_twice_or_early(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData rows[ROWS_MAX];
    Kist__RunDue call = KIST__RUN_DUE__INIT;
    Kist__Settings settings;
    uint64_t now_ns = f->now_ns;

    add_rules(f, &settings, 1)->expire_days = 1;
    put_rules(f, &settings);
    assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    f->now_ns += 10 * DAY_NS;
    call.rows = rows;
    call.n_rows = due_now(f, rows);
    assert_int_equal(call.n_rows, 1);
    f->now_ns = now_ns;
    assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->first, 1);
    assert_non_null(machine_fixture_current(f, "a"));
    f->now_ns += 10 * DAY_NS;
    assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->first, 1);
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(machine_fixture_put_inline(f, "a", "y"), 0);
    assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->first, 1);
    assert_non_null(machine_fixture_current(f, "a"));
}

/* Bytes that are not a row of this kind are refused: RUN_DUE deletes what it names. */
static void other_rows_are_not_touched(void **state)
{
    struct machine_fixture *f = *state;
    Kist__RunDue call = KIST__RUN_DUE__INIT;
    ProtobufCBinaryData bytes;
    struct row_key row;

    key_range_u64(&row, RANGE_FIRST, KIND_RANGE_BUCKET, f->bucket_id, SLICE_EMPTY);
    bytes = message_field(row_key_slice(&row));
    call.rows = &bytes;
    call.n_rows = 1;
    assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
    call.n_rows = 0;
    assert_int_equal(machine_fixture_apply(f, META_RUN_DUE, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* The whole life of a key in a versioned bucket, to the last row. */
static void versions_then_markers_go(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    Kist__LifecycleRule *rules;

    machine_fixture_versioning(f, ENABLED);
    rules = add_rules(f, &settings, 2);
    rules[0].expire_days = 3;
    rules[0].noncurrent_days = 1;
    rules[1].expire_marker = true;
    put_rules(f, &settings);
    assert_int_equal(machine_fixture_put_inline(f, "a", "1"), 0);
    assert_int_equal(machine_fixture_put_inline(f, "a", "2"), 0);
    days_later(f, 2);
    assert_int_equal(history(f), 0);
    assert_non_null(machine_fixture_current(f, "a"));
    days_later(f, 2);
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(history(f), 2); /* the marker, and what it hides */
    days_later(f, 2);
    days_later(f, 1);
    assert_int_equal(history(f), 0);
    assert_int_equal(due_rows(f), 0);
}

/* The count is of the versions that are left, also when further ones push old ones out. */
static void newer_versions_are_kept(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    Kist__LifecycleRule *rules;

    machine_fixture_versioning(f, ENABLED);
    rules = add_rules(f, &settings, 1);
    rules[0].noncurrent_days = 1;
    rules[0].noncurrent_keep = 2;
    put_rules(f, &settings);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    }
    assert_int_equal(history(f), 5);
    days_later(f, 3);
    assert_int_equal(history(f), 2);
    days_later(f, 3);
    assert_int_equal(history(f), 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(machine_fixture_put_inline(f, "a", "x"), 0);
    }
    assert_int_equal(history(f), 5);
    days_later(f, 1);
    assert_int_equal(history(f), 3); /* the two old ones were pushed out; the new ones are young */
    days_later(f, 2);
    assert_int_equal(history(f), 2);
}

/* No rule is stronger than a lock. */
static void locked_versions_stay(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Lock lock = KIST__LOCK__INIT;

    machine_fixture_versioning(f, ENABLED);
    kist__settings__init(&settings);
    settings.object_lock = arena_alloc(&f->arena, sizeof(*settings.object_lock));
    kist__object_lock__init(settings.object_lock);
    settings.object_lock->enabled = true;
    machine_fixture_setting(f, 2, &settings);
    add_rules(f, &settings, 1)->noncurrent_days = 1;
    put_rules(f, &settings);
    lock.mode = 2;
    lock.until = f->now_ns + 10 * DAY_NS;
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 0);
    put.record->lock = &lock;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome, 0);
    assert_int_equal(machine_fixture_put_inline(f, "a", "y"), 0);
    days_later(f, 5);
    assert_int_equal(history(f), 1);
    days_later(f, 7);
    assert_int_equal(history(f), 0);
}

/* Parts of abandoned uploads are bytes that nobody can see or delete by name. */
static void stale_uploads_are_aborted(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    ProtobufCBinaryData id;

    add_rules(f, &settings, 1)->abort_days = 1;
    put_rules(f, &settings);
    id = machine_fixture_upload(f, "a");
    assert_int_equal(machine_fixture_part(f, "a", id, 1, 1000)->outcome, 0);
    days_later(f, 1);
    days_later(f, 1);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_UPLOAD), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_PART), 0);
    assert_int_equal(machine_fixture_usage(f)->uploads, 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 1);
}

/* ---- Jobs ---- */

static Kist__Job *first_job(struct machine_fixture *f)
{
    return machine_fixture_first(f, FAMILY_ROWS, KIND_JOB, &kist__job__descriptor, NULL);
}

static void put_many(struct machine_fixture *f, int count)
{
    char key[16];

    for (int i = 0; i < count; i++) {
        (void)snprintf(key, sizeof(key), "k%04d", i);
        assert_int_equal(machine_fixture_put_inline(f, key, "x"), 0);
    }
}

/* What was there before the rules is found by the job, whatever dies between its steps. */
static void old_objects_get_their_rows(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    Kist__Job *job;

    put_many(f, 300);
    add_rules(f, &settings, 1)->expire_days = 1;
    put_rules(f, &settings);
    job = first_job(f);
    assert_non_null(job);
    assert_int_equal(run_job(f, job->id)->done, 256);
    job = finish_job(f, job->id);
    assert_int_equal(job->state, KIST__JOB_STATE__JOB_DONE);
    assert_int_equal(job->done, 300);
    assert_int_equal(due_rows(f), 300);
    days_later(f, 2);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
}

/* Rules that change often must not leave a walk of the whole bucket behind for each change. */
static void newer_rules_end_the_job_of_older_ones(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;
    uint64_t old;

    put_many(f, 3);
    add_rules(f, &settings, 1)->expire_days = 1;
    put_rules(f, &settings);
    old = first_job(f)->id;
    add_rules(f, &settings, 1)->expire_days = 2;
    put_rules(f, &settings);
    (void)run_job(f, old);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_JOB), 1);
    assert_int_not_equal(first_job(f)->id, old);
}

/* An empty bucket needs no walk. */
static void an_empty_bucket_gets_no_job(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings settings;

    add_rules(f, &settings, 1)->expire_days = 1;
    put_rules(f, &settings);
    assert_null(first_job(f));
}

static Kist__Reply *put_job(struct machine_fixture *f, Kist__JobAction action, uint64_t id,
                            const char *prefix, bool all)
{
    Kist__PutJob call = KIST__PUT_JOB__INIT;
    Kist__Job job = KIST__JOB__INIT;

    call.action = action;
    call.generation = f->generation;
    call.job = &job;
    job.id = id;
    job.kind = KIST__JOB_KIND__JOB_DELETE_PREFIX;
    job.bucket_id = f->bucket_id;
    job.prefix = field_of(prefix);
    job.all_versions = all;
    return machine_fixture_apply(f, META_PUT_JOB, &call.base, SLICE_EMPTY);
}

/* Everything under the prefix, nothing beside it, nothing that came later. */
static void a_prefix_is_deleted(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Job *job;

    put_many(f, 300);
    assert_int_equal(machine_fixture_put_inline(f, "j", "x"), 0);
    assert_int_equal(machine_fixture_put_inline(f, "l", "x"), 0);
    job = put_job(f, KIST__JOB_ACTION__JOB_CREATE, 0, "k", false)->job;
    assert_int_equal(machine_fixture_put_inline(f, "k0299", "new"), 0);
    assert_int_equal(run_job(f, job->id)->state, KIST__JOB_STATE__JOB_RUNNING);
    job = finish_job(f, job->id);
    assert_int_equal(job->state, KIST__JOB_STATE__JOB_DONE);
    assert_int_equal(job->done, 299);
    assert_non_null(machine_fixture_current(f, "k0299"));
    assert_int_equal(machine_fixture_usage(f)->objects, 3);
}

/* All versions go, whichever of them is the newest; a plain one makes markers. */
static void versions_of_a_prefix_are_deleted(void **state)
{
    struct machine_fixture *f = *state;
    uint64_t id;

    machine_fixture_versioning(f, ENABLED);
    put_many(f, 3);
    put_many(f, 3);
    id = put_job(f, KIST__JOB_ACTION__JOB_CREATE, 0, "k", false)->job->id;
    assert_int_equal(finish_job(f, id)->done, 3);
    assert_int_equal(history(f), 9);
    put_many(f, 1);
    id = put_job(f, KIST__JOB_ACTION__JOB_CREATE, 0, "", true)->job->id;
    assert_int_equal(finish_job(f, id)->done, 10);
    assert_int_equal(history(f), 0);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
}

/* A paused job does nothing; a cancelled one can only be looked at, for a week. */
static void jobs_are_paused_and_cancelled(void **state)
{
    struct machine_fixture *f = *state;
    uint64_t id;

    put_many(f, 3);
    id = put_job(f, KIST__JOB_ACTION__JOB_CREATE, 0, "k", false)->job->id;
    assert_int_equal(put_job(f, KIST__JOB_ACTION__JOB_PAUSE, id, "", false)->job->state,
                     KIST__JOB_STATE__JOB_PAUSED);
    assert_int_equal(run_job(f, id)->done, 0);
    assert_int_equal(put_job(f, KIST__JOB_ACTION__JOB_CANCEL, id, "", false)->job->state,
                     KIST__JOB_STATE__JOB_CANCELLED);
    assert_int_equal(put_job(f, KIST__JOB_ACTION__JOB_RESUME, id, "", false)->job->state,
                     KIST__JOB_STATE__JOB_CANCELLED);
    assert_int_equal(run_job(f, id)->done, 0);
    assert_int_equal(machine_fixture_usage(f)->objects, 3);
    assert_non_null(first_job(f));
    f->now_ns += 8ULL * 86400 * 1000000000ULL;
    (void)run_job(f, id);
    assert_null(first_job(f));
    assert_int_equal(put_job(f, KIST__JOB_ACTION__JOB_CANCEL, id, "", false)->outcome,
                     KIST__OUTCOME__NO_SUCH_JOB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_version_expires_once_its_own_time_has_come, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rows_go_with_their_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_of_the_moment_decide, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_may_be_named_twice_or_early, setup, teardown),
        cmocka_unit_test_setup_teardown(other_rows_are_not_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(versions_then_markers_go, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_versions_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(locked_versions_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_uploads_are_aborted, setup, teardown),
        cmocka_unit_test_setup_teardown(old_objects_get_their_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_rules_end_the_job_of_older_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_bucket_gets_no_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_is_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(versions_of_a_prefix_are_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(jobs_are_paused_and_cancelled, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
