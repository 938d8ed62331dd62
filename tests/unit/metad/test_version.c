/* Versions of a key: what a put, a delete and a removal make of them (metad/apply/version.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/client/version_id.h"
#include "tests/lib/fixture_machine.h"

enum { OFF = 0, ENABLED = 1, SUSPENDED = 2 };

static struct machine_fixture fixture;

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

static struct slice name_of(struct machine_fixture *f, uint64_t stamp, uint32_t tie)
{
    uint8_t *packed = arena_alloc(&f->arena, VERSION_ID_BYTES);

    version_id_pack(packed, stamp, tie);
    return slice_of(packed, VERSION_ID_BYTES);
}

static struct slice current_name(struct machine_fixture *f, const char *key)
{
    const Kist__Record *record = machine_fixture_current(f, key);

    assert_non_null(record);
    return name_of(f, record->stamp, record->tie);
}

static size_t history_count(struct machine_fixture *f)
{
    return machine_fixture_count(f, FAMILY_HISTORY, KIND_HISTORY);
}

/* The newest row of history in the bucket's first key. */
static const Kist__Record *history_first(struct machine_fixture *f)
{
    return machine_fixture_first(f, FAMILY_HISTORY, KIND_HISTORY, &kist__record__descriptor, NULL);
}

/* A bucket that was never versioned must not keep what is overwritten. */
static void without_versioning_nothing_is_kept(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "a", 2000);
    assert_true(machine_fixture_current(f, "a")->null_version);
    assert_int_equal(history_count(f), 0);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    (void)machine_fixture_delete(f, "a");
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(history_count(f), 0);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
}

/* Overwriting must lose nothing, and the usage must count what is kept. */
static void an_overwritten_version_goes_to_history(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *old;
    uint64_t stamp;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    stamp = machine_fixture_current(f, "a")->stamp;
    assert_false(machine_fixture_current(f, "a")->null_version);
    (void)machine_fixture_put(f, "a", 2000);
    old = history_first(f);
    assert_int_equal(old->stamp, stamp);
    assert_int_equal(old->noncurrent_since, machine_fixture_current(f, "a")->stamp);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    assert_int_equal(machine_fixture_usage(f)->objects, 2);
    assert_int_equal(machine_fixture_usage(f)->bytes, 3000);
}

/* What was there before versioning is the null version, and stays reachable as such. */
static void enabling_keeps_the_null_version(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__VersionName *name;
    const Kist__Deleted *deleted;

    (void)machine_fixture_put(f, "a", 1000);
    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 2000);
    assert_true(history_first(f)->null_version);
    name = machine_fixture_first(f, FAMILY_ROWS, KIND_NULL_VERSION, &kist__version_name__descriptor,
                                 NULL);
    assert_int_equal(name->stamp, history_first(f)->stamp);
    deleted = machine_fixture_delete_version(f, "a", SLICE("null"), false);
    assert_true(deleted->null_version);
    assert_int_equal(history_count(f), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_NULL_VERSION), 0);
    assert_int_equal(machine_fixture_current(f, "a")->size, 2000);
}

/* A plain delete of a versioned bucket hides, it never removes; each one adds a marker (AWS), also
 * where nothing was. */
static void each_plain_delete_makes_a_marker(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Deleted *deleted;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    deleted = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    assert_true(deleted->delete_marker);
    assert_false(deleted->null_version);
    assert_int_equal(history_first(f)->stamp, deleted->stamp);
    assert_null(machine_fixture_current(f, "a"));
    (void)machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    assert_int_equal(history_count(f), 3);
    (void)machine_fixture_delete_version(f, "never there", SLICE_EMPTY, false);
    assert_int_equal(history_count(f), 4);
    assert_int_equal(machine_fixture_usage(f)->objects, 1);
}

/* Removing the marker undeletes (AWS: "Removing delete markers"). */
static void removing_the_marker_promotes_the_object(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Deleted *marker;
    const Kist__Deleted *deleted;
    struct slice name;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    name = current_name(f, "a");
    marker = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    deleted = machine_fixture_delete_version(f, "a", name_of(f, marker->stamp, marker->tie), false);
    assert_true(deleted->delete_marker);
    assert_int_equal(deleted->stamp, marker->stamp);
    assert_true(slice_eq(current_name(f, "a"), name));
    assert_int_equal(machine_fixture_current(f, "a")->noncurrent_since, 0);
    assert_int_equal(history_count(f), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_OWNER), 0);
}

