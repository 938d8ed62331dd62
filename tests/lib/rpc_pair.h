/*
 * Two processes that speak RPC, in the simulated world or on the loopback of the real one, and a
 * wire between them that can be cut or damaged at a chosen byte:
 *
 *     client rpc ── peer ──▶ wire (counts, cuts, flips) ──▶ server rpc
 */
#ifndef TESTS_LIB_RPC_PAIR_H
#define TESTS_LIB_RPC_PAIR_H

#include "common/rpc/rpc.h"
#include "common/rpc/security.h"
#include "tests/lib/env_sim.h"

struct env_uv;
struct wire;

enum pair_world { PAIR_SIM, PAIR_REAL };

struct pair_options {
    enum pair_world world;
    bool tls;
    bool wire; /* the client connects through it */
    uint64_t seed;
    uint32_t window_bytes;
    uint64_t idle_ping_ms;
    bool lazy;
};

struct pair {
    struct pair_options options;
    struct sim *sim;
    struct env_uv *uv;
    struct sim_node *client_node;
    struct sim_node *server_node;
    struct env *client_env;
    struct env *server_env;
    struct rpc_security *client_security;
    struct rpc_security *server_security;
    struct rpc_identity client_identity; /* change them, or the securities, before pair_start() */
    struct rpc_identity server_identity;
    enum rc (*judge)(struct rpc *rpc, const struct rpc_identity *other, struct error *error);
    uint64_t expect_node;
    struct rpc *client;
    struct rpc *server;
    struct rpc_peer *peer;
    struct wire *wire;
    char address[ENV_ADDRESS_MAX];
    uint32_t ups;
    uint32_t downs;
    struct error why;
    uint32_t closed; /* done callbacks that ran */
};

void pair_init(struct pair *pair, const struct pair_options *options);
void pair_start(struct pair *pair);
/* Server alone, client alone: pair_start() is both. */
void pair_start_server(struct pair *pair);
void pair_start_client(struct pair *pair);
/* Turns the world until `until` says so, or fails after `timeout_ms` (of that world). */
bool pair_run(struct pair *pair, bool (*until)(void *arg), void *arg, uint64_t timeout_ms);
void pair_run_for(struct pair *pair, uint64_t ms);
void pair_close_client(struct pair *pair);
void pair_close_server(struct pair *pair);
void pair_deinit(struct pair *pair); /* closes what is open; asserts that nothing is left */

/* ---- The wire ---- */

/* The next connection through it ends after so many bytes in that direction. UINT64_MAX: never. */
struct wire_fault {
    uint64_t cut_to_server_at;
    uint64_t cut_to_client_at;
    uint64_t flip_to_server_at; /* that byte is damaged */
    uint64_t flip_to_client_at;
    uint64_t insert_at; /* before that byte to the server, the bytes before it again: a replay */
};
void wire_fault_none(struct wire_fault *fault);
void wire_set(struct wire *wire, const struct wire_fault *fault);
void wire_hold(struct wire *wire, bool hold); /* nothing is read from either side: a slow link */
uint64_t wire_to_server(const struct wire *wire); /* bytes of the last connection */
uint64_t wire_to_client(const struct wire *wire);
uint32_t wire_connections(const struct wire *wire);

struct wire *wire_open(struct env *env, const char *listen, const char *target);
void wire_address(struct wire *wire, char out[ENV_ADDRESS_MAX]);
void wire_end(struct wire *wire);
bool wire_closed(const struct wire *wire); /* then wire_free() */
void wire_free(struct wire *wire);

#endif
