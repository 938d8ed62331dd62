/* Object lock, and what is set on a version in place: SET_OBJECT (metad/apply/lock.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/client/version_id.h"
#include "tests/lib/fixture_machine.h"

enum {
    OFF = 0,
    ENABLED = 1,
    GOVERNANCE = 1,
    COMPLIANCE = 2,
    SET_TAGS = 1,
    SET_RETENTION = 2,
    SET_HOLD = 4,
    SET_ACL = 8,
    SETTING_LOCK = 2
};

static const uint64_t DAY = 86400ULL * 1000000000ULL;

static struct machine_fixture fixture;

static void lock_bucket(struct machine_fixture *f, uint32_t mode, uint32_t days, uint32_t years)
{
    Kist__Settings settings = KIST__SETTINGS__INIT;
    Kist__ObjectLock lock = KIST__OBJECT_LOCK__INIT;

    lock.enabled = true;
    lock.mode = mode;
    lock.days = days;
    lock.years = years;
    settings.object_lock = &lock;
    machine_fixture_setting(f, SETTING_LOCK, &settings);
}

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int setup_locked(void **state)
{
    (void)setup(state);
    machine_fixture_versioning(&fixture, ENABLED);
    lock_bucket(&fixture, 0, 0, 0);
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

static const Kist__Reply *put_locked(struct machine_fixture *f, const char *key, Kist__Lock *lock)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;

    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of(key);
    put.record = machine_fixture_record(f, 0);
    put.record->lock = lock;
    return machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
}

static Kist__Lock lock_until(uint32_t mode, uint64_t until)
{
    Kist__Lock lock = KIST__LOCK__INIT;

    lock.mode = mode;
    lock.until = until;
    return lock;
}

static struct slice name_of(struct machine_fixture *f, const Kist__Record *record)
{
    uint8_t *packed = arena_alloc(&f->arena, VERSION_ID_BYTES);

    version_id_pack(packed, record->stamp, record->tie);
    return slice_of(packed, VERSION_ID_BYTES);
}

/* A version with this lock; returns its name. */
static struct slice version_with(struct machine_fixture *f, uint32_t mode, uint64_t until,
                                 bool legal_hold)
{
    Kist__Lock lock = lock_until(mode, until);
    const Kist__Reply *reply;

    lock.legal_hold = legal_hold;
    reply = put_locked(f, "a", &lock);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    return name_of(f, reply->record);
}

static Kist__Outcome delete_outcome(struct machine_fixture *f, struct slice version, bool bypass)
{
    return machine_fixture_delete_version(f, "a", version, bypass)->outcome;
}

static const Kist__Reply *set_object(struct machine_fixture *f, struct slice version, uint32_t what,
                                     Kist__Record *record, bool bypass)
{
    Kist__SetObject call = KIST__SET_OBJECT__INIT;

    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.version = message_field(version);
    call.what = what;
    call.record = record;
    call.bypass_governance = bypass;
    return machine_fixture_apply(f, META_SET_OBJECT, &call.base, SLICE_EMPTY);
}

static Kist__Outcome retain(struct machine_fixture *f, struct slice version, uint32_t mode,
                            uint64_t until, bool bypass)
{
    Kist__Record *record = machine_fixture_record(f, 0);
    Kist__Lock lock = lock_until(mode, until);

    record->lock = &lock;
    return set_object(f, version, SET_RETENTION, record, bypass)->outcome;
}

static Kist__Outcome hold(struct machine_fixture *f, struct slice version, bool on)
{
    Kist__Record *record = machine_fixture_record(f, 0);
    Kist__Lock lock = KIST__LOCK__INIT;

    lock.legal_hold = on;
    record->lock = &lock;
    return set_object(f, version, SET_HOLD, record, false)->outcome;
}

