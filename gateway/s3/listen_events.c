/*
 * ListenNotification: `GET /bucket?events=s3:ObjectCreated:*&prefix=&suffix=&ping=`, as MinIO's
 * clients ask it (`mc watch`): a reply without an end, one JSON document a line for every event
 * from now on.
 *
 *     refresh -> confirm -> check -> keep -> kept -> stream
 *
 * It is fed from the change feed. A bucket whose feed is off keeps its changes for as long as
 * somebody listens: `keep` raises Feed.until by two hours, at most once an hour. The stream ends
 * after an hour, or when the server stops; clients connect again. Who must not miss anything reads
 * ?changes.
 */
#include "common/client/event_match.h"
#include "gateway/events/event_json.h"
#include "gateway/s3/changes_poll.h"
#include "gateway/s3/handlers.h"

enum {
    LISTEN_HOUR_S = 3600,
    LISTEN_PING_S = 5,      /* a blank, so that a dead client is noticed */
    LISTEN_PING_MAX_S = 60, /* `ping`: MinIO's empty document instead */
    LISTEN_PAGE = 200
};

static const uint64_t NS_PER_S = 1000000000ULL;

struct listen_events {
    struct setting_op setting;
    struct changes_poll poll;
    uint32_t mask;
    struct slice suffix;
    uint64_t ping_ns;
    bool ping_document;
    bool keeping;
    bool begun;
    uint64_t until_ns;
    uint64_t ping_at_ns;
    struct buffer out;
    struct slice sending;
    struct http_write write;
};

static struct listen_events *listen_of(struct task *task)
{
    return CONTAINER_OF(task, struct listen_events, setting.base.task);
}

/* ---- What is asked ---- */

static enum step_result listen_events_asked(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;

    for (uint32_t i = 0; i < req->param_count; i++) {
        uint32_t mask = event_mask(req->params[i].value, false);

        if (!slice_eq(req->params[i].name, SLICE("events"))) {
            continue;
        }
        if (mask == 0) {
            (void)s3_fail(req, S3_InvalidArgument,
                          "A specified event is not supported for notifications.");
            s3_error_detail(req, "ArgumentName", SLICE("events"));
            s3_error_detail(req, "ArgumentValue", req->params[i].value);
            return STEP_FAIL;
        }
        op->mask |= mask;
    }
    return STEP_NEXT;
}

static enum step_result listen_check(struct task *task)
{
    struct listen_events *op = listen_of(task);
    struct s3_request *req = &op->setting.base;
    const Kist__Feed *feed = s3_settings(req->bucket)->feed;
    struct slice ping = s3_param(req, "ping");
    uint64_t now_ns = req->gateway->env->clock->wall_ns(req->gateway->env);
    uint64_t ping_s = LISTEN_PING_S;

