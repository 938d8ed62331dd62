#include "gateway/access/policy_value.h"

#include <stdlib.h>

#include "common/codec/time_format.h"

enum { NUMBER_TEXT_MAX = 40, ADDRESS_GROUPS = 8, V4_PREFIX_AT = 96, ADDRESS_BITS = 128 };

bool policy_number(struct slice text, double *out)
{
    char copy[NUMBER_TEXT_MAX + 1];
    char *end = NULL;

    if (text.len == 0 || text.len > NUMBER_TEXT_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if ((c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E') {
            return false; /* strtod would also take blanks, "inf" and hexadecimal */
        }
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *out = strtod(copy, &end);
    return end == copy + text.len;
}

/* "+02:00" or "-0530" at the end: its seconds, cut from the text. */
static bool date_offset(struct slice *text, double *offset_s)
{
    size_t at = text->len;
    uint64_t hours;
    uint64_t minutes;
    struct slice zone;

    *offset_s = 0;
    while (at > 0 && text->data[at - 1] != '+' && text->data[at - 1] != '-') {
        at -= 1;
    }
    if (at <= sizeof("2026-11-30T") || slice_find(*text, 'T') >= at) {
        return true; /* no sign behind the time of day */
    }
    zone = slice_after(*text, at);
    if ((zone.len != 5 || zone.data[2] != ':') && zone.len != 4) {
        return false;
    }
    if (!slice_to_u64(slice_of(zone.data, 2), 23, &hours) ||
        !slice_to_u64(slice_of(zone.data + zone.len - 2, 2), 59, &minutes)) {
        return false;
    }
    *offset_s = (double)(hours * 3600 + minutes * 60) * (text->data[at - 1] == '-' ? -1 : 1);
    text->len = at - 1;
    return true;
}

bool policy_date(struct slice text, double *out)
{
    char zulu[NUMBER_TEXT_MAX + 2];
    uint64_t ns;
    double offset;

    if (policy_number(text, out)) {
        return true;
    }
    if (text.len == 0 || text.len > NUMBER_TEXT_MAX || !date_offset(&text, &offset)) {
        return false;
    }
    memcpy(zulu, text.data, text.len);
    if (slice_find(text, 'T') < text.len && text.data[text.len - 1] != 'Z') {
        zulu[text.len] = 'Z';
        text.len += 1;
    }
    if (!time_parse_iso8601(slice_of(zulu, text.len), &ns)) {
        return false;
    }
    *out = (double)ns / 1e9 - offset;
    return true;
}

bool policy_boolean(struct slice text, bool *out)
{
    *out = slice_eq_nocase(text, SLICE("true"));
    return *out || slice_eq_nocase(text, SLICE("false"));
}

/* ---- Addresses ---- */

static bool address_v4(struct slice text, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        struct slice part = slice_of(text.data, slice_find(text, '.'));
        uint64_t value;

        if (part.len == 0 || part.len > 3 || !slice_to_u64(part, 255, &value) ||
            (part.len == text.len) != (i == 3)) {
            return false;
        }
        out[i] = (uint8_t)value;
        text = slice_after(text, part.len + 1);
    }
    return true;
}

static bool address_group(struct slice text, uint16_t *out)
{
    unsigned value = 0;

    if (text.len == 0 || text.len > 4) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        unsigned digit;

        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *out = (uint16_t)value;
    return true;
}

/* Groups up to "::" or the end; `rest` is what stands behind it. */
static bool address_groups(struct slice text, uint16_t *groups, unsigned *count, struct slice *rest)
{
    *count = 0;
    *rest = SLICE_EMPTY;
    while (text.len > 0) {
        struct slice part = slice_of(text.data, slice_find(text, ':'));

        if (*count == ADDRESS_GROUPS) {
            return false;
        }
        if (slice_find(part, '.') < part.len) {
            uint8_t v4[4];

            if (*count + 2 > ADDRESS_GROUPS || part.len != text.len || !address_v4(part, v4)) {
                return false;
            }
            groups[(*count)++] = (uint16_t)(v4[0] << 8 | v4[1]);
            groups[(*count)++] = (uint16_t)(v4[2] << 8 | v4[3]);
            return true;
        }
        if (!address_group(part, &groups[*count])) {
            return false;
        }
        *count += 1;
        text = slice_after(text, part.len);
        if (text.len == 0) {
            return true;
        }
        if (text.len == 1) {
            return false; /* ends with one colon */
        }
        if (text.data[1] == ':') {
            *rest = text;
            return true;
        }
        text = slice_after(text, 1);
    }
    return true;
}

static bool address_v6(struct slice text, uint8_t out[16])
{
    uint16_t head[ADDRESS_GROUPS] = {0};
    uint16_t tail[ADDRESS_GROUPS] = {0};
    unsigned head_count = 0;
    unsigned tail_count = 0;
    struct slice rest;
    struct slice more;

    if (text.len < 2) {
        return false;
    }
    if (slice_starts(text, SLICE("::"))) {
        rest = text;
    } else if (!address_groups(text, head, &head_count, &rest)) {
        return false;
    }
    if (rest.len == 0) {
        if (head_count != ADDRESS_GROUPS) {
            return false;
        }
    } else if (!address_groups(slice_after(rest, 2), tail, &tail_count, &more) || more.len > 0 ||
               head_count + tail_count >= ADDRESS_GROUPS) {
        return false;
    }
    for (unsigned i = 0; i < tail_count; i++) {
        head[ADDRESS_GROUPS - tail_count + i] = tail[i];
    }
    for (unsigned i = 0; i < ADDRESS_GROUPS; i++) {
        out[(size_t)2 * i] = (uint8_t)(head[i] >> 8);
        out[(size_t)2 * i + 1] = (uint8_t)head[i];
    }
    return true;
}

bool policy_address_read(struct slice text, struct policy_address *out)
{
    size_t slash = slice_find(text, '/');
    struct slice address = slice_of(text.data, slash);
    uint64_t bits;

    *out = (struct policy_address){.is_v4 = slice_find(address, ':') == address.len};
    if (out->is_v4) {
        out->bytes[10] = 0xff;
        out->bytes[11] = 0xff;
        if (!address_v4(address, out->bytes + 12)) {
            return false;
        }
    } else if (!address_v6(address, out->bytes)) {
        return false;
    }
    bits = out->is_v4 ? ADDRESS_BITS - V4_PREFIX_AT : ADDRESS_BITS;
    if (slash < text.len && !slice_to_u64(slice_after(text, slash + 1), bits, &bits)) {
        return false;
    }
    out->prefix = (unsigned)bits + (out->is_v4 ? V4_PREFIX_AT : 0);
    return true;
}

bool policy_address_covers(const struct policy_address *range, const struct policy_address *one)
{
    unsigned whole = range->prefix / 8;
    unsigned rest = range->prefix % 8;

    if (memcmp(range->bytes, one->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || (range->bytes[whole] ^ one->bytes[whole]) >> (8 - rest) == 0;
}
