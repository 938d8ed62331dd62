/* The change feed as apply writes and trims it, and the cursors of those it is delivered to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "tests/lib/fixture_machine.h"

static struct machine_fixture fixture;

enum { NOTIFICATION = 11, FEED = 13 };

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

static void put_setting(struct machine_fixture *f, uint32_t setting, Kist__Settings *value)
{
    Kist__PutSetting call = KIST__PUT_SETTING__INIT;

    call.name = field_of("box");
    call.bucket_id = f->bucket_id;
    call.setting = setting;
    call.value = value;
    assert_int_equal(machine_fixture_apply(f, META_PUT_SETTING, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    f->generation += 1;
}

static void feed_on(struct machine_fixture *f, bool on, uint64_t until)
{
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Feed feed = KIST__FEED__INIT;

    feed.enabled = on;
    feed.until = until;
    value.feed = &feed;
    put_setting(f, FEED, &value);
}

static void notify(struct machine_fixture *f, const char *event, const char *prefix)
{
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Notification notification = KIST__NOTIFICATION__INIT;
    Kist__NotificationTarget target = KIST__NOTIFICATION_TARGET__INIT;
    Kist__NotificationTarget *targets = &target;
    ProtobufCBinaryData events = field_of(event);

    target.id = field_of("one");
    target.arn = field_of("arn:kist:sqs::hook:webhook");
    target.kind = 2;
    target.events = &events;
    target.n_events = 1;
    target.prefix = field_of(prefix);
    target.has_prefix = true;
    notification.targets = &targets;
    notification.n_targets = 1;
    value.notification = &notification;
    put_setting(f, NOTIFICATION, &value);
}

static size_t rows(struct machine_fixture *f)
{
    return machine_fixture_count(f, FAMILY_ROWS, KIND_CHANGE);
}

static const Kist__FeedState *state_of(struct machine_fixture *f)
{
    return machine_fixture_first(f, FAMILY_ROWS, KIND_FEED, &kist__feed_state__descriptor, NULL);
}

static const Kist__FeedCursor *cursor_of(struct machine_fixture *f)
{
    return machine_fixture_first(f, FAMILY_ROWS, KIND_CURSOR, &kist__feed_cursor__descriptor, NULL);
}

static const Kist__Change *oldest(struct machine_fixture *f, uint64_t *stamp)
{
    struct slice key;
    const Kist__Change *change =
        machine_fixture_first(f, FAMILY_ROWS, KIND_CHANGE, &kist__change__descriptor, &key);

    *stamp = change != NULL ? be64_get(key.data + key.len - 12) : 0;
    return change;
}

static uint64_t trim(struct machine_fixture *f, uint64_t through, uint64_t bytes_max)
{
    Kist__TrimChanges call = KIST__TRIM_CHANGES__INIT;
    Kist__Reply *reply;

    call.through = through;
    call.bytes_max = bytes_max;
    reply = machine_fixture_apply(f, META_TRIM_CHANGES, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    return reply->first;
}

static void put_cursor(struct machine_fixture *f, uint64_t stamp, uint32_t number)
{
    Kist__PutCursor call = KIST__PUT_CURSOR__INIT;

    call.sink = field_of("hook:webhook");
    call.stamp = stamp;
    call.number = number;
    call.delivered = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_CURSOR, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
}

/* A bucket that nobody watches pays nothing. */
static void nothing_without_a_wish(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put_inline(f, "a", "x");
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(rows(f), 0);
    assert_null(state_of(f));
}

