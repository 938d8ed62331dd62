/*
 * One call, over as many attempts as it takes.
 *
 *     ask the leader, or the next node ---- answer ---------------------------------> finish
 *          ^   ^   |  not the leader: another is named       ask that one at once
 *          |   |   |  nothing came, or nobody is named       ask the next one
 *          |   '---'
 *          '- pause - all were asked
 *
 * What must not happen: that a write is done twice, or told to have failed when it may be done. An
 * attempt that may have been taken makes the write ambiguous; from then on only an answer ends it
 * before its deadline, because the same request id gets the first answer.
 */
#include "common/base/assert.h"
#include "common/meta_rpc/remote_private.h"

#include <stdio.h>

static void op_ask(struct remote_op *op);

/* ---- The end ---- */

static void op_finish(struct remote_op *op, enum rc rc)
{
    struct meta_remote *remote = op->remote;

    list_remove(&op->link);
    remote->env->clock->timer_stop(remote->env, &op->timer);
    op->pausing = false;
    op->finish(op, rc != RC_OK && op->ambiguous ? RC_AMBIGUOUS : rc);
    remote_close_go_on(remote);
}

/* ---- Who leads ---- */

static void leader_lost(struct meta_remote *remote, const struct remote_op *op)
{
    if (remote->leader == (int)op->node) {
        remote->leader = -1;
    }
}

/* It answered as leader: whoever pauses may go on. */
static void leader_found(struct meta_remote *remote, uint32_t node)
{
    bool wake = remote->leader < 0 || !remote->leader_sure;

    remote->leader = (int)node;
    remote->leader_sure = true;
    if (!wake) {
        return;
    }
    for (struct list *at = remote->ops.next; at != &remote->ops; at = at->next) {
        struct remote_op *op = CONTAINER_OF(at, struct remote_op, link);

        if (op->pausing) {
            remote->env->clock->timer_start(remote->env, &op->timer, 0);
        }
    }
}

/* ---- The next attempt ---- */

static void op_pause_over(struct env_timer *timer)
{
    struct remote_op *op = CONTAINER_OF(timer, struct remote_op, timer);

    op->pausing = false;
    op_ask(op);
}

static void op_pause(struct remote_op *op)
{
    struct env *env = op->remote->env;
    uint64_t ms = REMOTE_PAUSE_MIN_MS;

    for (uint32_t i = 0; i < op->pauses && ms < REMOTE_PAUSE_MAX_MS; i++) {
        ms *= 2;
    }
    ms = ms < REMOTE_PAUSE_MAX_MS ? ms : REMOTE_PAUSE_MAX_MS;
    ms = ms / 2 + env->random(env) % (ms / 2 + 1);
    op->pauses += 1;
    op->tried = 0;
    op->hops = 0;
    op->pausing = true;
    op->timer.fire = op_pause_over;
    env->clock->timer_start(env, &op->timer, ms * REMOTE_NS_PER_MS);
}

/* At once while there is somebody who was not asked in this round. */
static void op_ask_next(struct remote_op *op)
{
    if (op->tried < op->remote->node_count) {
        op_ask(op);
    } else {
        op_pause(op);
    }
}

/* ---- What came back ---- */

static void op_redirected(struct remote_op *op)
{
    struct meta_remote *remote = op->remote;
    Kist__MetaRefusal *refusal = kist__meta_refusal__unpack(
        NULL, op->call.reply_head.len, (const uint8_t *)op->call.reply_head.data);
    int node = -1;

    if (refusal != NULL && refusal->leader_address[0] != '\0' && op->hops < REMOTE_HOPS_MAX) {
        node = remote_node_named(remote, refusal->leader_node, refusal->leader_address);
    }
    if (refusal != NULL) {
        kist__meta_refusal__free_unpacked(refusal, NULL);
    }
    leader_lost(remote, op);
    if (node < 0 || node == (int)op->node) {
        op_ask_next(op);
        return;
    }
    if (remote_now(remote) < remote->nodes[node].shunned_until_ns) {
        op_ask_next(op); /* followers name a leader that has died until there is another */
        return;
    }
    remote->stats.redirects += 1;
    op->hops += 1;
    remote->leader = node;
    remote->leader_sure = false;
    op_ask(op);
}

static void op_keep_text(struct remote_op *op)
{
    Kist__MetaRefusal *refusal = kist__meta_refusal__unpack(
        NULL, op->call.reply_head.len, (const uint8_t *)op->call.reply_head.data);

    op->text[0] = '\0';
    if (refusal != NULL) {
        (void)snprintf(op->text, sizeof(op->text), "%s", refusal->text);
        kist__meta_refusal__free_unpacked(refusal, NULL);
    }
}

static void op_succeeded(struct remote_op *op)
{
    struct meta_remote *remote = op->remote;
    enum rc rc;

    remote->leader_seen_ns = remote_now(remote);
    leader_found(remote, op->node);
    op->text[0] = '\0';
    rc = op->decode(op, op->call.reply_head, op->call.reply_body);
    op->ambiguous = op->write && rc != RC_OK; /* it is done, but with which outcome? */
    op_finish(op, rc);
}

