/*
 * consensus.h over cowsql raft 0.22.1: raft_step(). One long file because only this one may include
 * raft.h.
 *
 *     our event -> raft_event -> raft_step -> raft_update -> our update
 *
 * Payloads never enter the library: entries are passed with their term and type and a batch
 * without contents, which comes back with RAFT_UPDATE_ENTRIES and is freed here, or is freed by the
 * library. Only a configuration carries its contents. It promises nothing about durability: that is
 * the driver's.
 */
#include "metad/raft/consensus.h"

#include <assert.h>
#include <raft.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

static_assert(RAFT_VERSION_NUMBER == 2201, "ownership rules differ between versions: RAFT.md");

enum {
    ADDRESS_BYTES = 24,
    INSTALL_TIMEOUT_ELECTIONS = 3, /* then the library asks again; a copy under way goes on */
    /* What the library writes into messages of this version. */
    VOTE_VERSION = 2,
    RESULT_VERSION = 2
};

struct consensus {
    struct raft raft;
    struct raft_entry *entries; /* scratch for entries given in */
    uint32_t entries_max;
    uint64_t given_index; /* index of the first entry given in, for entries_skip */
    struct consensus_message *messages;
    uint32_t messages_max;
};

static void address_of(char out[ADDRESS_BYTES], uint64_t id)
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < 16; i++) {
        out[i] = digits[(id >> (60 - 4 * i)) & 15];
    }
    out[16] = '\0';
}

static enum rc rc_of(int code)
{
    switch (code) {
    case 0:
        return RC_OK;
    case RAFT_NOTLEADER:
    case RAFT_LEADERSHIPLOST:
        return RC_NOT_LEADER;
    case RAFT_CANTCHANGE:
    case RAFT_BUSY:
    case RAFT_NOTFOUND:
    case RAFT_BADID:
        return RC_BUSY;
    case RAFT_NOSPACE:
        return RC_FULL;
    default:
        return RC_IO;
    }
}

enum rc consensus_open(struct consensus **out, const struct consensus_options *options)
{
    struct consensus *core = mem_alloc(sizeof(*core));
    char address[ADDRESS_BYTES];

    ASSERT(options->id != 0);
    ASSERT(options->election_ms > options->heartbeat_ms && options->heartbeat_ms > 0);
    address_of(address, options->id);
    if (raft_init(&core->raft, NULL, NULL, options->id, address) != 0) {
        mem_free(core);
        return RC_IO;
    }
    raft_seed(&core->raft, options->seed);
    raft_set_election_timeout(&core->raft, (unsigned)options->election_ms);
    raft_set_heartbeat_timeout(&core->raft, (unsigned)options->heartbeat_ms);
    raft_set_install_snapshot_timeout(&core->raft,
                                      (unsigned)options->election_ms * INSTALL_TIMEOUT_ELECTIONS);
    raft_set_max_inflight_entries(&core->raft, options->inflight_max);
    raft_set_pre_vote(&core->raft, true);
    *out = core;
    return RC_OK;
}

void consensus_close(struct consensus *core)
{
    raft_close(&core->raft, NULL);
    mem_free(core->entries);
    mem_free(core->messages);
    mem_free(core);
}

static bool configuration_to_raft(struct slice bytes, struct raft_configuration *out)
{
    struct consensus_configuration configuration;

    raft_configuration_init(out);
    if (consensus_configuration_decode(bytes, &configuration, NULL) != RC_OK) {
        return false;
    }
    for (uint32_t i = 0; i < configuration.count; i++) {
        char address[ADDRESS_BYTES];

        address_of(address, configuration.members[i].id);
        if (raft_configuration_add(out, configuration.members[i].id, address,
                                   configuration.members[i].voter ? RAFT_VOTER : RAFT_STANDBY) !=
            0) {
            raft_configuration_close(out);
            return false;
        }
    }
    return true;
}

