/*
 * One replica in one directory:
 *
 *     DIR/meta/log     the raft log (its own store, synced), with the replica's identity
 *     DIR/meta/state   the state machine's stores (metad/apply)
 *     DIR/meta/shadow  a scratch copy for reads without a majority; removed at every start
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/apply/machine_files.h"
#include "metad/server_private.h"

uint32_t slots_for(uint32_t directory_count)
{
    if (directory_count <= 2) {
        return directory_count;
    }
    return directory_count < 5 ? 3 : 5;
}

void slot_path(const struct slot *slot, const char *name, char out[METAD_PATH_MAX])
{
    (void)snprintf(out, METAD_PATH_MAX, "%s/meta%s%s", slot->directory, name[0] != '\0' ? "/" : "",
                   name);
}

static void on_root_change(void *owner)
{
    const struct slot *slot = owner;

    service_root_changed(slot->metad->service);
    if (slot->metad->cluster.on_root_change != NULL) {
        slot->metad->cluster.on_root_change(slot->metad->cluster.owner);
    }
}

static void on_change(struct replica *replica, void *owner)
{
    const struct slot *slot = owner;

    (void)replica;
    metad_look(slot->metad);
}

/* ---- Open ---- */

static enum rc open_log(struct slot *slot, struct error *error)
{
    struct metad *metad = slot->metad;
    kv_open_cb open = metad->options.kv_open != NULL ? metad->options.kv_open : kv_rocksdb_open;
    char path[METAD_PATH_MAX];
    struct kv_options options = {.path = path, .cache = metad->cache};
    enum rc rc;

    slot_path(slot, "log", path);
    log_store_kv_options(&options);
    rc = open(&slot->log_kv, &options, error);
    if (rc != RC_OK) {
        return error_prefix(error, "open log %s", path);
    }
    rc = log_store_open(&slot->log, metad->env, slot->log_kv, error);
    if (rc != RC_OK) {
        kv_close(slot->log_kv);
        slot->log = NULL;
        return error_prefix(error, "open log %s", path);
    }
    return RC_OK;
}

static enum rc open_machine(struct slot *slot, struct error *error)
{
    struct metad *metad = slot->metad;
    char path[METAD_PATH_MAX];
    struct machine_options options = {.env = metad->env,
                                      .path = path,
                                      .cache = metad->cache,
                                      .kv_open = metad->options.kv_open,
                                      .owner = slot,
                                      .on_root_change = on_root_change};

    slot_path(slot, "state", path);
    return machine_open(&slot->machine, &options, error);
}

static enum rc open_replica(struct slot *slot, const struct replica_peer *peers, uint32_t count,
                            struct error *error)
{
    struct metad *metad = slot->metad;
    struct replica_options options = {.env = metad->env,
                                      .log = slot->log,
                                      .machine = machine_state(slot->machine),
                                      .transport = metad_transport(metad),
                                      .group = METAD_GROUP,
                                      .replica_id = slot->id,
                                      .bootstrap = peers,
                                      .bootstrap_count = count,
                                      .election_timeout_ms = metad->options.election_timeout_ms,
                                      .owner = slot,
                                      .on_change = on_change};
    enum rc rc = replica_open(&slot->replica, &options, error);

    if (rc == RC_OK) {
        metad_transport_add(slot);
    }
    return rc;
}

static void close_stores(struct slot *slot)
{
    if (slot->machine != NULL) {
        machine_close(slot->machine);
        slot->machine = NULL;
    }
    if (slot->log != NULL) {
        log_store_close(slot->log);
        slot->log = NULL;
        slot->log_kv = NULL;
    }
}

static void load_nothing(struct log_load *load, uint64_t index, const struct log_entry *entry)
{
    (void)load;
    (void)index;
    (void)entry;
}

/* Whose log it is; 0: nobody's. */
static enum rc load_id(struct slot *slot, struct error *error)
{
    struct log_load load = {.entry = load_nothing};
    enum rc rc = log_store_load(slot->log, METAD_GROUP, &load, error);

    slot->id = rc == RC_OK ? load.state.replica_id : 0;
    return rc;
}

static bool is_directory(struct env *env, const char *path)
{
    struct env_stat stat;

    return env->file->stat(env, path, &stat) == RC_OK && stat.is_directory;
}

static void remove_shadow(struct slot *slot)
{
    char path[METAD_PATH_MAX];

    slot_path(slot, "shadow", path);
    machine_remove_directory(slot->metad->env, path);
}

enum rc slot_open(struct slot *slot, struct error *error)
{
    struct env *env = slot->metad->env;
    char path[METAD_PATH_MAX];
    enum rc rc;

