/*
 * One metad process as a member of a cluster: its identity, its connections, its life.
 *
 *     no identity ── WAITING ── CLUSTER_FORM (init) ─────────────┐
 *                      └─ peers hold a cluster: JOINING ── ids ──┤
 *     identity ──────────────────────────────────────────────────┴── MEMBER ── close
 *
 * A node never forms a cluster of its own: it waits for init, or for peers that have one. A member
 * tells the leader that it runs, and where (CLUSTER_HELLO); the leader writes that into root's rows
 * and keeps the group whole (lead.c). All on one loop.
 */
#ifndef METAD_CLUSTER_NODE_H
#define METAD_CLUSTER_NODE_H

#include "common/rpc/cluster_key.h"
#include "common/rpc/rpc.h"
#include "metad/metad.h"

struct node;

enum node_state { /* on the wire: never renumbered */
                  NODE_STARTING = 0,
                  NODE_WAITING = 1, /* for init, or for peers that have a cluster */
                  NODE_JOINING = 2,
                  NODE_MEMBER = 3,
                  NODE_CLOSING = 4
};

enum { NODE_PEERS_MAX = 16, NODE_NAME_MAX = 65 };

struct node_options {
    struct env *env;
    const char *directory; /* locked already */
    const char *name;
    const char *listen;
    const char *advertise;             /* how others reach it */
    const char *peers[NODE_PEERS_MAX]; /* host:port, resolved whenever they are tried */
    uint32_t peer_count;
    struct cluster_key key;
    uint64_t cache_bytes;
    uint64_t reclaim_grace_ms;
    uint64_t election_timeout_ms; /* 0: 1000 */
    void *owner;
    /* It cannot go on: the process ends. Once, from the loop. */
    void (*on_failed)(struct node *node, const struct error *error);
    /* The member's rpc and metad are open: more services may be put on it. May be NULL. */
    void (*on_member)(struct node *node, struct rpc *rpc, struct metad *metad);
    /* Before they are closed; `done` once nothing of the services is left. May be NULL. */
    void (*on_leaving)(struct node *node, void (*done)(struct node *node));
};

/* What is not borrowed is copied; texts are borrowed until node_close() is done. */
enum rc node_open(struct node **out, const struct node_options *options, struct error *error);
void node_close(struct node *node, void (*done)(void *owner)); /* owner of the options */
void *node_owner(const struct node *node);

enum node_state node_state(const struct node *node);
/* Where the leader is, as far as known here; false: nobody knows. `self`: it is this process, and
 * it may answer. */
struct node_leader {
    uint64_t node_id;
    char address[ENV_ADDRESS_MAX];
    bool self;
};
bool node_leader(const struct node *node, struct node_leader *out);
struct rpc *node_rpc(struct node *node);
struct metad *node_metad(struct node *node); /* NULL: no member yet */

/* For the admin port: one JSON object. */
struct buffer;
void node_write_status(const struct node *node, struct buffer *out);

#endif
