/* See raft_world.h. */
#include "tests/lib/raft_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "metad/log/log_rows.h"
#include "metad/raft/replica_internal.h"
#include "tests/lib/sim_world.h"

enum { CHUNK_BYTES = 64, WAIT_MS = 60000, STEP_US = 500 };

static struct raft_world_node *node_of(struct state_machine *machine)
{
    return CONTAINER_OF(machine, struct raft_world_node, machine);
}

/* Makes the job under way take a while. */
static void take_time(struct raft_world_node *node)
{
    if (node->world->write_max_ns > 0) {
        node->sim_node->cost_ns += sim_below(node->world->sim, node->world->write_max_ns);
    }
}

/* ---- A store whose synced writes take time ---- */

struct raft_world_kv {
    struct kv base;
    struct kv_ops ops; /* iterators are the inner store's: they need no forwarding */
    struct kv *inner;
    struct raft_world_node *node;
};

static struct raft_world_kv *kv_of(struct kv *kv)
{
    return CONTAINER_OF(kv, struct raft_world_kv, base);
}

static enum rc slow_get(struct kv *kv, uint32_t family, struct slice key, unsigned flags,
                        const struct kv_snapshot *snapshot, struct kv_pin *out, struct error *error)
{
    struct kv *inner = kv_of(kv)->inner;

    return inner->ops->get(inner, family, key, flags, snapshot, out, error);
}

static void slow_release(struct kv *kv, struct kv_pin *pin)
{
    kv_release(kv_of(kv)->inner, pin);
}

static enum rc slow_write(struct kv *kv, struct kv_batch *batch, enum kv_write_mode mode,
                          struct error *error)
{
    take_time(kv_of(kv)->node);
    return kv_write(kv_of(kv)->inner, batch, mode, error);
}

static struct kv_iter *slow_iter_open(struct kv *kv, const struct kv_iter_options *options)
{
    struct kv *inner = kv_of(kv)->inner;

    return inner->ops->iter_open(inner, options);
}

static enum rc slow_flush(struct kv *kv, struct error *error)
{
    struct kv *inner = kv_of(kv)->inner;

    return inner->ops->flush(inner, error);
}

static void slow_close(struct kv *kv)
{
    struct raft_world_kv *slow = kv_of(kv);

    kv_close(slow->inner);
    mem_free(slow);
}

static struct kv *slow_open(struct raft_world_node *node, struct kv *inner)
{
    struct raft_world_kv *slow = mem_alloc(sizeof(*slow));

    slow->inner = inner;
    slow->node = node;
    slow->ops = *inner->ops;
    slow->ops.get = slow_get;
    slow->ops.release = slow_release;
    slow->ops.write = slow_write;
    slow->ops.iter_open = slow_iter_open;
    slow->ops.flush = slow_flush;
    slow->ops.close = slow_close;
    slow->base.ops = &slow->ops;
    return &slow->base;
}

/* ---- What must be durable: looked up in the store as it is at this moment ---- */

static uint64_t durable_entry_term(struct raft_world_node *node, uint64_t index)
{
    struct error error;
    char key[LOG_ENTRY_KEY_BYTES];
    struct log_entry entry;
    struct kv_pin pin;
    uint64_t found = 0;

    log_entry_key(key, RAFT_WORLD_GROUP, index);
    if (kv_get(node->kv, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), KV_ANY, &pin, &error) !=
        RC_OK) {
        return 0;
    }
    ASSERT(log_entry_decode(slice_of(key, sizeof(key)), pin.value, &found, &entry, &error) ==
           RC_OK);
    kv_release(node->kv, &pin);
    return entry.term;
}

static void durable_vote(struct raft_world_node *node, uint64_t *term, uint64_t *vote)
{
    struct error error;
    char key[LOG_GROUP_KEY_BYTES];
    uint64_t numbers[2] = {0, 0};
    struct kv_pin pin;

    log_group_key(key, RAFT_WORLD_GROUP, LOG_ROW_TERM);
    if (kv_get(node->kv, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)), KV_ANY, &pin, &error) ==
        RC_OK) {
        ASSERT(log_numbers_decode(slice_of(key, sizeof(key)), pin.value, numbers, 2, &error) ==
               RC_OK);
        kv_release(node->kv, &pin);
    }
    *term = numbers[0];
    *vote = numbers[1];
}

