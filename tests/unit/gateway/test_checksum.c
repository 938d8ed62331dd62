/* Checksums of object bytes: names, texts, and several at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/object/checksum.h"

/* What clients and AWS's documentation give for "123456789" and for the hashes of "abc". */
static void known_values(void **state)
{
    static const struct {
        enum checksum_algorithm algorithm;
        const char *input;
        const char *base64;
    } rows[] = {
        {CHECKSUM_CRC32,     "123456789", "y/Q5Jg=="                                    },
        {CHECKSUM_CRC32C,    "123456789", "4waSgw=="                                    },
        {CHECKSUM_CRC64NVME, "123456789", "rosUhgp5mIg="                                },
        {CHECKSUM_SHA1,      "abc",       "qZk+NkcGgWq6PiVxeFDCbJzQ2J0="                },
        {CHECKSUM_SHA256,    "abc",       "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {CHECKSUM_SHA512,    "abc",
         "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2"
         "Q86A4qmslPpUyknw=="                                                           },
        {CHECKSUM_MD5,       "abc",       "kAFQmDzST7DWlj99KOF/cg=="                    },
        {CHECKSUM_XXHASH64,  "123456789", "jLhB20DmroM="                                },
        {CHECKSUM_XXHASH3,   "123456789", "ctyxi2ehff8="                                },
        {CHECKSUM_XXHASH128, "123456789", "MxGUd+3l3NXpcWQnaB1YYA=="                    },
    };
    struct arena arena;

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct checksum_value values[CHECKSUM_ALGORITHMS];
        struct checksum_value parsed;
        struct digest_set set;
        uint8_t md5[MD5_BYTES];

        digest_set_init(&set, 1U << rows[i].algorithm, false);
        digest_set_update(&set, slice_str(rows[i].input));
        digest_set_finish(&set, md5, values);
        digest_set_deinit(&set);
        struct slice raw =
            slice_of(values[rows[i].algorithm].bytes, checksum_bytes(rows[i].algorithm));
        assert_true(slice_eq_str(checksum_text(&arena, rows[i].algorithm, raw), rows[i].base64));
        assert_true(checksum_parse(rows[i].algorithm, slice_str(rows[i].base64), &parsed));
        assert_memory_equal(&parsed, &values[rows[i].algorithm], sizeof(parsed));
    }
    arena_deinit(&arena);
}

/* One pass over the bytes, in any pieces, gives every value. */
static void all_at_once_in_pieces(void **state)
{
    static char input[100000];
    struct checksum_value whole[CHECKSUM_ALGORITHMS];
    struct checksum_value pieces[CHECKSUM_ALGORITHMS];
    struct digest_set set;
    uint8_t md5_whole[MD5_BYTES];
    uint8_t md5_pieces[MD5_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (char)(i * 7 + i / 251);
    }
    digest_set_init(&set, 0x7fe, true);
    digest_set_update(&set, slice_of(input, sizeof(input)));
    digest_set_finish(&set, md5_whole, whole);
    digest_set_init(&set, 0x7fe, true);
    for (size_t at = 0; at < sizeof(input); at += 33333) {
        size_t len = sizeof(input) - at < 33333 ? sizeof(input) - at : 33333;

        digest_set_update(&set, slice_of(input + at, len));
    }
    digest_set_finish(&set, md5_pieces, pieces);
    assert_memory_equal(whole, pieces, sizeof(whole));
    assert_memory_equal(md5_whole, md5_pieces, sizeof(md5_whole));
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        assert_int_equal(whole[i].algorithm, i);
    }
}

/* A digest of the wrong length must not be compared by prefix. */
static void wrong_lengths_are_refused(void **state)
{
    struct checksum_value value;

    (void)state;
    assert_false(checksum_parse(CHECKSUM_CRC32, SLICE("y/Q5"), &value));
    assert_false(checksum_parse(CHECKSUM_CRC32, SLICE("rosUhgp5mIg="), &value));
    assert_false(checksum_parse(CHECKSUM_CRC32, SLICE(""), &value));
    assert_false(checksum_parse(CHECKSUM_SHA256, SLICE("y/Q5Jg=="), &value));
    assert_false(checksum_parse(CHECKSUM_CRC32, SLICE("y/Q5Jg"), &value));
}

/* Algorithms are asked by name in any case, and by header. */
static void names(void **state)
{
    (void)state;
    assert_int_equal(checksum_by_name(SLICE("crc64nvme")), CHECKSUM_CRC64NVME);
    assert_int_equal(checksum_by_name(SLICE("SHA256")), CHECKSUM_SHA256);
    assert_int_equal(checksum_by_name(SLICE("MD4")), CHECKSUM_NONE);
    assert_int_equal(checksum_by_name(SLICE("")), CHECKSUM_NONE);
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)i;

        assert_int_equal(checksum_by_header(slice_str(checksum_header(algorithm))), algorithm);
        assert_int_equal(checksum_by_name(slice_str(checksum_name(algorithm))), algorithm);
    }
    assert_int_equal(checksum_by_header(SLICE("x-amz-checksum-md4")), CHECKSUM_NONE);
    assert_int_equal(checksum_by_header(SLICE("x-amz-checksum-")), CHECKSUM_NONE);
    assert_int_equal(checksum_by_header(SLICE("")), CHECKSUM_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(all_at_once_in_pieces),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
