/*
 * Pieces to the client (DESIGN 5.4): the shards of the asked range only, verified, a missing or
 * slow one replaced by parity; two stripes ahead of a client that reads, none of one that does not.
 */
#ifndef GATEWAY_OBJECT_READ_PATH_H
#define GATEWAY_OBJECT_READ_PATH_H

#include "common/task/task.h"
#include "gateway/gateway.h"
#include "gateway/http/http.h"

struct read_path {
    /* In. */
    struct gateway *gateway;
    struct view *view;
    struct arena *arena;
    uint64_t bucket_id; /* of the key asked */
    struct slice key;
    const Kist__Record *record; /* not inline, not empty */
    uint64_t offset;
    uint64_t length;            /* at least 1; offset + length <= record->size */
    struct http_exchange *http; /* not needed with `sink` */
    /* Called once, when the first bytes are verified and about to be sent: starts the reply. */
    void (*begin)(struct read_path *path);
    /* Not NULL: takes the bytes, in order, instead of the client (a digest over them); `begin` is
     * not called. Anything but RC_OK ends the read with it. */
    enum rc (*sink)(struct read_path *path, struct slice bytes);
    /* Out. */
    bool begun; /* a failure after this can only cut the connection */
    /* Private. */
    struct task *parent;
    void *state;
};

/* STEP_WAIT, then task_resume(parent): RC_OK when the last byte was handed over; the handler then
 * ends the reply. RC_CORRUPT, RC_IO, RC_NOT_FOUND, RC_BUSY, RC_CLOSED. */
enum step_result read_path_start(struct read_path *path, struct task *parent);

#endif
