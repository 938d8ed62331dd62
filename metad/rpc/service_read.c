/*
 * META_GET to META_JOBS: one struct read_job a request.
 *
 *     head unpacked, bounds checked -> (its turn) -> local client -> rows into a page -> reply
 *
 * An inline body goes from the store's block to the connection; it is given back when it was sent.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/rpc/service_private.h"

static void read_next(struct meta_service *service);

static void read_free(struct read_job *job)
{
    struct meta_service *service = job->service;
    bool paged = job->kind->paged;

    if (job->lent) {
        service->meta->release(service->meta, &job->call.get);
    }
    buffer_deinit(&job->out);
    arena_deinit(&job->arena);
    mem_free(job);
    if (paged) {
        service->page_count -= 1;
        read_next(service);
    }
    service_done(service);
}

static void read_sent(struct rpc_reply *reply)
{
    read_free(CONTAINER_OF(reply, struct read_job, reply));
}

static void read_refuse(struct read_job *job, enum rc rc, const char *text)
{
    service_refuse_request(job->service, job->request, rc, text);
    read_free(job);
}

static void read_reply(struct read_job *job)
{
    bool get = job->kind->method == RPC_META_GET;

    job->reply = (struct rpc_reply){
        .rc = RC_OK, .message = get ? &job->got.base : &job->page.base, .sent = read_sent};
    job->reply.body[0] = get ? job->call.get.body : buffer_slice(&job->out);
    job->reply.body_count = job->reply.body[0].len > 0 ? 1 : 0;
    rpc_reply(job->request, &job->reply);
}

static enum step_result read_step(struct task *task)
{
    struct read_job *job = CONTAINER_OF(task, struct read_job, task);

    return job->kind->run(job);
}

static void read_answered(struct task *task)
{
    struct read_job *job = CONTAINER_OF(task, struct read_job, task);
    enum rc rc = task->error.rc;

    if (rc != RC_OK) {
        read_refuse(job, rc, task->error.text);
        return;
    }
    job->lent = job->kind->method == RPC_META_GET;
    rc = job->kind->answer(job);
    if (rc != RC_OK) {
        read_refuse(job, rc, "the answer is too large for one frame");
        return;
    }
    read_reply(job);
}

static const struct step read_steps[] = {
    {"read", read_step},
    {NULL,   NULL     }
};

static void read_begin(struct read_job *job)
{
    if (job->kind->paged) {
        job->service->page_count += 1;
    }
    task_start(&job->task, read_steps, read_answered);
}

/* ---- Turns ---- */

static void read_unqueue(struct read_job *job)
{
    list_remove(&job->link);
    job->service->waiting_count -= 1;
    job->request->on_cancel = NULL;
}

/* It never ran: it holds no turn. */
static void read_give_up(struct read_job *job, enum rc rc)
{
    struct meta_service *service = job->service;

    rpc_reply_rc(job->request, rc);
    buffer_deinit(&job->out);
    arena_deinit(&job->arena);
    mem_free(job);
    service_done(service);
}

static void read_cancel(struct rpc_request *request)
{
    struct read_job *job = request->owner;

    read_unqueue(job);
    read_give_up(job, RC_CANCELLED);
}

static void read_next(struct meta_service *service)
{
    while (service->page_count < META_SERVICE_PAGES && !list_empty(&service->waiting)) {
        struct read_job *job = CONTAINER_OF(service->waiting.next, struct read_job, link);

        read_unqueue(job);
        read_begin(job);
    }
}

void service_read(struct meta_service *service, const struct read_kind *kind,
                  struct rpc_request *request)
{
    struct read_job *job = mem_alloc(sizeof(*job));
    const void *head;
    enum rc rc;

    job->service = service;
    job->request = request;
    job->kind = kind;
    list_init(&job->link);
    arena_init(&job->arena);
    buffer_init(&job->out);
    kist__meta_page__init(&job->page);
    kist__meta_get_reply__init(&job->got);
    service_opened(service);
    head = wire_unpack(&job->arena, kind->head, request->head);
    rc = head != NULL ? kind->parse(job, head) : RC_INVALID;
    if (rc != RC_OK) {
        read_give_up(job, rc);
    } else if (!kind->paged || service->page_count < META_SERVICE_PAGES) {
        read_begin(job);
    } else if (service->waiting_count >= META_SERVICE_WAITING) {
        read_give_up(job, RC_BUSY);
    } else {
        list_push_back(&service->waiting, &job->link);
        service->waiting_count += 1;
        request->owner = job;
        request->on_cancel = read_cancel;
    }
}

void service_read_tick(struct meta_service *service)
{
    struct list *at = service->waiting.next;

    while (at != &service->waiting) {
        struct read_job *job = CONTAINER_OF(at, struct read_job, link);

        at = at->next;
        if (service_late(service, job->request)) {
            read_unqueue(job);
            read_give_up(job, RC_TIMEOUT);
        }
    }
}

void service_read_close(struct meta_service *service)
{
    while (!list_empty(&service->waiting)) {
        struct read_job *job = CONTAINER_OF(service->waiting.next, struct read_job, link);

        read_unqueue(job);
        read_give_up(job, RC_UNSUPPORTED);
    }
}
