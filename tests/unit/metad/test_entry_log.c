/* The log in memory: terms, configurations and cached entries stay right through truncation and
 * trimming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "metad/raft/entry_log.h"

static const struct log_snapshot no_snapshot;

static void put(struct entry_log *log, uint64_t index, uint64_t term, uint32_t len, uint32_t type)
{
    struct entry_block *block = mem_alloc(sizeof(*block) + len);
    const struct log_entry entry = {
        .term = term, .type = type, .block = block, .data = block->bytes, .len = len};

    block->refs = 1;
    block->len = len;
    entry_log_append(log, index, &entry, 1);
}

static struct log_snapshot snapshot_at(uint64_t index, uint64_t term)
{
    return (struct log_snapshot){
        .index = index, .term = term, .configuration_index = 1, .configuration_len = 4};
}

/* A new leader's entries replace an old leader's: terms and configurations of these are gone. */
static void truncation_forgets_the_tail(void **state)
{
    struct entry_log log;

    (void)state;
    entry_log_init(&log);
    entry_log_begin(&log, &no_snapshot, 1);
    put(&log, 1, 1, 10, ENTRY_CHANGE);
    for (uint64_t index = 2; index <= 10; index++) {
        put(&log, index, 2, 10, index == 8 ? ENTRY_CHANGE : ENTRY_COMMAND);
    }
    log.persisted = 10;
    assert_int_equal(entry_log_change_at(&log, 10)->index, 8);
    put(&log, 6, 3, 10, ENTRY_COMMAND);
    assert_int_equal(log.last_index, 6);
    assert_int_equal(log.persisted, 5);
    assert_int_equal(log.epoch, 1);
    assert_int_equal(entry_log_term(&log, 5), 2);
    assert_int_equal(entry_log_term(&log, 6), 3);
    assert_int_equal(entry_log_term(&log, 7), 0);
    assert_int_equal(entry_log_change_at(&log, 10)->index, 1);
    assert_null(entry_log_change_after(&log, 1));
    entry_log_deinit(&log);
}

/* What is evicted is only on disk; its term stays known. */
static void eviction_keeps_terms(void **state)
{
    struct entry_log log;

    (void)state;
    entry_log_init(&log);
    entry_log_begin(&log, &no_snapshot, 1);
    for (uint64_t index = 1; index <= 3000; index++) {
        put(&log, index, index <= 1500 ? 1 : 2, 100, ENTRY_COMMAND);
    }
    entry_log_evict(&log, 2000, 0);
    assert_null(entry_log_get(&log, 2000));
    assert_non_null(entry_log_get(&log, 2001));
    assert_int_equal(entry_log_term(&log, 7), 1);
    assert_int_equal(entry_log_get(&log, 3000)->term, 2);
    put(&log, 1800, 5, 100, ENTRY_COMMAND); /* truncated below what is cached */
    assert_int_equal(log.cache_first, 1800);
    assert_int_equal(entry_log_get(&log, 1800)->term, 5);
    entry_log_deinit(&log);
}

/* After a trim the snapshot's own term is still known: the next message to a follower needs it. */
static void trim_keeps_the_boundary(void **state)
{
    struct log_snapshot snapshot = snapshot_at(50, 1);
    struct entry_log log;

    (void)state;
    entry_log_init(&log);
    entry_log_begin(&log, &no_snapshot, 1);
    put(&log, 1, 1, 4, ENTRY_CHANGE);
    for (uint64_t index = 2; index <= 60; index++) {
        put(&log, index, index <= 55 ? 1 : 2, 10, ENTRY_COMMAND);
    }
    entry_log_trim(&log, &snapshot, 51);
    assert_int_equal(log.first_index, 51);
    assert_int_equal(entry_log_term(&log, 50), 1);
    assert_int_equal(entry_log_term(&log, 49), 0);
    assert_int_equal(entry_log_term(&log, 51), 1);
    assert_int_equal(entry_log_term(&log, 60), 2);
    assert_int_equal(entry_log_change_at(&log, 60)->index, 1);
    snapshot = snapshot_at(100, 9);
    entry_log_reset(&log, &snapshot);
    assert_int_equal(log.last_index, 100);
    assert_int_equal(entry_log_term(&log, 100), 9);
    assert_int_equal(entry_log_term(&log, 60), 0);
    put(&log, 101, 9, 10, ENTRY_COMMAND);
    assert_int_equal(entry_log_term(&log, 101), 9);
    entry_log_deinit(&log);
}

/* About the asked bytes are kept behind a flush for slow followers: never much more, never the
 * unflushed. */
static void keep_from_follows_bytes(void **state)
{
    struct entry_log log;
    uint64_t from = 0;

    (void)state;
    entry_log_init(&log);
    entry_log_begin(&log, &no_snapshot, 1);
    for (uint64_t index = 1; index <= 1000; index++) {
        put(&log, index, 1, 10000, ENTRY_COMMAND);
    }
    from = entry_log_keep_from(&log, 1000, 2ULL * 1024 * 1024);
    assert_true(from > 1000 - 220 && from < 1000 - 150);
    assert_int_equal(entry_log_keep_from(&log, 500, 0), 501);
    assert_int_equal(entry_log_keep_from(&log, 1000, 1ULL << 40), 1);
    entry_log_deinit(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncation_forgets_the_tail),
        cmocka_unit_test(eviction_keeps_terms),
        cmocka_unit_test(trim_keeps_the_boundary),
        cmocka_unit_test(keep_from_follows_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