    if (listen_events_asked(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (ping.len > 0 && (!slice_to_u64(ping, LISTEN_PING_MAX_S, &ping_s) || ping_s == 0)) {
        return s3_fail(req, S3_InvalidArgument, "ping must be an integer from 1 to 60");
    }
    op->ping_document = ping.len > 0;
    op->ping_ns = ping_s * NS_PER_S;
    op->suffix = s3_param(req, "suffix");
    op->poll.call.prefix = s3_param(req, "prefix");
    op->poll.call.limit = LISTEN_PAGE;
    op->poll.call.latest = true;
    if (feed == NULL || (!feed->enabled && feed->until < now_ns + LISTEN_HOUR_S * NS_PER_S)) {
        Kist__Feed *kept = arena_alloc(req->arena, sizeof(*kept));

        kist__feed__init(kept);
        kept->until = now_ns + NS_PER_S * LISTEN_HOUR_S * 2;
        setting_begin(&op->setting, SETTING_FEED)->feed = kept;
        op->keeping = true;
    }
    return STEP_NEXT;
}

static enum step_result listen_keep(struct task *task)
{
    return listen_of(task)->keeping ? setting_write(task) : STEP_NEXT;
}

static enum step_result listen_kept(struct task *task)
{
    struct listen_events *op = listen_of(task);
    struct s3_request *req = &op->setting.base;

    if (op->keeping && op->setting.call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->setting.call.reply);
    }
    buffer_init(&op->out);
    changes_poll_open(&op->poll, req);
    return STEP_NEXT;
}

/* ---- The stream ---- */

static void listen_written(struct http_write *write)
{
    struct listen_events *op = CONTAINER_OF(write, struct listen_events, write);

    task_resume(&op->setting.base.task, write->rc);
}

/* Sends what was gathered. */
static enum step_result listen_send(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;

    op->ping_at_ns = req->gateway->env->clock->mono_ns(req->gateway->env) + op->ping_ns;
    op->sending = buffer_slice(&op->out);
    op->write.done = listen_written;
    if (!http_reply_write(req->http, &op->write, &op->sending, 1)) {
        return STEP_AGAIN;
    }
    return op->write.rc == RC_OK ? STEP_REPEAT
                                 : task_fail(&req->task, op->write.rc, "the listener is gone");
}

static void listen_gather(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;
    const struct meta_changes *call = &op->poll.call;

    buffer_clear(&op->out);
    for (uint32_t i = 0; i < call->change_count; i++) {
        const Kist__Change *change = call->changes[i].change;

        if ((event_bit(change->kind) & op->mask) != 0 &&
            slice_ends(s3_slice(change->key), op->suffix)) {
            event_json_message(&op->out, req->gateway->config->region, &call->changes[i],
                               SLICE("Config"));
            buffer_append_byte(&op->out, '\n');
        }
    }
}

static void listen_begin(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;
    uint64_t now_ns = req->gateway->env->clock->mono_ns(req->gateway->env);

    op->begun = true;
    op->until_ns = now_ns + LISTEN_HOUR_S * NS_PER_S;
    op->ping_at_ns = now_ns + op->ping_ns;
    s3_reply_header(req, "Content-Type", SLICE("text/event-stream"));
    s3_reply_header(req, "Cache-Control", SLICE("no-cache"));
    s3_reply_begin_open(req, 200);
    /* The head leaves now: clients wait for it. */
    buffer_append_byte(&op->out, ' ');
}

static enum step_result listen_look(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;
    struct changes_poll *poll = &op->poll;

    poll->phase = poll->call.more ? CHANGES_READ : CHANGES_WAIT;
    if (!op->begun) {
        listen_begin(op);
    } else {
        listen_gather(op);
    }
    if (op->out.len > 0) {
        return listen_send(op);
    }
    if (poll->phase == CHANGES_READ) {
        return STEP_REPEAT;
    }
    changes_poll_wait(poll, req);
    return STEP_AGAIN;
}

static enum step_result listen_idle(struct listen_events *op)
{
    struct s3_request *req = &op->setting.base;
    uint64_t now_ns = req->gateway->env->clock->mono_ns(req->gateway->env);

    if (req->gateway->draining || now_ns >= op->until_ns) {
        return s3_reply_streamed(req);
    }
    if (changes_poll_moved(&op->poll, req)) {
        op->poll.phase = CHANGES_READ;
        return STEP_REPEAT;
    }
    if (now_ns >= op->ping_at_ns) {
        buffer_clear(&op->out);
        buffer_append(&op->out, op->ping_document ? SLICE("{\"Records\":null}\n") : SLICE(" "));
        return listen_send(op);
    }
    changes_poll_wait(&op->poll, req);
    return STEP_AGAIN;
}

static enum step_result listen_stream(struct task *task)
{
    struct listen_events *op = listen_of(task);
    enum step_result result;

    switch (op->poll.phase) {
    case CHANGES_READ:
        op->poll.phase = CHANGES_LOOK;
        result = changes_poll_read(&op->poll, &op->setting.base);
        return result == STEP_WAIT ? STEP_AGAIN : result == STEP_NEXT ? STEP_REPEAT : result;
    case CHANGES_LOOK:
        return listen_look(op);
    case CHANGES_WAIT:
    default:
        return listen_idle(op);
    }
}

static void listen_release(struct task *task)
{
    struct listen_events *op = listen_of(task);

    if (op->poll.opened) {
        buffer_deinit(&op->out);
    }
    changes_poll_close(&op->poll);
}

const struct s3_handler listen_events = {
    .state_size = sizeof(struct listen_events),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"check", listen_check},
                {"keep", listen_keep},
                {"kept", listen_kept},
                {"stream", listen_stream},
                },
    .release = listen_release,
};
