#include "common/crypto/hmac.h"

#include <openssl/crypto.h>
#include <string.h>

enum { HMAC_BLOCK_BYTES = 64 };

static void hmac_pad(struct sha256_hash *hash, const uint8_t block[HMAC_BLOCK_BYTES], uint8_t pad)
{
    uint8_t padded[HMAC_BLOCK_BYTES];

    for (int i = 0; i < HMAC_BLOCK_BYTES; i++) {
        padded[i] = block[i] ^ pad;
    }
    sha256_init(hash);
    sha256_update(hash, padded, sizeof(padded));
}

void hmac_key_init(struct hmac_key *key, const void *secret, size_t len)
{
    uint8_t block[HMAC_BLOCK_BYTES] = {0};

    if (len > HMAC_BLOCK_BYTES) {
        sha256_of(secret, len, block);
    } else if (len > 0) {
        memcpy(block, secret, len);
    }
    hmac_pad(&key->inner, block, 0x36);
    hmac_pad(&key->outer, block, 0x5c);
    crypto_wipe(block, sizeof(block));
}

void hmac_sign(const struct hmac_key *key, const void *data, size_t len,
               uint8_t out[HASH_SHA256_BYTES])
{
    struct sha256_hash hash = key->inner;
    uint8_t inner[HASH_SHA256_BYTES];

    sha256_update(&hash, data, len);
    sha256_final(&hash, inner);
    hash = key->outer;
    sha256_update(&hash, inner, sizeof(inner));
    sha256_final(&hash, out);
}

void hmac_sha256(const void *secret, size_t secret_len, const void *data, size_t len,
                 uint8_t out[HASH_SHA256_BYTES])
{
    struct hmac_key key;

    hmac_key_init(&key, secret, secret_len);
    hmac_sign(&key, data, len, out);
    crypto_wipe(&key, sizeof(key));
}

static void sha1_padded(struct sha1_hash *hash, const uint8_t block[HMAC_BLOCK_BYTES], uint8_t pad)
{
    uint8_t padded[HMAC_BLOCK_BYTES];

    for (int i = 0; i < HMAC_BLOCK_BYTES; i++) {
        padded[i] = block[i] ^ pad;
    }
    sha1_init(hash);
    sha1_update(hash, padded, sizeof(padded));
    crypto_wipe(padded, sizeof(padded));
}

void hmac_sha1(const void *secret, size_t secret_len, const void *data, size_t len,
               uint8_t out[HASH_SHA1_BYTES])
{
    uint8_t block[HMAC_BLOCK_BYTES] = {0};
    uint8_t inner[HASH_SHA1_BYTES];
    struct sha1_hash hash;

    if (secret_len > HMAC_BLOCK_BYTES) {
        sha1_of(secret, secret_len, block);
    } else if (secret_len > 0) {
        memcpy(block, secret, secret_len);
    }
    sha1_padded(&hash, block, 0x36);
    sha1_update(&hash, data, len);
    sha1_final(&hash, inner);
    sha1_padded(&hash, block, 0x5c);
    sha1_update(&hash, inner, sizeof(inner));
    sha1_final(&hash, out);
    crypto_wipe(block, sizeof(block));
}

bool crypto_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void crypto_wipe(void *secret, size_t len)
{
    OPENSSL_cleanse(secret, len);
}
