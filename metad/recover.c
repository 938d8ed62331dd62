/*
 * The survivor of two voters goes on alone, because its peer was wiped (its bytes were damaged) or
 * an empty directory was put in its place. Nothing answered is lost: with two voters an entry is on
 * both before it is answered. The old peer cannot come back: alone it has no majority, and here its
 * id is no longer a member.
 *
 *     replica closed -> a configuration {survivor} behind its log, in a new term -> opened again
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/consensus.h"
#include "metad/server_private.h"

struct recover {
    struct metad *metad;
    struct slot *slot;
    uint64_t id;
    struct log_write write;
    struct log_entry entry;
    char configuration[LOG_CONFIGURATION_BYTES_MAX];
};

static void recover_end(struct recover *recover)
{
    struct metad *metad = recover->metad;

    metad->recover = NULL;
    metad->busy = false;
    mem_free(recover);
    metad_look(metad);
}

static void recover_open(struct recover *recover)
{
    struct slot *slot = recover->slot;
    struct error error = {.rc = RC_OK};

    if (slot_open(slot, &error) != RC_OK) {
        LOG_ERROR("metad_recover_failed", "directory=%s error=\"%s\"", slot->directory, error.text);
    }
    recover_end(recover);
}

static void recover_written(struct log_write *write)
{
    struct recover *recover = CONTAINER_OF(write, struct recover, write);
    struct slot *slot = recover->slot;

    if (write->rc != RC_OK) {
        LOG_ERROR("metad_recover_failed", "directory=%s rc=%s", slot->directory,
                  rc_name(write->rc));
    }
    log_store_close(slot->log);
    slot->log = NULL;
    slot->log_kv = NULL;
    recover_open(recover);
}

static void load_nothing(struct log_load *load, uint64_t index, const struct log_entry *entry)
{
    (void)load;
    (void)index;
    (void)entry;
}

static void recover_write(struct recover *recover, const struct log_state *state)
{
    struct consensus_configuration alone = {.count = 1};
    struct slot *slot = recover->slot;

    alone.members[0] = (struct consensus_member){.id = recover->id, .voter = true};
    recover->entry = (struct log_entry){
        .term = state->term + 1,
        .type = ENTRY_CHANGE,
        .data = recover->configuration,
        .len = (uint32_t)consensus_configuration_encode(&alone, recover->configuration)};
    recover->write = (struct log_write){.done = recover_written,
                                        .what = LOG_WRITE_TERM | LOG_WRITE_ENTRIES,
                                        .group = METAD_GROUP,
                                        .term = state->term + 1,
                                        .first_index = state->last_index + 1,
                                        .entries = &recover->entry,
                                        .entry_count = 1};
    log_store_write(slot->log, recover->metad->env, &recover->write);
}

static enum rc recover_open_log(struct slot *slot, struct log_load *load, struct error *error)
{
    struct metad *metad = slot->metad;
    kv_open_cb open = metad->options.kv_open != NULL ? metad->options.kv_open : kv_rocksdb_open;
    char path[METAD_PATH_MAX];
    struct kv_options options = {.path = path, .cache = metad->cache, .must_exist = true};
    struct kv *kv = NULL;

    slot_path(slot, "log", path);
    log_store_kv_options(&options);
    if (open(&kv, &options, error) != RC_OK) {
        return error_prefix(error, "open log");
    }
    if (log_store_open(&slot->log, metad->env, kv, error) != RC_OK) {
        kv_close(kv);
        slot->log = NULL;
        return error_prefix(error, "open log");
    }
    return log_store_load(slot->log, METAD_GROUP, load, error);
}

static void recover_stopped(struct slot *slot)
{
    struct recover *recover = slot->metad->recover;
    struct log_load load = {.entry = load_nothing};
    struct error error = {.rc = RC_OK};

    if (recover_open_log(slot, &load, &error) == RC_OK) {
        recover_write(recover, &load.state);
        return;
    }
    LOG_ERROR("metad_recover_failed", "directory=%s error=\"%s\"", slot->directory, error.text);
    if (slot->log != NULL) {
        log_store_close(slot->log);
        slot->log = NULL;
    }
    slot->state = SLOT_STOPPED;
    slot->error = error;
    recover_end(recover);
}

void recover_start(struct metad *metad, struct slot *slot)
{
    struct recover *recover = mem_alloc(sizeof(*recover));

    ASSERT(metad->recover == NULL && !metad->busy);
    if (slot->verifying) {
        mem_free(recover);
        return; /* next time */
    }
    LOG_WARN("metad_recover", "directory=%s replica=%llu", slot->directory,
             (unsigned long long)slot->id);
    recover->metad = metad;
    recover->slot = slot;
    recover->id = slot->id;
    metad->recover = recover;
    metad->busy = true;
    slot_stop(slot, recover_stopped);
}
