/*
 * Geometry of a striped extent: object bytes <-> stripes <-> shards (DESIGN 5.1). Part of the data
 * format.
 *
 *     extent bytes:  | stripe 0: k units | stripe 1: k units | ... | last stripe: k shrunken units
 * | shard i:       unit i of stripe 0, unit i of stripe 1, ..., unit i of the last stripe
 *
 * The last stripe's unit is ceil(rest / k) rounded up to 4 KiB, so a shard is never longer than
 * needed; bytes past the extent's length are zeros that are stored (they are parity input) and
 * never sent. A replica extent is the case k = 1 with one stripe of any length, not padded.
 */
#ifndef COMMON_EC_STRIPE_H
#define COMMON_EC_STRIPE_H

#include <stdint.h>

struct stripe_geometry {
    uint32_t k;
    uint32_t unit;   /* bytes of one shard in a full stripe; a multiple of 4 KiB */
    uint64_t length; /* object bytes in the extent */
};

struct stripe {
    uint64_t index;
    uint64_t extent_at; /* first object byte of the stripe within the extent */
    uint64_t data_len;  /* object bytes in it */
    uint64_t shard_at;  /* where its units begin in every shard */
    uint32_t unit;      /* bytes of one shard in this stripe (shrunken in the last) */
};

uint64_t stripe_count(const struct stripe_geometry *geometry);
/* Stripe number `index` < stripe_count(). */
struct stripe stripe_at(const struct stripe_geometry *geometry, uint64_t index);
/* The stripe that holds extent byte `at` < length. */
struct stripe stripe_of(const struct stripe_geometry *geometry, uint64_t at);
/* Stored bytes of each shard. */
uint64_t stripe_shard_length(const struct stripe_geometry *geometry);

#endif
