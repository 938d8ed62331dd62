/*
 * META_VIEW: root's rows for those who believe them (DESIGN 4.5).
 *
 *     at once     the newest, if it is newer than the one the asker has
 *     wait        the same when it changes, or when the change feed moves, or after that time
 *     fresh       after a refresh that begins now
 *     offset > 0  the next part of a view of which the first was sent
 *
 * A view is packed once, whoever asks. The one before is kept, so that whoever is in the middle of
 * it comes to its end; who is later still begins again with the newest.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/meta_rpc/view_wire.h"
#include "metad/rpc/service_private.h"

static const uint64_t NS_PER_MS = 1000000ULL;

struct view_job {
    struct list link; /* watchers */
    struct meta_service *service;
    struct rpc_request *request;
    uint64_t until_ns;
    Kist__MetaView head; /* no pointers in it */
    struct task task;
    struct meta_refresh refresh;
    struct rpc_reply reply;
    struct packed_view *packed; /* lent to the reply */
};

static void view_job_free(struct view_job *job)
{
    struct meta_service *service = job->service;

    mem_free(job);
    service_done(service);
}

/* ---- Packed views ---- */

static void packed_unref(struct packed_view *packed)
{
    if (packed == NULL) {
        return;
    }
    ASSERT(packed->references > 0);
    packed->references -= 1;
    if (packed->references == 0) {
        buffer_deinit(&packed->bytes);
        mem_free(packed);
    }
}

static struct packed_view *packed_newest(struct meta_service *service)
{
    const struct view *view = service->meta->view(service->meta);
    struct packed_view *packed;

    if (service->packed != NULL && service->packed->version == view_version(view)) {
        return service->packed;
    }
    packed = mem_alloc(sizeof(*packed));
    packed->references = 1;
    packed->version = view_version(view);
    buffer_init(&packed->bytes);
    view_wire_pack(view, &packed->bytes);
    packed_unref(service->before);
    service->before = service->packed;
    service->packed = packed;
    return packed;
}

/* ---- Answers ---- */

static void view_sent(struct rpc_reply *reply)
{
    struct view_job *job = CONTAINER_OF(reply, struct view_job, reply);

    packed_unref(job->packed);
    view_job_free(job);
}

static void view_reply(struct view_job *job, struct packed_view *packed, uint64_t offset)
{
    struct meta_service *service = job->service;
    Kist__MetaViewReply head = KIST__META_VIEW_REPLY__INIT;

    head.version = view_version(service->meta->view(service->meta));
    head.change_stamp = service->meta->change_stamp(service->meta);
    head.wall_ns = service->env->clock->wall_ns(service->env);
    job->reply = (struct rpc_reply){.rc = RC_OK, .message = &head.base, .sent = view_sent};
    if (packed != NULL) {
        size_t left = packed->bytes.len - (size_t)offset;

        packed->references += 1;
        job->packed = packed;
        head.version = packed->version;
        head.total = packed->bytes.len;
        head.offset = offset;
        job->reply.body[0] = slice_of(packed->bytes.data + offset,
                                      left < WIRE_VIEW_CHUNK_BYTES ? left : WIRE_VIEW_CHUNK_BYTES);
        job->reply.body_count = 1;
    }
    rpc_reply(job->request, &job->reply);
}

static void view_refuse(struct view_job *job, enum rc rc, const char *text)
{
    service_refuse_request(job->service, job->request, rc, text);
    view_job_free(job);
}

static bool view_is_news(const struct view_job *job)
{
    struct meta_service *service = job->service;

    return !job->head.has_known ||
           view_version(service->meta->view(service->meta)) > job->head.known_version;
}

static void view_answer(struct view_job *job)
{
    view_reply(job, view_is_news(job) ? packed_newest(job->service) : NULL, 0);
}

static void view_answer_rest(struct view_job *job)
{
    struct meta_service *service = job->service;
    struct packed_view *kept[2] = {service->packed, service->before};

    for (size_t i = 0; i < 2; i++) {
        if (kept[i] != NULL && kept[i]->version == job->head.want_version &&
            job->head.offset < kept[i]->bytes.len) {
            view_reply(job, kept[i], job->head.offset);
            return;
        }
    }
    view_reply(job, packed_newest(service), 0);
}