/* The newest version removed by id: the one before it is what a GET finds. */
static void removing_the_newest_promotes_the_next(void **state)
{
    struct machine_fixture *f = *state;
    struct slice second;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "a", 2000);
    second = current_name(f, "a");
    (void)machine_fixture_put(f, "a", 3000);
    (void)machine_fixture_delete_version(f, "a", current_name(f, "a"), false);
    assert_true(slice_eq(current_name(f, "a"), second));
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    (void)machine_fixture_delete_version(f, "a", name_of(f, history_first(f)->stamp, 0), false);
    assert_int_equal(machine_fixture_current(f, "a")->size, 2000);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
}

/* A key whose newest version is a marker must not show the object below it when a third version in
 * between goes. */
static void removing_an_older_version_promotes_nothing(void **state)
{
    struct machine_fixture *f = *state;
    struct slice second;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "a", 2000);
    second = current_name(f, "a");
    (void)machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    (void)machine_fixture_delete_version(f, "a", second, false);
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(history_count(f), 2);
    assert_true(history_first(f)->delete_marker);
}

/* Suspended: the null version is replaced, versions with an id are not touched (AWS). */
static void suspended_puts_replace_the_null_version_alone(void **state)
{
    struct machine_fixture *f = *state;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    machine_fixture_versioning(f, SUSPENDED);
    (void)machine_fixture_put(f, "a", 2000);
    assert_true(machine_fixture_current(f, "a")->null_version);
    assert_int_equal(history_count(f), 1);
    (void)machine_fixture_put(f, "a", 3000);
    assert_int_equal(history_count(f), 1);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    assert_false(history_first(f)->null_version);
    assert_int_equal(machine_fixture_usage(f)->bytes, 4000);
}

/* Also where it lies deep in history: a second null version would be unreachable for ever. */
static void the_null_version_is_replaced_wherever_it_lies(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 2000);
    (void)machine_fixture_put(f, "a", 3000);
    machine_fixture_versioning(f, SUSPENDED);
    (void)machine_fixture_put(f, "a", 4000);
    assert_int_equal(history_count(f), 2);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_NULL_VERSION), 0);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
}

/* Suspended: a delete removes the null version and leaves a null marker, of which there is one. */
static void a_suspended_delete_leaves_one_null_marker(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Deleted *deleted;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    machine_fixture_versioning(f, SUSPENDED);
    (void)machine_fixture_put(f, "a", 2000);
    for (int i = 0; i < 3; i++) {
        deleted = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
        assert_true(deleted->delete_marker);
        assert_true(deleted->null_version);
        assert_int_equal(history_count(f), 2);
    }
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    deleted = machine_fixture_delete_version(f, "a", SLICE("null"), false);
    assert_true(deleted->delete_marker);
    assert_int_equal(machine_fixture_current(f, "a")->size, 1000);
}

/* Two markers of one command need two names. */
static void a_key_named_twice_gets_two_markers(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item item = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items[] = {&item, &item};
    const Kist__Reply *reply;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    item.key = field_of("a");
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = items;
    call.n_items = 2;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->deleted[0]->tie, 0);
    assert_int_equal(reply->deleted[1]->tie, 1);
    assert_int_equal(history_count(f), 3);
    assert_int_equal(history_first(f)->tie, 1);
}

/* A thousand versions removed by one command, newest first as they are listed: what tools do to
 * empty a bucket. */
