/*
 * Scenario: a replica's state is replaced by a copy; the program is killed at every file change of
 * that, starts again, goes on, and then the power fails (DESIGN 4.3, Install).
 *
 *     state A -> install B, killed at change n -> start: A or B -> apply, flush -> power cut ->
 * start
 *
 * What was flushed after the first start is there after the second. (It was not: a name that only
 * the page cache had was taken for durable.)
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/apply/machine.h"
#include "tests/lib/sim_kv_paths.h"
#include "tests/sim/world.h"

enum { INSTALL_BOUNDARIES = 16, INSTALL_ENTRIES = 20 };

struct install_node {
    struct sim_node *host;
    const char *path;
    struct machine *machine;
};

static void node_open(struct install_node *node)
{
    struct machine_options options = {
        .env = sim_env_new(node->host), .path = node->path, .kv_open = sim_kv_paths_kv_open};
    struct error error = {.rc = RC_OK};

    CHECK(machine_open(&node->machine, &options, &error) == RC_OK, "open: %s", error.text);
}

static void node_crash(struct install_node *node, enum sim_crash how)
{
    sim_crash(node->host, how);
    sim_kv_paths_crash(node->path, how);
    node->machine = NULL;
}

/* Barriers: only the index moves, which is all that matters here. */
static void node_apply(struct install_node *node, unsigned count)
{
    struct state_machine *state = machine_state(node->machine);
    struct error error = {.rc = RC_OK};

    for (unsigned i = 0; i < count; i++) {
        struct apply_entry entry = {.index = state->applied(state) + 1, .term = 1};

        CHECK(state->apply(state, &entry, 1, &error), "apply: %s", error.text);
    }
}

static uint64_t node_flush(struct install_node *node)
{
    struct state_machine *state = machine_state(node->machine);
    struct error error = {.rc = RC_OK};
    uint64_t index = 0;

    CHECK(state->flush(state, &index, &error) == RC_OK, "flush: %s", error.text);
    return index;
}

static void node_install(struct install_node *to, const struct install_node *from)
{
    struct state_machine *source = machine_state(from->machine);
    struct state_machine *target = machine_state(to->machine);
    struct error error = {.rc = RC_OK};
    struct buffer chunk;
    uint64_t index = 0;
    void *handle;
    bool end = false;
    enum rc rc;

    CHECK(source->export_open(source, &handle, &index, &error) == RC_OK, "%s", error.text);
    buffer_init(&chunk);
    rc = target->install_begin(target, &error);
    while (rc == RC_OK && !end) {
        buffer_clear(&chunk);
        CHECK(source->export_next(source, handle, &chunk, &end, &error) == RC_OK, "%s", error.text);
        rc = target->install_chunk(target, buffer_slice(&chunk), &error);
    }
    buffer_deinit(&chunk);
    source->export_close(source, handle);
    rc = rc == RC_OK ? target->install_finish(target, index, &error) : rc;
    CHECK(rc == RC_OK || sim_stopped(to->host), "install: %s", error.text);
}

static void boundary_run(uint64_t seed, unsigned boundary)
{
    struct sim *sim = sim_new(seed);
    struct install_node from = {.host = sim_node_new(sim, "from"), .path = "/from/state"};
    struct install_node to = {.host = sim_node_new(sim, "to"), .path = "/to/state"};
    uint64_t flushed;

    sim_kv_paths_open(sim);
    sim_mount(from.host, "/from");
    sim_mount(to.host, "/to");
    sim_kv_paths_bind("/from", from.host);
    sim_kv_paths_bind("/to", to.host);
    node_open(&from);
    node_open(&to);
    node_apply(&from, INSTALL_ENTRIES);
    node_apply(&to, INSTALL_ENTRIES / 2);
    (void)node_flush(&to);
    sim_stop_after(to.host, boundary);
    node_install(&to, &from);
    node_crash(&to, SIM_KILL);
    node_open(&to);
    node_apply(&to, 3);
    flushed = node_flush(&to);
    node_crash(&to, SIM_POWER);
    node_open(&to);
    CHECK(machine_state(to.machine)->applied(machine_state(to.machine)) >= flushed,
          "killed at change %u of an installation: flushed up to %llu, but a restart is at %llu",
          boundary, (unsigned long long)flushed,
          (unsigned long long)machine_state(to.machine)->applied(machine_state(to.machine)));
    node_crash(&to, SIM_POWER);
    node_crash(&from, SIM_POWER);
    sim_kv_paths_close();
    sim_free(sim);
}

void scenario_install_cut_twice(uint64_t seed)
{
    for (unsigned boundary = 1; boundary <= INSTALL_BOUNDARIES; boundary++) {
        boundary_run(seed * 1000 + boundary, boundary);
    }
}
