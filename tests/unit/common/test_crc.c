/* CRCs against their published check values, and every way to split an input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/codec/crc.h"

enum { INPUT_BYTES = 5000 };
static uint8_t input[INPUT_BYTES];

static int fill(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (size_t i = 0; i < INPUT_BYTES; i++) {
        seed = seed * 1664525U + 1013904223U;
        input[i] = (uint8_t)(seed >> 24);
    }
    return 0;
}

/* These values are on disk and in clients: they can never change. */
static void check_values(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283U);
    assert_int_equal(crc32(0, "123456789", 9), 0xcbf43926U);
    assert_true(crc64nvme(0, "123456789", 9) == 0xae8b14860a799888ULL);
    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32(0, "", 0), 0);
    assert_true(crc64nvme(0, "", 0) == 0);
    assert_int_equal(crc32(7, "", 0), 7);
}

static uint64_t crc64_bit_by_bit(const uint8_t *data, size_t len)
{
    uint64_t crc = ~0ULL;

    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x9a6c9329ac4bc9b5ULL : 0);
        }
    }
    return ~crc;
}

/* Folding and tables must agree at every length and alignment, or a checksum depends on the
 * machine. */
static void fold_equals_definition(void **state)
{
    (void)state;
    for (size_t len = 0; len < 700; len++) {
        size_t at = len % 17;

        assert_true(crc64nvme(0, input + at, len) == crc64_bit_by_bit(input + at, len));
    }
    assert_true(crc64nvme(0, input, INPUT_BYTES) == crc64_bit_by_bit(input, INPUT_BYTES));
}

/* Bodies arrive in pieces of any size. */
static void pieces_equal_whole(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= INPUT_BYTES; cut += 37) {
        size_t rest = INPUT_BYTES - cut;

        assert_int_equal(crc32(crc32(0, input, cut), input + cut, rest),
                         crc32(0, input, INPUT_BYTES));
        assert_int_equal(crc32c(crc32c(0, input, cut), input + cut, rest),
                         crc32c(0, input, INPUT_BYTES));
        assert_true(crc64nvme(crc64nvme(0, input, cut), input + cut, rest) ==
                    crc64nvme(0, input, INPUT_BYTES));
    }
}

/* FULL_OBJECT checksums of multipart uploads are combined from those of the parts. */
static void combined_parts_equal_whole(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= INPUT_BYTES; cut += 41) {
        size_t rest = INPUT_BYTES - cut;

        assert_int_equal(
            crc32_combine_lengths(crc32(0, input, cut), crc32(0, input + cut, rest), rest),
            crc32(0, input, INPUT_BYTES));
        assert_int_equal(crc32c_combine(crc32c(0, input, cut), crc32c(0, input + cut, rest), rest),
                         crc32c(0, input, INPUT_BYTES));
        assert_true(crc64nvme_combine(crc64nvme(0, input, cut), crc64nvme(0, input + cut, rest),
                                      rest) == crc64nvme(0, input, INPUT_BYTES));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_values),
        cmocka_unit_test(fold_equals_definition),
        cmocka_unit_test(pieces_equal_whole),
        cmocka_unit_test(combined_parts_equal_whole),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
