/*
 * struct meta_client for the loops of the process that holds the replicas: a read is a function
 * call.
 *
 * A read is linearizable because, in this order: the commit index is loaded and applied has reached
 * it, the lease holds, the state is read (DESIGN 4.1). The lease is looked at again before the
 * answer; a read that needed the disk is right by the first look alone, because nobody else can
 * have committed anything before it.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/service/service_private.h"

static struct local_client *client_of(struct meta_client *meta)
{
    return CONTAINER_OF(meta, struct local_client, base);
}

/* ---- The fast path ---- */

/* May this loop read the leader's state now? */
static bool leader_readable(const struct leader *leader, struct env *env)
{
    if (leader->reads_only) {
        return true;
    }
    /* In this order: a commit index loaded before the lease may be a follower's. */
    if (!replica_lease(leader->replica, env->clock->mono_ns(env))) {
        return false;
    }
    uint64_t commit = replica_commit(leader->replica);

    return replica_applied(leader->replica) >= commit;
}

static void read_note(struct local_client *client, enum rc rc)
{
    if (rc == RC_CORRUPT) {
        atomic_store(&client->service->damage, true);
    }
}

static enum step_result read_answer(struct local_client *client, struct task *task, enum rc rc,
                                    const struct error *error)
{
    read_note(client, rc);
    if (rc == RC_OK) {
        return STEP_NEXT;
    }
    return task_fail(task, rc, "%s", error->text[0] != '\0' ? error->text : rc_text(rc));
}

static void read_done(struct env_work *work);

static void read_run(struct env_work *work)
{
    struct read_request *request = CONTAINER_OF(work, struct read_request, work);

    request->rc = request->read(&request->context, request->call);
}

/* Takes the reference on `store`. */
static void read_submit(struct read_request *request, struct store *store)
{
    struct env *env = request->client->env;

    request->context = (struct read_context){.store = store, .again = true};
    request->work.run = read_run;
    request->work.done = read_done;
    env->worker->submit(env, NULL, &request->work);
}

static void read_finish(struct read_request *request)
{
    struct task *task = request->task;
    enum rc rc = request->rc;

    read_note(request->client, rc);
    if (rc != RC_OK) {
        const char *text = request->context.error.text;

        (void)error_set(&task->error, rc, "%s", text[0] != '\0' ? text : rc_text(rc));
    }
    mem_free(request);
    task_resume(task, rc);
}

static void read_done(struct env_work *work)
{
    struct read_request *request = CONTAINER_OF(work, struct read_request, work);

    store_unref(request->context.store);
    read_finish(request);
}

static struct read_request *request_new(struct local_client *client, struct task *task,
                                        read_cb read, void *call)
{
    struct read_request *request = mem_alloc(sizeof(*request));

    request->client = client;
    request->task = task;
    request->read = read;
    request->call = call;
    request->expires_ns =
        client->env->clock->mono_ns(client->env) + SERVICE_WAIT_MS * SERVICE_NS_PER_MS;
    list_init(&request->link);
    return request;
}

static void arrive_post(struct env_post *post)
{
    struct read_request *request = CONTAINER_OF(post, struct read_request, post);

    read_arrive(request->client->service, request);
}

/* What the lease did not cover is not answered; a lent body goes back. */
static void read_take_back(read_cb read, void *call)
{
    if (read == read_get) {
        read_get_release(call);
    }
}

static enum step_result local_read(struct meta_client *meta, struct task *task, read_cb read,
                                   void *call)
{
    struct local_client *client = client_of(meta);
    struct leader *leader = leader_load(client->service);
    struct read_request *request;

    if (leader != NULL && leader_readable(leader, client->env)) {
        struct read_context context = {.store = machine_store(leader->machine),
                                       .cached_only = true,
                                       .budget = READ_LOOP_BUDGET};
        enum rc rc = read(&context, call);

        if (rc == RC_AGAIN) {
            read_submit(request_new(client, task, read, call), context.store);
            return STEP_WAIT;
        }
        store_unref(context.store);
        if (leader_readable(leader, client->env)) {
            return read_answer(client, task, rc, &context.error);
        }
        read_take_back(read, call);
    }
    request = request_new(client, task, read, call);
    request->post.run = arrive_post;
    client->service->env->post(client->service->env, &request->post);
    return STEP_WAIT;
}

/* ---- The slow path: a read index, on the loop of metad ---- */