static uint64_t durable_start(struct raft_world_node *node)
{
    struct error error;
    char key[LOG_GROUP_KEY_BYTES];
    struct log_snapshot snapshot = {.index = 0};
    struct kv_pin pin;

    log_group_key(key, RAFT_WORLD_GROUP, LOG_ROW_SNAPSHOT);
    if (kv_get(node->kv, LOG_FAMILY_GROUPS, slice_of(key, sizeof(key)), KV_ANY, &pin, &error) ==
        RC_OK) {
        ASSERT(log_snapshot_decode(slice_of(key, sizeof(key)), pin.value, &snapshot, &error) ==
               RC_OK);
        kv_release(node->kv, &pin);
    }
    return snapshot.index;
}

/* No message may say more than the disk would say after a power cut now. */
static void frame_check(struct raft_world_node *node, struct slice bytes)
{
    struct log_entry *entries = mem_alloc(FRAME_ENTRIES_MAX * sizeof(*entries));
    const struct consensus_message *message = NULL;
    struct frame frame;
    struct error error;
    uint64_t term = 0;
    uint64_t vote = 0;

    ASSERT(frame_decode(bytes, &frame, entries, &error) == RC_OK);
    message = &frame.message;
    durable_vote(node, &term, &vote);
    if ((frame.header.kind == FRAME_VOTE && message->vote.pre_vote) ||
        (frame.header.kind == FRAME_VOTE_RESULT && message->vote_result.pre_vote)) {
        mem_free(entries);
        return; /* a pre-vote only asks what would be */
    }
    ASSERT(frame.header.term <= term);
    if (frame.header.kind == FRAME_VOTE && frame.header.term == term) {
        ASSERT(vote == node->id);
    }
    if (frame.header.kind == FRAME_VOTE_RESULT && message->vote_result.granted) {
        ASSERT(frame.header.term < term || vote == frame.header.to);
    }
    if (frame.header.kind == FRAME_APPEND_RESULT && message->append_result.rejected == 0 &&
        message->append_result.last_index > node->replica->entries.snapshot.index) {
        const uint64_t index = message->append_result.last_index;

        ASSERT(durable_entry_term(node, index) == entry_log_term(&node->replica->entries, index));
    }
    mem_free(entries);
}

/* ---- The state machine ---- */

static uint64_t machine_applied(struct state_machine *machine)
{
    return node_of(machine)->state.index;
}

static void history_check(struct raft_world *world, uint64_t index, uint64_t term, uint64_t value)
{
    if (index >= world->history_max) {
        const uint64_t max = index * 2 + 1024;

        world->history = mem_realloc(world->history, max * sizeof(*world->history));
        memset(world->history + world->history_max, 0,
               (max - world->history_max) * sizeof(*world->history));
        world->history_max = max;
    }
    if (world->history[index].term == 0) {
        world->history[index].term = term;
        world->history[index].value = value;
    }
    ASSERT(world->history[index].term == term);
    ASSERT(world->history[index].value == value);
}

static bool machine_apply(struct state_machine *machine, struct apply_entry *entries, size_t count,
                          struct error *error)
{
    struct raft_world_node *node = node_of(machine);

    (void)error;
    take_time(node);
    for (size_t i = 0; i < count; i++) {
        const uint64_t value = entries[i].data.len >= 8 ? le64_get(entries[i].data.data) : 0;

        ASSERT(entries[i].index == node->state.index + 1);
        ASSERT(durable_entry_term(node, entries[i].index) == entries[i].term);
        history_check(node->world, entries[i].index, entries[i].term, value);
        node->state.index = entries[i].index;
        node->state.hash = node->state.hash * 1099511628211ULL ^ value;
        entries[i].result = value != 0 ? mem_copy(&value, sizeof(value)) : NULL;
    }
    return true;
}

