/* See fixture_meta_rpc.h. */
#include "tests/lib/fixture_meta_rpc.h"

#include <string.h>

#include "common/base/assert.h"

enum { WAIT_SECONDS = 60 };

static void on_closed(void *owner)
{
    ((struct meta_rpc_fixture *)owner)->closed += 1;
}

static bool is_closed(void *arg)
{
    return ((struct meta_rpc_fixture *)arg)->closed > 0;
}

static void await_closed(struct meta_rpc_fixture *r)
{
    bool came = sim_run_until(r->f.sim, is_closed, r, WAIT_SECONDS * SIM_S);

    ASSERT(came && r->closed == 1);
    r->closed = 0;
}

void meta_rpc_fixture_serve(struct meta_rpc_fixture *r)
{
    struct rpc_options options = {
        .env = r->f.env, .security = r->security, .identity = r->server_identity, .owner = r};
    struct error error = {0};
    enum rc rc;

    r->server = rpc_open(&options);
    rc = rpc_listen(r->server, "host:700", &error);
    ASSERT(rc == RC_OK);
    r->service = meta_service_open(
        &(struct meta_service_options){.rpc = r->server, .metad = r->f.metad, .owner = r});
}

void meta_rpc_fixture_unserve(struct meta_rpc_fixture *r)
{
    meta_service_close(r->service, on_closed);
    await_closed(r);
    rpc_close(r->server, on_closed);
    await_closed(r);
    r->service = NULL;
    r->server = NULL;
}

void meta_rpc_fixture_init(struct meta_rpc_fixture *r)
{
    enum rc rc;

    memset(r, 0, sizeof(*r));
    metad_fixture_init(&r->f, 1);
    rc = metad_fixture_open(&r->f, true);
    ASSERT(rc == RC_OK);
    metad_fixture_bucket(&r->f);
    r->local = r->f.meta;
    r->security = rpc_security_plain();
    r->server_identity = (struct rpc_identity){
        .cluster_id = {1, 2, 3},
        .cluster_epoch = 1,
        .node_id = 1,
        .incarnation = 1,
        .role = RPC_ROLE_METAD
    };
    r->client_node = sim_node_new(r->f.sim, "client");
    r->client_env = sim_env_new(r->client_node);
    meta_rpc_fixture_serve(r);
    r->wire = wire_open(r->client_env, "client:701", "host:700");
}

static void on_open(struct meta_remote *remote, void *owner)
{
    struct meta_rpc_fixture *r = owner;

    ASSERT(remote == r->remote);
    r->opened = true;
}

static bool is_open(void *arg)
{
    return ((struct meta_rpc_fixture *)arg)->opened;
}

void meta_rpc_fixture_connect(struct meta_rpc_fixture *r, bool wait)
{
    struct rpc_options options = {
        .env = r->client_env, .security = r->security, .identity = r->server_identity, .owner = r};
    const char *address = "client:701";

    options.identity.node_id = 9;
    options.identity.role = RPC_ROLE_GATEWAY;
    r->client = rpc_open(&options);
    r->opened = false;
    r->remote = meta_remote_open(&(struct meta_remote_options){.rpc = r->client,
                                                               .addresses = &address,
                                                               .address_count = 1,
                                                               .owner = r,
                                                               .on_open = on_open});
    r->f.meta = meta_remote_client(r->remote);
    if (wait) {
        bool came = sim_run_until(r->f.sim, is_open, r, WAIT_SECONDS * SIM_S);

        ASSERT(came);
    }
}

void meta_rpc_fixture_disconnect(struct meta_rpc_fixture *r)
{
    meta_remote_close(r->remote, on_closed);
    await_closed(r);
    rpc_close(r->client, on_closed);
    await_closed(r);
    r->remote = NULL;
    r->client = NULL;
    r->f.meta = r->local;
}

static bool wire_is_closed(void *arg)
{
    return wire_closed(arg);
}

void meta_rpc_fixture_deinit(struct meta_rpc_fixture *r)
{
    bool came;

    if (r->remote != NULL) {
        meta_rpc_fixture_disconnect(r);
    }
    meta_rpc_fixture_unserve(r);
    wire_end(r->wire);
    came = sim_run_until(r->f.sim, wire_is_closed, r->wire, WAIT_SECONDS * SIM_S);
    ASSERT(came);
    wire_free(r->wire);
    rpc_security_free(r->security);
    ASSERT(sim_open_streams(r->client_node) == 0);
    metad_fixture_deinit(&r->f);
}
