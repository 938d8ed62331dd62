/* Life of a node: see node.h. What waits is in node_wait.c, what a leader does in lead.c. */
#include "metad/cluster/node.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/apply/machine_files.h"
#include "metad/cluster/node_private.h"

enum { DOWN_POLL_MS = 10 };

static void wait_open(struct node *node);
static void member_open(struct node *node);

/* ---- Getters ---- */

void *node_owner(const struct node *node)
{
    return node->options.owner;
}

enum node_state node_state(const struct node *node)
{
    return node->state;
}

struct rpc *node_rpc(struct node *node)
{
    return node->rpc;
}

struct metad *node_metad(struct node *node)
{
    return node->metad;
}

struct replica *node_replica(const struct node *node)
{
    const struct slot *slot = node->metad != NULL ? &node->metad->slots[0] : NULL;

    return slot != NULL && slot->state == SLOT_OPEN &&
                   replica_state(slot->replica) != REPLICA_STOPPED
               ? slot->replica
               : NULL;
}

bool node_serving(const struct node *node)
{
    return node->state == NODE_MEMBER && node->metad != NULL && metad_serving(node->metad);
}

bool node_leader(const struct node *node, struct node_leader *out)
{
    const struct replica *replica = node_replica(node);
    uint64_t id = replica != NULL ? replica_leader(replica) : 0;
    struct node_entry *entry = NULL;

    *out = (struct node_leader){.self = node_serving(node)};
    if (id != 0) {
        entry = node_table_find_replica((struct node_table *)(uintptr_t)&node->table, id);
    }
    if (entry == NULL || (entry->id == node->identity.node_id && !out->self)) {
        return false; /* elected, but it may not answer yet */
    }
    out->node_id = entry->id;
    (void)snprintf(out->address, sizeof(out->address), "%s", entry->address);
    return true;
}

/* ---- Failing ---- */

void node_fail(struct node *node, enum rc rc, const char *format, ...)
{
    struct error error = {.rc = rc};
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error.text, sizeof(error.text), format, args);
    va_end(args);
    if (node->failed || node->stopping) {
        return;
    }
    node->failed = true;
    LOG_ERROR("node_failed", "node=%llu error=\"%s\"", (unsigned long long)node->identity.node_id,
              error.text);
    node->options.on_failed(node, &error);
}

/* ---- Its rpc ---- */

/* Old processes of a node are refused; whoever it is may ask to join. */
static enum rc node_judge(struct rpc *rpc, const struct rpc_identity *other, struct error *error)
{
    struct node *node = rpc_owner(rpc);

    if (node->transport != NULL && other->role == RPC_ROLE_METAD && other->node_id != 0 &&
        other->cluster_epoch != node->identity.cluster_epoch) {
        return error_set(error, RC_STALE, "epoch %llu of the cluster, this is %llu",
                         (unsigned long long)other->cluster_epoch,
                         (unsigned long long)node->identity.cluster_epoch);
    }
    if (node->transport != NULL && other->role == RPC_ROLE_METAD && other->node_id != 0 &&
        !rpc_transport_accepts(node->transport, other->node_id, other->incarnation)) {
        return error_set(error, RC_STALE, "node %llu runs elsewhere, started later",
                         (unsigned long long)other->node_id);
    }
    if (node->transport != NULL && other->node_id == node->identity.node_id &&
        other->node_id != 0 && other->incarnation > node->incarnation) {
        node_fail(node, RC_STALE, "another process with the identity of node %llu started later",
                  (unsigned long long)other->node_id);
        return error_set(error, RC_STALE, "this node's own identity");
    }
    return RC_OK;
}

static enum rc node_listen(struct node *node, bool member, struct error *error)
{
    struct rpc_options options = {.env = node->env, .owner = node, .judge = node_judge};

    node->security =
        rpc_security_psk(&node->options.key, member ? node->identity.cluster_id : NULL, true);
    options.security = node->security;
    options.identity.role = RPC_ROLE_METAD;
    options.identity.incarnation = node->incarnation;
    (void)snprintf(options.identity.release, RPC_RELEASE_MAX, "%s", KIST_VERSION);
    if (member) {
        memcpy(options.identity.cluster_id, node->identity.cluster_id, RPC_CLUSTER_ID_BYTES);
        options.identity.cluster_epoch = node->identity.cluster_epoch;
        options.identity.node_id = node->identity.node_id;
    }
    node->rpc = rpc_open(&options);
    serve_begin(node);
    return rpc_listen(node->rpc, node->options.listen, error);
}

