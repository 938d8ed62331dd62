/*
 * One replica, shared by the files of metad/raft only. Each file owns a part of the struct; the
 * head comment of a part names it.
 */
#ifndef METAD_RAFT_REPLICA_INTERNAL_H
#define METAD_RAFT_REPLICA_INTERNAL_H

#include <stdatomic.h>

#include "metad/raft/entry_log.h"
#include "metad/raft/lease.h"
#include "metad/raft/message.h"
#include "metad/raft/replica.h"

#define REPLICA_MS_NS 1000000ULL

enum {
    REPLICA_ELECTION_MS = 1000,
    REPLICA_HEARTBEAT_MS = 100,
    REPLICA_LOG_BYTES_MAX = 32 * 1024 *
        1024, /* what a start reads and applies again: about a second */
    REPLICA_FLUSH_AGE_MS = 30000,
    REPLICA_INFLIGHT_ENTRIES = 2048,            /* to one peer, unanswered */
    REPLICA_CACHE_BYTES = 4 * 1024 * 1024,      /* newest entries kept for slow followers */
    REPLICA_UNAPPLIED_BYTES = 16 * 1024 * 1024, /* beyond: apply reads from the disk */
    REPLICA_UNWRITTEN_BYTES = 32 * 1024 * 1024, /* beyond: a follower drops what comes in */
    REPLICA_PROPOSALS_MAX = 16384,
    REPLICA_PROPOSAL_BYTES = 32 * 1024 * 1024,
    REPLICA_SUBMIT_ENTRIES = 1024, /* of one step */
    REPLICA_SUBMIT_BYTES = 4 * 1024 * 1024,
    REPLICA_APPLY_ENTRIES = 256, /* of one call of apply */
    REPLICA_APPLY_BYTES = 4 * 1024 * 1024,
    REPLICA_LINKS_MAX = CONSENSUS_MEMBERS_MAX,
    REPLICA_LINK_QUEUE_MAX = 256,
    REPLICA_READS_MAX = 65536,
    REPLICA_CLOSE_ELECTIONS = 2 /* how many election timeouts a close waits for the hand-over */
};

/* ---- apply.c ---- */
struct apply_job {
    struct env_work work;
    bool running;
    bool from_disk;
    bool good;
    uint32_t count;
    struct apply_entry entries[REPLICA_APPLY_ENTRIES];
    struct entry_block *blocks[REPLICA_APPLY_ENTRIES];
    struct log_entry read_entries[REPLICA_APPLY_ENTRIES];
    struct log_read read;
    struct error error;
};

/* ---- trim.c ---- */
struct flush_job {
    struct env_work work;
    bool running;
    enum rc rc;
    uint64_t index;
    struct error error;
};

/* ---- link.c: what waits to be sent to one peer ---- */
struct link_item {
    struct list link;
    struct consensus_message message;
    uint64_t epoch; /* of the log when the core wrote the message */
};

struct link {
    struct replica *replica;
    uint64_t peer; /* 0: free */
    struct list queue;
    uint32_t queued;
    /* An APPEND whose entries come from the disk. */
    bool reading;
    struct env_work work;
    struct log_read read;
    struct log_entry *read_entries;
    struct error read_error;
    enum rc read_rc;
    struct snapshot_send *sending; /* snapshot_send.c */
};

struct replica {
    struct env *env;
    struct log_store *log;
    struct state_machine *machine;
    struct raft_transport *transport;
    uint64_t group;
    uint64_t id;
    uint64_t election_ms;
    uint64_t election_ns;
    uint64_t heartbeat_ms;
    uint64_t log_bytes_max;
    void *owner;
    void (*on_change)(struct replica *replica, void *owner);

    /* Any thread. */
    _Atomic uint64_t shared_commit;
    _Atomic uint64_t shared_applied;
    _Atomic uint64_t shared_lease_until_ns; /* 0 unless SERVING */
    _Atomic int shared_state;               /* enum replica_state */

    /* driver.c */
    struct consensus *core;
    struct entry_log entries;
    struct log_watch watch;
    struct error error;      /* why it stopped */
    struct error step_error; /* of the step under way */
    struct consensus_update update;
    bool stopped;
    bool changed;         /* on_change is owed */
    uint32_t writes;      /* under way */
    uint32_t term_writes; /* of them with a term or vote: messages wait for these */
    size_t unwritten_bytes;
    enum consensus_role role; /* as last seen */
    uint64_t term;
    uint64_t leader;
    uint64_t own_index;  /* leader: its first entry of its own term; 0: not submitted */
    uint64_t configured; /* configurations up to here were given to the core as committed */
    uint64_t commit;
    struct env_timer timer;
    uint64_t timer_at_ns; /* 0: not armed */

    /* receive.c: the promises that leases rest on */
    uint64_t heard_ns; /* when a leader was last accepted, or the start */
    uint64_t heard_term;
    uint64_t heard_round;      /* newest round accepted in heard_term */
    uint64_t timeout_now_term; /* of the last TimeoutNow */
    struct log_entry *receive_entries;

