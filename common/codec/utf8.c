#include "common/codec/utf8.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the sequence that begins at `at`, or 0 when it is not well formed (RFC 3629 section 4).
 */
static size_t utf8_sequence(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0];
    uint8_t low = 0x80; /* bounds of the second byte */
    uint8_t high = 0xbf;
    size_t len;

    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        len = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        len = 3;
        low = lead == 0xe0 ? 0xa0 : 0x80;
        high = lead == 0xed ? 0x9f : 0xbf;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        len = 4;
        low = lead == 0xf0 ? 0x90 : 0x80;
        high = lead == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (left < len || at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (at[i] < 0x80 || at[i] > 0xbf) {
            return 0;
        }
    }
    return len;
}

bool utf8_valid(struct slice text)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    size_t at = 0;

    while (at < text.len) {
        uint64_t eight;

        if (text.len - at >= sizeof(eight)) {
            memcpy(&eight, bytes + at, sizeof(eight));
            if ((eight & 0x8080808080808080ULL) == 0) {
                at += sizeof(eight);
                continue;
            }
        }
        size_t len = utf8_sequence(bytes + at, text.len - at);
        if (len == 0) {
            return false;
        }
        at += len;
    }
    return true;
}
