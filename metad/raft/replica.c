/*
 * Opening a replica, and what others may ask of it.
 *
 *     log rows -> checks -> (installation repeated) -> core started -> clock started
 *
 * Refused at open: another replica's directory, an id below the tombstone, a log that ends before
 * the state, any row that fails its checksum. The layer above then wipes the group and has it
 * refilled.
 */
#include "metad/raft/replica.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

/* The log as it is loaded: terms and types of all entries, contents of configurations. */
struct replica_load {
    struct log_load load;
    struct replica *replica;
    struct log_entry *entries;
    size_t count;
    size_t max;
};

static void load_entry(struct log_load *base, uint64_t index, const struct log_entry *entry)
{
    struct replica_load *load = CONTAINER_OF(base, struct replica_load, load);
    struct log_entry *to = NULL;

    (void)index;
    if (load->count == load->max) {
        load->max = load->max == 0 ? 1024 : load->max * 2;
        load->entries = mem_realloc(load->entries, load->max * sizeof(*load->entries));
    }
    to = &load->entries[load->count++];
    *to = *entry;
    to->data = NULL;
    if (entry->type == ENTRY_CHANGE) {
        to->data = mem_copy(entry->data, entry->len);
    }
}

static void load_free(struct replica_load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        void *copy = NULL;

        memcpy(&copy, &load->entries[i].data, sizeof(copy)); /* ours: not const */
        mem_free(copy);
    }
    mem_free(load->entries);
}

static enum rc open_identity(const struct replica_options *options, struct error *error)
{
    uint64_t lowest = 0;
    const enum rc rc = log_store_tombstone(options->log, options->group, &lowest, error);

    if (rc == RC_OK && options->replica_id < lowest) {
        return error_set(error, RC_STALE, "replica %llu was removed: the lowest id is now %llu",
                         (unsigned long long)options->replica_id, (unsigned long long)lowest);
    }
    return rc;
}

static size_t bootstrap_bytes(const struct replica_options *options,
                              char out[LOG_CONFIGURATION_BYTES_MAX])
{
    struct consensus_configuration members = {.count = 0};

    if (options->bootstrap_count == 0) {
        return 0;
    }
    ASSERT(options->bootstrap_count <= CONSENSUS_MEMBERS_MAX);
    /* In order of ids: entry 1 must be the same on all. */
    for (uint32_t i = 0; i < options->bootstrap_count; i++) {
        const struct consensus_member member = {options->bootstrap[i].replica_id,
                                                options->bootstrap[i].voter};
        uint32_t at = members.count++;

        while (at > 0 && members.members[at - 1].id > member.id) {
            members.members[at] = members.members[at - 1];
            at--;
        }
        members.members[at] = member;
    }
    return consensus_configuration_encode(&members, out);
}

static enum rc open_load(const struct replica_options *options, struct replica_load *load,
                         struct error *error)
{
    char bytes[LOG_CONFIGURATION_BYTES_MAX];
    enum rc rc = log_store_load(options->log, options->group, &load->load, error);
    const struct log_state *state = &load->load.state;

    if (rc == RC_OK && state->replica_id == 0) {
        size_t len = bootstrap_bytes(options, bytes);

        if (state->last_index > 0) {
            return error_set(error, RC_CORRUPT, "the log has entries, but no replica id");
        }
        rc = log_store_create(options->log, options->group, options->replica_id,
                              slice_of(bytes, len), error);
        if (rc == RC_OK) {
            rc = log_store_load(options->log, options->group, &load->load, error);
        }
    }
    if (rc == RC_OK && state->replica_id != options->replica_id) {
        return error_set(error, RC_STALE, "the log is of replica %llu, not of %llu",
                         (unsigned long long)state->replica_id,
                         (unsigned long long)options->replica_id);
    }
    return rc;
}

/* A start that finds `installing` repeats the swap; the staged state is still there. */
static enum rc open_install(struct replica *r, struct replica_load *load, struct error *error)
{
    struct log_state *state = &load->load.state;
    enum rc rc = RC_OK;

    if (state->installing.index == 0) {
        return RC_OK;
    }
    LOG_WARN("install_repeated", "group=%llu replica=%llu index=%llu", (unsigned long long)r->group,
             (unsigned long long)r->id, (unsigned long long)state->installing.index);
    if (r->machine->applied(r->machine) < state->installing.index) {
        rc = r->machine->install_finish(r->machine, state->installing.index, error);
    }
    if (rc == RC_OK) {
        rc = log_store_installed(r->log, r->group, &state->installing, error);
    }
    if (rc != RC_OK) {
        return error_prefix(error, "repeat the installation at %llu",
                            (unsigned long long)state->installing.index);
    }
    load_free(load);
    *load = (struct replica_load){.load.entry = load_entry, .replica = r};
    return log_store_load(r->log, r->group, &load->load, error);
}

static enum rc open_core(struct replica *r, struct replica_load *load, struct error *error)
{
    const struct log_state *state = &load->load.state;
    const struct consensus_options options = {
        .id = r->id,
        .election_ms = r->election_ms,
        .heartbeat_ms = r->heartbeat_ms,
        .inflight_max = REPLICA_INFLIGHT_ENTRIES,
        .seed = (uint32_t)r->env->random(r->env),
    };
    const struct consensus_start start = {
        .term = state->term,
        .vote = state->vote,
        .snapshot = state->snapshot.index > 0 ? &state->snapshot : NULL,
        .first_index = state->first_index,
        .entries = load->entries,
        .count = (uint32_t)load->count,
    };
    enum rc rc = RC_OK;

