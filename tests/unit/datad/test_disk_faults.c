/* Disks that are full, fail, lie or vanish: acknowledged data stays readable, the disk is isolated,
 * deletes work. */
#include "tests/unit/datad/fixture.h"

/* A disk runs full: writes are refused, reads and deletes go on, and what is deleted makes room
 * again. */
static void full_disk_reads_deletes_and_recovers(void **state)
{
    struct fixture f;
    uint32_t count = 0;
    enum rc rc = RC_OK;

    (void)state;
    fixture_init(&f, 1, 1);
    sim_disk_faults(f.node, "/d0")->capacity_bytes = 40ULL * MIB;
    for (; count < 1000; count++) {
        rc = fixture_put(&f, 1, fixture_id(&f, count, 0), 200 * KIB);
        if (rc != RC_OK) {
            break;
        }
    }
    assert_int_equal(rc, RC_FULL);
    assert_in_range(count, 100, 170);
    assert_string_equal(fixture_status(&f, 1).state, "full");
    assert_false(f.data->healthy(f.data, 1));
    assert_true(fixture_status(&f, 1).free_bytes >= 7ULL * MIB); /* the reserve is untouched */
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, i, 0), 200 * KIB), RC_OK);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i % 4 != 0) {
            assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, i, 0)), RC_OK);
        }
    }
    sim_run_for(f.sim, 60 * SIM_S);
    assert_string_equal(fixture_status(&f, 1).state, "healthy");
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 5000, 0), 200 * KIB), RC_OK);
    for (uint32_t i = 0; i < count; i += 4) {
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, i, 0), 200 * KIB), RC_OK);
    }
    fixture_deinit(&f);
}

/* After a failed sync nothing that waited for it is acknowledged, and the next write goes
 * elsewhere. */
static void failed_sync_seals_the_segment(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 2, 1);
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 1, 0), 100 * KIB), RC_OK);
    sim_disk_faults(f.node, "/d0")->sync_error_ppm = 1000000;
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 2, 0), 1000), RC_IO);
    sim_disk_faults(f.node, "/d0")->sync_error_ppm = 0;
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 2, 0), 1000), RC_NOT_FOUND);
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 3, 0), 1000), RC_OK);
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 1, 0), 100 * KIB), RC_OK);
    assert_int_equal(fixture_status(&f, 1).segment_count, 2);
    sim_run_for(f.sim, 5 * SIM_S); /* what was acknowledged in the failed one is read back */
    assert_string_equal(fixture_status(&f, 1).state, "healthy");
    fixture_crash(&f, SIM_POWER);
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 1, 0), 100 * KIB), RC_OK);
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 3, 0), 1000), RC_OK);
    fixture_deinit(&f);
}

/* A writer that is open in a segment whose sync failed must not be acknowledged by a later, good
 * sync: the kernel may have dropped its pages. */
static void open_writer_fails_with_its_segment(void **state)
{
    struct fixture f;
    struct shard_writer writer;
    uint8_t *bytes = mem_alloc(64 * KIB);

    (void)state;
    fixture_init(&f, 3, 1);
    writer = fixture_writer(&f, 1, fixture_id(&f, 1, 0), MIB);
    assert_int_equal(fixture_begin(&f, &writer), RC_OK);
    assert_int_equal(fixture_append(&f, &writer, slice_of(bytes, 64 * KIB)), RC_OK);
    sim_disk_faults(f.node, "/d0")->sync_error_ppm = 1000000;
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 2, 0), 1000), RC_IO);
    sim_disk_faults(f.node, "/d0")->sync_error_ppm = 0;
    assert_int_equal(fixture_seal(&f, &writer), RC_IO);
    assert_int_equal(fixture_read(&f, 1, writer.shard, 1), RC_NOT_FOUND);
    mem_free(bytes);
    fixture_deinit(&f);
}

/* A disk that fails every write is isolated after a few and not tried again and again. */
static void failing_disk_is_isolated(void **state)
{
    struct fixture f;
    uint64_t files;

    (void)state;
    fixture_init(&f, 4, 2);
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 1, 0), 1000), RC_OK);
    sim_disk_faults(f.node, "/d0")->write_error_ppm = 1000000;
    for (uint32_t i = 2; i < 12; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 1000), RC_IO);
    }
    assert_string_equal(fixture_status(&f, 1).state, "failed");
    assert_false(f.data->healthy(f.data, 1));
    files = sim_file_count(f.node, "/d0/data/segments");
    assert_in_range(files, 1, 4);
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 1, 0), 1000), RC_OK);
    assert_int_equal(fixture_put(&f, 2, fixture_id(&f, 1, 1), 1000), RC_OK);
    assert_true(f.data->healthy(f.data, 2));
    fixture_deinit(&f);
}

