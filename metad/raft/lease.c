/* See lease.h. */
#include "metad/raft/lease.h"

#include "common/base/assert.h"

void lease_begin(struct lease *lease, uint64_t term)
{
    *lease = (struct lease){.term = term};
}

uint64_t lease_round(struct lease *lease, uint64_t now_ns, bool fresh)
{
    const uint64_t age_min_ns = LEASE_ROUND_MIN_MS * 1000000ULL;
    const uint64_t started_ns = lease->started_ns[lease->round % LEASE_ROUNDS_MAX];

    if (lease->round == 0 || fresh || now_ns - started_ns >= age_min_ns) {
        lease->round++;
        lease->started_ns[lease->round % LEASE_ROUNDS_MAX] = now_ns;
    }
    return lease->round;
}

void lease_answered(struct lease *lease, uint64_t id, uint64_t round)
{
    if (round > lease->round) {
        return; /* not ours: nothing was sent under it */
    }
    for (uint32_t i = 0; i < lease->answer_count; i++) {
        if (lease->answers[i].id == id) {
            if (lease->answers[i].round < round) {
                lease->answers[i].round = round;
            }
            return;
        }
    }
    if (lease->answer_count < CONSENSUS_MEMBERS_MAX) {
        lease->answers[lease->answer_count].id = id;
        lease->answers[lease->answer_count].round = round;
        lease->answer_count++;
    }
}

static uint64_t answer_of(const struct lease *lease, uint64_t id)
{
    for (uint32_t i = 0; i < lease->answer_count; i++) {
        if (lease->answers[i].id == id) {
            return lease->answers[i].round;
        }
    }
    return 0;
}

uint64_t lease_reached(const struct lease *lease, const struct consensus_configuration *members,
                       uint64_t self)
{
    uint64_t rounds[CONSENSUS_MEMBERS_MAX];
    uint32_t voters = 0;
    bool self_votes = false;

    for (uint32_t i = 0; i < members->count; i++) {
        const struct consensus_member *member = &members->members[i];
        uint32_t at = voters;
        uint64_t round = 0;

        if (!member->voter) {
            continue;
        }
        self_votes = self_votes || member->id == self;
        round = member->id == self ? lease->round : answer_of(lease, member->id);
        while (at > 0 && rounds[at - 1] < round) { /* newest first */
            rounds[at] = rounds[at - 1];
            at--;
        }
        rounds[at] = round;
        voters++;
    }
    if (voters == 0) {
        return 0;
    }
    if (voters == 1 && self_votes) {
        return UINT64_MAX;
    }
    return rounds[voters / 2];
}

uint64_t lease_until(const struct lease *lease, uint64_t reached, uint64_t election_ns)
{
    if (lease->ended || reached == 0) {
        return 0;
    }
    if (reached == UINT64_MAX) {
        return UINT64_MAX;
    }
    ASSERT(reached <= lease->round);
    if (lease->round - reached >= LEASE_ROUNDS_MAX) {
        return 0;
    }
    return lease->started_ns[reached % LEASE_ROUNDS_MAX] +
           election_ns / 100 * (100 - LEASE_DRIFT_PERCENT);
}
