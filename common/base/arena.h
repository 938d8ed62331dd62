/*
 * Memory of one request: taken piece by piece, freed once at the end. Not thread-safe: belongs to
 * the loop (or the one work job) that holds the request.
 */
#ifndef COMMON_BASE_ARENA_H
#define COMMON_BASE_ARENA_H

#include <stddef.h>

#include "common/base/slice.h"

struct arena_block;

struct arena {
    size_t used_bytes; /* all bytes handed out so far: callers bound it */
    /* Private. */
    struct arena_block *blocks;
    size_t next_bytes;
};

void arena_init(struct arena *arena);
void arena_deinit(struct arena *arena);
/* Frees all but the first block: for reuse by the next request of a connection. */
void arena_reset(struct arena *arena);

void *arena_alloc(struct arena *arena, size_t len);     /* zeroed, 16-byte aligned, never NULL */
void *arena_alloc_raw(struct arena *arena, size_t len); /* not zeroed */
/* A copy in the arena; a NUL byte follows it, so that `.data` is also a C string. */
struct slice arena_copy(struct arena *arena, struct slice from);
struct slice arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
