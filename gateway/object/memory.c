/*
 * With a pool, memory that another loop gave back is found by the first in line, which looks every
 * few milliseconds for as long as there is a line: no messages between loops.
 */
#include "gateway/object/memory.h"

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/metrics/metrics.h"

enum {
    MEMORY_SMALL_BYTES = LIMIT_REPLICA_BYTES, /* may use the reserved share */
    MEMORY_RESERVED_PART = 8,                 /* of the budget: one eighth */
    MEMORY_WAITERS_MAX = 256                  /* of one loop */
};

/* What has waited this long is better tried again elsewhere: clients give up after a minute. */
static const uint64_t memory_wait_ns = 20ULL * 1000 * 1000 * 1000;
static const uint64_t memory_look_ns = 5ULL * 1000 * 1000;

/* ---- The budget ---- */

static struct stream_pool *memory_pool(const struct gateway *gateway)
{
    return gateway->config->stream_pool;
}

static uint64_t memory_budget(const struct gateway *gateway)
{
    const struct stream_pool *pool = memory_pool(gateway);

    return pool != NULL ? pool->budget_bytes : gateway->memory.budget_bytes;
}

static void memory_count(struct gateway *gateway, int64_t bytes)
{
    gateway->memory.used_bytes += (uint64_t)bytes;
    metric_gauge_add(METRIC_STREAM_MEMORY, bytes);
}

/* Adds `bytes` if the sum stays within `limit`. */
static bool memory_claim(struct gateway *gateway, uint64_t bytes, uint64_t limit)
{
    struct stream_pool *pool = memory_pool(gateway);
    uint64_t used;

    if (pool == NULL) {
        if (gateway->memory.used_bytes + bytes > limit) {
            return false;
        }
        memory_count(gateway, (int64_t)bytes);
        return true;
    }
    used = atomic_load_explicit(&pool->used_bytes, memory_order_relaxed);
    do {
        if (used + bytes > limit) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&pool->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    memory_count(gateway, (int64_t)bytes);
    return true;
}

/* One that is larger than its share of the budget goes alone. */
static bool memory_admit(struct gateway *gateway, uint64_t bytes)
{
    uint64_t budget = memory_budget(gateway);

    if (bytes > MEMORY_SMALL_BYTES) {
        budget -= budget / MEMORY_RESERVED_PART;
    }
    return memory_claim(gateway, bytes, budget) ||
           (bytes > budget && memory_claim(gateway, bytes, bytes));
}

bool stream_memory_wanted(const struct gateway *gateway)
{
    const struct stream_pool *pool = memory_pool(gateway);

    return gateway->memory.waiting_count > 0 ||
           (pool != NULL && atomic_load_explicit(&pool->waiting_count, memory_order_relaxed) > 0);
}

bool stream_memory_try(struct gateway *gateway, uint64_t bytes)
{
    if (bytes > MEMORY_SMALL_BYTES && stream_memory_wanted(gateway)) {
        return false; /* nobody overtakes the line */
    }
    return memory_admit(gateway, bytes);
}

bool stream_memory_spare(struct gateway *gateway, uint64_t bytes)
{
    return !stream_memory_wanted(gateway) &&
           memory_claim(gateway, bytes, memory_budget(gateway) / 2);
}

void stream_memory_force(struct gateway *gateway, uint64_t bytes)
{
    (void)memory_claim(gateway, bytes, UINT64_MAX);
}

/* ---- The line ---- */

/* The first in line looks for memory, the others only wait for their deadline. */
static void memory_arm(struct memory_wait *wait)
{
    struct gateway *gateway = wait->gateway;
    struct env *env = gateway->env;
    uint64_t now = env->clock->mono_ns(env);
    uint64_t delay = wait->deadline_ns > now ? wait->deadline_ns - now : 0;
    bool first = gateway->memory.waiting.next == &wait->link;

    if (first && memory_pool(gateway) != NULL && delay > memory_look_ns) {
        delay = memory_look_ns;
    }
    env->clock->timer_start(env, &wait->timer, delay);
}

static void memory_leave(struct memory_wait *wait, enum rc rc)
{
    struct stream_pool *pool = memory_pool(wait->gateway);

    list_remove(&wait->link);
    wait->gateway->memory.waiting_count -= 1;
    if (pool != NULL) {
        atomic_fetch_sub_explicit(&pool->waiting_count, 1, memory_order_relaxed);
    }
    wait->rc = rc;
}

/* Admits from the head of the line. Whoever is admitted is told by its timer, on a stack of its
 * own. */
static void memory_serve(struct gateway *gateway)
{
    struct list *line = &gateway->memory.waiting;
    struct env *env = gateway->env;

    while (!list_empty(line)) {
        struct memory_wait *first = CONTAINER_OF(line->next, struct memory_wait, link);

        if (!memory_admit(gateway, first->bytes)) {
            memory_arm(first);
            return;
        }
        memory_leave(first, RC_OK);
        env->clock->timer_start(env, &first->timer, 0);
    }
}

static void memory_fire(struct env_timer *timer)
{
    struct memory_wait *wait = CONTAINER_OF(timer, struct memory_wait, timer);
    struct gateway *gateway = wait->gateway;
    struct env *env = gateway->env;

    if (wait->rc == RC_AGAIN) {
        memory_serve(gateway);
        if (wait->rc == RC_OK) {
            return; /* its timer runs once more */
        }
        if (env->clock->mono_ns(env) < wait->deadline_ns) {
            memory_arm(wait);
            return;
        }
        env->clock->timer_stop(env, timer);
        memory_leave(wait, RC_BUSY);
        memory_serve(gateway);
    }
    wait->done(wait);
}

enum rc stream_memory_take(struct gateway *gateway, struct memory_wait *wait, uint64_t bytes)
{
    struct stream_memory *memory = &gateway->memory;
    struct stream_pool *pool = memory_pool(gateway);

    ASSERT(wait->done != NULL);
    wait->bytes = bytes;
    if (stream_memory_try(gateway, bytes)) {
        return RC_OK;
    }
    if (memory->waiting_count >= MEMORY_WAITERS_MAX) {
        return RC_BUSY;
    }
    wait->rc = RC_AGAIN;
    wait->gateway = gateway;
    wait->timer.fire = memory_fire;
    wait->deadline_ns = gateway->env->clock->mono_ns(gateway->env) + memory_wait_ns;
    list_push_back(&memory->waiting, &wait->link);
    memory->waiting_count += 1;
    if (pool != NULL) {
        atomic_fetch_add_explicit(&pool->waiting_count, 1, memory_order_relaxed);
    }
    memory_arm(wait);
    return RC_AGAIN;
}

void stream_memory_give(struct gateway *gateway, uint64_t bytes)
{
    struct stream_pool *pool = memory_pool(gateway);

    ASSERT(gateway->memory.used_bytes >= bytes);
    memory_count(gateway, -(int64_t)bytes);
    if (pool != NULL) {
        atomic_fetch_sub_explicit(&pool->used_bytes, bytes, memory_order_relaxed);
    }
    memory_serve(gateway);
}
