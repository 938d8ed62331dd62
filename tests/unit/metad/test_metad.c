/* A whole metad in the simulated world: start, reads and writes, losses, refills, reads without a
 * majority. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_metad.h"
#include "tests/lib/sim_kv_paths.h"

static struct metad_fixture fixture;

static const char *const all_five[5] = {"follower", "follower", "follower", "follower", "follower"};

static struct metad_fixture *begin(uint32_t directories)
{
    metad_fixture_init(&fixture, directories);
    assert_int_equal(metad_fixture_open(&fixture, true), RC_OK);
    metad_fixture_bucket(&fixture);
    return &fixture;
}

/* Puts key k0 .. k<count - 1>. */
static void put_some(struct metad_fixture *f, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(metad_fixture_put_inline(f, key, key), RC_OK);
    }
}

static void check_some(struct metad_fixture *f, int to)
{
    for (int i = 0; i < to; i++) {
        char key[16];
        struct slice body;
        enum rc rc;

        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_non_null(metad_fixture_get(f, key, &body, &rc));
        assert_true(slice_eq(body, slice_str(key)));
    }
}

/* How many replicas: what the README promises for any number of directories. */
static void replicas_for_directories(void **state)
{
    static const uint32_t rows[][2] = {
        {1, 1},
        {2, 2},
        {3, 3},
        {4, 3},
        {5, 5},
        {8, 5}
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct metad_fixture *f = begin(rows[i][0]);
        struct metad_status status;

        metad_status(f->metad, &status);
        assert_int_equal(status.replica_count, rows[i][1]);
        assert_true(metad_fixture_wait(f, all_five, 10));
        put_some(f, 0, 5);
        check_some(f, 5);
        metad_fixture_deinit(f);
    }
}

/* What was answered is there after a clean stop and after a power cut. */
static void answered_writes_survive(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        struct metad_fixture *f = begin(n);

        put_some(f, 0, 20);
        metad_fixture_close(f);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        check_some(f, 20);
        put_some(f, 20, 40);
        metad_fixture_crash(f, SIM_POWER);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        check_some(f, 40);
        metad_fixture_deinit(f);
    }
}

/* Of three one may be missing; an empty directory in its place is filled and becomes a full member.
 */
static void an_empty_directory_is_filled(void **state)
{
    struct metad_fixture *f = begin(3);
    struct metad_status status;

    (void)state;
    put_some(f, 0, 20);
    metad_fixture_close(f);
    metad_fixture_lose(f, 1, false);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    assert_int_equal(metad_fixture_count(f, "missing"), 1);
    put_some(f, 20, 30);
    metad_fixture_close(f);
    metad_fixture_lose(f, 1, true);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    assert_true(metad_fixture_wait(f, all_five, 60));
    metad_status(f->metad, &status);
    assert_true(status.replicas[1].id > 64);
    sim_run_for(f->sim, 10 * SIM_S); /* promoted, the dead member removed */
    metad_fixture_close(f);
    /* Now it carries the group with one of the others. */
    metad_fixture_lose(f, 0, false);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    check_some(f, 30);
    put_some(f, 30, 31);
    metad_fixture_deinit(f);
}

/* A damaged store is found at the start, thrown away and filled again; nothing is lost. */
static void damage_at_the_start_is_refilled(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 3; n++) {
        struct metad_fixture *f = begin(n);

        put_some(f, 0, 20);
        metad_fixture_close(f);
        sim_kv_fail(sim_kv_paths_at("/d1/meta/state/1"), RC_CORRUPT, 1);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        sim_kv_fail(sim_kv_paths_at("/d1/meta/state/1"), RC_OK, 1);
        assert_true(metad_fixture_wait(f, all_five, 60));
        check_some(f, 20);
        sim_run_for(f->sim, 10 * SIM_S);
        metad_fixture_close(f);
        metad_fixture_lose(f, 0, false);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        check_some(f, 20);
        metad_fixture_deinit(f);
    }
}

