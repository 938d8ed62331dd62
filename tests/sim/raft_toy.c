/* A state machine of a few registers that notices when replicas differ. */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "tests/sim/raft_world.h"

enum { TOY_CHUNK = 40 }; /* small, so that an installation takes several messages */

static struct toy *toy_of(struct state_machine *machine)
{
    return CONTAINER_OF(machine, struct toy, machine);
}

static uint64_t toy_mix(uint64_t hash, struct slice data)
{
    for (size_t i = 0; i < data.len; i++) {
        hash = (hash ^ (uint8_t)data.data[i]) * 0x100000001b3ULL;
    }
    return hash;
}

static uint64_t toy_applied(struct state_machine *machine)
{
    return toy_of(machine)->now.applied;
}

/* An entry's bytes: operation u64, register u32, value u64, padding. */
static bool toy_apply(struct state_machine *machine, struct apply_entry *entries, size_t count,
                      struct error *error)
{
    struct toy *toy = toy_of(machine);

    (void)error;
    for (size_t i = 0; i < count; i++) {
        struct apply_entry *entry = &entries[i];

        CHECK(entry->index == toy->now.applied + 1, "apply of %llu after %llu",
              (unsigned long long)entry->index, (unsigned long long)toy->now.applied);
        client_applied(toy->world, entry->data, entry->index, entry->term);
        toy->now.applied = entry->index;
        toy->now.hash = toy_mix(toy->now.hash, entry->data);
        entry->result = NULL;
        if (entry->data.len > 0) {
            uint32_t target = le32_get(entry->data.data + 8);

            toy->now.registers[target].value = le64_get(entry->data.data + 12);
            toy->now.registers[target].index = entry->index;
            entry->result = mem_copy(&entry->index, sizeof(entry->index));
            toy->results += 1;
        }
    }
    return true;
}

static void toy_result_free(struct state_machine *machine, void *result)
{
    struct toy *toy = toy_of(machine);

    if (result != NULL) {
        ASSERT(toy->results > 0);
        toy->results -= 1;
        mem_free(result);
    }
}

static enum rc toy_flush(struct state_machine *machine, uint64_t *index, struct error *error)
{
    struct toy *toy = toy_of(machine);

    (void)error;
    toy->disk = toy->now;
    *index = toy->disk.applied;
    return RC_OK;
}

struct toy_export {
    struct toy_state state;
    size_t at;
};

static enum rc toy_export_open(struct state_machine *machine, void **out, uint64_t *index,
                               struct error *error)
{
    struct toy_export *export = mem_alloc(sizeof(*export));

    (void)error;
    export->state = toy_of(machine)->now;
    *index = export->state.applied;
    *out = export;
    return RC_OK;
}

static enum rc toy_export_next(struct state_machine *machine, void *handle, struct buffer *chunk,
                               bool *end, struct error *error)
{
    struct toy_export *export = handle;
    size_t left = sizeof(export->state) - export->at;
    size_t len = left < TOY_CHUNK ? left : TOY_CHUNK;

    (void)machine;
    (void)error;
    buffer_append(chunk, slice_of((const char *)&export->state + export->at, len));
    export->at += len;
    *end = export->at == sizeof(export->state);
    return RC_OK;
}

static void toy_export_close(struct state_machine *machine, void *handle)
{
    (void)machine;
    mem_free(handle);
}

static enum rc toy_install_begin(struct state_machine *machine, struct error *error)
{
    struct toy *toy = toy_of(machine);

    (void)error;
    buffer_clear(&toy->side);
    toy->installing = true;
    return RC_OK;
}

static enum rc toy_install_chunk(struct state_machine *machine, struct slice chunk,
                                 struct error *error)
{
    struct toy *toy = toy_of(machine);

    (void)error;
    CHECK(toy->installing, "a chunk without install_begin");
    buffer_append(&toy->side, chunk);
    return RC_OK;
}

static enum rc toy_install_finish(struct state_machine *machine, uint64_t index,
                                  struct error *error)
{
    struct toy *toy = toy_of(machine);

    (void)error;
    CHECK(toy->installing, "install_finish without install_begin");
    CHECK(index > toy->now.applied, "installed %llu over %llu", (unsigned long long)index,
          (unsigned long long)toy->now.applied);
    CHECK(toy->side.len == sizeof(toy->now), "an installed state of %zu bytes", toy->side.len);
    memcpy(&toy->now, toy->side.data, sizeof(toy->now));
    CHECK(toy->now.applied == index, "installed a state of %llu as %llu",
          (unsigned long long)toy->now.applied, (unsigned long long)index);
    toy->disk = toy->now;
    toy->installing = false;
    world_count_up("installs", 1);
    return RC_OK;
}

void toy_init(struct toy *toy, struct raft_world *world)
{
    *toy = (struct toy){.world = world};
    toy->machine = (struct state_machine){
        .applied = toy_applied,
        .apply = toy_apply,
        .result_free = toy_result_free,
        .flush = toy_flush,
        .export_open = toy_export_open,
        .export_next = toy_export_next,
        .export_close = toy_export_close,
        .install_begin = toy_install_begin,
        .install_chunk = toy_install_chunk,
        .install_finish = toy_install_finish,
    };
    buffer_init(&toy->side);
}

/* What was flushed is left; now and then the store had flushed by itself. */
void toy_crash(struct toy *toy)
{
    if (sim_chance(toy->world->sim, 300)) {
        toy->disk = toy->now;
    }
    toy->now = toy->disk;
    toy->results = 0;
    toy->installing = false;
    buffer_clear(&toy->side);
}