/* ---- A fresh one ---- */

static enum step_result fresh_step(struct task *task)
{
    struct view_job *job = CONTAINER_OF(task, struct view_job, task);
    struct meta_client *meta = job->service->meta;

    return meta->refresh(meta, &job->refresh, task);
}

static void fresh_done(struct task *task)
{
    struct view_job *job = CONTAINER_OF(task, struct view_job, task);

    if (task->error.rc != RC_OK) {
        view_refuse(job, task->error.rc, task->error.text);
        return;
    }
    view_answer(job);
}

static const struct step fresh_steps[] = {
    {"refresh", fresh_step},
    {NULL,      NULL      }
};

/* ---- Watchers ---- */

static void watcher_remove(struct view_job *job)
{
    list_remove(&job->link);
    job->service->watcher_count -= 1;
}

static void watcher_cancel(struct rpc_request *request)
{
    struct view_job *job = request->owner;

    watcher_remove(job);
    view_refuse(job, RC_CANCELLED, NULL);
}

static void view_wait(struct view_job *job)
{
    struct meta_service *service = job->service;

    if (service->watcher_count >= META_SERVICE_WATCHERS) {
        view_refuse(job, RC_BUSY, "too many watchers");
        return;
    }
    job->until_ns = service->env->clock->mono_ns(service->env) + job->head.wait_ms * NS_PER_MS;
    list_push_back(&service->watchers, &job->link);
    service->watcher_count += 1;
    job->request->owner = job;
    job->request->on_cancel = watcher_cancel;
}

static void watcher_answer(struct view_job *job, bool leads)
{
    watcher_remove(job);
    job->request->on_cancel = NULL;
    if (leads) {
        view_answer(job);
    } else {
        view_refuse(job, RC_NOT_LEADER, NULL);
    }
}

/* Answers those for whom something is new; with `all` everybody. */
static void watchers_look(struct meta_service *service, bool all)
{
    uint64_t now_ns = service->env->clock->mono_ns(service->env);
    bool leads = service->meta->ready(service->meta);
    uint64_t stamp = service->meta->change_stamp(service->meta);

    for (uint32_t left = service->watcher_count; left > 0; left--) {
        struct view_job *job =
            CONTAINER_OF(list_pop_front(&service->watchers), struct view_job, link);

        if (all || !leads || view_is_news(job) || stamp != job->head.change_stamp ||
            now_ns >= job->until_ns) {
            watcher_answer(job, leads && !service->closing);
        } else {
            list_push_back(&service->watchers, &job->link);
        }
    }
}

void service_view_changed(void *owner)
{
    watchers_look(owner, false);
}

void service_view_tick(struct meta_service *service)
{
    watchers_look(service, false);
}

/* ---- Requests ---- */

void service_view(struct meta_service *service, struct rpc_request *request)
{
    struct view_job *job = mem_alloc(sizeof(*job));
    const Kist__MetaView *head;
    struct arena arena;

    job->service = service;
    job->request = request;
    list_init(&job->link);
    service_opened(service);
    arena_init(&arena);
    head = wire_unpack(&arena, &kist__meta_view__descriptor, request->head);
    if (head != NULL) {
        job->head = *head;
    }
    arena_deinit(&arena);
    if (head == NULL) {
        view_refuse(job, RC_INVALID, "not a request for a view");
    } else if (job->head.fresh) {
        task_start(&job->task, fresh_steps, fresh_done);
    } else if (!service->meta->ready(service->meta)) {
        view_refuse(job, RC_NOT_LEADER, NULL);
    } else if (job->head.offset > 0) {
        view_answer_rest(job);
    } else if (job->head.wait_ms == 0 || view_is_news(job) ||
               service->meta->change_stamp(service->meta) != job->head.change_stamp) {
        view_answer(job);
    } else {
        view_wait(job);
    }
}

void service_view_close(struct meta_service *service)
{
    watchers_look(service, true);
    packed_unref(service->packed);
    packed_unref(service->before);
    service->packed = NULL;
    service->before = NULL;
}
