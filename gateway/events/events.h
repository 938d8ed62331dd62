/*
 * Delivers the change feed to sinks, and keeps the feed within its bounds. One per process, on the
 * loop where the leader of metad is; it reads committed changes only, so what it tells is durable.
 *
 *     for each sink:  changes behind its cursor -> a batch -> sink -> cursor (PUT_CURSOR) -> again
 *     for the feed:   too large, too old? -> TRIM_CHANGES
 *
 * Promise: every event that a configuration asked for is delivered at least once, those of a sink
 * in order, across restarts and however long the sink is away, unless the feed outgrew its bounds
 * meanwhile: then what was dropped is counted (in apply) and said.
 */
#ifndef GATEWAY_EVENTS_EVENTS_H
#define GATEWAY_EVENTS_EVENTS_H

#include "common/client/meta_client.h"
#include "common/env/env.h"
#include "gateway/events/sink.h"

enum { EVENTS_SINKS_MAX = 32 };

struct events;

struct events_options {
    struct env *env;
    struct meta_client *meta; /* of this loop */
    struct slice region;
    uint64_t feed_bytes_max;
    uint64_t feed_age_ms;
    struct sink *sinks[EVENTS_SINKS_MAX]; /* taken: closed by events_close() */
    struct slice names[EVENTS_SINKS_MAX]; /* "NAME:webhook"; outlive the events */
    uint32_t sink_count;
};

struct events *events_open(const struct events_options *options);
void events_close(struct events *events, void (*done)(void *owner), void *owner);

/* For status pages; on the loop. */
struct events_sink_status {
    struct slice name;
    uint64_t delivered; /* since the start */
    uint64_t failures;  /* batches that were not delivered whole, since the start */
    uint64_t lost;      /* dropped undelivered, ever */
    uint64_t lag_ms;    /* age of the oldest event that waits; 0: none does */
    char error[160];    /* of the last failure; empty after a success */
};
uint32_t events_sink_count(const struct events *events);
void events_sink_status(const struct events *events, uint32_t index,
                        struct events_sink_status *out);
uint64_t events_feed_bytes(const struct events *events);
uint64_t events_feed_count(const struct events *events);

#endif
