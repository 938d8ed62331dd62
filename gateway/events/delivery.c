/*
 * Rounds of one sink:
 *
 *     read -> send -> note -> save          then: at once (more), after a tick (nothing), later and
 *                                           later (it failed)
 *
 * The cursor's row is written once a second, or every 256 events, and at the end: a crash repeats
 * at most what came since.
 */
#include "gateway/events/delivery.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "gateway/events/event_json.h"

enum {
    DELIVERY_TICK_MS = 50,
    DELIVERY_RETRY_MS = 500,
    DELIVERY_RETRY_MAX_MS = 30000,
    DELIVERY_SAVE_EVENTS = 256,
    DELIVERY_SAVE_MS = 1000,
    DELIVERY_WRITE_MS = 10000
};

static const uint64_t NS_PER_MS = 1000000ULL;

static struct delivery *delivery_of(struct task *task)
{
    return CONTAINER_OF(task, struct delivery, task);
}

static uint64_t mono_ns(const struct delivery *delivery)
{
    return delivery->env->clock->mono_ns(delivery->env);
}

/* ---- read ---- */

static enum step_result delivery_read(struct task *task)
{
    struct delivery *delivery = delivery_of(task);
    struct meta_client *meta = delivery->meta;

    if (delivery->stopping) {
        return STEP_NEXT;
    }
    if (!meta->ready(meta)) {
        return task_fail(task, RC_NO_QUORUM, "the metadata takes no writes");
    }
    delivery->seen = meta->change_stamp(meta);
    delivery->call = (struct meta_changes){.after_stamp = delivery->stamp,
                                           .after_number = delivery->number,
                                           .resume = !delivery->positioned,
                                           .sink = delivery->name,
                                           .limit = SINK_BATCH_MAX,
                                           .arena = &delivery->arena};
    return meta->changes(meta, &delivery->call, task);
}

/* ---- send ---- */

static struct slice configuration_of(const struct delivery *delivery, const Kist__Change *change)
{
    for (size_t i = 0; i < change->n_targets; i++) {
        const Kist__ChangeTarget *target = change->targets[i];

        if (slice_eq(slice_of(target->sink.data, target->sink.len), delivery->name)) {
            return slice_of(target->id.data, target->id.len);
        }
    }
    return SLICE_EMPTY;
}

static struct slice key_of(struct delivery *delivery, const Kist__Change *change)
{
    size_t len = change->bucket_name.len + 1 + change->key.len;
    char *key = arena_alloc_raw(&delivery->arena, len);

    memcpy(key, change->bucket_name.data, change->bucket_name.len);
    key[change->bucket_name.len] = '/';
    if (change->key.len > 0) {
        memcpy(key + change->bucket_name.len + 1, change->key.data, change->key.len);
    }
    return slice_of(key, len);
}

static void delivery_sent(struct sink_batch *batch)
{
    struct delivery *delivery = CONTAINER_OF(batch, struct delivery, batch);

    task_resume(&delivery->task, RC_OK);
}

static void note_lost(struct delivery *delivery)
{
    uint64_t lost = delivery->call.sink_lost;

    if (lost > delivery->status.lost) {
        LOG_ERROR("notifications_lost",
                  "sink=%.*s lost=%llu reason=\"the change feed outgrew --feed-size or --feed-age "
                  "before they were delivered\"",
                  (int)delivery->name.len, delivery->name.data,
                  (unsigned long long)(lost - delivery->status.lost));
    }
    delivery->status.lost = lost;
}

static enum step_result delivery_send(struct task *task)
{
    struct delivery *delivery = delivery_of(task);
    const struct meta_changes *call = &delivery->call;

    delivery->batch.count = 0;
    delivery->batch.delivered = 0;
    if (delivery->stopping) {
        return STEP_NEXT;
    }
    note_lost(delivery);
    if (call->change_count == 0) {
        return STEP_NEXT;
    }
    for (uint32_t i = 0; i < call->change_count; i++) {
        const struct meta_change *change = &call->changes[i];
        struct buffer *body = &delivery->bodies[i];

        buffer_clear(body);
        event_json_message(body, delivery->region, change,
                           configuration_of(delivery, change->change));
        delivery->messages[i] = (struct sink_message){.key = key_of(delivery, change->change),
                                                      .body = buffer_slice(body)};
    }
    delivery->waits_since = call->changes[0].stamp;
    delivery->batch = (struct sink_batch){
        .messages = delivery->messages, .count = call->change_count, .done = delivery_sent};
    delivery->sink->ops->send(delivery->sink, &delivery->batch);
    return STEP_WAIT;
}

