#include "common/codec/base64.h"

#include <stdint.h>

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(char *out, const void *data, size_t len)
{
    const uint8_t *in = data;
    size_t at = 0;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t group = (uint32_t)in[i] << 16;

        group |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        group |= left > 2 ? in[i + 2] : 0;
        out[at++] = base64_alphabet[group >> 18];
        out[at++] = base64_alphabet[group >> 12 & 63];
        out[at++] = left > 1 ? base64_alphabet[group >> 6 & 63] : '=';
        out[at++] = left > 2 ? base64_alphabet[group & 63] : '=';
    }
    return at;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '+') {
        return 62;
    }
    return c == '/' ? 63 : -1;
}

/* The bits of one group of four characters; -1 when malformed. */
static int32_t base64_group(const char *text, size_t padding)
{
    int32_t group = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < 4 - padding ? base64_value(text[i]) : 0;

        if (value < 0) {
            return -1;
        }
        group = group << 6 | value;
    }
    /* Bits that stand for no byte must be zero. */
    if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0)) {
        return -1;
    }
    return group;
}

bool base64_decode(struct slice text, void *out, size_t out_max, size_t *out_len)
{
    uint8_t *bytes = out;
    size_t at = 0;

    if (text.len % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        bool last = i + 4 == text.len;
        size_t padding = 0;

        if (last && text.data[i + 3] == '=') {
            padding = text.data[i + 2] == '=' ? 2 : 1;
        }
        int32_t group = base64_group(text.data + i, padding);
        if (group < 0 || out_max - at < 3 - padding) {
            return false;
        }
        for (size_t j = 0; j < 3 - padding; j++) {
            bytes[at++] = (uint8_t)(group >> (16 - 8 * j) & 0xff);
        }
    }
    *out_len = at;
    return true;
}
