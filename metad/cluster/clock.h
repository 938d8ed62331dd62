/*
 * Is the leader's clock right? Judged by the clocks of the other voters (DESIGN 4.1, Time). Pure.
 *
 * Of an even number of clocks that are known, the nearer one of the middle two counts: two that
 * differ cannot say which is wrong.
 */
#ifndef METAD_CLUSTER_CLOCK_H
#define METAD_CLUSTER_CLOCK_H

#include <stdint.h>

enum { CLOCKS_MAX = 16 };

static const int64_t CLOCK_OFF_NS = 500LL * 1000000LL;

enum clock_verdict {
    CLOCK_UNKNOWN, /* fewer than a majority of the voters is known */
    CLOCK_GOOD,
    CLOCK_OFF
};

/* `offsets`: of the voters that answered lately, without oneself, in nanoseconds ahead of the own
 * clock. `voters`: all of them, oneself among them. */
enum clock_verdict clock_judge(const int64_t *offsets, uint32_t count, uint32_t voters);

#endif
