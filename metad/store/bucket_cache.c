/* Direct mapped: a bucket has one place, and what stood there goes. */
#include "metad/store/bucket_cache.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/store/message.h"

enum { CACHE_PLACES = 64 }; /* with settings of at most some 100 KiB each: a few MiB */

struct cached_bucket {
    struct arena arena;
    Kist__Bucket *bucket; /* NULL: free */
    uint64_t used;        /* stamp of the last entry that went by it */
};

struct bucket_cache {
    struct cached_bucket places[CACHE_PLACES];
};

struct bucket_cache *bucket_cache_new(void)
{
    struct bucket_cache *cache = mem_alloc(sizeof(*cache));

    for (int i = 0; i < CACHE_PLACES; i++) {
        arena_init(&cache->places[i].arena);
    }
    return cache;
}

void bucket_cache_free(struct bucket_cache *cache)
{
    for (int i = 0; i < CACHE_PLACES; i++) {
        arena_deinit(&cache->places[i].arena);
    }
    mem_free(cache);
}

static struct cached_bucket *cache_place(struct bucket_cache *cache, uint64_t bucket_id)
{
    return &cache->places[bucket_id % CACHE_PLACES];
}

const Kist__Bucket *bucket_cache_get(struct bucket_cache *cache, uint64_t bucket_id,
                                     uint64_t generation, uint64_t stamp)
{
    struct cached_bucket *place = cache_place(cache, bucket_id);

    if (place->bucket == NULL || place->bucket->id != bucket_id ||
        place->bucket->generation != generation) {
        return NULL;
    }
    place->used = stamp;
    return place->bucket;
}

const Kist__Bucket *bucket_cache_put(struct bucket_cache *cache, struct slice row,
                                     uint64_t bucket_id, uint64_t stamp)
{
    struct cached_bucket *place = cache_place(cache, bucket_id);

    if (place->bucket != NULL && place->used == stamp) {
        return NULL;
    }
    arena_reset(&place->arena);
    place->bucket = message_unpack(&place->arena, &kist__bucket__descriptor, row);
    if (place->bucket != NULL && place->bucket->id != bucket_id) {
        place->bucket = NULL;
    }
    place->used = stamp;
    return place->bucket;
}