static void configuration_from_raft(const struct raft_configuration *from,
                                    struct consensus_configuration *out)
{
    out->count = 0;
    for (unsigned i = 0; i < from->n && out->count < CONSENSUS_MEMBERS_MAX; i++) {
        out->members[out->count++] = (struct consensus_member){
            .id = from->servers[i].id,
            .voter = from->servers[i].role == RAFT_VOTER,
        };
    }
}

/* The library's encoding of a configuration, in memory that it may free. */
static bool change_buffer(struct slice bytes, struct raft_buffer *out)
{
    struct raft_configuration configuration;
    bool good = false;

    if (!configuration_to_raft(bytes, &configuration)) {
        return false;
    }
    good = raft_configuration_encode(&configuration, out) == 0;
    raft_configuration_close(&configuration);
    return good;
}

static bool metadata_of(const struct log_snapshot *snapshot, struct raft_snapshot_metadata *out)
{
    out->index = snapshot->index;
    out->term = snapshot->term;
    out->configuration_index = snapshot->configuration_index;
    return configuration_to_raft(slice_of(snapshot->configuration, snapshot->configuration_len),
                                 &out->configuration);
}

static void entries_reserve(struct consensus *core, uint32_t count)
{
    if (count > core->entries_max) {
        core->entries_max = count < 256 ? 256 : count * 2;
        core->entries = mem_realloc(core->entries, core->entries_max * sizeof(*core->entries));
    }
}

static void message_from_raft(const struct raft_message *from, struct consensus_message *out)
{
    *out = (struct consensus_message){.kind = MESSAGE_APPEND, .peer = from->server_id};
    switch (from->type) {
    case RAFT_APPEND_ENTRIES:
        out->kind = MESSAGE_APPEND;
        out->term = from->append_entries.term;
        out->append.prev_index = from->append_entries.prev_log_index;
        out->append.prev_term = from->append_entries.prev_log_term;
        out->append.commit = from->append_entries.leader_commit;
        out->append.count = from->append_entries.n_entries;
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        out->kind = MESSAGE_APPEND_RESULT;
        out->term = from->append_entries_result.term;
        out->append_result.rejected = from->append_entries_result.rejected;
        out->append_result.last_index = from->append_entries_result.last_log_index;
        break;
    case RAFT_REQUEST_VOTE:
        out->kind = MESSAGE_VOTE;
        out->term = from->request_vote.term;
        out->vote.last_index = from->request_vote.last_log_index;
        out->vote.last_term = from->request_vote.last_log_term;
        out->vote.disrupt = from->request_vote.disrupt_leader;
        out->vote.pre_vote = from->request_vote.pre_vote;
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        out->kind = MESSAGE_VOTE_RESULT;
        out->term = from->request_vote_result.term;
        out->vote_result.granted = from->request_vote_result.vote_granted;
        out->vote_result.pre_vote = from->request_vote_result.pre_vote;
        break;
    case RAFT_INSTALL_SNAPSHOT:
        out->kind = MESSAGE_INSTALL;
        out->term = from->install_snapshot.term;
        break;
    case RAFT_TIMEOUT_NOW:
        out->kind = MESSAGE_TIMEOUT_NOW;
        out->term = from->timeout_now.term;
        out->timeout_now.last_index = from->timeout_now.last_log_index;
        out->timeout_now.last_term = from->timeout_now.last_log_term;
        break;
    default:
        ASSERT(from->type == RAFT_APPEND_ENTRIES); /* the library has no other kinds */
    }
}

static void update_messages(struct consensus *core, const struct raft_update *from,
                            struct consensus_update *update)
{
    if (!(from->flags & (RAFT_UPDATE_MESSAGES)) || from->messages.n == 0) {
        return;
    }
    if (from->messages.n > core->messages_max) {
        core->messages_max = from->messages.n * 2;
        core->messages = mem_realloc(core->messages, core->messages_max * sizeof(*core->messages));
    }
    for (unsigned i = 0; i < from->messages.n; i++) {
        message_from_raft(&from->messages.batch[i], &core->messages[i]);
    }
    update->messages = core->messages;
    update->message_count = from->messages.n;
}

