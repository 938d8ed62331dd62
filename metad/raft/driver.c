/*
 * Carries out what the core asks for, in the order that the promises need.
 *
 *     event -> core -> update -+-> term, vote --+
 *                              +-> entries -----+-> log store (in order, one sync) -> persisted ->
 * core
 *                              +-> messages: at once, but never before terms they rest on are
 * durable
 *                              +-> commit index -> apply up to min(commit, persisted)
 *
 * Promises: a message leaves only when every term and vote the core had when it wrote it is
 * durable; a completion counts only for the log it was made for (entry_log.epoch); nothing is
 * applied that is not durable here. Any error of the core or of the log stops the replica.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

enum { RETRY_MS = 10 };

struct driver_write {
    struct log_write write;
    struct replica *replica;
    uint64_t epoch;
    size_t bytes;
    struct log_snapshot *snapshot; /* owned */
    void (*then)(struct replica *r);
    struct log_entry entries[];
};

void driver_fail(struct replica *r, const struct error *error)
{
    if (r->stopped) {
        return;
    }
    r->stopped = true;
    r->error = *error;
    LOG_ERROR("replica_stopped", "group=%llu replica=%llu error=\"%s\"",
              (unsigned long long)r->group, (unsigned long long)r->id, error->text);
    atomic_store(&r->shared_lease_until_ns, 0);
    atomic_store(&r->shared_state, REPLICA_STOPPED);
    r->env->clock->timer_stop(r->env, &r->timer);
    r->env->clock->timer_stop(r->env, &r->flush_timer);
    r->flush_armed = false;
    propose_lost(r);
    read_lost(r);
    membership_lost(r);
    snapshot_send_abort_all(r);
    snapshot_receive_abort(r);
    r->changed = true;
}

static void write_release(struct driver_write *w)
{
    for (uint32_t i = 0; i < w->write.entry_count; i++) {
        entry_block_unref(w->entries[i].block);
    }
    mem_free(w->snapshot);
    mem_free(w);
}

static void write_persisted(struct replica *r, const struct driver_write *w)
{
    const uint64_t last = w->write.first_index + w->write.entry_count - 1;

    if (w->epoch != r->entries.epoch || r->installing || last <= r->entries.persisted) {
        return; /* of entries that are gone, or will be */
    }
    r->entries.persisted = last;
    driver_carry_out(
        r, consensus_persisted(r->core, replica_now_ms(r), last, &r->update, &r->step_error), NULL);
}

static void write_done(struct log_write *write)
{
    struct driver_write *w = CONTAINER_OF(write, struct driver_write, write);
    struct replica *r = w->replica;
    bool then = false; /* what was to follow did */

    ASSERT(r->writes > 0);
    r->writes--;
    r->unwritten_bytes -= w->bytes;
    if (write->what & LOG_WRITE_TERM) {
        r->term_writes--;
    }
    if (!r->stopped && write->rc == RC_OK) {
        if (r->term_writes == 0) {
            link_resume(r);
        }
        if (write->what & LOG_WRITE_ENTRIES) {
            write_persisted(r, w);
        }
        if (w->then != NULL && !r->stopped) {
            then = true;
            w->then(r);
        }
    } else if (!r->stopped) {
        struct error error;

        error_set(&error, write->rc, "the replicated log cannot be written");
        driver_fail(r, &error);
    }
    if (w->then != NULL && r->stopped && r->receiving != NULL && !then) {
        snapshot_receive_unwritten(r);
    }
    write_release(w);
    driver_settle(r);
}

static struct driver_write *write_new(struct replica *r, uint32_t entry_count)
{
    struct driver_write *w = mem_alloc(sizeof(*w) + (size_t)entry_count * sizeof(struct log_entry));

    w->replica = r;
    w->epoch = r->entries.epoch;
    w->write.done = write_done;
    w->write.group = r->group;
    w->write.entries = w->entries;
    w->write.entry_count = entry_count;
    return w;
}

static void write_submit(struct replica *r, struct driver_write *w)
{
    r->writes++;
    r->unwritten_bytes += w->bytes;
    if (w->write.what & LOG_WRITE_TERM) {
        r->term_writes++;
    }
    log_store_write(r->log, r->env, &w->write);
}

