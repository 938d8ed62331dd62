/*
 * Views, the change stamp, and whether somebody leads: one long poll at the leader, again and
 * again, and a round of its own for refreshes.
 *
 *     watch:   known version, stamp -> (waits there) -> what is new -> again
 *     refresh: all that were asked before a round begins share it -> a view begun after that
 *
 * A large view comes in parts; when it is replaced meanwhile the parts begin again.
 */
#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/meta_rpc/remote_private.h"
#include "common/meta_rpc/view_wire.h"

enum {
    WATCH_AGAIN_MS = 100,          /* after one that failed */
    WATCH_REST_MS = 5,             /* after a view: others change too */
    WATCH_BYTES_PER_MS = 64 * 1024 /* and the longer the larger it was */
};

struct remote_refresh {
    struct list link;
    struct task *task;
};

static_assert(sizeof(struct remote_refresh) <= sizeof(((struct meta_refresh *)NULL)->reserved),
              "the private part of the call holds it");

static void watch_start(struct meta_remote *remote);
static void fresh_start(struct meta_remote *remote);

/* ---- A round ---- */

static enum rc round_take(struct remote_round *round, const Kist__MetaViewReply *reply,
                          struct slice body)
{
    struct meta_remote *remote = round->op.remote;

    remote->change_stamp = reply->change_stamp;
    remote->leader_wall_ns = reply->wall_ns;
    remote->leader_wall_at_ns = remote_now(remote);
    round->more = false;
    round->news = !round->head.has_known || reply->version > round->head.known_version;
    if (!round->news) {
        return RC_OK;
    }
    if (reply->offset == 0) {
        buffer_clear(&round->bytes);
        round->version = reply->version;
        round->total = reply->total;
    }
    if (reply->version != round->version || reply->total != round->total ||
        reply->offset != round->bytes.len || reply->total > WIRE_VIEW_BYTES ||
        body.len > round->total - round->bytes.len) {
        return RC_CORRUPT;
    }
    buffer_append(&round->bytes, body);
    round->more = round->bytes.len < round->total;
    return round->more && body.len == 0 ? RC_CORRUPT : RC_OK;
}

static enum rc round_decode(struct remote_op *op, struct slice head, struct slice body)
{
    struct remote_round *round = CONTAINER_OF(op, struct remote_round, op);
    Kist__MetaViewReply *reply =
        kist__meta_view_reply__unpack(NULL, head.len, (const uint8_t *)head.data);
    enum rc rc = RC_CORRUPT;

    if (reply != NULL) {
        rc = round_take(round, reply, body);
        kist__meta_view_reply__free_unpacked(reply, NULL);
    }
    return rc;
}

static void round_ask(struct remote_round *round, struct meta_remote *remote, uint32_t wait_ms)
{
    round->op.decode = round_decode;
    round->op.attempt_ms = REMOTE_ATTEMPT_MS + wait_ms;
    round->op.deadline_ns = remote_now(remote) + (REMOTE_READ_MS + wait_ms) * REMOTE_NS_PER_MS;
    round->op.call = (struct rpc_call){
        .method = RPC_META_VIEW, .purpose = RPC_BULK, .message = &round->head.base};
    remote_op_start(remote, &round->op);
}

static void round_begin(struct remote_round *round, struct meta_remote *remote, bool fresh,
                        uint32_t wait_ms)
{
    round->head = (Kist__MetaView)KIST__META_VIEW__INIT;
    round->head.has_known = remote->view != NULL;
    round->head.known_version = remote->view != NULL ? view_version(remote->view) : 0;
    round->head.change_stamp = remote->change_stamp;
    round->head.wait_ms = wait_ms;
    round->head.fresh = fresh;
    round->running = true;
    buffer_clear(&round->bytes);
    round_ask(round, remote, wait_ms);
}

/* The parts that are missing are under way: the round goes on. */
static bool round_goes_on(struct remote_round *round, enum rc rc)
{
    if (rc != RC_OK || !round->more || round->op.remote->closing) {
        return false;
    }
    round->head.fresh = false;
    round->head.wait_ms = 0;
    round->head.want_version = round->version;
    round->head.offset = round->bytes.len;
    round_ask(round, round->op.remote, 0);
    return true;
}

static enum rc round_publish(struct remote_round *round)
{
    struct meta_remote *remote = round->op.remote;
    bool first = remote->view == NULL;
    struct error error = {.rc = RC_OK};
    struct view *view;

