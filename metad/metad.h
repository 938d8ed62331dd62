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

enum { METAD_DIRECTORIES_MAX = 64 };

struct metad_options {
    struct env *env; /* the loop it lives on */
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

/* Opens the stores, starts the replicas; `done` runs once a leader serves (or with the error). */
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

/* A client for the loop of `env`; any number of them, one per loop. Freed by metad_close(). Call on
 * the loop of metad at start-up. */
struct meta_client *metad_client(struct metad *metad, struct env *env);

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
