#include "common/kv/kv_rocksdb_options.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum {
    CACHE_BYTES_DEFAULT = 8 * 1024 * 1024,
    MEMTABLE_BYTES_DEFAULT = 8 * 1024 * 1024,
    MEMTABLE_COUNT_MAX = 4,
    OPEN_FILES_MAX = 512,
    BLOB_FILE_BYTES = 64 * 1024 * 1024,
    LOG_BYTES_MAX = 128 * 1024 * 1024, /* of RocksDB's own write-ahead log before it flushes */
    SYNC_STEP_BYTES = 1024 * 1024,
    FORMAT_VERSION = 5,
    CHECKSUM_XXH3 = 4,         /* Debian's build computes CRC32C by tables: some 15 us per 8 KiB */
    RECOVER_TOLERATE_TAIL = 0, /* an incomplete last record only; damage before it is an error */
    /* Its log file stands on the disk of the data, and a second line after one that found no space
     * is an assertion of Debian's build: the process would end with the disk's last byte. */
    INFO_LOG_FATAL = 4,
    DATA_BLOCK_BINARY_AND_HASH = 1
};

static const double FILTER_BITS_PER_KEY = 10.0;
static const double BLOB_GC_AGE = 0.5;
static const double BLOB_GC_FORCE = 0.5;

struct kv_cache {
    rocksdb_cache_t *handle;
};

struct kv_drop {
    bool (*drop)(void *arg, struct slice key, struct slice value);
    void *arg;
};

struct kv_cache *kv_cache_new(uint64_t bytes)
{
    struct kv_cache *cache = mem_alloc(sizeof(*cache));

    cache->handle = rocksdb_cache_create_lru(bytes);
    return cache;
}

void kv_cache_free(struct kv_cache *cache)
{
    if (cache != NULL) {
        rocksdb_cache_destroy(cache->handle);
        mem_free(cache);
    }
}

/* NOLINTNEXTLINE(readability-function-size): RocksDB's callback */
static unsigned char drop_filter(void *arg, int level, const char *key, size_t key_len,
                                 const char *value, size_t value_len, char **new_value,
                                 size_t *new_len, unsigned char *changed)
{
    const struct kv_drop *drop = arg;

    (void)level;
    (void)new_value;
    (void)new_len;
    *changed = 0;
    return drop->drop(drop->arg, slice_of(key, key_len), slice_of(value, value_len)) ? 1 : 0;
}

static void drop_destroy(void *arg)
{
    (void)arg; /* freed by kv_rocksdb_setup_deinit() */
}

static const char *drop_name(void *arg)
{
    (void)arg;
    return "kist.drop";
}