/* The same while it runs: apply meets the damage, or the daily verification does. */
static void damage_at_run_time_is_refilled(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 3; n++) {
        struct metad_fixture *f = begin(n);

        put_some(f, 0, 20);
        sim_kv_fail(sim_kv_paths_at("/d0/meta/state/1"), RC_CORRUPT, 1);
        sim_run_for(f->sim, 40 * SIM_S); /* the verification */
        sim_kv_fail(sim_kv_paths_at("/d0/meta/state/1"), RC_OK, 1);
        assert_true(metad_fixture_wait(f, all_five, 60));
        check_some(f, 20);
        put_some(f, 20, 25);
        check_some(f, 25);
        metad_fixture_deinit(f);
    }
}

/* With one of two directories gone everything answered is still read, and writes are refused. */
static void one_of_two_reads_only(void **state)
{
    static const enum sim_crash ends[] = {SIM_KILL, SIM_POWER};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct metad_fixture *f = begin(2);
        struct metad_status status;

        put_some(f, 0, 20);
        if (i < 2) {
            metad_fixture_crash(f, ends[i]);
        } else {
            metad_fixture_close(f);
        }
        metad_fixture_lose(f, i % 2 == 0 ? 1 : 0, false);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        check_some(f, 20);
        metad_status(f->metad, &status);
        assert_false(status.writable);
        assert_false(f->meta->ready(f->meta));
        assert_int_equal(metad_fixture_put_inline(f, "new", "x"), RC_NO_QUORUM);
        assert_int_equal(metad_fixture_refresh(f), RC_OK);
        assert_non_null(view_bucket(f->meta->view(f->meta), SLICE("box")));
        metad_fixture_deinit(f);
    }
}

/* An empty directory in the place of the lost one: the survivor goes on and fills it. */
static void one_of_two_is_replaced(void **state)
{
    struct metad_fixture *f = begin(2);

    (void)state;
    put_some(f, 0, 20);
    metad_fixture_crash(f, SIM_POWER);
    metad_fixture_lose(f, 0, true);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    check_some(f, 20);
    put_some(f, 20, 25);
    assert_true(metad_fixture_wait(f, all_five, 60));
    sim_run_for(f->sim, 10 * SIM_S);
    metad_fixture_close(f);
    metad_fixture_lose(f, 1, false);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    check_some(f, 25);
    metad_fixture_deinit(f);
}

/* More directories than before: the group grows. */
static void a_group_grows_with_its_directories(void **state)
{
    struct metad_fixture *f = begin(1);

    (void)state;
    put_some(f, 0, 10);
    metad_fixture_close(f);
    for (uint32_t i = 1; i < 3; i++) {
        metad_fixture_lose(f, i, true);
    }
    f->directory_count = 3;
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    assert_true(metad_fixture_wait(f, all_five, 60));
    sim_run_for(f->sim, 10 * SIM_S);
    metad_fixture_close(f);
    metad_fixture_lose(f, 0, false);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    check_some(f, 10);
    put_some(f, 10, 12);
    metad_fixture_deinit(f);
}

/* Nothing to serve from is an error at once, not a hang. */
static void nothing_there_fails_to_open(void **state)
{
    struct metad_fixture *f = &fixture;

    (void)state;
    metad_fixture_init(f, 2);
    assert_int_equal(metad_fixture_open(f, false), RC_NOT_FOUND);
    assert_null(f->metad);
    metad_fixture_deinit(f);
}

/* ---- Faults under calls ---- */

/* What is not in the cache is read by a work job, with the same answer. */
static void reads_that_miss_the_cache(void **state)
{
    struct metad_fixture *f = begin(1);

    (void)state;
    put_some(f, 0, 20);
    sim_kv_paths_cache_misses("/d0", 500);
    check_some(f, 20);
    check_some(f, 20);
    metad_fixture_deinit(f);
}

/* The leader's log fails while writes come: they are tried again at the next leader and answered
 * once. */