void driver_write_snapshot(struct replica *r, unsigned what, struct log_snapshot *snapshot,
                           uint64_t trim_below, void (*then)(struct replica *r))
{
    struct driver_write *w = write_new(r, 0);

    w->write.what = what;
    w->snapshot = snapshot;
    w->write.snapshot = snapshot;
    w->write.trim_below = trim_below;
    w->then = then;
    write_submit(r, w);
}

static void take_entries(struct replica *r, struct driver_write *w, const struct log_entry *given)
{
    const struct consensus_update *u = &r->update;
    const uint64_t last = r->entries.last_index;

    for (uint32_t i = 0; i < u->entries_count; i++) {
        struct log_entry *entry = &w->entries[i];

        if (u->own_barrier || given == NULL) {
            *entry = (struct log_entry){.term = consensus_term(r->core), .type = ENTRY_BARRIER};
        } else {
            *entry = given[u->entries_skip + i];
        }
        if (entry->block != NULL) {
            entry->block->refs += 2; /* of the log in memory and of the write */
        }
        w->bytes += entry->len;
    }
    ASSERT(u->entries_index <= last + 1);
    if (u->entries_index <= last) {
        ASSERT(u->entries_index > r->commit || r->commit > last);
        w->write.what |= LOG_WRITE_TRUNCATE;
        w->write.truncate_from = u->entries_index;
    }
    w->write.what |= LOG_WRITE_ENTRIES;
    w->write.first_index = u->entries_index;
    entry_log_append(&r->entries, u->entries_index, w->entries, u->entries_count);
    w->epoch = r->entries.epoch;
}

void driver_carry_out(struct replica *r, enum rc rc, const struct log_entry *given)
{
    const struct consensus_update *u = &r->update;

    if (rc != RC_OK) {
        driver_fail(r, &r->step_error);
        return;
    }
    if (u->term_changed || u->entries_index != 0) {
        struct driver_write *w = write_new(r, u->entries_count);

        if (u->term_changed) {
            w->write.what |= LOG_WRITE_TERM;
            w->write.term = consensus_term(r->core);
            w->write.vote = consensus_vote(r->core);
        }
        if (u->entries_index != 0) {
            take_entries(r, w, given);
        }
        write_submit(r, w);
    }
    for (uint32_t i = 0; i < u->message_count && !r->stopped; i++) {
        link_send(r, &u->messages[i]);
    }
    if (u->install) {
        snapshot_receive_accepted(r);
    }
    /* While a snapshot is swapped in, the commit index is of a log that is not here yet. */
    if (!consensus_installing(r->core) && !r->installing && consensus_commit(r->core) > r->commit) {
        r->commit = consensus_commit(r->core);
        atomic_store(&r->shared_commit, r->commit);
    }
}

/* The core knows only now that a configuration in the log is committed. */
static bool settle_configuration(struct replica *r)
{
    const struct entry_change *change = NULL;

    if (r->installing || consensus_installing(r->core)) {
        return false;
    }
    change = entry_log_change_after(&r->entries, r->configured);
    if (change == NULL || change->index > r->commit) {
        return false;
    }
    r->configured = change->index;
    driver_carry_out(r,
                     consensus_configured(r->core, replica_now_ms(r), change->index,
                                          slice_of(change->bytes, change->len), &r->update,
                                          &r->step_error),
                     NULL);
    r->changed = true;
    return true;
}

static void settle_lost(struct replica *r)
{
    propose_lost(r);
    read_lost(r);
    membership_lost(r);
    snapshot_send_abort_all(r);
    atomic_store(&r->shared_lease_until_ns, 0);
    r->own_index = 0;
}

static bool settle_role(struct replica *r)
{
    const enum consensus_role role = consensus_role(r->core);
    const uint64_t term = consensus_term(r->core);
    const uint64_t leader = consensus_leader(r->core);

    if (role == r->role && term == r->term) {
        r->changed = r->changed || leader != r->leader;
        r->leader = leader;
        return false;
    }
    if (r->role == CONSENSUS_LEADER) {
        settle_lost(r);
    }
    r->role = role;
    r->term = term;
    r->leader = leader;
    r->changed = true;
    if (role == CONSENSUS_LEADER && r->lease.term != term) {
        lease_begin(&r->lease, term);
    }
    return true;
}

