/* Bytes as hexadecimal text. */
#ifndef COMMON_CODEC_HEX_H
#define COMMON_CODEC_HEX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/slice.h"

/* Writes 2 * len lower-case digits, no NUL. */
void hex_encode(char *out, const void *data, size_t len);

/* Digits of either case; text.len must be exactly 2 * out_len. */
bool hex_decode(struct slice text, void *out, size_t out_len);

/* Value of one digit, or -1. */
int hex_digit(char c);

#endif
