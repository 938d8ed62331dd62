/*
 * HMAC-SHA-256 (RFC 2104) with a key prepared once: the hash states after the two padded key blocks
 * are kept, so that one code costs two compressions and the message, no key set-up. Any thread; a
 * key is read-only once prepared.
 */
#ifndef COMMON_CRYPTO_HMAC_H
#define COMMON_CRYPTO_HMAC_H

#include <stdbool.h>

#include "common/crypto/hash.h"

struct hmac_key {
    struct sha256_hash inner;
    struct sha256_hash outer;
};

void hmac_key_init(struct hmac_key *key, const void *secret, size_t len);
void hmac_sign(const struct hmac_key *key, const void *data, size_t len,
               uint8_t out[HASH_SHA256_BYTES]);
/* Both at once, for keys used only once. */
void hmac_sha256(const void *secret, size_t secret_len, const void *data, size_t len,
                 uint8_t out[HASH_SHA256_BYTES]);

/* HMAC-SHA-1, for Signature Version 2 only. */
void hmac_sha1(const void *secret, size_t secret_len, const void *data, size_t len,
               uint8_t out[HASH_SHA1_BYTES]);

/* Compares in a time that depends on `len` alone. */
bool crypto_equal(const void *a, const void *b, size_t len);
/* Overwrites a secret, in a way the compiler keeps. */
void crypto_wipe(void *secret, size_t len);

#endif
