#include "common/meta_rpc/wire.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"

enum { WIRE_WRITE_VERSION = 1 };

static const uint32_t NO_MESSAGE = 1U << 31;

/* ---- Rows: number le64, flags le32 (the highest bit: no message), three lengths le32 ---- */

bool wire_row_put(struct buffer *page, const struct wire_row *row, const ProtobufCMessage *message)
{
    size_t message_len = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    size_t len = WIRE_ROW_BYTES + row->name.len + row->extra.len + message_len;
    char *to;

    ASSERT((row->flags & NO_MESSAGE) == 0);
    if (len > WIRE_PAGE_BYTES || page->len > WIRE_PAGE_BYTES - len) {
        return false;
    }
    to = buffer_reserve(page, len);
    le64_put(to, row->number);
    le32_put(to + 8, row->flags | (message == NULL ? NO_MESSAGE : 0));
    le32_put(to + 12, (uint32_t)row->name.len);
    le32_put(to + 16, (uint32_t)row->extra.len);
    le32_put(to + 20, (uint32_t)message_len);
    to += WIRE_ROW_BYTES;
    if (row->name.len > 0) {
        memcpy(to, row->name.data, row->name.len);
    }
    if (row->extra.len > 0) {
        memcpy(to + row->name.len, row->extra.data, row->extra.len);
    }
    if (message != NULL) {
        (void)protobuf_c_message_pack(message, (uint8_t *)to + row->name.len + row->extra.len);
    }
    page->len += len;
    return true;
}

bool wire_row_take(struct slice *from, struct wire_row *row)
{
    uint64_t name_len;
    uint64_t extra_len;
    uint64_t message_len;
    uint32_t flags;

    if (from->len < WIRE_ROW_BYTES) {
        return false;
    }
    flags = le32_get(from->data + 8);
    name_len = le32_get(from->data + 12);
    extra_len = le32_get(from->data + 16);
    message_len = le32_get(from->data + 20);
    if (name_len + extra_len + message_len > from->len - WIRE_ROW_BYTES) {
        return false;
    }
    *row = (struct wire_row){.number = le64_get(from->data),
                             .flags = flags & ~NO_MESSAGE,
                             .has_message = (flags & NO_MESSAGE) == 0};
    *from = slice_after(*from, WIRE_ROW_BYTES);
    row->name = slice_of(from->data, (size_t)name_len);
    *from = slice_after(*from, (size_t)name_len);
    row->extra = slice_of(from->data, (size_t)extra_len);
    *from = slice_after(*from, (size_t)extra_len);
    row->message = slice_of(from->data, (size_t)message_len);
    *from = slice_after(*from, (size_t)message_len);
    return true;
}

/* ---- Writes ---- */

void wire_write_put(const struct wire_write *write, char out[WIRE_WRITE_BYTES])
{
    memcpy(out, write->request_id, sizeof(write->request_id));
    le64_put(out + 16, write->deadline_ns);
    le32_put(out + 24, write->left_ms);
    out[28] = (char)(write->command & 0xff);
    out[29] = (char)(write->command >> 8);
    out[30] = WIRE_WRITE_VERSION;
    out[31] = 0;
}

bool wire_write_take(struct slice *from, struct wire_write *write)
{
    const uint8_t *at = (const uint8_t *)from->data;

    if (from->len < WIRE_WRITE_BYTES || at[30] != WIRE_WRITE_VERSION || at[31] != 0) {
        return false;
    }
    memcpy(write->request_id, at, sizeof(write->request_id));
    write->deadline_ns = le64_get(from->data + 16);
    write->left_ms = le32_get(from->data + 24);
    write->command = (uint16_t)(at[28] | (at[29] << 8));
    *from = slice_after(*from, WIRE_WRITE_BYTES);
    return true;
}

/* ---- Messages in an arena ---- */

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

void *wire_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct slice from)
{
    ProtobufCAllocator allocator = {
        .alloc = arena_take, .free = arena_keep, .allocator_data = arena};

    return protobuf_c_message_unpack(type, &allocator, from.len, (const uint8_t *)from.data);
}
