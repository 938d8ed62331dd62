#include "gateway/object/memory_hold.h"

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "gateway/object/memory.h"

enum { HOLD_PACE_BYTES = 32 * 1024 };

static const uint64_t HOLD_PACE_NS = 3ULL * 1000 * 1000 * 1000;
static const uint64_t HOLD_SWEEP_NS = 250ULL * 1000 * 1000;

static uint64_t hold_now(const struct memory_hold *hold)
{
    struct env *env = hold->gateway->env;

    return env->clock->mono_ns(env);
}

/* ---- Sweeping ---- */

static uint32_t hold_waiting(const struct gateway *gateway)
{
    const struct stream_pool *pool = gateway->config->stream_pool;

    return pool != NULL ? atomic_load_explicit(&pool->waiting_count, memory_order_relaxed)
                        : gateway->memory.waiting_count;
}

/* How long its client has stood still. */
static uint64_t hold_still_ns(struct memory_hold *hold, uint64_t now)
{
    if (!hold->on_client || hold->cut) {
        return 0;
    }
    if (*hold->moved - hold->mark_bytes >= HOLD_PACE_BYTES) {
        hold->mark_bytes = *hold->moved;
        hold->mark_ns = now;
    }
    return now - hold->mark_ns;
}

/* The one that stood still longest, and longer than is fair; NULL: none. */
static struct memory_hold *hold_find(struct gateway *gateway, uint64_t now, uint64_t *still_ns)
{
    struct list *head = &gateway->memory.holders;
    struct memory_hold *found = NULL;

    *still_ns = HOLD_PACE_NS;
    for (struct list *at = head->next; at != head; at = at->next) {
        struct memory_hold *hold = CONTAINER_OF(at, struct memory_hold, link);
        uint64_t still = hold_still_ns(hold, now);

        if (still > *still_ns) {
            found = hold;
            *still_ns = still;
        }
    }
    return found;
}

static void hold_cut(struct memory_hold *hold, uint64_t still_ns)
{
    LOG_WARN("stream_cut", "peer=%s held_bytes=%llu still_ms=%llu moved_bytes=%llu",
             hold->http->peer, (unsigned long long)hold->bytes,
             (unsigned long long)(still_ns / 1000000), (unsigned long long)*hold->moved);
    metric_add(METRIC_STREAMS_CUT, 0, 1);
    hold->cut = true;
    http_time_out(hold->http); /* the hold may be gone when it returns */
}

static void hold_arm(struct gateway *gateway)
{
    struct env *env = gateway->env;

    env->clock->timer_start(env, &gateway->memory.sweep, HOLD_SWEEP_NS);
}

static void hold_sweep(struct env_timer *timer)
{
    struct gateway *gateway = CONTAINER_OF(timer, struct gateway, memory.sweep);
    struct env *env = gateway->env;
    uint64_t now = env->clock->mono_ns(env);
    uint32_t count = hold_waiting(gateway);
    uint64_t still_ns;
    struct memory_hold *hold = hold_find(gateway, now, &still_ns); /* also keeps the marks */

    while (hold != NULL && count > 0) {
        hold_cut(hold, still_ns);
        count -= 1;
        hold = hold_find(gateway, now, &still_ns);
    }
    if (!list_empty(&gateway->memory.holders)) {
        hold_arm(gateway);
    }
}

/* ---- Holders ---- */

void memory_hold_begin(struct memory_hold *hold, struct gateway *gateway)
{
    struct list *holders = &gateway->memory.holders;

    ASSERT(hold->gateway == NULL);
    if (hold->http == NULL) {
        return;
    }
    ASSERT(hold->moved != NULL);
    hold->gateway = gateway;
    if (holders->next == NULL) {
        list_init(holders);
    }
    if (list_empty(holders)) {
        gateway->memory.sweep.fire = hold_sweep;
        hold_arm(gateway);
    }
    list_push_back(holders, &hold->link);
}

void memory_hold_client(struct memory_hold *hold, bool on_client)
{
    if (hold->gateway == NULL || hold->on_client == on_client) {
        return;
    }
    hold->on_client = on_client;
    if (on_client) {
        hold->mark_ns = hold_now(hold);
        hold->mark_bytes = *hold->moved;
    }
}

void memory_hold_end(struct memory_hold *hold)
{
    struct gateway *gateway = hold->gateway;

    if (gateway == NULL) {
        return;
    }
    hold->gateway = NULL;
    list_remove(&hold->link);
    if (list_empty(&gateway->memory.holders)) {
        gateway->env->clock->timer_stop(gateway->env, &gateway->memory.sweep);
    }
}
