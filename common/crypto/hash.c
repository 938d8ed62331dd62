/*
 * OpenSSL's low-level functions rather than EVP: the same assembler, but no allocation, no locks,
 * and states that copy by assignment (README.md has the measurement). They are deprecated for
 * applications that choose algorithms at run time; S3 fixes these four.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "common/crypto/hash.h"

#include <assert.h>
#include <openssl/md5.h>
#include <openssl/sha.h>

#include "common/base/assert.h"

static_assert(sizeof(MD5_CTX) <= sizeof(struct md5_hash), "state fits");
static_assert(sizeof(SHA_CTX) <= sizeof(struct sha1_hash), "state fits");
static_assert(sizeof(SHA256_CTX) <= sizeof(struct sha256_hash), "state fits");

static_assert(sizeof(SHA512_CTX) <= sizeof(struct sha512_hash), "state fits");

/* The functions return 1 unless built for FIPS mode. */
static void hash_check(int ok)
{
    ASSERT(ok == 1);
}

void md5_init(struct md5_hash *hash)
{
    hash_check(MD5_Init((MD5_CTX *)(void *)hash));
}

void md5_update(struct md5_hash *hash, const void *data, size_t len)
{
    hash_check(MD5_Update((MD5_CTX *)(void *)hash, data, len));
}

void md5_final(struct md5_hash *hash, uint8_t out[HASH_MD5_BYTES])
{
    hash_check(MD5_Final(out, (MD5_CTX *)(void *)hash));
}

void sha1_init(struct sha1_hash *hash)
{
    hash_check(SHA1_Init((SHA_CTX *)(void *)hash));
}

void sha1_update(struct sha1_hash *hash, const void *data, size_t len)
{
    hash_check(SHA1_Update((SHA_CTX *)(void *)hash, data, len));
}

void sha1_final(struct sha1_hash *hash, uint8_t out[HASH_SHA1_BYTES])
{
    hash_check(SHA1_Final(out, (SHA_CTX *)(void *)hash));
}

void sha256_init(struct sha256_hash *hash)
{
    hash_check(SHA256_Init((SHA256_CTX *)(void *)hash));
}

void sha256_update(struct sha256_hash *hash, const void *data, size_t len)
{
    hash_check(SHA256_Update((SHA256_CTX *)(void *)hash, data, len));
}

void sha256_final(struct sha256_hash *hash, uint8_t out[HASH_SHA256_BYTES])
{
    hash_check(SHA256_Final(out, (SHA256_CTX *)(void *)hash));
}

void sha512_init(struct sha512_hash *hash)
{
    hash_check(SHA512_Init((SHA512_CTX *)(void *)hash));
}

void sha512_update(struct sha512_hash *hash, const void *data, size_t len)
{
    hash_check(SHA512_Update((SHA512_CTX *)(void *)hash, data, len));
}

void sha512_final(struct sha512_hash *hash, uint8_t out[HASH_SHA512_BYTES])
{
    hash_check(SHA512_Final(out, (SHA512_CTX *)(void *)hash));
}

void md5_of(const void *data, size_t len, uint8_t out[HASH_MD5_BYTES])
{
    struct md5_hash hash;

    md5_init(&hash);
    md5_update(&hash, data, len);
    md5_final(&hash, out);
}

void sha1_of(const void *data, size_t len, uint8_t out[HASH_SHA1_BYTES])
{
    struct sha1_hash hash;

    sha1_init(&hash);
    sha1_update(&hash, data, len);
    sha1_final(&hash, out);
}

void sha256_of(const void *data, size_t len, uint8_t out[HASH_SHA256_BYTES])
{
    struct sha256_hash hash;

    sha256_init(&hash);
    sha256_update(&hash, data, len);
    sha256_final(&hash, out);
}
