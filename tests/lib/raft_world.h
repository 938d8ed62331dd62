/*
 * Up to seven replicas of one group in the simulated world, over a state machine that is a running
 * hash, and links that delay, drop and cut but keep their order.
 *
 * Checked all the time: the same (term, value) is applied at an index on every replica; one leader
 * a term; what was answered RC_OK is never lost; a read under a lease or by read index never misses
 * what was answered before it began.
 */
#ifndef TESTS_LIB_RAFT_WORLD_H
#define TESTS_LIB_RAFT_WORLD_H

#include "metad/log/log_store.h"
#include "metad/raft/replica.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/sim_kv.h"

enum { RAFT_WORLD_NODES = 7, RAFT_WORLD_GROUP = 9 };

struct raft_world;

struct raft_world_state { /* what the machine keeps; `index` is what it has applied */
    uint64_t index;
    uint64_t hash;
};

struct raft_world_node {
    struct raft_world *world;
    uint32_t number;
    uint64_t id; /* replica id */
    bool up;
    struct sim_node *sim_node;
    struct env *env;
    struct sim_kv_disk *disk;
    struct kv *kv; /* of the log: looked into by the checks */
    struct log_store *log;
    struct replica *replica;
    struct state_machine machine;
    struct raft_world_state state;
    struct raft_world_state flushed; /* survives crashes */
    struct raft_world_state staged;
    bool staged_whole;
    uint32_t chunks_staged;
    uint64_t incarnation;
    uint64_t results_freed;
    bool closing;
    bool closed; /* replica_close() is done */
};

struct raft_world {
    struct sim *sim;
    struct raft_transport transport;
    struct raft_world_node nodes[RAFT_WORLD_NODES];
    uint64_t next_id;
    uint32_t drop_per_mille;
    uint64_t delay_max_ns;
    uint32_t sides[RAFT_WORLD_NODES]; /* replicas on different sides do not hear each other */
    bool deaf[RAFT_WORLD_NODES][RAFT_WORLD_NODES]; /* [to][from]: one way only */
    uint64_t write_max_ns; /* how long a synced write, an apply or a flush may take */
    uint64_t arrives_ns[RAFT_WORLD_NODES][RAFT_WORLD_NODES];
    uint64_t log_bytes_max;
    uint64_t heartbeat_ms; /* 0: as is */
    uint32_t export_chunks;
    /* History: what was applied at each index, by whichever came first. */
    struct raft_world_entry {
        uint64_t term; /* 0: nobody yet */
        uint64_t value;
    } *history;
    uint64_t history_max;
    uint64_t answered; /* highest index answered RC_OK */
    uint64_t messages;
    uint64_t installs;
};

void raft_world_init(struct raft_world *world, uint64_t seed);
void raft_world_deinit(struct raft_world *world);
/* Opens node `at`; with `voters` > 0 as one of the first members 0 .. voters - 1. */
void raft_world_start(struct raft_world *world, uint32_t at, uint32_t voters);
enum rc raft_world_try_start(struct raft_world *world, uint32_t at, uint32_t voters,
                             struct error *error);
void raft_world_crash(struct raft_world *world, uint32_t at, enum sim_crash how);
/* replica_close() and log_store_close(). */
void raft_world_stop(struct raft_world *world, uint32_t at);
/* The same without waiting: begun, and ended when it is ready (true). */
void raft_world_stop_begin(struct raft_world *world, uint32_t at);
bool raft_world_stop_end(struct raft_world *world, uint32_t at);
/* An empty directory: a new replica id, no rows, no state. The node is down. */
void raft_world_wipe(struct raft_world *world, uint32_t at);

/* How many replicas hold a lease now: never more than one. Also checks that none of them misses
 * what was answered. */
uint32_t raft_world_leases(struct raft_world *world);
struct raft_world_node *raft_world_leader(struct raft_world *world); /* SERVING; NULL: none */
/* Runs until there is one. */
struct raft_world_node *raft_world_wait_leader(struct raft_world *world);
void raft_world_run_ms(struct raft_world *world, uint64_t ms);
void raft_world_print(struct raft_world *world); /* to stderr: one line a replica */
/* Runs until the proposal of `value` at the node is done. */
enum rc raft_world_propose(struct raft_world_node *node, uint64_t value);
enum rc raft_world_change(struct raft_world_node *node, uint32_t kind, uint64_t id);
enum rc raft_world_read_index(struct raft_world_node *node);
/* Until every running member has applied as much as the furthest. */
bool raft_world_wait_level(struct raft_world *world, uint64_t timeout_ms);

#endif
