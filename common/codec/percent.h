/*
 * Percent-encoding (RFC 3986) as AWS defines it for signatures and for encoding-type=url: every
 * byte but A-Z a-z 0-9 - . _ ~ is encoded, with upper-case digits; "/" as asked.
 */
#ifndef COMMON_CODEC_PERCENT_H
#define COMMON_CODEC_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/slice.h"

/* Writes at most 3 * text.len characters, no NUL; returns the end. */
char *percent_encode_to(char *out, struct slice text, bool keep_slash);
/* In the arena; returns `text` itself when nothing had to be encoded. */
struct slice percent_encode(struct arena *arena, struct slice text, bool keep_slash);
/* As encoding-type=url answers: blank is "+", "/" stays. */
struct slice percent_encode_listing(struct arena *arena, struct slice text);

/* Decodes once, into `out` (text.len bytes are enough; `out` may be text.data). False for an escape
 * without two hexadecimal digits. `plus_is_space`: form style, for query strings. */
bool percent_decode_to(struct slice text, bool plus_is_space, char *out, size_t *out_len);
/* In the arena; `text` itself when nothing had to be decoded. */
bool percent_decode(struct arena *arena, struct slice text, bool plus_is_space, struct slice *out);

#endif