static void a_thousand_versions_go_in_one_command(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item items[LIMIT_DELETE_KEYS];
    Kist__DeleteObjects__Item *list[LIMIT_DELETE_KEYS];
    const Kist__Reply *reply;

    machine_fixture_versioning(f, ENABLED);
    for (size_t i = 0; i < LIMIT_DELETE_KEYS; i++) {
        uint64_t stamp;

        if (i % 3 == 1) {
            stamp = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false)->stamp;
        } else {
            (void)machine_fixture_put(f, "a", 1000);
            stamp = machine_fixture_current(f, "a")->stamp;
        }
        kist__delete_objects__item__init(&items[i]);
        items[i].key = field_of("a");
        items[i].version = message_field(name_of(f, stamp, 0));
        list[LIMIT_DELETE_KEYS - 1 - i] = &items[i];
    }
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = list;
    call.n_items = LIMIT_DELETE_KEYS;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    for (size_t i = 0; i < LIMIT_DELETE_KEYS; i++) {
        assert_int_equal(reply->deleted[i]->outcome, KIST__OUTCOME__OUTCOME_OK);
        assert_int_not_equal(reply->deleted[i]->stamp, 0);
    }
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(history_count(f), 0);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 667);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
}

/* A repeated removal is a success that removed nothing. */
static void an_absent_version_is_no_error(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Deleted *deleted;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    deleted = machine_fixture_delete_version(f, "a", name_of(f, 1, 0), false);
    assert_int_equal(deleted->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(deleted->stamp, 0);
    deleted = machine_fixture_delete_version(f, "a", SLICE("null"), false);
    assert_int_equal(deleted->stamp, 0);
    assert_non_null(machine_fixture_current(f, "a"));
}

/* Conditions of a delete by version are about that version, not about the current one. */
static void conditions_of_a_named_version(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item item = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items[] = {&item};
    Kist__Conditions conditions = KIST__CONDITIONS__INIT;
    const Kist__Reply *reply;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    item.version = message_field(current_name(f, "a"));
    (void)machine_fixture_put(f, "a", 2000);
    item.key = field_of("a");
    item.conditions = &conditions;
    conditions.has_if_match_size = true;
    conditions.if_match_size = 2000;
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = items;
    call.n_items = 1;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->deleted[0]->outcome, KIST__OUTCOME__PRECONDITION_FAILED);
    conditions.if_match_size = 1000;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->deleted[0]->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(history_count(f), 0);
}

static Kist__Outcome put_if_version(struct machine_fixture *f, const char *key,
                                    struct slice version)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Conditions conditions = KIST__CONDITIONS__INIT;

    conditions.if_match_version = message_field(version);
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of(key);
    put.record = machine_fixture_record(f, 0);
    put.conditions = &conditions;
    return machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome;
}

/* Compare-and-set by version: the second of two writers is told. */
static void a_put_may_ask_for_the_version_it_replaces(void **state)
{
    struct machine_fixture *f = *state;
    struct slice first;

    assert_int_equal(put_if_version(f, "a", SLICE("null")), KIST__OUTCOME__NO_SUCH_KEY);
    (void)machine_fixture_put(f, "a", 1000);
    assert_int_equal(put_if_version(f, "a", SLICE("null")), KIST__OUTCOME__OUTCOME_OK);
    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    first = current_name(f, "a");
    assert_int_equal(put_if_version(f, "a", SLICE("null")), KIST__OUTCOME__PRECONDITION_FAILED);
    assert_int_equal(put_if_version(f, "a", first), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_if_version(f, "a", first), KIST__OUTCOME__PRECONDITION_FAILED);
}

