/*
 * A direct-mapped table: a collision costs a derivation (five HMACs), never a wrong key, because an
 * entry is used only when access key, secret and scope are all the same.
 */
#include "gateway/auth/signing_key.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"

enum { SIGNING_KEY_SLOTS = 256, SIGNING_KEY_SCOPE_BYTES = 96 };

struct signing_key_slot {
    size_t access_key_len;
    size_t secret_len;
    size_t scope_len; /* 0: free */
    char access_key[LIMIT_ACCESS_KEY_BYTES];
    char secret[LIMIT_SECRET_KEY_BYTES];
    char scope[SIGNING_KEY_SCOPE_BYTES];
    struct signing_key key;
};

struct sigv4_cache {
    struct signing_key_slot *slots[SIGNING_KEY_SLOTS]; /* made when first used */
    struct signing_key uncached;                       /* names too long for a slot */
};

struct sigv4_cache *sigv4_cache_new(void)
{
    return mem_alloc(sizeof(struct sigv4_cache));
}

void sigv4_cache_free(struct sigv4_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < SIGNING_KEY_SLOTS; i++) {
        if (cache->slots[i] != NULL) {
            crypto_wipe(cache->slots[i], sizeof(*cache->slots[i]));
            mem_free(cache->slots[i]);
        }
    }
    crypto_wipe(cache, sizeof(*cache));
    mem_free(cache);
}

static void signing_key_derive(struct signing_key *key, const struct sigv4_credential *credential,
                               struct slice secret)
{
    struct hmac_key first;
    uint8_t prefixed[4 + LIMIT_SECRET_KEY_BYTES] = {'A', 'W', 'S', '4'};
    uint8_t a[HASH_SHA256_BYTES];
    uint8_t b[HASH_SHA256_BYTES];

    ASSERT(secret.len > 0 && secret.len <= LIMIT_SECRET_KEY_BYTES);
    memcpy(prefixed + 4, secret.data, secret.len);
    hmac_key_init(&first, prefixed, 4 + secret.len);
    hmac_sign(&first, credential->date.data, credential->date.len, a);
    hmac_sha256(a, sizeof(a), credential->region.data, credential->region.len, b);
    hmac_sha256(b, sizeof(b), credential->service.data, credential->service.len, a);
    hmac_sha256(a, sizeof(a), credential->terminal.data, credential->terminal.len, key->bytes);
    hmac_key_init(&key->hmac, key->bytes, sizeof(key->bytes));
    crypto_wipe(prefixed, sizeof(prefixed));
    crypto_wipe(&first, sizeof(first));
    crypto_wipe(a, sizeof(a));
    crypto_wipe(b, sizeof(b));
}

/* FNV-1a. */
static size_t signing_key_slot_of(struct slice access_key, struct slice day)
{
    uint64_t hash = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < access_key.len; i++) {
        hash = (hash ^ (uint8_t)access_key.data[i]) * 0x100000001b3ULL;
    }
    for (size_t i = 0; i < day.len; i++) {
        hash = (hash ^ (uint8_t)day.data[i]) * 0x100000001b3ULL;
    }
    return (hash ^ hash >> 32) % SIGNING_KEY_SLOTS;
}

const struct signing_key *signing_key_get(struct sigv4_cache *cache,
                                          const struct sigv4_credential *credential,
                                          struct slice secret)
{
    struct slice access_key = credential->access_key;
    struct slice scope = credential->scope;
    struct signing_key_slot **place =
        &cache->slots[signing_key_slot_of(access_key, credential->date)];
    struct signing_key_slot *slot = *place;

    if (access_key.len > LIMIT_ACCESS_KEY_BYTES || scope.len > SIGNING_KEY_SCOPE_BYTES) {
        signing_key_derive(&cache->uncached, credential, secret);
        return &cache->uncached;
    }
    if (slot != NULL && slice_eq(slice_of(slot->scope, slot->scope_len), scope) &&
        slice_eq(slice_of(slot->access_key, slot->access_key_len), access_key) &&
        slice_eq(slice_of(slot->secret, slot->secret_len), secret)) {
        return &slot->key;
    }
    if (slot == NULL) {
        slot = mem_alloc(sizeof(*slot));
        *place = slot;
    }
    signing_key_derive(&slot->key, credential, secret);
    memcpy(slot->access_key, access_key.data, access_key.len);
    memcpy(slot->secret, secret.data, secret.len);
    memcpy(slot->scope, scope.data, scope.len);
    slot->access_key_len = access_key.len;
    slot->secret_len = secret.len;
    slot->scope_len = scope.len;
    return &slot->key;
}