static void writes_outlive_their_leader(void **state)
{
    struct metad_fixture *f = begin(3);
    struct metad_status status;

    (void)state;
    put_some(f, 0, 5);
    metad_status(f->metad, &status);
    for (uint32_t i = 0; i < 3; i++) {
        char path[32];

        if (strcmp(status.replicas[i].state, "serving") == 0) {
            (void)snprintf(path, sizeof(path), "/d%u/meta/log", i);
            sim_kv_fail_writes(sim_kv_paths_at(path), RC_IO, 3);
        }
    }
    put_some(f, 5, 20);
    check_some(f, 20);
    assert_int_equal(metad_fixture_count(f, "stopped"), 1);
    metad_fixture_deinit(f);
}

/* Without a majority a write is refused for sure or unknown for sure; reads go on. */
static void a_lost_majority_while_running(void **state)
{
    struct metad_fixture *f = begin(2);
    enum rc rc;

    (void)state;
    put_some(f, 0, 10);
    sim_kv_fail_writes(sim_kv_paths_at("/d1/meta/log"), RC_IO, 1);
    rc = metad_fixture_put_inline(f, "unknown", "x");
    assert_true(rc == RC_AMBIGUOUS || rc == RC_NO_QUORUM);
    assert_int_equal(metad_fixture_put_inline(f, "refused", "x"), RC_NO_QUORUM);
    check_some(f, 10);
    assert_null(metad_fixture_get(f, "refused", NULL, &rc));
    assert_int_equal(rc, RC_OK);
    sim_kv_fail_writes(sim_kv_paths_at("/d1/meta/log"), RC_OK, 1);
    metad_fixture_close(f);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    check_some(f, 10);
    put_some(f, 10, 12);
    metad_fixture_deinit(f);
}

/* A full disk takes nothing new, but deletes, and says so; with room again it goes on by itself. */
static void a_full_disk_still_deletes(void **state)
{
    struct metad_fixture *f = begin(1);
    struct sim_disk_faults *faults = sim_disk_faults(f->node, "/");
    uint64_t capacity = faults->capacity_bytes;

    (void)state;
    put_some(f, 0, 5);
    faults->capacity_bytes = sim_disk_used(f->node, "/") + 1;
    sim_run_for(f->sim, 3 * SIM_S);
    assert_int_equal(metad_fixture_put_inline(f, "new", "x"), RC_FULL);
    assert_int_equal(metad_fixture_delete(f, "k1"), RC_OK);
    faults->capacity_bytes = capacity;
    sim_run_for(f->sim, 3 * SIM_S);
    assert_int_equal(metad_fixture_put_inline(f, "new", "x"), RC_OK);
    metad_fixture_deinit(f);
}

/* A read that meets damage does not wait for the daily verification. */
static void damage_met_by_a_read(void **state)
{
    struct metad_fixture *f = begin(3);
    struct metad_status status;
    char path[32];
    enum rc rc;

    (void)state;
    put_some(f, 0, 20);
    sim_run_for(f->sim, 60 * SIM_S); /* behind the first verification */
    metad_status(f->metad, &status);
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(status.replicas[i].state, "serving") == 0) {
            (void)snprintf(path, sizeof(path), "/d%u/meta/state/1", i);
        }
    }
    sim_kv_fail(sim_kv_paths_at(path), RC_CORRUPT, 1);
    (void)metad_fixture_get(f, "k1", NULL, &rc);
    assert_int_equal(rc, RC_CORRUPT);
    sim_run_for(f->sim, 5 * SIM_S);
    sim_kv_fail(sim_kv_paths_at(path), RC_OK, 1);
    check_some(f, 20);
    assert_true(metad_fixture_wait(f, all_five, 60));
    metad_fixture_deinit(f);
}

/* ---- Views ---- */

/* A bucket that was made is found after a refresh, whoever asks. */
static void refresh_sees_what_was_answered(void **state)
{
    struct metad_fixture *f = begin(3);
    struct view *view;

    (void)state;
    assert_int_equal(metad_fixture_refresh(f), RC_OK);
    view = f->meta->view(f->meta);
    assert_non_null(view_bucket(view, SLICE("box")));
    assert_int_equal(view_bucket(view, SLICE("box"))->id, f->bucket_id);
    assert_int_equal(view_user_count(view), 1);
    metad_fixture_deinit(f);
}

