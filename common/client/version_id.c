#include "common/client/version_id.h"

#include "common/base/bytes.h"

/* In the order of its bytes, so that texts sort as what they stand for. */
static const char version_digits[64] = {
    '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E',
    'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U',
    'V', 'W', 'X', 'Y', 'Z', '_', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j',
    'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z'};

enum { VERSION_TIE_AT = 8 };

void version_id_pack(uint8_t out[VERSION_ID_BYTES], uint64_t stamp, uint32_t tie)
{
    be64_put(out, stamp);
    be32_put(out + VERSION_TIE_AT, tie);
}

bool version_id_unpack(struct slice packed, uint64_t *stamp, uint32_t *tie)
{
    if (packed.len != VERSION_ID_BYTES) {
        return false;
    }
    *stamp = be64_get(packed.data);
    *tie = be32_get(packed.data + VERSION_TIE_AT);
    return true;
}

bool version_id_is_null(struct slice packed)
{
    return slice_eq(packed, SLICE("null"));
}

static int digit_of(char c)
{
    for (int i = 0; i < (int)sizeof(version_digits); i++) {
        if (version_digits[i] == c) {
            return i;
        }
    }
    return -1;
}

bool version_id_parse(struct arena *arena, struct slice text, struct slice *packed)
{
    uint8_t bytes[VERSION_ID_BYTES];

    if (version_id_is_null(text)) {
        *packed = SLICE("null");
        return true;
    }
    if (text.len != VERSION_ID_TEXT_BYTES) {
        return false;
    }
    for (size_t i = 0; i < VERSION_ID_TEXT_BYTES / 4; i++) {
        uint32_t bits = 0;

        for (size_t j = 0; j < 4; j++) {
            int digit = digit_of(text.data[4 * i + j]);

            if (digit < 0) {
                return false;
            }
            bits = bits << 6 | (uint32_t)digit;
        }
        bytes[3 * i] = (uint8_t)~(bits >> 16);
        bytes[3 * i + 1] = (uint8_t)~(bits >> 8);
        bytes[3 * i + 2] = (uint8_t)~bits;
    }
    *packed = arena_copy(arena, slice_of((const char *)bytes, sizeof(bytes)));
    return true;
}

struct slice version_id_text_of(struct arena *arena, uint64_t stamp, uint32_t tie,
                                bool null_version)
{
    uint8_t bytes[VERSION_ID_BYTES];
    char text[VERSION_ID_TEXT_BYTES];

    if (null_version) {
        return SLICE("null");
    }
    version_id_pack(bytes, stamp, tie);
    for (size_t i = 0; i < VERSION_ID_TEXT_BYTES / 4; i++) {
        uint32_t bits = (uint32_t)(uint8_t)~bytes[3 * i] << 16 |
                        (uint32_t)(uint8_t)~bytes[3 * i + 1] << 8 |
                        (uint32_t)(uint8_t)~bytes[3 * i + 2];

        for (size_t j = 0; j < 4; j++) {
            text[4 * i + j] = version_digits[bits >> (18 - 6 * j) & 63];
        }
    }
    return arena_copy(arena, slice_of(text, sizeof(text)));
}

struct slice version_id_text(struct arena *arena, const Kist__Record *record)
{
    return version_id_text_of(arena, record->stamp, record->tie, record->null_version);
}