    slot->id = 0;
    slot_path(slot, "", path);
    if (!is_directory(env, slot->directory)) {
        slot->state = SLOT_MISSING;
        return error_set(error, RC_NOT_FOUND, "%s is missing", slot->directory);
    }
    if (!is_directory(env, path)) {
        slot->state = SLOT_EMPTY;
        return error_set(error, RC_NOT_FOUND, "%s holds no replica", slot->directory);
    }
    remove_shadow(slot);
    rc = open_log(slot, error);
    if (rc == RC_OK) {
        rc = load_id(slot, error);
    }
    if (rc == RC_OK && slot->id == 0) {
        close_stores(slot);
        slot->state = SLOT_EMPTY; /* a join that did not get far */
        return error_set(error, RC_NOT_FOUND, "%s holds no replica", slot->directory);
    }
    if (rc == RC_OK) {
        rc = open_machine(slot, error);
    }
    if (rc == RC_OK) {
        rc = open_replica(slot, NULL, 0, error);
    }
    if (rc != RC_OK) {
        close_stores(slot);
        slot->state = SLOT_STOPPED;
        slot->error = *error;
        slot->error.rc = rc;
        return rc;
    }
    slot->state = SLOT_OPEN;
    slot->verified = false;
    return RC_OK;
}

enum rc slot_create(struct slot *slot, uint64_t id, const struct replica_peer *peers,
                    uint32_t peer_count, struct error *error)
{
    struct env *env = slot->metad->env;
    char path[METAD_PATH_MAX];
    enum rc rc;

    slot_path(slot, "", path);
    rc = env->file->mkdir(env, path);
    if (rc == RC_OK || rc == RC_EXISTS) {
        rc = env->file->sync_directory(env, slot->directory);
    }
    if (rc != RC_OK) {
        return error_set(error, rc, "make %s: %s", path, rc_text(rc));
    }
    rc = open_log(slot, error);
    if (rc == RC_OK) {
        rc = log_store_wipe(slot->log, METAD_GROUP, error);
    }
    if (rc == RC_OK) {
        rc = log_store_set_tombstone(slot->log, METAD_GROUP, id, error);
    }
    slot->id = id;
    if (rc == RC_OK) {
        rc = open_machine(slot, error);
    }
    if (rc == RC_OK) {
        rc = open_replica(slot, peers, peer_count, error);
    }
    if (rc != RC_OK) {
        close_stores(slot);
        slot->id = 0;
        slot->state = SLOT_STOPPED;
        slot->error = *error;
        slot->error.rc = rc;
        return error_prefix(error, "make a replica in %s", slot->directory);
    }
    slot->state = SLOT_OPEN;
    slot->verified = false;
    return RC_OK;
}

/* ---- Stop: unpublished -> fence -> replica closed -> stores closed ---- */

static void stop_stores_run(struct env_work *work)
{
    struct slot *slot = CONTAINER_OF(work, struct slot, work);

    machine_close(slot->closing);
}

static void stop_stores_done(struct env_work *work)
{
    struct slot *slot = CONTAINER_OF(work, struct slot, work);

    slot->closing = NULL;
    log_store_close(slot->log);
    slot->log = NULL;
    slot->log_kv = NULL;
    slot->stopped(slot);
}

static void stop_replica_done(void *owner)
{
    struct slot *slot = owner;
    struct env *env = slot->metad->env;

    metad_transport_remove(slot);
    slot->replica = NULL;
    slot->closing = slot->machine;
    slot->machine = NULL;
    slot->work.run = stop_stores_run;
    slot->work.done = stop_stores_done;
    env->worker->submit(env, NULL, &slot->work);
}

static void stop_fenced(void *owner)
{
    struct slot *slot = owner;

    replica_close(slot->replica, stop_replica_done, slot);
}

void slot_stop(struct slot *slot, void (*stopped)(struct slot *slot))
{
    struct metad *metad = slot->metad;

    ASSERT(slot->state == SLOT_OPEN && !slot->verifying);
    slot->state = SLOT_BUSY;
    slot->stopped = stopped;
    if (metad->leader == slot) {
        metad->leader = NULL;
        reclaim_leader(metad->reclaim, NULL);
        service_set_leader(metad->service, NULL);
    } else if (metad->reads_only) {
        metad->reads_only = false;
        service_set_leader(metad->service, NULL);
    }
    service_fence(metad->service, stop_fenced, slot);
}

void slot_wipe(struct slot *slot)
{
    char path[METAD_PATH_MAX];

    ASSERT(slot->replica == NULL && slot->machine == NULL && slot->log == NULL);
    LOG_WARN("metad_wipe", "directory=%s replica=%llu", slot->directory,
             (unsigned long long)slot->id);
    slot_path(slot, "", path);
    machine_remove_directory(slot->metad->env, path);
    slot->id = 0;
    slot->error = (struct error){.rc = RC_OK};
    slot->state = SLOT_EMPTY;
}