/* A bucket with nothing but markers or old versions is not empty (AWS). */
static void a_bucket_with_history_is_not_empty(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteBucket call = KIST__DELETE_BUCKET__INIT;
    const Kist__Deleted *marker;

    machine_fixture_versioning(f, ENABLED);
    marker = machine_fixture_delete_version(f, "a", SLICE_EMPTY, false);
    call.name = field_of("box");
    call.bucket_id = f->bucket_id;
    assert_int_equal(machine_fixture_apply(f, META_DELETE_BUCKET, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__BUCKET_NOT_EMPTY);
    (void)machine_fixture_delete_version(f, "a", name_of(f, marker->stamp, marker->tie), false);
    assert_int_equal(machine_fixture_apply(f, META_DELETE_BUCKET, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
}

/* An old version copied onto its own key is how AWS says to restore it: both share the data. */
static void an_old_version_is_restored_by_a_copy(void **state)
{
    struct machine_fixture *f = *state;
    Kist__CopyObject copy = KIST__COPY_OBJECT__INIT;
    const Kist__Reply *reply;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    copy.source_version = message_field(current_name(f, "a"));
    (void)machine_fixture_put(f, "a", 2000);
    copy.source_bucket_id = copy.bucket_id = f->bucket_id;
    copy.source_generation = copy.generation = f->generation;
    copy.source_key = copy.key = field_of("a");
    copy.copy_id = machine_fixture_id(f);
    copy.record = machine_fixture_record(f, 0);
    reply = machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(reply->record->size, 1000);
    assert_int_equal(history_count(f), 2);
    (void)machine_fixture_delete_version(f, "a", message_bytes(copy.source_version), false);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 0);
    (void)machine_fixture_delete_version(f, "a", current_name(f, "a"), false);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
}

/* CONDEMN looks again: a layout of an old version is as alive as one of the newest. */
static void condemn_finds_the_owner_in_history(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Condemn call = KIST__CONDEMN__INIT;
    const Kist__Record *old;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "a", 2000);
    old = history_first(f);
    call.bucket_id = f->bucket_id;
    call.key = field_of("a");
    call.layout_id = old->layout_id;
    call.pieces = old->pieces;
    call.n_pieces = old->n_pieces;
    assert_int_equal(machine_fixture_apply(f, META_CONDEMN, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__STILL_REFERENCED);
}

/* Repair must find the extents of old versions, or they lose their redundancy for ever. */
static void shards_of_an_old_version_are_marked(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__SetDurable call = KIST__SET_DURABLE__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, 1000);

    machine_fixture_versioning(f, ENABLED);
    piece->extent->durable = 0x1f;
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 1000);
    put.record->layout_id = machine_fixture_id(f);
    put.record->pieces = &piece;
    put.record->n_pieces = 1;
    (void)machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
    (void)machine_fixture_put(f, "a", 2000);
    call.bucket_id = f->bucket_id;
    call.key = field_of("a");
    call.layout_id = put.record->layout_id;
    call.extent_id = piece->extent->id;
    call.durable = 0x20;
    (void)machine_fixture_apply(f, META_SET_DURABLE, &call.base, SLICE_EMPTY);
    assert_int_equal(history_first(f)->pieces[0]->extent->durable, 0x3f);
}

/* History is flushed with everything else: a restart goes on from one state. */
static void history_survives_a_power_cut(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *machine = machine_state(f->machine);
    uint32_t digest;
    uint64_t index;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "a", 2000);
    assert_int_equal(machine->flush(machine, &index, &f->error), RC_OK);
    digest = machine_fixture_digest(f->machine);
    (void)machine_fixture_put(f, "a", 3000);
    assert_int_equal(machine_fixture_crash(f), index);
    assert_int_equal(machine_fixture_digest(f->machine), digest);
    assert_int_equal(history_count(f), 1);
    /* The settings are read anew: still versioned. */
    (void)machine_fixture_put(f, "a", 4000);
    assert_int_equal(history_count(f), 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_versioning_nothing_is_kept),
        CASE(an_overwritten_version_goes_to_history),
        CASE(enabling_keeps_the_null_version),
        CASE(each_plain_delete_makes_a_marker),
        CASE(removing_the_marker_promotes_the_object),
        CASE(removing_the_newest_promotes_the_next),
        CASE(removing_an_older_version_promotes_nothing),
        CASE(suspended_puts_replace_the_null_version_alone),
        CASE(the_null_version_is_replaced_wherever_it_lies),
        CASE(a_suspended_delete_leaves_one_null_marker),
        CASE(a_key_named_twice_gets_two_markers),
        CASE(a_thousand_versions_go_in_one_command),
        CASE(an_absent_version_is_no_error),
        CASE(conditions_of_a_named_version),
        CASE(a_put_may_ask_for_the_version_it_replaces),
        CASE(a_bucket_with_history_is_not_empty),
        CASE(an_old_version_is_restored_by_a_copy),
        CASE(condemn_finds_the_owner_in_history),
        CASE(shards_of_an_old_version_are_marked),
        CASE(history_survives_a_power_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
