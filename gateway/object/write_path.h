/*
 * Body to durable extents (DESIGN 5.4):
 *
 *     payload -> stripe buffer -> encode -> k+m datads at once -> all durable -> pieces
 *
 * At most inline_bytes_max: kept in memory for the metadata command. At most replica_bytes_max:
 * full copies. Larger: striped, in extents of at most extent_bytes_max. A sub-task of the
 * operation; memory is admitted before it is taken. Nothing becomes visible here: the operation
 * commits the pieces, or discards.
 */
#ifndef GATEWAY_OBJECT_WRITE_PATH_H
#define GATEWAY_OBJECT_WRITE_PATH_H

#include "gateway/auth/payload.h"
#include "gateway/gateway.h"

struct write_path {
    /* In. */
    struct gateway *gateway;
    struct view *view;       /* placement groups; borrowed for the whole write */
    struct payload *payload; /* read to its end */
    struct arena *arena;
    uint64_t bucket_id; /* home of the layout */
    struct slice key;
    struct extent_id layout;
    bool allow_inline;
    struct slice prefix; /* stands in front of the payload; at most LIMIT_INLINE_BYTES, borrowed */
    /* Out, when the parent resumes with RC_OK. */
    uint64_t size;  /* with the prefix */
    bool is_inline; /* `body` holds the payload's bytes; no pieces. Also for an empty body. */
    struct slice body;
    Kist__Piece **pieces;
    size_t piece_count;
    /* Out: why the body was refused, when the parent fails with RC_INVALID. */
    enum s3_error error;
    const char *error_text;
    /* Private. */
    struct task *parent;
    void *state;
};

/* STEP_WAIT, then task_resume(parent): RC_OK; RC_INVALID (see `error`); RC_BUSY, RC_FULL, RC_IO,
 * RC_CLOSED. */
enum step_result write_path_start(struct write_path *path, struct task *parent);
/* What was written will not be committed: its shards are deleted in the background. Harmless when
 * nothing was. Not after a commit whose outcome is unknown. */
void write_path_discard(struct write_path *path);

#endif
