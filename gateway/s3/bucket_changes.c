/*
 * GetBucketChanges: `GET /bucket?changes`, the change feed of a bucket. Ours.
 *
 *     refresh -> confirm -> check -> changes (reads, waits up to `wait` seconds) -> reply
 *
 *     cursor=       the sequencer of the last change that was seen, or nextCursor of the answer
 *                   before; none: from the oldest change that is kept; "latest": only the cursor
 *                   behind the newest
 *     max-changes=  1 to 1,000
 *     prefix=       of the key
 *     wait=         0 to 20: answer as soon as something came, at the latest then
 *
 * A cursor behind what is still kept gets 410 CursorExpired: changes are missing, so the bucket
 * must be listed anew. Without that answer a reader has missed nothing.
 */
#include "gateway/events/event_json.h"
#include "gateway/s3/changes_poll.h"
#include "gateway/s3/handlers.h"

enum { CHANGES_WAIT_MAX_S = 20, CHANGES_READS_MAX = 20 };

struct bucket_changes {
    struct setting_op setting;
    struct changes_poll poll;
    uint64_t wait_s;
    uint64_t until_ns;
};

static struct bucket_changes *changes_of(struct task *task)
{
    return CONTAINER_OF(task, struct bucket_changes, setting.base.task);
}

static enum step_result changes_refuse(struct s3_request *req, const char *name, const char *text)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", s3_param(req, name));
    return STEP_FAIL;
}

static bool changes_number(const struct s3_request *req, const char *name, uint64_t min,
                           uint64_t max, uint64_t *value)
{
    struct slice text = s3_param(req, name);

    return text.data == NULL || (slice_to_u64(text, max, value) && *value >= min);
}

static enum step_result changes_cursor(struct bucket_changes *op, const Kist__Feed *feed)
{
    struct s3_request *req = &op->setting.base;
    struct meta_changes *call = &op->poll.call;
    struct slice cursor = s3_param(req, "cursor");

    if (slice_eq(cursor, SLICE("latest"))) {
        call->latest = true;
        return STEP_NEXT;
    }
    if (cursor.len > 0 && !event_sequencer_parse(cursor, &call->after_stamp, &call->after_number)) {
        return changes_refuse(req, "cursor", "The cursor is not one of this feed");
    }
    if (cursor.len == 0) {
        call->after_stamp = feed->since > 0 ? feed->since - 1 : 0;
        call->from_oldest = true;
    } else if (call->after_stamp + 1 < feed->since) {
        return s3_fail(req, S3_CursorExpired, NULL); /* it was off meanwhile */
    }
    return STEP_NEXT;
}

static enum step_result changes_check(struct task *task)
{
    struct bucket_changes *op = changes_of(task);
    struct s3_request *req = &op->setting.base;
    const Kist__Feed *feed = s3_settings(req->bucket)->feed;
    struct env *env = req->gateway->env;
    uint64_t limit = CHANGES_PAGE_MAX;

    if (feed == NULL || !feed->enabled) {
        return s3_fail(req, S3_InvalidBucketState,
                       "The change feed of this bucket is not enabled; PUT ?feed enables it.");
    }
    if (!changes_number(req, "max-changes", 1, CHANGES_PAGE_MAX, &limit)) {
        return changes_refuse(req, "max-changes", "max-changes must be an integer from 1 to 1000");
    }
    if (!changes_number(req, "wait", 0, CHANGES_WAIT_MAX_S, &op->wait_s)) {
        return changes_refuse(req, "wait", "wait must be an integer from 0 to 20");
    }
    if (changes_cursor(op, feed) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->poll.call.limit = (uint32_t)limit;
    op->poll.call.prefix = s3_param(req, "prefix");
    op->until_ns = env->clock->mono_ns(env) + op->wait_s * 1000000000ULL;
    changes_poll_open(&op->poll, req);
    return STEP_NEXT;
}

/* Is what was read what will be answered? */
static bool changes_enough(const struct bucket_changes *op)
{
    const struct s3_request *req = &op->setting.base;
    const struct meta_changes *call = &op->poll.call;
    struct env *env = req->gateway->env;

    return call->change_count > 0 || call->lost || call->latest || req->gateway->draining ||
           (call->more && op->poll.reads >= CHANGES_READS_MAX) ||
           (!call->more && env->clock->mono_ns(env) >= op->until_ns);
}

static enum step_result changes_loop(struct task *task)
{
    struct bucket_changes *op = changes_of(task);
    struct s3_request *req = &op->setting.base;
    struct changes_poll *poll = &op->poll;
    enum step_result result;

    switch (poll->phase) {
    case CHANGES_READ:
        poll->phase = CHANGES_LOOK;
        result = changes_poll_read(poll, req);
        return result == STEP_WAIT ? STEP_AGAIN : result == STEP_NEXT ? STEP_REPEAT : result;
    case CHANGES_LOOK:
        if (changes_enough(op)) {
            return STEP_NEXT;
        }
        if (poll->call.more) {
            poll->phase = CHANGES_READ;
            return STEP_REPEAT;
        }
        poll->phase = CHANGES_WAIT;
        changes_poll_wait(poll, req);
        return STEP_AGAIN;
    case CHANGES_WAIT:
    default:
        poll->phase = changes_poll_moved(poll, req) ? CHANGES_READ : CHANGES_LOOK;
        return STEP_REPEAT;
    }
}

static enum step_result changes_reply(struct task *task)
{
    struct bucket_changes *op = changes_of(task);
    struct s3_request *req = &op->setting.base;
    const struct meta_changes *call = &op->poll.call;
    uint64_t since = s3_settings(req->bucket)->feed->since;
    char cursor[EVENT_SEQUENCER_BYTES + 1];

    if (call->lost) {
        return s3_fail(req, S3_CursorExpired, NULL);
    }
    /* Changes of the time before belong to nobody who reads this feed. */
    event_sequencer(call->next_stamp < since ? since : call->next_stamp,
                    call->next_stamp < since ? 0 : call->next_number, cursor);
    buffer_clear(&req->xml);
    buffer_append(&req->xml, SLICE("{\"bucket\":"));
    json_string_append(&req->xml, req->bucket_name);
    buffer_append(&req->xml, SLICE(",\"changes\":["));
    for (uint32_t i = 0; i < call->change_count; i++) {
        buffer_append(&req->xml, i > 0 ? SLICE(",\n") : SLICE("\n"));
        event_json_change(&req->xml, &call->changes[i]);
    }
    buffer_printf(&req->xml, "],\"more\":%s,\"nextCursor\":\"%s\"}\n",
                  call->more ? "true" : "false", cursor);
    s3_reply_header(req, "Content-Type", SLICE("application/json"));
    req->status = 200;
    req->body = buffer_slice(&req->xml);
    return STEP_DONE;
}

static void changes_release(struct task *task)
{
    changes_poll_close(&changes_of(task)->poll);
}

const struct s3_handler get_bucket_changes = {
    .state_size = sizeof(struct bucket_changes),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"check", changes_check},
                {"changes", changes_loop},
                {"reply", changes_reply},
                },
    .release = changes_release,
};