static void self_describe(struct node *node)
{
    struct node_entry *self = &node->self;

    *self = (struct node_entry){.id = node->identity.node_id,
                                .replica_id = node->identity.replica_id,
                                .incarnation = node->incarnation,
                                .state = NODE_ROW_MEMBER};
    (void)snprintf(self->name, sizeof(self->name), "%s", node->options.name);
    (void)snprintf(self->address, sizeof(self->address), "%s", node->options.advertise);
    (void)snprintf(self->release, sizeof(self->release), "%s", KIST_VERSION);
    memcpy(self->uuid, node->identity.uuid, NODE_UUID_BYTES);
}

/* ---- Member: tells the leader that it runs ---- */

static void hello_done(struct rpc_call *call)
{
    struct node *node = CONTAINER_OF(call, struct node, call);
    enum { HELLO_MS = 1000 };

    node->calling = false;
    node->hello_after_ns = node->env->clock->mono_ns(node->env) + HELLO_MS * NODE_NS_PER_MS;
    if (!call->answered) {
        return;
    }
    if (call->rc == RC_STALE) {
        node_fail(node, RC_STALE, "another process with the identity of node %llu started later",
                  (unsigned long long)node->identity.node_id);
    } else if (call->rc == RC_NOT_FOUND) {
        node_fail(node, RC_NOT_FOUND,
                  "node %llu was removed from the cluster; empty %s to join again as a new one",
                  (unsigned long long)node->identity.node_id, node->options.directory);
    }
}

/* The leader; without one that is known any that can be reached, which may know better. */
static struct node_peer *hello_whom(struct node *node)
{
    struct node_leader leader;

    if (node_leader(node, &leader)) {
        return peers_of(node, leader.node_id);
    }
    for (uint32_t i = 0; i < NODE_PEERS_MAX; i++) {
        struct node_peer *peer = &node->peers[node->seed_next % NODE_PEERS_MAX];

        node->seed_next++;
        if (peer->rpc != NULL && !peer->closing && rpc_peer_up(peer->rpc, RPC_CONTROL)) {
            return peer;
        }
    }
    return NULL;
}

static void hello_tick(struct node *node, uint64_t now_ns)
{
    struct node_peer *peer;

    if (node->calling || now_ns < node->hello_after_ns) {
        return;
    }
    if (node_serving(node)) {
        const struct node_entry *known = node_table_find(&node->table, node->self.id);
        struct node_entry self = node->self;

        self.state = known != NULL ? known->state : NODE_ROW_MEMBER;
        lead_hello(node, &self);
        return;
    }
    peer = hello_whom(node);
    if (peer == NULL || !rpc_peer_up(peer->rpc, RPC_CONTROL)) {
        return;
    }
    node_entry_message(&node->self, &node->self_node);
    kist__cluster_hello__init(&node->hello);
    node->hello.node = &node->self_node;
    node->call = (struct rpc_call){.method = RPC_CLUSTER_HELLO,
                                   .purpose = RPC_CONTROL,
                                   .message = &node->hello.base,
                                   .timeout_ms = NODE_CALL_MS,
                                   .done = hello_done};
    node->calling = true;
    rpc_call(peer->rpc, &node->call);
}

static void member_tick(struct node *node, uint64_t now_ns)
{
    struct node_leader leader;

    if (node_leader(node, &leader)) {
        node->leader_seen_ns = now_ns;
        seeds_close(node);
    } else if (now_ns - node->leader_seen_ns > NODE_ALONE_MS * NODE_NS_PER_MS) {
        seeds_open(node);
    }
    rows_look(node);
    hello_tick(node, now_ns);
    node_clock_tick(node);
    lead_tick(node);
}

static void node_tick(struct env_timer *timer)
{
    struct node *node = CONTAINER_OF(timer, struct node, timer);

    if (node->down_busy) {
        return;
    }
    node->env->clock->timer_start(node->env, &node->timer, NODE_TICK_MS * NODE_NS_PER_MS);
    if (node->state == NODE_MEMBER) {
        member_tick(node, node->env->clock->mono_ns(node->env));
    } else if (node->state == NODE_WAITING) {
        wait_tick(node);
    }
}

