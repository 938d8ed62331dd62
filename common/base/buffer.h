/* A growing run of bytes. The owner bounds its length. */
#ifndef COMMON_BASE_BUFFER_H
#define COMMON_BASE_BUFFER_H

#include <stddef.h>

#include "common/base/slice.h"

struct buffer {
    char *data;
    size_t len;
    /* Private. */
    size_t capacity;
};

void buffer_init(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* keeps the memory */
/* Room for `more` bytes after `len`; returns where they go. The caller then adds to `len`. */
char *buffer_reserve(struct buffer *buffer, size_t more);
void buffer_append(struct buffer *buffer, struct slice bytes);
void buffer_append_byte(struct buffer *buffer, char byte);
void buffer_append_u64(struct buffer *buffer, uint64_t value); /* decimal digits */
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Drops the first `len` bytes. */
void buffer_consume(struct buffer *buffer, size_t len);

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return slice_of(buffer->data, buffer->len);
}

#endif
