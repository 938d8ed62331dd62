/*
 * The consensus algorithm as a pure function: an event goes in, what must be stored and sent comes
 * out. No clock, no I/O, no threads, no payloads: the driver keeps the entries, the core sees their
 * terms and types (and the contents of configurations). The only door to the library behind it.
 *
 *     consensus_receive(core, now, message, &update)  ->  driver_carry_out(update)
 *
 * Any error of a call but consensus_submit() and consensus_transfer() is final: the replica stops.
 * Traps of the library and the guards against them: RAFT.md.
 */
#ifndef METAD_RAFT_CONSENSUS_H
#define METAD_RAFT_CONSENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"
#include "metad/log/log_store.h"

struct consensus;

enum consensus_role { CONSENSUS_FOLLOWER, CONSENSUS_CANDIDATE, CONSENSUS_LEADER };

enum { CONSENSUS_MEMBERS_MAX = 16 };

struct consensus_member {
    uint64_t id;
    bool voter; /* else a learner: is sent the log, is not counted */
};

struct consensus_configuration {
    struct consensus_member members[CONSENSUS_MEMBERS_MAX];
    uint32_t count;
};

enum consensus_message_kind {
    MESSAGE_APPEND = 1,
    MESSAGE_APPEND_RESULT,
    MESSAGE_VOTE,
    MESSAGE_VOTE_RESULT,
    MESSAGE_INSTALL, /* out: the peer needs a copy of the state; in: one stands ready to be swapped
                        in */
    MESSAGE_TIMEOUT_NOW
};

struct consensus_message {
    enum consensus_message_kind kind;
    uint64_t peer; /* where it goes to or came from */
    uint64_t term;
    union {
        struct {
            uint64_t prev_index;
            uint64_t prev_term;
            uint64_t commit;
            uint32_t count;
            const struct log_entry *entries; /* in only; `data` matters for ENTRY_CHANGE only */
        } append;
        struct {
            uint64_t rejected; /* 0: accepted */
            uint64_t last_index;
        } append_result;
        struct {
            uint64_t last_index;
            uint64_t last_term;
            bool disrupt;
            bool pre_vote;
        } vote;
        struct {
            bool granted;
            bool pre_vote;
        } vote_result;
        struct {
            const struct log_snapshot *snapshot; /* in only */
        } install;
        struct {
            uint64_t last_index;
            uint64_t last_term;
        } timeout_now;
    };
};

/* What a step asks for. Messages are valid until the next step. */
struct consensus_update {
    bool term_changed; /* term or vote: durable before any message of this or a later step leaves */
    bool own_barrier;  /* the entry is a barrier that the core made */
    bool install;      /* the offered state must be swapped in; then consensus_installed() */
    bool commit_changed;
    uint64_t entries_index; /* 0: none; else store from here on, replacing what is there */
    uint32_t entries_skip;  /* of those given in: how many were there already */
    uint32_t entries_count;
    const struct consensus_message *messages;
    uint32_t message_count;
};

struct consensus_options {
    uint64_t id;
    uint64_t election_ms;
    uint64_t heartbeat_ms;
    uint32_t inflight_max; /* entries sent to a peer and not answered */
    uint32_t seed;
};

enum rc consensus_open(struct consensus **out, const struct consensus_options *options);
void consensus_close(struct consensus *core);

/* What was stored. `terms` and `types` are of the entries from first_index on; `changes` are the
 * configurations among them, in order. */
struct consensus_start {
    uint64_t term;
    uint64_t vote;
    const struct log_snapshot *snapshot; /* NULL: none */
    uint64_t first_index;
    const struct log_entry *entries; /* `data` valid for ENTRY_CHANGE */
    uint32_t count;
};
enum rc consensus_start(struct consensus *core, uint64_t now_ms,
                        const struct consensus_start *start, struct consensus_update *update,
                        struct error *error);

/* A configuration among the entries of an APPEND must be the first: see consensus_fragment(). A
 * VOTE is given in only when no leader was heard for an election timeout, or with `disrupt`. */
enum rc consensus_receive(struct consensus *core, uint64_t now_ms,
                          const struct consensus_message *message, struct consensus_update *update,
                          struct error *error);
/* How many entries from `from` on may be given in one APPEND. */
uint32_t consensus_fragment(const struct log_entry *entries, uint32_t count, uint32_t from);

enum rc consensus_persisted(struct consensus *core, uint64_t now_ms, uint64_t index,
                            struct consensus_update *update, struct error *error);
enum rc consensus_installed(struct consensus *core, uint64_t now_ms,
                            const struct log_snapshot *snapshot, struct consensus_update *update,
                            struct error *error);
/* A committed configuration was seen. */
enum rc consensus_configured(struct consensus *core, uint64_t now_ms, uint64_t index,
                             struct slice configuration, struct consensus_update *update,
                             struct error *error);
/* The state up to the snapshot is durable; `trailing` entries before it are kept. */
enum rc consensus_trimmed(struct consensus *core, uint64_t now_ms,
                          const struct log_snapshot *snapshot, uint32_t trailing,
                          struct consensus_update *update, struct error *error);
enum rc consensus_timeout(struct consensus *core, uint64_t now_ms, struct consensus_update *update,
                          struct error *error);
/* Entries of the current term, all of one type. */
struct consensus_submission {
    enum entry_type type;
    uint32_t count;             /* 1 for ENTRY_CHANGE */
    struct slice configuration; /* of an ENTRY_CHANGE */
};
enum rc consensus_submit(struct consensus *core, uint64_t now_ms,
                         const struct consensus_submission *what, struct consensus_update *update,
                         struct error *error);
/* Hands leadership to the voter that is furthest. */
enum rc consensus_transfer(struct consensus *core, uint64_t now_ms, struct consensus_update *update,
                           struct error *error);

enum consensus_role consensus_role(const struct consensus *core);
uint64_t consensus_term(const struct consensus *core);
uint64_t consensus_vote(const struct consensus *core);
uint64_t consensus_leader(const struct consensus *core); /* 0: unknown */
uint64_t consensus_commit(const struct consensus *core);
uint64_t consensus_deadline_ms(const struct consensus *core);
bool consensus_installing(const struct consensus *core);
bool consensus_transferring(const struct consensus *core);
/* Leader: what the peer holds for sure; 0: unknown. */
uint64_t consensus_match(const struct consensus *core, uint64_t id);
/* The newest configuration, committed or not; `committed` (may be NULL) the one before it while a
 * change is pending, else the same. Returns whether one is pending. */
bool consensus_members(const struct consensus *core, struct consensus_configuration *newest,
                       struct consensus_configuration *committed);

/* Configurations as bytes of an ENTRY_CHANGE (FORMAT.md). */
size_t consensus_configuration_encode(const struct consensus_configuration *configuration,
                                      char out[LOG_CONFIGURATION_BYTES_MAX]);
enum rc consensus_configuration_decode(struct slice bytes, struct consensus_configuration *out,
                                       struct error *error);

#endif