/* A new leader knows what is committed only when an entry of its own term is. */
static bool settle_barrier(struct replica *r)
{
    static const struct consensus_submission barrier = {.type = ENTRY_BARRIER, .count = 1};

    if (r->role != CONSENSUS_LEADER || r->own_index != 0) {
        return false;
    }
    if (entry_log_term(&r->entries, r->entries.last_index) == r->term) {
        r->own_index = r->entries.last_index;
        return false;
    }
    r->own_index = r->entries.last_index + 1;
    driver_carry_out(
        r, consensus_submit(r->core, replica_now_ms(r), &barrier, &r->update, &r->step_error),
        NULL);
    return true;
}

static void settle_state(struct replica *r)
{
    enum replica_state state = REPLICA_FOLLOWER;

    if (r->role == CONSENSUS_CANDIDATE) {
        state = REPLICA_CANDIDATE;
    } else if (r->role == CONSENSUS_LEADER) {
        state = r->own_index != 0 && r->applied >= r->own_index ? REPLICA_SERVING : REPLICA_LEADER;
    }
    if (state != (enum replica_state)atomic_load(&r->shared_state)) {
        atomic_store(&r->shared_state, (int)state);
        r->changed = true;
        LOG_DEBUG("replica_state", "group=%llu replica=%llu state=%d term=%llu",
                  (unsigned long long)r->group, (unsigned long long)r->id, (int)state,
                  (unsigned long long)r->term);
    }
}

/* Both majorities count while a configuration is pending. */
static void settle_lease(struct replica *r)
{
    struct consensus_configuration newest;
    struct consensus_configuration committed;
    uint64_t reached = 0;
    uint64_t before = 0;

    if (atomic_load(&r->shared_state) != REPLICA_SERVING) {
        atomic_store(&r->shared_lease_until_ns, 0);
        return;
    }
    if (consensus_members(r->core, &newest, &committed)) {
        before = lease_reached(&r->lease, &committed, r->id);
    } else {
        before = UINT64_MAX;
    }
    reached = lease_reached(&r->lease, &newest, r->id);
    atomic_store(&r->shared_lease_until_ns,
                 lease_until(&r->lease, before < reached ? before : reached, r->election_ns));
}

static void timer_arm(struct replica *r)
{
    const uint64_t now_ns = replica_now_ns(r);
    uint64_t at_ns = consensus_deadline_ms(r->core) * REPLICA_MS_NS;

    /* Being a follower it promised not to stand for election yet. */
    if (r->role != CONSENSUS_LEADER && at_ns < r->heard_ns + r->election_ns) {
        at_ns = r->heard_ns + r->election_ns;
    }
    if (at_ns <= now_ns) {
        at_ns = now_ns + RETRY_MS * REPLICA_MS_NS;
    }
    /* An earlier alarm is left: it looks again. Most deadlines only move on. */
    if (r->timer_at_ns == 0 || at_ns < r->timer_at_ns) {
        r->timer_at_ns = at_ns;
        r->env->clock->timer_start(r->env, &r->timer, at_ns - now_ns);
    }
}

void driver_timer(struct env_timer *timer)
{
    struct replica *r = CONTAINER_OF(timer, struct replica, timer);
    const uint64_t now_ms = replica_now_ms(r);

    r->timer_at_ns = 0;
    if (r->stopped) {
        return;
    }
    if (now_ms >= consensus_deadline_ms(r->core) &&
        (r->role != CONSENSUS_FOLLOWER || replica_now_ns(r) >= r->heard_ns + r->election_ns)) {
        driver_carry_out(r, consensus_timeout(r->core, now_ms, &r->update, &r->step_error), NULL);
    }
    driver_settle(r);
}

void driver_settle(struct replica *r)
{
    bool more = true;

    while (more && !r->stopped) {
        more = settle_role(r);
        more = settle_barrier(r) || more;
        more = settle_configuration(r) || more;
    }
    if (!r->stopped) {
        settle_state(r);
        settle_lease(r);
        membership_progress(r);
        read_progress(r);
        apply_start(r);
        trim_consider(r);
    }
    if (!r->stopped) {
        timer_arm(r);
    }
    propose_finish(r);
    read_finish(r);
    membership_finish(r);
    if (r->changed) {
        r->changed = false;
        if (r->on_change != NULL) {
            r->on_change(r, r->owner);
        }
    }
    if (r->closing) {
        replica_close_continue(r); /* may free the replica */
    }
}
