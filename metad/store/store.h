/*
 * The state of one replica on disk: a kv with the families of keyspace.h. It is opened without a
 * write-ahead log (the raft log is the only one), so what survives a crash is what the last atomic
 * flush wrote, together with the applied index in `local`.
 *
 * Shared: readers on any thread hold a reference, so that a state which was replaced by an
 * installed one stays open until the last reader has left.
 */
#ifndef METAD_STORE_STORE_H
#define METAD_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/kv/kv.h"
#include "metad/store/bucket_cache.h"
#include "metad/store/bucket_table.h"
#include "metad/store/keyspace.h"

typedef enum rc (*kv_open_cb)(struct kv **out, const struct kv_options *options,
                              struct error *error);

struct store_options {
    const char *path;
    struct kv_cache *cache;
    kv_open_cb kv_open; /* NULL: RocksDB */
    bool must_exist;
    /* Rows of repeats (request, completed) that were due at this stamp are dropped by compaction.
     * Raised only to stamps that a restart cannot fall behind. */
    const _Atomic uint64_t *durable_stamp;
};

struct store {
    struct kv *kv;
    struct bucket_table *buckets;      /* mirrors the range's bucket rows; kept by the machine */
    struct bucket_cache *bucket_cache; /* of the apply queue */
    /* Private. */
    _Atomic uint32_t references;
    _Atomic uint32_t parties; /* readers together, and the owner */
};

enum rc meta_store_open(struct store **out, const struct store_options *options,
                        struct error *error);
/* Removes every row. */
enum rc store_clear(struct store *store, struct error *error);
/* False when the last reference is gone: take the current store then. */
bool store_try_ref(struct store *store);
/* The last one closes the kv, and frees the struct once it was retired. */
void store_unref(struct store *store);
/* No reader can come upon it by itself any more: the owner's reference goes, readers keep theirs.
 */
void store_retire(struct store *store);

/* Is a repeat's row (Request) past its time? Decided in apply and in compaction alike. */
bool store_request_due(struct slice value, uint64_t stamp);

#endif
