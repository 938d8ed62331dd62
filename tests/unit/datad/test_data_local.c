/* The data client of one process: what is written comes back, what is refused is refused, what is
 * removed stays removed. Crashes and faults are in test_recover.c and test_disk_faults.c. */
#include "tests/unit/datad/fixture.h"

/* Every size at which the layout of blocks, footers or index rows changes reads back whole and in
 * parts. */
static void sizes_at_the_edges_read_back(void **state)
{
    static const size_t sizes[] = {0,         1,
                                   4095,      4096,
                                   16385,     64 * KIB - 1,
                                   64 * KIB,  64 * KIB + 1,
                                   128 * KIB, 128 * KIB + 1,
                                   256 * KIB, 256 * KIB + 1,
                                   3 * MIB,   9 * MIB + 5};
    struct fixture f;

    (void)state;
    fixture_init(&f, 1, 1);
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct shard_id id = fixture_id(&f, i, 0);
        assert_int_equal(fixture_put(&f, 1, id, sizes[i]), RC_OK);
        assert_int_equal(fixture_read(&f, 1, id, sizes[i]), RC_OK);
        if (sizes[i] > 3) {
            assert_int_equal(fixture_read_range(&f, 1, id, 1, sizes[i] - 2), RC_OK);
            assert_int_equal(fixture_read_range(&f, 1, id, sizes[i] / 2, 1), RC_OK);
            assert_int_equal(fixture_read_range(&f, 1, id, sizes[i] - 1, 1), RC_OK);
            assert_int_equal(fixture_read_range(&f, 1, id, sizes[i], 1), RC_INVALID);
        }
    }
    fixture_deinit(&f);
}

/* A GET of a small range must not touch more than the blocks it lies in, at any offset. */
static void ranges_across_blocks_are_exact(void **state)
{
    struct fixture f;
    struct shard_id id;
    size_t len = 5 * 64 * KIB + 100;

    (void)state;
    fixture_init(&f, 2, 1);
    id = fixture_id(&f, 1, 0);
    assert_int_equal(fixture_put(&f, 1, id, len), RC_OK);
    for (size_t at = 0; at < len; at += 32 * KIB + 17) {
        for (size_t n = 1; at + n <= len; n = n * 3 + 4096) {
            assert_int_equal(fixture_read_range(&f, 1, id, at, n), RC_OK);
        }
        assert_int_equal(fixture_read_range(&f, 1, id, at, len - at), RC_OK);
    }
    fixture_deinit(&f);
}

/* A body that ends earlier than reserved is sealed at its length; the reserved rest is not lost. */
static void short_seal_keeps_only_what_came(void **state)
{
    struct fixture f;
    struct shard_writer writer;
    uint8_t *bytes = mem_alloc_raw(3 * 64 * KIB);

    (void)state;
    fixture_init(&f, 3, 1);
    writer = fixture_writer(&f, 1, fixture_id(&f, 1, 2), 3 * MIB);
    fixture_fill(&writer.shard, bytes, 2 * 64 * KIB + 10);
    assert_int_equal(fixture_begin(&f, &writer), RC_OK);
    assert_int_equal(fixture_append(&f, &writer, slice_of(bytes, 64 * KIB)), RC_OK);
    assert_int_equal(fixture_append(&f, &writer, slice_of(bytes + 64 * KIB, 64 * KIB + 10)), RC_OK);
    assert_int_equal(fixture_seal(&f, &writer), RC_OK);
    assert_int_equal(fixture_read(&f, 1, writer.shard, 2 * 64 * KIB + 10), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, writer.shard, 2 * 64 * KIB + 10, 1), RC_INVALID);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 10 + i, 0), 200 * KIB), RC_OK);
    }
    assert_int_equal(fixture_status(&f, 1).segment_count, 1);
    fixture_crash(&f, SIM_POWER);
    assert_int_equal(fixture_read(&f, 1, writer.shard, 2 * 64 * KIB + 10), RC_OK);
    mem_free(bytes);
    fixture_deinit(&f);
}