    if (!round->news) {
        return RC_OK;
    }
    view = view_wire_unpack(buffer_slice(&round->bytes), round->version, &error);
    if (view == NULL) {
        LOG_ERROR("view_received_damaged", "error=\"%s\"", error.text);
        return error.rc;
    }
    remote->stats.views += 1;
    if (first || view_version(view) >= view_version(remote->view)) {
        struct view *old = remote->view;

        remote->view = view;
        view = old;
    }
    view_unref(view);
    if (first && remote->on_open != NULL) {
        remote->on_open(remote, remote->owner);
    }
    return RC_OK;
}

/* ---- Watching ---- */

static void watch_again(struct env_timer *timer)
{
    watch_start(CONTAINER_OF(timer, struct meta_remote, watch_timer));
}

static void watch_finish(struct remote_op *op, enum rc rc)
{
    struct remote_round *round = CONTAINER_OF(op, struct remote_round, op);
    struct meta_remote *remote = op->remote;
    uint64_t rest_ms = WATCH_AGAIN_MS;

    if (round_goes_on(round, rc)) {
        return;
    }
    round->running = false;
    if (rc == RC_OK) {
        rc = round_publish(round);
    }
    if (remote->closing) {
        return;
    }
    if (rc == RC_OK) {
        rest_ms = round->news ? WATCH_REST_MS + round->bytes.len / WATCH_BYTES_PER_MS : 0;
    }
    remote->env->clock->timer_start(remote->env, &remote->watch_timer, rest_ms * REMOTE_NS_PER_MS);
}

static void watch_start(struct meta_remote *remote)
{
    remote->watch.op.finish = watch_finish;
    round_begin(&remote->watch, remote, false, REMOTE_WATCH_MS);
}

/* ---- Refreshes ---- */

static void refresh_answer(struct meta_remote *remote, const struct remote_op *op, enum rc rc)
{
    while (!list_empty(&remote->refreshing)) {
        struct remote_refresh *refresh =
            CONTAINER_OF(list_pop_front(&remote->refreshing), struct remote_refresh, link);
        struct task *task = refresh->task;

        if (rc != RC_OK && op->text[0] != '\0') {
            (void)error_set(&task->error, rc, "%s", op->text);
        }
        task_resume(task, rc);
    }
}

static void fresh_finish(struct remote_op *op, enum rc rc)
{
    struct remote_round *round = CONTAINER_OF(op, struct remote_round, op);
    struct meta_remote *remote = op->remote;

    if (round_goes_on(round, rc)) {
        return;
    }
    rc = rc == RC_OK ? round_publish(round) : rc;
    refresh_answer(remote, op, rc);
    round->running = false; /* those asked meanwhile are for the next round */
    if (!list_empty(&remote->refreshes)) {
        fresh_start(remote);
    }
}

static void fresh_start(struct meta_remote *remote)
{
    while (!list_empty(&remote->refreshes)) {
        list_push_back(&remote->refreshing, list_pop_front(&remote->refreshes));
    }
    remote->fresh.op.finish = fresh_finish;
    round_begin(&remote->fresh, remote, true, 0);
}

enum step_result remote_refresh(struct meta_client *meta, struct meta_refresh *call,
                                struct task *task)
{
    struct meta_remote *remote = remote_of(meta);
    struct remote_refresh *refresh = (struct remote_refresh *)(void *)call->reserved;

    refresh->task = task;
    list_push_back(&remote->refreshes, &refresh->link);
    if (!remote->fresh.running) {
        fresh_start(remote);
    }
    return STEP_WAIT;
}

/* ---- What the caller sees ---- */

struct view *remote_view(struct meta_client *meta)
{
    return remote_of(meta)->view;
}

uint64_t remote_change_stamp(struct meta_client *meta)
{
    return remote_of(meta)->change_stamp;
}

bool remote_ready(struct meta_client *meta)
{
    const struct meta_remote *remote = remote_of(meta);

    return remote->leader >= 0 && remote->leader_sure &&
           remote_now(remote) - remote->leader_seen_ns < REMOTE_READY_MS * REMOTE_NS_PER_MS;
}

/* ---- Life ---- */

void remote_view_open(struct meta_remote *remote)
{
    buffer_init(&remote->watch.bytes);
    buffer_init(&remote->fresh.bytes);
    remote->watch_timer.fire = watch_again;
    watch_start(remote);
}

void remote_view_close(struct meta_remote *remote)
{
    remote->env->clock->timer_stop(remote->env, &remote->watch_timer);
}

void remote_view_free(struct meta_remote *remote)
{
    ASSERT(list_empty(&remote->refreshing) && list_empty(&remote->refreshes));
    buffer_deinit(&remote->watch.bytes);
    buffer_deinit(&remote->fresh.bytes);
    view_unref(remote->view);
}
