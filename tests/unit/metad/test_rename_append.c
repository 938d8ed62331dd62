/* RENAME_OBJECT and APPEND_OBJECT (metad/apply/apply_rename.c, apply_append.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_machine.h"

enum { ENABLED = 1, SUSPENDED = 2 };

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

static Kist__RenameObject rename_call(struct machine_fixture *f, const char *from, const char *to)
{
    Kist__RenameObject call = KIST__RENAME_OBJECT__INIT;

    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.source_key = field_of(from);
    call.key = field_of(to);
    call.copy_id = machine_fixture_id(f);
    return call;
}

static const Kist__Reply *rename_object(struct machine_fixture *f, const char *from, const char *to)
{
    Kist__RenameObject call = rename_call(f, from, to);

    return machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY);
}

/* ---- Rename ---- */

/* One entry: the object is at exactly one of the two names, its data is not touched, and goes with
 * the last name, however often it moved. */
static void a_rename_moves_the_record(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rename_object(f, "a", "b")->outcome, KIST__OUTCOME__OUTCOME_OK);
        assert_null(machine_fixture_current(f, "a"));
        assert_int_equal(machine_fixture_current(f, "b")->size, 1000);
        assert_int_equal(rename_object(f, "b", "a")->outcome, KIST__OUTCOME__OUTCOME_OK);
    }
    assert_int_equal(machine_fixture_usage(f)->objects, 1);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME_REFERENCE), 1);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
}

/* Inline bytes lie under their key: they move along. */
static void a_rename_moves_an_inline_body(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put_inline(f, "a", "hello");
    assert_int_equal(rename_object(f, "a", "b")->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_true(slice_eq(machine_fixture_inline(f, "b"), SLICE("hello")));
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 1);
}

/* What stood at the destination is replaced as by a put. */
static void a_rename_replaces_the_destination(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "b", 2000);
    assert_int_equal(rename_object(f, "a", "b")->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_current(f, "b")->size, 1000);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    assert_int_equal(machine_fixture_usage(f)->objects, 1);
}

/* Versioned: nothing is lost at either end. */
static void a_versioned_rename_leaves_a_marker(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Reply *reply;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "b", 2000);
    reply = rename_object(f, "a", "b");
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(reply->n_deleted, 1);
    assert_true(reply->deleted[0]->delete_marker);
    assert_null(machine_fixture_current(f, "a"));
    assert_int_equal(machine_fixture_current(f, "b")->size, 1000);
    assert_int_equal(machine_fixture_count(f, FAMILY_HISTORY, KIND_HISTORY), 3);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 0);
}

/* Conditions on both ends, judged in the one entry that moves: no race is left. */
static void a_rename_asks_both_ends(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Conditions conditions = KIST__CONDITIONS__INIT;
    Kist__RenameObject call = rename_call(f, "a", "b");

    assert_int_equal(rename_object(f, "a", "b")->outcome, KIST__OUTCOME__NO_SUCH_KEY);
    assert_int_equal(rename_object(f, "a", "a")->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "b", 2000);
    conditions.if_none_match = field_of("*");
    call.conditions = &conditions;
    assert_int_equal(machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__PRECONDITION_FAILED);
    call.conditions = NULL;
    call.source_conditions = &conditions;
    assert_int_equal(machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__PRECONDITION_FAILED);
    assert_int_equal(machine_fixture_current(f, "b")->size, 2000);
    assert_int_equal(machine_fixture_current(f, "a")->size, 1000);
}

/* A client that lost the answer asks again: it gets the same one, although the source is gone; the
 * token of one request is none for another. */
