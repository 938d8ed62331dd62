/* Bytes owned by someone else. Not NUL-terminated. */
#ifndef COMMON_BASE_SLICE_H
#define COMMON_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *data;
    size_t len;
};

#define SLICE(literal) ((struct slice){.data = (literal), .len = sizeof(literal) - 1})
#define SLICE_EMPTY    ((struct slice){.data = NULL, .len = 0})

static inline struct slice slice_of(const void *data, size_t len)
{
    return (struct slice){.data = (const char *)data, .len = len};
}

static inline struct slice slice_str(const char *text)
{
    return (struct slice){.data = text, .len = text != NULL ? strlen(text) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool slice_eq_str(struct slice a, const char *text)
{
    return slice_eq(a, slice_str(text));
}

/* Order of bytes, shorter first: the order of S3 keys. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.data, b.data, n);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.data, prefix.data, prefix.len) == 0);
}

/* The rest after `len` bytes; empty when there are fewer. */
static inline struct slice slice_after(struct slice a, size_t len)
{
    return len >= a.len ? SLICE_EMPTY : (struct slice){.data = a.data + len, .len = a.len - len};
}

/* ASCII case is ignored, as for HTTP header names (RFC 9110 5.1). */
bool slice_eq_nocase(struct slice a, struct slice b);

/* Without blanks and tabs at both ends. */
struct slice slice_trim(struct slice a);

/* Offset of the first `byte`, or a.len. */
size_t slice_find(struct slice a, char byte);

/* Decimal digits only, whole slice, at most `max`. */
bool slice_to_u64(struct slice a, uint64_t max, uint64_t *out);

#endif
