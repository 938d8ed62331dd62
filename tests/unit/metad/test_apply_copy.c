/* COPY_OBJECT, references and reclaim: who keeps data alive (metad/apply/liveness.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_machine.h"

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

static Kist__Reply *condemn_first(struct machine_fixture *f, struct slice *queue_key,
                                  const Kist__Reclaim **queued)
{
    Kist__Condemn call = KIST__CONDEMN__INIT;

    *queued =
        machine_fixture_first(f, FAMILY_ROWS, KIND_RECLAIM, &kist__reclaim__descriptor, queue_key);
    assert_non_null(*queued);
    call.bucket_id = (*queued)->bucket_id;
    call.key = (*queued)->key;
    call.layout_id = (*queued)->layout_id;
    call.pieces = (*queued)->pieces;
    call.n_pieces = (*queued)->n_pieces;
    return machine_fixture_apply(f, META_CONDEMN, &call.base, SLICE_EMPTY);
}

/* Condemns and reclaims what the queue holds; returns the extents whose shards would be deleted. */
static size_t drain_queue(struct machine_fixture *f)
{
    size_t extents = 0;

    while (machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM) > 0) {
        Kist__Reclaimed call = KIST__RECLAIMED__INIT;
        const Kist__Reclaim *queued;
        struct slice queue_key;
        const Kist__Reply *reply = condemn_first(f, &queue_key, &queued);

        if (reply->outcome == KIST__OUTCOME__OUTCOME_OK) {
            extents += reply->n_pieces;
        }
        call.bucket_id = queued->bucket_id;
        call.key = queued->key;
        call.layout_id = queued->layout_id;
        call.queue_key = message_field(queue_key);
        (void)machine_fixture_apply(f, META_RECLAIMED, &call.base, SLICE_EMPTY);
    }
    return extents;
}

/* A copy is one reference, whatever the size; data dies with the last name, in whatever order names
 * go. */
static void data_lives_as_long_as_a_name(void **state)
{
    static const char *const orders[][3] = {
        {"a", "b", "c"},
        {"a", "c", "b"},
        {"b", "a", "c"},
        {"b", "c", "a"},
        {"c", "a", "b"},
        {"c", "b", "a"},
    };
    struct machine_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        assert_int_equal(machine_fixture_put(f, "a", 1000000), KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(machine_fixture_copy(f, "a", "b"), KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(machine_fixture_copy(f, "b", "c"), KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME_REFERENCE), 3);
        for (size_t n = 0; n < 3; n++) {
            assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
            assert_int_equal(machine_fixture_delete(f, orders[i][n]), KIST__OUTCOME__OUTCOME_OK);
        }
        assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 1);
        assert_int_equal(drain_queue(f), 1);
        assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
        assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME_REFERENCE), 0);
    }
}

/* A chain of copies refers to the home, never to another copy. */
static void copies_of_copies_name_the_home(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *record;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_copy(f, "a", "b");
    (void)machine_fixture_copy(f, "b", "c");
    record = machine_fixture_current(f, "c");
    assert_non_null(record->shared);
    assert_true(slice_eq(message_bytes(record->shared->home_key), SLICE("a")));
    assert_int_equal(record->size, 1000);
    assert_int_equal(record->n_pieces, 1);
}

