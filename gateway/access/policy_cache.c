#include "gateway/access/policy_cache.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"

enum {
    CACHE_SLOTS = 256,
    CACHE_BYTES_MAX = 8 * 1024 * 1024 /* a policy of 20 KiB compiles to about 100 KiB */
};

struct policy_cache {
    struct {
        uint64_t bucket_id;
        uint64_t generation;
        struct policy *policy; /* NULL: unreadable, or the slot is empty */
    } slots[CACHE_SLOTS];
    size_t bytes;
    size_t victim; /* where to look for something to drop */
};

struct policy_cache *policy_cache_new(void)
{
    return mem_alloc(sizeof(struct policy_cache));
}

static void cache_drop(struct policy_cache *cache, size_t slot)
{
    if (cache->slots[slot].policy != NULL) {
        cache->bytes -= policy_bytes(cache->slots[slot].policy);
        policy_free(cache->slots[slot].policy);
    }
    memset(&cache->slots[slot], 0, sizeof(cache->slots[slot]));
}

void policy_cache_free(struct policy_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < CACHE_SLOTS; i++) {
        cache_drop(cache, i);
    }
    ASSERT(cache->bytes == 0);
    mem_free(cache);
}

size_t policy_cache_bytes(const struct policy_cache *cache)
{
    return cache->bytes;
}

const struct policy *policy_cache_get(struct policy_cache *cache, const Kist__Bucket *bucket)
{
    size_t slot = bucket->id % CACHE_SLOTS;
    struct policy_options options = {
        .kind = POLICY_OF_BUCKET,
        .bucket = slice_of(bucket->name.data, bucket->name.len),
    };
    const Kist__Policy *stored;
    struct error error;

    ASSERT(bucket->settings != NULL && bucket->settings->policy != NULL);
    if (cache->slots[slot].bucket_id == bucket->id &&
        cache->slots[slot].generation == bucket->generation) {
        return cache->slots[slot].policy;
    }
    cache_drop(cache, slot);
    stored = bucket->settings->policy;
    cache->slots[slot].bucket_id = bucket->id;
    cache->slots[slot].generation = bucket->generation;
    if (policy_new(&cache->slots[slot].policy, slice_of(stored->json.data, stored->json.len),
                   &options, &error) != RC_OK) {
        cache->slots[slot].policy = NULL;
        LOG_ERROR("bucket_policy_unreadable", "bucket=%.*s reason=\"%s\"", (int)options.bucket.len,
                  options.bucket.data, error.text);
        return NULL;
    }
    cache->bytes += policy_bytes(cache->slots[slot].policy);
    for (size_t i = 0; i < CACHE_SLOTS && cache->bytes > CACHE_BYTES_MAX; i++) {
        cache->victim = (cache->victim + 1) % CACHE_SLOTS;
        if (cache->victim != slot) {
            cache_drop(cache, cache->victim);
        }
    }
    return cache->slots[slot].policy;
}