static void read_fail_post(struct env_post *post)
{
    read_finish(CONTAINER_OF(post, struct read_request, post));
}

static void read_fail(struct read_request *request, enum rc rc)
{
    list_remove(&request->link);
    request->rc = rc;
    request->post.run = read_fail_post;
    request->client->env->post(request->client->env, &request->post);
}

/* Back on the client's loop, with the state of a leader that was confirmed. */
static void read_confirmed_post(struct env_post *post)
{
    struct read_request *request = CONTAINER_OF(post, struct read_request, post);
    struct store *store = request->context.store;

    request->context.cached_only = true;
    request->context.budget = READ_LOOP_BUDGET;
    request->rc = request->read(&request->context, request->call);
    if (request->rc == RC_AGAIN) {
        read_submit(request, store);
        return;
    }
    store_unref(store);
    read_finish(request);
}

static void read_wait(struct service *service, struct read_request *request)
{
    if (service->closing || request->client->remote) {
        read_fail(request, service->closing ? RC_NO_QUORUM : RC_NOT_LEADER);
        return;
    }
    list_push_back(&service->reads, &request->link);
    service->read_count += 1;
    service_tick_start(service);
}

/* The leader's state may be read. */
static void read_go(struct read_request *request)
{
    request->context.store = machine_store(request->asked->machine);
    request->post.run = read_confirmed_post;
    request->client->env->post(request->client->env, &request->post);
}

static void read_indexed(struct replica_read *index)
{
    struct read_request *request = CONTAINER_OF(index, struct read_request, index);
    struct service *service = request->client->service;

    if (index->rc == RC_BUSY) {
        read_fail(request, RC_BUSY);
        return;
    }
    if (index->rc != RC_OK) {
        read_wait(service, request);
        return;
    }
    read_go(request);
}

static void read_ask(struct service *service, struct read_request *request)
{
    struct leader *leader = leader_load(service);

    request->asked = leader;
    request->index.done = read_indexed;
    if (leader->reads_only) {
        read_go(request);
        return;
    }
    replica_read_index(leader->replica, &request->index);
}

void read_arrive(struct service *service, struct read_request *request)
{
    if (request->read == NULL) {
        refresh_arrive(service, request);
        return;
    }
    if (leader_load(service) != NULL) {
        read_ask(service, request);
        return;
    }
    if (service->read_count >= SERVICE_WAITING_MAX) {
        read_fail(request, RC_BUSY);
        return;
    }
    read_wait(service, request);
}

void read_leader_changed(struct service *service)
{
    /* Those that come back wait behind them. */
    for (uint32_t left = service->read_count; left > 0; left--) {
        service->read_count -= 1;
        read_ask(service, CONTAINER_OF(list_pop_front(&service->reads), struct read_request, link));
    }
}

void read_expire(struct service *service, uint64_t now_ns, bool all)
{
    struct list *at = service->reads.next;

    while (at != &service->reads) {
        struct read_request *request = CONTAINER_OF(at, struct read_request, link);

        at = at->next;
        if (all || now_ns >= request->expires_ns) {
            service->read_count -= 1;
            read_fail(request, RC_NO_QUORUM);
        }
    }
}

/* ---- The calls ---- */

static enum step_result local_get(struct meta_client *meta, struct meta_get *call,
                                  struct task *task)
{
    return local_read(meta, task, read_get, call);
}

static void local_release(struct meta_client *meta, struct meta_get *call)
{
    (void)meta;
    read_get_release(call);
}

static enum step_result local_list(struct meta_client *meta, struct meta_list *call,
                                   struct task *task)
{
    return local_read(meta, task, read_list, call);
}

static enum step_result local_list_versions(struct meta_client *meta,
                                            struct meta_list_versions *call, struct task *task)
{
    return local_read(meta, task, read_list_versions, call);
}

static enum step_result local_changes(struct meta_client *meta, struct meta_changes *call,
                                      struct task *task)
{
    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    call->changes = NULL;
    return local_read(meta, task, read_changes, call);
}

static uint64_t local_change_stamp(struct meta_client *meta)
{
    const struct leader *leader = leader_load(client_of(meta)->service);

    return leader != NULL ? machine_change_stamp(leader->machine) : 0;
}

static enum step_result local_pieces(struct meta_client *meta, struct meta_pieces *call,
                                     struct task *task)
{
    return local_read(meta, task, read_pieces, call);
}