/* Copying back over the original must not free what the copy still stands on. */
static void copy_back_over_the_original(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_copy(f, "a", "b");
    assert_int_equal(machine_fixture_copy(f, "b", "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    (void)machine_fixture_delete(f, "b");
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(drain_queue(f), 1);
}

/* The usual way to change metadata: the layout stays where it is. */
static void copy_onto_itself_keeps_the_layout(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *before;
    const Kist__Record *after;

    (void)machine_fixture_put(f, "a", 1000);
    before = machine_fixture_current(f, "a");
    assert_int_equal(machine_fixture_copy(f, "a", "a"), KIST__OUTCOME__OUTCOME_OK);
    after = machine_fixture_current(f, "a");
    assert_true(after->stamp > before->stamp);
    assert_null(after->shared);
    assert_true(slice_eq(message_bytes(after->layout_id), message_bytes(before->layout_id)));
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
    assert_int_equal(machine_fixture_usage(f)->objects, 1);
    (void)machine_fixture_put_inline(f, "i", "bytes");
    assert_int_equal(machine_fixture_copy(f, "i", "i"), KIST__OUTCOME__OUTCOME_OK);
    assert_true(slice_eq(machine_fixture_inline(f, "i"), SLICE("bytes")));
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 1);
}

/* Small bodies are written again: a copy of them refers to nothing. */
static void inline_copies_stand_alone(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put_inline(f, "a", "bytes");
    assert_int_equal(machine_fixture_copy(f, "a", "b"), KIST__OUTCOME__OUTCOME_OK);
    (void)machine_fixture_delete(f, "a");
    assert_true(slice_eq(machine_fixture_inline(f, "b"), SLICE("bytes")));
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
}

/* Many deletes of copies in one batch count down one home row. */
static void a_batch_of_copies_is_counted_right(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item *items[51];

    (void)machine_fixture_put(f, "a", 1000);
    for (size_t i = 0; i < 51; i++) {
        char *key = arena_alloc(&f->arena, 8);

        (void)snprintf(key, 8, "c%zu", i);
        if (i > 0) {
            (void)machine_fixture_copy(f, "a", key);
        }
        items[i] = arena_alloc(&f->arena, sizeof(*items[i]));
        kist__delete_objects__item__init(items[i]);
        items[i]->key = field_of(i == 0 ? "a" : key);
    }
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = items;
    call.n_items = 51;
    assert_int_equal(
        machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME_REFERENCE), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 1);
    assert_int_equal(drain_queue(f), 1);
}

/* Queue rows are hints: what is named must survive a row that should not be there. */
static void condemn_refuses_what_is_named(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Condemn call = KIST__CONDEMN__INIT;
    const Kist__Record *record;

    (void)machine_fixture_put(f, "a", 1000);
    record = machine_fixture_current(f, "a");
    call.bucket_id = f->bucket_id;
    call.key = field_of("a");
    call.layout_id = record->layout_id;
    assert_int_equal(machine_fixture_apply(f, META_CONDEMN, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__STILL_REFERENCED);
    (void)machine_fixture_copy(f, "a", "b");
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(machine_fixture_apply(f, META_CONDEMN, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__STILL_REFERENCED);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 1);
}

/* Once condemned a layout cannot be named again, and condemning it again gives the same extents. */
static void condemned_is_final(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *record;
    const Kist__Reclaim *queued;
    struct slice queue_key;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;

    (void)machine_fixture_put(f, "a", 1000);
    record = machine_fixture_current(f, "a");
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(condemn_first(f, &queue_key, &queued)->n_pieces, 1);
    assert_int_equal(condemn_first(f, &queue_key, &queued)->n_pieces, 1);
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 1000);
    put.record->layout_id = record->layout_id;
    put.record->pieces = record->pieces;
    put.record->n_pieces = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__CONDEMNED);
    assert_int_equal(drain_queue(f), 1);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
}

/* Layout rows of a long list outlive the record and go with Reclaimed. */
static void long_layouts_are_reclaimed(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *pieces[70];

    for (size_t i = 0; i < 70; i++) {
        pieces[i] = machine_fixture_piece(f, 1000);
    }
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 70000);
    put.record->layout_id = machine_fixture_id(f);
    put.pieces = pieces;
    put.n_pieces = 70;
    (void)machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
    (void)machine_fixture_copy(f, "a", "b");
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 2);
    (void)machine_fixture_delete(f, "b");
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 2);
    (void)drain_queue(f);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
}

/* ---- Refusals ---- */

