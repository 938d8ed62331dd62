#include "gateway/object/read_window.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/ec/ec.h"
#include "gateway/object/memory.h"

static const uint64_t ns_per_ms = 1000000;

/* One shard read with its buffer. `window` NULL: the window went, nobody waits. */
struct read_op {
    struct shard_read call;
    struct read_window *window;
    struct gateway *gateway;
    bool done;
    uint64_t forced_bytes; /* memory that the window's owner has not admitted */
    char *data;
};

static uint32_t window_shards(const struct read_window *window)
{
    return window->extent.k + window->extent.m;
}

/* How many shards make the wanted ones. Any one copy of a replica is enough. */
static uint32_t window_need(const struct read_window *window)
{
    return window->extent.replica ? 1 : window->extent.k;
}

/* ---- Making ---- */

static uint64_t window_round_down(uint64_t value)
{
    return value / LIMIT_BLOCK_BYTES * LIMIT_BLOCK_BYTES;
}

/* One span for all units, the union of what is wanted of each in whole blocks: so a rebuild never
 * needs a range that was not read. */
static void window_set_span(struct read_window *window)
{
    uint64_t unit = window->stripe.unit;
    uint32_t first = (uint32_t)(window->from / unit);
    uint32_t last = (uint32_t)((window->to - 1) / unit);
    uint64_t low = first == last ? window->from % unit : 0;
    uint64_t high = first == last ? (window->to - 1) % unit + 1 : unit;

    window->wanted = (uint32_t)((2ULL << last) - (1ULL << first));
    window->span_at = window_round_down(low);
    high = window_round_down(high + LIMIT_BLOCK_BYTES - 1);
    window->span_len = (size_t)((high < unit ? high : unit) - window->span_at);
    window->memory_bytes = (uint64_t)__builtin_popcount(window->wanted) * window->span_len;
}

struct read_window *read_window_new(struct gateway *gateway, const struct read_extent *extent,
                                    uint64_t at, uint64_t length)
{
    struct read_window *window = mem_alloc(sizeof(*window));
    struct stripe_geometry geometry = {
        .k = extent->k, .unit = extent->replica ? 0 : extent->unit, .length = extent->length};

    ASSERT(length > 0 && at < extent->length);
    window->gateway = gateway;
    window->extent = *extent;
    window->stripe = stripe_of(&geometry, at);
    window->from = at - window->stripe.extent_at;
    window->length = window->stripe.data_len - window->from;
    window->length = window->length < length ? window->length : length;
    window->to = window->from + window->length;
    window_set_span(window);
    return window;
}

/* ---- The end ---- */

static void op_free(struct read_op *op)
{
    if (op->forced_bytes > 0) {
        stream_memory_give(op->gateway, op->forced_bytes);
    }
    mem_free(op->data);
    mem_free(op);
}

void read_window_free(struct read_window *window)
{
    struct env *env = window->gateway->env;

    env->clock->timer_stop(env, &window->hedge);
    for (uint32_t i = 0; i < window_shards(window); i++) {
        struct read_op *op = window->ops[i];

        if (op == NULL) {
            continue;
        }
        if (op->done) {
            op_free(op);
            continue;
        }
        op->window = NULL;
        window->gateway->active_requests += 1; /* the gateway outlives it */
        if (op->forced_bytes == 0) {
            op->forced_bytes = window->span_len;
            stream_memory_force(window->gateway, op->forced_bytes);
        }
    }
    for (uint32_t i = 0; i < LIMIT_DATA_SHARDS; i++) {
        mem_free(window->rebuilt[i]);
    }
    mem_free(window);
}

static void window_finish(struct read_window *window, enum rc rc)
{
    struct env *env = window->gateway->env;

    env->clock->timer_stop(env, &window->hedge);
    window->rc = rc;
    window->ready = rc == RC_OK;
    window->done(window);
}

/* ---- Ready ---- */

/* Bytes of the span of wanted shard `i`. */
static const char *window_unit(const struct read_window *window, uint32_t i)
{
    if (window->extent.replica) {
        return window->ops[__builtin_ctz(window->there)]->data;
    }
    return window->rebuilt[i] != NULL ? window->rebuilt[i] : window->ops[i]->data;
}

static void window_cut_slices(struct read_window *window)
{
    uint64_t unit = window->stripe.unit;

    for (uint64_t at = window->from; at < window->to;) {
        uint32_t shard = (uint32_t)(at / unit);
        uint64_t end = (shard + 1) * unit < window->to ? (shard + 1) * unit : window->to;
        const char *data = window_unit(window, shard);

        window->slices[window->slice_count] =
            slice_of(data + (at - shard * unit - window->span_at), (size_t)(end - at));
        window->slice_count += 1;
        at = end;
    }
}

static bool window_rebuild(struct read_window *window)
{
    uint8_t *shards[LIMIT_SHARDS] = {NULL};
    const struct ec *ec = ec_get(window->extent.k, window->extent.m);
    uint32_t missing = window->wanted & ~window->there;

    for (uint32_t i = 0; i < window_shards(window); i++) {
        if ((window->there >> i & 1) != 0) {
            shards[i] = (uint8_t *)window->ops[i]->data;
        }
    }
    for (uint32_t i = 0; i < window->extent.k; i++) {
        if ((missing >> i & 1) == 0) {
            continue;
        }
        window->rebuilt[i] = mem_alloc_pages(window->span_len);
        if (!ec_rebuild(ec, window->span_len, shards, window->there, i,
                        (uint8_t *)window->rebuilt[i])) {
            return false;
        }
    }
    return true;
}

