/*
 * Work jobs of the simulated world. A job runs at once at the virtual time at which it is due to
 * begin; its `done` comes later, by a random while plus the cost of the file calls that it made.
 *
 *     submit ── begin (run or batch) ── end ── done, on the loop of each work
 *
 * Pool jobs begin in any order; a queue does one job (or one batch) after the other.
 */
#include "tests/lib/sim_world.h"

/* Behind env_queue.impl. */
struct sim_queue {
    struct env_queue *queue;
    struct sim_node *node;
    struct list pending;
    bool busy; /* between begin (or its event) and end */
    uint64_t undone;
};

/* Jobs that began together, until they are done. */
struct sim_job {
    struct sim_queue *queue; /* NULL: the pool */
    size_t count;
    struct env_work *works[];
};

static void queue_schedule(struct sim_queue *queue);

static void work_done(struct sim_event *event)
{
    struct env_work *work = event->subject;
    struct sim_queue *queue = event->more;

    if (queue != NULL) {
        ASSERT(queue->undone > 0);
        queue->undone -= 1;
    }
    work->done(work);
}

/* The thread is free again; what it did is told to the loops. */
static void job_end(struct sim_event *event)
{
    struct sim_job *job = event->subject;
    struct sim *sim = event->node->sim;

    for (size_t i = 0; i < job->count; i++) {
        struct sim_event *done =
            sim_event_new(sim, sim_env_of(job->works[i]->env)->node, 0, work_done, job->works[i]);

        done->more = job->queue;
    }
    if (job->queue != NULL) {
        job->queue->busy = false;
        queue_schedule(job->queue);
    }
    mem_free(job);
}

static void job_drop(struct sim_event *event)
{
    mem_free(event->subject);
}

static void job_finish(struct sim_node *node, struct sim_job *job)
{
    struct sim *sim = node->sim;
    uint64_t delay = sim_between(sim, 1 * SIM_US, 100 * SIM_US) + node->cost_ns;
    struct sim_event *event = sim_event_new(sim, node, delay, job_end, job);

    event->drop = job_drop;
    node->cost_ns = 0;
}

static void pool_begin(struct sim_event *event)
{
    struct env_work *work = event->subject;
    struct sim_job *job = mem_alloc(sizeof(*job) + sizeof(struct env_work *));

    event->node->cost_ns = 0;
    work->run(work);
    job->count = 1;
    job->works[0] = work;
    job_finish(event->node, job);
}

static void queue_begin(struct sim_event *event)
{
    struct sim_queue *queue = event->subject;
    struct list batch;
    struct sim_job *job;
    size_t count = 0;

    list_init(&batch);
    while (!list_empty(&queue->pending) && (count == 0 || queue->queue->batch != NULL)) {
        list_push_back(&batch, list_pop_front(&queue->pending));
        count += 1;
    }
    ASSERT(count > 0);
    job = mem_alloc(sizeof(*job) + count * sizeof(struct env_work *));
    job->queue = queue;
    for (struct list *at = batch.next; at != &batch; at = at->next) {
        job->works[job->count++] = CONTAINER_OF(at, struct env_work, link);
    }
    queue->node->cost_ns = 0;
    if (queue->queue->batch != NULL) {
        queue->queue->batch(queue->queue, &batch);
    } else {
        list_remove(&job->works[0]->link);
        job->works[0]->run(job->works[0]);
    }
    job_finish(queue->node, job);
}

static void queue_schedule(struct sim_queue *queue)
{
    struct sim *sim = queue->node->sim;

    if (queue->busy || list_empty(&queue->pending)) {
        return;
    }
    queue->busy = true;
    (void)sim_event_new(sim, queue->node, sim_between(sim, 1 * SIM_US, 50 * SIM_US), queue_begin,
                        queue);
}

static void worker_queue_open(struct env *env, struct env_queue *queue)
{
    struct sim_queue *impl = mem_alloc(sizeof(*impl));

    ASSERT(queue->name != NULL && strlen(queue->name) <= 15);
    impl->queue = queue;
    impl->node = sim_node_of(env);
    list_init(&impl->pending);
    queue->impl = impl;
}

static void worker_queue_close(struct env *env, struct env_queue *queue)
{
    struct sim_queue *impl = queue->impl;

    (void)env;
    ASSERT(impl->undone == 0);
    ASSERT(!impl->busy && list_empty(&impl->pending));
    mem_free(impl);
    queue->impl = NULL;
}

static void worker_submit(struct env *env, struct env_queue *queue, struct env_work *work)
{
    struct sim_env *self = sim_env_of(env);
    struct sim *sim = self->node->sim;

    ASSERT(!self->dead);
    ASSERT(work->done != NULL);
    work->env = env;
    if (queue == NULL) {
        ASSERT(work->run != NULL);
        (void)sim_event_new(sim, self->node, sim_between(sim, 1 * SIM_US, 300 * SIM_US), pool_begin,
                            work);
        return;
    }
    ASSERT(work->run != NULL || queue->batch != NULL);
    struct sim_queue *impl = queue->impl;
    ASSERT(impl != NULL && impl->node == self->node);
    impl->undone += 1;
    list_push_back(&impl->pending, &work->link);
    queue_schedule(impl);
}

const struct env_worker sim_worker = {
    .queue_open = worker_queue_open,
    .queue_close = worker_queue_close,
    .submit = worker_submit,
};
