/* Keys on disk: their order is S3's order, and none can be taken for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "metad/store/keyspace.h"
#include "metad/store/message.h"
#include "proto/record.pb-c.h"

/* A listing is a scan: rows must come in the order of the keys' bytes, whatever bytes those are. */
static void rows_sort_as_keys(void **state)
{
    static const struct slice keys[] = {
        {"\x00",     1},
        {"\x00\x00", 2},
        {"\x00\x01", 2},
        {"\x00\xff", 2},
        {"\x01",     1},
        {"a",        1},
        {"a\x00",    2},
        {"a\x00z",   3},
        {"a\x01",    2},
        {"a/b",      3},
        {"a\xff",    2},
        {"b",        1},
        {"\xff",     1},
        {"\xff\x00", 2},
        {"\xff\xff", 2}
    };
    struct row_key before;
    struct row_key after;

    (void)state;
    for (size_t i = 0; i + 1 < ARRAY_LEN(keys); i++) {
        /* Any kind and suffix of the first sorts before any of the second. */
        key_object(&before, 7, keys[i], KIND_PART, SLICE("\xff\xff\xff"));
        key_object(&after, 7, keys[i + 1], KIND_HISTORY, SLICE_EMPTY);
        assert_true(slice_cmp(row_key_slice(&before), row_key_slice(&after)) < 0);
        key_current(&before, 7, keys[i]);
        key_current(&after, 7, keys[i + 1]);
        assert_true(slice_cmp(row_key_slice(&before), row_key_slice(&after)) < 0);
    }
    key_object(&before, 7, SLICE("\xff"), KIND_PART, SLICE_EMPTY);
    key_object(&after, 8, SLICE("a"), KIND_HISTORY, SLICE_EMPTY);
    assert_true(slice_cmp(row_key_slice(&before), row_key_slice(&after)) < 0);
}

/* What was encoded must be found again, also with zero bytes in the key. */
static void rows_parse_back(void **state)
{
    static const struct slice keys[] = {
        {"a",          1},
        {"\x00",       1},
        {"x\x00\x01y", 4},
        {"\xff\x00",   2}
    };
    struct arena arena;

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct row_key key;
        struct row_name name;

        key_object_u32(&key, 9, keys[i], KIND_PART, SLICE("upload"), 12);
        assert_true(row_name_parse(&arena, row_key_slice(&key), &name));
        assert_int_equal(name.bucket_id, 9);
        assert_true(slice_eq(name.key, keys[i]));
        assert_int_equal(name.kind, KIND_PART);
        assert_true(slice_eq(name.suffix, SLICE("upload\x00\x00\x00\x0c")));
        assert_int_equal(row_kind_of(row_key_slice(&key)), KIND_PART);
    }
    arena_deinit(&arena);
}

/* Rows of ranges and of root stand before all objects and name their range. */
static void range_rows(void **state)
{
    struct arena arena;
    struct row_key key;
    struct row_name name;

    (void)state;
    arena_init(&arena);
    key_range_u64(&key, RANGE_FIRST, KIND_RECLAIM, 5, SLICE("layout"));
    assert_true(row_name_parse(&arena, row_key_slice(&key), &name));
    assert_int_equal(name.bucket_id, 0);
    assert_int_equal(name.range_id, RANGE_FIRST);
    assert_int_equal(name.kind, KIND_RECLAIM);
    assert_int_equal(name.suffix.len, 8 + 6);
    key_range(&key, RANGE_ROOT, KIND_BUCKET, SLICE("photos"));
    assert_int_equal(row_kind_of(row_key_slice(&key)), KIND_BUCKET);
    arena_deinit(&arena);
}

/* Bytes on a disk may be anything: malformed keys are refused, not read past their end. */
static void malformed_keys_are_refused(void **state)
{
    static const struct slice keys[] = {
        {"",                                 0 },
        {"\0\0\0\0\0\0\0\1",                 8 },
        {"\0\0\0\0\0\0\0\1abc",              11}, /* no terminator */
        {"\0\0\0\0\0\0\0\1a\0\1",            11}, /* no kind */
        {"\0\0\0\0\0\0\0\1a\0\2\x20",        12}, /* an escape that is none */
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16}, /* a range row without kind */
    };
    struct arena arena;
    struct row_name name;

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        assert_false(row_name_parse(&arena, keys[i], &name));
        assert_int_equal(row_kind_of(keys[i]), 0);
    }
    arena_deinit(&arena);
}

