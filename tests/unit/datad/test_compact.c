/* Compaction gives space back, copies no more than it must, and survives a power cut at every step.
 */
#include "tests/unit/datad/fixture.h"

enum { SHARDS = 60, LENGTH = 190 * KIB, KEEP_EVERY = 6 };

static bool is_kept(uint32_t number)
{
    return number % KEEP_EVERY == 0;
}

/* Segments of 4 MiB that are five sixths dead. */
static void fill_and_remove(struct fixture *f)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(fixture_put(f, 1, fixture_id(f, i, 0), LENGTH), RC_OK);
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        if (!is_kept(i)) {
            assert_int_equal(fixture_remove(f, 1, fixture_id(f, i, 0)), RC_OK);
        }
    }
}

static void check_all(struct fixture *f)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(fixture_read(f, 1, fixture_id(f, i, 0), LENGTH),
                         is_kept(i) ? RC_OK : RC_NOT_FOUND);
    }
}

/* Deleted bytes come back as free space, and what was not deleted is still there, also without the
 * index. */
static void dead_segments_are_given_back(void **state)
{
    struct fixture f;
    uint64_t used;

    (void)state;
    fixture_init(&f, 1, 1);
    fill_and_remove(&f);
    used = sim_disk_used(f.node, "/d0");
    sim_run_for(f.sim, 30 * SIM_S);
    check_all(&f);
    assert_in_range(fixture_status(&f, 1).segment_count, 1, 3);
    assert_true(sim_disk_used(f.node, "/d0") < used - 6ULL * MIB);
    assert_int_equal(fixture_status(&f, 1).segment_count,
                     sim_file_count(f.node, "/d0/data/segments"));
    fixture_stop(&f);
    sim_kv_paths_wipe("/d0");
    fixture_start(&f);
    check_all(&f);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 1), RC_EXISTS);
    }
    fixture_deinit(&f);
}

/* Copy, sync, flush, unlink in this order: a power cut between any two loses nothing. */
static void power_cut_at_every_step_is_safe(void **state)
{
    (void)state;
    for (uint64_t stop = 1; stop < 60; stop++) {
        struct fixture f;
        fixture_init(&f, 1000 + stop, 1);
        fill_and_remove(&f);
        sim_stop_after(f.node, stop);
        sim_run_for(f.sim, 20 * SIM_S);
        sim_stop_after(f.node, 0);
        fixture_crash(&f, SIM_POWER);
        check_all(&f);
        sim_run_for(f.sim, 20 * SIM_S);
        check_all(&f);
        assert_in_range(fixture_status(&f, 1).segment_count, 1, 3);
        fixture_deinit(&f);
    }
}

/* A block that rotted must not get a good checksum by being moved; its neighbours stay readable. */
static void rot_is_not_laundered(void **state)
{
    struct fixture f;
    struct shard_id id;
    char path[128];

    (void)state;
    fixture_init(&f, 2, 1);
    id = fixture_id(&f, 0, 0);
    assert_int_equal(fixture_put(&f, 1, id, LENGTH), RC_OK);
    (void)snprintf(path, sizeof(path), "%s", sim_file_at(f.node, "/d0/data/segments", 0));
    assert_true(sim_file_flip(f.node, path, 8192 + 65 * KIB, 1));
    for (uint32_t i = 1; i < SHARDS; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), LENGTH), RC_OK);
        assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, i, 0)), RC_OK);
    }
    sim_run_for(f.sim, 30 * SIM_S);
    assert_int_equal(sim_file_size(f.node, path), 0); /* it has moved */
    assert_int_equal(fixture_read_range(&f, 1, id, 0, 64 * KIB), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 128 * KIB, 62 * KIB), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 64 * KIB, 64 * KIB), RC_CORRUPT);
    fixture_deinit(&f);
}

/* A sector that cannot be read now may be readable later: compaction must not drop the shard. */
static void unreadable_shard_is_not_dropped(void **state)
{
    struct fixture f;
    struct shard_id id;
    struct datad_bad bad[2];
    char path[128];

    (void)state;
    fixture_init(&f, 4, 1);
    id = fixture_id(&f, 0, 0);
    assert_int_equal(fixture_put(&f, 1, id, LENGTH), RC_OK);
    (void)snprintf(path, sizeof(path), "%s", sim_file_at(f.node, "/d0/data/segments", 0));
    assert_true(sim_file_bad(f.node, path, 8192 + 65 * KIB, 512));
    for (uint32_t i = 1; i < SHARDS; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), LENGTH), RC_OK);
        assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, i, 0)), RC_OK);
    }
    sim_run_for(f.sim, 30 * SIM_S);
    assert_true(sim_file_size(f.node, path) > 0);
    assert_int_equal(datad_take_bad(f.datad, bad, 2), 1);
    assert_int_equal(fixture_read_range(&f, 1, id, 0, 64 * KIB), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 64 * KIB, 64 * KIB), RC_IO);
    fixture_deinit(&f);
}

/* What is being read or replaced while it moves stays right. */
static void reads_and_removes_go_on_meanwhile(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct fixture f;
        fixture_init(&f, 2000 + seed, 1);
        fill_and_remove(&f);
        for (uint32_t round = 0; round < 40; round++) {
            uint32_t number = (uint32_t)sim_below(f.sim, SHARDS) / KEEP_EVERY * KEEP_EVERY;
            sim_run_for(f.sim, sim_below(f.sim, 300 * SIM_MS));
            assert_int_equal(fixture_read(&f, 1, fixture_id(&f, number, 0), LENGTH), RC_OK);
        }
        assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, 0, 0)), RC_OK);
        sim_run_for(f.sim, 20 * SIM_S);
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 0, 0), LENGTH), RC_NOT_FOUND);
        fixture_deinit(&f);
    }
}

/* Every crash leaves a short segment behind: they must not pile up, each holds a file open. */
static void crashes_leave_no_pile_of_segments(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 3, 1);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 20000), RC_OK);
        fixture_crash(&f, SIM_KILL);
    }
    assert_in_range(sim_file_count(f.node, "/d0/data/segments"), 40, 41);
    sim_run_for(f.sim, 60 * SIM_S);
    assert_in_range(sim_file_count(f.node, "/d0/data/segments"), 1, 10);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, i, 0), 20000), RC_OK);
    }
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_segments_are_given_back),
        cmocka_unit_test(power_cut_at_every_step_is_safe),
        cmocka_unit_test(rot_is_not_laundered),
        cmocka_unit_test(unreadable_shard_is_not_dropped),
        cmocka_unit_test(reads_and_removes_go_on_meanwhile),
        cmocka_unit_test(crashes_leave_no_pile_of_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