static void a_token_makes_a_rename_repeatable(void **state)
{
    struct machine_fixture *f = *state;
    Kist__RenameObject call = rename_call(f, "a", "b");
    uint64_t stamp;

    call.token = field_of("sixteen-bytes-to");
    call.digest = field_of("sixteen-bytes-di");
    assert_int_equal(machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__NO_SUCH_KEY); /* a refusal is not kept */
    (void)machine_fixture_put(f, "a", 1000);
    stamp = machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->record->stamp;
    (void)machine_fixture_put(f, "a", 2000);
    assert_int_equal(
        machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->record->stamp,
        stamp);
    assert_int_equal(machine_fixture_current(f, "a")->size, 2000);
    assert_int_equal(machine_fixture_current(f, "b")->size, 1000);
    call.digest = field_of("another sixteen.");
    assert_int_equal(machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__TOKEN_MISMATCH);
    call.token = field_of("short");
    assert_int_equal(machine_fixture_apply(f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* ---- Append ---- */

static Kist__AppendObject append_call(struct machine_fixture *f, const char *key, uint64_t size)
{
    Kist__AppendObject call = KIST__APPEND_OBJECT__INIT;
    const Kist__Record *old = machine_fixture_current(f, key);

    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of(key);
    call.offset = old != NULL ? old->size : 0;
    call.stamp = old != NULL ? old->stamp : 0;
    call.record = machine_fixture_record(f, size);
    call.copy_id = machine_fixture_id(f);
    return call;
}

static const Kist__Reply *append_inline(struct machine_fixture *f, const char *key,
                                        const char *body)
{
    const Kist__Record *old = machine_fixture_current(f, key);
    Kist__AppendObject call = append_call(f, key, (old != NULL ? old->size : 0) + strlen(body));

    return machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, slice_str(body));
}

/* `length` bytes in one extent; the object is `size` then. */
static const Kist__Reply *append_piece(struct machine_fixture *f, const char *key, uint64_t length,
                                       uint64_t size)
{
    Kist__AppendObject call = append_call(f, key, size);
    Kist__Piece *piece = machine_fixture_piece(f, length);

    call.record->layout_id = machine_fixture_id(f);
    call.record->pieces = &piece;
    call.record->n_pieces = 1;
    return machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE_EMPTY);
}

/* Short lines to a log: they stay one inline body until they no longer fit. */
static void inline_bodies_grow(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(append_inline(f, "log", "one ")->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(append_inline(f, "log", "two")->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_true(slice_eq(machine_fixture_inline(f, "log"), SLICE("one two")));
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 1);
    /* The gateway writes the old bytes again: metad has no extents of its own. */
    assert_int_equal(append_piece(f, "log", 20007, 20007)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 0);
    assert_int_equal(machine_fixture_current(f, "log")->size, 20007);
    assert_int_equal(machine_fixture_usage(f)->bytes, 20007);
}

/* A layout nobody else names goes on, in its place: a thousand appends rewrite no list of a
 * thousand pieces. */
static void a_layout_grows_in_place(void **state)
{
    struct machine_fixture *f = *state;
    struct slice layout_id;

    (void)machine_fixture_put(f, "log", 1000);
    layout_id = message_bytes(machine_fixture_current(f, "log")->layout_id);
    for (uint64_t i = 2; i <= 200; i++) {
        assert_int_equal(append_piece(f, "log", 1000, i * 1000)->outcome,
                         KIST__OUTCOME__OUTCOME_OK);
    }
    assert_true(slice_eq(message_bytes(machine_fixture_current(f, "log")->layout_id), layout_id));
    assert_int_equal(machine_fixture_current(f, "log")->piece_count, 200);
    assert_int_equal(machine_fixture_current(f, "log")->n_pieces, LIMIT_RECORD_PIECES);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 4);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    (void)machine_fixture_delete(f, "log");
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 200);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 0);
}

/* A copy must keep its size and bytes while the original grows. */
static void an_append_leaves_copies_alone(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_copy(f, "a", "b");
    assert_int_equal(append_piece(f, "a", 500, 1500)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(append_piece(f, "b", 700, 1700)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_current(f, "a")->piece_count, 2);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 0);
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 1);
    (void)machine_fixture_delete(f, "b");
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 2);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
}

