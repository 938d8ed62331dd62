/* See frame.h; the layout is in FORMAT.md. */
#include "common/rpc/frame.h"

#include <assert.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/crc.h"

struct header { /* little endian, as on the wire */
    uint8_t magic[4];
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint16_t method;
    uint16_t status;
    uint32_t value;
    uint64_t id;
    uint32_t head_len;
    uint32_t body_len;
    uint32_t body_crc;
    uint32_t crc; /* of all before it, and of the head */
};

static_assert(sizeof(struct header) == RPC_FRAME_HEADER_BYTES, "no padding");
static_assert(offsetof(struct header, id) == 16 && offsetof(struct header, crc) == 36, "layout");

static const uint8_t frame_magic[4] = {'k', 'R', 'P', 'C'};

static uint32_t header_crc(const struct header *header, const char *head, size_t head_len)
{
    uint32_t crc = crc32c(0, header, offsetof(struct header, crc));

    return head_len > 0 ? crc32c(crc, head, head_len) : crc;
}

void rpc_frame_seal(const struct rpc_frame *frame, char *to)
{
    struct header header = {.version = frame->version,
                            .kind = frame->kind,
                            .flags = frame->flags,
                            .method = frame->method,
                            .status = frame->status,
                            .value = frame->value,
                            .id = frame->id,
                            .head_len = frame->head_len,
                            .body_len = frame->body_len,
                            .body_crc = frame->body_crc};

    ASSERT(frame->head_len <= LIMIT_RPC_HEAD_BYTES && frame->body_len <= LIMIT_RPC_BODY_BYTES);
    memcpy(header.magic, frame_magic, sizeof(frame_magic));
    header.crc = header_crc(&header, to + sizeof(header), frame->head_len);
    memcpy(to, &header, sizeof(header));
}

static enum rc header_check(const struct header *header, struct error *error)
{
    if (memcmp(header->magic, frame_magic, sizeof(frame_magic)) != 0) {
        return error_set(error, RC_CORRUPT, "frame: not a frame of kist");
    }
    if (header->version < RPC_FRAME_VERSION_MIN || header->version > RPC_FRAME_VERSION_MAX) {
        return error_set(error, RC_UNSUPPORTED, "frame: version %u, understood are %d to %d",
                         header->version, RPC_FRAME_VERSION_MIN, RPC_FRAME_VERSION_MAX);
    }
    if (header->head_len > LIMIT_RPC_HEAD_BYTES || header->body_len > LIMIT_RPC_BODY_BYTES) {
        return error_set(error, RC_LIMIT, "frame: head of %u bytes and body of %u: too long",
                         header->head_len, header->body_len);
    }
    return RC_OK;
}

enum rc rpc_frame_parse(struct slice bytes, struct rpc_frame *frame, size_t *need,
                        struct error *error)
{
    struct header header;
    enum rc rc;

    *need = sizeof(header);
    if (bytes.len < sizeof(header)) {
        return RC_AGAIN;
    }
    memcpy(&header, bytes.data, sizeof(header));
    rc = header_check(&header, error);
    if (rc != RC_OK) {
        return rc;
    }
    *need = sizeof(header) + header.head_len;
    if (bytes.len < *need) {
        return RC_AGAIN;
    }
    if (header.crc != header_crc(&header, bytes.data + sizeof(header), header.head_len)) {
        return error_set(error, RC_CORRUPT, "frame: checksum mismatch");
    }
    /* Behind the checksum: what is unknown here is meant so by another release. */
    if (header.kind == 0 || header.kind >= RPC_FRAME_KIND_END ||
        (header.flags & ~RPC_FRAME_FLAG_BODY_CRC) != 0) {
        return error_set(error, RC_UNSUPPORTED, "frame: kind %u with flags %x is not known here",
                         header.kind, header.flags);
    }
    *need += header.body_len;
    *frame = (struct rpc_frame){.version = header.version,
                                .kind = header.kind,
                                .flags = header.flags,
                                .method = header.method,
                                .status = header.status,
                                .value = header.value,
                                .id = header.id,
                                .head_len = header.head_len,
                                .body_len = header.body_len,
                                .body_crc = header.body_crc};
    return RC_OK;
}

/* ---- Outcomes ---- */

enum { STATUS_IO = 11 }; /* what is no rc at all */

uint16_t rpc_status_of(enum rc rc)
{
    switch (rc) { /* a new rc without a row does not compile */
#define RPC_STATUS(number, code)                                                                   \
    case (code):                                                                                   \
        return (number);
#include "common/rpc/status.def"
#undef RPC_STATUS
    }
    return STATUS_IO;
}

enum rc rpc_status_rc(uint16_t status)
{
    switch (status) {
#define RPC_STATUS(number, code)                                                                   \
    case (number):                                                                                 \
        return (code);
#include "common/rpc/status.def"
#undef RPC_STATUS
    default:
        return RC_IO;
    }
}
