/*
 * World "metad": three replicas of the real state machine (metad/apply) over in-memory stores that
 * lose what was not flushed, fed with one log of random commands.
 *
 *     model judges a command -> log -> every replica applies it, at its own pace, across crashes
 * and refills
 *
 * Checked: each outcome and stamp is the model's; replies are equal on all replicas, byte for byte;
 * a repeat gets the first answer; a restart goes on at or behind what was flushed; at the end (and
 * now and then) every row that clients see is the model's, references count right, nothing dead is
 * forgotten, and the states of all replicas are equal. In between readers ask for versions by name
 * and for listings, page by page.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/apply/entry.h"
#include "metad/apply/machine.h"
#include "metad/store/message.h"
#include "tests/lib/sim_kv_paths.h"
#include "tests/sim/metad_model.h"

enum { METAD_REPLICAS = 3, METAD_COMMANDS = 1200 };

struct metad_entry {
    char *data;
    size_t len;
    Kist__Outcome expected;
    bool any_outcome;
    uint64_t stamp;
    uint64_t deadline_ns;
    bool repeats;
    uint64_t repeat_of; /* index + 1; 0: new */
    struct model_deleted deleted[MODEL_DELETES_MAX];
    unsigned deleted_count;
    uint8_t *reply; /* of the first replica that applied it */
    size_t reply_len;
};

struct metad_replica {
    struct sim_node *host;
    struct env *env;
    char mount[32];
    char path[32];
    struct machine *machine;
    uint64_t flushed;
};

struct metad_world {
    struct sim *sim;
    struct model model;
    struct metad_entry *log; /* index i + 1 is log[i] */
    uint64_t log_count;
    struct metad_replica replicas[METAD_REPLICAS];
};

/* ---- The log ---- */

static void log_add(struct metad_world *world, const struct model_command *command)
{
    struct metad_entry *it = &world->log[world->log_count++];
    struct entry entry = {
        .command = (uint16_t)command->command,
        .proposed_ns = command->proposed_ns,
        .deadline_ns = command->deadline_ns,
        .body = command->body,
    };
    struct arena arena;
    struct buffer bytes;
    char *header;

    arena_init(&arena);
    buffer_init(&bytes);
    for (size_t i = 0; i < REQUEST_ID_BYTES; i++) {
        entry.request_id[i] = (uint8_t)sim_random(world->sim);
    }
    entry.message = message_pack(&arena, command->message);
    header = buffer_reserve(&bytes, ENTRY_HEADER_BYTES);
    entry_encode(&entry, header);
    bytes.len = ENTRY_HEADER_BYTES;
    buffer_append(&bytes, entry.message);
    buffer_append(&bytes, entry.body);
    *it = (struct metad_entry){
        .data = bytes.data,
        .len = bytes.len,
        .expected = command->expected,
        .any_outcome = command->any_outcome,
        .stamp = command->stamp,
        .deadline_ns = command->deadline_ns,
        .repeats = command->repeats,
        .deleted_count = command->deleted_count,
    };
    memcpy(it->deleted, command->deleted, sizeof(it->deleted));
    world_count_up("commands", 1);
    if (command->expected == KIST__OUTCOME__OUTCOME_OK) {
        world_count_up("commands that succeed", 1);
    }
    arena_deinit(&arena);
}

