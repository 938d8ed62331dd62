/* The log store: what is durable comes back whole, what is damaged never passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/codec/hex.h"
#include "metad/log/log_rows.h"
#include "metad/log/log_store.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/sim_kv.h"

#define GROUP  7
#define GOLDEN "tests/golden/metad_log_v1.txt"

enum { ENTRIES_MAX = 64, LARGE = 5000 };

struct fixture {
    struct env *env;
    struct sim_kv_disk *disk;
    struct kv *kv;
    struct log_store *store;
    struct error error;
};

struct pending {
    struct log_write write;
    bool done;
};

struct loaded {
    struct log_load load;
    uint64_t terms[ENTRIES_MAX];
    uint32_t lens[ENTRIES_MAX];
    char first[ENTRIES_MAX];
    uint32_t count;
};

static void open_store(struct fixture *f)
{
    struct kv_options options = {0};

    log_store_kv_options(&options);
    assert_int_equal(sim_kv_open(&f->kv, f->disk, &options, &f->error), RC_OK);
    assert_int_equal(log_store_open(&f->store, f->env, f->kv, &f->error), RC_OK);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->env = sim_env_alone(1);
    f->disk = sim_kv_disk_new(sim_of(f->env));
    open_store(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->store != NULL) {
        log_store_close(f->store);
    }
    sim_kv_disk_free(f->disk);
    sim_free(sim_of(f->env));
    free(f);
    return 0;
}

static void write_done(struct log_write *write)
{
    CONTAINER_OF(write, struct pending, write)->done = true;
}

static enum rc write_wait(struct fixture *f, struct log_write write)
{
    struct pending pending = {.write = write};

    pending.write.done = write_done;
    pending.write.group = GROUP;
    log_store_write(f->store, f->env, &pending.write);
    while (!pending.done) {
        assert_true(sim_step(sim_of(f->env)));
    }
    return pending.write.rc;
}

static enum rc append(struct fixture *f, uint64_t index, uint64_t term, uint32_t len, char fill)
{
    static char bytes[LARGE];
    const struct log_entry entry = {.term = term, .type = ENTRY_COMMAND, .data = bytes, .len = len};

    memset(bytes, fill, len);
    return write_wait(f, (struct log_write){.what = LOG_WRITE_ENTRIES | LOG_WRITE_TERM,
                                            .term = term,
                                            .vote = 3,
                                            .first_index = index,
                                            .entries = &entry,
                                            .entry_count = 1});
}

static void loaded_entry(struct log_load *load, uint64_t index, const struct log_entry *entry)
{
    struct loaded *loaded = CONTAINER_OF(load, struct loaded, load);

    (void)index;
    loaded->terms[loaded->count] = entry->term;
    loaded->lens[loaded->count] = entry->len;
    loaded->first[loaded->count] = entry->len > 0 ? entry->data[0] : 0;
    loaded->count++;
}

static enum rc load(struct fixture *f, struct loaded *loaded)
{
    *loaded = (struct loaded){.load.entry = loaded_entry};
    return log_store_load(f->store, GROUP, &loaded->load, &f->error);
}

static struct log_snapshot snapshot_at(uint64_t index, uint64_t term)
{
    struct log_snapshot snapshot = {.index = index, .term = term, .configuration_index = 1};

    snapshot.configuration_len = 4;
    memcpy(snapshot.configuration, "\x01\x00\x00\x00", 4);
    return snapshot;
}

/* What completed comes back as it was, large bodies too. (Power cuts: test_raft_faults.c.) */
static void completed_writes_come_back(void **state)
{
    struct fixture *f = *state;
    struct loaded loaded;

    assert_int_equal(append(f, 1, 1, 10, 'a'), RC_OK);
    assert_int_equal(append(f, 2, 2, LARGE, 'b'), RC_OK);
    log_store_close(f->store);
    open_store(f);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.count, 2);
    assert_int_equal(loaded.terms[1], 2);
    assert_int_equal(loaded.lens[1], LARGE);
    assert_int_equal(loaded.first[1], 'b');
    assert_int_equal(loaded.load.state.term, 2);
    assert_int_equal(loaded.load.state.vote, 3);
    assert_int_equal(loaded.load.state.last_index, 2);
}

