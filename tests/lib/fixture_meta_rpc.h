/*
 * metad_fixture with an RPC service before it, and a remote meta_client on another node, through a
 * wire that can be cut at a chosen byte. `f.meta` is the remote client while it is open, so all the
 * fixture's short forms go over the wire; `local` is the direct one.
 */
#ifndef TESTS_LIB_FIXTURE_META_RPC_H
#define TESTS_LIB_FIXTURE_META_RPC_H

#include "common/meta_rpc/meta_remote.h"
#include "metad/rpc/meta_service.h"
#include "tests/lib/fixture_metad.h"
#include "tests/lib/rpc_pair.h"

struct meta_rpc_fixture {
    struct metad_fixture f;
    struct meta_client *local;
    struct rpc_security *security;
    struct rpc_identity server_identity;
    struct rpc *server;
    struct meta_service *service;
    struct wire *wire;
    struct sim_node *client_node;
    struct env *client_env;
    struct rpc *client;
    struct meta_remote *remote;
    bool opened;
    uint32_t closed; /* done callbacks */
};

/* metad over one directory with bucket "box", its service, the wire. */
void meta_rpc_fixture_init(struct meta_rpc_fixture *r);
void meta_rpc_fixture_deinit(struct meta_rpc_fixture *r);
/* The service of the metad that is open; after a crash, again. */
void meta_rpc_fixture_serve(struct meta_rpc_fixture *r);
void meta_rpc_fixture_unserve(struct meta_rpc_fixture *r);
/* Connects; with `wait` until the first view is there. */
void meta_rpc_fixture_connect(struct meta_rpc_fixture *r, bool wait);
void meta_rpc_fixture_disconnect(struct meta_rpc_fixture *r);

#endif
