#include "tests/lib/env_sim.h"

#include <string.h>

#include "tests/lib/sim_world.h"

/* ---- Random numbers: xorshift128+, seeded by splitmix64 ---- */

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint64_t sim_random(struct sim *sim)
{
    uint64_t a = sim->rng[0];
    uint64_t b = sim->rng[1];

    sim->rng[0] = b;
    a ^= a << 23;
    sim->rng[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
    return sim->rng[1] + b;
}

uint64_t sim_below(struct sim *sim, uint64_t bound)
{
    ASSERT(bound > 0);
    return sim_random(sim) % bound;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    ASSERT(low <= high);
    return low + sim_below(sim, high - low + 1);
}

bool sim_chance(struct sim *sim, uint32_t per_mille)
{
    return sim_below(sim, 1000) < per_mille;
}

/* ---- Events: a binary heap by (time, seq) ---- */

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->seq < b->seq;
}

static void heap_set(struct sim *sim, size_t slot, struct sim_event *event)
{
    sim->heap[slot] = event;
    event->slot = slot;
}

static void heap_up(struct sim *sim, struct sim_event *event)
{
    size_t slot = event->slot;

    while (slot > 0 && event_before(event, sim->heap[(slot - 1) / 2])) {
        heap_set(sim, slot, sim->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    heap_set(sim, slot, event);
}

static void heap_down(struct sim *sim, struct sim_event *event)
{
    size_t slot = event->slot;

    for (;;) {
        size_t child = slot * 2 + 1;

        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && event_before(sim->heap[child + 1], sim->heap[child])) {
            child += 1;
        }
        if (!event_before(sim->heap[child], event)) {
            break;
        }
        heap_set(sim, slot, sim->heap[child]);
        slot = child;
    }
    heap_set(sim, slot, event);
}

static void heap_remove(struct sim *sim, struct sim_event *event)
{
    size_t slot = event->slot;
    struct sim_event *last = sim->heap[sim->heap_count - 1];

    ASSERT(sim->heap[slot] == event);
    sim->heap_count -= 1;
    if (last != event) {
        heap_set(sim, slot, last);
        heap_up(sim, last);
        heap_down(sim, last);
    }
}

struct sim_event *sim_event_new(struct sim *sim, struct sim_node *node, uint64_t delay_ns,
                                void (*run)(struct sim_event *event), void *subject)
{
    struct sim_event *event = mem_alloc(sizeof(*event));

    ASSERT(delay_ns < UINT64_MAX / 4);
    event->run = run;
    event->time = sim->now + delay_ns;
    event->seq = sim->seq++;
    event->node = node;
    event->subject = subject;
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity == 0 ? 256 : sim->heap_capacity * 2;
        sim->heap = mem_realloc(sim->heap, sim->heap_capacity * sizeof(struct sim_event *));
    }
    event->slot = sim->heap_count;
    sim->heap_count += 1;
    heap_set(sim, event->slot, event);
    heap_up(sim, event);
    return event;
}

void sim_event_cancel(struct sim *sim, struct sim_event *event)
{
    heap_remove(sim, event);
    mem_free(event);
}