    /* lease.c, read.c */
    struct lease lease;
    struct list reads;      /* replica_read, waiting for a round or for apply */
    struct list reads_done; /* `done` is owed */
    uint32_t read_count;

    /* propose.c */
    struct list waiting;  /* proposals not yet in the log */
    struct list pending;  /* in the log, by index */
    struct list finished; /* `done` is owed */
    uint32_t proposal_count;
    size_t proposal_bytes;
    struct env_post post;
    bool posted;

    /* apply.c, trim.c */
    struct env_queue apply_queue;
    struct apply_job apply;
    uint64_t applied;
    struct flush_job flush;
    uint64_t flushed;
    uint64_t flushed_bytes; /* entries.bytes_total at the last flush */
    struct env_timer flush_timer;
    bool flush_armed;

    /* link.c */
    struct link links[REPLICA_LINKS_MAX];
    struct buffer frame;

    /* membership.c */
    struct membership_change *change;
    struct list changes_done; /* `done` is owed */

    /* snapshot_receive.c */
    struct snapshot_receive *receiving;
    bool installing; /* the state is being swapped: nothing is applied */
    uint64_t session_next;

    /* close.c */
    bool closing;
    bool handed_over;
    bool final_flush;
    bool frozen; /* nothing goes into the core any more */
    struct env_timer close_timer;
    bool close_armed;
    void (*close_done)(void *owner);
    void *close_owner;
};

static inline uint64_t replica_now_ns(const struct replica *r)
{
    return r->env->clock->mono_ns(r->env);
}

static inline uint64_t replica_now_ms(const struct replica *r)
{
    return replica_now_ns(r) / REPLICA_MS_NS;
}

/* replica.c, close.c */
void replica_free(struct replica *r);
void replica_close_continue(struct replica *r);
void replica_close_timer(struct env_timer *timer);

/* driver.c */
/* Carries out what a step asked for. `given`: the entries given in; each that is taken gets its
 * references. */
void driver_carry_out(struct replica *r, enum rc rc, const struct log_entry *given);
/* After every event: role changes, barrier, configurations, apply, lease, timer. */
void driver_settle(struct replica *r);
void driver_fail(struct replica *r, const struct error *error);
/* A write besides entries: trims and installations. Takes `snapshot`; `then` runs when it is
 * durable. */
void driver_write_snapshot(struct replica *r, unsigned what, struct log_snapshot *snapshot,
                           uint64_t trim_below, void (*then)(struct replica *r));
void driver_timer(struct env_timer *timer);

/* propose.c */
void propose_post(struct env_post *post);
void propose_post_soon(struct replica *r);
/* Leadership is gone: what is not committed is in doubt. */
void propose_lost(struct replica *r);
/* Entry `index` of `term` was applied with `result`: its proposal, if it waits here, is done. */
void propose_applied(struct replica *r, uint64_t index, uint64_t term, void *result);
/* Calls `done` of what is finished. */
void propose_finish(struct replica *r);

/* apply.c */
void apply_start(struct replica *r);

/* trim.c */
void trim_consider(struct replica *r);
void trim_timer(struct env_timer *timer);
bool trim_flush(struct replica *r); /* false: nothing to do, or one is under way */

/* link.c */
void link_init(struct replica *r);
void link_deinit(struct replica *r);
void link_send(struct replica *r, const struct consensus_message *message);
void link_resume(struct replica *r); /* terms are durable: what waited leaves */
bool link_idle(const struct replica *r);
struct link *link_find(struct replica *r, uint64_t peer);    /* NULL: none */
struct link *link_reserve(struct replica *r, uint64_t peer); /* NULL: too many peers */
/* A frame that is none of the core's. Held back like all others. */
void link_send_round(struct replica *r, uint64_t peer, enum message_kind kind);
void link_send_frame(struct replica *r, uint64_t peer); /* r->frame, ended here */
struct frame_header link_header(const struct replica *r, uint64_t peer, enum message_kind kind);

/* read.c */
void read_progress(struct replica *r);
void read_lost(struct replica *r);
void read_finish(struct replica *r);

/* membership.c */
void membership_progress(struct replica *r);
void membership_lost(struct replica *r);
void membership_finish(struct replica *r);

/* snapshot_send.c */
void snapshot_send_start(struct replica *r, uint64_t peer);
bool snapshot_send_active(struct replica *r, uint64_t peer);
void snapshot_send_result(struct replica *r, const struct frame *frame);
void snapshot_send_reached(struct replica *r, uint64_t peer, uint64_t index);
void snapshot_send_abort_all(struct replica *r);
bool snapshot_send_idle(const struct replica *r);
uint64_t
snapshot_send_hold(const struct replica *r); /* entries above are needed; UINT64_MAX: none */

/* snapshot_receive.c */
void snapshot_receive_begin(struct replica *r, const struct frame *frame);
void snapshot_receive_chunk(struct replica *r, const struct frame *frame);
void snapshot_receive_accepted(struct replica *r);  /* the core wants it */
void snapshot_receive_unwritten(struct replica *r); /* stopped while a row of it was written */
void snapshot_receive_abort(struct replica *r);
bool snapshot_receive_idle(const struct replica *r);

#endif
