/*
 * Rows of pages and heads of calls between a remote meta_client and metad (FORMAT.md). Pure; what
 * comes in is checked.
 */
#ifndef COMMON_META_RPC_WIRE_H
#define COMMON_META_RPC_WIRE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "common/base/slice.h"

enum {
    WIRE_ROW_BYTES = 24,                  /* fixed part of a row */
    WIRE_PAGE_BYTES = 4 * 1024 * 1024,    /* rows of one answer: then the page ends early */
    WIRE_VIEW_CHUNK_BYTES = 1024 * 1024,  /* of one answer */
    WIRE_VIEW_BYTES = 1024 * 1024 * 1024, /* a whole view: 100,000 buckets of 10 KiB */
    WIRE_WRITE_BYTES = 32                 /* what stands before an inline body */
};

static_assert((size_t)WIRE_PAGE_BYTES <= LIMIT_RPC_BODY_BYTES, "a page fits a frame");

/* One row of a page. What the numbers and names are depends on the call. */
struct wire_row {
    uint64_t number;
    uint32_t flags;
    bool has_message;
    struct slice name;
    struct slice extra;
    struct slice message;
};

/* False: the page is full, nothing was added. `message` NULL: none. */
bool wire_row_put(struct buffer *page, const struct wire_row *row, const ProtobufCMessage *message);
/* False: not a row. Slices borrow `from`. */
bool wire_row_take(struct slice *from, struct wire_row *row);

/* Before the inline body of a META_WRITE. */
struct wire_write {
    uint8_t request_id[16];
    uint64_t deadline_ns; /* wall clock of the leader, as the client knows it; 0: it does not */
    uint32_t left_ms;     /* until the caller gives up */
    uint16_t command;
};

void wire_write_put(const struct wire_write *write, char out[WIRE_WRITE_BYTES]);
/* False: too short, or of a later version. */
bool wire_write_take(struct slice *from, struct wire_write *write);

/* The message lies in the arena; NULL: not such a message. */
void *wire_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct slice from);

static inline struct slice wire_slice(ProtobufCBinaryData field)
{
    return slice_of(field.data, field.len);
}

/* A field that borrows the slice: protobuf-c's fields are not const, nothing writes through them.
 */
static inline ProtobufCBinaryData wire_field(struct slice from)
{
    return (ProtobufCBinaryData){.len = from.len, .data = (uint8_t *)(uintptr_t)from.data};
}

#endif
