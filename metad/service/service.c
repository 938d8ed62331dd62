#include "metad/service/service.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/service/service_private.h"

/* ---- Deadlines of what waits ---- */

static bool service_waits(const struct service *service)
{
    return !list_empty(&service->reads) || !list_empty(&service->writes) ||
           !list_empty(&service->flying) || !list_empty(&service->refreshes) ||
           !list_empty(&service->refreshing);
}

static void service_tick(struct env_timer *timer)
{
    struct service *service = CONTAINER_OF(timer, struct service, tick);
    uint64_t now_ns = service->env->clock->mono_ns(service->env);

    service->ticking = false;
    read_expire(service, now_ns, false);
    write_expire(service, now_ns, false);
    refresh_expire(service, now_ns, false);
    if (leader_load(service) != NULL) {
        /* What was sent back by the leader that is still published: once more. */
        read_leader_changed(service);
        write_leader_changed(service);
        view_leader_changed(service);
    }
    if (service_waits(service)) {
        service_tick_start(service);
    }
}

void service_tick_start(struct service *service)
{
    if (!service->ticking && !service->closing) {
        service->ticking = true;
        service->env->clock->timer_start(service->env, &service->tick,
                                         SERVICE_TICK_MS * SERVICE_NS_PER_MS);
    }
}

/* ---- Leader ---- */

struct service *service_new(struct env *env)
{
    struct service *service = mem_alloc(sizeof(*service));

    service->env = env;
    list_init(&service->reads);
    list_init(&service->writes);
    list_init(&service->flying);
    list_init(&service->refreshes);
    list_init(&service->refreshing);
    service->tick.fire = service_tick;
    service->root_post.run = view_root_post;
    return service;
}

void service_set_leader(struct service *service, struct leader *leader)
{
    if (leader != NULL) {
        service->leaders =
            mem_realloc(service->leaders, (service->leader_count + 1) * sizeof(struct leader *));
        service->leaders[service->leader_count++] = leader;
    }
    atomic_store_explicit(&service->leader, leader, memory_order_release);
    if (leader != NULL) {
        read_leader_changed(service);
        write_leader_changed(service);
        view_leader_changed(service);
    }
}

const struct leader *service_leader(const struct service *service)
{
    return leader_load(service);
}

void service_root_changed(struct service *service)
{
    if (!atomic_exchange(&service->root_posted, true)) {
        service->env->post(service->env, &service->root_post);
    }
}

bool service_met_damage(struct service *service)
{
    return atomic_exchange(&service->damage, false);
}

void service_set_full(struct service *service, bool full)
{
    service->full = full;
}

bool service_has_view(const struct service *service)
{
    return service->view != NULL;
}

/* ---- Fence ---- */

static void fence_back(struct env_post *post)
{
    struct local_client *client = CONTAINER_OF(post, struct local_client, fence_post);
    struct service *service = client->service;
    void (*done)(void *owner) = service->fence_done;

    ASSERT(service->fence_pending > 0);
    service->fence_pending -= 1;
    if (service->fence_pending == 0) {
        service->fence_done = NULL;
        done(service->fence_owner);
    }
}

/* On the client's loop: whatever it was doing with the old leader, it has returned from it. */
static void fence_pass(struct env_post *post)
{
    struct local_client *client = CONTAINER_OF(post, struct local_client, fence_post);

    post->run = fence_back;
    client->service->env->post(client->service->env, post);
}

void service_fence(struct service *service, void (*done)(void *owner), void *owner)
{
    ASSERT(service->fence_done == NULL);
    if (service->clients == NULL) {
        done(owner);
        return;
    }
    service->fence_done = done;
    service->fence_owner = owner;
    for (struct local_client *client = service->clients; client != NULL; client = client->next) {
        service->fence_pending += 1;
        client->fence_post.run = fence_pass;
        client->env->post(client->env, &client->fence_post);
    }
}

/* ---- Close ---- */

static void service_free(void *owner)
{
    struct service *service = owner;
    void (*done)(void *owner) = service->close_done;
    void *close_owner = service->close_owner;

    while (service->clients != NULL) {
        struct local_client *next = service->clients->next;

        client_free(service->clients);
        service->clients = next;
    }
    for (size_t i = 0; i < service->leader_count; i++) {
        mem_free(service->leaders[i]);
    }
    mem_free(service->leaders);
    if (service->view != NULL) {
        view_unref(service->view);
    }
    mem_free(service);
    done(close_owner);
}

/* Twice around all loops: answers on their way arrive in the first round. */
static void service_close_again(void *owner)
{
    struct service *service = owner;

    service_fence(service, service_free, service);
}

void service_close_go_on(struct service *service)
{
    if (service->close_done == NULL || service->building || atomic_load(&service->root_posted)) {
        return; /* comes back when these are over */
    }
    service_fence(service, service_close_again, service);
}

void service_refuse(struct service *service)
{
    service->closing = true;
    atomic_store(&service->leader, NULL);
    service->env->clock->timer_stop(service->env, &service->tick);
    read_expire(service, 0, true);
    write_expire(service, 0, true);
    refresh_expire(service, 0, true);
}

void service_close(struct service *service, void (*done)(void *owner), void *owner)
{
    ASSERT(service->closing);
    service->close_done = done;
    service->close_owner = owner;
    service_close_go_on(service);
}
