/* A leader with a wrong clock would stamp versions that lie in the future for years: it must be
 * found by the others' clocks, and a right one must not be accused by one that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "metad/cluster/clock.h"

#define MS 1000000LL

struct row {
    int64_t offsets[4];
    uint32_t count;
    uint32_t voters;
    enum clock_verdict verdict;
};

static void the_median_decides(void **state)
{
    static const struct row rows[] = {
        {{0},                            0, 1, CLOCK_GOOD   }, /* alone: nobody to ask */
        {{0},                            0, 2, CLOCK_UNKNOWN},
        {{0},                            0, 3, CLOCK_UNKNOWN},
        {{10 * MS},                      1, 3, CLOCK_GOOD   },
        {{10000 * MS},                   1, 3, CLOCK_GOOD   }, /* two differ: nobody knows which */
        {{10 * MS, -20 * MS},            2, 3, CLOCK_GOOD   },
        {{10 * MS, 3600000 * MS},        2, 3, CLOCK_GOOD   }, /* one of the others is off */
        {{600 * MS, 700 * MS},           2, 3, CLOCK_OFF    },
        {{-3600000 * MS, -3600001 * MS}, 2, 3, CLOCK_OFF    },
        {{499 * MS, 5000 * MS},          2, 3, CLOCK_GOOD   },
        {{600 * MS},                     1, 5, CLOCK_UNKNOWN},
        {{600 * MS, 600 * MS, 600 * MS}, 3, 5, CLOCK_OFF    },
        {{600 * MS, 1 * MS, 600 * MS},   3, 5, CLOCK_GOOD   },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (clock_judge(rows[i].offsets, rows[i].count, rows[i].voters) != rows[i].verdict) {
            fail_msg("row %zu", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
