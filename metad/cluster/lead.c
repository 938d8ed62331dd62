/*
 * What the leader does for the cluster, one thing at a time, looked at every NODE_TICK_MS:
 *
 *     somebody joins      id minted -> row -> answered; then, when it runs: learner
 *     news of a member    row (address, release, incarnation)
 *     too few voters      the next learner that has caught up is promoted
 *     a member leaves     a learner first takes its vote, if there is one; then it is removed, then
 *                         its row
 *
 * Voters are 1, 3 or 5 of 1-2, 3-4, 5 and more members. A leader that leaves hands over first.
 * Everything is decided by root's rows and the group's configuration, so the next leader goes on
 * where this one stopped.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "metad/cluster/node_private.h"
#include "metad/store/message.h"

enum { LEAD_WRITE_MS = 5000, SETTLE_MS = 500 };

#define NODE_OF_LEAD(ptr) CONTAINER_OF(CONTAINER_OF(ptr, struct lead, task), struct node, lead)

static enum step_result lead_write(struct node *node, enum meta_command command,
                                   const ProtobufCMessage *message)
{
    struct lead *lead = &node->lead;
    struct meta_client *client = node->metad != NULL ? node->metad->client : NULL;

    if (client == NULL) {
        return task_fail(&lead->task, RC_NOT_LEADER, "it no longer leads");
    }
    lead->write = (struct meta_write){.command = command,
                                      .message = message,
                                      .deadline_ms = LEAD_WRITE_MS,
                                      .arena = &lead->arena};
    return client->write(client, &lead->write, &lead->task);
}

static enum step_result lead_written(struct task *task)
{
    struct node *node = NODE_OF_LEAD(task);

    if (node->lead.write.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return task_fail(task, RC_INVALID, "root refused it");
    }
    return STEP_NEXT;
}

/* ---- A row ---- */

static enum step_result row_put(struct task *task)
{
    struct node *node = NODE_OF_LEAD(task);
    struct lead *lead = &node->lead;

    node_entry_message(&lead->entry, &lead->node);
    kist__put_node__init(&lead->message.put);
    lead->message.put.node = &lead->node;
    return lead_write(node, META_PUT_NODE, &lead->message.put.base);
}

static enum step_result row_remove(struct task *task)
{
    struct node *node = NODE_OF_LEAD(task);

    kist__delete_node__init(&node->lead.message.remove);
    node->lead.message.remove.id = node->lead.entry.id;
    return lead_write(node, META_DELETE_NODE, &node->lead.message.remove.base);
}

/* ---- A join: the id of the node is that of its first replica ---- */

static enum step_result join_mint(struct task *task)
{
    struct node *node = NODE_OF_LEAD(task);
    static uint8_t name[] = "replica";

    kist__mint__init(&node->lead.message.mint);
    node->lead.message.mint.name = (ProtobufCBinaryData){.len = sizeof(name) - 1, .data = name};
    node->lead.message.mint.count = 1;
    return lead_write(node, META_MINT, &node->lead.message.mint.base);
}

static enum step_result join_minted(struct task *task)
{
    struct lead *lead = &NODE_OF_LEAD(task)->lead;

    lead->entry.id = METAD_BOOTSTRAP_IDS + lead->write.reply->first;
    lead->entry.replica_id = lead->entry.id;
    lead->entry.incarnation = 0; /* it has not run as a member yet */
    lead->entry.state = NODE_ROW_MEMBER;
    return STEP_NEXT;
}

static const struct step join_steps[] = {
    {"mint",    join_mint   },
    {"minted",  lead_written},
    {"id",      join_minted },
    {"row",     row_put     },
    {"written", lead_written},
    {NULL,      NULL        },
};

static const struct step put_steps[] = {
    {"row",     row_put     },
    {"written", lead_written},
    {NULL,      NULL        },
};

static const struct step remove_steps[] = {
    {"row",     row_remove  },
    {"written", lead_written},
    {NULL,      NULL        },
};

static void lead_done(struct task *task)
{
    struct node *node = NODE_OF_LEAD(task);
    struct lead *lead = &node->lead;
    struct rpc_request *request = lead->request;

    lead->busy = false;
    lead->request = NULL;
    node->rows_stale = true;
    if (task->error.rc != RC_OK) {
        LOG_WARN("node_row_failed", "node=%llu error=\"%s\"", (unsigned long long)lead->entry.id,
                 task->error.text);
    } else if (lead->joins) {
        LOG_INFO("node_joins", "node=%llu address=%s", (unsigned long long)lead->entry.id,
                 lead->entry.address);
    }
    if (request != NULL && task->error.rc != RC_OK) {
        serve_hint(node, request, task->error.rc, task->error.text);
    } else if (request != NULL && lead->joins) {
        serve_reply_form(node, request, &lead->entry);
    } else if (request != NULL) {
        rpc_reply_rc(request, RC_OK);
    }
    arena_reset(&lead->arena);
    rows_look(node);
}

