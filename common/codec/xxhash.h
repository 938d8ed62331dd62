/*
 * XXH64, XXH3 of 64 and of 128 bits, incremental, without allocation (libxxhash; seed 0). Results
 * are in canonical, big-endian form. Any thread; a state belongs to one at a time and may not be
 * moved.
 */
#ifndef COMMON_CODEC_XXHASH_H
#define COMMON_CODEC_XXHASH_H

#include <stddef.h>
#include <stdint.h>

enum { XXHASH64_BYTES = 8, XXHASH3_BYTES = 8, XXHASH128_BYTES = 16 };

struct xxhash64 {
    _Alignas(8) unsigned char state[96];
};
/* Of both widths. The library wants 64-byte alignment, which an arena does not give: the state
 * begins at the first such address inside. */
struct xxhash3 {
    _Alignas(8) unsigned char state[576 + 64];
};

void xxhash64_init(struct xxhash64 *hash);
void xxhash64_update(struct xxhash64 *hash, const void *data, size_t len);
void xxhash64_final(struct xxhash64 *hash, uint8_t out[XXHASH64_BYTES]);

void xxhash3_init(struct xxhash3 *hash);
void xxhash3_update(struct xxhash3 *hash, const void *data, size_t len);
void xxhash3_final(struct xxhash3 *hash, uint8_t out[XXHASH3_BYTES]);

void xxhash128_init(struct xxhash3 *hash);
void xxhash128_update(struct xxhash3 *hash, const void *data, size_t len);
void xxhash128_final(struct xxhash3 *hash, uint8_t out[XXHASH128_BYTES]);

#endif