static void machine_result_free(struct state_machine *machine, void *result)
{
    node_of(machine)->results_freed++;
    mem_free(result);
}

static enum rc machine_flush(struct state_machine *machine, uint64_t *index, struct error *error)
{
    struct raft_world_node *node = node_of(machine);

    (void)error;
    take_time(node);
    node->flushed = node->state;
    *index = node->flushed.index;
    return RC_OK;
}

struct export {
    struct raft_world_state state;
    uint32_t chunk;
};

static enum rc machine_export_open(struct state_machine *machine, void **out, uint64_t *index,
                                   struct error *error)
{
    struct export *export = mem_alloc(sizeof(*export));

    (void)error;
    export->state = node_of(machine)->state;
    *index = export->state.index;
    *out = export;
    return RC_OK;
}

static enum rc machine_export_next(struct state_machine *machine, void *handle,
                                   struct buffer *chunk, bool *end, struct error *error)
{
    struct export *export = handle;
    char bytes[CHUNK_BYTES] = {0};

    (void)error;
    export->chunk++;
    memcpy(bytes, &export->state, sizeof(export->state));
    memcpy(bytes + sizeof(export->state), &export->chunk, sizeof(export->chunk));
    buffer_append(chunk, slice_of(bytes, sizeof(bytes)));
    *end = export->chunk == node_of(machine)->world->export_chunks;
    return RC_OK;
}

static void machine_export_close(struct state_machine *machine, void *handle)
{
    (void)machine;
    mem_free(handle);
}

static enum rc machine_install_begin(struct state_machine *machine, struct error *error)
{
    struct raft_world_node *node = node_of(machine);

    (void)error;
    node->staged = (struct raft_world_state){0};
    node->staged_whole = false;
    node->chunks_staged = 0;
    return RC_OK;
}

static enum rc machine_install_chunk(struct state_machine *machine, struct slice chunk,
                                     struct error *error)
{
    struct raft_world_node *node = node_of(machine);
    struct raft_world_state state;
    uint32_t number = 0;

    (void)error;
    ASSERT(chunk.len == CHUNK_BYTES);
    memcpy(&state, chunk.data, sizeof(state));
    memcpy(&number, chunk.data + sizeof(state), sizeof(number));
    ASSERT(number == node->chunks_staged + 1);
    ASSERT(number == 1 || state.index == node->staged.index);
    node->chunks_staged = number;
    node->staged = state;
    node->staged_whole = number == node->world->export_chunks;
    return RC_OK;
}

static enum rc machine_install_finish(struct state_machine *machine, uint64_t index,
                                      struct error *error)
{
    struct raft_world_node *node = node_of(machine);

    (void)error;
    ASSERT(node->staged_whole && node->staged.index == index);
    node->state = node->staged;
    node->flushed = node->staged;
    node->world->installs++;
    return RC_OK;
}

/* ---- Links ---- */

struct flying {
    struct sim_call call;
    struct raft_world *world;
    uint32_t from;
    uint32_t to;
    uint64_t from_id;
    size_t len;
    char bytes[];
};

static uint32_t node_by_id(struct raft_world *world, uint64_t id)
{
    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        if (world->nodes[i].id == id) {
            return i;
        }
    }
    return RAFT_WORLD_NODES;
}

static void flying_arrive(struct sim_call *call)
{
    struct flying *message = CONTAINER_OF(call, struct flying, call);
    struct raft_world *world = message->world;
    struct raft_world_node *to = &world->nodes[message->to];

    if (to->up && to->replica != NULL && world->sides[message->from] == world->sides[message->to]) {
        world->messages++;
        replica_receive(to->replica, message->from_id, slice_of(message->bytes, message->len));
    }
    mem_free(message);
}

