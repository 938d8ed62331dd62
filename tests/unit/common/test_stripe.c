/* Geometry: where every byte of an extent lies. A mistake here is silent loss, so the sums are
 * checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/ec/stripe.h"

enum { KIB = 1024, UNIT = 128 * KIB };

/* Stripes follow one another without hole or overlap, in the extent and in the shards, at every
 * edge. */
static void stripes_tile_the_extent(void **state)
{
    static const uint32_t ks[] = {1, 2, 4, 6, 8};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
        uint64_t full = (uint64_t)ks[i] * UNIT;
        uint64_t lengths[] = {1,
                              4096,
                              128 * KIB + 1,
                              full - 1,
                              full,
                              full + 1,
                              2 * full,
                              2 * full + 4097,
                              full * 3,
                              LIMIT_EXTENT_BYTES,
                              LIMIT_EXTENT_BYTES - 1};
        for (size_t j = 0; j < ARRAY_LEN(lengths); j++) {
            struct stripe_geometry g = {.k = ks[i], .unit = UNIT, .length = lengths[j]};
            uint64_t extent_at = 0;
            uint64_t shard_at = 0;
            for (uint64_t n = 0; n < stripe_count(&g); n++) {
                struct stripe s = stripe_at(&g, n);
                assert_int_equal(s.extent_at, extent_at);
                assert_int_equal(s.shard_at, shard_at);
                assert_int_equal(s.unit % LIMIT_DISK_ALIGN_BYTES, 0);
                assert_int_equal(stripe_of(&g, extent_at).index, n);
                assert_int_equal(stripe_of(&g, extent_at + s.data_len - 1).index, n);
                extent_at += s.data_len;
                shard_at += s.unit;
            }
            assert_int_equal(extent_at, lengths[j]);
            assert_int_equal(shard_at, stripe_shard_length(&g));
        }
    }
}

/* The last unit shrinks: 129 KiB in 4+2 must not cost six units of 128 KiB. */
static void last_unit_is_no_longer_than_needed(void **state)
{
    struct stripe_geometry g = {.k = 4, .unit = UNIT, .length = 129 * KIB};

    (void)state;
    assert_int_equal(stripe_at(&g, 0).unit, 36 * KIB);
    g.length = 4 * UNIT + 1;
    assert_int_equal(stripe_count(&g), 2);
    assert_int_equal(stripe_at(&g, 1).unit, 4 * KIB);
    assert_int_equal(stripe_shard_length(&g), UNIT + 4 * KIB);
}

/* A replica is stored byte for byte: no padding that a reader could take for content. */
static void replica_is_one_stripe_of_any_length(void **state)
{
    struct stripe_geometry g = {.k = 1, .unit = 0, .length = 16385};

    (void)state;
    assert_int_equal(stripe_count(&g), 1);
    assert_int_equal(stripe_at(&g, 0).unit, 16385);
    assert_int_equal(stripe_of(&g, 16384).index, 0);
    assert_int_equal(stripe_shard_length(&g), 16385);
    g.length = 0;
    assert_int_equal(stripe_count(&g), 0);
    assert_int_equal(stripe_shard_length(&g), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stripes_tile_the_extent),
        cmocka_unit_test(last_unit_is_no_longer_than_needed),
        cmocka_unit_test(replica_is_one_stripe_of_any_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