static void lead_start(struct node *node, const struct node_entry *entry,
                       struct rpc_request *request, const struct step *steps)
{
    struct lead *lead = &node->lead;

    ASSERT(!lead->busy);
    lead->busy = true;
    lead->joins = steps == join_steps;
    lead->entry = *entry;
    lead->request = request;
    lead->task = (struct task){.at = 0};
    task_start(&lead->task, steps, lead_done);
}

/* ---- News of members ---- */

static bool entry_same(const struct node_entry *a, const struct node_entry *b)
{
    return a->incarnation == b->incarnation && a->state == b->state &&
           a->replica_id == b->replica_id && strcmp(a->name, b->name) == 0 &&
           strcmp(a->address, b->address) == 0 && strcmp(a->release, b->release) == 0 &&
           memcmp(a->uuid, b->uuid, NODE_UUID_BYTES) == 0;
}

void lead_hello(struct node *node, const struct node_entry *entry)
{
    const struct node_entry *known = node_table_find(&node->table, entry->id);
    struct node_table *news = &node->lead.news;
    struct node_entry *found = node_table_find(news, entry->id);

    if (known != NULL && known->has_row && entry_same(known, entry)) {
        return;
    }
    if (found == NULL && news->count < NODE_TABLE_MAX) {
        found = &news->entries[news->count++];
        *found = *entry;
    } else if (found != NULL && found->state != NODE_ROW_LEAVES) {
        *found = *entry;
    }
}

/* Of the epoch before a majority was lost: it cannot come back. */
static bool entry_lost(const struct node *node, const struct node_entry *entry)
{
    return node->identity.recovered_ns != 0 && entry->has_row &&
           entry->id != node->identity.node_id && entry->state == NODE_ROW_MEMBER &&
           entry->incarnation != 0 && entry->incarnation < node->identity.recovered_ns;
}

/* True: something was started. */
static bool lead_rows(struct node *node)
{
    struct lead *lead = &node->lead;
    struct node_entry entry;

    for (uint32_t i = 0; i < NODE_JOINS_MAX; i++) {
        struct node_ask *ask = &lead->joins_waiting[i];

        if (ask->request != NULL) {
            struct rpc_request *request = ask->request;

            entry = ask->entry;
            ask->request = NULL;
            lead_start(node, &entry, request, join_steps);
            return true;
        }
    }
    if (lead->leaving.request != NULL) {
        struct rpc_request *request = lead->leaving.request;

        entry = lead->leaving.entry;
        lead->leaving.request = NULL;
        lead_start(node, &entry, request, put_steps);
        return true;
    }
    if (lead->news.count > 0) {
        entry = lead->news.entries[--lead->news.count];
        lead_start(node, &entry, NULL, put_steps);
        return true;
    }
    for (uint32_t i = 0; i < node->table.count; i++) {
        if (entry_lost(node, &node->table.entries[i])) {
            entry = node->table.entries[i];
            entry.state = NODE_ROW_LEAVES;
            lead_start(node, &entry, NULL, put_steps);
            return true;
        }
        if (!node->table.entries[i].has_row) {
            entry = node->table.entries[i];
            lead_start(node, &entry, NULL, put_steps);
            return true;
        }
    }
    return false;
}

/* ---- Members ---- */

struct group {
    struct replica_peer members[NODE_TABLE_MAX];
    uint32_t count;
    uint32_t voters_stay;
    uint32_t learners_stay;
    uint32_t leaving;
    uint32_t spare;  /* that stay, run and do not vote yet: learners, and those that are joining */
    uint32_t wanted; /* voters */
};

static const struct node_entry *stays(struct node *node, uint64_t replica_id)
{
    const struct node_entry *entry = node_table_find_replica(&node->table, replica_id);

    return entry != NULL && entry->state == NODE_ROW_MEMBER ? entry : NULL;
}

static bool group_has(const struct group *group, uint64_t replica_id)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i].replica_id == replica_id) {
            return true;
        }
    }
    return false;
}

static bool group_votes(const struct group *group, uint64_t replica_id)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i].replica_id == replica_id) {
            return group->members[i].voter;
        }
    }
    return false;
}

static void group_look(struct node *node, struct group *group)
{
    uint32_t stay;

    *group = (struct group){.count = 0};
    group->count = replica_members(node_replica(node), group->members, NODE_TABLE_MAX);
    for (uint32_t i = 0; i < group->count; i++) {
        bool in = stays(node, group->members[i].replica_id) != NULL;

        group->voters_stay += in && group->members[i].voter ? 1 : 0;
        group->learners_stay += in && !group->members[i].voter ? 1 : 0;
        group->leaving += in ? 0 : 1;
    }
    for (uint32_t i = 0; i < node->table.count; i++) {
        const struct node_entry *entry = &node->table.entries[i];
        const struct node_peer *peer = peers_of(node, entry->id);

        group->spare += entry->state == NODE_ROW_MEMBER && peer != NULL &&
                                rpc_peer_up(peer->rpc, RPC_CONTROL) &&
                                !group_votes(group, entry->replica_id)
                            ? 1
                            : 0;
    }
    stay = group->voters_stay +
           (group->learners_stay > group->spare ? group->learners_stay : group->spare);
    group->wanted = stay >= 5 ? 5 : stay >= 3 ? 3 : 1;
}