static enum rc core_step(struct consensus *core, uint64_t now_ms, struct raft_event *event,
                         struct consensus_update *update, struct error *error)
{
    struct raft_update from = {0};
    int code = 0;

    event->time = now_ms;
    *update = (struct consensus_update){0};
    code = raft_step(&core->raft, event, &from);
    if (code != 0) {
        return error_set(error, rc_of(code), "consensus: %s", raft_strerror(code));
    }
    update->term_changed =
        (from.flags & ((RAFT_UPDATE_CURRENT_TERM) | (RAFT_UPDATE_VOTED_FOR))) != 0;
    update->commit_changed = (from.flags & (RAFT_UPDATE_COMMIT_INDEX)) != 0;
    if (from.flags & (RAFT_UPDATE_ENTRIES)) {
        update->entries_index = from.entries.index;
        update->entries_count = from.entries.n;
        update->own_barrier = from.entries.batch == &core->raft.barrier;
        if (!update->own_barrier) {
            ASSERT(from.entries.index >= core->given_index);
            update->entries_skip = (uint32_t)(from.entries.index - core->given_index);
        }
        raft_free(from.entries.batch[0].batch);
    }
    if (from.flags & (RAFT_UPDATE_SNAPSHOT)) {
        update->install = true;
        raft_free(from.snapshot.chunk.base);
        raft_configuration_close(&from.snapshot.metadata.configuration);
    }
    update_messages(core, &from, update);
    return RC_OK;
}

enum rc consensus_start(struct consensus *core, uint64_t now_ms,
                        const struct consensus_start *start, struct consensus_update *update,
                        struct error *error)
{
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata;
    struct raft_buffer *buffers = NULL;
    uint32_t buffer_count = 0;
    enum rc rc = RC_OK;

    event.start.term = start->term;
    event.start.voted_for = start->vote;
    event.start.start_index = start->first_index;
    if (start->snapshot != NULL) {
        if (!metadata_of(start->snapshot, &metadata)) {
            return error_set(error, RC_CORRUPT, "the snapshot's configuration is unreadable");
        }
        event.start.metadata = &metadata;
    }
    entries_reserve(core, start->count);
    buffers = mem_alloc((start->count + (size_t)1) * sizeof(*buffers));
    for (uint32_t i = 0; i < start->count; i++) {
        const struct log_entry *from = &start->entries[i];
        struct raft_entry *to = &core->entries[i];

        *to = (struct raft_entry){.term = from->term, .type = (enum raft_entry_type)from->type};
        if (from->type == ENTRY_CHANGE) {
            if (!change_buffer(slice_of(from->data, from->len), &to->buf)) {
                rc = error_set(error, RC_CORRUPT, "a configuration in the log is unreadable");
                break;
            }
            buffers[buffer_count++] = to->buf;
        }
    }
    event.start.entries = start->count > 0 ? core->entries : NULL;
    event.start.n_entries = start->count;
    if (rc == RC_OK) {
        rc = core_step(core, now_ms, &event, update, error);
    }
    for (uint32_t i = 0; i < buffer_count; i++) {
        raft_free(buffers[i].base);
    }
    mem_free(buffers);
    return rc;
}

uint32_t consensus_fragment(const struct log_entry *entries, uint32_t count, uint32_t from)
{
    uint32_t to = from + 1;

    /* The library records a configuration at the index of the first new entry of its batch. */
    while (to < count && entries[to].type != ENTRY_CHANGE) {
        to++;
    }
    return count == 0 ? 0 : to - from;
}

