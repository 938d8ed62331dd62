#include "gateway/object/memory.h"

#include "common/base/assert.h"
#include "common/base/limits.h"

enum {
    MEMORY_SMALL_BYTES = LIMIT_REPLICA_BYTES, /* may use the reserved share */
    MEMORY_RESERVED_PART = 8,                 /* of the budget: one eighth */
    MEMORY_WAITERS_MAX = 256
};

/* A client waits a minute for its first byte; what has waited this long is better tried again
 * elsewhere. */
static const uint64_t memory_wait_ns = 20ULL * 1000 * 1000 * 1000;

static bool memory_fits(const struct stream_memory *memory, uint64_t bytes)
{
    uint64_t budget = memory->budget_bytes;

    if (bytes > MEMORY_SMALL_BYTES) {
        budget -= budget / MEMORY_RESERVED_PART;
    }
    return memory->used_bytes + bytes <= budget;
}

bool stream_memory_try(struct gateway *gateway, uint64_t bytes)
{
    struct stream_memory *memory = &gateway->memory;

    if (bytes > MEMORY_SMALL_BYTES && !list_empty(&memory->waiting)) {
        return false; /* nobody overtakes the line */
    }
    if (!memory_fits(memory, bytes)) {
        return false;
    }
    memory->used_bytes += bytes;
    return true;
}

void stream_memory_force(struct gateway *gateway, uint64_t bytes)
{
    gateway->memory.used_bytes += bytes;
}

/* Granted (out of the line already) or too late (still in it). */
static void memory_fire(struct env_timer *timer)
{
    struct memory_wait *wait = CONTAINER_OF(timer, struct memory_wait, timer);

    if (wait->rc == RC_AGAIN) {
        list_remove(&wait->link);
        wait->gateway->memory.waiting_count -= 1;
        wait->rc = RC_BUSY;
    }
    wait->done(wait);
}

enum rc stream_memory_take(struct gateway *gateway, struct memory_wait *wait, uint64_t bytes)
{
    struct stream_memory *memory = &gateway->memory;

    ASSERT(wait->done != NULL);
    if (stream_memory_try(gateway, bytes)) {
        return RC_OK;
    }
    if (memory->used_bytes == 0 && list_empty(&memory->waiting)) {
        memory->used_bytes += bytes; /* larger than the whole budget: it goes alone */
        return RC_OK;
    }
    if (memory->waiting_count >= MEMORY_WAITERS_MAX) {
        return RC_BUSY;
    }
    wait->rc = RC_AGAIN;
    wait->bytes = bytes;
    wait->gateway = gateway;
    wait->timer.fire = memory_fire;
    list_push_back(&memory->waiting, &wait->link);
    memory->waiting_count += 1;
    gateway->env->clock->timer_start(gateway->env, &wait->timer, memory_wait_ns);
    return RC_AGAIN;
}

/* The memory is the waiter's at once; it is told by its timer, on a stack of its own. */
static void memory_grant(struct stream_memory *memory, struct memory_wait *wait)
{
    struct env *env = wait->gateway->env;

    list_remove(&wait->link);
    memory->waiting_count -= 1;
    memory->used_bytes += wait->bytes;
    wait->rc = RC_OK;
    env->clock->timer_start(env, &wait->timer, 0);
}

void stream_memory_give(struct gateway *gateway, uint64_t bytes)
{
    struct stream_memory *memory = &gateway->memory;

    ASSERT(memory->used_bytes >= bytes);
    memory->used_bytes -= bytes;
    while (!list_empty(&memory->waiting)) {
        struct memory_wait *first = CONTAINER_OF(memory->waiting.next, struct memory_wait, link);

        if (!memory_fits(memory, first->bytes) && memory->used_bytes > 0) {
            break;
        }
        memory_grant(memory, first);
    }
}
