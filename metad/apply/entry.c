#include "metad/apply/entry.h"

#include <assert.h>
#include <stddef.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/crc.h"

/* On disk, little endian. FORMAT.md. */
struct entry_header {
    uint32_t magic;
    uint16_t version;
    uint16_t command;
    uint32_t message_bytes;
    uint32_t body_bytes;
    uint64_t proposed_ns;
    uint64_t deadline_ns;
    uint8_t request_id[REQUEST_ID_BYTES];
    uint32_t reserved;
    uint32_t crc; /* CRC32C of what precedes it in the header, the message, the body */
};

static_assert(sizeof(struct entry_header) == ENTRY_HEADER_BYTES, "no padding");
static_assert(offsetof(struct entry_header, request_id) == 32, "layout");
static_assert(offsetof(struct entry_header, crc) == 52, "layout");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are stored as they lie in memory");

static uint32_t entry_crc(const struct entry_header *header, struct slice message,
                          struct slice body)
{
    uint32_t crc = crc32c(0, header, offsetof(struct entry_header, crc));

    crc = crc32c(crc, message.data, message.len);
    return crc32c(crc, body.data, body.len);
}

void entry_encode(const struct entry *entry, char out[ENTRY_HEADER_BYTES])
{
    struct entry_header header = {.magic = ENTRY_MAGIC,
                                  .version = ENTRY_VERSION,
                                  .command = entry->command,
                                  .message_bytes = (uint32_t)entry->message.len,
                                  .body_bytes = (uint32_t)entry->body.len,
                                  .proposed_ns = entry->proposed_ns,
                                  .deadline_ns = entry->deadline_ns};

    ASSERT(entry->message.len <= LIMIT_PART_COMMAND_BYTES);
    ASSERT(entry->body.len <= LIMIT_INLINE_BYTES);
    memcpy(header.request_id, entry->request_id, sizeof(header.request_id));
    header.crc = entry_crc(&header, entry->message, entry->body);
    memcpy(out, &header, sizeof(header));
}

enum rc entry_decode(struct slice from, struct entry *out, struct error *error)
{
    struct entry_header header;
    uint64_t length;

    if (from.len < sizeof(header)) {
        return error_set(error, RC_CORRUPT, "entry of %zu bytes is too short", from.len);
    }
    memcpy(&header, from.data, sizeof(header));
    if (header.magic != ENTRY_MAGIC) {
        return error_set(error, RC_CORRUPT, "entry has magic %08x", header.magic);
    }
    if (header.version != ENTRY_VERSION || header.reserved != 0) {
        return error_set(error, RC_UNSUPPORTED, "entry of version %u", header.version);
    }
    length = (uint64_t)sizeof(header) + header.message_bytes + header.body_bytes;
    if (length != from.len) {
        return error_set(error, RC_CORRUPT, "entry of %zu bytes says %llu", from.len,
                         (unsigned long long)length);
    }
    *out = (struct entry){.command = header.command,
                          .proposed_ns = header.proposed_ns,
                          .deadline_ns = header.deadline_ns};
    memcpy(out->request_id, header.request_id, sizeof(out->request_id));
    from = slice_after(from, sizeof(header));
    out->message = slice_of(from.data, header.message_bytes);
    out->body = slice_after(from, header.message_bytes);
    if (entry_crc(&header, out->message, out->body) != header.crc) {
        return error_set(error, RC_CORRUPT, "entry fails its checksum");
    }
    return RC_OK;
}