/* Nothing of an unsealed or aborted shard is ever seen, also not after a crash. */
static void unsealed_is_invisible(void **state)
{
    struct fixture f;
    struct shard_writer open;
    struct shard_writer aborted;
    uint8_t *bytes = mem_alloc(64 * KIB);

    (void)state;
    fixture_init(&f, 4, 1);
    open = fixture_writer(&f, 1, fixture_id(&f, 1, 0), MIB);
    aborted = fixture_writer(&f, 1, fixture_id(&f, 2, 0), MIB);
    assert_int_equal(fixture_begin(&f, &open), RC_OK);
    assert_int_equal(fixture_append(&f, &open, slice_of(bytes, 64 * KIB)), RC_OK);
    assert_int_equal(fixture_begin(&f, &aborted), RC_OK);
    assert_int_equal(fixture_abort(&f, &aborted), RC_OK);
    assert_int_equal(fixture_read(&f, 1, open.shard, 1), RC_NOT_FOUND);
    assert_int_equal(fixture_read(&f, 1, aborted.shard, 1), RC_NOT_FOUND);
    assert_int_equal(fixture_begin(&f, &open), RC_EXISTS);
    fixture_crash(&f, SIM_KILL);
    assert_int_equal(fixture_read(&f, 1, open.shard, 1), RC_NOT_FOUND);
    assert_int_equal(fixture_put(&f, 1, open.shard, 10), RC_OK);
    mem_free(bytes);
    fixture_deinit(&f);
}

/* An id names one content for ever: what is or was held is refused, and so is an id nobody
 * remembers. */
static void ids_are_never_used_twice(void **state)
{
    struct fixture f;
    struct shard_id id;
    struct shard_id old;
    struct shard_writer repair;

    (void)state;
    fixture_init(&f, 5, 1);
    id = fixture_id(&f, 1, 0);
    assert_int_equal(fixture_put(&f, 1, id, 100), RC_OK);
    assert_int_equal(fixture_put(&f, 1, id, 100), RC_EXISTS);
    assert_int_equal(fixture_remove(&f, 1, id), RC_OK);
    assert_int_equal(fixture_remove(&f, 1, id), RC_OK);
    assert_int_equal(fixture_read(&f, 1, id, 100), RC_NOT_FOUND);
    assert_int_equal(fixture_put(&f, 1, id, 100), RC_EXISTS);
    fixture_crash(&f, SIM_POWER);
    assert_int_equal(fixture_put(&f, 1, id, 100), RC_EXISTS);
    old = fixture_id(&f, 2, 0);
    be64_put(old.extent.bytes + 8, be64_get(old.extent.bytes + 8) - 3ULL * 86400000);
    assert_int_equal(fixture_put(&f, 1, old, 100), RC_EXISTS);
    repair = fixture_writer(&f, 1, old, 100); /* repair of an old extent is another thing */
    repair.attempt = 1;
    assert_int_equal(fixture_put_as(&f, &repair, 100), RC_OK);
    assert_int_equal(fixture_read(&f, 1, old, 100), RC_OK);
    fixture_deinit(&f);
}

/* Repair replaces by a higher attempt only, and the old copy serves until then. */
static void higher_attempt_replaces(void **state)
{
    struct fixture f;
    struct shard_id id;
    struct shard_writer writer;

    (void)state;
    fixture_init(&f, 6, 1);
    id = fixture_id(&f, 1, 3);
    assert_int_equal(fixture_put(&f, 1, id, 5000), RC_OK);
    writer = fixture_writer(&f, 1, id, 5000);
    writer.attempt = 4;
    assert_int_equal(fixture_begin(&f, &writer), RC_OK);
    assert_int_equal(fixture_read(&f, 1, id, 5000), RC_OK);
    assert_int_equal(fixture_abort(&f, &writer), RC_OK);
    assert_int_equal(fixture_put_as(&f, &writer, 5000), RC_OK);
    assert_int_equal(fixture_stat(&f, 1, id).attempt, 4);
    writer.attempt = 3;
    assert_int_equal(fixture_put_as(&f, &writer, 5000), RC_EXISTS);
    assert_int_equal(fixture_read(&f, 1, id, 5000), RC_OK);
    fixture_crash(&f, SIM_POWER);
    assert_int_equal(fixture_stat(&f, 1, id).attempt, 4);
    fixture_deinit(&f);
}

/* A move raises the group's epoch: a gateway with an old map must not write any more, also after a
 * restart. */
