/*
 * The ordered store that metad and datad stand on: get, scan, batches, atomic flush. kv_rocksdb.c
 * is RocksDB; tests/sim/sim_kv.c is memory that can lose what was not synced.
 *
 * Any thread, and blocking (except kv_get with KV_CACHED_ONLY): belongs into work jobs, or on a
 * loop where the data is known to be cached. Keys are ordered by memcmp. Families are numbered as
 * given at open.
 */
#ifndef COMMON_KV_KV_H
#define COMMON_KV_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"

struct kv;
struct kv_batch;
struct kv_iter;
struct kv_snapshot;
struct kv_cache; /* block cache, shared by stores */

enum kv_write_mode {
    KV_SYNCED,  /* in the write-ahead log and fdatasync returned */
    KV_LOGGED,  /* in the write-ahead log: survives kill -9, not a power cut */
    KV_UNLOGGED /* in memory until kv_flush(): for stores that can be replayed */
};

enum { KV_FAMILIES_MAX = 8 };

struct kv_family {
    const char *name; /* the first is "default" on disk whatever it is called here */
    bool blobs;       /* values of blob_bytes_min and more go to blob files, past compaction */
    uint64_t blob_bytes_min;
    uint64_t memtable_bytes;
    bool whole_key_filter; /* point lookups dominate */
    bool memtable_filter;  /* and most are of keys that are not there, in one that is written */
    /* Compaction drops rows for which this says so (NULL: none): rows that readers treat as absent
     * anyway. Called on compaction threads. */
    bool (*drop)(void *arg, struct slice key, struct slice value);
    void *drop_arg;
};

struct kv_options {
    const char *path;
    struct kv_family families[KV_FAMILIES_MAX];
    uint32_t family_count;
    struct kv_cache *cache; /* NULL: a small one of its own */
    bool
        write_ahead_log; /* false: everything is KV_UNLOGGED and flushes are atomic over families */
    bool must_exist;
    int background_threads; /* flush and compaction; 0: 2 */
};

struct kv_pin { /* a value, borrowed from the store until kv_release() */
    struct slice value;
    void *handle;
};

enum kv_get_flags { KV_ANY = 0, KV_CACHED_ONLY = 1 };

struct kv_iter_options {
    uint32_t family;
    struct slice lower; /* inclusive; empty: none. Borrowed until kv_iter_close(). */
    struct slice upper; /* exclusive; empty: none */
    const struct kv_snapshot *snapshot; /* NULL: now */
    /* Stops with RC_AGAIN where a disk read would be needed, or thousands of deleted rows skipped.
     */
    bool cached_only;
    bool bulk; /* a long scan: reads ahead, does not fill the cache */
};

struct kv_ops {
    enum rc (*get)(struct kv *kv, uint32_t family, struct slice key, unsigned flags,
                   const struct kv_snapshot *snapshot, struct kv_pin *out, struct error *error);
    void (*release)(struct kv *kv, struct kv_pin *pin);
    /* The batch is cleared when it succeeded. */
    enum rc (*write)(struct kv *kv, struct kv_batch *batch, enum kv_write_mode mode,
                     struct error *error);
    /* Rises with every batch: the same before and after several looks means that all of them saw
     * the same state. Cheaper than a snapshot, whose end makes RocksDB look for rows to compact. */
    uint64_t (*sequence)(struct kv *kv);
    struct kv_snapshot *(*snapshot)(struct kv *kv);
    void (*snapshot_free)(struct kv *kv, struct kv_snapshot *snapshot);
    struct kv_iter *(*iter_open)(struct kv *kv, const struct kv_iter_options *options);
    void (*iter_close)(struct kv_iter *iter);
    void (*iter_seek)(struct kv_iter *iter, struct slice key);      /* first key >= */
    void (*iter_seek_prev)(struct kv_iter *iter, struct slice key); /* last key <= */
    void (*iter_next)(struct kv_iter *iter);
    void (*iter_prev)(struct kv_iter *iter);
    bool (*iter_valid)(struct kv_iter *iter); /* false at the end, and on an error: ask iter_rc */
    enum rc (*iter_rc)(struct kv_iter *iter, struct error *error);
    struct slice (*iter_key)(struct kv_iter *iter); /* until the next move */
    struct slice (*iter_value)(struct kv_iter *iter);
    enum rc (*flush)(struct kv *kv, struct error *error); /* all families, atomically; waits */
    enum rc (*compact)(struct kv *kv, uint32_t family, struct slice from, struct slice to);
    enum rc (*verify)(struct kv *kv, struct error *error); /* reads every table: RC_CORRUPT; slow */
    uint64_t (*memory_bytes)(struct kv *kv);               /* memtables and table readers */
    void (*close)(struct kv *kv);
};

struct kv {
    const struct kv_ops *ops;
};

/* ---- Batches: the same for every implementation ---- */

struct kv_batch *kv_batch_new(void);
void kv_batch_free(struct kv_batch *batch);
void kv_batch_clear(struct kv_batch *batch);
size_t kv_batch_bytes(const struct kv_batch *batch);
uint32_t kv_batch_count(const struct kv_batch *batch);
void kv_batch_put(struct kv_batch *batch, uint32_t family, struct slice key, struct slice value);
/* The value is the parts put together: large bodies are copied once only. */
void kv_batch_put_parts(struct kv_batch *batch, uint32_t family, struct slice key,
                        const struct slice *parts, size_t count);
void kv_batch_delete(struct kv_batch *batch, uint32_t family, struct slice key);
void kv_batch_delete_range(struct kv_batch *batch, uint32_t family, struct slice from,
                           struct slice to);

/* ---- RocksDB ---- */

struct kv_cache *kv_cache_new(uint64_t bytes);
void kv_cache_free(struct kv_cache *cache);
enum rc kv_rocksdb_open(struct kv **out, const struct kv_options *options, struct error *error);

/* ---- Short forms ---- */

static inline enum rc kv_get(struct kv *kv, uint32_t family, struct slice key, unsigned flags,
                             struct kv_pin *out, struct error *error)
{
    return kv->ops->get(kv, family, key, flags, NULL, out, error);
}

static inline void kv_release(struct kv *kv, struct kv_pin *pin)
{
    kv->ops->release(kv, pin);
}

static inline enum rc kv_write(struct kv *kv, struct kv_batch *batch, enum kv_write_mode mode,
                               struct error *error)
{
    return kv->ops->write(kv, batch, mode, error);
}

static inline void kv_close(struct kv *kv)
{
    kv->ops->close(kv);
}

#endif
