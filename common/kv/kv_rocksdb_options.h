/* How kv_rocksdb.c opens its families: every RocksDB option that is set, with its reason. */
#ifndef COMMON_KV_KV_ROCKSDB_OPTIONS_H
#define COMMON_KV_KV_ROCKSDB_OPTIONS_H

#include <rocksdb/c.h>

#include "common/kv/kv.h"

struct kv_rocksdb_setup {
    rocksdb_options_t *options[KV_FAMILIES_MAX]; /* the first one is the database's too */
    rocksdb_compactionfilter_t *filters[KV_FAMILIES_MAX];
    void *drops[KV_FAMILIES_MAX];
    uint32_t count;
    rocksdb_cache_t *own_cache; /* NULL when shared */
};

void kv_rocksdb_setup_init(struct kv_rocksdb_setup *setup, const struct kv_options *options);
void kv_rocksdb_setup_deinit(struct kv_rocksdb_setup *setup);

/* Takes a text of the C API; sets `error` (may be NULL) and returns its rc. */
enum rc kv_rocksdb_error(char *text, struct error *error);

#endif
