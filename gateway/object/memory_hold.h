/*
 * Who holds stripe and read buffers while a client moves bytes. A client that stands still must not
 * keep others out: while somebody waits in line for memory, a holder whose client moved less than
 * HOLD_PACE_BYTES in HOLD_PACE_NS loses its connection, the one that stood still longest first, as
 * many as wait. Nobody is cut while there is memory for all (a paused player, a slow link), and
 * never for what disks or metad are late with.
 *
 * One list per loop; all calls on that loop. Part of the owner's state, zeroed before.
 */
#ifndef GATEWAY_OBJECT_MEMORY_HOLD_H
#define GATEWAY_OBJECT_MEMORY_HOLD_H

#include "gateway/gateway.h"
#include "gateway/http/http.h"

struct memory_hold {
    struct http_exchange *http; /* NULL: no client is waited for, nothing is done */
    const uint64_t *moved;      /* bytes that the client has sent or taken so far */
    uint64_t bytes;             /* of memory, for the log */
    /* Private. */
    struct gateway *gateway;
    struct list link;
    uint64_t mark_ns; /* the client had moved `mark_bytes` then */
    uint64_t mark_bytes;
    bool on_client;
    bool cut;
};

/* From now on memory is held. http, moved and bytes are set. */
void memory_hold_begin(struct memory_hold *hold, struct gateway *gateway);
/* The client's turn, or not any more. */
void memory_hold_client(struct memory_hold *hold, bool on_client);
/* Harmless when it never began. */
void memory_hold_end(struct memory_hold *hold);

#endif
