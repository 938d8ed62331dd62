/* Settings of buckets: merged one by one, bounded, under the rules of versioning and object lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "tests/lib/fixture_machine.h"

static struct machine_fixture fixture;

enum { VERSIONING = 1, OBJECT_LOCK = 2, TAGS = 3, POLICY = 7, WEBSITE = 9 };
enum { ENABLED = 1, SUSPENDED = 2 };

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

static Kist__Reply *put_as(struct machine_fixture *f, uint32_t setting, Kist__Settings *value,
                           uint64_t bucket_id, uint64_t generation)
{
    Kist__PutSetting call = KIST__PUT_SETTING__INIT;
    Kist__Reply *reply;

    call.name = field_of("box");
    call.bucket_id = bucket_id;
    call.generation = generation;
    call.setting = setting;
    call.value = value;
    reply = machine_fixture_apply(f, META_PUT_SETTING, &call.base, SLICE_EMPTY);
    assert_non_null(reply);
    return reply;
}

/* As a gateway does it: judged by the present generation, which follows. */
static Kist__Outcome put(struct machine_fixture *f, uint32_t setting, Kist__Settings *value)
{
    Kist__Outcome outcome = put_as(f, setting, value, f->bucket_id, f->generation)->outcome;

    f->generation += outcome == KIST__OUTCOME__OUTCOME_OK ? 1 : 0;
    return outcome;
}

static Kist__Outcome put_versioning(struct machine_fixture *f, uint32_t state)
{
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Versioning versioning = KIST__VERSIONING__INIT;

    versioning.state = state;
    value.versioning = &versioning;
    return put(f, VERSIONING, &value);
}

static Kist__Outcome put_lock(struct machine_fixture *f, bool enabled, uint32_t mode, uint32_t days,
                              uint32_t years)
{
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__ObjectLock lock = KIST__OBJECT_LOCK__INIT;

    lock.enabled = enabled;
    lock.mode = mode;
    lock.days = days;
    lock.years = years;
    value.object_lock = &lock;
    return put(f, OBJECT_LOCK, &value);
}

static Kist__Outcome put_policy(struct machine_fixture *f, size_t len)
{
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Policy policy = KIST__POLICY__INIT;

    policy.json = (ProtobufCBinaryData){.len = len, .data = arena_alloc(&f->arena, len)};
    value.policy = &policy;
    return put(f, POLICY, &value);
}

static const Kist__Bucket *row(struct machine_fixture *f, enum row_kind kind)
{
    return machine_fixture_first(f, FAMILY_ROWS, kind, &kist__bucket__descriptor, NULL);
}

/* Requests are judged by root's row, commands by the range's: both must say the same. */
static void both_rows_hold_the_setting(void **state)
{
    struct machine_fixture *f = *state;
    enum row_kind kinds[] = {KIND_BUCKET, KIND_RANGE_BUCKET};

    assert_int_equal(put_versioning(f, ENABLED), KIST__OUTCOME__OUTCOME_OK);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const Kist__Bucket *bucket = row(f, kinds[i]);

        assert_int_equal(bucket->generation, f->generation);
        assert_int_equal(bucket->settings->versioning->state, ENABLED);
    }
}

