/*
 * Reads without a majority. The log of the survivor may hold entries that were answered and are not
 * applied yet: it cannot know. So they are applied, but to a scratch copy of the state that is
 * thrown away, never to the state itself: the peers that come back may have another end of the log.
 *
 *     no command in the log behind the state   the state itself is read
 *     commands                                 the state is copied into DIR/meta/shadow and they
 *                                              are applied there
 *
 * With one of two voters these reads see everything that was answered. With less than a majority of
 * three or more they see what this one holds; metad_status() and the log say that writes are
 * refused.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/apply/machine_files.h"
#include "metad/server_private.h"

enum { SHADOW_ENTRIES = 64, SHADOW_BYTES = 1024 * 1024 };

static const uint64_t SHADOW_RETRY_NS = 30ULL * 1000000000ULL;

struct shadow {
    struct metad *metad;
    struct slot *slot;
    uint64_t last_index;
    struct machine *machine; /* the scratch copy; NULL: the state itself will do */
    bool whole;              /* nothing is missing in the state */
    struct env_work work;
    struct error error;
    enum rc rc;
};

/* ---- On a work thread ---- */

typedef bool (*entry_cb)(struct shadow *shadow, struct apply_entry *entry, bool command);

/* Reads (from, last] of the log. False when a callback or the log said stop. */
static bool each_entry(struct shadow *shadow, uint64_t from, entry_cb each)
{
    struct log_entry entries[SHADOW_ENTRIES];
    bool go_on = true;

    while (go_on && from <= shadow->last_index) {
        struct log_read read = {.group = METAD_GROUP,
                                .from = from,
                                .to = shadow->last_index,
                                .bytes_max = SHADOW_BYTES,
                                .entries = entries,
                                .entry_max = SHADOW_ENTRIES};

        shadow->rc = log_store_read(shadow->slot->log, &read, &shadow->error);
        go_on = shadow->rc == RC_OK;
        for (uint32_t i = 0; go_on && i < read.entry_count; i++) {
            struct apply_entry entry = {.index = from + i, .term = entries[i].term};
            bool command = entries[i].type == ENTRY_COMMAND;

            if (command) {
                entry.data = slice_of(entries[i].data, entries[i].len);
            }
            go_on = each(shadow, &entry, command);
        }
        from += read.entry_count;
        mem_free(read.block);
    }
    return go_on;
}

static bool entry_is_nothing(struct shadow *shadow, struct apply_entry *entry, bool command)
{
    (void)shadow;
    (void)entry;
    return !command;
}

static bool entry_apply(struct shadow *shadow, struct apply_entry *entry, bool command)
{
    struct state_machine *to = machine_state(shadow->machine);

    (void)command;
    if (!to->apply(to, entry, 1, &shadow->error)) {
        shadow->rc = shadow->error.rc != RC_OK ? shadow->error.rc : RC_IO;
        return false;
    }
    if (entry->result != NULL) {
        to->result_free(to, entry->result);
    }
    return true;
}

static enum rc copy_chunks(struct state_machine *from, void *handle, struct state_machine *to,
                           struct error *error)
{
    struct buffer chunk;
    bool end = false;
    enum rc rc = to->install_begin(to, error);

    buffer_init(&chunk);
    while (rc == RC_OK && !end) {
        rc = from->export_next(from, handle, &chunk, &end, error);
        if (rc == RC_OK) {
            rc = to->install_chunk(to, buffer_slice(&chunk), error);
        }
    }
    buffer_deinit(&chunk);
    return rc;
}

static enum rc copy_state(struct shadow *shadow)
{
    struct state_machine *from = machine_state(shadow->slot->machine);
    struct state_machine *to = machine_state(shadow->machine);
    void *handle = NULL;
    uint64_t index = 0;
    enum rc rc = from->export_open(from, &handle, &index, &shadow->error);

    if (rc != RC_OK) {
        return rc;
    }
    rc = copy_chunks(from, handle, to, &shadow->error);
    from->export_close(from, handle);
    return rc == RC_OK ? to->install_finish(to, index, &shadow->error) : rc;
}

static void shadow_run(struct env_work *work)
{
    struct shadow *shadow = CONTAINER_OF(work, struct shadow, work);
    struct state_machine *from = machine_state(shadow->slot->machine);
    struct state_machine *to = machine_state(shadow->machine);

    shadow->rc = RC_OK;
    shadow->whole = each_entry(shadow, from->applied(from) + 1, entry_is_nothing);
    if (shadow->whole || shadow->rc != RC_OK) {
        return;
    }
    shadow->rc = copy_state(shadow);
    if (shadow->rc == RC_OK) {
        (void)each_entry(shadow, to->applied(to) + 1, entry_apply);
    }
}

/* ---- On the loop ---- */

static void shadow_free(struct shadow *shadow)
{
    char path[METAD_PATH_MAX];

    if (shadow->machine != NULL) {
        machine_close(shadow->machine);
        slot_path(shadow->slot, "shadow", path);
        machine_remove_directory(shadow->metad->env, path);
    }
    mem_free(shadow);
}

static void shadow_end(struct shadow *shadow)
{
    struct metad *metad = shadow->metad;
    struct leader *leader;

    metad->busy = false;
    metad->shadow_after_ns = metad->env->clock->mono_ns(metad->env) + SHADOW_RETRY_NS;
    if (shadow->rc != RC_OK || metad->leader != NULL || metad->closing) {
        LOG_ERROR("metad_reads_only_failed", "error=\"%s\"", shadow->error.text);
        metad->shadow = NULL;
        shadow_free(shadow);
        return;
    }
    leader = mem_alloc(sizeof(*leader));
    leader->reads_only = true;
    leader->machine = shadow->whole ? shadow->slot->machine : shadow->machine;
    metad->reads_only = true;
    service_set_leader(metad->service, leader);
    metad_look(metad);
}

static void shadow_done(struct env_work *work)
{
    shadow_end(CONTAINER_OF(work, struct shadow, work));
}

static enum rc open_scratch(struct shadow *shadow)
{
    struct metad *metad = shadow->metad;
    char path[METAD_PATH_MAX];
    struct machine_options options = {
        .env = metad->env, .path = path, .cache = metad->cache, .kv_open = metad->options.kv_open};

    slot_path(shadow->slot, "shadow", path);
    machine_remove_directory(metad->env, path);
    return machine_open(&shadow->machine, &options, &shadow->error);
}

/* No loop reads from an older shadow any more. */
static void shadow_begin(void *owner)
{
    struct shadow *shadow = owner;
    struct metad *metad = shadow->metad;

    shadow_close(metad);
    metad->shadow = shadow;
    shadow->rc = open_scratch(shadow);
    if (shadow->rc != RC_OK) {
        shadow_end(shadow);
        return;
    }
    shadow->work.run = shadow_run;
    shadow->work.done = shadow_done;
    metad->env->worker->submit(metad->env, NULL, &shadow->work);
}

void shadow_start(struct metad *metad, struct slot *slot)
{
    struct shadow *shadow = mem_alloc(sizeof(*shadow));

    ASSERT(!metad->busy);
    shadow->metad = metad;
    shadow->slot = slot;
    shadow->last_index = replica_last_index(slot->replica);
    metad->busy = true;
    service_fence(metad->service, shadow_begin, shadow);
}

void shadow_close(struct metad *metad)
{
    if (metad->shadow != NULL) {
        shadow_free(metad->shadow);
        metad->shadow = NULL;
    }
}
