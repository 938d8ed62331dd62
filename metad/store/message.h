/*
 * Values of rows and commands: protobuf-c messages in an arena. Any thread that owns the arena.
 *
 * Messages unpacked here are never freed one by one: they go with their arena.
 */
#ifndef METAD_STORE_MESSAGE_H
#define METAD_STORE_MESSAGE_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/arena.h"
#include "common/base/slice.h"

/* NULL when the bytes are not such a message. */
void *message_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type,
                     struct slice from);
struct slice message_pack(struct arena *arena, const ProtobufCMessage *message);
/* No field, at any depth, that this release does not know. */
bool message_known(const ProtobufCMessage *message);

static inline struct slice message_bytes(ProtobufCBinaryData field)
{
    return slice_of(field.data, field.len);
}

/* A field that borrows the slice. protobuf-c's fields are not const; nothing writes through them.
 */
static inline ProtobufCBinaryData message_field(struct slice from)
{
    return (ProtobufCBinaryData){.len = from.len, .data = (uint8_t *)(uintptr_t)from.data};
}

#endif
