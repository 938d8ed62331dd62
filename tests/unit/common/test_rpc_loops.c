/* Loops of one process share the security and nothing else: servers on several loops, one address,
 * handshakes and calls at once on all of them. Meant for TSan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/env/env_uv.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security.h"

enum { LOOPS = 3, PEERS = 12, CALLS = 100 };

struct loop_server {
    struct rpc *rpc;
    struct env *env;
    struct rpc_service service;
    struct env_post close_post;
    atomic_uint served;
};

struct loops {
    struct env_uv *world;
    struct rpc_security *security;
    struct loop_server servers[LOOPS];
    struct rpc *client;
    struct rpc_peer *peers[PEERS];
    struct rpc_call calls[PEERS][CALLS];
    uint32_t completed;
    uint32_t good;
    uint32_t peers_closed;
    atomic_uint servers_closed;
    struct env_timer timer;
};

static void server_on_request(struct rpc_service *service, struct rpc_request *request)
{
    atomic_fetch_add(&CONTAINER_OF(service, struct loop_server, service)->served, 1);
    rpc_reply_rc(request, RC_OK);
}

static void server_closed(void *owner)
{
    struct loops *loops = owner;

    atomic_fetch_add(&loops->servers_closed, 1);
}

static void server_close(struct env_post *post)
{
    rpc_close(CONTAINER_OF(post, struct loop_server, close_post)->rpc, server_closed);
}

static void call_done(struct rpc_call *call)
{
    struct loops *loops = rpc_peer_owner(call->peer);

    loops->completed += 1;
    loops->good += call->rc == RC_OK;
    if (loops->completed == PEERS * CALLS) {
        env_uv_stop(rpc_env(loops->client));
    }
}

static void peer_closed(void *owner)
{
    struct loops *loops = owner;

    loops->peers_closed += 1;
    if (loops->peers_closed == PEERS) {
        env_uv_stop(rpc_env(loops->client));
    }
}

static void client_closed(void *owner)
{
    struct loops *loops = owner;

    env_uv_stop(loops->servers[0].env);
}

static void wait_fire(struct env_timer *timer)
{
    struct loops *loops = CONTAINER_OF(timer, struct loops, timer);
    struct env *env = loops->servers[0].env;

    if (atomic_load(&loops->servers_closed) == LOOPS) {
        env_uv_stop(env);
    } else {
        env->clock->timer_start(env, timer, 1000000);
    }
}

static void loops_open(struct loops *loops)
{
    struct env_uv_options world = {.loop_count = LOOPS, .pool_count = 1, .without_uring = true};
    struct rpc_options options = {
        .owner = loops, .identity = {.cluster_id = {1}, .node_id = 5}
    };
    struct rpc_peer_options peer = {.owner = loops};
    struct cluster_key key = {
        .bytes = {1, 2, 3}
    };
    char address[ENV_ADDRESS_MAX] = "127.0.0.1:0";
    struct error error;

    memset(loops, 0, sizeof(*loops));
    loops->world = env_uv_open(&world, &error);
    assert_non_null(loops->world);
    loops->security = rpc_security_psk(&key, options.identity.cluster_id, false);
    options.security = loops->security;
    for (uint32_t i = 0; i < LOOPS; i++) {
        struct loop_server *server = &loops->servers[i];

        server->env = env_uv_env(loops->world, i);
        options.env = server->env;
        server->rpc = rpc_open(&options);
        server->service.on_request = server_on_request;
        server->close_post.run = server_close;
        rpc_serve(server->rpc, RPC_PROBE_ECHO, &server->service);
        assert_int_equal(rpc_listen(server->rpc, address, &error), RC_OK);
        assert_true(rpc_address(server->rpc, address));
    }
    options.env = loops->servers[0].env;
    options.identity.node_id = 6;
    loops->client = rpc_open(&options);
    peer.address = address;
    for (uint32_t i = 0; i < PEERS; i++) {
        loops->peers[i] = rpc_peer_open(loops->client, &peer);
    }
}

static void loops_close(struct loops *loops)
{
    struct env *env = loops->servers[0].env;

    for (uint32_t i = 0; i < PEERS; i++) {
        rpc_peer_close(loops->peers[i], peer_closed);
    }
    env_uv_run(env);
    rpc_close(loops->client, client_closed);
    env_uv_run(env);
    for (uint32_t i = 0; i < LOOPS; i++) {
        loops->servers[i].env->post(loops->servers[i].env, &loops->servers[i].close_post);
    }
    loops->timer.fire = wait_fire;
    env->clock->timer_start(env, &loops->timer, 1000000);
    env_uv_run(env);
    env_uv_close(loops->world);
    rpc_security_free(loops->security);
}

/* A gateway's loops and a metad's meet in any combination: each call is answered. */
static void loops_at_once(void **state)
{
    static struct loops loops;
    uint32_t served = 0;

    (void)state;
    loops_open(&loops);
    env_uv_start(loops.world);
    for (uint32_t i = 0; i < PEERS; i++) {
        for (uint32_t k = 0; k < CALLS; k++) {
            struct rpc_call *call = &loops.calls[i][k];

            call->method = RPC_PROBE_ECHO;
            call->wait_connected = true;
            call->timeout_ms = 60000;
            call->done = call_done;
            rpc_call(loops.peers[i], call);
        }
    }
    env_uv_run(loops.servers[0].env);
    assert_int_equal(loops.good, PEERS * CALLS);
    for (uint32_t i = 0; i < LOOPS; i++) {
        served += atomic_load(&loops.servers[i].served);
    }
    assert_int_equal(served, PEERS * CALLS);
    loops_close(&loops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
