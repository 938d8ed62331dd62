/*
 * One stripe's share of a GET: the units that hold the asked bytes, read from their disks side by
 * side, verified by the datads. A unit that is missing, corrupt or slow is rebuilt from any k
 * others.
 *
 *     wanted units asked ──> all there ─────────────────────────────> ready
 *            │ one fails, or the hedge time passes
 *            └──> more shards asked until k can answer ──> k there ──> rebuild ──> ready
 *                                                     └──> fewer than k are left ──> failed
 *
 * A read that is under way belongs to the datad: a window that is dropped leaves it behind, with
 * its buffer, and goes; the read cleans up after itself.
 */
#ifndef GATEWAY_OBJECT_READ_WINDOW_H
#define GATEWAY_OBJECT_READ_WINDOW_H

#include "common/base/limits.h"
#include "common/ec/stripe.h"
#include "gateway/gateway.h"

struct read_op;
struct read_state;

/* What of an extent is wanted. Copied, so that the record may go. */
struct read_extent {
    struct extent_id id;
    bool replica;
    uint32_t k;
    uint32_t m;
    uint32_t unit;
    uint64_t length;
    uint32_t durable;
    uint64_t disks[LIMIT_SHARDS];
};

struct read_window {
    void (*done)(
        struct read_window *window); /* ready or failed; never inside read_window_start() */
    bool ready;                      /* `slices` are the bytes asked, in order */
    enum rc rc;                      /* not RC_OK: failed */
    bool not_found;                  /* a disk said that there is no such shard */
    struct read_state *owner;        /* the owner's, and so is: */
    uint64_t object_at;              /* of the first byte, within the object */
    uint64_t length;                 /* bytes asked */
    uint64_t memory_bytes;           /* of the wanted units: the owner admits them */
    struct slice slices[LIMIT_DATA_SHARDS];
    size_t slice_count;
    /* Private. */
    struct gateway *gateway;
    struct read_extent extent;
    struct stripe stripe;
    uint64_t from; /* bytes wanted, within the stripe */
    uint64_t to;
    uint64_t span_at; /* read of every unit: whole blocks */
    size_t span_len;
    uint32_t wanted; /* data shards */
    uint32_t asked;
    uint32_t there;
    uint32_t lost; /* failed */
    uint32_t slow; /* not there when the hedge time was over */
    bool corrupt;
    struct read_op *ops[LIMIT_SHARDS];
    char *rebuilt[LIMIT_DATA_SHARDS];
    struct env_timer hedge;
};

/* From `at` within the extent up to the end of that stripe, at most `length` bytes (window->length
 * tells). Nothing is read yet. */
struct read_window *read_window_new(struct gateway *gateway, const struct read_extent *extent,
                                    uint64_t at, uint64_t length);
void read_window_start(struct read_window *window);
void read_window_free(struct read_window *window);

#endif