/* Returns the batch that the library will free or give back; NULL: unreadable. */
static void *entries_fill(struct consensus *core, const struct log_entry *entries, uint32_t count)
{
    struct raft_buffer batch = {.base = NULL, .len = 0};

    if (entries[0].type == ENTRY_CHANGE) {
        if (!change_buffer(slice_of(entries[0].data, entries[0].len), &batch)) {
            return NULL;
        }
    } else {
        batch.base = raft_malloc(1);
    }
    entries_reserve(core, count);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(i == 0 || entries[i].type != ENTRY_CHANGE);
        core->entries[i] = (struct raft_entry){
            .term = entries[i].term,
            .type = (enum raft_entry_type)entries[i].type,
            .buf = {batch.base, i == 0 ? batch.len : 0},
            .batch = batch.base,
        };
    }
    return batch.base;
}

static enum rc receive_fill(struct consensus *core, const struct consensus_message *from,
                            struct raft_message *to, struct error *error)
{
    switch (from->kind) {
    case MESSAGE_APPEND:
        to->type = RAFT_APPEND_ENTRIES;
        to->append_entries.term = from->term;
        to->append_entries.prev_log_index = from->append.prev_index;
        to->append_entries.prev_log_term = from->append.prev_term;
        to->append_entries.leader_commit = from->append.commit;
        to->append_entries.n_entries = from->append.count;
        core->given_index = from->append.prev_index + 1;
        if (from->append.count > 0) {
            if (entries_fill(core, from->append.entries, from->append.count) == NULL) {
                return error_set(error, RC_CORRUPT, "received configuration is unreadable");
            }
            to->append_entries.entries = core->entries;
        }
        break;
    case MESSAGE_APPEND_RESULT:
        to->type = RAFT_APPEND_ENTRIES_RESULT;
        to->append_entries_result.version = RESULT_VERSION;
        to->append_entries_result.term = from->term;
        to->append_entries_result.rejected = from->append_result.rejected;
        to->append_entries_result.last_log_index = from->append_result.last_index;
        break;
    case MESSAGE_VOTE:
        to->type = RAFT_REQUEST_VOTE;
        to->request_vote.version = VOTE_VERSION;
        to->request_vote.term = from->term;
        to->request_vote.candidate_id = from->peer;
        to->request_vote.last_log_index = from->vote.last_index;
        to->request_vote.last_log_term = from->vote.last_term;
        to->request_vote.disrupt_leader = from->vote.disrupt;
        to->request_vote.pre_vote = from->vote.pre_vote;
        break;
    case MESSAGE_VOTE_RESULT:
        to->type = RAFT_REQUEST_VOTE_RESULT;
        to->request_vote_result.version = RESULT_VERSION;
        to->request_vote_result.term = from->term;
        to->request_vote_result.vote_granted = from->vote_result.granted;
        to->request_vote_result.pre_vote = from->vote_result.pre_vote;
        break;
    case MESSAGE_INSTALL: {
        const struct log_snapshot *snapshot = from->install.snapshot;

        to->type = RAFT_INSTALL_SNAPSHOT;
        to->install_snapshot.term = from->term;
        to->install_snapshot.last_index = snapshot->index;
        to->install_snapshot.last_term = snapshot->term;
        to->install_snapshot.conf_index = snapshot->configuration_index;
        if (!configuration_to_raft(slice_of(snapshot->configuration, snapshot->configuration_len),
                                   &to->install_snapshot.conf)) {
            return error_set(error, RC_CORRUPT, "received configuration is unreadable");
        }
        to->install_snapshot.data.base = raft_malloc(1);
        to->install_snapshot.data.len = 1;
        break;
    }
    case MESSAGE_TIMEOUT_NOW:
        to->type = RAFT_TIMEOUT_NOW;
        to->timeout_now.term = from->term;
        to->timeout_now.last_log_index = from->timeout_now.last_index;
        to->timeout_now.last_log_term = from->timeout_now.last_term;
        break;
    default:
        return error_set(error, RC_INVALID, "unknown kind of message");
    }
    return RC_OK;
}

