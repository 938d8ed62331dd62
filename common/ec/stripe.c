/*
 * All stripes but the last hold k * unit object bytes; the last holds the rest in k units that are
 * no longer than they must be. See the picture in stripe.h. Pure arithmetic: any thread.
 */
#include "common/ec/stripe.h"

#include <stdbool.h>

#include "common/base/assert.h"
#include "common/base/limits.h"

static uint64_t full_bytes(const struct stripe_geometry *geometry)
{
    return (uint64_t)geometry->k * geometry->unit;
}

/* k = 1 and unit = 0 is a replica: one stripe of the extent's length, not padded. */
static bool is_replica(const struct stripe_geometry *geometry)
{
    return geometry->unit == 0;
}

static void check(const struct stripe_geometry *geometry)
{
    ASSERT(geometry->k >= 1 && geometry->k <= LIMIT_DATA_SHARDS);
    ASSERT(geometry->unit % LIMIT_DISK_ALIGN_BYTES == 0);
    ASSERT(geometry->unit > 0 || geometry->k == 1);
    ASSERT(geometry->length <= UINT32_MAX);
}

uint64_t stripe_count(const struct stripe_geometry *geometry)
{
    check(geometry);
    if (geometry->length == 0) {
        return 0;
    }
    if (is_replica(geometry)) {
        return 1;
    }
    return (geometry->length + full_bytes(geometry) - 1) / full_bytes(geometry);
}

struct stripe stripe_at(const struct stripe_geometry *geometry, uint64_t index)
{
    ASSERT(index < stripe_count(geometry));
    struct stripe stripe = {.index = index,
                            .extent_at = index * full_bytes(geometry),
                            .shard_at = index * geometry->unit,
                            .data_len = full_bytes(geometry),
                            .unit = geometry->unit};

    if (is_replica(geometry)) {
        stripe.data_len = geometry->length;
        stripe.unit = (uint32_t)geometry->length;
    } else if (index == stripe_count(geometry) - 1) {
        uint64_t align = LIMIT_DISK_ALIGN_BYTES;
        uint64_t rest = geometry->length - stripe.extent_at;
        uint64_t unit = (rest + geometry->k - 1) / geometry->k;
        stripe.data_len = rest;
        stripe.unit = (uint32_t)((unit + align - 1) / align * align);
    }
    ASSERT(stripe.data_len > 0);
    ASSERT(stripe.data_len <= (uint64_t)stripe.unit * geometry->k);
    return stripe;
}

struct stripe stripe_of(const struct stripe_geometry *geometry, uint64_t at)
{
    ASSERT(at < geometry->length);

    return stripe_at(geometry, is_replica(geometry) ? 0 : at / full_bytes(geometry));
}

uint64_t stripe_shard_length(const struct stripe_geometry *geometry)
{
    uint64_t count = stripe_count(geometry);

    if (count == 0) {
        return 0;
    }
    struct stripe last = stripe_at(geometry, count - 1);
    return last.shard_at + last.unit;
}
