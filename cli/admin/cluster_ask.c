#include "cli/admin/cluster_ask.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/rpc/security.h"
#include "metad/store/message.h"

enum { ASK_MS = 8000, STATUS_MS = 3000 };

struct cluster_asker {
    struct env_uv *world;
    struct env *env;
    struct rpc_security *security;
    struct rpc *rpc;
    struct rpc_call call;
    struct env_timer timer;
    struct arena *arena;
    struct slice head;
    enum rc rc;
};

static void ask_closed(void *owner)
{
    struct cluster_asker *asker = owner;

    env_uv_stop(asker->env);
}

struct cluster_asker *cluster_asker_open(const struct cluster_key *key, struct error *error)
{
    const struct env_uv_options world = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct cluster_asker *asker = mem_alloc(sizeof(*asker));
    struct rpc_options options = {.owner = asker};

    asker->world = env_uv_open(&world, error);
    if (asker->world == NULL) {
        mem_free(asker);
        return NULL;
    }
    asker->env = env_uv_env(asker->world, 0);
    asker->security = rpc_security_psk(key, NULL, true);
    options.env = asker->env;
    options.security = asker->security;
    options.identity.role = RPC_ROLE_ADMIN;
    options.identity.incarnation = asker->env->clock->wall_ns(asker->env);
    (void)snprintf(options.identity.release, RPC_RELEASE_MAX, "%s", KIST_VERSION);
    asker->rpc = rpc_open(&options);
    return asker;
}

void cluster_asker_close(struct cluster_asker *asker)
{
    rpc_close(asker->rpc, ask_closed);
    env_uv_run(asker->env);
    rpc_security_free(asker->security);
    env_uv_close(asker->world);
    mem_free(asker);
}

struct env *cluster_asker_env(struct cluster_asker *asker)
{
    return asker->env;
}

static void ask_done(struct rpc_call *call)
{
    struct cluster_asker *asker = CONTAINER_OF(call, struct cluster_asker, call);

    asker->rc = call->rc;
    asker->head = arena_copy(asker->arena, call->reply_head);
    env_uv_stop(asker->env);
}

enum rc cluster_ask(struct cluster_asker *asker, const char *address, enum rpc_method method,
                    const ProtobufCMessage *message, struct arena *arena, struct slice *head)
{
    const struct rpc_peer_options options = {.address = address, .lazy = true, .owner = asker};
    struct rpc_peer *peer = rpc_peer_open(asker->rpc, &options);

    asker->arena = arena;
    asker->call = (struct rpc_call){.method = method,
                                    .purpose = RPC_CONTROL,
                                    .message = message,
                                    .timeout_ms = method == RPC_CLUSTER_STATUS ? STATUS_MS : ASK_MS,
                                    .wait_connected = false,
                                    .done = ask_done};
    rpc_call(peer, &asker->call);
    env_uv_run(asker->env);
    rpc_peer_close(peer, ask_closed);
    env_uv_run(asker->env);
    *head = asker->head;
    return asker->rc;
}

Kist__ClusterStatus *cluster_ask_status(struct cluster_asker *asker, const char *address,
                                        struct arena *arena, enum rc *rc)
{
    struct slice head;
    Kist__ClusterStatus *status = NULL;

    *rc = cluster_ask(asker, address, RPC_CLUSTER_STATUS, NULL, arena, &head);
    if (*rc == RC_OK) {
        status = message_unpack(arena, &kist__cluster_status__descriptor, head);
        *rc = status != NULL ? RC_OK : RC_CORRUPT;
    }
    return status;
}

static void pause_fire(struct env_timer *timer)
{
    env_uv_stop(CONTAINER_OF(timer, struct cluster_asker, timer)->env);
}

void cluster_pause(struct cluster_asker *asker, uint64_t ms)
{
    asker->timer.fire = pause_fire;
    asker->env->clock->timer_start(asker->env, &asker->timer, ms * 1000000ULL);
    env_uv_run(asker->env);
}