/* Without a refresh the views of all loops follow soon by themselves. */
static void views_are_published(void **state)
{
    struct metad_fixture *f = begin(1);

    (void)state;
    sim_run_for(f->sim, SIM_S);
    assert_non_null(view_bucket(f->meta->view(f->meta), SLICE("box")));
    metad_fixture_deinit(f);
}

/* ---- Reclaim ---- */

static void make_group(struct metad_fixture *f)
{
    Kist__PutPlacement call = KIST__PUT_PLACEMENT__INIT;
    Kist__PlacementGroup group = KIST__PLACEMENT_GROUP__INIT;
    Kist__PlacementGroup *groups = &group;
    uint64_t disks[2] = {1, 2};
    Kist__Reply *reply;

    group.id = 1;
    group.epoch = 1;
    group.data_shards = 1;
    group.parity_shards = 1;
    group.disks = disks;
    group.n_disks = 2;
    call.groups = &groups;
    call.n_groups = 1;
    assert_int_equal(metad_fixture_write(f, META_PUT_PLACEMENT, &call.base, SLICE_EMPTY, &reply),
                     RC_OK);
}

/* Space comes back after the grace, every shard once it is due, and not before. */
static void deleted_data_is_reclaimed(void **state)
{
    struct metad_fixture *f = &fixture;

    (void)state;
    metad_fixture_init(f, 1);
    f->grace_ms = 60000;
    assert_int_equal(metad_fixture_open(f, true), RC_OK);
    metad_fixture_bucket(f);
    make_group(f);
    for (int i = 0; i < 100; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(metad_fixture_put(f, key, 1000000), RC_OK);
        assert_int_equal(metad_fixture_delete(f, key), RC_OK);
    }
    assert_int_equal(metad_fixture_put(f, "kept", 1000000), RC_OK);
    sim_run_for(f->sim, 30 * SIM_S);
    assert_int_equal(f->shards_removed, 0);
    sim_run_for(f->sim, 60 * SIM_S);
    assert_int_equal(f->shards_removed, 200);
    sim_run_for(f->sim, 60 * SIM_S);
    assert_int_equal(f->shards_removed, 200); /* the rows are gone */
    metad_fixture_deinit(f);
}

/* A disk that is away keeps the row: its shard is deleted when it is back. */
static void a_missing_disk_delays_reclaim(void **state)
{
    struct metad_fixture *f = &fixture;

    (void)state;
    metad_fixture_init(f, 1);
    f->grace_ms = 1000;
    f->remove_rc = RC_NOT_FOUND;
    assert_int_equal(metad_fixture_open(f, true), RC_OK);
    metad_fixture_bucket(f);
    make_group(f);
    assert_int_equal(metad_fixture_put(f, "a", 1000000), RC_OK);
    assert_int_equal(metad_fixture_delete(f, "a"), RC_OK);
    sim_run_for(f->sim, 60 * SIM_S);
    assert_int_equal(f->shards_removed, 0);
    f->remove_rc = RC_OK;
    sim_run_for(f->sim, 30 * SIM_S);
    assert_int_equal(f->shards_removed, 2);
    metad_fixture_deinit(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_for_directories),
        cmocka_unit_test(answered_writes_survive),
        cmocka_unit_test(an_empty_directory_is_filled),
        cmocka_unit_test(damage_at_the_start_is_refilled),
        cmocka_unit_test(damage_at_run_time_is_refilled),
        cmocka_unit_test(one_of_two_reads_only),
        cmocka_unit_test(one_of_two_is_replaced),
        cmocka_unit_test(a_group_grows_with_its_directories),
        cmocka_unit_test(nothing_there_fails_to_open),
        cmocka_unit_test(reads_that_miss_the_cache),
        cmocka_unit_test(writes_outlive_their_leader),
        cmocka_unit_test(a_lost_majority_while_running),
        cmocka_unit_test(a_full_disk_still_deletes),
        cmocka_unit_test(damage_met_by_a_read),
        cmocka_unit_test(refresh_sees_what_was_answered),
        cmocka_unit_test(views_are_published),
        cmocka_unit_test(deleted_data_is_reclaimed),
        cmocka_unit_test(a_missing_disk_delays_reclaim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