    r->applied = r->machine->applied(r->machine);
    if (r->applied > state->last_index || r->applied < state->snapshot.index) {
        return error_set(error, RC_CORRUPT,
                         "the state is at %llu, but the log is from %llu to %llu",
                         (unsigned long long)r->applied, (unsigned long long)state->snapshot.index,
                         (unsigned long long)state->last_index);
    }
    rc = consensus_open(&r->core, &options);
    if (rc != RC_OK) {
        return error_set(error, rc, "consensus: cannot be made");
    }
    entry_log_begin(&r->entries, &state->snapshot, state->first_index);
    for (size_t i = 0; i < load->count; i++) {
        entry_log_loaded(&r->entries, &load->entries[i]);
    }
    r->configured = state->snapshot.configuration_index;
    r->flushed = r->applied;
    r->heard_ns = replica_now_ns(r);
    return consensus_start(r->core, replica_now_ms(r), &start, &r->update, error);
}

static void log_failed(struct log_watch *watch, const struct error *error)
{
    struct replica *r = CONTAINER_OF(watch, struct replica, watch);

    driver_fail(r, error);
    propose_post_soon(r); /* `done`s are called from there */
}

static struct replica *replica_new(const struct replica_options *options)
{
    struct replica *r = mem_alloc(sizeof(*r));

    r->env = options->env;
    r->log = options->log;
    r->machine = options->machine;
    r->transport = options->transport;
    r->group = options->group;
    r->id = options->replica_id;
    r->election_ms =
        options->election_timeout_ms > 0 ? options->election_timeout_ms : REPLICA_ELECTION_MS;
    r->election_ns = r->election_ms * REPLICA_MS_NS;
    r->heartbeat_ms = options->heartbeat_ms > 0 ? options->heartbeat_ms : REPLICA_HEARTBEAT_MS;
    r->log_bytes_max = options->log_bytes_max > 0 ? options->log_bytes_max : REPLICA_LOG_BYTES_MAX;
    r->owner = options->owner;
    r->on_change = options->on_change;
    r->post.run = propose_post;
    r->timer.fire = driver_timer;
    r->flush_timer.fire = trim_timer;
    r->close_timer.fire = replica_close_timer;
    r->watch.failed = log_failed;
    list_init(&r->watch.link);
    list_init(&r->waiting);
    list_init(&r->pending);
    list_init(&r->finished);
    list_init(&r->reads);
    list_init(&r->reads_done);
    list_init(&r->changes_done);
    r->receive_entries = mem_alloc(FRAME_ENTRIES_MAX * sizeof(*r->receive_entries));
    entry_log_init(&r->entries);
    link_init(r);
    return r;
}

void replica_free(struct replica *r)
{
    link_deinit(r);
    entry_log_deinit(&r->entries);
    if (r->core != NULL) {
        consensus_close(r->core);
    }
    mem_free(r->receive_entries);
    mem_free(r);
}

enum rc replica_open(struct replica **out, const struct replica_options *options,
                     struct error *error)
{
    struct replica *r = NULL;
    struct replica_load load = {.load.entry = load_entry};
    enum rc rc = RC_OK;

    ASSERT(options->replica_id != 0 && options->machine != NULL && options->transport != NULL);
    r = replica_new(options);
    load.replica = r;
    rc = open_identity(options, error);
    if (rc == RC_OK) {
        rc = open_load(options, &load, error);
    }
    if (rc == RC_OK) {
        rc = open_install(r, &load, error);
    }
    if (rc == RC_OK) {
        rc = open_core(r, &load, error);
    }
    load_free(&load);
    if (rc != RC_OK) {
        replica_free(r);
        return error_prefix(error, "open replica %llu of group %llu",
                            (unsigned long long)options->replica_id,
                            (unsigned long long)options->group);
    }
    atomic_store(&r->shared_applied, r->applied);
    atomic_store(&r->shared_state, REPLICA_FOLLOWER);
    r->apply_queue.name = "metad-apply";
    r->env->worker->queue_open(r->env, &r->apply_queue);
    log_store_watch(r->log, &r->watch);
    *out = r;
    driver_carry_out(r, RC_OK, NULL);
    driver_settle(r);
    return RC_OK;
}

enum replica_state replica_state(const struct replica *r)
{
    return (enum replica_state)atomic_load(&r->shared_state);
}

const struct error *replica_error(const struct replica *r)
{
    return &r->error;
}

uint64_t replica_id(const struct replica *r)
{
    return r->id;
}

uint64_t replica_leader(const struct replica *r)
{
    return r->stopped ? 0 : consensus_leader(r->core);
}

uint64_t replica_term(const struct replica *r)
{
    return consensus_term(r->core);
}

uint64_t replica_last_index(const struct replica *r)
{
    return r->entries.last_index;
}

uint64_t replica_commit(const struct replica *r)
{
    return atomic_load(&r->shared_commit);
}

uint64_t replica_applied(const struct replica *r)
{
    return atomic_load(&r->shared_applied);
}

bool replica_lease(const struct replica *r, uint64_t mono_ns)
{
    return mono_ns < atomic_load(&r->shared_lease_until_ns);
}
