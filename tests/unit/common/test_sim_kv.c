/* The in-memory kv: the worlds that find lost writes are only as good as what this loses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/sim_kv.h"

static const struct kv_options two_families = {
    .families = {{.name = "a"}, {.name = "b"}},
      .family_count = 2, .write_ahead_log = true
};
static const struct kv_options no_log = {
    .families = {{.name = "a"}, {.name = "b"}},
      .family_count = 2, .write_ahead_log = false
};

static struct kv *open_store(struct sim_kv_disk *disk, const struct kv_options *options)
{
    struct kv *kv = NULL;

    assert_int_equal(sim_kv_open(&kv, disk, options, NULL), RC_OK);
    return kv;
}

static void put(struct kv *kv, uint32_t family, const char *key, const char *value,
                enum kv_write_mode mode)
{
    struct kv_batch *batch = kv_batch_new();

    kv_batch_put(batch, family, slice_str(key), slice_str(value));
    assert_int_equal(kv_write(kv, batch, mode, NULL), RC_OK);
    assert_int_equal(kv_batch_count(batch), 0);
    kv_batch_free(batch);
}

static bool has(struct kv *kv, uint32_t family, const char *key, const char *value)
{
    struct kv_pin pin = {.handle = NULL};
    enum rc rc = kv_get(kv, family, slice_str(key), KV_ANY, &pin, NULL);
    bool same = rc == RC_OK && slice_eq_str(pin.value, value);

    if (rc == RC_OK) {
        kv_release(kv, &pin);
    }
    return same;
}

/* A power cut is the crash that a KV_SYNCED write must survive whatever the seed says. */
static void test_synced_survives_every_power_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct sim *sim = sim_new(seed);
        struct sim_kv_disk *disk = sim_kv_disk_new(sim);
        struct kv *kv = open_store(disk, &two_families);

        put(kv, 0, "before", "1", KV_LOGGED);
        put(kv, 1, "kept", "2", KV_SYNCED);
        sim_kv_crash(disk, SIM_POWER);
        kv = open_store(disk, &two_families);
        assert_true(has(kv, 0, "before", "1")); /* the log is one sequence */
        assert_true(has(kv, 1, "kept", "2"));
        kv_close(kv);
        sim_kv_disk_free(disk);
        sim_free(sim);
    }
}

/* What the modes do not promise must really get lost now and then, or no world would notice a bug.
 */
static void test_weaker_modes_lose(void **state)
{
    unsigned logged_lost = 0;
    unsigned unlogged_lost = 0;
    unsigned unlogged_kept = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim *sim = sim_new(seed);
        struct sim_kv_disk *disk = sim_kv_disk_new(sim);
        struct kv *kv = open_store(disk, &two_families);

        put(kv, 0, "logged", "1", KV_LOGGED);
        put(kv, 0, "unlogged", "1", KV_UNLOGGED);
        sim_kv_crash(disk, seed % 2 == 0 ? SIM_POWER : SIM_KILL);
        kv = open_store(disk, &two_families);
        if (!has(kv, 0, "logged", "1")) {
            assert_int_equal(seed % 2, 0); /* kill -9 does not lose the log */
            logged_lost += 1;
        }
        unlogged_lost += !has(kv, 0, "unlogged", "1");
        unlogged_kept += has(kv, 0, "unlogged", "1");
        kv_close(kv);
        sim_kv_disk_free(disk);
        sim_free(sim);
    }
    assert_true(logged_lost > 5);
    assert_true(unlogged_lost > 50);
    assert_true(unlogged_kept > 5);
}

/* A store without a log comes back as one point in time over all families: applied index and rows
 * agree. */
