#include "common/base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { ARENA_FIRST_BYTES = 4096, ARENA_BLOCK_BYTES_MAX = 65536, ARENA_ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t at;
    size_t len;
    size_t pad;
    char bytes[];
};

static_assert(sizeof(struct arena_block) % ARENA_ALIGN == 0, "blocks keep the alignment of malloc");

void arena_init(struct arena *arena)
{
    *arena = (struct arena){.next_bytes = ARENA_FIRST_BYTES};
}

void arena_deinit(struct arena *arena)
{
    while (arena->blocks != NULL) {
        struct arena_block *next = arena->blocks->next;

        mem_free(arena->blocks);
        arena->blocks = next;
    }
    arena_init(arena);
}

void arena_reset(struct arena *arena)
{
    while (arena->blocks != NULL && arena->blocks->next != NULL) {
        struct arena_block *next = arena->blocks->next;

        mem_free(arena->blocks);
        arena->blocks = next;
    }
    if (arena->blocks != NULL) {
        arena->blocks->at = 0;
    }
    arena->used_bytes = 0;
    arena->next_bytes = ARENA_FIRST_BYTES;
}

static void arena_grow(struct arena *arena, size_t len)
{
    size_t want = len > arena->next_bytes ? len : arena->next_bytes;
    struct arena_block *block = mem_alloc_raw(sizeof(*block) + want);

    block->at = 0;
    block->len = want;
    block->next = arena->blocks;
    arena->blocks = block;
    if (arena->next_bytes < ARENA_BLOCK_BYTES_MAX) {
        arena->next_bytes *= 2;
    }
}

void *arena_alloc_raw(struct arena *arena, size_t len)
{
    size_t rounded = (len + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    void *ptr;

    ASSERT(rounded >= len);
    if (arena->blocks == NULL || arena->blocks->len - arena->blocks->at < rounded) {
        arena_grow(arena, rounded);
    }
    ptr = arena->blocks->bytes + arena->blocks->at;
    arena->blocks->at += rounded;
    arena->used_bytes += rounded;
    return ptr;
}

void *arena_alloc(struct arena *arena, size_t len)
{
    void *ptr = arena_alloc_raw(arena, len);

    memset(ptr, 0, len);
    return ptr;
}

struct slice arena_copy(struct arena *arena, struct slice from)
{
    char *to = arena_alloc_raw(arena, from.len + 1);

    if (from.len > 0) {
        memcpy(to, from.data, from.len);
    }
    to[from.len] = '\0';
    return slice_of(to, from.len);
}

struct slice arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_list again;
    int len;
    char *to;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    to = arena_alloc_raw(arena, (size_t)len + 1);
    (void)vsnprintf(to, (size_t)len + 1, format, again);
    va_end(again);
    return slice_of(to, (size_t)len);
}