/*
 * Two refusals of the library are taken back, because they can leave a group without a leader for
 * ever: one that is no voter by its own configuration votes, too, as its log may lack the entry
 * that promoted it, or hold one that removes it and never will be committed (who counts is decided
 * by the candidate's configuration); and a follower's memory of a leader ends with the election
 * timeout that the driver has checked, also when it is a learner, whose own timer never clears it.
 */
static enum rc vote_step(struct consensus *core, uint64_t now_ms, struct raft_event *event,
                         struct consensus_update *update, struct error *error)
{
    struct raft *raft = &core->raft;
    struct raft_server self = {.id = raft->id, .address = raft->address, .role = RAFT_VOTER};
    const struct raft_configuration kept = raft->configuration;
    enum rc rc = RC_OK;

    if (raft->state == RAFT_FOLLOWER) {
        raft_free(raft->follower_state.current_leader.address);
        raft->follower_state.current_leader.address = NULL;
        raft->follower_state.current_leader.id = 0;
    }
    if (raft->state == RAFT_LEADER || raft_role(raft) == RAFT_VOTER) {
        return core_step(core, now_ms, event, update, error);
    }
    raft->configuration.servers = &self;
    raft->configuration.n = 1;
    rc = core_step(core, now_ms, event, update, error);
    raft->configuration = kept;
    return rc;
}

/* A refused pre-vote says the term that is in the way, or a candidate with the better log but a
 * lower term would be refused for ever: the library answers with the term it was asked for. */
static void vote_refusals(struct consensus *core, const struct consensus_update *update)
{
    for (uint32_t i = 0; i < update->message_count; i++) {
        struct consensus_message *message = &core->messages[i];

        if (message->kind == MESSAGE_VOTE_RESULT && message->vote_result.pre_vote &&
            !message->vote_result.granted && message->term < core->raft.current_term) {
            message->term = core->raft.current_term;
        }
    }
}

static enum rc receive_vote(struct consensus *core, uint64_t now_ms, struct raft_event *event,
                            struct consensus_update *update, struct error *error)
{
    const enum rc rc = vote_step(core, now_ms, event, update, error);

    if (rc == RC_OK) {
        vote_refusals(core, update);
    }
    return rc;
}

enum rc consensus_receive(struct consensus *core, uint64_t now_ms,
                          const struct consensus_message *message, struct consensus_update *update,
                          struct error *error)
{
    struct raft_message to = {.type = RAFT_APPEND_ENTRIES};
    struct raft_event event = {.type = RAFT_RECEIVE};
    char address[ADDRESS_BYTES];
    enum rc rc = RC_OK;

    ASSERT(message->peer != 0 && message->peer != core->raft.id);
    *update = (struct consensus_update){0};
    rc = receive_fill(core, message, &to, error);
    if (rc != RC_OK) {
        return rc;
    }
    address_of(address, message->peer);
    to.server_id = message->peer;
    to.server_address = address;
    event.receive.message = &to;
    if (message->kind == MESSAGE_VOTE) {
        return receive_vote(core, now_ms, &event, update, error);
    }
    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_persisted(struct consensus *core, uint64_t now_ms, uint64_t index,
                            struct consensus_update *update, struct error *error)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};

    event.persisted_entries.index = index;
    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_installed(struct consensus *core, uint64_t now_ms,
                            const struct log_snapshot *snapshot, struct consensus_update *update,
                            struct error *error)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};

    event.persisted_snapshot.last = true;
    if (!metadata_of(snapshot, &event.persisted_snapshot.metadata)) {
        return error_set(error, RC_CORRUPT, "the snapshot's configuration is unreadable");
    }
    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_configured(struct consensus *core, uint64_t now_ms, uint64_t index,
                             struct slice configuration, struct consensus_update *update,
                             struct error *error)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};

    event.configuration.index = index;
    if (!configuration_to_raft(configuration, &event.configuration.conf)) {
        return error_set(error, RC_CORRUPT, "a committed configuration is unreadable");
    }
    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_trimmed(struct consensus *core, uint64_t now_ms,
                          const struct log_snapshot *snapshot, uint32_t trailing,
                          struct consensus_update *update, struct error *error)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT};

    ASSERT(!core->raft.snapshot.installing);
    event.snapshot.trailing = trailing;
    if (!metadata_of(snapshot, &event.snapshot.metadata)) {
        return error_set(error, RC_CORRUPT, "the snapshot's configuration is unreadable");
    }
    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_timeout(struct consensus *core, uint64_t now_ms, struct consensus_update *update,
                          struct error *error)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};

    return core_step(core, now_ms, &event, update, error);
}

