/*
 * The raft world: replicas (metad/raft/replica.h) on nodes of their own, with a toy state machine
 * of a few registers. raft_toy.c is the machine, raft_node.c starts, crashes and connects replicas,
 * raft_client.c proposes and reads and checks the history, raft_faults.c breaks things,
 * world_raft.c runs it.
 */
#ifndef TESTS_SIM_RAFT_WORLD_H
#define TESTS_SIM_RAFT_WORLD_H

#include "metad/log/log_store.h"
#include "metad/raft/replica.h"
#include "tests/lib/sim_kv.h"
#include "tests/sim/world.h"

enum {
    RAFT_NODES_MAX = 6,
    RAFT_REGISTERS = 4,
    RAFT_INDEX_MAX = 200000,
    RAFT_TERM_MAX = 20000,
    RAFT_GROUP = 7
};

struct raft_world;

/* What the entries so far have made. */
struct toy_state {
    uint64_t applied;
    uint64_t hash; /* over all entries so far */
    struct {
        uint64_t value;
        uint64_t index; /* of the entry that wrote it */
    } registers[RAFT_REGISTERS];
};

struct toy {
    struct state_machine machine;
    struct raft_world *world;
    struct toy_state now;
    struct toy_state disk; /* as flushed */
    struct buffer side;    /* being installed */
    bool installing;
    uint64_t results; /* handed out, not yet freed */
};

void toy_init(struct toy *toy, struct raft_world *world);
void toy_crash(struct toy *toy);

struct raft_node {
    struct raft_world *world;
    unsigned number;
    struct sim_node *host;
    struct env *env;
    struct sim_kv_disk *disk;
    struct kv *kv;
    struct log_store *log;
    struct replica *replica; /* NULL: down */
    struct raft_transport transport;
    struct toy toy;
    uint64_t id;       /* replica id; a new one for each directory */
    uint64_t starts;   /* messages to an earlier start are lost */
    bool first_member; /* bootstraps the group */
    bool closing;
    bool joined; /* was a member of the group once */
    struct sim_call restart;
};

/* One entry proposed. Its outcome is checked for ever. */
enum op_fate { OP_PENDING, OP_DONE, OP_REFUSED, OP_UNKNOWN };

struct raft_op {
    struct proposal proposal;
    struct raft_world *world;
    struct raft_node *node;
    uint64_t number;
    uint32_t target;
    uint64_t value;
    enum op_fate fate;
    uint64_t index; /* where it was seen applied; 0: nowhere */
    struct slice part;
    char *data;
};

struct raft_world {
    struct sim *sim;
    unsigned node_count;
    unsigned first_members;
    struct raft_node nodes[RAFT_NODES_MAX];
    uint64_t next_id;
    /* Network between replicas. */
    bool cut[RAFT_NODES_MAX][RAFT_NODES_MAX];
    uint64_t link_due[RAFT_NODES_MAX][RAFT_NODES_MAX];
    uint32_t drop_per_mille;
    uint64_t latency_max_ns;
    /* History. */
    uint64_t
        applied_hash[RAFT_INDEX_MAX]; /* of the entry at each index, 0: not applied anywhere yet */
    uint64_t applied_max;
    uint64_t leader[RAFT_TERM_MAX]; /* replica id by term */
    struct raft_op **ops;
    uint64_t op_count;
    uint64_t op_capacity;
    uint64_t floor[RAFT_REGISTERS]; /* a read that begins now must not see less */
    uint64_t acked;
    uint64_t reads_done;
    bool faults_on;
    struct sim_call client;
    struct sim_call fault;
    bool change_pending;
};

/* raft_node.c */
void node_init(struct raft_world *world, unsigned number);
void node_start(struct raft_node *node);
void node_crash(struct raft_node *node, enum sim_crash how);
void node_close(struct raft_node *node); /* orderly; stays down */
void node_renew(struct raft_node *node); /* down: an empty directory with a new id */
void node_restart_in(struct raft_node *node, uint64_t delay_ns);
void node_watch(struct raft_node *node); /* one leader per term */
struct raft_node *node_by_id(struct raft_world *world, uint64_t id);
struct raft_node *node_serving(struct raft_world *world); /* NULL: none */

/* raft_client.c */
void client_start(struct raft_world *world);
void client_stop(struct raft_world *world);
struct raft_op *client_propose(struct raft_world *world, struct raft_node *node);
void client_applied(struct raft_world *world, struct slice data, uint64_t index, uint64_t term);
void client_check_end(struct raft_world *world);

/* raft_faults.c */
void faults_start(struct raft_world *world);
void faults_heal(struct raft_world *world);

#endif