/* ---- Asking ---- */

static void window_go_on(struct read_window *window);

static void op_done(struct shard_read *call)
{
    struct read_op *op = CONTAINER_OF(call, struct read_op, call);
    struct read_window *window = op->window;
    uint32_t bit = 1U << call->shard.index;

    op->done = true;
    if (window == NULL) {
        op->gateway->active_requests -= 1;
        op_free(op);
        return;
    }
    if (call->rc == RC_OK) {
        window->there |= bit;
    } else {
        window->lost |= bit;
        window->corrupt = window->corrupt || call->rc == RC_CORRUPT;
        window->not_found = window->not_found || call->rc == RC_NOT_FOUND;
    }
    if (!window->ready && window->rc == RC_OK) {
        window_go_on(window);
    }
}

static void window_ask(struct read_window *window, uint32_t index, bool admitted)
{
    struct read_op *op = mem_alloc(sizeof(*op));
    struct data_client *data = window->gateway->data;

    op->window = window;
    op->gateway = window->gateway;
    op->data = mem_alloc_pages(window->span_len);
    op->forced_bytes = admitted ? 0 : window->span_len;
    if (!admitted) {
        stream_memory_force(window->gateway, op->forced_bytes);
    }
    op->call.disk = window->extent.disks[index];
    op->call.shard = (struct shard_id){.extent = window->extent.id, .index = index};
    op->call.at = window->stripe.shard_at + window->span_at;
    op->call.len = window->span_len;
    op->call.to = op->data;
    op->call.done = op_done;
    window->ops[index] = op;
    window->asked |= 1U << index;
    data->read(data, &op->call);
}

/* The best shard not asked yet: known to be durable, on a disk that is well. */
static bool window_candidate(const struct read_window *window, uint32_t *index)
{
    struct data_client *data = window->gateway->data;
    int best = -1;

    for (uint32_t i = 0; i < window_shards(window); i++) {
        int rank = ((window->extent.durable >> i & 1) != 0 ? 2 : 0) +
                   (data->healthy(data, window->extent.disks[i]) ? 1 : 0);

        if ((window->asked >> i & 1) == 0 && rank > best) {
            best = rank;
            *index = i;
        }
    }
    return best >= 0;
}

static enum rc window_failure(const struct read_window *window)
{
    if (window->corrupt) {
        return RC_CORRUPT;
    }
    return window->not_found ? RC_NOT_FOUND : RC_IO;
}

/* Asks others until enough can answer, apart from those that failed or are slow. False: there are
 * too few. */
static bool window_substitute(struct read_window *window)
{
    uint32_t need = window_need(window);
    uint32_t hopeful = (window->asked & ~window->lost & ~window->slow) | window->there;
    uint32_t index;

    while ((uint32_t)__builtin_popcount(hopeful) < need && window_candidate(window, &index)) {
        window_ask(window, index, false);
        hopeful |= 1U << index;
    }
    return (uint32_t)__builtin_popcount(window->asked & ~window->lost) >= need;
}

static bool window_complete(const struct read_window *window)
{
    if (window->extent.replica) {
        return window->there != 0;
    }
    return (window->wanted & ~window->there) == 0 ||
           (uint32_t)__builtin_popcount(window->there) >= window_need(window);
}

static void window_go_on(struct read_window *window)
{
    bool direct = (window->wanted & ~window->there) == 0 || window->extent.replica;

    if (window_complete(window)) {
        if (!direct && !window_rebuild(window)) {
            window_finish(window, RC_CORRUPT);
            return;
        }
        window_cut_slices(window);
        window_finish(window, RC_OK);
        return;
    }
    /* All wanted ones are on their way: nothing else is needed yet. */
    bool degraded = window->slow != 0 || (window->wanted & window->lost) != 0 ||
                    (window->wanted & ~window->asked) != 0;
    if (degraded && !window_substitute(window)) {
        window_finish(window, window_failure(window));
    }
}

static void window_hedge(struct env_timer *timer)
{
    struct read_window *window = CONTAINER_OF(timer, struct read_window, hedge);

    window->slow = window->asked & ~window->there & ~window->lost;
    window_go_on(window);
}

/* A replica's copies share the load: the first one asked is drawn. */
static void window_start_replica(struct read_window *window)
{
    struct env *env = window->gateway->env;
    uint32_t count = window_shards(window);
    uint32_t start = (uint32_t)(env->random(env) % count);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (start + i) % count;

        if ((window->extent.durable >> index & 1) != 0 &&
            window->gateway->data->healthy(window->gateway->data, window->extent.disks[index])) {
            window_ask(window, index, true);
            return;
        }
    }
    (void)window_substitute(window);
}

void read_window_start(struct read_window *window)
{
    struct env *env = window->gateway->env;
    uint64_t hedge_ms = window->gateway->config->hedge_ms;

    ASSERT(window->done != NULL);
    if (window->extent.replica) {
        window_start_replica(window);
    } else {
        for (uint32_t i = 0; i < window->extent.k; i++) {
            if ((window->wanted >> i & 1) != 0 && (window->extent.durable >> i & 1) != 0) {
                window_ask(window, i, true);
            }
        }
        if ((window->wanted & ~window->asked) != 0) {
            (void)window_substitute(window); /* there is always a shard to ask first */
        }
    }
    ASSERT(window->asked != 0);
    window->hedge.fire = window_hedge;
    if (hedge_ms > 0 && window->extent.m > 0) {
        env->clock->timer_start(env, &window->hedge, hedge_ms * ns_per_ms);
    }
}
