/* One sink and its place in the feed. Private to gateway/events. */
#ifndef GATEWAY_EVENTS_DELIVERY_H
#define GATEWAY_EVENTS_DELIVERY_H

#include "common/base/buffer.h"
#include "common/task/task.h"
#include "gateway/events/events.h"

struct delivery {
    struct env *env;
    struct meta_client *meta;
    struct slice region;
    struct slice name;
    struct sink *sink;
    /* The round under way. */
    struct task task;
    struct meta_changes call;
    struct arena arena;
    struct buffer bodies[SINK_BATCH_MAX];
    struct sink_message messages[SINK_BATCH_MAX];
    struct sink_batch batch;
    struct meta_write write;
    Kist__PutCursor message;
    /* Where it stands. */
    bool positioned; /* else the cursor's row is asked */
    uint64_t stamp;
    uint32_t number;
    uint64_t unsaved;       /* events delivered behind the row */
    uint64_t saved_ns;      /* monotonic */
    uint64_t seen;          /* change stamp before the last read */
    uint32_t failed_rounds; /* in a row */
    uint64_t waits_since;   /* stamp of the oldest event that waits; 0: none */
    struct events_sink_status status;
    struct env_timer timer;
    bool running;
    bool stopping;
    void (*stopped)(void *owner);
    void *owner;
};

void delivery_open(struct delivery *delivery);
/* Ends the round under way, saves the cursor, closes the sink. */
void delivery_close(struct delivery *delivery, void (*stopped)(void *owner), void *owner);

#endif