/* A follower's conflicting tail goes with the write that replaces it, never alone. */
static void truncation_and_new_entries_are_one_write(void **state)
{
    struct fixture *f = *state;
    const struct log_entry entry = {.term = 3, .type = ENTRY_COMMAND, .data = "n", .len = 1};
    struct loaded loaded;

    for (uint64_t index = 1; index <= 5; index++) {
        assert_int_equal(append(f, index, 1, 4, 'o'), RC_OK);
    }
    assert_int_equal(
        write_wait(f, (struct log_write){.what = LOG_WRITE_TRUNCATE | LOG_WRITE_ENTRIES,
                                         .truncate_from = 3,
                                         .first_index = 3,
                                         .entries = &entry,
                                         .entry_count = 1}),
        RC_OK);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.count, 3);
    assert_int_equal(loaded.terms[2], 3);
}

/* After a trim the log begins at the snapshot, with the trailing entries that were kept. */
static void trim_keeps_the_tail(void **state)
{
    struct fixture *f = *state;
    const struct log_snapshot snapshot = snapshot_at(4, 1);
    struct loaded loaded;

    for (uint64_t index = 1; index <= 6; index++) {
        assert_int_equal(append(f, index, 1, 4, 't'), RC_OK);
    }
    assert_int_equal(
        write_wait(
            f, (struct log_write){.what = LOG_WRITE_TRIM, .trim_below = 3, .snapshot = &snapshot}),
        RC_OK);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.load.state.first_index, 3);
    assert_int_equal(loaded.load.state.last_index, 6);
    assert_int_equal(loaded.load.state.snapshot.index, 4);
    assert_int_equal(loaded.load.state.snapshot.configuration_len, 4);
}

/* Between `installing` and `installed` a restart must find what to repeat; afterwards nothing of
 * the old log. */
static void installation_leaves_its_records(void **state)
{
    struct fixture *f = *state;
    const struct log_snapshot snapshot = snapshot_at(90, 8);
    struct loaded loaded;

    assert_int_equal(append(f, 1, 1, 4, 'i'), RC_OK);
    assert_int_equal(
        write_wait(f, (struct log_write){.what = LOG_WRITE_INSTALLING, .snapshot = &snapshot}),
        RC_OK);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.load.state.installing.index, 90);
    assert_int_equal(loaded.count, 1);
    assert_int_equal(
        write_wait(f, (struct log_write){.what = LOG_WRITE_INSTALLED, .snapshot = &snapshot}),
        RC_OK);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.load.state.installing.index, 0);
    assert_int_equal(loaded.load.state.first_index, 91);
    assert_int_equal(loaded.load.state.last_index, 90);
    assert_int_equal(loaded.count, 0);
}

static void damage(struct fixture *f, uint32_t family, struct slice key, size_t at)
{
    struct kv_batch *batch = kv_batch_new();
    struct kv_pin pin;
    char value[256] = {0};

    assert_int_equal(kv_get(f->kv, family, key, KV_ANY, &pin, &f->error), RC_OK);
    assert_true(pin.value.len < sizeof(value) && at < pin.value.len);
    memcpy(value, pin.value.data, pin.value.len);
    value[at] ^= 4;
    kv_batch_put(batch, family, key, slice_of(value, pin.value.len));
    kv_release(f->kv, &pin);
    assert_int_equal(kv_write(f->kv, batch, KV_SYNCED, &f->error), RC_OK);
    kv_batch_free(batch);
}

/* One flipped bit anywhere in a row is found: the replica must be refilled, not believed. */
static void flipped_bits_are_found(void **state)
{
    struct fixture *f = *state;
    struct loaded loaded;
    char key[LOG_ENTRY_KEY_BYTES];
    char group_key[LOG_GROUP_KEY_BYTES];

    assert_int_equal(append(f, 1, 1, 8, 'd'), RC_OK);
    log_entry_key(key, GROUP, 1);
    log_group_key(group_key, GROUP, LOG_ROW_TERM);
    for (size_t at = 0; at < LOG_ENTRY_HEADER_BYTES + 8; at++) {
        damage(f, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), at);
        assert_int_equal(load(f, &loaded), RC_CORRUPT);
        damage(f, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), at);
        assert_int_equal(load(f, &loaded), RC_OK);
    }
    for (size_t at = 0; at < LOG_ROW_HEADER_BYTES + 16; at++) {
        damage(f, LOG_FAMILY_GROUPS, slice_of(group_key, sizeof(group_key)), at);
        assert_int_equal(load(f, &loaded), RC_CORRUPT);
        damage(f, LOG_FAMILY_GROUPS, slice_of(group_key, sizeof(group_key)), at);
    }
}