static void change_done(struct membership_change *change)
{
    struct lead *lead = CONTAINER_OF(change, struct lead, change);

    lead->changing = false;
    if (change->rc == RC_OK) {
        LOG_INFO("node_membership", "change=%s replica=%llu",
                 change->kind == MEMBER_ADD_LEARNER ? "learner"
                 : change->kind == MEMBER_PROMOTE   ? "voter"
                                                    : "removed",
                 (unsigned long long)change->replica_id);
    } else if (change->kind == MEMBER_PROMOTE) {
        lead->learner++;
    }
}

static void change_start(struct node *node, int kind, uint64_t replica_id)
{
    struct lead *lead = &node->lead;

    lead->change = (struct membership_change){.replica_id = replica_id, .done = change_done};
    lead->change.kind = MEMBER_ADD_LEARNER;
    if (kind == MEMBER_PROMOTE) {
        lead->change.kind = MEMBER_PROMOTE;
    } else if (kind == MEMBER_REMOVE) {
        lead->change.kind = MEMBER_REMOVE;
    }
    lead->changing = true;
    replica_change_membership(node_replica(node), &lead->change);
}

static bool group_add(struct node *node, const struct group *group)
{
    for (uint32_t i = 0; i < node->table.count; i++) {
        const struct node_entry *entry = &node->table.entries[i];

        if (entry->has_row && entry->state == NODE_ROW_MEMBER && entry->incarnation != 0 &&
            !group_has(group, entry->replica_id)) {
            change_start(node, MEMBER_ADD_LEARNER, entry->replica_id);
            return true;
        }
    }
    return false;
}

static bool group_promote(struct node *node, const struct group *group)
{
    uint32_t skip;

    if (group->voters_stay >= group->wanted || group->learners_stay == 0) {
        return false;
    }
    skip = node->lead.learner % group->learners_stay;
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i].voter || stays(node, group->members[i].replica_id) == NULL) {
            continue;
        }
        if (skip-- == 0) {
            change_start(node, MEMBER_PROMOTE, group->members[i].replica_id);
            return true;
        }
    }
    return false;
}

/* Learners go at once, voters when another has taken their place or none can. */
static bool group_remove(struct node *node, const struct group *group)
{
    struct replica *replica = node_replica(node);

    for (uint32_t i = 0; i < group->count; i++) {
        const struct replica_peer *member = &group->members[i];

        if (stays(node, member->replica_id) != NULL || group->voters_stay == 0) {
            continue;
        }
        if (member->voter && group->spare > 0 && group->voters_stay < group->wanted) {
            continue;
        }
        if (member->replica_id == replica_id(replica)) {
            replica_transfer(replica);
        } else {
            change_start(node, MEMBER_REMOVE, member->replica_id);
        }
        return true;
    }
    return false;
}

static void group_forget(struct node *node, const struct group *group)
{
    for (uint32_t i = 0; i < node->table.count; i++) {
        struct node_entry entry = node->table.entries[i];

        if (entry.has_row && entry.state == NODE_ROW_LEAVES &&
            !group_has(group, entry.replica_id)) {
            LOG_INFO("node_removed", "node=%llu address=%s", (unsigned long long)entry.id,
                     entry.address);
            lead_start(node, &entry, NULL, remove_steps);
            return;
        }
    }
}

static void lead_group(struct node *node)
{
    struct group group;

    group_look(node, &group);
    if (group_add(node, &group) || group_promote(node, &group)) {
        return;
    }
    if (group.leaving > 0 && group_remove(node, &group)) {
        return;
    }
    group_forget(node, &group);
}

void lead_tick(struct node *node)
{
    struct lead *lead = &node->lead;
    uint64_t now_ns = node->env->clock->mono_ns(node->env);

    if (!node_serving(node) || node->down_busy) {
        lead->serving_since_ns = 0;
        lead->news.count = 0; /* told again, to who leads then */
        return;
    }
    if (lead->serving_since_ns == 0) {
        lead->serving_since_ns = now_ns;
        node->rows_stale = true;
        rows_look(node);
    }
    /* What this one knew as a follower may be behind. */
    if (lead->busy || node->rows_busy || node->rows_stale ||
        now_ns - lead->serving_since_ns < SETTLE_MS * NODE_NS_PER_MS || lead_rows(node)) {
        return;
    }
    if (!lead->changing && lead->news.count == 0) {
        lead_group(node);
    }
}
