#include "common/base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

enum { PAGE_BYTES = 4096 };

void *mem_alloc(size_t len)
{
    void *ptr = calloc(1, len > 0 ? len : 1);

    ASSERT(ptr != NULL);
    return ptr;
}

void *mem_alloc_raw(size_t len)
{
    void *ptr = malloc(len > 0 ? len : 1);

    ASSERT(ptr != NULL);
    return ptr;
}

void *mem_alloc_pages(size_t len)
{
    size_t rounded = (len + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    void *ptr = aligned_alloc(PAGE_BYTES, rounded > 0 ? rounded : PAGE_BYTES);

    ASSERT(ptr != NULL);
    return ptr;
}

void *mem_realloc(void *old, size_t len)
{
    void *ptr = realloc(old, len > 0 ? len : 1);

    ASSERT(ptr != NULL);
    return ptr;
}

void *mem_copy(const void *from, size_t len)
{
    char *ptr = mem_alloc_raw(len + 1);

    if (len > 0) {
        memcpy(ptr, from, len);
    }
    ptr[len] = '\0';
    return ptr;
}

void mem_free(void *ptr)
{
    free(ptr);
}