static enum step_result local_part_range(struct meta_client *meta, struct meta_part_range *call,
                                         struct task *task)
{
    return local_read(meta, task, read_part_range, call);
}

static enum step_result local_list_parts(struct meta_client *meta, struct meta_list_parts *call,
                                         struct task *task)
{
    return local_read(meta, task, read_list_parts, call);
}

static enum step_result local_list_uploads(struct meta_client *meta, struct meta_list_uploads *call,
                                           struct task *task)
{
    return local_read(meta, task, read_list_uploads, call);
}

static enum step_result local_scan(struct meta_client *meta, struct meta_scan *call,
                                   struct task *task)
{
    return local_read(meta, task, read_scan, call);
}

static enum step_result local_repairs(struct meta_client *meta, struct meta_repairs *call,
                                      struct task *task)
{
    return local_read(meta, task, read_repairs, call);
}

static enum step_result local_jobs(struct meta_client *meta, struct meta_jobs *call,
                                   struct task *task)
{
    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    return local_read(meta, task, read_jobs, call);
}

static enum step_result local_refresh(struct meta_client *meta, struct meta_refresh *call,
                                      struct task *task)
{
    struct local_client *client = client_of(meta);
    struct read_request *request = request_new(client, task, NULL, call);

    request->post.run = arrive_post;
    client->service->env->post(client->service->env, &request->post);
    return STEP_WAIT;
}

static struct view *local_view(struct meta_client *meta)
{
    return client_of(meta)->view;
}

static bool local_ready(struct meta_client *meta)
{
    struct leader *leader = leader_load(client_of(meta)->service);

    return leader != NULL && !leader->reads_only &&
           replica_state(leader->replica) == REPLICA_SERVING;
}

/* ---- Views ---- */

static void client_take_view(struct env_post *post)
{
    struct local_client *client = CONTAINER_OF(post, struct local_client, view_post);
    struct view *view;

    atomic_store(&client->view_posted, false);
    view = atomic_exchange(&client->next_view, NULL);
    if (view == NULL) {
        return;
    }
    client_set_view(client, view);
}

void client_set_view(struct local_client *client, struct view *view)
{
    bool other = view_version(view) > view_version(client->view);

    if (view_version(view) >= view_version(client->view)) {
        struct view *old = client->view;

        client->view = view;
        view = old;
    }
    view_unref(view);
    if (other && client->on_view != NULL) {
        client->on_view(client->on_view_owner);
    }
}

void client_offer_view(struct local_client *client, struct view *view)
{
    struct view *before = atomic_exchange(&client->next_view, view_ref(view));

    if (before != NULL) {
        view_unref(before);
    }
    if (!atomic_exchange(&client->view_posted, true)) {
        client->env->post(client->env, &client->view_post);
    }
}

/* ---- Life ---- */

static const struct meta_client local_calls = {
    .get = local_get,
    .release = local_release,
    .list = local_list,
    .list_versions = local_list_versions,
    .changes = local_changes,
    .change_stamp = local_change_stamp,
    .pieces = local_pieces,
    .part_range = local_part_range,
    .list_parts = local_list_parts,
    .list_uploads = local_list_uploads,
    .scan = local_scan,
    .repairs = local_repairs,
    .jobs = local_jobs,
    .write = write_start,
    .refresh = local_refresh,
    .view = local_view,
    .ready = local_ready,
};

struct meta_client *service_client(struct service *service, struct env *env)
{
    static const struct view_parts nothing = {.version = 0};
    struct local_client *client = mem_alloc(sizeof(*client));

    client->base = local_calls;
    client->service = service;
    client->env = env;
    /* A process that never led has none yet, and answers nothing by it. */
    client->view = service->view != NULL ? view_ref(service->view) : view_new(&nothing);
    client->view_post.run = client_take_view;
    client->next = service->clients;
    service->clients = client;
    return &client->base;
}

struct meta_client *service_remote_client(struct service *service, struct env *env)
{
    struct meta_client *meta = service_client(service, env);

    client_of(meta)->remote = true;
    return meta;
}

void service_on_view(struct meta_client *client, void (*changed)(void *owner), void *owner)
{
    client_of(client)->on_view = changed;
    client_of(client)->on_view_owner = owner;
}

void client_free(struct local_client *client)
{
    struct view *next = atomic_exchange(&client->next_view, NULL);

    if (next != NULL) {
        view_unref(next);
    }
    view_unref(client->view);
    mem_free(client);
}
