/*
 * Server-Timing (W3C): where the time of a request went, told to who asks by
 * `x-kist-server-timing: 1`. One entry a step of the operation (op.h), in the order in which they
 * ran, and their total, in milliseconds, up to the moment the head of the reply is made.
 */
#ifndef GATEWAY_S3_SERVER_TIMING_H
#define GATEWAY_S3_SERVER_TIMING_H

#include "common/base/arena.h"
#include "common/env/env.h"

enum { SERVER_TIMING_STEPS_MAX = 20 };

struct server_timing {
    struct env *env;
    uint64_t started_ns;
    /* Private. */
    struct {
        const char *name;
        uint64_t ns;
    } steps[SERVER_TIMING_STEPS_MAX];
    unsigned count;
    unsigned current;
    uint64_t entered_ns;
};

/* The time from now on is that of `name`: a literal. */
void server_timing_enter(struct server_timing *timing, const char *name);
/* The header's value. */
struct slice server_timing_text(struct server_timing *timing, struct arena *arena);

#endif
