/* How the bytes of one body will lie: decided once, before memory is taken. */
#ifndef GATEWAY_OBJECT_WRITE_PLAN_H
#define GATEWAY_OBJECT_WRITE_PLAN_H

#include "gateway/object/extent_writer.h"

enum { WRITE_BUFFERS_MAX = 2 };

struct write_plan {
    uint32_t k;
    uint32_t m;
    uint32_t unit;         /* bytes of one shard in a full stripe */
    size_t stripe_bytes;   /* k * unit: one buffer */
    size_t parity_bytes;   /* m * unit */
    uint32_t buffers;      /* 1: too short, or memory is scarce */
    uint64_t extent_bytes; /* whole stripes */
    uint64_t inline_max;   /* bodies up to this are kept for the command; 0 bytes always are */
    uint64_t replica_max;  /* up to this: full copies */
};

/* `has_length` false: `length` is unknown. */
void write_plan_make(struct write_plan *plan, const struct gateway_config *config,
                     const Kist__PlacementGroup *group, bool has_length, uint64_t length);
/* The next extent goes to a group of another shape (a disk was lost): the same stripe buffers, cut
 * into other units. `parity_bytes` may grow. False: they cannot be cut so. */
bool write_plan_adapt(struct write_plan *plan, const Kist__PlacementGroup *group);
uint64_t write_plan_memory(const struct write_plan *plan);

#endif
