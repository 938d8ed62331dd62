/*
 * The world of libuv: makes the loops, turns them, wakes them from other threads, stops them.
 *
 *     any thread --env_post / finished work--> lock-free stack --uv_async--> loop: taken whole,
 * reversed
 *
 * One wake-up serves everything that was pushed since the last one.
 */
#include "common/env/env_uv.h"

#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/env/uv_loop.h"
#include "common/log/log.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { RANDOM_WORDS = 64, POOL_COUNT_DEFAULT = 4 };

/* Fetched 64 words at a time: a system call for each id would cost more than the id. */
static uint64_t env_uv_random(struct env *env)
{
    static _Thread_local uint64_t words[RANDOM_WORDS];
    static _Thread_local unsigned left;

    (void)env;
    if (left == 0) {
        ssize_t got;

        do {
            got = getrandom(words, sizeof(words), 0);
        } while (got < 0 && errno == EINTR);
        ASSERT(got == (ssize_t)sizeof(words));
        left = RANDOM_WORDS;
    }
    left -= 1;
    return words[left];
}

static void env_uv_post(struct env *target, struct env_post *post)
{
    struct env_loop *loop = loop_of(target);
    struct list *head = atomic_load_explicit(&loop->posts, memory_order_relaxed);

    do {
        post->link.next = head;
    } while (!atomic_compare_exchange_weak_explicit(&loop->posts, &head, &post->link,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL) {
        (void)uv_async_send(&loop->wake);
    }
}

static void loop_run_posts(struct env_loop *loop)
{
    struct list *taken = atomic_exchange_explicit(&loop->posts, NULL, memory_order_acquire);
    struct list *ordered = NULL;

    while (taken != NULL) {
        struct list *next = taken->next;

        taken->next = ordered;
        ordered = taken;
        taken = next;
    }
    while (ordered != NULL) {
        struct env_post *post = CONTAINER_OF(ordered, struct env_post, link);

        ordered = ordered->next;
        post->run(post);
    }
}

static void loop_on_wake(uv_async_t *wake)
{
    struct env_loop *loop = wake->data;

    work_deliver(loop);
    loop_run_posts(loop);
    if (atomic_exchange(&loop->stopping, false)) {
        uv_stop(&loop->uv);
    }
}

static struct env_loop *loop_new(struct env_uv *world, uint32_t index, bool without_uring)
{
    struct env_loop *loop = mem_alloc(sizeof(*loop));
    int status = uv_loop_init(&loop->uv);

    if (status != 0) {
        mem_free(loop);
        return NULL;
    }
    loop->world = world;
    loop->index = index;
    loop->read_buffer = mem_alloc_pages(LIMIT_HTTP_READ_BYTES);
    status = uv_async_init(&loop->uv, &loop->wake, loop_on_wake);
    ASSERT(status == 0);
    loop->wake.data = loop;
    timer_heap_open(loop);
    loop->env = (struct env){
        .clock = &env_uv_clock,
        .worker = &env_uv_worker,
        .file = &env_uv_file,
        .disk = &env_pool_disk,
        .net = &env_uv_net,
        .random = env_uv_random,
        .post = env_uv_post,
        .impl = loop,
    };
    if (!without_uring && uring_disk_open(loop) == RC_OK) {
        loop->env.disk = &env_uring_disk;
    }
    return loop;
}

static void loop_free(struct env_loop *loop)
{
    timer_heap_close(loop);
    uring_disk_close(loop);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    ASSERT(uv_loop_close(&loop->uv) == 0);
    mem_free(loop->read_buffer);
    mem_free(loop);
}

uint32_t env_uv_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    return (uint32_t)CPU_COUNT(&set);
}

struct env_uv *env_uv_open(const struct env_uv_options *options, struct error *error)
{
    static const struct env_uv_options defaults;
    struct env_uv *world = mem_alloc(sizeof(*world));
    uint32_t pool_count;

