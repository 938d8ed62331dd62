/* Bytes of a log entry: they stay on disk and must be told from damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "metad/apply/entry.h"

enum { ENTRY_LEN = ENTRY_HEADER_BYTES + 5 + 4 };

static void make_entry(char out[ENTRY_LEN])
{
    static const char message[] = "\x0a\x01n\x10\x01";
    struct entry entry = {.command = 15,
                          .proposed_ns = 1,
                          .deadline_ns = 2,
                          .request_id = {42},
                          .message = slice_of(message, 5),
                          .body = SLICE("body")};

    entry_encode(&entry, out);
    for (size_t i = 0; i < 5; i++) {
        out[ENTRY_HEADER_BYTES + i] = message[i];
    }
    for (size_t i = 0; i < 4; i++) {
        out[ENTRY_HEADER_BYTES + 5 + i] = "body"[i];
    }
}

/* Entries of this version are read by every later release. */
static void golden_entry(void **state)
{
    char expected[2 * ENTRY_LEN + 1] = "";
    char actual[2 * ENTRY_LEN + 1];
    char bytes[ENTRY_LEN];
    FILE *file = fopen("tests/golden/metad_entry_v1.txt", "r");

    (void)state;
    make_entry(bytes);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        (void)snprintf(actual + 2 * i, 3, "%02x", (uint8_t)bytes[i]);
    }
    assert_non_null(file);
    assert_int_equal(fread(expected, 1, sizeof(expected) - 1, file), sizeof(expected) - 1);
    (void)fclose(file);
    assert_string_equal(actual, expected);
}

/* What goes in comes out. */
static void an_entry_decodes(void **state)
{
    char bytes[ENTRY_LEN];
    struct entry entry;

    (void)state;
    make_entry(bytes);
    assert_int_equal(entry_decode(slice_of(bytes, sizeof(bytes)), &entry, NULL), RC_OK);
    assert_int_equal(entry.command, 15);
    assert_int_equal(entry.proposed_ns, 1);
    assert_int_equal(entry.deadline_ns, 2);
    assert_int_equal(entry.request_id[0], 42);
    assert_int_equal(entry.message.len, 5);
    assert_true(slice_eq(entry.body, SLICE("body")));
}

/* One flipped bit, or a byte less, anywhere: never applied. */
static void damage_is_found(void **state)
{
    char bytes[ENTRY_LEN];
    struct entry entry;

    (void)state;
    make_entry(bytes);
    for (size_t i = 0; i < sizeof(bytes) * 8; i++) {
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
        assert_int_not_equal(entry_decode(slice_of(bytes, sizeof(bytes)), &entry, NULL), RC_OK);
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
    }
    for (size_t len = 0; len < sizeof(bytes); len++) {
        assert_int_not_equal(entry_decode(slice_of(bytes, len), &entry, NULL), RC_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_entry),
        cmocka_unit_test(an_entry_decodes),
        cmocka_unit_test(damage_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