static void world_send(struct raft_transport *transport, uint64_t group, uint64_t from,
                       uint64_t to_id, struct slice bytes)
{
    struct raft_world *world = CONTAINER_OF(transport, struct raft_world, transport);
    const uint32_t at = node_by_id(world, from);
    const uint32_t to = node_by_id(world, to_id);
    const uint64_t now = sim_now(world->sim);
    struct flying *message = NULL;
    uint64_t arrives = now + 20000 + sim_below(world->sim, world->delay_max_ns);

    ASSERT(group == RAFT_WORLD_GROUP);
    ASSERT(at < RAFT_WORLD_NODES);
    if (world->nodes[at].replica != NULL) {
        frame_check(&world->nodes[at], bytes);
    }
    if (to == RAFT_WORLD_NODES || world->sides[at] != world->sides[to] || world->deaf[to][at] ||
        sim_chance(world->sim, world->drop_per_mille)) {
        return;
    }
    if (arrives < world->arrives_ns[at][to]) {
        arrives = world->arrives_ns[at][to];
    }
    world->arrives_ns[at][to] = arrives;
    message = mem_alloc(sizeof(*message) + bytes.len);
    message->world = world;
    message->from = at;
    message->to = to;
    message->from_id = from;
    message->len = bytes.len;
    memcpy(message->bytes, bytes.data, bytes.len);
    message->call.run = flying_arrive;
    sim_call_at(world->sim, NULL, &message->call, arrives - now);
}

/* ---- Nodes ---- */

void raft_world_init(struct raft_world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->sim = sim_new(seed);
    world->transport.send = world_send;
    world->delay_max_ns = SIM_MS;
    world->export_chunks = 5;
    world->next_id = 100;
    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        struct raft_world_node *node = &world->nodes[i];
        const char name[3] = {'n', (char)('0' + i), '\0'};

        node->world = world;
        node->number = i;
        node->id = i + 1;
        node->sim_node = sim_node_new(world->sim, name);
        node->disk = sim_kv_disk_new(world->sim);
        node->machine = (struct state_machine){
            .applied = machine_applied,
            .apply = machine_apply,
            .result_free = machine_result_free,
            .flush = machine_flush,
            .export_open = machine_export_open,
            .export_next = machine_export_next,
            .export_close = machine_export_close,
            .install_begin = machine_install_begin,
            .install_chunk = machine_install_chunk,
            .install_finish = machine_install_finish,
        };
    }
}

void raft_world_deinit(struct raft_world *world)
{
    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        if (world->nodes[i].up) {
            raft_world_stop(world, i);
        }
    }
    /* What is still on its way arrives nowhere, and is freed. */
    raft_world_run_ms(world, world->delay_max_ns / SIM_MS + 10);
    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        sim_kv_disk_free(world->nodes[i].disk);
    }
    sim_free(world->sim);
    mem_free(world->history);
}

enum rc raft_world_try_start(struct raft_world *world, uint32_t at, uint32_t voters,
                             struct error *error)
{
    struct raft_world_node *node = &world->nodes[at];
    struct replica_peer peers[RAFT_WORLD_NODES];
    struct kv_options kv_options = {0};
    struct replica_options options = {0};
    struct kv *kv = NULL;
    enum rc rc = RC_OK;

    ASSERT(!node->up);
    node->env = sim_env_new(node->sim_node);
    node->state = node->flushed;
    log_store_kv_options(&kv_options);
    ASSERT(sim_kv_open(&kv, node->disk, &kv_options, error) == RC_OK);
    node->kv = kv;
    ASSERT(log_store_open(&node->log, node->env, slow_open(node, kv), error) == RC_OK);
    for (uint32_t i = 0; i < voters; i++) {
        peers[i] = (struct replica_peer){world->nodes[i].id, true};
    }
    options.env = node->env;
    options.log = node->log;
    options.machine = &node->machine;
    options.transport = &world->transport;
    options.group = RAFT_WORLD_GROUP;
    options.replica_id = node->id;
    options.bootstrap = voters > 0 ? peers : NULL;
    options.bootstrap_count = voters;
    options.log_bytes_max = world->log_bytes_max;
    options.heartbeat_ms = world->heartbeat_ms;
    rc = replica_open(&node->replica, &options, error);
    if (rc != RC_OK) {
        node->replica = NULL;
        log_store_close(node->log);
        return rc;
    }
    node->up = true;
    node->incarnation++;
    return RC_OK;
}