/* A row that is whole but stands at another index is damage, too; so is a gap. */
static void gaps_and_misplaced_rows_are_found(void **state)
{
    struct fixture *f = *state;
    struct loaded loaded;
    struct kv_batch *batch = kv_batch_new();
    char key[LOG_ENTRY_KEY_BYTES];
    struct kv_pin pin;

    for (uint64_t index = 1; index <= 4; index++) {
        assert_int_equal(append(f, index, 1, 4, 'g'), RC_OK);
    }
    log_entry_key(key, GROUP, 2);
    kv_batch_delete(batch, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)));
    assert_int_equal(kv_write(f->kv, batch, KV_SYNCED, &f->error), RC_OK);
    assert_int_equal(load(f, &loaded), RC_CORRUPT);

    log_entry_key(key, GROUP, 3);
    assert_int_equal(
        kv_get(f->kv, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), KV_ANY, &pin, &f->error),
        RC_OK);
    log_entry_key(key, GROUP, 2);
    kv_batch_put(batch, LOG_FAMILY_ENTRIES, slice_of(key, sizeof(key)), pin.value);
    kv_release(f->kv, &pin);
    assert_int_equal(kv_write(f->kv, batch, KV_SYNCED, &f->error), RC_OK);
    kv_batch_free(batch);
    assert_int_equal(load(f, &loaded), RC_CORRUPT);
}

struct watcher {
    struct log_watch watch;
    uint32_t told;
};

static void watcher_failed(struct log_watch *watch, const struct error *error)
{
    assert_int_equal(error->rc, RC_IO);
    CONTAINER_OF(watch, struct watcher, watch)->told++;
}

/* After a failed sync no later write may succeed, and every replica hears of it, once. */
static void failed_sync_is_final(void **state)
{
    struct fixture *f = *state;
    struct watcher watcher = {.watch.failed = watcher_failed};

    log_store_watch(f->store, &watcher.watch);
    sim_kv_fail_writes(f->disk, RC_IO, 1);
    assert_int_equal(append(f, 1, 1, 4, 'f'), RC_IO);
    sim_kv_fail_writes(f->disk, RC_OK, 1);
    assert_int_equal(append(f, 2, 1, 4, 'f'), RC_IO);
    assert_int_equal(watcher.told, 1);
    log_store_unwatch(&watcher.watch);
}

/* Many writes of one moment share one sync, and complete in order. */
static void pending_writes_share_a_batch(void **state)
{
    struct fixture *f = *state;
    static struct pending pending[ENTRIES_MAX];
    static const struct log_entry entry = {.term = 1, .type = ENTRY_COMMAND, .data = "x", .len = 1};
    const uint64_t before = sim_kv_calls(f->disk);

    memset(pending, 0, sizeof(pending));
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        pending[i].write = (struct log_write){.done = write_done,
                                              .what = LOG_WRITE_ENTRIES,
                                              .group = GROUP,
                                              .first_index = i + 1,
                                              .entries = &entry,
                                              .entry_count = 1};
        log_store_write(f->store, f->env, &pending[i].write);
    }
    while (!pending[ENTRIES_MAX - 1].done) {
        assert_true(sim_step(sim_of(f->env)));
    }
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        assert_true(pending[i].done);
        assert_int_equal(pending[i].write.rc, RC_OK);
    }
    assert_true(sim_kv_calls(f->disk) - before <= 8);
}

/* Slow followers read runs back, bounded by bytes and by the end of the log. */
static void reads_are_bounded_runs(void **state)
{
    struct fixture *f = *state;
    struct log_entry entries[4];
    struct log_read read = {
        .group = GROUP, .from = 2, .to = 9, .bytes_max = 1000, .entries = entries, .entry_max = 4};

    for (uint64_t index = 1; index <= 5; index++) {
        assert_int_equal(append(f, index, 1, 400, (char)('a' + index)), RC_OK);
    }
    assert_int_equal(log_store_read(f->store, &read, &f->error), RC_OK);
    assert_int_equal(read.entry_count, 3); /* 2 and 3 are below the bound, 4 passes it */
    assert_int_equal(entries[2].data[0], 'a' + 4);
    assert_int_equal(read.block->refs, 3);
    for (uint32_t i = 0; i < read.entry_count; i++) {
        entry_block_unref(entries[i].block);
    }
    read.from = 6;
    assert_int_equal(log_store_read(f->store, &read, &f->error), RC_NOT_FOUND);
}