static void setup_tables(rocksdb_options_t *to, const struct kv_family *family,
                         rocksdb_cache_t *cache)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_format_version(table, FORMAT_VERSION);
    rocksdb_block_based_options_set_checksum(table, CHECKSUM_XXH3);
    /* Index and filter blocks count as cache, so memory does not grow with the data. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    if (family->whole_key_filter) {
        rocksdb_block_based_options_set_filter_policy(
            table, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS_PER_KEY));
        rocksdb_block_based_options_set_data_block_index_type(table, DATA_BLOCK_BINARY_AND_HASH);
        rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
    }
    rocksdb_options_set_block_based_table_factory(to, table);
    rocksdb_block_based_options_destroy(table);
}

static void setup_family(struct kv_rocksdb_setup *setup, uint32_t at,
                         const struct kv_family *family, rocksdb_cache_t *cache)
{
    rocksdb_options_t *to = setup->options[at];

    rocksdb_options_set_write_buffer_size(to, family->memtable_bytes > 0 ? family->memtable_bytes
                                                                         : MEMTABLE_BYTES_DEFAULT);
    rocksdb_options_set_max_write_buffer_number(to, MEMTABLE_COUNT_MAX);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(to, 1);
    rocksdb_options_set_compression(to, rocksdb_lz4_compression);
    setup_tables(to, family, cache);
    if (family->blobs) {
        rocksdb_options_set_enable_blob_files(to, 1);
        rocksdb_options_set_min_blob_size(to, family->blob_bytes_min);
        rocksdb_options_set_blob_file_size(to, BLOB_FILE_BYTES);
        rocksdb_options_set_enable_blob_gc(to, 1);
        rocksdb_options_set_blob_gc_age_cutoff(to, BLOB_GC_AGE);
        rocksdb_options_set_blob_gc_force_threshold(to, BLOB_GC_FORCE);
        rocksdb_options_set_blob_cache(to, cache);
    }
    if (family->drop != NULL) {
        struct kv_drop *drop = mem_alloc(sizeof(*drop));

        *drop = (struct kv_drop){.drop = family->drop, .arg = family->drop_arg};
        setup->drops[at] = drop;
        setup->filters[at] =
            rocksdb_compactionfilter_create(drop, drop_destroy, drop_filter, drop_name);
        rocksdb_options_set_compaction_filter(to, setup->filters[at]);
    }
}

static void setup_database(rocksdb_options_t *to, const struct kv_options *options)
{
    rocksdb_options_set_create_if_missing(to, options->must_exist ? 0 : 1);
    rocksdb_options_set_create_missing_column_families(to, 1);
    rocksdb_options_set_max_background_jobs(
        to, options->background_threads > 0 ? options->background_threads : 2);
    rocksdb_options_set_paranoid_checks(to, 1);
    rocksdb_options_set_max_open_files(to, OPEN_FILES_MAX);
    rocksdb_options_set_stats_dump_period_sec(to, 0);
    rocksdb_options_set_keep_log_file_num(to, 2);
    rocksdb_options_set_info_log_level(to, INFO_LOG_FATAL);
    /* Spreads write-back, so that a sync does not wait for a whole file. */
    rocksdb_options_set_bytes_per_sync(to, SYNC_STEP_BYTES);
    if (options->write_ahead_log) {
        rocksdb_options_set_wal_recovery_mode(to, RECOVER_TOLERATE_TAIL);
        rocksdb_options_set_max_total_wal_size(to, LOG_BYTES_MAX);
    } else {
        rocksdb_options_set_atomic_flush(to, 1);
    }
}

/* A lookup of what is not in the memtable costs a walk down its skip list, unless it has a filter:
 * some 64 bits for each key of ours. The C interface has no call for it. */
static void setup_memtable_filter(struct kv_rocksdb_setup *setup, uint32_t at)
{
    static const char text[] =
        "memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.02";
    rocksdb_options_t *to = rocksdb_options_create();
    char *error = NULL;

    rocksdb_get_options_from_string(setup->options[at], text, to, &error);
    ASSERT(error == NULL);
    rocksdb_options_destroy(setup->options[at]);
    setup->options[at] = to;
}

void kv_rocksdb_setup_init(struct kv_rocksdb_setup *setup, const struct kv_options *options)
{
    rocksdb_cache_t *cache = options->cache != NULL ? options->cache->handle : NULL;

    *setup = (struct kv_rocksdb_setup){.count = options->family_count};
    if (cache == NULL) {
        setup->own_cache = rocksdb_cache_create_lru(CACHE_BYTES_DEFAULT);
        cache = setup->own_cache;
    }
    for (uint32_t i = 0; i < options->family_count; i++) {
        setup->options[i] = rocksdb_options_create();
        setup_database(setup->options[i], options);
        setup_family(setup, i, &options->families[i], cache);
        if (options->families[i].memtable_filter) {
            setup_memtable_filter(setup, i);
        }
    }
}

void kv_rocksdb_setup_deinit(struct kv_rocksdb_setup *setup)
{
    for (uint32_t i = 0; i < setup->count; i++) {
        rocksdb_options_destroy(setup->options[i]);
        if (setup->filters[i] != NULL) {
            rocksdb_compactionfilter_destroy(setup->filters[i]);
        }
        mem_free(setup->drops[i]);
    }
    if (setup->own_cache != NULL) {
        rocksdb_cache_destroy(setup->own_cache);
    }
    *setup = (struct kv_rocksdb_setup){0};
}
