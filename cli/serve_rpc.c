/*
 * KIST_META_RPC=1, for tests: the gateways, repair and events of this process talk to its metad as
 * those of other processes do: over TLS on loopback, one client per loop.
 *
 *     loop 0: rpc that listens ── meta_service ── metad
 *     loop n: rpc ── meta_remote ── struct meta_client of the gateway of loop n
 *
 * So the suites of S3 run over the wire. Not documented for users: it only costs time.
 */
#include <stdlib.h>

#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/crypto/random.h"
#include "common/meta_rpc/meta_remote.h"
#include "common/rpc/security.h"
#include "metad/rpc/meta_service.h"

struct serve_rpc_loop {
    struct serve_rpc *rpc;
    struct env *env;
    struct rpc *client;
    struct meta_remote *remote;
    struct env_post go;   /* to its loop */
    struct env_post back; /* to loop 0 */
};

struct serve_rpc {
    struct serve *serve;
    struct rpc_security *security;
    struct rpc_identity identity;
    struct rpc *server;
    struct meta_service *service;
    char address[ENV_ADDRESS_MAX];
    struct serve_rpc_loop loops[ENV_UV_LOOPS_MAX];
    uint32_t pending;
    struct env_post resume; /* of the stop task */
};

static uint32_t loop_count(const struct serve_rpc *rpc)
{
    return env_uv_count(rpc->serve->world);
}

/* ---- Open ---- */

static void loop_opened(struct env_post *post)
{
    struct serve_rpc *rpc = CONTAINER_OF(post, struct serve_rpc_loop, back)->rpc;
    struct serve *serve = rpc->serve;

    rpc->pending -= 1;
    if (rpc->pending > 0) {
        return;
    }
    for (uint32_t i = 0; i < loop_count(rpc); i++) {
        serve->metas[i] = meta_remote_client(rpc->loops[i].remote);
    }
    serve->meta = serve->metas[0];
    task_resume(&serve->start, RC_OK);
}

static void loop_on_open(struct meta_remote *remote, void *owner)
{
    struct serve_rpc_loop *loop = owner;
    struct env *first = loop->rpc->serve->env;

    (void)remote;
    loop->back.run = loop_opened;
    first->post(first, &loop->back);
}

static void loop_open(struct env_post *post)
{
    struct serve_rpc_loop *loop = CONTAINER_OF(post, struct serve_rpc_loop, go);
    const char *address = loop->rpc->address;
    struct rpc_options options = {.env = loop->env,
                                  .security = loop->rpc->security,
                                  .identity = loop->rpc->identity,
                                  .owner = loop};

    /* A process does not connect to itself: each loop is somebody else. */
    options.identity.node_id = 2 + (uint64_t)(loop - loop->rpc->loops);
    options.identity.role = RPC_ROLE_GATEWAY;
    loop->client = rpc_open(&options);
    loop->remote = meta_remote_open(&(struct meta_remote_options){.rpc = loop->client,
                                                                  .addresses = &address,
                                                                  .address_count = 1,
                                                                  .owner = loop,
                                                                  .on_open = loop_on_open});
}

static enum rc rpc_begin(struct serve_rpc *rpc, struct error *error)
{
    struct serve *serve = rpc->serve;
    struct cluster_key key;
    struct rpc_options options = {.env = serve->env, .owner = rpc};
    enum rc rc;

    random_bytes(rpc->identity.cluster_id, sizeof(rpc->identity.cluster_id));
    rpc->identity.cluster_epoch = serve->directories.cluster_epoch;
    rpc->identity.node_id = 1;
    rpc->identity.incarnation = 1;
    rpc->identity.role = RPC_ROLE_SERVE;
    cluster_key_generate(&key);
    rpc->security = rpc_security_psk(&key, rpc->identity.cluster_id, false);
    cluster_key_wipe(&key);
    options.security = rpc->security;
    options.identity = rpc->identity;
    rpc->server = rpc_open(&options);
    rc = rpc_listen(rpc->server, "127.0.0.1:0", error);
    rpc->service = meta_service_open(
        &(struct meta_service_options){.rpc = rpc->server, .metad = serve->metad, .owner = rpc});
    if (rc == RC_OK) {
        (void)rpc_address(rpc->server, rpc->address);
    }
    return rc;
}

enum step_result serve_open_rpc(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    const char *wanted = getenv("KIST_META_RPC"); /* NOLINT(concurrency-mt-unsafe): only read */
    struct serve_rpc *rpc;

    if (wanted == NULL || wanted[0] != '1') {
        return STEP_NEXT;
    }
    rpc = mem_alloc(sizeof(*rpc));
    rpc->serve = serve;
    serve->rpc = rpc;
    if (rpc_begin(rpc, &task->error) != RC_OK) {
        return STEP_FAIL;
    }
    rpc->pending = loop_count(rpc);
    for (uint32_t i = 0; i < loop_count(rpc); i++) {
        struct serve_rpc_loop *loop = &rpc->loops[i];

        loop->rpc = rpc;
        loop->env = env_uv_env(serve->world, i);
        loop->go.run = loop_open;
        loop->env->post(loop->env, &loop->go);
    }
    return STEP_WAIT;
}

/* ---- Close: the clients, then the service, then what listens ---- */

static void rpc_stop_resume(struct env_post *post)
{
    struct serve_rpc *rpc = CONTAINER_OF(post, struct serve_rpc, resume);
    struct serve *serve = rpc->serve;

    rpc_security_free(rpc->security);
    mem_free(rpc);
    serve->rpc = NULL;
    task_resume(&serve->stop, RC_OK);
}

static void server_closed(void *owner)
{
    struct serve_rpc *rpc = owner;

    rpc->resume.run = rpc_stop_resume;
    rpc->serve->env->post(rpc->serve->env, &rpc->resume);
}

static void service_closed(void *owner)
{
    struct serve_rpc *rpc = owner;

    rpc_close(rpc->server, server_closed);
}

static void loop_closed(struct env_post *post)
{
    struct serve_rpc *rpc = CONTAINER_OF(post, struct serve_rpc_loop, back)->rpc;

    rpc->pending -= 1;
    if (rpc->pending == 0) {
        meta_service_close(rpc->service, service_closed);
    }
}

static void client_closed(void *owner)
{
    struct serve_rpc_loop *loop = owner;
    struct env *first = loop->rpc->serve->env;

    loop->back.run = loop_closed;
    first->post(first, &loop->back);
}

static void remote_closed(void *owner)
{
    struct serve_rpc_loop *loop = owner;

    rpc_close(loop->client, client_closed);
}

static void loop_close(struct env_post *post)
{
    meta_remote_close(CONTAINER_OF(post, struct serve_rpc_loop, go)->remote, remote_closed);
}

/* STEP_WAIT: the stop task is resumed; its caller has nothing left that calls metad. */
enum step_result serve_close_rpc(struct task *task)
{
    struct serve *serve = CONTAINER_OF(task, struct serve, stop);
    struct serve_rpc *rpc = serve->rpc;

    if (rpc == NULL) {
        return STEP_NEXT;
    }
    if (rpc->loops[0].rpc == NULL) { /* it could not listen: there are no clients */
        meta_service_close(rpc->service, service_closed);
        return STEP_WAIT;
    }
    rpc->pending = loop_count(rpc);
    for (uint32_t i = 0; i < loop_count(rpc); i++) {
        struct serve_rpc_loop *loop = &rpc->loops[i];

        loop->go.run = loop_close;
        loop->env->post(loop->env, &loop->go);
    }
    return STEP_WAIT;
}
