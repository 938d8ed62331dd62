#include "gateway/s3/server_timing.h"

#include <string.h>

#include "common/base/buffer.h"

enum { TIMING_NS_PER_MS = 1000000, TIMING_NS_PER_US = 1000 };

static void timing_charge(struct server_timing *timing, uint64_t now)
{
    if (timing->count > 0) {
        timing->steps[timing->current].ns += now - timing->entered_ns;
    }
    timing->entered_ns = now;
}

void server_timing_enter(struct server_timing *timing, const char *name)
{
    timing_charge(timing, timing->env->clock->mono_ns(timing->env));
    for (unsigned i = 0; i < timing->count; i++) { /* a step that runs again */
        if (strcmp(timing->steps[i].name, name) == 0) {
            timing->current = i;
            return;
        }
    }
    if (timing->count < SERVER_TIMING_STEPS_MAX) {
        timing->steps[timing->count].name = name;
        timing->count += 1;
    }
    timing->current = timing->count - 1;
}

static void timing_put(struct buffer *text, const char *name, uint64_t ns)
{
    buffer_printf(text, "%s%s;dur=%u.%03u", text->len > 0 ? ", " : "", name,
                  (unsigned)(ns / TIMING_NS_PER_MS),
                  (unsigned)(ns % TIMING_NS_PER_MS / TIMING_NS_PER_US));
}

struct slice server_timing_text(struct server_timing *timing, struct arena *arena)
{
    uint64_t now = timing->env->clock->mono_ns(timing->env);
    struct buffer text;
    struct slice copy;

    timing_charge(timing, now);
    buffer_init(&text);
    timing_put(&text, "total", now - timing->started_ns);
    for (unsigned i = 0; i < timing->count; i++) {
        timing_put(&text, timing->steps[i].name, timing->steps[i].ns);
    }
    copy = arena_copy(arena, buffer_slice(&text));
    buffer_deinit(&text);
    return copy;
}
