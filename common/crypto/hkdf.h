/*
 * Keys from keys: HKDF with SHA-256 (RFC 5869). Any thread.
 */
#ifndef COMMON_CRYPTO_HKDF_H
#define COMMON_CRYPTO_HKDF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/slice.h"

enum { HKDF_OUT_BYTES_MAX = 255 * 32, HKDF_INFO_BYTES_MAX = 256 };

/* `out_len` bytes that depend on all three; `salt` may be empty, `info` has at most
 * HKDF_INFO_BYTES_MAX bytes and names the use. */
void hkdf_sha256(struct slice secret, struct slice salt, struct slice info, uint8_t *out,
                 size_t out_len);

#endif