static void test_flushes_are_atomic_over_families(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim *sim = sim_new(seed);
        struct sim_kv_disk *disk = sim_kv_disk_new(sim);
        struct kv *kv = open_store(disk, &no_log);
        struct kv_batch *batch = kv_batch_new();

        for (unsigned i = 0; i < 5; i++) {
            char digit[2] = {(char)('0' + i), '\0'};

            kv_batch_put(batch, 0, SLICE("applied"), slice_str(digit));
            kv_batch_put(batch, 1, slice_str(digit), SLICE("row"));
            assert_int_equal(kv_write(kv, batch, KV_UNLOGGED, NULL), RC_OK);
            if (i == 1) {
                assert_int_equal(kv->ops->flush(kv, NULL), RC_OK);
            }
        }
        sim_kv_crash(disk, SIM_POWER);
        kv = open_store(disk, &no_log);
        struct kv_pin pin;
        assert_int_equal(kv_get(kv, 0, SLICE("applied"), KV_ANY, &pin, NULL), RC_OK);
        size_t applied = (size_t)(pin.value.data[0] - '0');
        kv_release(kv, &pin);
        assert_true(applied >= 1); /* what was flushed */
        assert_int_equal(sim_kv_rows(disk, 1), applied + 1);
        kv_batch_free(batch);
        kv_close(kv);
        sim_kv_disk_free(disk);
        sim_free(sim);
    }
}

/* Listings walk in both directions between bounds; an off-by-one here would hide one there. */
static void test_iterators_keep_bounds(void **state)
{
    struct sim_kv_disk *disk = sim_kv_disk_new(NULL);
    struct kv *kv = open_store(disk, &two_families);
    struct kv_iter_options options = {.family = 0, .lower = SLICE("b"), .upper = SLICE("d")};
    struct kv_iter *iter;

    (void)state;
    put(kv, 0, "a", "1", KV_SYNCED);
    put(kv, 0, "b", "2", KV_SYNCED);
    put(kv, 0, "c", "3", KV_SYNCED);
    put(kv, 0, "d", "4", KV_SYNCED);
    put(kv, 1, "bb", "other family", KV_SYNCED);
    iter = kv->ops->iter_open(kv, &options);
    kv->ops->iter_seek(iter, SLICE("a"));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "b"));
    kv->ops->iter_next(iter);
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "c"));
    kv->ops->iter_next(iter);
    assert_false(kv->ops->iter_valid(iter));
    assert_int_equal(kv->ops->iter_rc(iter, NULL), RC_OK);
    kv->ops->iter_seek_prev(iter, SLICE("zzz"));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "c"));
    kv->ops->iter_seek_prev(iter, SLICE("bz"));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "b"));
    kv->ops->iter_prev(iter);
    assert_false(kv->ops->iter_valid(iter));
    kv->ops->iter_close(iter);
    kv_close(kv);
    sim_kv_disk_free(disk);
}

/* A listing is one point in time: writes after the snapshot or the open must not show. */
static void test_snapshots_stand_still(void **state)
{
    struct sim_kv_disk *disk = sim_kv_disk_new(NULL);
    struct kv *kv = open_store(disk, &two_families);
    struct kv_batch *batch = kv_batch_new();
    struct kv_snapshot *snapshot;
    struct kv_iter *iter;
    struct kv_pin pin;

    (void)state;
    put(kv, 0, "k1", "old", KV_SYNCED);
    put(kv, 0, "k2", "old", KV_SYNCED);
    snapshot = kv->ops->snapshot(kv);
    kv_batch_delete_range(batch, 0, SLICE("k1"), SLICE("k2"));
    kv_batch_put(batch, 0, SLICE("k2"), SLICE("new"));
    kv_batch_put(batch, 0, SLICE("k3"), SLICE("new"));
    assert_int_equal(kv_write(kv, batch, KV_SYNCED, NULL), RC_OK);

    assert_int_equal(kv->ops->get(kv, 0, SLICE("k1"), 0, snapshot, &pin, NULL), RC_OK);
    assert_true(slice_eq_str(pin.value, "old"));
    kv_release(kv, &pin);
    iter = kv->ops->iter_open(kv, &(struct kv_iter_options){.family = 0, .snapshot = snapshot});
    kv->ops->iter_seek(iter, SLICE("k"));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "k1"));
    kv->ops->iter_next(iter);
    assert_true(slice_eq_str(kv->ops->iter_value(iter), "old"));
    kv->ops->iter_next(iter);
    assert_false(kv->ops->iter_valid(iter));
    kv->ops->iter_seek_prev(iter, SLICE("z"));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "k2"));
    kv->ops->iter_close(iter);
    kv->ops->snapshot_free(kv, snapshot);

    assert_int_equal(kv_get(kv, 0, SLICE("k1"), 0, &pin, NULL), RC_NOT_FOUND);
    assert_true(has(kv, 0, "k2", "new"));
    assert_int_equal(sim_kv_rows(disk, 0), 2);
    kv_batch_free(batch);
    kv_close(kv);
    sim_kv_disk_free(disk);
}