/* ---- note ---- */

static void note_failure(struct delivery *delivery, const char *text)
{
    delivery->status.failures += 1;
    if (delivery->failed_rounds == 0) {
        LOG_WARN("notification_target_fails", "sink=%.*s error=\"%s\"", (int)delivery->name.len,
                 delivery->name.data, text);
    }
    /* One that takes some of each batch is slow, not dead. */
    delivery->failed_rounds = delivery->batch.delivered > 0 ? 1 : delivery->failed_rounds + 1;
    (void)snprintf(delivery->status.error, sizeof(delivery->status.error), "%s", text);
}

static void note_success(struct delivery *delivery)
{
    if (delivery->failed_rounds > 0) {
        LOG_INFO("notification_target_works", "sink=%.*s", (int)delivery->name.len,
                 delivery->name.data);
    }
    delivery->failed_rounds = 0;
    delivery->status.error[0] = '\0';
}

static enum step_result delivery_note(struct task *task)
{
    struct delivery *delivery = delivery_of(task);
    const struct meta_changes *call = &delivery->call;
    const struct sink_batch *batch = &delivery->batch;

    if (delivery->stopping && batch->count == 0) {
        return STEP_NEXT;
    }
    delivery->status.delivered += batch->delivered;
    delivery->unsaved += batch->delivered;
    if (batch->delivered == batch->count) {
        delivery->stamp = call->next_stamp;
        delivery->number = call->next_number;
        delivery->waits_since = 0;
        note_success(delivery);
    } else {
        if (batch->delivered > 0) {
            delivery->stamp = call->changes[batch->delivered - 1].stamp;
            delivery->number = call->changes[batch->delivered - 1].number;
        } else if (!delivery->positioned) {
            return STEP_NEXT; /* the row is asked again */
        }
        delivery->waits_since = call->changes[batch->delivered].stamp;
    }
    delivery->positioned = true;
    return STEP_NEXT;
}

/* ---- save ---- */

static enum step_result delivery_save(struct task *task)
{
    struct delivery *delivery = delivery_of(task);
    bool due = mono_ns(delivery) - delivery->saved_ns >= DELIVERY_SAVE_MS * NS_PER_MS;

    if (delivery->unsaved == 0 ||
        (!due && !delivery->stopping && delivery->unsaved < DELIVERY_SAVE_EVENTS)) {
        return STEP_DONE;
    }
    kist__put_cursor__init(&delivery->message);
    delivery->message.sink.data = (uint8_t *)(uintptr_t)delivery->name.data;
    delivery->message.sink.len = delivery->name.len;
    delivery->message.stamp = delivery->stamp;
    delivery->message.number = delivery->number;
    delivery->message.delivered = delivery->unsaved;
    delivery->write = (struct meta_write){.command = META_PUT_CURSOR,
                                          .message = &delivery->message.base,
                                          .deadline_ms = DELIVERY_WRITE_MS,
                                          .arena = &delivery->arena};
    return delivery->meta->write(delivery->meta, &delivery->write, task);
}

static enum step_result delivery_saved(struct task *task)
{
    struct delivery *delivery = delivery_of(task);

    if (delivery->write.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return task_fail(task, RC_INVALID, "the cursor was refused (%d)",
                         (int)delivery->write.reply->outcome);
    }
    delivery->unsaved = 0;
    delivery->saved_ns = mono_ns(delivery);
    return STEP_NEXT;
}

static const struct step delivery_steps[] = {
    {"read",  delivery_read },
    {"send",  delivery_send },
    {"note",  delivery_note },
    {"save",  delivery_save },
    {"saved", delivery_saved},
    {NULL,    NULL          }
};

/* ---- Rounds ---- */

static void round_start(struct delivery *delivery);