/* ---- Member: the replica ---- */

static void member_on_look(void *owner)
{
    struct node *node = owner;

    if (!node->down_busy) {
        node_clock_tick(node);
        lead_tick(node);
    }
}

/* An empty directory joins anew, under another id. */
static void member_wiped(struct node *node)
{
    char path[METAD_PATH_MAX];

    LOG_WARN("node_wipe", "directory=%s replica=%llu", node->options.directory,
             (unsigned long long)node->identity.replica_id);
    (void)snprintf(path, sizeof(path), "%s/node", node->options.directory);
    (void)node->env->file->unlink(node->env, path);
    (void)node->env->file->sync_directory(node->env, node->options.directory);
    (void)snprintf(path, sizeof(path), "%s/meta", node->options.directory);
    machine_remove_directory(node->env, path);
    for (uint32_t i = 0; i < node->table.count; i++) {
        seeds_add(node, node->table.entries[i].address);
    }
    wait_open(node);
}

/* Damaged bytes: others can refill it, as long as they have a leader. */
static void member_on_stopped(void *owner, const struct error *error)
{
    struct node *node = owner;
    struct node_leader leader;
    uint64_t now_ns = node->env->clock->mono_ns(node->env);
    bool led = node_leader(node, &leader) ||
               now_ns - node->leader_seen_ns < NODE_ALONE_MS * NODE_NS_PER_MS;

    (void)snprintf(node->why, sizeof(node->why), "%s", error->text);
    if ((error->rc == RC_CORRUPT || error->rc == RC_STALE) && led && node->table.count > 1) {
        (void)node_down(node, member_wiped);
    } else {
        node_fail(node, error->rc, "its replica stopped: %s", error->text);
    }
}

static void member_opened(struct metad_open *open)
{
    struct node *node = CONTAINER_OF(open, struct node, meta_open);
    struct error error = {.rc = RC_OK};

    node->opening = false;
    if (open->error.rc != RC_OK) {
        node_fail(node, open->error.rc, "%s", open->error.text);
        return;
    }
    node->metad = open->metad;
    if (!node->identity.ready) {
        node->identity.ready = true;
        if (node_identity_write(node->env, node->options.directory, &node->identity, &error) !=
            RC_OK) {
            node_fail(node, error.rc, "%s", error.text);
            return;
        }
    }
    LOG_INFO("node_member", "node=%llu replica=%llu name=%s address=%s",
             (unsigned long long)node->identity.node_id,
             (unsigned long long)node->identity.replica_id, node->options.name,
             node->options.advertise);
    node->rows_stale = true;
    rows_look(node);
    if (node->options.on_member != NULL && !node->down_busy) {
        node->leaving_told = true;
        node->options.on_member(node, node->rpc, node->metad);
    }
}

static void member_start(struct node *node)
{
    const struct node_options *options = &node->options;

    node->cluster = (struct metad_cluster){.transport = node->transport,
                                           .replica_id = node->identity.replica_id,
                                           .create = !node->identity.ready,
                                           .owner = node,
                                           .on_root_change = rows_changed,
                                           .on_look = member_on_look,
                                           .on_stopped = member_on_stopped};
    if (node->identity.founder) {
        node->cluster.bootstrap = node->bootstrap;
        node->cluster.bootstrap_count = node->identity.table.count;
        for (uint32_t i = 0; i < node->identity.table.count; i++) {
            node->bootstrap[i] = (struct replica_peer){
                .replica_id = node->identity.table.entries[i].replica_id, .voter = true};
        }
    }
    node->meta_open = (struct metad_open){.done = member_opened};
    node->meta_open.options =
        (struct metad_options){.env = node->env,
                               .cluster = &node->cluster,
                               .directories = {options->directory},
                               .directory_count = 1,
                               .cache_bytes = options->cache_bytes,
                               .reclaim_grace_ms = options->reclaim_grace_ms,
                               .election_timeout_ms = options->election_timeout_ms};
    node->opening = true;
    metad_open(&node->meta_open);
}

