/*
 * The end of a replica.
 *
 *     asked -> hand leadership over -> flush, trim -> frozen -> what is under way completes ->
 * freed -> done
 *
 * Goes on from driver_settle(), whenever something completed. A hand-over is tried for two election
 * timeouts; a replica that has stopped goes straight to the last part.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/replica_internal.h"

void replica_close_timer(struct env_timer *timer)
{
    struct replica *r = CONTAINER_OF(timer, struct replica, close_timer);

    r->close_armed = false;
    driver_settle(r);
}

static bool other_voters(const struct replica *r)
{
    struct consensus_configuration members;

    (void)consensus_members(r->core, &members, NULL);
    for (uint32_t i = 0; i < members.count; i++) {
        if (members.members[i].voter && members.members[i].id != r->id) {
            return true;
        }
    }
    return false;
}

/* No lease from here on: the peer that is told may be elected at once. */
static void hand_over(struct replica *r)
{
    r->lease.ended = true;
    atomic_store(&r->shared_lease_until_ns, 0);
    if (consensus_transfer(r->core, replica_now_ms(r), &r->update, &r->step_error) == RC_OK) {
        driver_carry_out(r, RC_OK, NULL);
    }
}

void replica_transfer(struct replica *r)
{
    if (!r->closing && !r->stopped && r->role == CONSENSUS_LEADER && other_voters(r) &&
        !consensus_transferring(r->core)) {
        hand_over(r);
        driver_settle(r);
    }
}

/* True: this phase is over. */
static bool close_hand_over(struct replica *r)
{
    if (r->stopped || (!r->close_armed && r->handed_over)) {
        return true;
    }
    if (!r->handed_over) {
        r->handed_over = true;
        r->close_armed = true;
        r->env->clock->timer_start(r->env, &r->close_timer,
                                   r->election_ns * REPLICA_CLOSE_ELECTIONS);
        if (r->role == CONSENSUS_LEADER && other_voters(r)) {
            hand_over(r);
        }
    }
    return list_empty(&r->pending) && (r->role != CONSENSUS_LEADER || !other_voters(r));
}

static bool close_flush(struct replica *r)
{
    if (r->stopped) {
        return true;
    }
    if (r->apply.running || r->flush.running || r->installing) {
        return false;
    }
    if (!r->final_flush) {
        r->final_flush = true;
        return !trim_flush(r);
    }
    return true;
}

static void close_freeze(struct replica *r)
{
    if (r->frozen) {
        return;
    }
    r->frozen = true;
    r->stopped = true;
    atomic_store(&r->shared_lease_until_ns, 0);
    atomic_store(&r->shared_state, REPLICA_STOPPED);
    r->env->clock->timer_stop(r->env, &r->timer);
    r->env->clock->timer_stop(r->env, &r->flush_timer);
    r->env->clock->timer_stop(r->env, &r->close_timer);
    propose_lost(r);
    read_lost(r);
    membership_lost(r);
    snapshot_send_abort_all(r);
    snapshot_receive_abort(r);
    propose_finish(r);
    read_finish(r);
    membership_finish(r);
}

void replica_close_continue(struct replica *r)
{
    void (*done)(void *owner) = r->close_done;
    void *owner = r->close_owner;

    if (!r->frozen && (!close_hand_over(r) || !close_flush(r))) {
        return;
    }
    close_freeze(r);
    if (r->writes > 0 || r->apply.running || r->flush.running || r->posted || !link_idle(r) ||
        !snapshot_send_idle(r) || !snapshot_receive_idle(r)) {
        return;
    }
    log_store_unwatch(&r->watch);
    r->env->worker->queue_close(r->env, &r->apply_queue);
    replica_free(r);
    done(owner);
}

void replica_close(struct replica *r, void (*done)(void *owner), void *owner)
{
    ASSERT(done != NULL && !r->closing);
    r->closing = true;
    r->close_done = done;
    r->close_owner = owner;
    propose_post_soon(r); /* goes on from the loop: `done` does not run in here */
}
