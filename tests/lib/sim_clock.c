/* Clock and timers of the simulated world. */
#include "tests/lib/sim_world.h"

enum { SIM_EPOCH_S = 1767225600 }; /* 2026-01-01 */

static uint64_t clock_mono_ns(struct env *env)
{
    return sim_env_of(env)->node->sim->now;
}

static uint64_t clock_wall_ns(struct env *env)
{
    const struct sim_node *node = sim_env_of(env)->node;

    return (uint64_t)SIM_EPOCH_S * SIM_S + node->sim->now + (uint64_t)node->wall_offset_ns;
}

/* A timer holds its event in reserved[0]; 0 when it does not run. */
static struct sim_event *timer_event(const struct env_timer *timer)
{
    struct sim_event *event;

    memcpy(&event, timer->reserved, sizeof(struct sim_event *));
    return event;
}

static void timer_set(struct env_timer *timer, struct sim_event *event)
{
    memcpy(timer->reserved, &event, sizeof(struct sim_event *));
}

static void timer_run(struct sim_event *event)
{
    struct env_timer *timer = event->subject;

    timer_set(timer, NULL);
    timer->fire(timer);
}

static void clock_timer_stop(struct env *env, struct env_timer *timer)
{
    struct sim_event *event = timer_event(timer);

    if (event != NULL) {
        sim_event_cancel(sim_of(env), event);
        timer_set(timer, NULL);
    }
}

static void clock_timer_start(struct env *env, struct env_timer *timer, uint64_t delay_ns)
{
    struct sim_env *self = sim_env_of(env);

    ASSERT(timer->fire != NULL);
    ASSERT(!self->dead);
    clock_timer_stop(env, timer);
    /* A real loop is never early and a little late. */
    delay_ns += sim_below(self->node->sim, 100 * SIM_US) + 1;
    timer_set(timer, sim_event_new(self->node->sim, self->node, delay_ns, timer_run, timer));
}

const struct env_clock sim_clock = {
    .mono_ns = clock_mono_ns,
    .wall_ns = clock_wall_ns,
    .timer_start = clock_timer_start,
    .timer_stop = clock_timer_stop,
};
