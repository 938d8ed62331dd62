/*
 * The metadata service of one process: replicas of the group on its directories, the views made
 * from root's rows, and the clients of this process. (Between processes: its RPC service.)
 */
#ifndef METAD_METAD_H
#define METAD_METAD_H

#include "common/client/meta_client.h"
#include "common/env/env.h"
#include "common/kv/kv.h"

struct metad;
struct error;
struct replica_peer;
struct rpc_transport;

enum { METAD_DIRECTORIES_MAX = 64 };

/* A member of a group over several processes: one replica, in the first directory. */
struct metad_cluster {
    struct rpc_transport *transport; /* borrowed until metad_close() is done */
    uint64_t replica_id;
    bool create;                          /* the replica is made when it is not there */
    const struct replica_peer *bootstrap; /* first members; none: a learner. Borrowed by open */
    uint32_t bootstrap_count;
    void *owner;
    void (*on_root_change)(void *owner); /* any thread */
    void (*on_look)(void *owner);        /* roles may have changed, and now and then */
    void (*on_stopped)(void *owner, const struct error *error); /* the replica failed; once */
};

struct metad_options {
    struct env *env;                     /* the loop it lives on */
    const struct metad_cluster *cluster; /* copied; NULL: all replicas are in this process */
    /* Data directories, each with its identity checked and locked already; replicas live in
     * DIR/meta of the first 1, 2, 3, 3 or 5 (for 1, 2, 3, 4, 5 and more directories). */
    const char *directories[METAD_DIRECTORIES_MAX];
    uint32_t directory_count;
    bool first_start;          /* no directory holds anything yet: the group is made */
    uint64_t cache_bytes;      /* block cache of all replicas together */
    uint64_t reclaim_grace_ms; /* DESIGN 4.4: 1 h */
    struct data_client *data;  /* of this loop: for reclaim; may be set later by metad_set_data() */
    /* Opens a store; NULL: RocksDB. */
    enum rc (*kv_open)(struct kv **out, const struct kv_options *options, struct error *error);
    uint64_t election_timeout_ms; /* 0: 1000 */
    uint64_t
        verify_after_ms; /* tables of every store are read this long after the start; 0: 30 s */
};

/* Opens the stores, starts the replicas; `done` runs once a leader serves (or with the error); with
 * `cluster` as soon as the replica runs. */
struct metad_open {
    void (*done)(struct metad_open *open);
    struct error error;
    struct metad *metad; /* valid with error.rc RC_OK */
    struct metad_options options;
};
void metad_open(struct metad_open *open);
void metad_set_data(struct metad *metad, struct data_client *data);
/* Hands over, flushes, closes. */
void metad_close(struct metad *metad, void (*done)(void *arg), void *arg);

/* The leader is in this process and may answer. With `cluster` clients may be made once this was
 * true. */
bool metad_serving(const struct metad *metad);
/* A client for the loop of `env`; any number of them, one per loop. Freed by metad_close(). Call on
 * the loop of metad at start-up. */
struct meta_client *metad_client(struct metad *metad, struct env *env);

/* Likewise for an RPC service (metad/rpc): it does not wait when this process does not lead. */
struct meta_client *metad_remote_client(struct metad *metad, struct env *env);

/* For the status page: one line per replica, text in the arena. Any thread. */
struct metad_status {
    uint32_t replica_count;
    struct {
        const char *directory;
        uint64_t id;
        char state[16]; /* "serving", "follower", "refilling", "stopped", "missing" */
        uint64_t applied;
        char error[160];
    } replicas[8];
    bool writable;
    uint32_t losses_tolerated;
};
void metad_status(struct metad *metad, struct metad_status *out);

#endif
