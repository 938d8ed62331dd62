/* `kist admin metad list|add|remove|replace|transfer`. */
#include <stdio.h>
#include <string.h>

#include "cli/admin/cluster_private.h"
#include "common/base/assert.h"
#include "metad/store/message.h"

enum { TRIES_MAX = 300, TRY_MS = 200, INVITES_MAX = 25, CHANGE_REMOVE = 1, CHANGE_TRANSFER = 2 };

/* The status of the leader, asked at whom the others name; NULL: there is none. */
static Kist__ClusterStatus *leader_status(struct cluster_line *line, struct arena *arena,
                                          const char **address)
{
    for (uint32_t i = 0; i < line->metad_count; i++) {
        enum rc rc;
        Kist__ClusterStatus *status = cluster_ask_status(line->asker, line->metads[i], arena, &rc);

        if (status == NULL || status->leader_id == 0) {
            continue;
        }
        *address = cluster_text(arena, status->leader_address);
        if (!status->serving) {
            status = cluster_ask_status(line->asker, *address, arena, &rc);
        }
        if (status != NULL && status->serving) {
            return status;
        }
    }
    return NULL;
}

static Kist__ClusterStatus *leader_wait(struct cluster_line *line, struct arena *arena,
                                        const char **address)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        Kist__ClusterStatus *status = leader_status(line, arena, address);

        if (status != NULL) {
            return status;
        }
        cluster_pause(line->asker, TRY_MS);
    }
    (void)fprintf(stderr, "kist: none of the metads named leads or knows who does\n");
    return NULL;
}

static const Kist__Node *node_find(const Kist__ClusterStatus *status, const char *name)
{
    uint64_t id = 0;

    (void)slice_to_u64(slice_str(name), UINT64_MAX, &id);
    for (size_t i = 0; i < status->n_nodes; i++) {
        const Kist__Node *node = status->nodes[i];

        if ((id != 0 && node->id == id) || slice_eq_str(message_bytes(node->name), name) ||
            slice_eq_str(message_bytes(node->address), name)) {
            return node;
        }
    }
    return NULL;
}

static const char *member_word(const Kist__ClusterStatus *status, const Kist__Node *node)
{
    for (size_t i = 0; i < status->n_members; i++) {
        if (node->n_replica_ids > 0 && status->members[i]->replica_id == node->replica_ids[0]) {
            return node->state == 2 ? "leaves" : status->members[i]->voter ? "voter" : "learner";
        }
    }
    return node->state == 2 ? "leaves" : "joins";
}

int cluster_list(struct cluster_line *line)
{
    const char *address = NULL;
    struct arena arena;
    const Kist__ClusterStatus *status;

    arena_init(&arena);
    status = leader_status(line, &arena, &address);
    if (status != NULL) {
        for (size_t i = 0; i < status->n_nodes; i++) {
            const Kist__Node *node = status->nodes[i];

            (void)printf("%-6llu %-20s %-28s %-8s %-7s %s\n", (unsigned long long)node->id,
                         cluster_text(&arena, node->name), cluster_text(&arena, node->address),
                         member_word(status, node), node->id == status->leader_id ? "leader" : "-",
                         cluster_text(&arena, node->release));
        }
    }
    for (uint32_t i = 0; status == NULL && i < line->metad_count; i++) {
        static const char *const words[] = {"starting", "waiting", "joining", "member", "closing"};
        enum rc rc;
        const Kist__ClusterStatus *one =
            cluster_ask_status(line->asker, line->metads[i], &arena, &rc);

        (void)printf("%-28s %s\n", line->metads[i],
                     one == NULL                     ? rc_text(rc)
                     : one->state < ARRAY_LEN(words) ? words[one->state]
                                                     : "unknown");
    }
    if (status == NULL) {
        (void)fprintf(stderr, "kist: no leader\n");
    }
    arena_deinit(&arena);
    return status != NULL ? 0 : CODE_OPERATING;
}

static bool change_ask(struct cluster_line *line, Kist__ClusterChange *change)
{
    struct arena arena;
    bool good = false;

    arena_init(&arena);
    for (int i = 0; i < TRIES_MAX && !good; i++) {
        const char *address = NULL;
        const Kist__ClusterHint *hint;
        struct slice head;
        enum rc rc;

        if (leader_wait(line, &arena, &address) == NULL) {
            break;
        }
        rc = cluster_ask(line->asker, address, RPC_CLUSTER_CHANGE, &change->base, &arena, &head);
        good = rc == RC_OK;
        if (!good && !rc_retry(rc) && rc != RC_CLOSED) {
            hint = message_unpack(&arena, &kist__cluster_hint__descriptor, head);
            (void)fprintf(stderr, "kist: %s\n",
                          hint != NULL && hint->text.len > 0 ? cluster_text(&arena, hint->text)
                                                             : rc_text(rc));
            break;
        }
        if (!good) {
            cluster_pause(line->asker, TRY_MS);
        }
    }
    arena_deinit(&arena);
    return good;
}