/* The same request again: a client or gateway lost the reply. */
static void log_repeat(struct metad_world *world)
{
    uint64_t back = 1 + sim_below(world->sim, 40);
    struct metad_entry *first;
    struct metad_entry *it;

    if (back > world->log_count) {
        return;
    }
    first = &world->log[world->log_count - back];
    if (!first->repeats || first->repeat_of != 0 || first->any_outcome ||
        first->expected != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    it = &world->log[world->log_count];
    *it = *first;
    it->data = mem_copy(first->data, first->len);
    it->reply = NULL;
    it->repeat_of = world->log_count - back + 1;
    /* Its bytes, the proposed time included, are the same: only the range's last stamp has moved
     * on. */
    it->stamp = world->model.last_stamp + 1;
    world->model.last_stamp = it->stamp;
    if (it->stamp > first->deadline_ns + 60 * SIM_S) {
        it->repeat_of = 0;
        it->repeats = false;
        it->expected = KIST__OUTCOME__EXPIRED;
    }
    world->log_count += 1;
    world_count_up("repeats", 1);
}

/* ---- Replicas ---- */

static void replica_start(struct metad_replica *replica)
{
    struct machine_options options = {.path = replica->path, .kv_open = sim_kv_paths_kv_open};
    struct error error = {.rc = RC_OK};
    struct state_machine *state;
    enum rc rc;

    replica->env = sim_env_new(replica->host);
    options.env = replica->env;
    rc = machine_open(&replica->machine, &options, &error);
    CHECK(rc == RC_OK, "open the state: %s", error.text);
    state = machine_state(replica->machine);
    world_trace(sim_of(replica->env), "%s starts at %llu, flushed %llu", replica->path,
                (unsigned long long)state->applied(state), (unsigned long long)replica->flushed);
    CHECK(state->applied(state) >= replica->flushed, "flushed up to %llu, but a restart is at %llu",
          (unsigned long long)replica->flushed, (unsigned long long)state->applied(state));
}

static void replica_crash(struct metad_world *world, struct metad_replica *replica)
{
    enum sim_crash how = sim_chance(world->sim, 500) ? SIM_POWER : SIM_KILL;

    world_trace(world->sim, "%s: %s", replica->path, how == SIM_POWER ? "power cut" : "kill -9");
    sim_crash(replica->host, how);
    sim_kv_paths_crash(replica->path, how);
    replica->machine = NULL;
    world_count_up("crashes", 1);
}

static void deleted_check(const struct metad_entry *it, uint64_t index, const Kist__Reply *reply)
{
    CHECK(it->deleted_count == 0 || reply->n_deleted == it->deleted_count,
          "entry %llu answers %zu deletes", (unsigned long long)index, reply->n_deleted);
    for (unsigned i = 0; i < it->deleted_count; i++) {
        const struct model_deleted *want = &it->deleted[i];
        const Kist__Deleted *have = reply->deleted[i];

        CHECK(have->outcome == want->outcome, "entry %llu, delete %u: outcome %d, not %d",
              (unsigned long long)index, i, (int)have->outcome, (int)want->outcome);
        CHECK(have->delete_marker == want->marker && have->stamp == want->stamp &&
                  have->tie == want->tie && have->null_version == want->null_version,
              "entry %llu, delete %u: another version", (unsigned long long)index, i);
    }
}

static void reply_check(struct metad_world *world, uint64_t index, const struct apply_entry *entry)
{
    struct metad_entry *it = &world->log[index - 1];
    const struct machine_result *result = entry->result;
    struct slice bytes = slice_of(result->reply, result->len);
    Kist__Reply *reply;

    if (it->reply != NULL) {
        CHECK(slice_eq(bytes, slice_of(it->reply, it->reply_len)),
              "replicas answer entry %llu differently", (unsigned long long)index);
        return;
    }
    it->reply = mem_copy(bytes.data, bytes.len);
    it->reply_len = bytes.len;
    if (it->any_outcome) {
        return;
    }
    reply = kist__reply__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    CHECK(reply != NULL, "a reply does not decode");
    CHECK(reply->outcome == it->expected, "entry %llu (command %u): outcome %d (%.*s), not %d",
          (unsigned long long)index, (unsigned)(uint8_t)it->data[6], (int)reply->outcome,
          (int)reply->text.len, (const char *)reply->text.data, (int)it->expected);
    if (it->repeat_of != 0) {
        const struct metad_entry *first = &world->log[it->repeat_of - 1];

        CHECK(slice_eq(bytes, slice_of(first->reply, first->reply_len)),
              "a repeat of entry %llu is answered differently", (unsigned long long)it->repeat_of);
    } else if (it->expected == KIST__OUTCOME__OUTCOME_OK) {
        CHECK(reply->stamp == it->stamp, "entry %llu: stamp %llu, not %llu",
              (unsigned long long)index, (unsigned long long)reply->stamp,
              (unsigned long long)it->stamp);
        deleted_check(it, index, reply);
    }
    kist__reply__free_unpacked(reply, NULL);
}

static void replica_apply(struct metad_world *world, struct metad_replica *replica, uint64_t max)
{
    struct state_machine *state = machine_state(replica->machine);
    struct apply_entry entries[16];
    struct error error = {.rc = RC_OK};

    while (max > 0 && state->applied(state) < world->log_count) {
        uint64_t next = state->applied(state) + 1;
        size_t count = 1 + (size_t)sim_below(world->sim, ARRAY_LEN(entries));

        count = count > world->log_count - next + 1 ? (size_t)(world->log_count - next + 1) : count;
        for (size_t i = 0; i < count; i++) {
            entries[i] = (struct apply_entry){
                .index = next + i,
                .term = 1,
                .data = slice_of(world->log[next + i - 1].data, world->log[next + i - 1].len),
            };
        }
        CHECK(state->apply(state, entries, count, &error), "apply stops: %s", error.text);
        for (size_t i = 0; i < count; i++) {
            reply_check(world, next + i, &entries[i]);
            state->result_free(state, entries[i].result);
        }
        max = max > count ? max - count : 0;
    }
}

static void replica_flush(struct metad_replica *replica)
{
    struct state_machine *state = machine_state(replica->machine);
    struct error error = {.rc = RC_OK};
    enum rc rc = state->flush(state, &replica->flushed, &error);

    CHECK(rc == RC_OK, "flush: %s", error.text);
}

/* Copies until the end, or until the target's machine stops. */
static enum rc refill_copy(struct state_machine *source, void *handle, struct state_machine *target,
                           uint64_t index, struct error *error)
{
    struct buffer chunk;
    enum rc rc = target->install_begin(target, error);
    bool end = false;

    buffer_init(&chunk);
    while (rc == RC_OK && !end) {
        buffer_clear(&chunk);
        rc = source->export_next(source, handle, &chunk, &end, error);
        CHECK(rc == RC_OK, "export: %s", error->text);
        rc = target->install_chunk(target, buffer_slice(&chunk), error);
    }
    buffer_deinit(&chunk);
    return rc == RC_OK ? target->install_finish(target, index, error) : rc;
}

/* Its state is lost, or too old for the log: it gets a copy of another's. It may stop at any change
 * of a file in between, and has then the old state or the new one. */
static void replica_refill(struct metad_world *world, struct metad_replica *to,
                           const struct metad_replica *from)
{
    struct state_machine *source = machine_state(from->machine);
    struct state_machine *target = machine_state(to->machine);
    struct error error = {.rc = RC_OK};
    void *handle;
    uint64_t index = 0;
    enum rc rc;

    CHECK(source->export_open(source, &handle, &index, &error) == RC_OK, "%s", error.text);
    if (index <= target->applied(target)) {
        source->export_close(source, handle);
        return;
    }
    sim_stop_after(to->host, sim_chance(world->sim, 500) ? 1 + sim_below(world->sim, 12) : 0);
    rc = refill_copy(source, handle, target, index, &error);
    world_trace(world->sim, "%s installs %llu: %s", to->path, (unsigned long long)index,
                rc_name(rc));
    source->export_close(source, handle);
    CHECK(rc == RC_OK || sim_stopped(to->host), "install: %s", error.text);
    if (sim_stopped(to->host)) {
        replica_crash(world, to);
        replica_start(to);
        world_count_up("installs cut short", 1);
        return;
    }
    sim_stop_after(to->host, 0);
    to->flushed = index;
    CHECK(target->applied(target) == index, "installed up to %llu, but applied is %llu",
          (unsigned long long)index, (unsigned long long)target->applied(target));
    world_count_up("installs", 1);
}

/* ---- The run ---- */

/* The reclaimer: takes a row of the queue and condemns what it names, then reports its shards
 * deleted. */
static bool log_reclaim(struct metad_world *world, struct arena *arena)
{
    struct metad_replica *replica = &world->replicas[0];
    struct store *store;
    Kist__Reclaim *row;
    struct slice queue_key;
    struct model_command command = {.command = META_CONDEMN};
    struct model_layout *layout = NULL;

    replica_apply(world, replica, UINT64_MAX);
    store = machine_store(replica->machine);
    row = check_reclaim_row(store->kv, arena, sim_below(world->sim, 6), &queue_key);
    store_unref(store);
    if (row != NULL) {
        layout = model_layout_find(&world->model, message_bytes(row->layout_id));
    }
    if (layout == NULL) {
        return false;
    }
    if (layout->state == LAYOUT_CONDEMNED && sim_chance(world->sim, 700)) {
        command_reclaimed(&world->model, arena, layout, queue_key, &command);
    } else {
        command_condemn(&world->model, arena, layout, row->pieces, row->n_pieces, &command);
    }
    log_add(world, &command);
    return true;
}

/* A reader of a replica that has caught up. */
static void world_read(struct metad_world *world, struct metad_replica *replica)
{
    struct store *store;

    replica_apply(world, replica, UINT64_MAX);
    store = machine_store(replica->machine);
    check_reads(&world->model, store);
    store_unref(store);
    world_count_up("reads", 1);
}

static void world_step(struct metad_world *world)
{
    struct metad_replica *replica = &world->replicas[sim_below(world->sim, METAD_REPLICAS)];
    struct model_command command = {.command = META_PUT_OBJECT};
    struct arena arena;
    uint64_t what = sim_below(world->sim, 100);

    arena_init(&arena);
    if (what < 8) {
        log_repeat(world);
    } else if (what >= 15 || !log_reclaim(world, &arena)) {
        command_random(&world->model, &arena, &command);
        log_add(world, &command);
    }
    arena_deinit(&arena);
    what = sim_below(world->sim, 1000);
    if (what < 500) {
        replica_apply(world, replica, 1 + sim_below(world->sim, 30));
    } else if (what < 560) {
        replica_flush(replica);
    } else if (what < 590) {
        replica_crash(world, replica);
        replica_start(replica);
    } else if (what < 620) {
        replica_refill(world, replica, &world->replicas[sim_below(world->sim, METAD_REPLICAS)]);
    } else if (what < 820) {
        world_read(world, replica);
    }
}

static void world_compare(struct metad_world *world)
{
    uint64_t hash = 0;

    for (unsigned i = 0; i < METAD_REPLICAS; i++) {
        struct store *store;
        uint64_t own;

        replica_apply(world, &world->replicas[i], UINT64_MAX);
        store = machine_store(world->replicas[i].machine);
        own = check_hash(store->kv);
        hash = i == 0 ? own : hash;
        CHECK(own == hash, "the states of replicas 0 and %u differ at index %llu", i,
              (unsigned long long)world->log_count);
        if (i == 0) {
            check_state(&world->model, store->kv);
        }
        store_unref(store);
    }
}

void world_metad(uint64_t seed)
{
    struct metad_world *world = mem_alloc(sizeof(*world));
    struct model_command command = {.command = META_PUT_USER};
    struct arena arena;

    world->sim = sim_new(seed);
    sim_kv_paths_open(world->sim);
    world->log = mem_alloc((METAD_COMMANDS + 16) * sizeof(struct metad_entry));
    model_init(&world->model, world->sim);
    for (unsigned i = 0; i < METAD_REPLICAS; i++) {
        struct metad_replica *replica = &world->replicas[i];
        char name[16];

        (void)snprintf(name, sizeof(name), "m%u", i);
        (void)snprintf(replica->path, sizeof(replica->path), "/m%u/state", i);
        (void)snprintf(replica->mount, sizeof(replica->mount), "/m%u", i);
        replica->host = sim_node_new(world->sim, name);
        sim_mount(replica->host, replica->mount);
        sim_kv_paths_bind(replica->mount, replica->host);
        replica_start(replica);
    }
    arena_init(&arena);
    command_first_user(&world->model, &arena, &command);
    log_add(world, &command);
    arena_deinit(&arena);
    while (world->log_count < METAD_COMMANDS) {
        world_step(world);
        if (sim_chance(world->sim, 5)) {
            world_compare(world);
        }
    }
    world_compare(world);
}
