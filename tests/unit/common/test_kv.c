/*
 * kv.h on RocksDB: what metad and datad lean on. Durability across a process that dies is tested
 * with a child that leaves by _exit().
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/kv/kv.h"

enum { PLAIN = 0, BODIES = 1 };

struct fixture {
    char path[64];
};

static int setup(void **state)
{
    static struct fixture f;

    (void)snprintf(f.path, sizeof(f.path), "/tmp/kist-test-kv-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    const struct fixture *f = *state;
    DIR *directory = opendir(f->path);
    char name[512];

    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        (void)snprintf(name, sizeof(name), "%s/%s", f->path, entry->d_name);
        (void)unlink(name);
    }
    (void)closedir(directory);
    return rmdir(f->path);
}

static enum rc open_store(const struct fixture *f, bool log, struct kv **kv, struct error *error)
{
    struct kv_options options = {
        .path = f->path,
        .families = {{.name = "plain", .whole_key_filter = true},
                     {.name = "bodies", .blobs = true, .blob_bytes_min = 1024}},
        .family_count = 2,
        .write_ahead_log = log,
    };

    return kv_rocksdb_open(kv, &options, error);
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

static void expect(struct kv *kv, uint32_t family, const char *key, const char *value)
{
    struct kv_pin pin = {0};
    enum rc rc = kv_get(kv, family, slice_str(key), KV_ANY, &pin, NULL);

    if (value == NULL) {
        assert_int_equal(rc, RC_NOT_FOUND);
        return;
    }
    assert_int_equal(rc, RC_OK);
    assert_int_equal(pin.value.len, strlen(value));
    assert_memory_equal(pin.value.data, value, pin.value.len);
    kv_release(kv, &pin);
}

/* Everything else reads and writes through these. */
static void reads_what_was_written(void **state)
{
    struct kv *kv;
    struct kv_iter *iter;
    struct kv_snapshot *snapshot;
    struct kv_pin pin = {0};
    struct error error;

    assert_int_equal(open_store(*state, true, &kv, &error), RC_OK);
    put(kv, PLAIN, "a", "1", KV_LOGGED);
    put(kv, PLAIN, "b", "2", KV_LOGGED);
    put(kv, PLAIN, "c", "3", KV_LOGGED);
    snapshot = kv->ops->snapshot(kv);
    put(kv, PLAIN, "b", "new", KV_SYNCED);
    expect(kv, PLAIN, "b", "new");
    assert_int_equal(kv->ops->get(kv, PLAIN, SLICE("b"), KV_ANY, snapshot, &pin, NULL), RC_OK);
    assert_true(slice_eq_str(pin.value, "2"));
    kv_release(kv, &pin);
    kv->ops->snapshot_free(kv, snapshot);

    iter = kv->ops->iter_open(
        kv, &(struct kv_iter_options){.family = PLAIN, .lower = SLICE("b"), .upper = SLICE("c")});
    kv->ops->iter_seek(iter, SLICE("a"));
    assert_true(kv->ops->iter_valid(iter));
    assert_true(slice_eq_str(kv->ops->iter_key(iter), "b"));
    kv->ops->iter_next(iter);
    assert_false(kv->ops->iter_valid(iter));
    assert_int_equal(kv->ops->iter_rc(iter, NULL), RC_OK);
    kv->ops->iter_close(iter);
    kv_close(kv);
}

/* Readers of two families rely on it: no write between two equal numbers, whatever is flushed. */
static void sequence_rises_with_every_write(void **state)
{
    struct error error;
    struct kv *kv;
    uint64_t before;

    assert_int_equal(open_store(*state, false, &kv, &error), RC_OK);
    put(kv, PLAIN, "a", "1", KV_UNLOGGED);
    before = kv->ops->sequence(kv);
    expect(kv, PLAIN, "a", "1");
    assert_int_equal(kv->ops->flush(kv, &error), RC_OK);
    assert_int_equal(kv->ops->sequence(kv), before);
    put(kv, BODIES, "b", "2", KV_UNLOGGED);
    assert_true(kv->ops->sequence(kv) > before);
    kv_close(kv);
}

/* A deleted range must not show one key, and must end where it says. */
static void delete_range_ends_before_its_end(void **state)
{
    struct kv *kv;
    struct kv_batch *batch = kv_batch_new();

    assert_int_equal(open_store(*state, true, &kv, NULL), RC_OK);
    put(kv, PLAIN, "a", "1", KV_LOGGED);
    put(kv, PLAIN, "b", "2", KV_LOGGED);
    put(kv, PLAIN, "c", "3", KV_LOGGED);
    kv_batch_delete_range(batch, PLAIN, SLICE("a"), SLICE("c"));
    assert_int_equal(kv_write(kv, batch, KV_LOGGED, NULL), RC_OK);
    expect(kv, PLAIN, "a", NULL);
    expect(kv, PLAIN, "b", NULL);
    expect(kv, PLAIN, "c", "3");
    kv_batch_free(batch);
    kv_close(kv);
}