enum rc consensus_submit(struct consensus *core, uint64_t now_ms,
                         const struct consensus_submission *what, struct consensus_update *update,
                         struct error *error)
{
    const enum entry_type type = what->type;
    const uint32_t count = what->count;
    struct raft_event event = {.type = RAFT_SUBMIT};
    struct raft_buffer batch = {.base = NULL, .len = 0};
    enum rc rc = RC_OK;

    ASSERT(count > 0);
    ASSERT(type != ENTRY_CHANGE || count == 1);
    *update = (struct consensus_update){0};
    if (type == ENTRY_CHANGE) {
        if (!change_buffer(what->configuration, &batch)) {
            return error_set(error, RC_INVALID, "configuration is unreadable");
        }
    } else {
        batch.base = raft_malloc(1);
    }
    entries_reserve(core, count);
    for (uint32_t i = 0; i < count; i++) {
        core->entries[i] = (struct raft_entry){
            .term = core->raft.current_term,
            .type = (enum raft_entry_type)type,
            .buf = batch,
            .batch = batch.base,
        };
    }
    core->given_index = raft_last_index(&core->raft) + 1;
    event.submit.entries = core->entries;
    event.submit.n = count;
    rc = core_step(core, now_ms, &event, update, error);
    if (rc != RC_OK) {
        raft_free(batch.base);
    }
    return rc;
}

enum rc consensus_transfer(struct consensus *core, uint64_t now_ms, struct consensus_update *update,
                           struct error *error)
{
    struct raft_event event = {.type = RAFT_TRANSFER};

    return core_step(core, now_ms, &event, update, error);
}

enum consensus_role consensus_role(const struct consensus *core)
{
    switch (core->raft.state) {
    case RAFT_LEADER:
        return CONSENSUS_LEADER;
    case RAFT_CANDIDATE:
        return CONSENSUS_CANDIDATE;
    default:
        return CONSENSUS_FOLLOWER;
    }
}

uint64_t consensus_term(const struct consensus *core)
{
    return core->raft.current_term;
}

uint64_t consensus_vote(const struct consensus *core)
{
    return core->raft.voted_for;
}

uint64_t consensus_leader(const struct consensus *core)
{
    if (core->raft.state == RAFT_LEADER) {
        return core->raft.id;
    }
    return core->raft.state == RAFT_FOLLOWER ? core->raft.follower_state.current_leader.id : 0;
}

uint64_t consensus_commit(const struct consensus *core)
{
    return core->raft.commit_index;
}

uint64_t consensus_deadline_ms(const struct consensus *core)
{
    return raft_timeout(&core->raft);
}

bool consensus_installing(const struct consensus *core)
{
    return core->raft.snapshot.installing;
}

bool consensus_transferring(const struct consensus *core)
{
    return raft_transferee(&core->raft) != 0;
}

uint64_t consensus_match(const struct consensus *core, uint64_t id)
{
    raft_index index = 0;

    return raft_match_index(&core->raft, id, &index) == 0 ? index : 0;
}

bool consensus_members(const struct consensus *core, struct consensus_configuration *newest,
                       struct consensus_configuration *committed)
{
    const bool pending = core->raft.configuration_uncommitted_index != 0;

    configuration_from_raft(&core->raft.configuration, newest);
    if (committed != NULL) {
        configuration_from_raft(
            pending ? &core->raft.configuration_committed : &core->raft.configuration, committed);
    }
    return pending;
}