/* Versioned: each append is a version of its own, and older ones keep their bytes. */
static void a_versioned_append_keeps_the_old_version(void **state)
{
    struct machine_fixture *f = *state;

    machine_fixture_versioning(f, ENABLED);
    (void)machine_fixture_put(f, "a", 1000);
    for (uint64_t i = 2; i <= 10; i++) {
        assert_int_equal(append_piece(f, "a", 1000, i * 1000)->outcome, KIST__OUTCOME__OUTCOME_OK);
    }
    assert_int_equal(machine_fixture_count(f, FAMILY_HISTORY, KIND_HISTORY), 9);
    assert_int_equal(machine_fixture_current(f, "a")->piece_count, 10);
    assert_int_equal(machine_fixture_drain(f, NULL, NULL), 0);
}

/* Two writers at one offset: the second must be told, and where the end is now. */
static void the_offset_is_the_size(void **state)
{
    struct machine_fixture *f = *state;
    Kist__AppendObject call;
    const Kist__Reply *reply;

    call = append_call(f, "log", 9);
    call.offset = 4;
    reply = machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."));
    assert_int_equal(reply->outcome, KIST__OUTCOME__INVALID_OFFSET);
    (void)machine_fixture_put_inline(f, "log", "head");
    call = append_call(f, "log", 9);
    assert_int_equal(
        machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."))->outcome,
        KIST__OUTCOME__OUTCOME_OK);
    reply = machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."));
    assert_int_equal(reply->outcome, KIST__OUTCOME__INVALID_OFFSET);
    assert_int_equal(reply->record->size, 9);
    assert_true(slice_eq(machine_fixture_inline(f, "log"), SLICE("headtail.")));
}

/* Sums were computed from another object of the same size: they would be wrong. */
static void an_append_names_what_it_went_by(void **state)
{
    struct machine_fixture *f = *state;
    Kist__AppendObject call;

    (void)machine_fixture_put_inline(f, "log", "head");
    call = append_call(f, "log", 9);
    (void)machine_fixture_put_inline(f, "log", "HEAD");
    assert_int_equal(
        machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."))->outcome,
        KIST__OUTCOME__PRECONDITION_FAILED);
    assert_true(slice_eq(machine_fixture_inline(f, "log"), SLICE("HEAD")));
}

/* Headers, tags and metadata are the object's; an append brings bytes alone. */
static void an_append_keeps_the_metadata(void **state)
{
    struct machine_fixture *f = *state;
    Kist__AppendObject call = append_call(f, "log", 4);

    call.record->content_type = field_of("text/plain");
    (void)machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("head"));
    call = append_call(f, "log", 9);
    call.record->content_type = field_of("image/png");
    (void)machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."));
    assert_true(slice_eq(message_bytes(machine_fixture_current(f, "log")->content_type),
                         SLICE("text/plain")));
}

/* What does not fit together is refused before it can be stored. */
static void malformed_appends_are_refused(void **state)
{
    struct machine_fixture *f = *state;
    Kist__AppendObject call = append_call(f, "log", 9);

    assert_int_equal(
        machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("short"))->outcome,
        KIST__OUTCOME__INVALID_ARGUMENT);
    (void)machine_fixture_put(f, "log", 1000);
    call = append_call(f, "log", 1005);
    assert_int_equal(
        machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE("tail."))->outcome,
        KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(append_piece(f, "log", 500, 1400)->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(append_piece(f, "log", 500, 1000)->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
    call = append_call(f, "log", LIMIT_OBJECT_BYTES + 1);
    assert_int_equal(machine_fixture_apply(f, META_APPEND_OBJECT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__ENTITY_TOO_LARGE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_rename_moves_the_record),
        CASE(a_rename_moves_an_inline_body),
        CASE(a_rename_replaces_the_destination),
        CASE(a_versioned_rename_leaves_a_marker),
        CASE(a_rename_asks_both_ends),
        CASE(a_token_makes_a_rename_repeatable),
        CASE(inline_bodies_grow),
        CASE(a_layout_grows_in_place),
        CASE(an_append_leaves_copies_alone),
        CASE(a_versioned_append_keeps_the_old_version),
        CASE(the_offset_is_the_size),
        CASE(an_append_names_what_it_went_by),
        CASE(an_append_keeps_the_metadata),
        CASE(malformed_appends_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
