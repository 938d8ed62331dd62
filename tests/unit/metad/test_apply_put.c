/* PUT_OBJECT and DELETE_OBJECTS as the log applies them. */
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

/* The bytes of a small object live and die with its record, in the same batch. */
static void inline_body_follows_its_record(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(machine_fixture_put_inline(f, "a", "first"), KIST__OUTCOME__OUTCOME_OK);
    assert_true(slice_eq(machine_fixture_inline(f, "a"), SLICE("first")));
    assert_int_equal(machine_fixture_put_inline(f, "a", "second"), KIST__OUTCOME__OUTCOME_OK);
    assert_true(slice_eq(machine_fixture_inline(f, "a"), SLICE("second")));
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 1);
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 0);
    assert_null(machine_fixture_current(f, "a"));
}

/* An empty object has neither bytes nor layout. */
static void empty_object(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(machine_fixture_put_inline(f, "a", ""), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_current(f, "a")->size, 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_INLINE, 0), 0);
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
}

/* What is overwritten or deleted must come into the queue with its extents, or its space is lost.
 */
static void replaced_layouts_are_queued(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Record *first;
    const Kist__Reclaim *queued;

    assert_int_equal(machine_fixture_put(f, "a", 1000000), KIST__OUTCOME__OUTCOME_OK);
    first = machine_fixture_current(f, "a");
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    assert_int_equal(machine_fixture_put(f, "a", 2000000), KIST__OUTCOME__OUTCOME_OK);
    queued = machine_fixture_first(f, FAMILY_ROWS, KIND_RECLAIM, &kist__reclaim__descriptor, NULL);
    assert_non_null(queued);
    assert_true(slice_eq(message_bytes(queued->layout_id), message_bytes(first->layout_id)));
    assert_int_equal(queued->n_pieces, 1);
    assert_true(slice_eq(message_bytes(queued->pieces[0]->extent->id),
                         message_bytes(first->pieces[0]->extent->id)));
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 2);
}

/* Clients delete again what they lost the answer of. */
static void deleting_what_is_absent_is_fine(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(machine_fixture_delete(f, "never"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
}

/* Usage is the sum of what every command changed. */
static void usage_adds_up(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "b", 500);
    (void)machine_fixture_put(f, "a", 300);
    assert_int_equal(machine_fixture_usage(f)->objects, 2);
    assert_int_equal(machine_fixture_usage(f)->bytes, 800);
    (void)machine_fixture_delete(f, "b");
    assert_int_equal(machine_fixture_usage(f)->objects, 1);
    assert_int_equal(machine_fixture_usage(f)->bytes, 300);
}

/* A batch may name a key twice: it must not be freed or counted twice. */
static void a_key_twice_in_one_batch(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item one = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items[3] = {&one, &one, &one};
    const Kist__Reply *reply;

    (void)machine_fixture_put(f, "a", 1000);
    one.key = field_of("a");
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = items;
    call.n_items = 3;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->n_deleted, 3);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 1);
    assert_int_equal(machine_fixture_usage(f)->objects, 0);
    assert_int_equal(machine_fixture_usage(f)->bytes, 0);
}

/* ---- Conditions ---- */

struct condition_row {
    const char *if_match;
    const char *if_none_match;
    bool exists;
    Kist__Outcome outcome;
};

/* "SAME" stands for the current ETag. */
static ProtobufCBinaryData condition_text(const char *text, const char *etag)
{
    return field_of(text == NULL ? "" : (text[0] == 'S' ? etag : text));
}

/* Compare-and-set decides in apply: of two writers with the same condition one must lose. */
static void conditions_are_decided_against_the_current_record(void **state)
{
    static const struct condition_row rows[] = {
        {NULL,   "*",    false, KIST__OUTCOME__OUTCOME_OK         },
        {NULL,   "*",    true,  KIST__OUTCOME__PRECONDITION_FAILED},
        {"*",    NULL,   false, KIST__OUTCOME__NO_SUCH_KEY        },
        {"*",    NULL,   true,  KIST__OUTCOME__OUTCOME_OK         },
        {"SAME", NULL,   true,  KIST__OUTCOME__OUTCOME_OK         },
        {"SAME", NULL,   false, KIST__OUTCOME__NO_SUCH_KEY        },
        {"0123", NULL,   true,  KIST__OUTCOME__PRECONDITION_FAILED},
        {NULL,   "SAME", true,  KIST__OUTCOME__PRECONDITION_FAILED},
        {NULL,   "0123", true,  KIST__OUTCOME__OUTCOME_OK         },
    };
    struct machine_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Kist__PutObject put = KIST__PUT_OBJECT__INIT;
        Kist__Conditions conditions = KIST__CONDITIONS__INIT;
        char etag[33] = "";
        const Kist__Reply *reply;

        (void)machine_fixture_delete(f, "a");
        if (rows[i].exists) {
            (void)machine_fixture_put_inline(f, "a", "x");
            for (size_t b = 0; b < 16; b++) {
                (void)snprintf(etag + 2 * b, 3, "%02x",
                               machine_fixture_current(f, "a")->etag.data[b]);
            }
        }
        conditions.if_match = condition_text(rows[i].if_match, etag[0] != '\0' ? etag : "00");
        conditions.if_none_match = condition_text(rows[i].if_none_match, etag);
        put.bucket_id = f->bucket_id;
        put.generation = f->generation;
        put.key = field_of("a");
        put.conditions = &conditions;
        put.record = machine_fixture_record(f, 1);
        put.record->inline_body = true;
        reply = machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE("y"));
        assert_int_equal(reply->outcome, rows[i].outcome);
        if (rows[i].exists) {
            assert_true(
                slice_eq(machine_fixture_inline(f, "a"),
                         rows[i].outcome == KIST__OUTCOME__OUTCOME_OK ? SLICE("y") : SLICE("x")));
        }
    }
}