static void old_group_epochs_are_fenced(void **state)
{
    struct fixture f;
    struct shard_writer early;
    struct shard_writer late;

    (void)state;
    fixture_init(&f, 7, 1);
    early = fixture_writer(&f, 1, fixture_id(&f, 1, 0), 100);
    early.origin.group_epoch = 5;
    assert_int_equal(fixture_begin(&f, &early), RC_OK);
    late = fixture_writer(&f, 1, fixture_id(&f, 2, 0), 100);
    late.origin.group_epoch = 6;
    assert_int_equal(fixture_put_as(&f, &late, 100), RC_OK);
    assert_int_equal(fixture_seal(&f, &early), RC_STALE);
    fixture_crash(&f, SIM_POWER);
    late = fixture_writer(&f, 1, fixture_id(&f, 3, 0), 100);
    late.origin.group_epoch = 5;
    assert_int_equal(fixture_put_as(&f, &late, 100), RC_STALE);
    late.origin.group = 2;
    assert_int_equal(fixture_put_as(&f, &late, 100), RC_OK);
    fixture_deinit(&f);
}

/* An audit asks the home that the header names. */
static void stat_tells_the_origin(void **state)
{
    struct fixture f;
    struct shard_stat stat;

    (void)state;
    fixture_init(&f, 8, 2);
    assert_int_equal(fixture_put(&f, 2, fixture_id(&f, 1, 1), 70000), RC_OK);
    stat = fixture_stat(&f, 2, fixture_id(&f, 1, 1));
    assert_int_equal(stat.rc, RC_OK);
    assert_int_equal(stat.length, 70000);
    assert_int_equal(stat.origin.home_bucket, 7);
    assert_true(slice_eq_str(slice_of(stat.key, stat.origin.home_key.len), "home/key"));
    assert_int_equal(fixture_stat(&f, 1, fixture_id(&f, 1, 1)).rc, RC_NOT_FOUND);
    assert_int_equal(fixture_stat(&f, 9, fixture_id(&f, 1, 1)).rc, RC_NOT_FOUND);
    fixture_deinit(&f);
}

struct burst {
    struct shard_writer writer;
    uint8_t bytes[20000];
    uint32_t *left;
};

static void burst_done(struct shard_writer *writer)
{
    struct burst *one = CONTAINER_OF(writer, struct burst, writer);

    *one->left -= 1;
}

static bool burst_over(void *left)
{
    return *(uint32_t *)left == 0;
}

/* Group commit: 64 writes that come together share their syncs, or a disk does 100 PUTs a second.
 */
static void one_sync_serves_many(void **state)
{
    struct fixture f;
    struct burst *all = mem_alloc(64 * sizeof(*all));
    uint32_t left = 64;
    uint64_t before;

    (void)state;
    fixture_init(&f, 9, 1);
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 1000, 0), 10), RC_OK);
    before = fixture_status(&f, 1).syncs;
    for (uint32_t i = 0; i < 64; i++) {
        all[i].writer = fixture_writer(&f, 1, fixture_id(&f, i, 0), sizeof(all[i].bytes));
        all[i].writer.done = burst_done;
        all[i].left = &left;
        fixture_fill(&all[i].writer.shard, all[i].bytes, sizeof(all[i].bytes));
        f.data->put(f.data, &all[i].writer, slice_of(all[i].bytes, sizeof(all[i].bytes)));
    }
    assert_true(sim_run_until(f.sim, burst_over, &left, 10 * SIM_S));
    assert_in_range(fixture_status(&f, 1).syncs - before, 1, 8);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(all[i].writer.rc, RC_OK);
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, i, 0), sizeof(all[i].bytes)), RC_OK);
    }
    mem_free(all);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_at_the_edges_read_back),
        cmocka_unit_test(ranges_across_blocks_are_exact),
        cmocka_unit_test(short_seal_keeps_only_what_came),
        cmocka_unit_test(unsealed_is_invisible),
        cmocka_unit_test(ids_are_never_used_twice),
        cmocka_unit_test(higher_attempt_replaces),
        cmocka_unit_test(old_group_epochs_are_fenced),
        cmocka_unit_test(stat_tells_the_origin),
        cmocka_unit_test(one_sync_serves_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
