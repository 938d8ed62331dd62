#include "gateway/events/events.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "gateway/events/delivery.h"

enum { TRIM_LOOK_MS = 2000, TRIM_ROWS = 1000, TRIM_WRITE_MS = 10000 };

static const uint64_t NS_PER_MS = 1000000ULL;

struct events {
    struct events_options options;
    struct env *env;
    struct delivery *deliveries[EVENTS_SINKS_MAX];
    /* Trimming. */
    struct task trim;
    struct env_timer trim_timer;
    struct arena arena;
    struct meta_changes oldest;
    struct meta_write write;
    Kist__TrimChanges message;
    bool trimming;
    bool trim_more;
    uint64_t feed_bytes;
    uint64_t feed_count;
    /* Close. */
    bool closing;
    uint32_t open_count;
    void (*close_done)(void *owner);
    void *close_owner;
};

static struct events *events_of(struct task *task)
{
    return CONTAINER_OF(task, struct events, trim);
}

/* ---- The bounds of the feed ---- */

static enum step_result trim_look(struct task *task)
{
    struct events *events = events_of(task);
    struct meta_client *meta = events->options.meta;

    if (!meta->ready(meta)) {
        return STEP_DONE;
    }
    events->oldest =
        (struct meta_changes){.limit = 1, .from_oldest = true, .arena = &events->arena};
    return meta->changes(meta, &events->oldest, task);
}

static uint64_t trim_through(const struct events *events)
{
    uint64_t now_ns = events->env->clock->wall_ns(events->env);
    uint64_t age_ns = events->options.feed_age_ms * NS_PER_MS;

    return now_ns > age_ns ? now_ns - age_ns : 0;
}

static enum step_result trim_write(struct task *task)
{
    struct events *events = events_of(task);
    struct meta_client *meta = events->options.meta;
    const struct meta_changes *oldest = &events->oldest;
    uint64_t through = trim_through(events);

    events->feed_bytes = oldest->feed_bytes;
    events->feed_count = oldest->feed_count;
    if (oldest->change_count == 0 || (oldest->feed_bytes <= events->options.feed_bytes_max &&
                                      oldest->changes[0].stamp > through)) {
        return STEP_DONE;
    }
    kist__trim_changes__init(&events->message);
    events->message.through = through;
    events->message.bytes_max = events->options.feed_bytes_max;
    events->write = (struct meta_write){.command = META_TRIM_CHANGES,
                                        .message = &events->message.base,
                                        .deadline_ms = TRIM_WRITE_MS,
                                        .arena = &events->arena};
    return meta->write(meta, &events->write, task);
}

static enum step_result trim_note(struct task *task)
{
    struct events *events = events_of(task);

    events->trim_more = events->write.reply->first >= TRIM_ROWS;
    return STEP_NEXT;
}

static const struct step trim_steps[] = {
    {"look", trim_look },
    {"trim", trim_write},
    {"note", trim_note },
    {NULL,   NULL      }
};

static void events_close_go_on(struct events *events);

static void trim_later(struct events *events)
{
    uint64_t wait_ms = events->trim_more ? 0 : TRIM_LOOK_MS;

    events->env->clock->timer_start(events->env, &events->trim_timer, wait_ms * NS_PER_MS);
}

static void trim_done(struct task *task)
{
    struct events *events = events_of(task);

    if (task->error.rc != RC_OK) {
        LOG_DEBUG("feed_trim_later", "error=\"%s\"", task->error.text);
    }
    arena_reset(&events->arena);
    events->trimming = false;
    if (events->closing) {
        events_close_go_on(events);
    } else {
        trim_later(events);
    }
}

static void trim_tick(struct env_timer *timer)
{
    struct events *events = CONTAINER_OF(timer, struct events, trim_timer);

    events->trimming = true;
    events->trim_more = false;
    task_start(&events->trim, trim_steps, trim_done);
}

/* ---- Life ---- */

struct events *events_open(const struct events_options *options)
{
    struct events *events = mem_alloc(sizeof(*events));

    ASSERT(options->sink_count <= EVENTS_SINKS_MAX);
    events->options = *options;
    events->env = options->env;
    arena_init(&events->arena);
    for (uint32_t i = 0; i < options->sink_count; i++) {
        struct delivery *delivery = mem_alloc(sizeof(*delivery));

        delivery->env = options->env;
        delivery->meta = options->meta;
        delivery->region = options->region;
        delivery->name = options->names[i];
        delivery->sink = options->sinks[i];
        events->deliveries[i] = delivery;
        delivery_open(delivery);
    }
    events->open_count = options->sink_count;
    events->trim_timer.fire = trim_tick;
    trim_later(events);
    return events;
}

static void events_close_go_on(struct events *events)
{
    void (*done)(void *owner) = events->close_done;
    void *owner = events->close_owner;

    if (events->open_count > 0 || events->trimming) {
        return;
    }
    for (uint32_t i = 0; i < events->options.sink_count; i++) {
        mem_free(events->deliveries[i]);
    }
    arena_deinit(&events->arena);
    mem_free(events);
    done(owner);
}

static void events_stopped_one(void *owner)
{
    struct events *events = owner;

    events->open_count -= 1;
    events_close_go_on(events);
}

void events_close(struct events *events, void (*done)(void *owner), void *owner)
{
    uint32_t count = events->options.sink_count;

    ASSERT(!events->closing);
    events->closing = true;
    events->close_done = done;
    events->close_owner = owner;
    events->env->clock->timer_stop(events->env, &events->trim_timer);
    if (count == 0) {
        events_close_go_on(events);
        return;
    }
    events->open_count += 1; /* until all were asked */
    for (uint32_t i = 0; i < count; i++) {
        delivery_close(events->deliveries[i], events_stopped_one, events);
    }
    events_stopped_one(events);
}

/* ---- Status ---- */

uint32_t events_sink_count(const struct events *events)
{
    return events->options.sink_count;
}

void events_sink_status(const struct events *events, uint32_t index, struct events_sink_status *out)
{
    const struct delivery *delivery = events->deliveries[index];
    uint64_t now_ns = events->env->clock->wall_ns(events->env);

    ASSERT(index < events->options.sink_count);
    *out = delivery->status;
    if (delivery->waits_since != 0 && now_ns > delivery->waits_since) {
        out->lag_ms = (now_ns - delivery->waits_since) / NS_PER_MS;
    }
}

uint64_t events_feed_bytes(const struct events *events)
{
    return events->feed_bytes;
}

uint64_t events_feed_count(const struct events *events)
{
    return events->feed_count;
}
