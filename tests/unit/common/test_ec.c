/* Reed-Solomon: every loss that a scheme promises to survive, at lengths around the vector widths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/ec/ec.h"

enum { LEN_MAX = 8192 + 1 };

struct code {
    unsigned k;
    unsigned m;
    size_t len;
    uint8_t *shards[LIMIT_SHARDS];
};

static void code_init(struct code *code)
{
    uint32_t state = 7;

    for (unsigned i = 0; i < code->k + code->m; i++) {
        code->shards[i] = mem_alloc(code->len);
        for (size_t at = 0; i < code->k && at < code->len; at++) {
            state = state * 1664525U + 1013904223U;
            code->shards[i][at] = (uint8_t)(state >> 24);
        }
    }
    ec_encode(ec_get(code->k, code->m), code->len, code->shards, code->shards + code->k);
}

static void code_deinit(struct code *code)
{
    for (unsigned i = 0; i < code->k + code->m; i++) {
        mem_free(code->shards[i]);
    }
}

static void check_rebuild_all(struct code *code, uint32_t present)
{
    uint8_t *out = mem_alloc(code->len);

    for (unsigned want = 0; want < code->k + code->m; want++) {
        memset(out, 0xee, code->len);
        assert_true(
            ec_rebuild(ec_get(code->k, code->m), code->len, code->shards, present, want, out));
        assert_memory_equal(out, code->shards[want], code->len);
    }
    mem_free(out);
}

/* A scheme k+m is a promise about every set of m lost shards, not about the usual ones. */
static void every_loss_of_m_shards_is_survived(void **state)
{
    static const struct code schemes[] = {
        {.k = 1, .m = 1, .len = 4096   },
        {.k = 1, .m = 2, .len = 100    },
        {.k = 2, .m = 1, .len = 4097   },
        {.k = 2, .m = 2, .len = 4096   },
        {.k = 4, .m = 2, .len = LEN_MAX},
        {.k = 6, .m = 3, .len = 31     },
        {.k = 8, .m = 4, .len = 256    },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        struct code code = schemes[i];
        code_init(&code);
        for (uint32_t present = 0; present < 1U << (code.k + code.m); present++) {
            if ((unsigned)__builtin_popcount(present) == code.k) {
                check_rebuild_all(&code, present);
            }
        }
        code_deinit(&code);
    }
}

/* Shards outlive the binary that wrote them: the matrix is a format and must never change. */
static void parity_bytes_are_a_format(void **state)
{
    static const uint8_t want[2][4] = {
        {0x48, 0x71, 0x16, 0xd4},
        {0x0f, 0x25, 0x36, 0xf4}
    };
    uint8_t data[4][4] = {
        {1, 0,   255, 9},
        {2, 0,   254, 8},
        {3, 128, 253, 7},
        {4, 1,   252, 6}
    };
    uint8_t parity[2][4];
    uint8_t *from[4] = {data[0], data[1], data[2], data[3]};
    uint8_t *to[2] = {parity[0], parity[1]};

    (void)state;
    ec_encode(ec_get(4, 2), 4, from, to);
    assert_memory_equal(parity, want, sizeof(want));
}

/* Too few survivors is an answer, not garbage. */
static void too_few_survivors_are_refused(void **state)
{
    struct code code = {.k = 4, .m = 2, .len = 64};
    uint8_t out[64];

    (void)state;
    code_init(&code);
    assert_false(ec_rebuild(ec_get(4, 2), 64, code.shards, 0x0e, 0, out));
    assert_false(ec_rebuild(ec_get(4, 2), 64, code.shards, 0x07, 5, out));
    code_deinit(&code);
}

/* One directory has no parity: the same code path must carry it. */
static void no_parity_is_a_scheme(void **state)
{
    struct code code = {.k = 1, .m = 0, .len = 64};
    uint8_t out[64];

    (void)state;
    code_init(&code);
    assert_true(ec_rebuild(ec_get(1, 0), 64, code.shards, 1, 0, out));
    assert_memory_equal(out, code.shards[0], 64);
    assert_false(ec_rebuild(ec_get(1, 0), 64, code.shards, 0, 0, out));
    assert_ptr_equal(ec_get(1, 0), ec_get(1, 0));
    code_deinit(&code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_of_m_shards_is_survived),
        cmocka_unit_test(parity_bytes_are_a_format),
        cmocka_unit_test(too_few_survivors_are_refused),
        cmocka_unit_test(no_parity_is_a_scheme),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
