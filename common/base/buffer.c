#include "common/base/buffer.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { BUFFER_FIRST_BYTES = 256 };

void buffer_init(struct buffer *buffer)
{
    *buffer = (struct buffer){0};
}

void buffer_deinit(struct buffer *buffer)
{
    mem_free(buffer->data);
    buffer_init(buffer);
}

void buffer_clear(struct buffer *buffer)
{
    buffer->len = 0;
}

char *buffer_reserve(struct buffer *buffer, size_t more)
{
    ASSERT(more <= SIZE_MAX / 2 - buffer->len);
    if (buffer->capacity - buffer->len < more) {
        size_t want = buffer->capacity > 0 ? buffer->capacity : BUFFER_FIRST_BYTES;

        while (want - buffer->len < more) {
            want *= 2;
        }
        buffer->data = mem_realloc(buffer->data, want);
        buffer->capacity = want;
    }
    return buffer->data + buffer->len;
}

void buffer_append(struct buffer *buffer, struct slice bytes)
{
    if (bytes.len > 0) {
        memcpy(buffer_reserve(buffer, bytes.len), bytes.data, bytes.len);
        buffer->len += bytes.len;
    }
}

void buffer_append_byte(struct buffer *buffer, char byte)
{
    *buffer_reserve(buffer, 1) = byte;
    buffer->len += 1;
}

void buffer_append_u64(struct buffer *buffer, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        at -= 1;
        digits[at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buffer_append(buffer, slice_of(digits + at, sizeof(digits) - at));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_list again;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    (void)vsnprintf(buffer_reserve(buffer, (size_t)len + 1), (size_t)len + 1, format, again);
    va_end(again);
    buffer->len += (size_t)len;
}

void buffer_consume(struct buffer *buffer, size_t len)
{
    ASSERT(len <= buffer->len);
    if (len > 0) {
        memmove(buffer->data, buffer->data + len, buffer->len - len);
        buffer->len -= len;
    }
}