/* A setting is put and deleted alone: the others stay as they are. */
static void one_field_is_merged(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings none = KIST__SETTINGS__INIT;

    assert_int_equal(put_versioning(f, SUSPENDED), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_policy(f, 10), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(row(f, KIND_BUCKET)->settings->versioning->state, SUSPENDED);
    assert_int_equal(row(f, KIND_BUCKET)->settings->policy->json.len, 10);
    assert_int_equal(put(f, POLICY, &none), KIST__OUTCOME__OUTCOME_OK);
    assert_null(row(f, KIND_BUCKET)->settings->policy);
    assert_int_equal(row(f, KIND_BUCKET)->settings->versioning->state, SUSPENDED);
    assert_int_equal(put(f, WEBSITE, NULL), KIST__OUTCOME__OUTCOME_OK);
}

/* What is judged by old settings is judged again, whether it is a write or another setting. */
static void an_old_judgement_is_refused(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings none = KIST__SETTINGS__INIT;
    uint64_t old = f->generation;

    assert_int_equal(put_policy(f, 1), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_as(f, POLICY, &none, f->bucket_id, old)->outcome,
                     KIST__OUTCOME__STALE_GENERATION);
    assert_int_equal(put_as(f, WEBSITE, &none, f->bucket_id, old)->outcome,
                     KIST__OUTCOME__STALE_GENERATION);
    assert_int_equal(put_as(f, POLICY, &none, f->bucket_id + 1, 0)->outcome,
                     KIST__OUTCOME__STALE_GENERATION);
    f->generation = old;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__STALE_GENERATION);
    f->generation = old + 1;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_as(f, 999, &none, f->bucket_id, 0)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* Many may set a bucket at once: only a change of who may do what sends the others back. */
static void other_settings_do_not_stand_in_the_way(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings none = KIST__SETTINGS__INIT;
    uint64_t old = f->generation;

    assert_int_equal(put_versioning(f, ENABLED), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_as(f, WEBSITE, &none, f->bucket_id, old)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    f->generation = row(f, KIND_BUCKET)->generation;
    assert_int_equal(f->generation, old + 2);
    assert_int_equal(put_policy(f, 5), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(
        put_as(f, POLICY, row(f, KIND_BUCKET)->settings, f->bucket_id, f->generation)->outcome,
        KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(row(f, KIND_BUCKET)->generation, f->generation);
}

/* A bucket that was versioned is never again one that was not: its versions would be lost. */
static void versioning_cannot_be_forgotten(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings none = KIST__SETTINGS__INIT;

    assert_int_equal(put(f, VERSIONING, &none), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_versioning(f, 0), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_versioning(f, 3), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_versioning(f, ENABLED), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_versioning(f, SUSPENDED), KIST__OUTCOME__OUTCOME_OK);
}

/* A lock that could be switched off, or versions that could be overwritten, would protect nothing.
 */
static void object_lock_needs_versions_and_stays(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings none = KIST__SETTINGS__INIT;

    assert_int_equal(put_lock(f, true, 0, 0, 0), KIST__OUTCOME__INVALID_BUCKET_STATE);
    assert_int_equal(put_versioning(f, ENABLED), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_lock(f, true, 1, 3, 0), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_versioning(f, SUSPENDED), KIST__OUTCOME__INVALID_BUCKET_STATE);
    assert_int_equal(put_versioning(f, ENABLED), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_lock(f, false, 0, 0, 0), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put(f, OBJECT_LOCK, &none), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_lock(f, true, 1, 0, 0), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_lock(f, true, 0, 1, 0), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_lock(f, true, 2, 1, 1), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_lock(f, true, 3, 1, 0), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_lock(f, true, 2, 0, 1), KIST__OUTCOME__OUTCOME_OK);
}

/* Every view holds all settings of all buckets: a bucket may not fill the memory of gateways. */
static void the_sum_is_bounded(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Website website = KIST__WEBSITE__INIT;
    size_t half = LIMIT_SETTINGS_BYTES / 2 + 1;

    assert_int_equal(put_policy(f, half), KIST__OUTCOME__OUTCOME_OK);
    website.error_key = (ProtobufCBinaryData){.len = half, .data = arena_alloc(&f->arena, half)};
    value.website = &website;
    assert_int_equal(put(f, WEBSITE, &value), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_null(row(f, KIND_BUCKET)->settings->website);
    assert_int_equal(put_policy(f, 1), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put(f, WEBSITE, &value), KIST__OUTCOME__OUTCOME_OK);
}

/* A bucket made with object lock is versioned from its first object on. */
static void a_bucket_begins_with_its_settings(void **state)
{
    struct machine_fixture *f = *state;
    Kist__CreateBucket call = KIST__CREATE_BUCKET__INIT;
    Kist__Settings settings = KIST__SETTINGS__INIT;
    Kist__ObjectLock lock = KIST__OBJECT_LOCK__INIT;
    Kist__Versioning versioning = KIST__VERSIONING__INIT;
    const Kist__Reply *reply;

    call.name = field_of("locked");
    call.owner = field_of("root");
    call.settings = &settings;
    lock.enabled = true;
    settings.object_lock = &lock;
    versioning.state = SUSPENDED;
    settings.versioning = &versioning;
    reply = machine_fixture_apply(f, META_CREATE_BUCKET, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__INVALID_BUCKET_STATE);
    settings.versioning = NULL;
    reply = machine_fixture_apply(f, META_CREATE_BUCKET, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(reply->bucket->settings->versioning->state, ENABLED);
    assert_true(reply->bucket->settings->object_lock->enabled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_rows_hold_the_setting, setup, teardown),
        cmocka_unit_test_setup_teardown(one_field_is_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_judgement_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(other_settings_do_not_stand_in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(versioning_cannot_be_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(object_lock_needs_versions_and_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(the_sum_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bucket_begins_with_its_settings, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
