#include "metad/store/message.h"

#include "common/base/assert.h"

static void *arena_take(void *arena, size_t len)
{
    return arena_alloc_raw(arena, len);
}

/* Memory of an arena is freed with it. */
static void arena_keep(void *arena, void *ptr)
{
    (void)arena;
    (void)ptr;
}

void *message_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct slice from)
{
    ProtobufCAllocator allocator = {
        .alloc = arena_take, .free = arena_keep, .allocator_data = arena};

    return protobuf_c_message_unpack(type, &allocator, from.len, (const uint8_t *)from.data);
}

struct slice message_pack(struct arena *arena, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *to = arena_alloc_raw(arena, len + 1);
    size_t packed = protobuf_c_message_pack(message, to);

    ASSERT(packed == len);
    return slice_of(to, len);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the .proto files nest */
static bool field_known(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *at = (const char *)message + field->offset;
    size_t count = 1;

    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return true;
    }
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        const ProtobufCMessage *const *inner = (const ProtobufCMessage *const *)(const void *)at;

        return *inner == NULL || message_known(*inner);
    }
    memcpy(&count, (const char *)message + field->quantifier_offset, sizeof(count));
    for (size_t i = 0; i < count; i++) {
        ProtobufCMessage *const *const *list = (ProtobufCMessage *const *const *)(const void *)at;

        if (!message_known((*list)[i])) {
            return false;
        }
    }
    return true;
}

/* Recursion over types, whose depth is that of the .proto files, not of the input. */
/* NOLINTNEXTLINE(misc-no-recursion): see above */
bool message_known(const ProtobufCMessage *message)
{
    if (message->n_unknown_fields > 0) {
        return false;
    }
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        if (!field_known(message, &message->descriptor->fields[i])) {
            return false;
        }
    }
    return true;
}
