/*
 * Clock and timers. Timers are a binary heap per loop behind one uv_timer_t: a uv_timer_t of its
 * own in every `struct env_timer` could not be given back at once (libuv keeps each handle in a
 * list until uv_close has completed), and requests start and stop timers far more often than timers
 * fire.
 *
 * libuv counts whole milliseconds, so a timer may fire up to a millisecond late, never early.
 */
#include "common/base/mem.h"
#include "common/env/uv_loop.h"

#include <time.h>

enum { TIMER_SLOTS_FIRST = 64, NS_PER_MS = 1000000 };

struct timer_state {
    uint64_t due_ns;
    uint64_t sequence; /* equal times fire in the order started */
    size_t slot;       /* 1 + place in the heap; 0: not running */
};

static_assert(sizeof(struct timer_state) <= sizeof(((struct env_timer *)0)->reserved), "reserved");

static struct timer_state *timer_state(struct env_timer *timer)
{
    return (struct timer_state *)(void *)timer->reserved;
}

static uint64_t clock_read(clockid_t id)
{
    struct timespec time;

    ASSERT(clock_gettime(id, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

static uint64_t clock_mono_ns(struct env *env)
{
    (void)env;
    return clock_read(CLOCK_BOOTTIME);
}

static uint64_t clock_wall_ns(struct env *env)
{
    (void)env;
    return clock_read(CLOCK_REALTIME);
}

static bool timer_before(struct env_timer *a, struct env_timer *b)
{
    const struct timer_state *left = timer_state(a);
    const struct timer_state *right = timer_state(b);

    return left->due_ns != right->due_ns ? left->due_ns < right->due_ns
                                         : left->sequence < right->sequence;
}

static void heap_put(struct timer_heap *heap, size_t at, struct env_timer *timer)
{
    heap->slots[at] = timer;
    timer_state(timer)->slot = at + 1;
}

static void heap_up(struct timer_heap *heap, size_t at)
{
    struct env_timer *timer = heap->slots[at];

    while (at > 0 && timer_before(timer, heap->slots[(at - 1) / 2])) {
        heap_put(heap, at, heap->slots[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(heap, at, timer);
}

static void heap_down(struct timer_heap *heap, size_t at)
{
    struct env_timer *timer = heap->slots[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && timer_before(heap->slots[child + 1], heap->slots[child])) {
            child += 1;
        }
        if (!timer_before(heap->slots[child], timer)) {
            break;
        }
        heap_put(heap, at, heap->slots[child]);
        at = child;
    }
    heap_put(heap, at, timer);
}

static void heap_remove(struct timer_heap *heap, struct env_timer *timer)
{
    size_t at = timer_state(timer)->slot - 1;
    struct env_timer *last = heap->slots[heap->count - 1];

    ASSERT(heap->slots[at] == timer);
    timer_state(timer)->slot = 0;
    heap->count -= 1;
    if (last != timer) {
        heap_put(heap, at, last);
        heap_down(heap, at);
        heap_up(heap, timer_state(last)->slot - 1);
    }
}

static void timers_on_due(uv_timer_t *uv);

static void timers_arm(struct timer_heap *heap)
{
    uint64_t due_ns = heap->count > 0 ? timer_state(heap->slots[0])->due_ns : UINT64_MAX;
    uint64_t now_ns;
    uint64_t wait_ms;

    if (due_ns >= heap->armed_ns) {
        return; /* it wakes early enough, and looks again then */
    }
    now_ns = clock_mono_ns(NULL);
    wait_ms = due_ns > now_ns ? (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    heap->armed_ns = due_ns;
    (void)uv_timer_start(&heap->uv, timers_on_due, wait_ms, 0);
}

static void timers_on_due(uv_timer_t *uv)
{
    struct timer_heap *heap = uv->data;
    uint64_t now_ns = clock_mono_ns(NULL);
    uint64_t started_before = heap->sequence; /* one started in a `fire` waits for the next turn */

    heap->armed_ns = UINT64_MAX;
    while (heap->count > 0) {
        struct env_timer *timer = heap->slots[0];

        if (timer_state(timer)->due_ns > now_ns || timer_state(timer)->sequence >= started_before) {
            break;
        }
        heap_remove(heap, timer);
        timer->fire(timer);
    }
    timers_arm(heap);
}

static void clock_timer_stop(struct env *env, struct env_timer *timer)
{
    if (timer_state(timer)->slot != 0) {
        heap_remove(&loop_of(env)->timers, timer);
    }
}

static void clock_timer_start(struct env *env, struct env_timer *timer, uint64_t delay_ns)
{
    struct timer_heap *heap = &loop_of(env)->timers;
    struct timer_state *state = timer_state(timer);
    uint64_t now_ns = clock_mono_ns(env);

    ASSERT(timer->fire != NULL);
    clock_timer_stop(env, timer);
    state->due_ns = delay_ns < UINT64_MAX - now_ns ? now_ns + delay_ns : UINT64_MAX - 1;
    state->sequence = heap->sequence;
    heap->sequence += 1;
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity > 0 ? heap->capacity * 2 : TIMER_SLOTS_FIRST;
        heap->slots = mem_realloc(heap->slots, heap->capacity * sizeof(struct env_timer *));
    }
    heap->slots[heap->count] = timer;
    heap->count += 1;
    heap_up(heap, heap->count - 1);
    timers_arm(heap);
}

void timer_heap_open(struct env_loop *loop)
{
    ASSERT(uv_timer_init(&loop->uv, &loop->timers.uv) == 0);
    loop->timers.uv.data = &loop->timers;
    loop->timers.armed_ns = UINT64_MAX;
}

void timer_heap_close(struct env_loop *loop)
{
    uv_close((uv_handle_t *)&loop->timers.uv, NULL);
    mem_free(loop->timers.slots);
    loop->timers.slots = NULL;
    loop->timers.count = 0;
}

const struct env_clock env_uv_clock = {
    .mono_ns = clock_mono_ns,
    .wall_ns = clock_wall_ns,
    .timer_start = clock_timer_start,
    .timer_stop = clock_timer_stop,
};