/* A value that was pinned stays readable when its row is overwritten: a GET is being sent from it.
 */
static void test_pins_outlive_their_row(void **state)
{
    struct sim_kv_disk *disk = sim_kv_disk_new(NULL);
    struct kv *kv = open_store(disk, &two_families);
    struct kv_pin pin;

    (void)state;
    put(kv, 0, "k", "first", KV_SYNCED);
    assert_int_equal(kv_get(kv, 0, SLICE("k"), 0, &pin, NULL), RC_OK);
    put(kv, 0, "k", "second", KV_SYNCED);
    assert_true(slice_eq_str(pin.value, "first"));
    kv_release(kv, &pin);
    kv_close(kv);
    sim_kv_disk_free(disk);
}

/* Failures come when asked for, change nothing, and heal. */
static void test_faults(void **state)
{
    struct sim_kv_disk *disk = sim_kv_disk_new(NULL);
    struct kv *kv = open_store(disk, &two_families);
    struct kv_batch *batch = kv_batch_new();
    struct kv_pin pin;

    (void)state;
    put(kv, 0, "k", "v", KV_SYNCED);
    sim_kv_fail(disk, RC_CORRUPT, 2);
    assert_true(has(kv, 0, "k", "v"));
    assert_int_equal(kv_get(kv, 0, SLICE("k"), 0, &pin, NULL), RC_CORRUPT);
    sim_kv_fail(disk, RC_OK, 0);
    sim_kv_fail_writes(disk, RC_FULL, 1);
    kv_batch_put(batch, 0, SLICE("k"), SLICE("w"));
    assert_int_equal(kv_write(kv, batch, KV_SYNCED, NULL), RC_FULL);
    assert_int_equal(kv_batch_count(batch), 1); /* a failed batch is not cleared */
    assert_true(has(kv, 0, "k", "v"));
    kv_batch_free(batch);
    kv_close(kv);
    sim_kv_disk_free(disk);
}

/* Random changes against a table of 64 slots, with snapshots coming and going, agree with it. */
static void test_model(void **state)
{
    struct sim *sim = sim_new(7);
    struct sim_kv_disk *disk = sim_kv_disk_new(sim);
    struct kv *kv = open_store(disk, &two_families);
    struct kv_snapshot *snapshot = NULL;
    bool model[64] = {false};

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t key = (uint8_t)sim_below(sim, 64);
        struct kv_batch *batch = kv_batch_new();
        struct slice name = slice_of(&key, 1);

        model[key] = sim_chance(sim, 500);
        if (model[key]) {
            kv_batch_put(batch, 0, name, SLICE("v"));
        } else {
            kv_batch_delete(batch, 0, name);
        }
        assert_int_equal(kv_write(kv, batch, KV_LOGGED, NULL), RC_OK);
        kv_batch_free(batch);
        if (snapshot == NULL) {
            snapshot = kv->ops->snapshot(kv);
        } else if (sim_chance(sim, 100)) {
            kv->ops->snapshot_free(kv, snapshot);
            snapshot = NULL;
        }
    }
    size_t live = 0;
    for (unsigned i = 0; i < 64; i++) {
        live += model[i];
    }
    assert_int_equal(sim_kv_rows(disk, 0), live);
    if (snapshot != NULL) {
        kv->ops->snapshot_free(kv, snapshot);
    }
    assert_int_equal(sim_kv_rows(disk, 0), live);
    kv_close(kv);
    sim_kv_disk_free(disk);
    sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synced_survives_every_power_cut),
        cmocka_unit_test(test_weaker_modes_lose),
        cmocka_unit_test(test_flushes_are_atomic_over_families),
        cmocka_unit_test(test_iterators_keep_bounds),
        cmocka_unit_test(test_snapshots_stand_still),
        cmocka_unit_test(test_pins_outlive_their_row),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
