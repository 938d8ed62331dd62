#include "metad/store/record_peek.h"

#include "common/base/bytes.h"
#include "metad/store/message.h"

enum {
    WIRE_VARINT = 0,
    WIRE_64 = 1,
    WIRE_BYTES = 2,
    WIRE_32 = 5,
    FIELD_STAMP = 1,
    FIELD_SIZE = 2,
    FIELD_ETAG = 3,
    FIELD_PART_COUNT = 4,
    FIELD_CHECKSUMS = 5,
    FIELD_OWNER = 14,
    FIELD_STORAGE_CLASS = 16,
    FIELD_TIE = 17,
    FIELD_NULL_VERSION = 18,
    FIELD_DELETE_MARKER = 19,
    FIELD_SEGMENTS = 23,
    CHECKSUMS_MAX = 8
};

/* One field off the front. */
struct wire_field {
    uint32_t number;
    uint32_t type;
    uint64_t value;     /* varint and fixed */
    struct slice bytes; /* WIRE_BYTES */
};

static bool take_varint(struct slice *from, uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < 10 && i < from->len; i++) {
        uint8_t byte = (uint8_t)from->data[i];

        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *from = slice_after(*from, i + 1);
            return true;
        }
    }
    return false;
}

static bool take_fixed(struct slice *from, size_t len, uint64_t *value)
{
    if (from->len < len || from->data == NULL) {
        return false;
    }
    *value = len == 8 ? le64_get(from->data) : le32_get(from->data);
    *from = slice_after(*from, len);
    return true;
}

static bool take_field(struct slice *from, struct wire_field *field)
{
    uint64_t tag;

    if (!take_varint(from, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = tag & 7;
    switch (field->type) {
    case WIRE_VARINT:
        return take_varint(from, &field->value);
    case WIRE_64:
        return take_fixed(from, 8, &field->value);
    case WIRE_32:
        return take_fixed(from, 4, &field->value);
    case WIRE_BYTES:
        if (!take_varint(from, &field->value) || field->value > from->len) {
            return false;
        }
        field->bytes = slice_of(from->data, (size_t)field->value);
        *from = slice_after(*from, (size_t)field->value);
        return true;
    default:
        return false;
    }
}

static ProtobufCBinaryData peek_bytes(struct arena *arena, struct slice from)
{
    return message_field(arena_copy(arena, from));
}

static bool peek_checksum(struct arena *arena, Kist__Record *record, struct slice from)
{
    struct slice copy = arena_copy(arena, from);

    if (record->n_checksums == CHECKSUMS_MAX) {
        return false;
    }
    if (record->checksums == NULL) {
        record->checksums = arena_alloc(arena, CHECKSUMS_MAX * sizeof(*record->checksums));
    }
    record->checksums[record->n_checksums] =
        message_unpack(arena, &kist__checksum__descriptor, copy);
    return record->checksums[record->n_checksums++] != NULL;
}

static bool peek_field(struct arena *arena, Kist__Record *record, const struct wire_field *field)
{
    switch (field->number) {
    case FIELD_STAMP:
        record->stamp = field->value;
        return field->type == WIRE_64;
    case FIELD_SIZE:
        record->size = field->value;
        return field->type == WIRE_VARINT;
    case FIELD_PART_COUNT:
        record->part_count = (uint32_t)field->value;
        return field->type == WIRE_VARINT;
    case FIELD_SEGMENTS:
        record->segments = (uint32_t)field->value;
        return field->type == WIRE_VARINT;
    case FIELD_ETAG:
        record->etag = peek_bytes(arena, field->bytes);
        return field->type == WIRE_BYTES;
    case FIELD_OWNER:
        record->owner = peek_bytes(arena, field->bytes);
        return field->type == WIRE_BYTES;
    case FIELD_STORAGE_CLASS:
        record->storage_class = peek_bytes(arena, field->bytes);
        return field->type == WIRE_BYTES;
    case FIELD_TIE:
        record->tie = (uint32_t)field->value;
        return field->type == WIRE_VARINT;
    case FIELD_NULL_VERSION:
        record->null_version = field->value != 0;
        return field->type == WIRE_VARINT;
    case FIELD_DELETE_MARKER:
        record->delete_marker = field->value != 0;
        return field->type == WIRE_VARINT;
    case FIELD_CHECKSUMS:
        return field->type == WIRE_BYTES && peek_checksum(arena, record, field->bytes);
    default:
        return true;
    }
}

Kist__Record *record_peek(struct arena *arena, struct slice value)
{
    Kist__Record *record = arena_alloc_raw(arena, sizeof(*record));

    kist__record__init(record);
    while (value.len > 0) {
        struct wire_field field = {.number = 0};

        if (!take_field(&value, &field) || !peek_field(arena, record, &field)) {
            return NULL;
        }
    }
    return record;
}

Kist__Record *record_listed(struct arena *arena, struct slice value, bool whole)
{
    return whole ? message_unpack(arena, &kist__record__descriptor, value)
                 : record_peek(arena, value);
}
