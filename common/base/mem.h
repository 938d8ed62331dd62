/* Small allocations never fail: the process stops instead. Large memory is admitted before it is
 * taken (see limits.h), so handlers hold no out-of-memory paths. */
#ifndef COMMON_BASE_MEM_H
#define COMMON_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t len);       /* zeroed; never NULL */
void *mem_alloc_raw(size_t len);   /* not zeroed; never NULL */
void *mem_alloc_pages(size_t len); /* 4 KiB-aligned, not zeroed: for O_DIRECT and large reads */
void *mem_realloc(void *old, size_t len);     /* never NULL */
void *mem_copy(const void *from, size_t len); /* returns owned; one NUL byte follows the copy */
void mem_free(void *ptr);                     /* frees any of the above; NULL is allowed */

#endif