static void member_open(struct node *node)
{
    uint64_t wall_ns = node->env->clock->wall_ns(node->env);
    struct error error = {.rc = RC_OK};
    enum rc rc;

    node->state = NODE_MEMBER;
    node->incarnation = node->identity.incarnation + 1;
    if (node->incarnation < wall_ns) {
        node->incarnation = wall_ns; /* a copied directory: the one started later is newer */
    }
    node->identity.incarnation = node->incarnation;
    rc = node_identity_write(node->env, node->options.directory, &node->identity, &error);
    if (rc == RC_OK) {
        self_describe(node);
        node->table = node->identity.table;
        node->transport = rpc_transport_new(node->env);
        rc = node_listen(node, true, &error);
    }
    if (rc != RC_OK) {
        node_fail(node, rc, "%s", error.text);
        return;
    }
    rpc_transport_serve(node->transport, node->rpc);
    peers_sync(node);
    node->leader_seen_ns = node->env->clock->mono_ns(node->env);
    member_start(node);
    node->env->clock->timer_start(node->env, &node->timer, NODE_TICK_MS * NODE_NS_PER_MS);
}

/* The answer to CLUSTER_FORM leaves before its connection goes. */
static void become_fire(struct env_timer *timer)
{
    struct node *node = CONTAINER_OF(timer, struct node, timer);

    (void)node_down(node, member_open);
}

void node_become_member(struct node *node)
{
    enum { ANSWER_LEAVES_MS = 50 };
    struct error error = {.rc = RC_OK};

    node->state = NODE_JOINING;
    if (node_identity_write(node->env, node->options.directory, &node->identity, &error) != RC_OK) {
        node_fail(node, error.rc, "%s", error.text);
        return;
    }
    node->timer.fire = become_fire;
    node->env->clock->timer_start(node->env, &node->timer, ANSWER_LEAVES_MS * NODE_NS_PER_MS);
}

/* ---- Waiting ---- */

static void wait_open(struct node *node)
{
    struct error error = {.rc = RC_OK};
    uint64_t words[2] = {node->env->random(node->env), node->env->random(node->env)};

    node->state = NODE_WAITING;
    node->identity = (struct node_identity){.ready = false};
    node->table = (struct node_table){.count = 0};
    memcpy(node->identity.uuid, words, NODE_UUID_BYTES);
    node->incarnation = node->env->clock->wall_ns(node->env);
    self_describe(node);
    node->said_ns = 0;
    if (node_listen(node, false, &error) != RC_OK) {
        node_fail(node, error.rc, "%s", error.text);
        return;
    }
    node->env->clock->timer_start(node->env, &node->timer, 0);
}

/* ---- Down ---- */

#define NODE_OF_DOWN(ptr) CONTAINER_OF(ptr, struct node, down)

static void down_resume(struct env_post *post)
{
    struct node *node = CONTAINER_OF(post, struct node, down_post);

    task_resume(&node->down, RC_OK);
}

static void down_done(void *owner)
{
    struct node *node = owner;

    node->down_post.run = down_resume;
    node->env->post(node->env, &node->down_post);
}

static void down_left(struct node *node)
{
    down_done(node);
}

static void down_timer(struct env_timer *timer)
{
    struct node *node = CONTAINER_OF(timer, struct node, timer);

    task_resume(&node->down, RC_OK);
}

static enum step_result down_wait(struct node *node)
{
    node->timer.fire = down_timer;
    node->env->clock->timer_start(node->env, &node->timer, DOWN_POLL_MS * NODE_NS_PER_MS);
    return STEP_AGAIN;
}

static enum step_result down_calls(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);

    if (node->calling) {
        rpc_cancel(&node->call);
        return down_wait(node);
    }
    if (node->rpc != NULL) {
        serve_end(node);
    }
    return STEP_NEXT;
}

static enum step_result down_leave(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);

    if (!node->leaving_told || node->options.on_leaving == NULL) {
        return STEP_NEXT;
    }
    node->leaving_told = false;
    node->options.on_leaving(node, down_left);
    return STEP_WAIT;
}

static enum step_result down_metad(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);
    struct metad *metad = node->metad;

    if (node->rows_busy || node->opening) {
        return down_wait(node);
    }
    if (metad == NULL) {
        return STEP_NEXT;
    }
    node->metad = NULL;
    metad_close(metad, down_done, node);
    return STEP_WAIT;
}

/* What the leader had under way failed with the service; nothing of it is left. */
static enum step_result down_lead(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);

    if (node->lead.busy || node->lead.changing || node->rows_busy ||
        atomic_load(&node->rows_posted)) {
        return down_wait(node);
    }
    return STEP_NEXT;
}

