/*
 * The leader's lease (DESIGN 4.1): rounds are numbered, each has the time before its first message
 * left; for every voter the newest round it answered is kept. The lease starts with the newest
 * round that a majority has reached and lasts election timeout x (1 - drift): that long, every
 * voter of that majority refuses to vote for somebody else.
 */
#ifndef METAD_RAFT_LEASE_H
#define METAD_RAFT_LEASE_H

#include "metad/raft/consensus.h"

enum {
    LEASE_ROUNDS_MAX = 64,    /* whose start is remembered; older answers say nothing */
    LEASE_DRIFT_PERCENT = 10, /* clocks differ by far less; the rest is for timers */
    LEASE_ROUND_MIN_MS = 5    /* rounds are not opened more often, unless a read asks */
};

struct lease {
    uint64_t term;
    uint64_t round; /* the newest opened; 0: none */
    bool ended;     /* leadership is being handed over: no lease any more in this term */
    uint64_t started_ns[LEASE_ROUNDS_MAX];
    struct {
        uint64_t id;
        uint64_t round;
    } answers[CONSENSUS_MEMBERS_MAX];
    uint32_t answer_count;
};

void lease_begin(struct lease *lease, uint64_t term);
/* The round for messages sent from now on; opens one when the newest is old, or always with
 * `fresh`. */
uint64_t lease_round(struct lease *lease, uint64_t now_ns, bool fresh);
void lease_answered(struct lease *lease, uint64_t id, uint64_t round);
/* The newest round that a majority of voters has reached, `self` always; UINT64_MAX: self is the
 * only voter. */
uint64_t lease_reached(const struct lease *lease, const struct consensus_configuration *members,
                       uint64_t self);
/* When the lease that a reached round gives ends; 0: none, UINT64_MAX: never. */
uint64_t lease_until(const struct lease *lease, uint64_t reached, uint64_t election_ns);

#endif