/* ---- Durability policy ---- */

struct durable_row {
    uint32_t kind, data, parity, durable;
    Kist__Outcome outcome;
    size_t repairs;
};

/* Fewer shards than the policy would be answered 200 and lost; some missing must be repaired. */
static void durable_shards_follow_the_policy(void **state)
{
    static const struct durable_row rows[] = {
        {2, 4, 2, 0x3f, KIST__OUTCOME__OUTCOME_OK,       0},
        {2, 4, 2, 0x1f, KIST__OUTCOME__OUTCOME_OK,       1},
        {2, 4, 2, 0x0f, KIST__OUTCOME__NOT_DURABLE,      0},
        {2, 2, 1, 0x03, KIST__OUTCOME__OUTCOME_OK,       1},
        {2, 2, 1, 0x01, KIST__OUTCOME__NOT_DURABLE,      0},
        {1, 1, 0, 0x01, KIST__OUTCOME__OUTCOME_OK,       0},
        {1, 1, 1, 0x01, KIST__OUTCOME__OUTCOME_OK,       1},
        {1, 1, 2, 0x01, KIST__OUTCOME__NOT_DURABLE,      0},
        {1, 1, 2, 0x05, KIST__OUTCOME__OUTCOME_OK,       1},
        {1, 1, 0, 0x00, KIST__OUTCOME__NOT_DURABLE,      0},
        {2, 4, 2, 0x7f, KIST__OUTCOME__INVALID_ARGUMENT, 0},
        {3, 4, 2, 0x3f, KIST__OUTCOME__INVALID_ARGUMENT, 0},
    };
    struct machine_fixture *f = *state;
    size_t repairs = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Kist__PutObject put = KIST__PUT_OBJECT__INIT;
        Kist__Piece *piece = machine_fixture_piece(f, 1000);

        piece->extent->kind = rows[i].kind;
        piece->extent->data_shards = rows[i].data;
        piece->extent->parity_shards = rows[i].parity;
        piece->extent->durable = rows[i].durable;
        put.bucket_id = f->bucket_id;
        put.generation = f->generation;
        put.key = field_of("a");
        put.record = machine_fixture_record(f, 1000);
        put.record->layout_id = machine_fixture_id(f);
        put.record->pieces = &piece;
        put.record->n_pieces = 1;
        assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                         rows[i].outcome);
        repairs += rows[i].repairs;
        assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_REPAIR), repairs);
    }
}

/* An audit may delete extents that nobody named for a day. */
static void old_extents_are_refused(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, 1000);

    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 1000);
    put.record->layout_id = machine_fixture_id(f);
    put.record->pieces = &piece;
    put.record->n_pieces = 1;
    f->now_ns += 24 * 3600ULL * SIM_S + 10 * SIM_MS;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__EXPIRED);
}

/* A list too long for its record is found by byte offset, 64 pieces a row. */
static void long_layouts_go_to_rows(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *pieces[100];
    const Kist__LayoutChunk *chunk;
    const Kist__Record *record;
    struct slice key;

    for (size_t i = 0; i < 100; i++) {
        pieces[i] = machine_fixture_piece(f, 1000);
    }
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    put.record = machine_fixture_record(f, 100000);
    put.record->layout_id = machine_fixture_id(f);
    put.pieces = pieces;
    put.n_pieces = 100;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    record = machine_fixture_current(f, "a");
    assert_int_equal(record->n_pieces, LIMIT_RECORD_PIECES);
    assert_int_equal(record->piece_count, 100);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 2);
    chunk =
        machine_fixture_first(f, FAMILY_ROWS, KIND_LAYOUT, &kist__layout_chunk__descriptor, &key);
    assert_int_equal(chunk->n_pieces, 64);
    assert_int_equal(chunk->offset, 0);
}

/* Judged by old settings, or in a bucket that is gone: nothing may be written. */
static void bucket_and_generation_are_checked(void **state)
{
    struct machine_fixture *f = *state;

    f->generation += 1;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__STALE_GENERATION);
    f->generation -= 1;
    f->bucket_id += 1;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__NO_SUCH_BUCKET);
    assert_int_equal(machine_fixture_delete(f, "a"), KIST__OUTCOME__NO_SUCH_BUCKET);
    assert_int_equal(machine_fixture_count(f, FAMILY_CURRENT, 0), 0);
}

/* Malformed commands come from a peer of another release or a bug: refused, never asserted. */
static void malformed_puts_are_refused(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, 1000);

    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("a");
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT); /* no record */
    put.record = machine_fixture_record(f, 999);
    put.record->layout_id = machine_fixture_id(f);
    put.record->pieces = &piece;
    put.record->n_pieces = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT); /* pieces do not make the size */
    put.record->size = 1000;
    piece->extent_offset = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT); /* past the extent's end */
    put.key = field_of("");
    piece->extent_offset = 0;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(machine_fixture_count(f, FAMILY_CURRENT, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inline_body_follows_its_record, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_object, setup, teardown),
        cmocka_unit_test_setup_teardown(replaced_layouts_are_queued, setup, teardown),
        cmocka_unit_test_setup_teardown(deleting_what_is_absent_is_fine, setup, teardown),
        cmocka_unit_test_setup_teardown(usage_adds_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_twice_in_one_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_are_decided_against_the_current_record, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(durable_shards_follow_the_policy, setup, teardown),
        cmocka_unit_test_setup_teardown(old_extents_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(long_layouts_go_to_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(bucket_and_generation_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_puts_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