/* A directory that vanishes: nothing is acknowledged into unlinked files, and the others go on. */
static void vanished_directory_is_missing(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 5, 2);
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 1, 0), 1000), RC_OK);
    sim_file_wipe(f.node, "/d0/data");
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 2, 0), 1000), RC_NOT_FOUND);
    assert_false(f.data->healthy(f.data, 1));
    assert_string_equal(fixture_status(&f, 1).state, "missing");
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 1, 0), 1000), RC_NOT_FOUND);
    assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, 1, 0)), RC_NOT_FOUND);
    assert_int_equal(fixture_put(&f, 2, fixture_id(&f, 1, 1), 1000), RC_OK);
    fixture_stop(&f);
    sim_kv_paths_wipe("/d0");
    fixture_start(&f);
    assert_true(fixture_status(&f, 1).fresh); /* an empty directory was put back: repair fills it */
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 3, 0), 1000), RC_OK);
    fixture_deinit(&f);
}

/* A directory that is not there at start is reported; the rest of the process serves. */
static void absent_directory_is_no_reason_not_to_start(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 6, 2);
    fixture_stop(&f);
    f.options.disks[0].path = "/nowhere";
    fixture_start(&f);
    assert_string_equal(fixture_status(&f, 1).state, "missing");
    assert_int_equal(fixture_put(&f, 1, fixture_id(&f, 1, 0), 10), RC_NOT_FOUND);
    assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 1, 0), 10), RC_NOT_FOUND);
    assert_int_equal(fixture_put(&f, 2, fixture_id(&f, 1, 1), 10), RC_OK);
    fixture_deinit(&f);
}

/* An unreadable sector is an error for its block, not for the shard's neighbours and not for the
 * disk. */
static void unreadable_sector_is_one_block(void **state)
{
    struct fixture f;
    struct shard_id id;

    (void)state;
    fixture_init(&f, 7, 1);
    id = fixture_id(&f, 1, 0);
    assert_int_equal(fixture_put(&f, 1, id, 200 * KIB), RC_OK);
    assert_true(sim_file_bad(f.node, sim_file_at(f.node, "/d0/data/segments", 0),
                             8192 + 64 * KIB + 512, 512));
    assert_int_equal(fixture_read_range(&f, 1, id, 0, 64 * KIB), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 64 * KIB, 10), RC_IO);
    assert_string_equal(fixture_status(&f, 1).state, "healthy");
    assert_int_equal(fixture_stat(&f, 1, id).rc, RC_CORRUPT);
    fixture_deinit(&f);
}

/* Rot that nobody reads is found all the same, before the other copies are gone too. */
static void scrub_finds_rot_that_nobody_reads(void **state)
{
    struct fixture f;
    struct datad_bad bad[4];
    struct shard_id id;

    (void)state;
    fixture_init(&f, 8, 1);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 200 * KIB), RC_OK);
    }
    assert_true(sim_file_flip(f.node, sim_file_at(f.node, "/d0/data/segments", 0),
                              4096 + 2ULL * 53 * 4096 + 100000, 6));
    sim_run_for(f.sim, 10 * SIM_S);
    id = fixture_id(&f, 2, 0);
    assert_int_equal(datad_take_bad(f.datad, bad, 4), 1);
    assert_memory_equal(&bad[0].shard, &id, sizeof(id));
    assert_int_equal(fixture_stat(&f, 1, id).rc, RC_CORRUPT);
    assert_int_equal(fixture_status(&f, 1).bad_blocks, 1);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk_reads_deletes_and_recovers),
        cmocka_unit_test(failed_sync_seals_the_segment),
        cmocka_unit_test(open_writer_fails_with_its_segment),
        cmocka_unit_test(failing_disk_is_isolated),
        cmocka_unit_test(vanished_directory_is_missing),
        cmocka_unit_test(absent_directory_is_no_reason_not_to_start),
        cmocka_unit_test(unreadable_sector_is_one_block),
        cmocka_unit_test(scrub_finds_rot_that_nobody_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
