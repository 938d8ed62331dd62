#include "common/base/slice.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool slice_eq_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

struct slice slice_trim(struct slice a)
{
    while (a.len > 0 && (a.data[0] == ' ' || a.data[0] == '\t')) {
        a.data += 1;
        a.len -= 1;
    }
    while (a.len > 0 && (a.data[a.len - 1] == ' ' || a.data[a.len - 1] == '\t')) {
        a.len -= 1;
    }
    return a;
}

size_t slice_find(struct slice a, char byte)
{
    const char *at = a.len > 0 ? memchr(a.data, byte, a.len) : NULL;

    return at != NULL ? (size_t)(at - a.data) : a.len;
}

bool slice_to_u64(struct slice a, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    if (a.len == 0 || a.len > 20) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)a.data[i] - '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (value > max) {
        return false;
    }
    *out = value;
    return true;
}
