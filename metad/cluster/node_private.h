/* What the files of metad/cluster share. Everything on the loop of the node. */
#ifndef METAD_CLUSTER_NODE_PRIVATE_H
#define METAD_CLUSTER_NODE_PRIVATE_H

#include <stdatomic.h>

#include "common/rpc/security.h"
#include "common/task/task.h"
#include "metad/cluster/node.h"
#include "metad/cluster/node_identity.h"
#include "metad/server_private.h"

enum {
    NODE_TICK_MS = 200,
    NODE_CALL_MS = 3000,
    NODE_JOIN_MS = 15000,
    NODE_ALONE_MS = 2000, /* no leader for so long: the addresses of --peers are asked again */
    NODE_JOINS_MAX = 16
};

static const uint64_t NODE_NS_PER_MS = 1000000ULL;

enum cluster_change_kind { CLUSTER_REMOVE = 1, CLUSTER_TRANSFER = 2 }; /* on the wire */

/* A connection to another process: a member by its id, or an address of --peers. */
struct node_peer {
    struct node *node;
    struct rpc_peer *rpc; /* NULL: unused */
    uint64_t id;          /* 0: an address, whoever is there */
    char address[ENV_ADDRESS_MAX];
    bool closing;
};

/* Somebody waits for ids, or for a row to be written. */
struct node_ask {
    struct rpc_request *request; /* NULL: unused */
    struct node_entry entry;
};

/* What the leader does, one thing at a time (lead.c). */
struct lead {
    struct task task;
    bool busy;
    struct arena arena;
    struct meta_write write;
    union {
        Kist__Mint mint;
        Kist__PutNode put;
        Kist__DeleteNode remove;
    } message;
    Kist__Node node;
    struct node_entry entry;     /* the row under way */
    struct rpc_request *request; /* who waits for it; NULL: nobody */
    bool joins;
    struct membership_change change;
    bool changing;
    uint32_t learner; /* promoted next: one that lags is passed over */
    struct node_ask joins_waiting[NODE_JOINS_MAX];
    struct node_ask leaving; /* a removal */
    struct node_table news;  /* rows that are to be written: what members said of themselves */
    uint64_t serving_since_ns;
};

/* What the clock of another voter said. */
struct node_clock {
    struct rpc_call call;
    struct node *node;
    bool busy;
    uint64_t id; /* node; 0: unused */
    uint64_t asked_ns;
    uint64_t wall_ns; /* its clock, 0: not known, at this time of ours */
    uint64_t mono_ns;
};

struct node {
    struct node_options options;
    struct env *env;
    enum node_state state;
    bool stopping; /* node_close() was called */
    bool failed;
    struct node_identity identity;
    uint64_t incarnation;
    struct rpc_security *security;
    struct rpc *rpc;
    struct {
        struct rpc_service status;
        struct rpc_service form;
        struct rpc_service join;
        struct rpc_service hello;
        struct rpc_service change;
        struct rpc_service invite;
        struct rpc_service clock;
    } services;
    struct env_timer timer;
    /* Others. */
    struct node_table table;
    struct node_peer peers[NODE_PEERS_MAX];
    struct node_peer seeds[NODE_PEERS_MAX];
    char seed_addresses[NODE_PEERS_MAX][ENV_ADDRESS_MAX];
    uint32_t seed_count;
    uint64_t leader_seen_ns;
    /* The call under way, as one that waits or as a member. */
    struct rpc_call call;
    bool calling;
    uint32_t seed_next;
    char called[ENV_ADDRESS_MAX];
    struct node_entry self; /* as told to others */
    Kist__Node self_node;
    Kist__ClusterHello hello;
    uint64_t hello_after_ns;
    uint64_t said_ns; /* that it waits */
    char why[ERROR_TEXT_MAX];
    /* The member. */
    struct rpc_transport *transport;
    struct metad_open meta_open;
    struct metad_cluster cluster;
    struct metad *metad;
    struct replica_peer bootstrap[NODE_TABLE_MAX];
    bool opening; /* metad_open() is under way */
    bool leaving_told;
    struct lead lead;
    struct node_clock clocks[NODE_PEERS_MAX];
    uint64_t clock_said_ns;
    uint64_t clock_handed_ns;
    /* Root's rows, read again when they changed. */
    struct env_post rows_post;
    atomic_bool rows_posted;
    bool rows_stale;
    bool rows_busy;
    struct env_work rows_work;
    struct store *rows_store;
    struct node_identity rows_identity;
    struct replica_peer rows_members[NODE_TABLE_MAX];
    uint32_t rows_member_count;
    bool rows_changed;
    struct error rows_error;
    /* The way down, and what follows it. */
    struct task down;
    struct env_post down_post;
    bool down_busy;
    void (*after)(struct node *node);
    void (*close_done)(void *owner);
};

/* ---- node.c ---- */

void node_fail(struct node *node, enum rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The identity was written: on as a member. */
void node_become_member(struct node *node);
/* Ends the member or the waiting one, then `after`. False: it is under way already. */
bool node_down(struct node *node, void (*after)(struct node *node));
struct replica *node_replica(const struct node *node); /* NULL: none runs */
bool node_serving(const struct node *node);

/* ---- node_peers.c ---- */

void peers_sync(struct node *node); /* as the table says */
void seeds_open(struct node *node); /* --peers and what was heard of */
void seeds_close(struct node *node);
void seeds_add(struct node *node, const char *address); /* copied; known ones are left alone */
bool peers_close(struct node *node);                    /* false: some are still closing */
struct node_peer *peers_of(struct node *node, uint64_t id);

/* ---- node_wait.c: no identity yet ---- */

void wait_tick(struct node *node);

/* ---- node_rows.c ---- */

void rows_look(struct node *node);
void rows_changed(void *owner); /* any thread */
void rows_post_run(struct env_post *post);

/* ---- node_serve.c ---- */

void serve_begin(struct node *node); /* on node->rpc */
void serve_end(struct node *node);   /* whoever waits is answered */
void serve_hint(struct node *node, struct rpc_request *request, enum rc rc, const char *text);
void serve_reply_form(struct node *node, struct rpc_request *request,
                      const struct node_entry *entry);

/* ---- node_clock.c ---- */

void node_clock_tick(struct node *node);
void node_clock_serve(struct rpc_service *service, struct rpc_request *request);

/* ---- lead.c ---- */

void lead_tick(struct node *node);
void lead_hello(struct node *node, const struct node_entry *entry);

#endif
