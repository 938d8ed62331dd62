/* What implementations of kv.h need of a batch: its operations, in order. */
#ifndef COMMON_KV_KV_BATCH_H
#define COMMON_KV_KV_BATCH_H

#include "common/kv/kv.h"

enum kv_batch_kind { KV_BATCH_PUT = 1, KV_BATCH_DELETE, KV_BATCH_DELETE_RANGE };

struct kv_batch_op {
    enum kv_batch_kind kind;
    uint32_t family;
    struct slice key;   /* from, for DELETE_RANGE */
    struct slice value; /* to (exclusive), for DELETE_RANGE */
};

/* Start with *at = 0. False at the end. Slices are valid until the batch changes. */
bool kv_batch_each(const struct kv_batch *batch, size_t *at, struct kv_batch_op *op);

#endif