/* Who may remove a locked version: the table of AWS's "Object Lock" page. */
static void a_locked_version_stays(void **state)
{
    static const struct {
        uint32_t mode;
        bool legal_hold;
        bool expired;
        bool bypass;
        Kist__Outcome outcome;
    } cases[] = {
        {GOVERNANCE, false, false, false, KIST__OUTCOME__OBJECT_LOCKED},
        {GOVERNANCE, false, false, true,  KIST__OUTCOME__OUTCOME_OK   },
        {GOVERNANCE, false, true,  false, KIST__OUTCOME__OUTCOME_OK   },
        {COMPLIANCE, false, false, false, KIST__OUTCOME__OBJECT_LOCKED},
        {COMPLIANCE, false, false, true,  KIST__OUTCOME__OBJECT_LOCKED},
        {COMPLIANCE, false, true,  false, KIST__OUTCOME__OUTCOME_OK   },
        {0,          true,  false, true,  KIST__OUTCOME__OBJECT_LOCKED},
        {GOVERNANCE, true,  true,  true,  KIST__OUTCOME__OBJECT_LOCKED},
        {0,          false, false, false, KIST__OUTCOME__OUTCOME_OK   },
    };
    struct machine_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct slice version = version_with(f, cases[i].mode, f->now_ns + DAY, cases[i].legal_hold);

        f->now_ns += cases[i].expired ? 2 * DAY : 0;
        assert_int_equal(delete_outcome(f, version, cases[i].bypass), cases[i].outcome);
    }
}

/* A plain delete makes a marker and touches no version: no lock forbids it. */
static void a_marker_may_hide_a_locked_version(void **state)
{
    struct machine_fixture *f = *state;
    struct slice version = version_with(f, COMPLIANCE, f->now_ns + DAY, true);
    const Kist__Deleted *deleted = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);

    assert_int_equal(deleted->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_true(deleted->delete_marker);
    assert_int_equal(delete_outcome(f, version, true), KIST__OUTCOME__OBJECT_LOCKED);
}

