/*
 * Work off the loop: serial queues with a thread each, and the shared pool. The only locks of the
 * process live here: one per queue, held for a few instructions.
 *
 *     loop: submit --mutex--> pending --thread: run or batch--> finished (lock-free) --uv_async-->
 * loop: done
 */
#include "common/base/mem.h"
#include "common/env/uv_loop.h"

#include <signal.h>

/* env_work.reserved: [0] chains what is being run and what has finished. `link` is the owner's to
 * walk in `batch`, so it cannot be relied on afterwards. */
static struct env_work *work_next(struct env_work *work)
{
    return (struct env_work *)(uintptr_t)work->reserved[0];
}

static void work_set_next(struct env_work *before, struct env_work *after)
{
    before->reserved[0] = (uint64_t)(uintptr_t)after;
}

/* Any thread: hands it to its loop. */
static void work_finish(struct env_work *work)
{
    struct env_loop *loop = loop_of(work->env);
    struct env_work *head = atomic_load_explicit(&loop->finished, memory_order_relaxed);

    do {
        work_set_next(work, head);
    } while (!atomic_compare_exchange_weak_explicit(&loop->finished, &head, work,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL) {
        (void)uv_async_send(&loop->wake);
    }
}

void work_deliver(struct env_loop *loop)
{
    struct env_work *taken = atomic_exchange_explicit(&loop->finished, NULL, memory_order_acquire);
    struct env_work *ordered = NULL;

    while (taken != NULL) {
        struct env_work *next = work_next(taken);

        work_set_next(taken, ordered);
        ordered = taken;
        taken = next;
    }
    while (ordered != NULL) {
        struct env_work *work = ordered;

        ordered = work_next(work);
        work->done(work);
    }
}

static void queue_run_one(struct work_queue *queue)
{
    struct env_work *work = CONTAINER_OF(list_pop_front(&queue->pending), struct env_work, link);

    (void)pthread_mutex_unlock(&queue->mutex);
    work->run(work);
    work_finish(work);
    (void)pthread_mutex_lock(&queue->mutex);
}

/* Everything that is pending in one call. */
static void queue_run_batch(struct work_queue *queue)
{
    struct list works;
    struct env_work *first = NULL;
    struct env_work *last = NULL;

    list_init(&works);
    while (!list_empty(&queue->pending)) {
        struct list *link = list_pop_front(&queue->pending);
        struct env_work *work = CONTAINER_OF(link, struct env_work, link);

        list_push_back(&works, link);
        work_set_next(work, NULL);
        if (last == NULL) {
            first = work;
        } else {
            work_set_next(last, work);
        }
        last = work;
    }
    (void)pthread_mutex_unlock(&queue->mutex);
    queue->owner->batch(queue->owner, &works);
    while (first != NULL) {
        struct env_work *next = work_next(first);

        work_finish(first);
        first = next;
    }
    (void)pthread_mutex_lock(&queue->mutex);
}

static void *queue_main(void *arg)
{
    struct work_queue *queue = arg;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    (void)pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (list_empty(&queue->pending) && !queue->closing) {
            (void)pthread_cond_wait(&queue->wake, &queue->mutex);
        }
        if (list_empty(&queue->pending)) {
            break;
        }
        if (queue->owner != NULL && queue->owner->batch != NULL) {
            queue_run_batch(queue);
        } else {
            queue_run_one(queue);
        }
    }
    (void)pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

void work_queue_open(struct work_queue *queue, struct env_queue *owner, const char *name,
                     uint32_t thread_count)
{
    ASSERT(thread_count >= 1 && thread_count <= ENV_UV_POOL_MAX);
    queue->owner = owner;
    queue->closing = false;
    queue->thread_count = thread_count;
    list_init(&queue->pending);
    ASSERT(pthread_mutex_init(&queue->mutex, NULL) == 0);
    ASSERT(pthread_cond_init(&queue->wake, NULL) == 0);
    for (uint32_t i = 0; i < thread_count; i++) {
        ASSERT(pthread_create(&queue->threads[i], NULL, queue_main, queue) == 0);
        (void)pthread_setname_np(queue->threads[i], name);
    }
}

void work_queue_close(struct work_queue *queue)
{
    (void)pthread_mutex_lock(&queue->mutex);
    ASSERT(list_empty(&queue->pending));
    queue->closing = true;
    (void)pthread_cond_broadcast(&queue->wake);
    (void)pthread_mutex_unlock(&queue->mutex);
    for (uint32_t i = 0; i < queue->thread_count; i++) {
        ASSERT(pthread_join(queue->threads[i], NULL) == 0);
    }
    ASSERT(pthread_cond_destroy(&queue->wake) == 0);
    ASSERT(pthread_mutex_destroy(&queue->mutex) == 0);
}

void work_queue_add(struct work_queue *queue, struct env_work *work)
{
    (void)pthread_mutex_lock(&queue->mutex);
    ASSERT(!queue->closing);
    list_push_back(&queue->pending, &work->link);
    (void)pthread_cond_signal(&queue->wake);
    (void)pthread_mutex_unlock(&queue->mutex);
}

static void worker_queue_open(struct env *env, struct env_queue *queue)
{
    struct work_queue *impl = mem_alloc(sizeof(*impl));

    (void)env;
    ASSERT(queue->name != NULL && queue->impl == NULL);
    queue->impl = impl;
    work_queue_open(impl, queue, queue->name, 1);
}

static void worker_queue_close(struct env *env, struct env_queue *queue)
{
    (void)env;
    ASSERT(queue->impl != NULL);
    work_queue_close(queue->impl);
    mem_free(queue->impl);
    queue->impl = NULL;
}

static void worker_submit(struct env *env, struct env_queue *queue, struct env_work *work)
{
    ASSERT(work->done != NULL);
    ASSERT(work->run != NULL || (queue != NULL && queue->batch != NULL));
    work->env = env;
    work_queue_add(queue != NULL ? queue->impl : &loop_of(env)->world->pool, work);
}

const struct env_worker env_uv_worker = {
    .queue_open = worker_queue_open,
    .queue_close = worker_queue_close,
    .submit = worker_submit,
};
