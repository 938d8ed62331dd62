/*
 * Root's rows of nodes, as the replica of this process has applied them: read on a work thread
 * whenever root changed, put in place of the table, and kept in the identity file so that the
 * others are found again after a restart of all.
 */
#include "common/base/assert.h"
#include "common/log/log.h"
#include "metad/cluster/node_private.h"
#include "metad/store/message.h"

/* The row of a founder is written by the first leader: until then the identity file counts. */
static void rows_keep_founders(struct node *node, struct node_table *table)
{
    for (uint32_t i = 0; i < node->rows_identity.table.count; i++) {
        const struct node_entry *old = &node->rows_identity.table.entries[i];
        bool member = false;

        for (uint32_t j = 0; j < node->rows_member_count; j++) {
            member = member || node->rows_members[j].replica_id == old->replica_id;
        }
        if ((member || old->id == node->identity.node_id) && table->count < NODE_TABLE_MAX &&
            node_table_find(table, old->id) == NULL) {
            table->entries[table->count] = *old;
            table->entries[table->count].has_row = false;
            table->count++;
        }
    }
}

static enum rc rows_read(struct node *node, struct node_table *table)
{
    struct kv *kv = node->rows_store->kv;
    struct row_key lower;
    struct row_key upper;
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter;
    struct arena arena;
    enum rc rc;

    key_range(&lower, RANGE_ROOT, KIND_NODE, SLICE_EMPTY);
    upper = lower;
    (void)row_key_after_prefix(&upper);
    options.lower = row_key_slice(&lower);
    options.upper = row_key_slice(&upper);
    iter = kv->ops->iter_open(kv, &options);
    arena_init(&arena);
    kv->ops->iter_seek(iter, options.lower);
    while (kv->ops->iter_valid(iter)) {
        const Kist__Node *row =
            message_unpack(&arena, &kist__node__descriptor, kv->ops->iter_value(iter));

        if (row == NULL || !node_table_add(table, row, true)) {
            LOG_WARN("node_row_unusable", "node=%llu",
                     (unsigned long long)(row != NULL ? row->id : 0));
        }
        kv->ops->iter_next(iter);
    }
    rc = kv->ops->iter_rc(iter, &node->rows_error);
    arena_deinit(&arena);
    kv->ops->iter_close(iter);
    return rc;
}

/* Work thread. */
static void rows_run(struct env_work *work)
{
    struct node *node = CONTAINER_OF(work, struct node, rows_work);
    struct node_table table = {.count = 0};

    node->rows_error.rc = rows_read(node, &table);
    if (node->rows_error.rc != RC_OK || table.count == 0) {
        return; /* none yet: a new group, or a replica that is not filled yet */
    }
    rows_keep_founders(node, &table);
    node->rows_changed = !node_table_same(&table, &node->rows_identity.table);
    node->rows_identity.table = table;
    if (node->rows_changed) {
        node->rows_error.rc = node_identity_write(node->env, node->options.directory,
                                                  &node->rows_identity, &node->rows_error);
    }
}

static void rows_done(struct env_work *work)
{
    struct node *node = CONTAINER_OF(work, struct node, rows_work);

    store_unref(node->rows_store);
    node->rows_store = NULL;
    node->rows_busy = false;
    if (node->rows_error.rc != RC_OK) {
        LOG_WARN("node_rows_failed", "error=\"%s\"", node->rows_error.text);
        node->rows_stale = true;
    } else if (node->rows_changed && !node->down_busy) {
        node->identity.table = node->rows_identity.table;
        node->table = node->rows_identity.table;
        peers_sync(node);
    }
    rows_look(node);
}

void rows_look(struct node *node)
{
    const struct slot *slot = node->metad != NULL ? &node->metad->slots[0] : NULL;

    if (!node->rows_stale || node->rows_busy || node->down_busy || slot == NULL ||
        slot->state != SLOT_OPEN) {
        return;
    }
    node->rows_stale = false;
    node->rows_busy = true;
    node->rows_changed = false;
    node->rows_error = (struct error){.rc = RC_OK};
    node->rows_store = machine_store(slot->machine);
    node->rows_identity = node->identity;
    node->rows_member_count = replica_members(slot->replica, node->rows_members, NODE_TABLE_MAX);
    node->rows_work.run = rows_run;
    node->rows_work.done = rows_done;
    node->env->worker->submit(node->env, NULL, &node->rows_work);
}

void rows_post_run(struct env_post *post)
{
    struct node *node = CONTAINER_OF(post, struct node, rows_post);

    atomic_store(&node->rows_posted, false);
    node->rows_stale = true;
    rows_look(node);
}

void rows_changed(void *owner)
{
    struct node *node = owner;

    if (!atomic_exchange(&node->rows_posted, true)) {
        node->env->post(node->env, &node->rows_post);
    }
}