void raft_world_start(struct raft_world *world, uint32_t at, uint32_t voters)
{
    struct error error = {.rc = RC_OK};

    if (raft_world_try_start(world, at, voters, &error) != RC_OK) {
        assert_fail(error.text, __FILE__, __LINE__);
    }
}

void raft_world_crash(struct raft_world *world, uint32_t at, enum sim_crash how)
{
    struct raft_world_node *node = &world->nodes[at];

    ASSERT(node->up);
    sim_crash(node->sim_node, how);
    sim_kv_crash(node->disk, how);
    node->up = false;
    node->closing = false;
    node->replica = NULL;
}

static void stop_done(void *owner)
{
    struct raft_world_node *node = owner;

    node->closed = true;
    node->replica = NULL;
}

void raft_world_stop_begin(struct raft_world *world, uint32_t at)
{
    struct raft_world_node *node = &world->nodes[at];

    ASSERT(node->up && !node->closing);
    node->closing = true;
    node->closed = false;
    replica_close(node->replica, stop_done, node);
}

bool raft_world_stop_end(struct raft_world *world, uint32_t at)
{
    struct raft_world_node *node = &world->nodes[at];

    if (!node->closing || !node->closed) {
        return false;
    }
    log_store_close(node->log);
    node->closing = false;
    node->up = false;
    return true;
}

void raft_world_stop(struct raft_world *world, uint32_t at)
{
    if (!world->nodes[at].closing) {
        raft_world_stop_begin(world, at);
    }
    for (uint64_t i = 0; !raft_world_stop_end(world, at); i++) {
        ASSERT(i < (uint64_t)WAIT_MS * 1000 / STEP_US);
        sim_run_for(world->sim, STEP_US * SIM_US);
    }
}

void raft_world_wipe(struct raft_world *world, uint32_t at)
{
    struct raft_world_node *node = &world->nodes[at];

    ASSERT(!node->up);
    sim_kv_disk_free(node->disk);
    node->disk = sim_kv_disk_new(world->sim);
    node->id = world->next_id++;
    node->flushed = (struct raft_world_state){0};
    node->staged_whole = false;
}

uint32_t raft_world_leases(struct raft_world *world)
{
    uint32_t leases = 0;

    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        struct raft_world_node *node = &world->nodes[i];

        ASSERT(!node->up || node->replica == NULL || durable_start(node) <= node->flushed.index);
        if (node->up && node->replica != NULL &&
            replica_lease(node->replica, sim_now(world->sim))) {
            leases++;
            ASSERT(replica_applied(node->replica) < replica_commit(node->replica) ||
                   node->state.index >= world->answered);
        }
    }
    ASSERT(leases <= 1);
    return leases;
}

struct raft_world_node *raft_world_leader(struct raft_world *world)
{
    struct raft_world_node *leader = NULL;

    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        struct raft_world_node *node = &world->nodes[i];

        if (node->up && node->replica != NULL && replica_state(node->replica) == REPLICA_SERVING &&
            (leader == NULL || replica_term(node->replica) > replica_term(leader->replica))) {
            leader = node;
        }
    }
    return leader;
}

void raft_world_run_ms(struct raft_world *world, uint64_t ms)
{
    sim_run_for(world->sim, ms * SIM_MS);
}

void raft_world_print(struct raft_world *world)
{
    (void)fprintf(stderr, "%lu ms\n", (unsigned long)(sim_now(world->sim) / SIM_MS));
    for (uint32_t i = 0; i < RAFT_WORLD_NODES; i++) {
        const struct raft_world_node *node = &world->nodes[i];
        struct replica_peer members[RAFT_WORLD_NODES * 2];
        uint32_t count = 0;

        if (!node->up || node->replica == NULL) {
            continue;
        }
        (void)fprintf(stderr,
                      "replica %lu: state %d term %lu last %lu commit %lu applied %lu members",
                      (unsigned long)node->id, (int)replica_state(node->replica),
                      (unsigned long)replica_term(node->replica),
                      (unsigned long)replica_last_index(node->replica),
                      (unsigned long)replica_commit(node->replica),
                      (unsigned long)replica_applied(node->replica));
        count = replica_members(node->replica, members, RAFT_WORLD_NODES * 2);
        for (uint32_t k = 0; k < count; k++) {
            (void)fprintf(stderr, " %lu%s", (unsigned long)members[k].replica_id,
                          members[k].voter ? "" : "-");
        }
        (void)fprintf(stderr, " error=\"%s\"\n", replica_error(node->replica)->text);
    }
}