/* A wiped group is as new, but the ids that were removed stay refused. */
static void wipe_keeps_the_tombstone(void **state)
{
    struct fixture *f = *state;
    struct loaded loaded;
    uint64_t lowest = 0;

    assert_int_equal(log_store_create(f->store, GROUP, 12, SLICE_EMPTY, &f->error), RC_OK);
    assert_int_equal(append(f, 1, 1, 4, 'w'), RC_OK);
    assert_int_equal(log_store_set_tombstone(f->store, GROUP, 13, &f->error), RC_OK);
    assert_int_equal(log_store_set_tombstone(f->store, GROUP, 5, &f->error), RC_OK);
    assert_int_equal(log_store_wipe(f->store, GROUP, &f->error), RC_OK);
    assert_int_equal(load(f, &loaded), RC_OK);
    assert_int_equal(loaded.load.state.replica_id, 0);
    assert_int_equal(loaded.count, 0);
    assert_int_equal(log_store_tombstone(f->store, GROUP, &lowest, &f->error), RC_OK);
    assert_int_equal(lowest, 13);
}

static void hex_of(struct slice bytes, char *out)
{
    hex_encode(out, bytes.data, bytes.len);
    out[2 * bytes.len] = '\0';
}

static void golden_rows(struct fixture *f)
{
    const struct log_entry entry = {.term = 5, .type = ENTRY_COMMAND, .data = "put", .len = 3};
    const struct log_snapshot snapshot = snapshot_at(40, 4);

    assert_int_equal(log_store_create(f->store, GROUP, 12, SLICE_EMPTY, &f->error), RC_OK);
    assert_int_equal(log_store_set_tombstone(f->store, GROUP, 11, &f->error), RC_OK);
    assert_int_equal(write_wait(f, (struct log_write){.what = LOG_WRITE_TRIM | LOG_WRITE_INSTALLING,
                                                      .trim_below = 1,
                                                      .snapshot = &snapshot}),
                     RC_OK);
    assert_int_equal(write_wait(f, (struct log_write){.what = LOG_WRITE_TERM | LOG_WRITE_ENTRIES,
                                                      .term = 5,
                                                      .vote = 12,
                                                      .first_index = 41,
                                                      .entries = &entry,
                                                      .entry_count = 1}),
                     RC_OK);
}

/* False: the file ended. */
static bool golden_line(FILE *file, bool renew, const char *line)
{
    char want[1024] = "";

    if (renew) {
        return fputs(line, file) >= 0;
    }
    if (fgets(want, sizeof(want), file) == NULL) {
        return false;
    }
    assert_string_equal(line, want);
    return true;
}

static bool golden_family(struct fixture *f, FILE *file, bool renew, uint32_t family)
{
    const struct kv_ops *ops = f->kv->ops;
    const struct kv_iter_options options = {.family = family};
    struct kv_iter *iter = ops->iter_open(f->kv, &options);
    bool same = true;

    for (ops->iter_seek(iter, SLICE_EMPTY); same && ops->iter_valid(iter); ops->iter_next(iter)) {
        char key[64];
        char value[512];
        char line[600];

        hex_of(ops->iter_key(iter), key);
        hex_of(ops->iter_value(iter), value);
        (void)snprintf(line, sizeof(line), "%u %s %s\n", family, key, value);
        same = golden_line(file, renew, line);
    }
    ops->iter_close(iter);
    return same;
}

/* What the first release wrote is what this one writes, byte for byte; and this one reads it. */
static void golden_rows_are_unchanged(void **state)
{
    struct fixture *f = *state;
    const bool renew =
        getenv("GOLDEN_WRITE") != NULL; /* NOLINT(concurrency-mt-unsafe): one thread */
    FILE *file = fopen(GOLDEN, renew ? "w" : "r");

    golden_rows(f);
    if (file == NULL) {
        fail_msg("%s: cannot be opened", GOLDEN);
        return;
    }
    assert_true(golden_family(f, file, renew, LOG_FAMILY_GROUPS) &&
                golden_family(f, file, renew, LOG_FAMILY_ENTRIES));
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(completed_writes_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(truncation_and_new_entries_are_one_write, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(trim_keeps_the_tail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(installation_leaves_its_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flipped_bits_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gaps_and_misplaced_rows_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_sync_is_final, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pending_writes_share_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_are_bounded_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wipe_keeps_the_tombstone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(golden_rows_are_unchanged, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