static void sink_closed(void *owner)
{
    struct delivery *delivery = owner;

    arena_deinit(&delivery->arena);
    for (uint32_t i = 0; i < SINK_BATCH_MAX; i++) {
        buffer_deinit(&delivery->bodies[i]);
    }
    delivery->stopped(delivery->owner);
}

static void delivery_end(struct delivery *delivery)
{
    delivery->sink->ops->close(delivery->sink, sink_closed, delivery);
}

static uint64_t retry_ms(const struct delivery *delivery)
{
    uint32_t doublings = delivery->failed_rounds > 7 ? 6 : delivery->failed_rounds - 1;
    uint64_t wait_ms = (uint64_t)DELIVERY_RETRY_MS << doublings;

    ASSERT(delivery->failed_rounds > 0);
    return wait_ms < DELIVERY_RETRY_MAX_MS ? wait_ms : DELIVERY_RETRY_MAX_MS;
}

static void round_done(struct task *task)
{
    struct delivery *delivery = delivery_of(task);
    bool whole = delivery->batch.delivered == delivery->batch.count;
    bool progress = task->error.rc == RC_OK && whole;
    uint64_t wait_ms = progress && delivery->call.more ? 0 : DELIVERY_TICK_MS;

    delivery->running = false;
    if (delivery->stopping) {
        /* One more, for the cursor; when that fails, what it covers is delivered again. */
        if (delivery->unsaved > 0 && delivery->write.reply == NULL && task->error.rc == RC_OK) {
            round_start(delivery);
        } else {
            delivery_end(delivery);
        }
        return;
    }
    if (!whole) {
        note_failure(delivery, delivery->batch.error.text);
        wait_ms = retry_ms(delivery);
    } else if (task->error.rc != RC_OK) {
        LOG_DEBUG("notifications_later", "sink=%.*s step=%s error=\"%s\"", (int)delivery->name.len,
                  delivery->name.data, task_step_name(task), task->error.text);
        wait_ms = DELIVERY_RETRY_MS;
    }
    arena_reset(&delivery->arena);
    delivery->env->clock->timer_start(delivery->env, &delivery->timer, wait_ms * NS_PER_MS);
}

static void round_start(struct delivery *delivery)
{
    delivery->running = true;
    delivery->batch.count = 0;
    delivery->batch.delivered = 0;
    delivery->write.reply = NULL;
    task_start(&delivery->task, delivery_steps, round_done);
}

/* Is there anything to do? */
static bool round_due(const struct delivery *delivery)
{
    uint64_t idle_ns = mono_ns(delivery) - delivery->saved_ns;

    return !delivery->positioned || delivery->failed_rounds > 0 || delivery->call.more ||
           delivery->task.error.rc != RC_OK ||
           delivery->meta->change_stamp(delivery->meta) != delivery->seen ||
           (delivery->unsaved > 0 && idle_ns >= DELIVERY_SAVE_MS * NS_PER_MS);
}

static void delivery_tick(struct env_timer *timer)
{
    struct delivery *delivery = CONTAINER_OF(timer, struct delivery, timer);

    if (round_due(delivery)) {
        round_start(delivery);
        return;
    }
    delivery->env->clock->timer_start(delivery->env, &delivery->timer,
                                      DELIVERY_TICK_MS * NS_PER_MS);
}

void delivery_open(struct delivery *delivery)
{
    ASSERT(delivery->sink != NULL && delivery->name.len > 0);
    arena_init(&delivery->arena);
    for (uint32_t i = 0; i < SINK_BATCH_MAX; i++) {
        buffer_init(&delivery->bodies[i]);
    }
    delivery->status.name = delivery->name;
    delivery->timer.fire = delivery_tick;
    delivery->env->clock->timer_start(delivery->env, &delivery->timer, 0);
}

void delivery_close(struct delivery *delivery, void (*stopped)(void *owner), void *owner)
{
    delivery->stopping = true;
    delivery->stopped = stopped;
    delivery->owner = owner;
    delivery->env->clock->timer_stop(delivery->env, &delivery->timer);
    delivery->sink->ops->stop(delivery->sink);
    if (delivery->running) {
        return;
    }
    if (delivery->unsaved > 0) {
        round_start(delivery);
    } else {
        delivery_end(delivery);
    }
}
