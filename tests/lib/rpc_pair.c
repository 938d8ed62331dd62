/* See rpc_pair.h. */
#include "tests/lib/rpc_pair.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/env/env_uv.h"

static const uint8_t pair_cluster[RPC_CLUSTER_ID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8};

static const struct cluster_key pair_key = {
    .bytes = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
};

/* ---- The world ---- */

static void world_open(struct pair *pair)
{
    if (pair->options.world == PAIR_SIM) {
        pair->sim = sim_new(pair->options.seed);
        pair->client_node = sim_node_new(pair->sim, "client");
        pair->server_node = sim_node_new(pair->sim, "server");
        pair->client_env = sim_env_new(pair->client_node);
        pair->server_env = sim_env_new(pair->server_node);
    } else {
        struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
        struct error error;

        pair->uv = env_uv_open(&options, &error);
        ASSERT(pair->uv != NULL);
        pair->client_env = env_uv_env(pair->uv, 0);
        pair->server_env = pair->client_env;
    }
}

struct pair_watch {
    struct env_timer timer;
    struct env *env;
    bool (*until)(void *arg);
    void *arg;
    uint64_t end_ns;
    bool came;
};

static void watch_fire(struct env_timer *timer)
{
    struct pair_watch *watch = CONTAINER_OF(timer, struct pair_watch, timer);

    watch->came = watch->until != NULL && watch->until(watch->arg);
    if (watch->came || watch->env->clock->mono_ns(watch->env) >= watch->end_ns) {
        env_uv_stop(watch->env);
    } else {
        watch->env->clock->timer_start(watch->env, timer, SIM_MS / 5);
    }
}

bool pair_run(struct pair *pair, bool (*until)(void *arg), void *arg, uint64_t timeout_ms)
{
    struct env *env = pair->client_env;
    struct pair_watch watch = {.until = until, .arg = arg, .env = env, .timer.fire = watch_fire};

    if (pair->sim != NULL) {
        return sim_run_until(pair->sim, until, arg, timeout_ms * SIM_MS);
    }
    watch.end_ns = env->clock->mono_ns(env) + timeout_ms * SIM_MS;
    env->clock->timer_start(env, &watch.timer, 0);
    env_uv_run(env);
    return watch.came;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void pair_run_for(struct pair *pair, uint64_t ms)
{
    (void)pair_run(pair, never, NULL, ms);
}

/* ---- The two ends ---- */

void pair_init(struct pair *pair, const struct pair_options *options)
{
    memset(pair, 0, sizeof(*pair));
    pair->options = *options;
    world_open(pair);
    pair->client_identity = (struct rpc_identity){
        .cluster_epoch = 1, .node_id = 11, .incarnation = 100, .role = RPC_ROLE_GATEWAY};
    pair->server_identity = (struct rpc_identity){
        .cluster_epoch = 1, .node_id = 22, .incarnation = 200, .role = RPC_ROLE_METAD};
    memcpy(pair->client_identity.cluster_id, pair_cluster, sizeof(pair_cluster));
    memcpy(pair->server_identity.cluster_id, pair_cluster, sizeof(pair_cluster));
    pair->client_security =
        options->tls ? rpc_security_psk(&pair_key, pair_cluster, false) : rpc_security_plain();
    pair->server_security =
        options->tls ? rpc_security_psk(&pair_key, pair_cluster, true) : rpc_security_plain();
}

static void pair_on_state(struct rpc_peer *peer, enum rpc_purpose purpose, bool up,
                          const struct error *why)
{
    struct pair *pair = rpc_peer_owner(peer);

    (void)purpose;
    if (up) {
        pair->ups += 1;
    } else {
        pair->downs += 1;
    }
    pair->why = *why;
}

void pair_start_server(struct pair *pair)
{
    struct rpc_options options = {.env = pair->server_env,
                                  .security = pair->server_security,
                                  .identity = pair->server_identity,
                                  .owner = pair,
                                  .judge = pair->judge,
                                  .idle_ping_ms = pair->options.idle_ping_ms,
                                  .stream_window_bytes = pair->options.window_bytes};
    const char *listen = pair->sim != NULL ? "server:700" : "127.0.0.1:0";
    struct error error = {0};
    enum rc rc;

    pair->server = rpc_open(&options);
    rc = rpc_listen(pair->server, listen, &error);
    ASSERT(rc == RC_OK);
    ASSERT(rpc_address(pair->server, pair->address));
    if (pair->options.wire) {
        pair->wire = wire_open(pair->server_env, pair->sim != NULL ? "server:701" : "127.0.0.1:0",
                               pair->address);
        wire_address(pair->wire, pair->address);
    }
}

void pair_start_client(struct pair *pair)
{
    struct rpc_options options = {.env = pair->client_env,
                                  .security = pair->client_security,
                                  .identity = pair->client_identity,
                                  .owner = pair,
                                  .idle_ping_ms = pair->options.idle_ping_ms,
                                  .stream_window_bytes = pair->options.window_bytes};
    struct rpc_peer_options peer = {.address = pair->address,
                                    .node_id = pair->expect_node,
                                    .lazy = pair->options.lazy,
                                    .owner = pair,
                                    .on_state = pair_on_state};

    pair->client = rpc_open(&options);
    pair->peer = rpc_peer_open(pair->client, &peer);
}

void pair_start(struct pair *pair)
{
    pair_start_server(pair);
    pair_start_client(pair);
}

static void pair_on_closed(void *owner)
{
    struct pair *pair = owner;

    pair->closed += 1;
}

static bool one_closed(void *arg)
{
    return ((struct pair *)arg)->closed > 0;
}

static void pair_await_closed(struct pair *pair)
{
    bool came = pair_run(pair, one_closed, pair, 60000);

    ASSERT(came && pair->closed == 1);
    pair->closed = 0;
}

void pair_close_client(struct pair *pair)
{
    if (pair->peer != NULL) {
        rpc_peer_close(pair->peer, pair_on_closed);
        pair->peer = NULL;
        pair_await_closed(pair);
    }
    if (pair->client != NULL) {
        rpc_close(pair->client, pair_on_closed);
        pair->client = NULL;
        pair_await_closed(pair);
    }
}

void pair_close_server(struct pair *pair)
{
    if (pair->server != NULL) {
        rpc_close(pair->server, pair_on_closed);
        pair->server = NULL;
        pair_await_closed(pair);
    }
}

static bool pair_wire_closed(void *arg)
{
    return wire_closed(arg);
}

void pair_deinit(struct pair *pair)
{
    pair_close_client(pair);
    pair_close_server(pair);
    if (pair->wire != NULL) {
        bool came;

        wire_end(pair->wire);
        came = pair_run(pair, pair_wire_closed, pair->wire, 60000);
        ASSERT(came);
        wire_free(pair->wire);
    }
    rpc_security_free(pair->client_security);
    rpc_security_free(pair->server_security);
    if (pair->sim != NULL) {
        ASSERT(sim_open_streams(pair->client_node) == 0);
        ASSERT(sim_open_streams(pair->server_node) == 0);
        sim_free(pair->sim);
    } else {
        env_uv_close(pair->uv);
    }
}