/* What changed is in the feed, what was refused or changed nothing is not. */
static void changes_are_noted(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Change *first;
    uint64_t stamp;

    feed_on(f, true, 0);
    assert_int_equal(machine_fixture_put_inline(f, "a", "xyz"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_copy(f, "a", "b"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(rows(f), 3);
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_not_equal(machine_fixture_copy(f, "never", "b"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(rows(f), 3);
    first = oldest(f, &stamp);
    assert_int_equal(first->kind, KIST__CHANGE_KIND__CHANGE_PUT);
    assert_int_equal(first->size, 3);
    assert_int_equal(first->stamp, stamp);
    assert_true(slice_eq(message_bytes(first->bucket_name), SLICE("box")));
    assert_int_equal(state_of(f)->count, 3);
    assert_true(machine_change_stamp(f->machine) > stamp);
}

/* The feed's row must say what is there, or the bound on bytes drifts. */
static void bytes_add_up(void **state)
{
    struct machine_fixture *f = *state;

    feed_on(f, true, 0);
    for (int i = 0; i < 20; i++) {
        (void)machine_fixture_put_inline(f, "a", "x");
    }
    assert_true(state_of(f)->bytes > 20 * 30);
    assert_int_equal(trim(f, 0, state_of(f)->bytes), 0);
    assert_int_equal(trim(f, UINT64_MAX, 0), 20);
    assert_int_equal(rows(f), 0);
    assert_int_equal(state_of(f)->bytes, 0);
    assert_int_equal(state_of(f)->count, 0);
}

/* The oldest go, as many as the bound asks and no more. */
static void trimmed_by_bytes_and_by_age(void **state)
{
    struct machine_fixture *f = *state;
    uint64_t bytes;
    uint64_t stamp;

    feed_on(f, true, 0);
    for (int i = 0; i < 10; i++) {
        f->now_ns += SIM_S;
        (void)machine_fixture_put_inline(f, "a", "x");
    }
    bytes = state_of(f)->bytes;
    assert_int_equal(trim(f, 0, bytes / 2), 5);
    assert_int_equal(rows(f), 5);
    assert_true(state_of(f)->bytes <= bytes / 2);
    (void)oldest(f, &stamp);
    assert_true(stamp > state_of(f)->trimmed_stamp);
    assert_int_equal(trim(f, stamp + SIM_S, UINT64_MAX), 2);
    assert_int_equal(rows(f), 3);
    assert_int_equal(trim(f, 0, UINT64_MAX), 0);
}

/* One entry drops a bounded number: the apply queue never stands still for a whole feed. */
static void a_trim_is_bounded(void **state)
{
    struct machine_fixture *f = *state;

    feed_on(f, true, 0);
    for (int i = 0; i < 1005; i++) {
        (void)machine_fixture_put_inline(f, "a", "");
    }
    assert_int_equal(trim(f, UINT64_MAX, 0), 1000);
    assert_int_equal(trim(f, UINT64_MAX, 0), 5);
}

/* Who is told is decided when it happens. */
static void targets_are_those_of_the_moment(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Change *change;
    uint64_t stamp;

    notify(f, "s3:ObjectCreated:*", "in/");
    assert_int_equal(rows(f), 1); /* the test event */
    change = oldest(f, &stamp);
    assert_int_equal(change->kind, KIST__CHANGE_KIND__CHANGE_TEST);
    assert_int_equal(trim(f, UINT64_MAX, 0), 1);
    (void)machine_fixture_put_inline(f, "out/a", "x");
    (void)machine_fixture_put_inline(f, "in/a", "x");
    (void)machine_fixture_delete(f, "in/a");
    assert_int_equal(rows(f), 1);
    change = oldest(f, &stamp);
    assert_true(slice_eq(message_bytes(change->key), SLICE("in/a")));
    assert_int_equal(change->n_targets, 1);
    assert_true(slice_eq(message_bytes(change->targets[0]->sink), SLICE("hook:webhook")));
    assert_true(slice_eq(message_bytes(change->targets[0]->id), SLICE("one")));
}

/* What is dropped before it was delivered is counted, what was delivered is not. */
static void losses_are_counted(void **state)
{
    struct machine_fixture *f = *state;
    uint64_t stamp;

    notify(f, "s3:ObjectCreated:*", "");
    for (int i = 0; i < 4; i++) {
        (void)machine_fixture_put_inline(f, "a", "x");
    }
    assert_int_equal(rows(f), 5);
    (void)oldest(f, &stamp);
    put_cursor(f, stamp, 1);
    assert_int_equal(trim(f, UINT64_MAX, 0), 5);
    assert_int_equal(cursor_of(f)->lost, 4);
    assert_int_equal(cursor_of(f)->delivered, 1);
}

/* A late or repeated command must not make a sink hear everything again. */
static void cursors_never_go_back(void **state)
{
    struct machine_fixture *f = *state;

    put_cursor(f, 100, 3);
    put_cursor(f, 100, 2);
    put_cursor(f, 99, 9);
    put_cursor(f, 100, 3);
    assert_int_equal(cursor_of(f)->stamp, 100);
    assert_int_equal(cursor_of(f)->number, 3);
    assert_int_equal(cursor_of(f)->delivered, 1);
}

/* A listener keeps the feed for a while, and neither switches it on nor off. */
static void listeners_only_prolong(void **state)
{
    struct machine_fixture *f = *state;

    feed_on(f, false, f->now_ns + 10 * SIM_S);
    (void)machine_fixture_put_inline(f, "a", "x");
    assert_int_equal(rows(f), 1);
    f->now_ns += 20 * SIM_S;
    (void)machine_fixture_put_inline(f, "a", "x");
    assert_int_equal(rows(f), 1);
    feed_on(f, true, 0);
    feed_on(f, false, f->now_ns + SIM_S);
    f->now_ns += 20 * SIM_S;
    (void)machine_fixture_put_inline(f, "a", "x");
    assert_int_equal(rows(f), 2);
}

/* Entries that are applied again after a power cut give the same rows. */
static void replay_gives_the_same(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *machine = machine_state(f->machine);
    struct slice entries[6];
    Kist__TrimChanges call = KIST__TRIM_CHANGES__INIT;
    uint64_t index;
    uint32_t digest;
    struct error error = {.rc = RC_OK};

    feed_on(f, true, 0);
    assert_int_equal(machine->flush(machine, &index, &error), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
        Kist__PutObject put = KIST__PUT_OBJECT__INIT;

        put.bucket_id = f->bucket_id;
        put.generation = f->generation;
        put.key = field_of("k");
        put.record = machine_fixture_record(f, 0);
        call.bytes_max = 200;
        entries[i] = i == 3 ? machine_fixture_entry(f, META_TRIM_CHANGES, &call.base, SLICE_EMPTY)
                            : machine_fixture_entry(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
        assert_non_null(machine_fixture_apply_raw(f, entries[i]));
    }
    digest = machine_fixture_digest(f->machine);
    (void)machine_fixture_crash(f);
    for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
        assert_non_null(machine_fixture_apply_raw(f, entries[i]));
    }
    assert_int_equal(machine_fixture_digest(f->machine), digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_without_a_wish, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_are_noted, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(trimmed_by_bytes_and_by_age, setup, teardown),
        cmocka_unit_test_setup_teardown(a_trim_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(targets_are_those_of_the_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(cursors_never_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(listeners_only_prolong, setup, teardown),
        cmocka_unit_test_setup_teardown(replay_gives_the_same, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
