/*
 * Private to common/env: what one loop of the real world is made of. Each of the files uv_*.c,
 * uring_disk.c and pool_disk.c fills one table of functions of `struct env`.
 */
#ifndef COMMON_ENV_UV_LOOP_H
#define COMMON_ENV_UV_LOOP_H

#include <assert.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "common/base/assert.h"
#include "common/env/env_uv.h"

/* A serial executor, or the shared pool: a list of pending work and the threads that take from it.
 */
struct work_queue {
    struct env_queue *owner; /* NULL: the pool */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct list pending; /* env_work.link */
    bool closing;
    uint32_t thread_count;
    pthread_t threads[ENV_UV_POOL_MAX];
};

struct timer_heap {
    struct env_timer **slots;
    size_t count;
    size_t capacity;
    uint64_t sequence;
    uint64_t armed_ns; /* when uv_timer fires; UINT64_MAX: not armed */
    uv_timer_t uv;
};

struct uring_disk {
    bool open;
    int eventfd;
    uint32_t in_flight;
    struct io_uring ring;
    uv_poll_t poll;
    uv_prepare_t prepare;
    struct env_io *waiting; /* no room in the ring; a chain in order */
    struct env_io **waiting_end;
};

struct env_loop {
    struct env env; /* env.impl is this struct */
    struct env_uv *world;
    uint32_t index;
    uv_loop_t uv;
    uv_async_t wake;
    _Atomic(struct env_work *) finished; /* pushed by any thread, taken whole by the loop */
    _Atomic(struct list *) posts;        /* env_post.link.next chains them */
    atomic_bool stopping;
    struct timer_heap timers;
    struct uring_disk disk;
    char *read_buffer; /* LIMIT_HTTP_READ_BYTES, shared by all streams of the loop */
    pthread_t thread;
    bool thread_started;
};

/* An address that this process listens on already: the next listener need not probe. */
struct held_address {
    struct sockaddr_storage address;
    uint32_t count;
};

enum { HELD_ADDRESSES_MAX = 16 };

struct env_uv {
    uint32_t loop_count;
    struct env_loop *loops[ENV_UV_LOOPS_MAX];
    struct work_queue pool;
    pthread_mutex_t held_mutex;
    struct held_address held[HELD_ADDRESSES_MAX];
    struct env_uv_signals *signals;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    bool signals_open;
};

static inline struct env_loop *loop_of(struct env *env)
{
    return (struct env_loop *)env->impl;
}

extern const struct env_clock env_uv_clock;
extern const struct env_worker env_uv_worker;
extern const struct env_file env_uv_file;
extern const struct env_disk env_uring_disk;
extern const struct env_disk env_pool_disk;
extern const struct env_net env_uv_net;

void timer_heap_open(struct env_loop *loop);
void timer_heap_close(struct env_loop *loop);
/* RC_UNSUPPORTED where io_uring is forbidden. */
enum rc uring_disk_open(struct env_loop *loop);
void uring_disk_close(struct env_loop *loop);
void work_queue_open(struct work_queue *queue, struct env_queue *owner, const char *name,
                     uint32_t thread_count);
void work_queue_close(struct work_queue *queue); /* joins */
void work_queue_add(struct work_queue *queue, struct env_work *work);
/* On the loop: `done` of what has finished, in order. */
void work_deliver(struct env_loop *loop);

#endif
