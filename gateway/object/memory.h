/*
 * Admission of stripe and read buffers: memory is admitted before it is taken, so overload is a 503
 * and not a growing process.
 *
 * The budget is that of the process when the configuration names a pool (gateway.h: struct
 * stream_pool), else the loop's own. Large requests leave a share of it to small ones, so that a
 * GET of 100 KB does not stand in line behind uploads. Comfort (a second buffer) comes from the
 * first half only and is given back when somebody waits. Waiters of one loop are served in order; a
 * line that is too long, or a wait that takes too long, is RC_BUSY.
 */
#ifndef GATEWAY_OBJECT_MEMORY_H
#define GATEWAY_OBJECT_MEMORY_H

#include "gateway/gateway.h"

/* One request in line. Embedded by its owner, zeroed before. */
struct memory_wait {
    void (*done)(struct memory_wait *wait); /* never inside a call of this module */
    enum rc rc;                             /* RC_OK: `bytes` are admitted; RC_BUSY */
    uint64_t bytes;
    /* Private. */
    struct gateway *gateway;
    uint64_t deadline_ns;
    struct list link;
    struct env_timer timer;
};

/* Admits at once, or not at all. */
bool stream_memory_try(struct gateway *gateway, uint64_t bytes);
/* The same for what one can do without: only while half of the budget is free and nobody waits. */
bool stream_memory_spare(struct gateway *gateway, uint64_t bytes);
/* Somebody waits: give back what you can do without. */
bool stream_memory_wanted(const struct gateway *gateway);
/* RC_OK: admitted; RC_AGAIN: `done` will follow; RC_BUSY: the line is too long. */
enum rc stream_memory_take(struct gateway *gateway, struct memory_wait *wait, uint64_t bytes);
/* Admits without asking: for the little more that a request already admitted turns out to need
 * (parity of a degraded read). Counted, so that newcomers wait. */
void stream_memory_force(struct gateway *gateway, uint64_t bytes);
void stream_memory_give(struct gateway *gateway, uint64_t bytes);

#endif