int cluster_add(struct cluster_line *line, const char *address)
{
    Kist__ClusterChange invite = KIST__CLUSTER_CHANGE__INIT;
    ProtobufCBinaryData peers[NODE_PEERS_MAX];
    struct arena arena;
    struct slice head;
    enum rc rc;
    int code = CODE_OPERATING;

    arena_init(&arena);
    for (uint32_t i = 0; i < line->metad_count; i++) {
        peers[i] = message_field(slice_str(line->metads[i]));
    }
    invite.peers = peers;
    invite.n_peers = line->metad_count;
    rc = RC_CLOSED;
    for (int i = 0; (rc == RC_CLOSED || rc == RC_TIMEOUT) && i < INVITES_MAX; i++) {
        if (i > 0) {
            cluster_pause(line->asker, TRY_MS); /* it may just be starting */
        }
        rc = cluster_ask(line->asker, address, RPC_CLUSTER_INVITE, &invite.base, &arena, &head);
    }
    if (rc != RC_OK && rc != RC_EXISTS) {
        (void)fprintf(stderr, "kist: %s: %s\n", address, rc_text(rc));
    }
    for (int i = 0; (rc == RC_OK || rc == RC_EXISTS) && code != 0 && i < TRIES_MAX; i++) {
        const char *leader = NULL;
        const Kist__ClusterStatus *status = leader_status(line, &arena, &leader);
        const Kist__Node *node = status != NULL ? node_find(status, address) : NULL;

        if (node != NULL && node->state != 2 && strcmp(member_word(status, node), "joins") != 0) {
            (void)printf("node %llu (%s) is a %s\n", (unsigned long long)node->id, address,
                         member_word(status, node));
            code = 0;
        } else {
            cluster_pause(line->asker, TRY_MS);
        }
    }
    if (code != 0 && rc == RC_OK) {
        (void)fprintf(stderr, "kist: %s has not joined yet; see kist admin metad list\n", address);
    }
    arena_deinit(&arena);
    return code;
}

/* 0 once no node of this id is listed. */
static int removal_wait(struct cluster_line *line, struct arena *arena, uint64_t id)
{
    const char *leader = NULL;

    for (int i = 0; i < TRIES_MAX; i++) {
        const Kist__ClusterStatus *status = leader_status(line, arena, &leader);
        bool gone = status != NULL;

        for (size_t j = 0; gone && j < status->n_nodes; j++) {
            gone = status->nodes[j]->id != id;
        }
        if (gone) {
            return 0;
        }
        cluster_pause(line->asker, TRY_MS);
    }
    return CODE_OPERATING;
}

int cluster_remove(struct cluster_line *line, const char *name)
{
    Kist__ClusterChange change = KIST__CLUSTER_CHANGE__INIT;
    const char *leader = NULL;
    const Kist__ClusterStatus *status;
    const Kist__Node *node;
    struct arena arena;
    int code = CODE_OPERATING;

    arena_init(&arena);
    status = leader_wait(line, &arena, &leader);
    node = status != NULL ? node_find(status, name) : NULL;
    if (status != NULL && node == NULL) {
        (void)fprintf(stderr, "kist: no node '%s'\n", name);
    }
    if (node != NULL) {
        change.kind = CHANGE_REMOVE;
        change.node_id = node->id;
    }
    if (node != NULL && change_ask(line, &change)) {
        code = removal_wait(line, &arena, change.node_id);
        (void)fprintf(code == 0 ? stdout : stderr, "node %llu %s\n",
                      (unsigned long long)change.node_id,
                      code == 0 ? "is removed" : "is still leaving; see kist admin metad list");
    }
    arena_deinit(&arena);
    return code;
}

int cluster_replace(struct cluster_line *line, const char *name, const char *address)
{
    int code = cluster_add(line, address);

    return code == 0 ? cluster_remove(line, name) : code;
}

int cluster_transfer(struct cluster_line *line)
{
    Kist__ClusterChange change = KIST__CLUSTER_CHANGE__INIT;
    const char *address = NULL;
    const Kist__ClusterStatus *status;
    struct arena arena;
    uint64_t before;
    int code = CODE_OPERATING;

    arena_init(&arena);
    status = leader_wait(line, &arena, &address);
    before = status != NULL ? status->leader_id : 0;
    change.kind = CHANGE_TRANSFER;
    if (status != NULL && change_ask(line, &change)) {
        for (int i = 0; code != 0 && i < TRIES_MAX / 5; i++) {
            status = leader_status(line, &arena, &address);
            if (status != NULL && status->leader_id != before) {
                (void)printf("node %llu leads\n", (unsigned long long)status->leader_id);
                code = 0;
            } else {
                cluster_pause(line->asker, TRY_MS);
            }
        }
        if (code != 0) {
            (void)fprintf(stderr, "kist: node %llu still leads\n", (unsigned long long)before);
        }
    }
    arena_deinit(&arena);
    return code;
}
