/*
 * A batch is a run of operations in one buffer: kind u8, family u8, key length u32, value length
 * u32, key, value. Never on disk: implementations translate it.
 */
#include "common/kv/kv_batch.h"

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"

enum { OP_HEAD_BYTES = 10 };

struct kv_batch {
    struct buffer ops;
    uint32_t count;
};

struct kv_batch *kv_batch_new(void)
{
    return mem_alloc(sizeof(struct kv_batch));
}

void kv_batch_free(struct kv_batch *batch)
{
    if (batch != NULL) {
        buffer_deinit(&batch->ops);
        mem_free(batch);
    }
}

void kv_batch_clear(struct kv_batch *batch)
{
    buffer_clear(&batch->ops);
    batch->count = 0;
}

size_t kv_batch_bytes(const struct kv_batch *batch)
{
    return batch->ops.len;
}

uint32_t kv_batch_count(const struct kv_batch *batch)
{
    return batch->count;
}

static void kv_batch_add(struct kv_batch *batch, enum kv_batch_kind kind, uint32_t family,
                         struct slice key, const struct slice *parts, size_t count)
{
    size_t value_len = 0;
    char *to;

    ASSERT(family < KV_FAMILIES_MAX);
    for (size_t i = 0; i < count; i++) {
        value_len += parts[i].len;
    }
    ASSERT(key.len < UINT32_MAX && value_len < UINT32_MAX);
    to = buffer_reserve(&batch->ops, OP_HEAD_BYTES + key.len + value_len);
    to[0] = (char)kind;
    to[1] = (char)family;
    le32_put(to + 2, (uint32_t)key.len);
    le32_put(to + 6, (uint32_t)value_len);
    to += OP_HEAD_BYTES;
    if (key.len > 0) {
        memcpy(to, key.data, key.len);
    }
    to += key.len;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) {
            memcpy(to, parts[i].data, parts[i].len);
            to += parts[i].len;
        }
    }
    batch->ops.len += OP_HEAD_BYTES + key.len + value_len;
    batch->count += 1;
}

void kv_batch_put(struct kv_batch *batch, uint32_t family, struct slice key, struct slice value)
{
    kv_batch_add(batch, KV_BATCH_PUT, family, key, &value, 1);
}

void kv_batch_put_parts(struct kv_batch *batch, uint32_t family, struct slice key,
                        const struct slice *parts, size_t count)
{
    kv_batch_add(batch, KV_BATCH_PUT, family, key, parts, count);
}

void kv_batch_delete(struct kv_batch *batch, uint32_t family, struct slice key)
{
    kv_batch_add(batch, KV_BATCH_DELETE, family, key, NULL, 0);
}

void kv_batch_delete_range(struct kv_batch *batch, uint32_t family, struct slice from,
                           struct slice to)
{
    kv_batch_add(batch, KV_BATCH_DELETE_RANGE, family, from, &to, 1);
}

bool kv_batch_each(const struct kv_batch *batch, size_t *at, struct kv_batch_op *op)
{
    const char *from = batch->ops.data + *at;
    uint32_t key_len;
    uint32_t value_len;

    if (*at >= batch->ops.len) {
        return false;
    }
    key_len = le32_get(from + 2);
    value_len = le32_get(from + 6);
    *op = (struct kv_batch_op){
        .kind = (enum kv_batch_kind)from[0],
        .family = (uint32_t)(unsigned char)from[1],
        .key = slice_of(from + OP_HEAD_BYTES, key_len),
        .value = slice_of(from + OP_HEAD_BYTES + key_len, value_len),
    };
    *at += OP_HEAD_BYTES + (size_t)key_len + value_len;
    return true;
}