    options = options != NULL ? options : &defaults;
    world->loop_count = options->loop_count != 0 ? options->loop_count : env_uv_cores();
    if (world->loop_count > ENV_UV_LOOPS_MAX) {
        world->loop_count = ENV_UV_LOOPS_MAX;
    }
    pool_count = options->pool_count != 0 ? options->pool_count : POOL_COUNT_DEFAULT;
    pool_count = pool_count > ENV_UV_POOL_MAX ? ENV_UV_POOL_MAX : pool_count;
    (void)signal(SIGPIPE, SIG_IGN);
    ASSERT(pthread_mutex_init(&world->held_mutex, NULL) == 0);
    for (uint32_t i = 0; i < world->loop_count; i++) {
        world->loops[i] = loop_new(world, i, options->without_uring);
        if (world->loops[i] == NULL) {
            (void)error_set(error, RC_IO, "cannot make loop %u: too many open files?", i);
            while (i > 0) {
                i -= 1;
                loop_free(world->loops[i]);
            }
            mem_free(world);
            return NULL;
        }
    }
    work_queue_open(&world->pool, NULL, "kist-pool", pool_count);
    return world;
}

uint32_t env_uv_count(const struct env_uv *world)
{
    return world->loop_count;
}

struct env *env_uv_env(struct env_uv *world, uint32_t index)
{
    ASSERT(index < world->loop_count);
    return &world->loops[index]->env;
}

bool env_uv_has_uring(const struct env_uv *world)
{
    for (uint32_t i = 0; i < world->loop_count; i++) {
        if (!world->loops[i]->disk.open) {
            return false;
        }
    }
    return true;
}

void env_uv_run(struct env *env)
{
    (void)uv_run(&loop_of(env)->uv, UV_RUN_DEFAULT);
}

void env_uv_stop(struct env *env)
{
    struct env_loop *loop = loop_of(env);

    atomic_store(&loop->stopping, true);
    (void)uv_async_send(&loop->wake);
}

static void *loop_main(void *arg)
{
    struct env_loop *loop = arg;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    env_uv_run(&loop->env);
    return NULL;
}

void env_uv_start(struct env_uv *world)
{
    for (uint32_t i = 1; i < world->loop_count; i++) {
        struct env_loop *loop = world->loops[i];
        char name[16];

        ASSERT(!loop->thread_started);
        ASSERT(pthread_create(&loop->thread, NULL, loop_main, loop) == 0);
        loop->thread_started = true;
        (void)snprintf(name, sizeof(name), "kist-loop-%u", i);
        (void)pthread_setname_np(loop->thread, name);
    }
}

static void world_on_signal(uv_signal_t *handle, int number)
{
    struct env_uv *world = handle->data;

    world->signals->on_signal(world->signals, number);
}

void env_uv_watch_signals(struct env_uv *world, struct env_uv_signals *signals)
{
    uv_loop_t *uv = &world->loops[0]->uv;

    ASSERT(!world->signals_open && signals->on_signal != NULL);
    world->signals = signals;
    world->signals_open = true;
    ASSERT(uv_signal_init(uv, &world->sigterm) == 0);
    ASSERT(uv_signal_init(uv, &world->sigint) == 0);
    world->sigterm.data = world;
    world->sigint.data = world;
    (void)uv_signal_start(&world->sigterm, world_on_signal, SIGTERM);
    (void)uv_signal_start(&world->sigint, world_on_signal, SIGINT);
}

void env_uv_close(struct env_uv *world)
{
    for (uint32_t i = 1; i < world->loop_count; i++) {
        struct env_loop *loop = world->loops[i];

        if (loop->thread_started) {
            env_uv_stop(&loop->env);
            ASSERT(pthread_join(loop->thread, NULL) == 0);
        }
    }
    work_queue_close(&world->pool);
    if (world->signals_open) {
        uv_close((uv_handle_t *)&world->sigterm, NULL);
        uv_close((uv_handle_t *)&world->sigint, NULL);
    }
    for (uint32_t i = 0; i < world->loop_count; i++) {
        loop_free(world->loops[i]);
    }
    ASSERT(pthread_mutex_destroy(&world->held_mutex) == 0);
    mem_free(world);
}
