/*
 * Where a GET stands among an object's pieces: those in the record first, further ones from metad
 * in pages. Knows no disks.
 */
#ifndef GATEWAY_OBJECT_READ_CURSOR_H
#define GATEWAY_OBJECT_READ_CURSOR_H

#include "common/task/task.h"
#include "gateway/object/read_window.h"

struct read_cursor {
    /* In. */
    struct gateway *gateway;
    const struct view *view;
    uint64_t bucket_id; /* of the key asked: the home unless the layout is shared */
    struct slice key;
    const Kist__Record *record;
    uint64_t at; /* next byte of the object */
    /* Private. */
    Kist__Piece *const *pieces;
    size_t count;
    size_t index;         /* pieces[index] is the one in hand */
    uint64_t piece_start; /* its first byte within the object */
    struct arena arena;   /* of a page */
    struct meta_pieces call;
    struct task task;
    void (*done)(struct read_cursor *cursor, enum rc rc);
};

enum read_cursor_next {
    CURSOR_FOUND = 0, /* `extent`, `extent_at`, `length` are set */
    CURSOR_LOAD,      /* read_cursor_load() first */
    CURSOR_BROKEN     /* the record contradicts itself */
};

void read_cursor_init(struct read_cursor *cursor);
void read_cursor_deinit(struct read_cursor *cursor);
/* What holds byte `at`: an extent, where in it, and how many bytes of it follow in this piece. */
enum read_cursor_next read_cursor_find(struct read_cursor *cursor, struct read_extent *extent,
                                       uint64_t *extent_at, uint64_t *length);
/* Asks the layout's home for the pieces from `at` on. `done` may run before it returns. */
void read_cursor_load(struct read_cursor *cursor,
                      void (*done)(struct read_cursor *cursor, enum rc rc));

#endif