/* Takes every event of the node out; those that need it do what a crash does to them. */
static void events_drop(struct sim *sim, const struct sim_node *node)
{
    size_t count = 0;
    struct sim_event **dropped = mem_alloc(sizeof(struct sim_event *) * (sim->heap_count + 1));

    for (size_t i = 0; i < sim->heap_count; i++) {
        if (sim->heap[i]->node == node) {
            dropped[count++] = sim->heap[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct sim_event *event = dropped[i];

        heap_remove(sim, event);
        if (event->drop != NULL) {
            event->drop(event);
        }
        mem_free(event);
    }
    mem_free(dropped);
}

/* ---- The world ---- */

struct sim *sim_new(uint64_t seed)
{
    struct sim *sim = mem_alloc(sizeof(*sim));
    uint64_t state = seed;

    sim->rng[0] = splitmix(&state);
    sim->rng[1] = splitmix(&state);
    sim->now = SIM_S; /* so that 0 can mean "never" in the code under test */
    sim->next_port = 40000;
    list_init(&sim->nodes);
    list_init(&sim->ends);
    sim->net = (struct sim_net_faults){
        .latency_min_ns = 50 * SIM_US,
        .latency_max_ns = 500 * SIM_US,
        .window_bytes = 256UL * 1024,
    };
    return sim;
}

/* The world's own memory goes; that of the program (a sim_call, a buffer) may be gone already. */
static void events_free(struct sim *sim)
{
    sim->ending = true;
    for (size_t i = 0; i < sim->heap_count; i++) {
        struct sim_event *event = sim->heap[i];

        if (event->drop != NULL) {
            event->drop(event);
        }
        mem_free(event);
    }
    sim->heap_count = 0;
}

void sim_free(struct sim *sim)
{
    events_free(sim);
    sim_net_deinit(sim);
    while (!list_empty(&sim->nodes)) {
        struct sim_node *node = CONTAINER_OF(list_pop_front(&sim->nodes), struct sim_node, link);

        sim_files_deinit(node);
        while (!list_empty(&node->envs)) {
            mem_free(CONTAINER_OF(list_pop_front(&node->envs), struct sim_env, link));
        }
        mem_free(node);
    }
    mem_free(sim->heap);
    mem_free(sim);
}

uint64_t sim_now(const struct sim *sim)
{
    return sim->now;
}

bool sim_step(struct sim *sim)
{
    struct sim_event *event;

    if (sim->heap_count == 0) {
        return false;
    }
    event = sim->heap[0];
    heap_remove(sim, event);
    ASSERT(event->time >= sim->now);
    sim->now = event->time;
    if (event->node != NULL && event->node->stopped) {
        if (event->drop != NULL) {
            event->drop(event);
        }
    } else {
        event->run(event);
    }
    mem_free(event);
    return true;
}

void sim_run_for(struct sim *sim, uint64_t ns)
{
    (void)sim_run_until(sim, NULL, NULL, ns);
}

bool sim_run_until(struct sim *sim, bool (*until)(void *arg), void *arg, uint64_t timeout_ns)
{
    uint64_t end = sim->now + timeout_ns;

    for (;;) {
        if (until != NULL && until(arg)) {
            return true;
        }
        if (sim->heap_count == 0) {
            return until == NULL;
        }
        if (sim->heap[0]->time > end) {
            sim->now = end;
            return false;
        }
        (void)sim_step(sim);
    }
}

static void call_run(struct sim_event *event)
{
    struct sim_call *call = event->subject;

    call->event = NULL;
    call->run(call);
}

static void call_drop(struct sim_event *event)
{
    struct sim_call *call = event->subject;
    struct sim *sim = event->more;

    if (!sim->ending) {
        call->event = NULL;
    }
}

void sim_call_at(struct sim *sim, struct sim_node *node, struct sim_call *call, uint64_t delay_ns)
{
    struct sim_event *event;

    ASSERT(call->event == NULL);
    event = sim_event_new(sim, node, delay_ns, call_run, call);
    event->drop = call_drop;
    event->more = sim;
    call->event = event;
}

void sim_call_stop(struct sim *sim, struct sim_call *call)
{
    if (call->event != NULL) {
        sim_event_cancel(sim, call->event);
        call->event = NULL;
    }
}

/* ---- Nodes and loops ---- */

struct sim_node *sim_node_new(struct sim *sim, const char *name)
{
    struct sim_node *node = mem_alloc(sizeof(*node));

    ASSERT(strlen(name) < sizeof(node->name));
    memcpy(node->name, name, strlen(name));
    node->sim = sim;
    list_init(&node->envs);
    list_init(&node->listeners);
    list_push_back(&sim->nodes, &node->link);
    sim_files_init(node);
    return node;
}

struct sim *sim_of(struct env *env)
{
    return sim_env_of(env)->node->sim;
}

struct sim_node *sim_node_of(struct env *env)
{
    return sim_env_of(env)->node;
}

static uint64_t env_random(struct env *env)
{
    return sim_random(sim_of(env));
}

static void post_run(struct sim_event *event)
{
    struct env_post *post = event->subject;

    post->run(post);
}

static void env_post_to(struct env *target, struct env_post *post)
{
    struct sim_env *env = sim_env_of(target);
    struct sim *sim = env->node->sim;
    uint64_t at = sim->now + sim_between(sim, 1 * SIM_US, 20 * SIM_US);

    ASSERT(post->run != NULL);
    if (env->dead) {
        return; /* a message to a process that is gone */
    }
    at = at < env->last_post ? env->last_post : at;
    env->last_post = at;
    (void)sim_event_new(sim, env->node, at - sim->now, post_run, post);
}

struct env *sim_env_new(struct sim_node *node)
{
    struct sim_env *env = mem_alloc(sizeof(*env));

    ASSERT(!node->stopped);
    env->node = node;
    env->env = (struct env){
        .clock = &sim_clock,
        .worker = &sim_worker,
        .file = &sim_file,
        .disk = &sim_disk,
        .net = &sim_net,
        .random = env_random,
        .post = env_post_to,
        .simulated = true,
        .impl = env,
    };
    list_push_back(&node->envs, &env->link);
    return &env->env;
}

struct env *sim_env_alone(uint64_t seed)
{
    return sim_env_new(sim_node_new(sim_new(seed), "alone"));
}

void sim_crash(struct sim_node *node, enum sim_crash how)
{
    for (struct list *at = node->envs.next; at != &node->envs; at = at->next) {
        CONTAINER_OF(at, struct sim_env, link)->dead = true;
    }
    sim_net_crash(node);
    events_drop(node->sim, node);
    sim_files_crash(node, how);
    node->stopped = false;
    node->stop_at = 0;
}

void sim_stop_after(struct sim_node *node, uint64_t ops)
{
    node->stop_at = ops == 0 ? 0 : node->changes + ops;
}

bool sim_stopped(const struct sim_node *node)
{
    return node->stopped;
}

uint64_t sim_file_changes(const struct sim_node *node)
{
    return node->changes;
}

void sim_wall_jump(struct sim_node *node, int64_t ns)
{
    node->wall_offset_ns += ns;
}
