/* Base64 (RFC 4648 section 4), padded. Decoding is strict: no blanks, no missing or extra padding,
 * no stray bits behind the last byte, so every value has exactly one text. */
#ifndef COMMON_CODEC_BASE64_H
#define COMMON_CODEC_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/slice.h"

static inline size_t base64_encoded_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Writes base64_encoded_len(len) characters, no NUL; returns that number. */
size_t base64_encode(char *out, const void *data, size_t len);

/* False when malformed or longer than `out_max` bytes. */
bool base64_decode(struct slice text, void *out, size_t out_max, size_t *out_len);

#endif