struct raft_world_node *raft_world_wait_leader(struct raft_world *world)
{
    for (uint32_t ms = 0; raft_world_leader(world) == NULL; ms++) {
        if (ms == WAIT_MS) {
            raft_world_print(world);
        }
        ASSERT(ms < WAIT_MS);
        raft_world_run_ms(world, 1);
    }
    return raft_world_leader(world);
}

struct waiting {
    struct proposal proposal;
    struct membership_change change;
    struct replica_read read;
    struct slice part;
    char bytes[8];
    bool done;
};

static void wait_for(struct raft_world *world, const bool *done)
{
    for (uint64_t i = 0; !*done; i++) {
        ASSERT(i < (uint64_t)WAIT_MS * 1000 / STEP_US);
        sim_run_for(world->sim, STEP_US * SIM_US);
    }
}

static void waiting_proposed(struct proposal *proposal)
{
    CONTAINER_OF(proposal, struct waiting, proposal)->done = true;
}

enum rc raft_world_propose(struct raft_world_node *node, uint64_t value)
{
    struct waiting w = {0};

    le64_put(w.bytes, value);
    w.part = slice_of(w.bytes, sizeof(w.bytes));
    w.proposal.parts = &w.part;
    w.proposal.part_count = 1;
    w.proposal.done = waiting_proposed;
    replica_propose(node->replica, &w.proposal);
    ASSERT(!w.done);
    wait_for(node->world, &w.done);
    if (w.proposal.rc == RC_OK) {
        ASSERT(w.proposal.result != NULL && le64_get(w.proposal.result) == value);
        mem_free(w.proposal.result);
        if (w.proposal.index > node->world->answered) {
            node->world->answered = w.proposal.index;
        }
    }
    return w.proposal.rc;
}

static void waiting_changed(struct membership_change *change)
{
    CONTAINER_OF(change, struct waiting, change)->done = true;
}

enum rc raft_world_change(struct raft_world_node *node, uint32_t kind, uint64_t id)
{
    struct waiting w = {0};

    w.change.kind = kind;
    w.change.replica_id = id;
    w.change.done = waiting_changed;
    replica_change_membership(node->replica, &w.change);
    wait_for(node->world, &w.done);
    return w.change.rc;
}

static void waiting_read(struct replica_read *read)
{
    CONTAINER_OF(read, struct waiting, read)->done = true;
}

enum rc raft_world_read_index(struct raft_world_node *node)
{
    const uint64_t answered = node->world->answered;
    struct waiting w = {0};

    w.read.done = waiting_read;
    replica_read_index(node->replica, &w.read);
    wait_for(node->world, &w.done);
    ASSERT(w.read.rc != RC_OK || node->state.index >= answered);
    return w.read.rc;
}

static bool world_level(struct raft_world *world)
{
    const struct raft_world_node *leader = raft_world_leader(world);
    struct replica_peer members[RAFT_WORLD_NODES];
    uint32_t count = 0;

    if (leader == NULL || leader->state.index < world->answered) {
        return false;
    }
    count = replica_members(leader->replica, members, RAFT_WORLD_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = node_by_id(world, members[i].replica_id);

        if (at < RAFT_WORLD_NODES && world->nodes[at].up &&
            (world->nodes[at].state.index != leader->state.index ||
             world->nodes[at].state.hash != leader->state.hash)) {
            return false;
        }
    }
    return true;
}

bool raft_world_wait_level(struct raft_world *world, uint64_t timeout_ms)
{
    for (uint64_t ms = 0; ms < timeout_ms; ms++) {
        if (world_level(world)) {
            return true;
        }
        raft_world_run_ms(world, 1);
    }
    if (!world_level(world)) {
        raft_world_print(world);
        return false;
    }
    return true;
}
