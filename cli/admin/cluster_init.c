/*
 * `kist admin cluster init`: looks at every metad that was named, then tells each who the members
 * are. Refused when any holds a cluster, except one that an init which broke off has begun with
 * exactly these: that is finished.
 */
#include <stdio.h>
#include <string.h>

#include "cli/admin/cluster_private.h"
#include "common/base/assert.h"
#include "metad/store/message.h"

enum { LEADER_WAIT_MS = 20000, LOOK_MS = 200 };

struct init {
    struct cluster_line *line;
    struct arena arena;
    Kist__ClusterStatus *status[NODE_PEERS_MAX];
    const Kist__ClusterStatus *begun; /* by an init that broke off */
    Kist__ClusterForm form;
    Kist__Node nodes[NODE_PEERS_MAX];
    Kist__Node *node_list[NODE_PEERS_MAX];
    uint64_t replica_ids[NODE_PEERS_MAX];
    uint8_t cluster_id[RPC_CLUSTER_ID_BYTES];
};

static bool init_look(struct init *init)
{
    const struct cluster_line *line = init->line;

    for (uint32_t i = 0; i < line->metad_count; i++) {
        enum rc rc;

        init->status[i] = cluster_ask_status(line->asker, line->metads[i], &init->arena, &rc);
        if (init->status[i] == NULL) {
            (void)fprintf(stderr, "kist: %s cannot be reached: %s; nothing was made\n",
                          line->metads[i], rc_text(rc));
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (slice_eq(message_bytes(init->status[i]->address),
                         message_bytes(init->status[j]->address))) {
                (void)fprintf(stderr, "kist: %s and %s are the same metad\n", line->metads[j],
                              line->metads[i]);
                return false;
            }
        }
        if (init->status[i]->state != NODE_WAITING) {
            init->begun = init->status[i];
        }
    }
    return true;
}

static bool node_named(const Kist__ClusterStatus *begun, const Kist__ClusterStatus *status)
{
    for (size_t i = 0; i < begun->n_nodes; i++) {
        if (slice_eq(message_bytes(begun->nodes[i]->address), message_bytes(status->address))) {
            return true;
        }
    }
    return false;
}

/* Only what never had a leader, and only with exactly the same members, is finished. */
static bool init_may_finish(const struct init *init)
{
    const Kist__ClusterStatus *begun = init->begun;
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < init->line->metad_count; i++) {
        const Kist__ClusterStatus *status = init->status[i];

        waiting += status->state == NODE_WAITING ? 1 : 0;
        if (!node_named(begun, status) ||
            (status->state != NODE_WAITING &&
             (status->leader_id != 0 || status->applied > 0 ||
              !slice_eq(message_bytes(status->cluster_id), message_bytes(begun->cluster_id))))) {
            return false;
        }
    }
    return waiting > 0 && begun->n_nodes == init->line->metad_count;
}

static void init_members(struct init *init)
{
    struct env *env = cluster_asker_env(init->line->asker);
    uint64_t words[2] = {env->random(env), env->random(env)};

    memcpy(init->cluster_id, words, RPC_CLUSTER_ID_BYTES);
    init->form.cluster_id = message_field(slice_of(init->cluster_id, RPC_CLUSTER_ID_BYTES));
    init->form.cluster_epoch = 1;
    for (uint32_t i = 0; i < init->line->metad_count; i++) {
        Kist__Node *node = &init->nodes[i];

        kist__node__init(node);
        node->id = i + 1;
        node->name = init->status[i]->name;
        node->address = init->status[i]->address;
        node->role = RPC_ROLE_METAD;
        node->release = init->status[i]->release;
        node->state = 1;
        init->replica_ids[i] = i + 1;
        node->replica_ids = &init->replica_ids[i];
        node->n_replica_ids = 1;
        init->node_list[i] = node;
    }
    init->form.nodes = init->node_list;
    init->form.n_nodes = init->line->metad_count;
}

static bool init_tell(struct init *init)
{
    for (uint32_t i = 0; i < init->line->metad_count; i++) {
        struct slice head;
        enum rc rc;

        if (init->status[i]->state != NODE_WAITING) {
            continue;
        }
        for (size_t j = 0; j < init->form.n_nodes; j++) {
            if (slice_eq(message_bytes(init->form.nodes[j]->address),
                         message_bytes(init->status[i]->address))) {
                init->form.node_id = init->form.nodes[j]->id;
                init->form.replica_id = init->form.nodes[j]->replica_ids[0];
            }
        }
        rc = cluster_ask(init->line->asker, init->line->metads[i], RPC_CLUSTER_FORM,
                         &init->form.base, &init->arena, &head);
        if (rc != RC_OK) {
            const Kist__ClusterHint *hint =
                message_unpack(&init->arena, &kist__cluster_hint__descriptor, head);

            (void)fprintf(
                stderr, "kist: %s: %s; repeat the command to finish\n", init->line->metads[i],
                hint != NULL && hint->text.len > 0 ? cluster_text(&init->arena, hint->text)
                                                   : rc_text(rc));
            return false;
        }
    }
    return true;
}

static bool init_wait(struct init *init)
{
    for (uint32_t waited = 0; waited < LEADER_WAIT_MS; waited += LOOK_MS) {
        for (uint32_t i = 0; i < init->line->metad_count; i++) {
            enum rc rc;
            const Kist__ClusterStatus *status =
                cluster_ask_status(init->line->asker, init->line->metads[i], &init->arena, &rc);

            if (status != NULL && status->leader_id != 0) {
                (void)printf("the cluster is made: %zu metads, node %llu (%s) leads\n",
                             init->form.n_nodes, (unsigned long long)status->leader_id,
                             cluster_text(&init->arena, status->leader_address));
                return true;
            }
        }
        cluster_pause(init->line->asker, LOOK_MS);
    }
    (void)fprintf(stderr, "kist: the cluster is made, but none of its metads leads yet; see kist "
                          "admin metad list\n");
    return false;
}

int cluster_init(struct cluster_line *line)
{
    struct init init = {.line = line, .form = KIST__CLUSTER_FORM__INIT};
    bool good;

    if (line->metad_count != 1 && line->metad_count != 3 && line->metad_count != 5) {
        (void)fprintf(stderr, "kist: a cluster begins with one, three or five metads, not %u\n",
                      line->metad_count);
        return CODE_USAGE;
    }
    arena_init(&init.arena);
    good = init_look(&init);
    if (good && init.begun != NULL) {
        good = init_may_finish(&init);
        if (!good) {
            (void)fprintf(stderr, "kist: %s holds a cluster already; nothing was made\n",
                          cluster_text(&init.arena, init.begun->address));
        }
        init.form.cluster_id = init.begun->cluster_id;
        init.form.cluster_epoch = init.begun->cluster_epoch;
        init.form.nodes = init.begun->nodes;
        init.form.n_nodes = init.begun->n_nodes;
    } else if (good) {
        init_members(&init);
    }
    good = good && init_tell(&init) && init_wait(&init);
    arena_deinit(&init.arena);
    return good ? 0 : CODE_OPERATING;
}