/* One locked key among many does not keep the others. */
static void a_locked_item_refuses_itself_alone(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item locked = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item plain = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items[] = {&locked, &plain};
    const Kist__Reply *reply;

    locked.key = field_of("a");
    locked.version = message_field(version_with(f, COMPLIANCE, f->now_ns + DAY, false));
    plain.key = field_of("b");
    plain.version = message_field(name_of(f, put_locked(f, "b", NULL)->record));
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = items;
    call.n_items = 2;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(reply->deleted[0]->outcome, KIST__OUTCOME__OBJECT_LOCKED);
    assert_int_equal(reply->deleted[1]->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_non_null(machine_fixture_current(f, "a"));
    assert_null(machine_fixture_current(f, "b"));
}

/* A lock that the bucket cannot enforce must not be promised. */
static void a_lock_needs_a_bucket_with_object_lock(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Lock lock = lock_until(GOVERNANCE, f->now_ns + DAY);

    assert_int_equal(put_locked(f, "a", &lock)->outcome, KIST__OUTCOME__NO_LOCK_CONFIGURATION);
    assert_int_equal(put_locked(f, "a", NULL)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(retain(f, SLICE_EMPTY, GOVERNANCE, f->now_ns + DAY, false),
                     KIST__OUTCOME__NO_LOCK_CONFIGURATION);
    assert_int_equal(hold(f, SLICE_EMPTY, true), KIST__OUTCOME__NO_LOCK_CONFIGURATION);
    assert_null(machine_fixture_current(f, "a")->lock);
}

/* The date is judged by the stamp of the command, the same on every replica. */
static void a_retention_ends_in_the_future(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Lock lock = lock_until(GOVERNANCE, f->now_ns);

    assert_int_equal(put_locked(f, "a", &lock)->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_locked(f, "a", NULL)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(retain(f, SLICE_EMPTY, COMPLIANCE, f->now_ns - DAY, false),
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* Default retention: of versions that bring none; counted from the stamp. */
static void versions_get_the_default_retention(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Lock own = lock_until(COMPLIANCE, f->now_ns + DAY);
    Kist__Lock only_hold = KIST__LOCK__INIT;
    const Kist__Record *record;

    lock_bucket(f, GOVERNANCE, 3, 0);
    record = put_locked(f, "a", NULL)->record;
    assert_int_equal(record->lock->mode, GOVERNANCE);
    assert_int_equal(record->lock->until, record->stamp + 3 * DAY);
    record = put_locked(f, "a", &own)->record;
    assert_int_equal(record->lock->mode, COMPLIANCE);
    assert_int_equal(record->lock->until, own.until);
    only_hold.legal_hold = true;
    record = put_locked(f, "a", &only_hold)->record;
    assert_int_equal(record->lock->mode, GOVERNANCE);
    assert_true(record->lock->legal_hold);
    lock_bucket(f, COMPLIANCE, 0, 2);
    record = put_locked(f, "a", NULL)->record;
    assert_int_equal(record->lock->until, record->stamp + 730 * DAY);
}

/* Copies and completed uploads are new versions: they get it too, and never the source's lock. */
static void copies_get_the_default_retention(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *record;

    (void)version_with(f, COMPLIANCE, f->now_ns + 9 * DAY, true);
    assert_int_equal(machine_fixture_copy(f, "a", "b"), KIST__OUTCOME__OUTCOME_OK);
    assert_null(machine_fixture_current(f, "b")->lock);
    lock_bucket(f, GOVERNANCE, 1, 0);
    assert_int_equal(machine_fixture_copy(f, "a", "b"), KIST__OUTCOME__OUTCOME_OK);
    record = machine_fixture_current(f, "b");
    assert_int_equal(record->lock->mode, GOVERNANCE);
    assert_int_equal(record->lock->until, record->stamp + DAY);
    assert_false(record->lock->legal_hold);
}

/* How a retention may change: compliance only grows, governance shrinks for those who may. */
static void a_retention_is_not_weakened(void **state)
{
    enum { NEVER, BYPASS, ALWAYS };
    static const struct {
        uint32_t old_mode;
        uint32_t mode;
        int days; /* more than before */
        int allowed;
    } cases[] = {
        {COMPLIANCE, COMPLIANCE, 1,  ALWAYS},
        {COMPLIANCE, COMPLIANCE, 0,  ALWAYS},
        {COMPLIANCE, COMPLIANCE, -1, NEVER },
        {COMPLIANCE, GOVERNANCE, 1,  NEVER },
        {COMPLIANCE, 0,          0,  NEVER },
        {GOVERNANCE, GOVERNANCE, 1,  ALWAYS},
        {GOVERNANCE, GOVERNANCE, -1, BYPASS},
        {GOVERNANCE, COMPLIANCE, 1,  BYPASS},
        {GOVERNANCE, 0,          0,  BYPASS},
        {0,          GOVERNANCE, 0,  ALWAYS},
        {0,          COMPLIANCE, 0,  ALWAYS},
    };
    struct machine_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t until = f->now_ns + 5 * DAY;
        uint64_t next = cases[i].days < 0 ? until - DAY : until + (uint64_t)cases[i].days * DAY;
        struct slice version = version_with(f, cases[i].old_mode, until, false);

        assert_int_equal(retain(f, version, cases[i].mode, next, false),
                         cases[i].allowed == ALWAYS ? KIST__OUTCOME__OUTCOME_OK
                                                    : KIST__OUTCOME__RETENTION_SHORTENED);
        assert_int_equal(retain(f, version, cases[i].mode, next, true),
                         cases[i].allowed != NEVER ? KIST__OUTCOME__OUTCOME_OK
                                                   : KIST__OUTCOME__RETENTION_SHORTENED);
    }
}

/* Past its date a retention binds nobody. */
static void an_expired_retention_may_change(void **state)
{
    struct machine_fixture *f = *state;
    struct slice version = version_with(f, COMPLIANCE, f->now_ns + DAY, false);

    f->now_ns += 2 * DAY;
    assert_int_equal(retain(f, version, GOVERNANCE, f->now_ns + DAY, false),
                     KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(retain(f, version, 0, 0, true), KIST__OUTCOME__OUTCOME_OK);
    assert_null(machine_fixture_current(f, "a")->lock);
}

/* The hold and the retention are two things: setting one leaves the other. */
static void a_legal_hold_is_apart_from_the_retention(void **state)
{
    struct machine_fixture *f = *state;
    struct slice version = version_with(f, GOVERNANCE, f->now_ns + DAY, false);

    assert_int_equal(hold(f, version, true), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_current(f, "a")->lock->mode, GOVERNANCE);
    assert_int_equal(delete_outcome(f, version, true), KIST__OUTCOME__OBJECT_LOCKED);
    assert_int_equal(retain(f, version, GOVERNANCE, f->now_ns + 2 * DAY, false),
                     KIST__OUTCOME__OUTCOME_OK);
    assert_true(machine_fixture_current(f, "a")->lock->legal_hold);
    assert_int_equal(hold(f, version, false), KIST__OUTCOME__OUTCOME_OK);
    assert_true(machine_fixture_current(f, "a")->lock->hold_known); /* GET says OFF */
    assert_int_equal(delete_outcome(f, version, true), KIST__OUTCOME__OUTCOME_OK);
}

/* What was there before the lock was set up may be locked too: as the null version it must not be
 * replaced by anything. */
static void a_locked_null_version_stays(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(put_locked(f, "a", NULL)->outcome, KIST__OUTCOME__OUTCOME_OK);
    machine_fixture_versioning(f, ENABLED);
    lock_bucket(f, 0, 0, 0);
    assert_int_equal(retain(f, SLICE("null"), COMPLIANCE, f->now_ns + DAY, false),
                     KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_locked(f, "a", NULL)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(delete_outcome(f, SLICE("null"), true), KIST__OUTCOME__OBJECT_LOCKED);
}

/* ---- Tags and ACL ---- */

/* In place: same version id, same time, on the version that is named. */
static void tags_are_set_on_a_version(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Record *value = machine_fixture_record(f, 0);
    Kist__Header tag = KIST__HEADER__INIT;
    Kist__Header *tags[] = {&tag};
    const Kist__Record *old;
    struct slice version;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    version = name_of(f, machine_fixture_current(f, "a"));
    (void)machine_fixture_put(f, "a", 2000);
    tag.name = field_of("colour");
    tag.value = field_of("red");
    value->tags = tags;
    value->n_tags = 1;
    assert_int_equal(set_object(f, version, SET_TAGS, value, false)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    old = machine_fixture_first(f, FAMILY_HISTORY, KIND_HISTORY, &kist__record__descriptor, NULL);
    assert_int_equal(old->n_tags, 1);
    assert_true(slice_eq(name_of(f, old), version));
    assert_int_equal(machine_fixture_current(f, "a")->n_tags, 0);
    assert_int_equal(set_object(f, SLICE_EMPTY, SET_TAGS, value, false)->record->n_tags, 1);
    value->n_tags = 0;
    (void)set_object(f, SLICE_EMPTY, SET_TAGS, value, false);
    assert_int_equal(machine_fixture_current(f, "a")->n_tags, 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_HISTORY, KIND_HISTORY), 1);
}

/* Each thing that can be named wrongly has an answer of its own. */
static void what_cannot_be_set_is_refused(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Record *value = machine_fixture_record(f, 0);
    const Kist__Record *record = machine_fixture_record(f, 0);

    assert_int_equal(set_object(f, SLICE_EMPTY, SET_TAGS, value, false)->outcome,
                     KIST__OUTCOME__NO_SUCH_KEY);
    assert_int_equal(set_object(f, SLICE("null"), SET_TAGS, value, false)->outcome,
                     KIST__OUTCOME__NO_SUCH_VERSION);
    assert_int_equal(set_object(f, name_of(f, record), SET_ACL, value, false)->outcome,
                     KIST__OUTCOME__NO_SUCH_VERSION);
    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    assert_int_equal(set_object(f, SLICE_EMPTY, SET_TAGS, value, false)->outcome,
                     KIST__OUTCOME__IS_DELETE_MARKER);
    assert_int_equal(set_object(f, SLICE_EMPTY, 0, value, false)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* An ACL belongs to its version; a later copy or put does not inherit it. */
static void an_acl_is_set_and_not_copied(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Record *value = machine_fixture_record(f, 0);
    Kist__Acl acl = KIST__ACL__INIT;

    (void)machine_fixture_put(f, "a", 1000);
    acl.owner = field_of("root");
    value->acl = &acl;
    assert_int_equal(set_object(f, SLICE_EMPTY, SET_ACL, value, false)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    assert_non_null(machine_fixture_current(f, "a")->acl);
    (void)machine_fixture_copy(f, "a", "b");
    assert_null(machine_fixture_current(f, "b")->acl);
}

#define CASE(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define LOCKED(name) cmocka_unit_test_setup_teardown(name, setup_locked, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCKED(a_locked_version_stays),
        LOCKED(a_marker_may_hide_a_locked_version),
        LOCKED(a_locked_item_refuses_itself_alone),
        CASE(a_lock_needs_a_bucket_with_object_lock),
        LOCKED(a_retention_ends_in_the_future),
        LOCKED(versions_get_the_default_retention),
        LOCKED(copies_get_the_default_retention),
        LOCKED(a_retention_is_not_weakened),
        LOCKED(an_expired_retention_may_change),
        LOCKED(a_legal_hold_is_apart_from_the_retention),
        CASE(a_locked_null_version_stays),
        CASE(tags_are_set_on_a_version),
        CASE(what_cannot_be_set_is_refused),
        CASE(an_acl_is_set_and_not_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