/* The end of a prefix scan: the first key that no longer begins with it, also after ff bytes. */
static void prefix_end(void **state)
{
    struct row_key key = {.len = 0};

    (void)state;
    row_key_append(&key, SLICE("a\xff\xff"));
    assert_true(row_key_after_prefix(&key));
    assert_true(slice_eq(row_key_slice(&key), SLICE("b")));
    key.len = 0;
    row_key_append(&key, SLICE("\xff\xff"));
    assert_false(row_key_after_prefix(&key));
}

/* ---- Golden file: FORMAT.md's rows as they must stay on disk ---- */

static void golden_row(char *out, size_t max, const struct row_key *key, struct slice value)
{
    size_t at = strlen(out);
    struct slice parts[2] = {row_key_slice(key), value};

    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < parts[p].len; i++) {
            at += (size_t)snprintf(out + at, max - at, "%02x", (uint8_t)parts[p].data[i]);
        }
        at += (size_t)snprintf(out + at, max - at, p == 0 ? " " : "\n");
    }
}

/* A key or value that changes its bytes makes old directories unreadable. */
static void golden_rows(void **state)
{
    static char expected[16384];
    static char actual[16384];
    static const char id[25] = "\0\0\0\1\0\0\0\2\0\0\1\x9a\0\0\0\0\0\0\0\0\0\0\0\7";
    Kist__Record record = KIST__RECORD__INIT;
    Kist__Part part = KIST__PART__INIT;
    Kist__Request request = KIST__REQUEST__INIT;
    struct arena arena;
    struct row_key key;
    FILE *file = fopen("tests/golden/metad_rows_v1.txt", "r");
    size_t len;

    (void)state;
    arena_init(&arena);
    record.stamp = 1800000000000000001ULL;
    record.size = 5;
    record.etag = message_field(SLICE("0123456789abcdef"));
    record.inline_body = true;
    record.owner = message_field(SLICE("root"));
    part.number = 3;
    part.size = 1;
    part.etag = record.etag;
    request.due = 77;
    request.reply = message_field(SLICE("reply"));
    actual[0] = '\0';
    key_current(&key, 2, SLICE("a\0b"));
    golden_row(actual, sizeof(actual), &key, message_pack(&arena, &record.base));
    key_inline(&key, 2, SLICE("a\0b"), record.stamp);
    golden_row(actual, sizeof(actual), &key, SLICE("bytes"));
    key_object_u32(&key, 2, SLICE("a\0b"), KIND_PART, slice_of(id, 24), 3);
    golden_row(actual, sizeof(actual), &key, message_pack(&arena, &part.base));
    key_object_u64(&key, 2, SLICE("a"), KIND_LAYOUT, slice_of(id, 24), 268435456);
    golden_row(actual, sizeof(actual), &key, SLICE_EMPTY);
    key_object(&key, 2, SLICE("a"), KIND_REQUEST, SLICE("0123456789abcdef"));
    golden_row(actual, sizeof(actual), &key, message_pack(&arena, &request.base));
    key_range_u64(&key, RANGE_FIRST, KIND_RECLAIM, 42, slice_of(id, 24));
    golden_row(actual, sizeof(actual), &key, SLICE_EMPTY);
    key_range(&key, RANGE_ROOT, KIND_BUCKET, SLICE("photos"));
    golden_row(actual, sizeof(actual), &key, SLICE_EMPTY);
    ASSERT(file != NULL);
    len = fread(expected, 1, sizeof(expected) - 1, file);
    expected[len] = '\0';
    (void)fclose(file);
    assert_string_equal(actual, expected);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_sort_as_keys), cmocka_unit_test(rows_parse_back),
        cmocka_unit_test(range_rows),        cmocka_unit_test(malformed_keys_are_refused),
        cmocka_unit_test(prefix_end),        cmocka_unit_test(golden_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
