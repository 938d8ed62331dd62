/*
 * One replica of one raft group: consensus.h (the library's raft_step core), driver (carries out
 * its updates), log store, apply. What stands above (metad/apply, metad/service) sees only this.
 *
 *     replica_propose -> log written and synced on a majority -> machine->apply -> proposal->done
 *
 * Threads: everything on the loop of the metad that opened it, except where "any thread" is said;
 * machine->apply and ->flush run on the replica's apply queue, never at the same time.
 */
#ifndef METAD_RAFT_REPLICA_H
#define METAD_RAFT_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/base/list.h"
#include "common/base/slice.h"
#include "common/env/env.h"

struct replica;
struct log_store; /* metad/log/log_store.h: one per metad, shared by its replicas */

struct apply_entry {
    uint64_t index;
    uint64_t term;
    struct slice
        data;     /* as proposed; borrowed during apply. Empty: a barrier or a configuration. */
    void *result; /* set by apply: handed to the proposal when it waits here, else to result_free */
};

/* Implemented by metad/apply/machine.c. Deterministic: state is a function of the entries. */
struct state_machine {
    /* Index up to which the state is in memory or on disk: what apply must go on from. After open
     * this is what was flushed last. Any thread. */
    uint64_t (*applied)(struct state_machine *machine);
    /* In order, no gap; each with index applied() + 1. Must not fail for a reason that replicas
     * differ in: an error of the disk stops the replica (returns false, error set). */
    bool (*apply)(struct state_machine *machine, struct apply_entry *entries, size_t count,
                  struct error *error);
    void (*result_free)(struct state_machine *machine, void *result);
    /* Makes everything applied so far durable; `index` is then what a restart goes on from. */
    enum rc (*flush)(struct state_machine *machine, uint64_t *index, struct error *error);
    /* A streamed copy of the state at one instant, for a replica that must be filled. On work
     * threads. */
    enum rc (*export_open)(struct state_machine *machine, void **out, uint64_t *index,
                           struct error *error);
    enum rc (*export_next)(struct state_machine *machine, void *handle, struct buffer *chunk,
                           bool *end, struct error *error); /* about 256 KiB a call */
    void (*export_close)(struct state_machine *machine, void *handle);
    /* Into a side directory; the old state stays until install_finish, which swaps durably. Not
     * while apply runs. */
    enum rc (*install_begin)(struct state_machine *machine, struct error *error);
    enum rc (*install_chunk)(struct state_machine *machine, struct slice chunk,
                             struct error *error);
    enum rc (*install_finish)(struct state_machine *machine, uint64_t index, struct error *error);
};

struct replica_peer {
    uint64_t replica_id; /* never reused: minted when a directory becomes a member */
    bool voter;
};

/* Carries messages between replicas. FIFO per link; losing is fine. Bytes are opaque to it. */
struct raft_transport {
    void (*send)(struct raft_transport *transport, uint64_t group, uint64_t from, uint64_t to,
                 struct slice bytes); /* copies */
};

struct replica_options {
    struct env *env;
    struct log_store *log;
    struct state_machine *machine;
    struct raft_transport *transport;
    uint64_t group;
    uint64_t replica_id;
    /* First start of the group only (nothing in the log): the members to begin with. */
    const struct replica_peer *bootstrap;
    uint32_t bootstrap_count;
    uint64_t election_timeout_ms; /* 0: 1000; the same on all replicas */
    uint64_t heartbeat_ms;        /* 0: 100 */
    uint64_t log_bytes_max;       /* flush and trim beyond this; 0: 32 MiB */
    void *owner;
    /* Role or term changed, or it stopped (replica_state()). */
    void (*on_change)(struct replica *replica, void *owner);
};

enum replica_state {
    REPLICA_STARTING,
    REPLICA_FOLLOWER,
    REPLICA_CANDIDATE,
    REPLICA_LEADER,  /* elected, but an entry of its own term is not applied yet */
    REPLICA_SERVING, /* leader that may answer */
    REPLICA_STOPPED  /* failed: replica_error() says why; it must be refilled or restarted */
};

/* Loads the log, starts the clock. A failed open needs no close. Blocking: at start-up. */
enum rc replica_open(struct replica **out, const struct replica_options *options,
                     struct error *error);
/* Hands leadership over when it can, waits for what is under way, flushes. */
void replica_close(struct replica *replica, void (*done)(void *owner), void *owner);

/* Asks the most suitable peer to lead instead, if this one leads. Ends the lease of this term; a
 * peer that does not come up leaves it leading. */
void replica_transfer(struct replica *replica);

/* A message from a peer came in. Borrows bytes during the call. */
void replica_receive(struct replica *replica, uint64_t from, struct slice bytes);

struct proposal {
    const struct slice *parts; /* the entry is these put together; borrowed until done */
    uint32_t part_count;
    void (*done)(struct proposal *proposal); /* on the metad's loop */
    enum rc rc; /* RC_OK: applied here, `result` is the machine's. RC_NOT_LEADER, RC_BUSY, RC_FULL:
                   it never will be. RC_AMBIGUOUS: leadership was lost, it may yet be applied. */
    void *result;
    uint64_t index;
    uint64_t term;
    struct list link; /* private while in flight */
};
void replica_propose(struct replica *replica, struct proposal *proposal);

enum replica_state replica_state(const struct replica *replica);
const struct error *replica_error(const struct replica *replica);
uint64_t replica_id(const struct replica *replica);
uint64_t replica_leader(const struct replica *replica); /* replica id, 0: unknown */
uint64_t replica_term(const struct replica *replica);
uint64_t replica_last_index(const struct replica *replica);

/* ---- Linearizable reads (DESIGN 4.1, Lease): any thread ----
 * Order of a read: replica_lease(); c = replica_commit(); when replica_applied() < c, wait; read
 * the state; then replica_lease() again; only then reply. (A commit index loaded before the first
 * look at the lease may be that of a follower which has been elected since.) */
uint64_t replica_commit(const struct replica *replica);
uint64_t replica_applied(const struct replica *replica);
bool replica_lease(const struct replica *replica,
                   uint64_t mono_ns); /* serving, and the lease holds */

struct replica_read {
    void (*done)(struct replica_read *read); /* on the metad's loop */
    enum rc rc; /* RC_OK: a read of the local state begun now is linearizable */
    uint64_t index;
    struct list link;
    uint64_t round; /* private */
};
/* Slow path: waits for apply, and does a read index round when there is no lease. On the metad's
 * loop. */
void replica_read_index(struct replica *replica, struct replica_read *read);

/* ---- Membership: one change at a time, leader only; on the metad's loop ---- */
struct membership_change {
    enum { MEMBER_ADD_LEARNER, MEMBER_PROMOTE, MEMBER_REMOVE } kind;
    uint64_t replica_id;
    void (*done)(struct membership_change *change);
    enum rc rc; /* RC_OK once committed; RC_BUSY: another change is under way, or not caught up */
    struct list link;
    uint64_t index;
};
void replica_change_membership(struct replica *replica, struct membership_change *change);
/* Members as this replica knows them; returns their number. */
uint32_t replica_members(const struct replica *replica, struct replica_peer *out, uint32_t max);

#endif