/* The service's own answer, not RC_OK. */
static void op_refused(struct remote_op *op)
{
    switch ((int)op->call.rc) {
    case RC_NOT_LEADER:
        op_redirected(op);
        return;
    case RC_AMBIGUOUS: /* it lost leadership with the write under way */
        op->ambiguous = op->write;
        leader_lost(op->remote, op);
        op_pause(op);
        return;
    case RC_CANCELLED:
    case RC_CLOSED:
    case RC_TIMEOUT:
    case RC_UNSUPPORTED:
        op_ask_next(op);
        return;
    case RC_NO_QUORUM:
        leader_lost(op->remote, op);
        op->refusals += 1;
        if (op->refusals < op->remote->node_count || op->ambiguous) {
            op_ask_next(op);
            return;
        }
        break;
    default:
        break;
    }
    if (op->ambiguous) {
        op_pause(op);
        return;
    }
    op_keep_text(op);
    op_finish(op, op->call.rc);
}

/* No answer of the service. */
static void op_failed(struct remote_op *op)
{
    op->ambiguous = op->ambiguous || (op->write && op->call.taken);
    switch ((int)op->call.rc) {
    case RC_BUSY: /* too much is under way: no use in more */
        if (op->ambiguous) {
            op_pause(op);
        } else {
            op_finish(op, RC_BUSY);
        }
        return;
    case RC_TIMEOUT:
        op->attempt_ms *= op->attempt_ms < REMOTE_WRITE_MS ? 2 : 1;
        break;
    case RC_CORRUPT:
    case RC_AMBIGUOUS:
        op->ambiguous = op->write;
        break;
    default:
        break;
    }
    leader_lost(op->remote, op);
    op->remote->nodes[op->node].shunned_until_ns =
        remote_now(op->remote) + REMOTE_SHUN_MS * REMOTE_NS_PER_MS;
    op_ask_next(op);
}

static void op_done(struct rpc_call *call)
{
    struct remote_op *op = CONTAINER_OF(call, struct remote_op, call);

    if (op->remote->closing) {
        op->ambiguous = op->ambiguous || (op->write && call->taken);
        op_finish(op, RC_CANCELLED);
    } else if (call->answered && call->rc == RC_OK) {
        op_succeeded(op);
    } else if (call->answered) {
        op_refused(op);
    } else {
        op_failed(op);
    }
}

/* ---- Asking ---- */

/* The leader, or the next one that was not just found silent. */
static uint32_t op_choose(struct meta_remote *remote, uint64_t now_ns)
{
    if (remote->leader >= 0) {
        return (uint32_t)remote->leader;
    }
    for (uint32_t i = 0; i < remote->node_count; i++) {
        remote->next = (remote->next + 1) % remote->node_count;
        if (now_ns >= remote->nodes[remote->next].shunned_until_ns) {
            break;
        }
    }
    return remote->next;
}

static void op_ask(struct remote_op *op)
{
    struct meta_remote *remote = op->remote;
    uint64_t now_ns = remote_now(remote);
    uint64_t left_ms;

    if (now_ns + REMOTE_NS_PER_MS > op->deadline_ns) {
        op_finish(op, RC_NO_QUORUM);
        return;
    }
    left_ms = (op->deadline_ns - now_ns) / REMOTE_NS_PER_MS;
    left_ms = left_ms < UINT32_MAX ? left_ms : UINT32_MAX;
    op->node = op_choose(remote, now_ns);
    op->tried += 1;
    op->attempts += 1;
    remote->stats.attempts += 1;
    remote->stats.repeats += op->attempts > 1 ? 1 : 0;
    if (op->prepare != NULL) {
        op->prepare(op, (uint32_t)left_ms);
    }
    op->call.timeout_ms = op->attempt_ms < left_ms ? op->attempt_ms : (uint32_t)left_ms;
    op->call.done = op_done;
    rpc_call(remote->nodes[op->node].peer, &op->call);
}

static void op_refuse_closed(struct env_timer *timer)
{
    op_finish(CONTAINER_OF(timer, struct remote_op, timer), RC_CANCELLED);
}

void remote_op_start(struct meta_remote *remote, struct remote_op *op)
{
    op->remote = remote;
    op->attempts = 0;
    op->tried = 0;
    op->pauses = 0;
    op->hops = 0;
    op->refusals = 0;
    op->ambiguous = false;
    op->pausing = false;
    op->text[0] = '\0';
    list_push_back(&remote->ops, &op->link);
    if (remote->closing) {
        op->timer.fire = op_refuse_closed;
        remote->env->clock->timer_start(remote->env, &op->timer, 0);
        return;
    }
    op_ask(op);
}

void remote_op_cancel_all(struct meta_remote *remote)
{
    struct list *at = remote->ops.next;

    for (; at != &remote->ops; at = at->next) {
        struct remote_op *op = CONTAINER_OF(at, struct remote_op, link);

        if (!op->pausing) {
            rpc_cancel(&op->call);
        }
    }
    at = remote->ops.next;
    while (at != &remote->ops) {
        struct remote_op *op = CONTAINER_OF(at, struct remote_op, link);

        at = at->next;
        if (op->pausing) {
            op_finish(op, RC_CANCELLED);
            at = remote->ops.next; /* its owner may have done anything */
        }
    }
}
