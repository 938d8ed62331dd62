#include "metad/cluster/node_recover.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/kv/kv.h"
#include "metad/cluster/node_identity.h"
#include "metad/log/log_store.h"
#include "metad/raft/consensus.h"
#include "metad/server_private.h"

struct recovery {
    struct node_recover *recover;
    struct node_identity identity;
    struct log_store *log;
    struct log_write write;
    struct log_entry entry;
    char configuration[LOG_CONFIGURATION_BYTES_MAX];
    struct env_post post;
};

static void recovery_end(struct recovery *recovery)
{
    struct node_recover *recover = recovery->recover;

    if (recovery->log != NULL) {
        log_store_close(recovery->log);
    }
    mem_free(recovery);
    recover->done(recover);
}

static void recovery_post(struct env_post *post)
{
    recovery_end(CONTAINER_OF(post, struct recovery, post));
}

static void load_nothing(struct log_load *load, uint64_t index, const struct log_entry *entry)
{
    (void)load;
    (void)index;
    (void)entry;
}

static enum rc recovery_load(struct recovery *recovery, struct error *error)
{
    struct node_recover *recover = recovery->recover;
    struct log_load load = {.entry = load_nothing};
    char path[METAD_PATH_MAX];
    struct kv_options options = {.path = path, .must_exist = true};
    struct kv *kv = NULL;
    enum rc rc = node_identity_read(recover->env, recover->directory, &recovery->identity, error);

    if (rc != RC_OK) {
        return rc;
    }
    (void)snprintf(path, sizeof(path), "%s/meta/log", recover->directory);
    log_store_kv_options(&options);
    if (kv_rocksdb_open(&kv, &options, error) != RC_OK) {
        return error_prefix(error, "open log");
    }
    if (log_store_open(&recovery->log, recover->env, kv, error) != RC_OK) {
        kv_close(kv);
        recovery->log = NULL;
        return error_prefix(error, "open log");
    }
    rc = log_store_load(recovery->log, METAD_GROUP, &load, error);
    if (rc == RC_OK && (load.state.replica_id != recovery->identity.replica_id ||
                        load.state.installing.index != 0 || load.state.last_index == 0)) {
        rc = error_set(error, RC_INVALID, "its replica is not whole: choose another survivor");
    }
    recover->node_id = recovery->identity.node_id;
    recover->replica_id = load.state.replica_id;
    recover->term = load.state.term;
    recover->last_index = load.state.last_index;
    recover->cluster_epoch = recovery->identity.cluster_epoch;
    return rc;
}

/* The log says so first: an identity of the new epoch never stands beside the old configuration. */
static void recovery_written(struct log_write *write)
{
    struct recovery *recovery = CONTAINER_OF(write, struct recovery, write);
    struct node_recover *recover = recovery->recover;
    struct node_identity *identity = &recovery->identity;
    struct node_entry self;

    if (write->rc != RC_OK) {
        (void)error_set(&recover->error, write->rc, "write log: %s", rc_text(write->rc));
        recovery_end(recovery);
        return;
    }
    self = *node_table_find(&identity->table, identity->node_id);
    identity->table = (struct node_table){.count = 1};
    identity->table.entries[0] = self;
    identity->cluster_epoch++;
    identity->founder = false;
    identity->recovered_ns = recover->env->clock->wall_ns(recover->env);
    recover->error.rc =
        node_identity_write(recover->env, recover->directory, identity, &recover->error);
    recover->cluster_epoch = identity->cluster_epoch;
    recovery_end(recovery);
}

static void recovery_write(struct recovery *recovery)
{
    const struct node_recover *recover = recovery->recover;
    struct consensus_configuration alone = {.count = 1};

    alone.members[0] = (struct consensus_member){.id = recover->replica_id, .voter = true};
    recovery->entry = (struct log_entry){
        .term = recover->term + 1,
        .type = ENTRY_CHANGE,
        .data = recovery->configuration,
        .len = (uint32_t)consensus_configuration_encode(&alone, recovery->configuration)};
    recovery->write = (struct log_write){.done = recovery_written,
                                         .what = LOG_WRITE_TERM | LOG_WRITE_ENTRIES,
                                         .group = METAD_GROUP,
                                         .term = recover->term + 1,
                                         .first_index = recover->last_index + 1,
                                         .entries = &recovery->entry,
                                         .entry_count = 1};
    log_store_write(recovery->log, recover->env, &recovery->write);
}

void node_recover(struct node_recover *recover)
{
    struct recovery *recovery = mem_alloc(sizeof(*recovery));

    recovery->recover = recover;
    recover->error = (struct error){.rc = RC_OK};
    recover->error.rc = recovery_load(recovery, &recover->error);
    if (recover->error.rc == RC_OK && recover->write) {
        recovery_write(recovery);
        return;
    }
    recovery->post.run = recovery_post;
    recover->env->post(recover->env, &recovery->post);
}
