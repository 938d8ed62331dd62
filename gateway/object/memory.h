/*
 * Admission of stripe and read buffers (gateway.h: struct stream_memory): memory is admitted before
 * it is taken, so overload is a 503 and not a growing process.
 *
 * Large requests leave a share of the budget to small ones, so that a GET of 100 KB does not stand
 * in line behind uploads. Waiters are served in order; a line that is too long, or a wait that
 * takes too long, is RC_BUSY.
 */
#ifndef GATEWAY_OBJECT_MEMORY_H
#define GATEWAY_OBJECT_MEMORY_H

#include "gateway/gateway.h"

/* One request in line. Embedded by its owner, zeroed before. */
struct memory_wait {
    void (*done)(struct memory_wait *wait); /* never inside a call of this module */
    enum rc rc;                             /* RC_OK: `bytes` are admitted; RC_BUSY */
    /* Private. */
    uint64_t bytes;
    struct gateway *gateway;
    struct list link;
    struct env_timer timer;
};

/* Admits at once, or not at all. */
bool stream_memory_try(struct gateway *gateway, uint64_t bytes);
/* RC_OK: admitted; RC_AGAIN: `done` will follow; RC_BUSY: the line is too long. */
enum rc stream_memory_take(struct gateway *gateway, struct memory_wait *wait, uint64_t bytes);
/* Admits without asking: for the little more that a request already admitted turns out to need
 * (parity of a degraded read). Counted, so that newcomers wait. */
void stream_memory_force(struct gateway *gateway, uint64_t bytes);
void stream_memory_give(struct gateway *gateway, uint64_t bytes);

#endif