static void copy_checks_its_source(void **state)
{
    struct machine_fixture *f = *state;
    Kist__CopyObject copy = KIST__COPY_OBJECT__INIT;
    Kist__Conditions conditions = KIST__CONDITIONS__INIT;

    assert_int_equal(machine_fixture_copy(f, "none", "b"), KIST__OUTCOME__NO_SUCH_KEY);
    (void)machine_fixture_put(f, "a", 1000);
    copy.source_bucket_id = copy.bucket_id = f->bucket_id;
    copy.source_generation = copy.generation = f->generation;
    copy.source_key = field_of("a");
    copy.key = field_of("b");
    copy.copy_id = machine_fixture_id(f);
    copy.record = machine_fixture_record(f, 0);
    copy.size_max = 999;
    assert_int_equal(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__SOURCE_TOO_LARGE);
    copy.size_max = 1000;
    copy.source_stamp = 1;
    assert_int_equal(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__PRECONDITION_FAILED);
    copy.source_stamp = 0;
    copy.source_conditions = &conditions;
    conditions.if_none_match = field_of("*");
    assert_int_equal(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__NOT_MODIFIED);
    conditions.if_none_match = field_of("");
    conditions.if_unmodified_since = 1000;
    assert_int_equal(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__PRECONDITION_FAILED);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME), 0);
    conditions.if_unmodified_since = 0;
    assert_int_equal(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
}

/* REPLACE takes the metadata of the request, COPY that of the source. */
static void metadata_directive(void **state)
{
    struct machine_fixture *f = *state;
    Kist__CopyObject copy = KIST__COPY_OBJECT__INIT;
    const Kist__Record *record;

    (void)machine_fixture_put_inline(f, "a", "x");
    copy.source_bucket_id = copy.bucket_id = f->bucket_id;
    copy.source_generation = copy.generation = f->generation;
    copy.source_key = field_of("a");
    copy.key = field_of("b");
    copy.copy_id = machine_fixture_id(f);
    copy.record = machine_fixture_record(f, 0);
    copy.record->content_type = field_of("text/css");
    (void)machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY);
    record = machine_fixture_current(f, "b");
    assert_int_equal(record->content_type.len, 0);
    copy.replace = true;
    (void)machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY);
    record = machine_fixture_current(f, "b");
    assert_true(slice_eq(message_bytes(record->content_type), SLICE("text/css")));
}

/* ---- Repair ---- */

/* Shards written again are recorded at the layout's owner, and the queue row goes when none is
 * missing. */
static void set_durable_ends_a_repair(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, 1000);
    Kist__SetDurable call = KIST__SET_DURABLE__INIT;
    struct slice queue_key;

    piece->extent->durable = 0x1f;
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 1000);
    put.record->layout_id = machine_fixture_id(f);
    put.record->pieces = &piece;
    put.record->n_pieces = 1;
    (void)machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
    (void)machine_fixture_first(f, FAMILY_ROWS, KIND_REPAIR, &kist__repair__descriptor, &queue_key);
    call.bucket_id = f->bucket_id;
    call.key = field_of("a");
    call.layout_id = put.record->layout_id;
    call.extent_id = piece->extent->id;
    call.durable = 0x20;
    call.queue_key = message_field(queue_key);
    (void)machine_fixture_apply(f, META_SET_DURABLE, &call.base, SLICE_EMPTY);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_REPAIR), 0);
    assert_int_equal(machine_fixture_current(f, "a")->pieces[0]->extent->durable, 0x3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_lives_as_long_as_a_name, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_of_copies_name_the_home, setup, teardown),
        cmocka_unit_test_setup_teardown(copy_back_over_the_original, setup, teardown),
        cmocka_unit_test_setup_teardown(copy_onto_itself_keeps_the_layout, setup, teardown),
        cmocka_unit_test_setup_teardown(inline_copies_stand_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_of_copies_is_counted_right, setup, teardown),
        cmocka_unit_test_setup_teardown(condemn_refuses_what_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(condemned_is_final, setup, teardown),
        cmocka_unit_test_setup_teardown(long_layouts_are_reclaimed, setup, teardown),
        cmocka_unit_test_setup_teardown(copy_checks_its_source, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_directive, setup, teardown),
        cmocka_unit_test_setup_teardown(set_durable_ends_a_repair, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
