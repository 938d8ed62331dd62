#include "metad/rpc/meta_service.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/rpc/service_private.h"

static const uint64_t NS_PER_MS = 1000000ULL;

/* ---- Answers without content ---- */

void service_refuse_request(struct meta_service *service, struct rpc_request *request, enum rc rc,
                            const char *text)
{
    Kist__MetaRefusal refusal;
    struct rpc_reply reply = {.rc = rc, .message = &refusal.base};
    char address[ENV_ADDRESS_MAX] = "";
    char copy[ERROR_TEXT_MAX];
    uint64_t node_id = 0;

    ASSERT(rc != RC_OK);
    (void)snprintf(copy, sizeof(copy), "%s", text != NULL ? text : "");
    kist__meta_refusal__init(&refusal);
    refusal.text = copy;
    if (rc == RC_NOT_LEADER && service->options.leader != NULL &&
        service->options.leader(service->options.owner, &node_id, address)) {
        refusal.leader_node = node_id;
        refusal.leader_address = address;
    }
    rpc_reply(request, &reply);
}

bool service_late(struct meta_service *service, const struct rpc_request *request)
{
    return request->deadline_ns != 0 &&
           service->env->clock->mono_ns(service->env) >= request->deadline_ns;
}

/* ---- Requests ---- */

static void on_request(struct rpc_service *rpc_service, struct rpc_request *request)
{
    const struct read_kind *kind = read_kind_find(request->method);
    size_t index = (size_t)request->method - RPC_META_GET;
    struct meta_service *service;

    ASSERT(index < META_SERVICE_METHODS);
    service = CONTAINER_OF(rpc_service - index, struct meta_service, services[0]);
    if (service->closing) {
        rpc_reply_rc(request, RC_UNSUPPORTED);
    } else if (service_late(service, request)) {
        rpc_reply_rc(request, RC_TIMEOUT);
    } else if (request->method == RPC_META_WRITE) {
        service_write_request(service, request);
    } else if (request->method == RPC_META_VIEW) {
        service_view(service, request);
    } else {
        ASSERT(kind != NULL);
        service_read(service, kind, request);
    }
}

/* ---- Deadlines of what waits, and news for watchers ---- */

static void on_tick(struct env_timer *timer)
{
    struct meta_service *service = CONTAINER_OF(timer, struct meta_service, tick);

    service->ticking = false;
    service_read_tick(service);
    service_view_tick(service);
    if (!list_empty(&service->waiting) || !list_empty(&service->watchers)) {
        service->ticking = true;
        service->env->clock->timer_start(service->env, timer, META_SERVICE_TICK_MS * NS_PER_MS);
    }
}

/* Something is open that is not answered by this call. */
void service_opened(struct meta_service *service)
{
    service->open_count += 1;
    if (!service->ticking && !service->closing) {
        service->ticking = true;
        service->env->clock->timer_start(service->env, &service->tick,
                                         META_SERVICE_TICK_MS * NS_PER_MS);
    }
}

/* ---- Life ---- */

struct meta_service *meta_service_open(const struct meta_service_options *options)
{
    struct meta_service *service = mem_alloc(sizeof(*service));

    service->options = *options;
    service->env = rpc_env(options->rpc);
    service->meta = metad_remote_client(options->metad, service->env);
    service->tick.fire = on_tick;
    list_init(&service->waiting);
    list_init(&service->watchers);
    service_on_view(service->meta, service_view_changed, service);
    for (size_t i = 0; i < META_SERVICE_METHODS; i++) {
        service->services[i].on_request = on_request;
        rpc_serve(options->rpc, (enum rpc_method)(RPC_META_GET + i), &service->services[i]);
    }
    return service;
}

static void close_finish(struct env_post *post)
{
    struct meta_service *service = CONTAINER_OF(post, struct meta_service, close_post);
    void (*done)(void *owner) = service->close_done;
    void *owner = service->options.owner;

    mem_free(service);
    done(owner);
}

static void close_go_on(struct meta_service *service)
{
    if (service->closing && service->open_count == 0 && !service->close_posted) {
        service->close_posted = true;
        service->close_post.run = close_finish;
        service->env->post(service->env, &service->close_post);
    }
}

void service_done(struct meta_service *service)
{
    ASSERT(service->open_count > 0);
    service->open_count -= 1;
    close_go_on(service);
}

void meta_service_close(struct meta_service *service, void (*done)(void *owner))
{
    ASSERT(!service->closing);
    service->closing = true;
    service->close_done = done;
    service->env->clock->timer_stop(service->env, &service->tick);
    service_on_view(service->meta, NULL, NULL);
    for (size_t i = 0; i < META_SERVICE_METHODS; i++) {
        rpc_serve(service->options.rpc, (enum rpc_method)(RPC_META_GET + i), NULL);
    }
    service_read_close(service);
    service_view_close(service);
    close_go_on(service);
}
