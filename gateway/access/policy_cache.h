/* Compiled policies of buckets, by bucket and generation: one per loop, bounded in number and
 * bytes. What it returns is valid until the next call. */
#ifndef GATEWAY_ACCESS_POLICY_CACHE_H
#define GATEWAY_ACCESS_POLICY_CACHE_H

#include "gateway/access/policy.h"
#include "proto/record.pb-c.h"

struct policy_cache;

struct policy_cache *policy_cache_new(void);
void policy_cache_free(struct policy_cache *cache);
size_t policy_cache_bytes(const struct policy_cache *cache);
/* The bucket's policy. NULL: it has one that cannot be read (a later release wrote it). */
const struct policy *policy_cache_get(struct policy_cache *cache, const Kist__Bucket *bucket);

#endif
