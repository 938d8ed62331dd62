/*
 * Settings of the buckets written lately, unpacked: a write that goes by them costs no unpack of a
 * row of many kilobytes. Of the one writer (the apply queue); 64 buckets, each in an arena of its
 * own.
 */
#ifndef METAD_STORE_BUCKET_CACHE_H
#define METAD_STORE_BUCKET_CACHE_H

#include <stdint.h>

#include "common/base/slice.h"
#include "proto/record.pb-c.h"

struct bucket_cache;

struct bucket_cache *bucket_cache_new(void);
void bucket_cache_free(struct bucket_cache *cache);
/* The bucket at this generation, or NULL. Stays until an entry of another stamp puts something. */
const Kist__Bucket *bucket_cache_get(struct bucket_cache *cache, uint64_t bucket_id,
                                     uint64_t generation, uint64_t stamp);
/* Unpacks `row` and keeps it. NULL when it does not decode, is of another bucket, or when the place
 * is taken by a bucket that the entry of this stamp goes by: then the caller unpacks for himself.
 */
const Kist__Bucket *bucket_cache_put(struct bucket_cache *cache, struct slice row,
                                     uint64_t bucket_id, uint64_t stamp);

#endif