/* A process of its own: RocksDB's threads do not outlive a fork. */
static void run_child(const struct fixture *f, const char *role)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)execl("/proc/self/exe", "test_kv", role, f->path, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int child_synced(const struct fixture *f)
{
    struct kv *kv;

    if (open_store(f, true, &kv, NULL) != RC_OK) {
        return 1;
    }
    put(kv, PLAIN, "entry", "kept", KV_SYNCED);
    return 0;
}

static int child_unlogged(const struct fixture *f)
{
    struct kv *kv;

    if (open_store(f, false, &kv, NULL) != RC_OK) {
        return 1;
    }
    put(kv, PLAIN, "applied", "7", KV_UNLOGGED);
    put(kv, BODIES, "row", "seven", KV_UNLOGGED);
    if (kv->ops->flush(kv, NULL) != RC_OK) {
        return 2;
    }
    put(kv, PLAIN, "applied", "8", KV_UNLOGGED);
    put(kv, BODIES, "row", "eight", KV_UNLOGGED);
    return 0;
}

/* The raft log: what was synced is there after a death without any close. */
static void synced_write_survives_death(void **state)
{
    struct kv *kv;

    run_child(*state, "synced");
    assert_int_equal(open_store(*state, true, &kv, NULL), RC_OK);
    expect(kv, PLAIN, "entry", "kept");
    kv_close(kv);
}

/* The state store: a flush is atomic over families, and what came after it is gone, in all of them.
 */
static void unlogged_write_survives_by_flush_only(void **state)
{
    struct kv *kv;

    run_child(*state, "unlogged");
    assert_int_equal(open_store(*state, false, &kv, NULL), RC_OK);
    expect(kv, PLAIN, "applied", "7");
    expect(kv, BODIES, "row", "seven");
    kv_close(kv);
}

/* Two processes on one directory would destroy it. */
static void second_open_is_refused(void **state)
{
    struct kv *kv;
    struct kv *other;
    struct error error;

    assert_int_equal(open_store(*state, true, &kv, NULL), RC_OK);
    assert_int_equal(open_store(*state, true, &other, &error), RC_LOCKED);
    kv_close(kv);
}

static void flip_byte(const struct fixture *f, const char *suffix)
{
    DIR *directory = opendir(f->path);
    char name[512];
    int flipped = 0;

    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char byte;
        int file;

        if (strstr(entry->d_name, suffix) == NULL) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s/%s", f->path, entry->d_name);
        file = open(name, O_RDWR);
        assert_int_equal(pread(file, &byte, 1, 100), 1);
        byte = (char)(byte ^ 0x40);
        assert_int_equal(pwrite(file, &byte, 1, 100), 1);
        (void)close(file);
        flipped += 1;
    }
    (void)closedir(directory);
    assert_true(flipped > 0);
}

/* A replica whose files rot must notice, in tables and in blob files. */
static void verify_finds_flipped_bytes(void **state)
{
    static const char *const suffixes[] = {".sst", ".blob"};

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        struct kv *kv;
        struct error error;
        struct buffer value;

        buffer_init(&value);
        memset(buffer_reserve(&value, 5000), 'x', 5000);
        value.len = 4999;
        buffer_append_byte(&value, '\0');
        assert_int_equal(open_store(*state, false, &kv, NULL), RC_OK);
        put(kv, PLAIN, "key", value.data, KV_UNLOGGED);
        put(kv, BODIES, "key", value.data, KV_UNLOGGED);
        assert_int_equal(kv->ops->flush(kv, NULL), RC_OK);
        assert_int_equal(kv->ops->verify(kv, &error), RC_OK);
        kv_close(kv);
        flip_byte(*state, suffixes[i]);
        if (open_store(*state, false, &kv, &error) == RC_OK) {
            assert_int_equal(kv->ops->verify(kv, &error), RC_CORRUPT);
            kv_close(kv);
        }
        flip_byte(*state, suffixes[i]);
        buffer_deinit(&value);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(sequence_rises_with_every_write, setup, teardown),
        cmocka_unit_test_setup_teardown(delete_range_ends_before_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(synced_write_survives_death, setup, teardown),
        cmocka_unit_test_setup_teardown(unlogged_write_survives_by_flush_only, setup, teardown),
        cmocka_unit_test_setup_teardown(second_open_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(verify_finds_flipped_bytes, setup, teardown),
    };

    if (argc == 3) {
        struct fixture f;

        (void)snprintf(f.path, sizeof(f.path), "%s", argv[2]);
        _exit(strcmp(argv[1], "synced") == 0 ? child_synced(&f) : child_unlogged(&f));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
