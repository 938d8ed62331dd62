#include "metad/cluster/clock.h"

#include <stdlib.h>

#include "common/base/assert.h"

static int order_i64(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

enum clock_verdict clock_judge(const int64_t *offsets, uint32_t count, uint32_t voters)
{
    int64_t all[CLOCKS_MAX + 1] = {0}; /* one's own is 0 */
    uint32_t known = count + 1;
    int64_t off;

    ASSERT(count <= CLOCKS_MAX && voters >= 1);
    for (uint32_t i = 0; i < count; i++) {
        all[i + 1] = offsets[i];
    }
    if (known <= voters / 2) {
        return CLOCK_UNKNOWN;
    }
    qsort(all, known, sizeof(all[0]), order_i64);
    off = magnitude(all[known / 2]);
    if (known % 2 == 0 && magnitude(all[known / 2 - 1]) < off) {
        off = magnitude(all[known / 2 - 1]);
    }
    return off > CLOCK_OFF_NS ? CLOCK_OFF : CLOCK_GOOD;
}