static enum step_result down_peers(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);

    return node->rpc != NULL && !peers_close(node) ? down_wait(node) : STEP_NEXT;
}

static enum step_result down_transport(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);
    struct rpc_transport *transport = node->transport;

    if (transport == NULL) {
        return STEP_NEXT;
    }
    node->transport = NULL;
    rpc_transport_close(transport, down_done, node);
    return STEP_WAIT;
}

static enum step_result down_rpc(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);
    struct rpc *rpc = node->rpc;

    if (rpc == NULL) {
        return STEP_NEXT;
    }
    node->rpc = NULL;
    rpc_close(rpc, down_done);
    return STEP_WAIT;
}

static const struct step down_steps[] = {
    {"calls",     down_calls    },
    {"leave",     down_leave    },
    {"metad",     down_metad    },
    {"lead",      down_lead     },
    {"peers",     down_peers    },
    {"transport", down_transport},
    {"rpc",       down_rpc      },
    {NULL,        NULL          },
};

static void down_end(struct task *task)
{
    struct node *node = NODE_OF_DOWN(task);

    ASSERT(task->error.rc == RC_OK);
    if (node->security != NULL) {
        rpc_security_free(node->security);
        node->security = NULL;
    }
    node->down_busy = false;
    node->timer.fire = node_tick;
    node->after(node);
}

bool node_down(struct node *node, void (*after)(struct node *node))
{
    if (node->stopping || !node->down_busy) {
        node->after = after;
    }
    if (node->down_busy) {
        return false;
    }
    node->down_busy = true;
    node->env->clock->timer_stop(node->env, &node->timer);
    node->down = (struct task){.at = 0};
    task_start(&node->down, down_steps, down_end);
    return true;
}

/* ---- Open, close ---- */

static bool holds_metadata(struct node *node)
{
    char path[METAD_PATH_MAX];
    struct env_stat stat;

    (void)snprintf(path, sizeof(path), "%s/meta", node->options.directory);
    return node->env->file->stat(node->env, path, &stat) == RC_OK;
}

static enum rc node_look(struct node *node, bool *found, struct error *error)
{
    enum rc rc = node_identity_read(node->env, node->options.directory, &node->identity, error);

    *found = rc == RC_OK;
    if (rc == RC_NOT_FOUND) {
        return !holds_metadata(node)
                   ? RC_OK
                   : error_set(error, RC_INVALID,
                               "%s holds metadata, but no identity of a node: it is of kist serve, "
                               "or its file 'node' is lost; empty it to join as a new node",
                               node->options.directory);
    }
    if (rc == RC_OK && node->identity.ready && !holds_metadata(node)) {
        return error_set(error, RC_INVALID,
                         "%s is node %llu, but its metadata is gone: bring it back, or empty the "
                         "directory to join as a new node",
                         node->options.directory, (unsigned long long)node->identity.node_id);
    }
    return rc;
}

enum rc node_open(struct node **out, const struct node_options *options, struct error *error)
{
    struct node *node = mem_alloc(sizeof(*node));
    bool found = false;
    enum rc rc;

    ASSERT(options->on_failed != NULL && options->peer_count <= NODE_PEERS_MAX);
    node->options = *options;
    node->env = options->env;
    node->timer.fire = node_tick;
    node->rows_post.run = rows_post_run;
    arena_init(&node->lead.arena);
    for (uint32_t i = 0; i < options->peer_count; i++) {
        seeds_add(node, options->peers[i]);
    }
    rc = node_look(node, &found, error);
    if (rc != RC_OK) {
        mem_free(node);
        return rc;
    }
    *out = node;
    if (found) {
        member_open(node);
    } else {
        wait_open(node);
    }
    return RC_OK;
}

static void node_free(struct node *node)
{
    void (*done)(void *owner) = node->close_done;
    void *owner = node->options.owner;

    node->env->clock->timer_stop(node->env, &node->timer);
    arena_deinit(&node->lead.arena);
    cluster_key_wipe(&node->options.key);
    mem_free(node);
    done(owner);
}

void node_close(struct node *node, void (*done)(void *owner))
{
    node->stopping = true;
    node->close_done = done;
    node->state = NODE_CLOSING;
    (void)node_down(node, node_free);
}
