#include "common/codec/percent.h"

#include <stdint.h>
#include <string.h>

#include "common/codec/hex.h"

/* Bit per byte value: A-Z a-z 0-9 - . _ ~ */
static const uint64_t percent_unreserved[4] = {0x03ff600000000000ULL, 0x47fffffe87fffffeULL, 0, 0};

static inline bool percent_is_plain(char c)
{
    unsigned byte = (unsigned char)c;

    return (percent_unreserved[byte >> 6] >> (byte & 63) & 1) != 0;
}

static inline char *percent_escape(char *out, char c)
{
    static const char digits[16] = {'0', '1', '2', '3', '4', '5', '6', '7',
                                    '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'};
    unsigned byte = (unsigned char)c;

    out[0] = '%';
    out[1] = digits[byte >> 4];
    out[2] = digits[byte & 15];
    return out + 3;
}

char *percent_encode_to(char *out, struct slice text, bool keep_slash)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (percent_is_plain(c) || (c == '/' && keep_slash)) {
            *out++ = c;
        } else {
            out = percent_escape(out, c);
        }
    }
    return out;
}

struct slice percent_encode(struct arena *arena, struct slice text, bool keep_slash)
{
    size_t escapes = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        escapes += percent_is_plain(c) || (c == '/' && keep_slash) ? 0 : 1;
    }
    if (escapes == 0) {
        return text;
    }
    char *out = arena_alloc_raw(arena, text.len + 2 * escapes);
    char *end = percent_encode_to(out, text, keep_slash);

    return slice_of(out, (size_t)(end - out));
}

struct slice percent_encode_listing(struct arena *arena, struct slice text)
{
    bool plain = true;

    for (size_t i = 0; i < text.len && plain; i++) {
        plain = percent_is_plain(text.data[i]) || text.data[i] == '/';
    }
    if (plain) {
        return text;
    }
    char *out = arena_alloc_raw(arena, 3 * text.len);
    char *at = out;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (percent_is_plain(c) || c == '/') {
            *at++ = c;
        } else if (c == ' ') {
            *at++ = '+';
        } else {
            at = percent_escape(at, c);
        }
    }
    return slice_of(out, (size_t)(at - out));
}

bool percent_decode_to(struct slice text, bool plus_is_space, char *out, size_t *out_len)
{
    size_t at = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '%') {
            int high = text.len - i > 2 ? hex_digit(text.data[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_digit(text.data[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[at++] = c;
    }
    *out_len = at;
    return true;
}

bool percent_decode(struct arena *arena, struct slice text, bool plus_is_space, struct slice *out)
{
    bool plain = text.len == 0 || (memchr(text.data, '%', text.len) == NULL &&
                                   (!plus_is_space || memchr(text.data, '+', text.len) == NULL));

    if (plain) {
        *out = text;
        return true;
    }
    char *to = arena_alloc_raw(arena, text.len + 1);
    size_t len = 0;

    if (!percent_decode_to(text, plus_is_space, to, &len)) {
        return false;
    }
    to[len] = '\0';
    *out = slice_of(to, len);
    return true;
}
