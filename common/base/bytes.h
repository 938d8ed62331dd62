/* Fixed-width integers to and from bytes. Big endian for keys (memcmp order), little for formats.
 */
#ifndef COMMON_BASE_BYTES_H
#define COMMON_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline void be64_put(void *to, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(to, &value, sizeof(value));
}

static inline uint64_t be64_get(const void *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof(value));
    return __builtin_bswap64(value);
}

static inline void be32_put(void *to, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(to, &value, sizeof(value));
}

static inline uint32_t be32_get(const void *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof(value));
    return __builtin_bswap32(value);
}

static inline void le64_put(void *to, uint64_t value)
{
    memcpy(to, &value, sizeof(value));
}

static inline uint64_t le64_get(const void *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof(value));
    return value;
}

static inline void le32_put(void *to, uint32_t value)
{
    memcpy(to, &value, sizeof(value));
}

static inline uint32_t le32_get(const void *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof(value));
    return value;
}

#endif
