/*
 * MD5, SHA-1, SHA-256 and SHA-512, incremental, without allocation: the state is a plain struct
 * that may be copied to branch a computation. Any thread; a state belongs to one at a time.
 */
#ifndef COMMON_CRYPTO_HASH_H
#define COMMON_CRYPTO_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_MD5_BYTES = 16, HASH_SHA1_BYTES = 20, HASH_SHA256_BYTES = 32, HASH_SHA512_BYTES = 64 };

struct md5_hash {
    _Alignas(8) unsigned char state[96];
};
struct sha1_hash {
    _Alignas(8) unsigned char state[96];
};
struct sha256_hash {
    _Alignas(8) unsigned char state[112];
};

struct sha512_hash {
    _Alignas(8) unsigned char state[216];
};

void md5_init(struct md5_hash *hash);
void md5_update(struct md5_hash *hash, const void *data, size_t len);
void md5_final(struct md5_hash *hash, uint8_t out[HASH_MD5_BYTES]); /* once; then init again */

void sha1_init(struct sha1_hash *hash);
void sha1_update(struct sha1_hash *hash, const void *data, size_t len);
void sha1_final(struct sha1_hash *hash, uint8_t out[HASH_SHA1_BYTES]);

void sha256_init(struct sha256_hash *hash);
void sha256_update(struct sha256_hash *hash, const void *data, size_t len);
void sha256_final(struct sha256_hash *hash, uint8_t out[HASH_SHA256_BYTES]);

void sha512_init(struct sha512_hash *hash);
void sha512_update(struct sha512_hash *hash, const void *data, size_t len);
void sha512_final(struct sha512_hash *hash, uint8_t out[HASH_SHA512_BYTES]);

void md5_of(const void *data, size_t len, uint8_t out[HASH_MD5_BYTES]);
void sha1_of(const void *data, size_t len, uint8_t out[HASH_SHA1_BYTES]);
void sha256_of(const void *data, size_t len, uint8_t out[HASH_SHA256_BYTES]);

#endif
