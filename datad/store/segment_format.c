/* Encoding and checking of what FORMAT.md describes. */
#include "datad/store/segment_format.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/codec/crc.h"

static const uint8_t magic_segment[8] = {'k', 'i', 's', 't', 'S', 'E', 'G', '1'};
static const uint8_t magic_shard[8] = {'k', 'i', 's', 't', 'S', 'H', 'D', '1'};
static const uint8_t magic_footer[8] = {'k', 'i', 's', 't', 'F', 'T', 'R', '1'};
static const uint8_t magic_delete[8] = {'k', 'i', 's', 't', 'D', 'E', 'L', '1'};

/* Of `len` bytes that begin (after `before`) with a mark, whose crc field counts as 0. */
static uint32_t mark_crc(struct slice before, const uint8_t *from, size_t len)
{
    static const uint8_t zero[sizeof(uint32_t)];
    size_t field = offsetof(struct segment_mark, crc);
    uint32_t crc = crc32c(0, before.data, before.len);

    ASSERT(len >= sizeof(struct segment_mark));
    crc = crc32c(crc, from, field);
    crc = crc32c(crc, zero, sizeof(zero));
    return crc32c(crc, from + field + sizeof(zero), len - field - sizeof(zero));
}

static void mark_fill(struct segment_mark *mark, const uint8_t *magic,
                      const struct segment_identity *identity, uint64_t at)
{
    *mark = (struct segment_mark){
        .version = SEGMENT_VERSION, .generation = identity->generation, .at = at};
    memcpy(mark->magic, magic, sizeof(mark->magic));
    memcpy(mark->uuid, identity->uuid, sizeof(mark->uuid));
}

static bool mark_matches(const struct segment_mark *mark, const uint8_t *magic,
                         const struct segment_identity *identity)
{
    return memcmp(mark->magic, magic, sizeof(mark->magic)) == 0 &&
           mark->version == SEGMENT_VERSION && mark->generation == identity->generation &&
           memcmp(mark->uuid, identity->uuid, sizeof(mark->uuid)) == 0;
}

static void block_close(uint8_t *block)
{
    uint32_t crc = mark_crc(SLICE_EMPTY, block, SEGMENT_ALIGN);

    memcpy(block + offsetof(struct segment_mark, crc), &crc, sizeof(crc));
}

static bool block_crc_ok(const uint8_t *block)
{
    uint32_t crc;

    memcpy(&crc, block + offsetof(struct segment_mark, crc), sizeof(crc));
    return crc == mark_crc(SLICE_EMPTY, block, SEGMENT_ALIGN);
}

void segment_header_encode(uint8_t *block, const struct segment_identity *identity,
                           const struct segment_header *fields)
{
    struct segment_header header = *fields;

    mark_fill(&header.mark, magic_segment, identity, 0);
    header.zero = 0;
    memset(block, 0, SEGMENT_ALIGN);
    memcpy(block, &header, sizeof(header));
    block_close(block);
}

void shard_header_encode(uint8_t *block, const struct segment_identity *identity, uint64_t at,
                         const struct shard_header *fields, struct slice key)
{
    struct shard_header header;

    ASSERT(key.len <= LIMIT_KEY_BYTES);
    ASSERT(at % SEGMENT_ALIGN == 0);
    memcpy(&header, fields, sizeof(header));
    mark_fill(&header.mark, magic_shard, identity, at);
    header.key_len = (uint16_t)key.len;
    header.zero = 0;
    memset(block, 0, SEGMENT_ALIGN);
    memcpy(block, &header, sizeof(header));
    if (key.len > 0) {
        memcpy(block + sizeof(header), key.data, key.len);
    }
    block_close(block);
}

void delete_record_encode(uint8_t *block, const struct segment_identity *identity, uint64_t at,
                          const struct delete_entry *entries, uint32_t count)
{
    struct segment_mark mark;

    ASSERT(count >= 1 && count <= DELETE_ENTRIES_MAX);
    ASSERT(at % SEGMENT_ALIGN == 0);
    mark_fill(&mark, magic_delete, identity, at);
    memset(block, 0, SEGMENT_ALIGN);
    memcpy(block, &mark, sizeof(mark));
    memcpy(block + offsetof(struct delete_record, count), &count, sizeof(count));
    memcpy(block + offsetof(struct delete_record, entries), entries, count * sizeof(entries[0]));
    block_close(block);
}

void shard_footer_encode(uint8_t *to, const struct segment_identity *identity, uint64_t at,
                         const struct shard_footer *fields, const uint32_t *crcs)
{
    struct shard_footer footer = *fields;
    size_t crc_bytes = (size_t)footer.block_count * SEGMENT_CRC_BYTES;

    ASSERT(footer.block_count == segment_block_count(footer.payload_bytes));
    ASSERT(footer.block_count <= SEGMENT_BLOCKS_MAX);
    mark_fill(&footer.mark, magic_footer, identity, at);
    footer.zero = 0;
    if (crc_bytes > 0) {
        memcpy(to, crcs, crc_bytes);
    }
    memcpy(to + crc_bytes, &footer, sizeof(footer));
    footer.mark.crc = mark_crc(slice_of(to, crc_bytes), to + crc_bytes, sizeof(footer));
    memcpy(to + crc_bytes, &footer, sizeof(footer));
}

bool segment_header_check(const uint8_t *block, struct segment_identity *identity,
                          struct segment_header *fields)
{
    memcpy(fields, block, sizeof(*fields));
    memcpy(identity->uuid, fields->mark.uuid, sizeof(identity->uuid));
    identity->generation = fields->mark.generation;
    return mark_matches(&fields->mark, magic_segment, identity) && fields->mark.at == 0 &&
           fields->allocated_bytes >= SEGMENT_ALIGN &&
           fields->allocated_bytes % SEGMENT_ALIGN == 0 && block_crc_ok(block);
}

enum segment_block_kind segment_block_check(const uint8_t *block,
                                            const struct segment_identity *identity, uint64_t at)
{
    struct segment_mark mark;

    memcpy(&mark, block, sizeof(mark));
    if (mark.at != at) {
        return BLOCK_OTHER;
    }
    if (mark_matches(&mark, magic_shard, identity) && block_crc_ok(block)) {
        struct shard_header header;
        memcpy(&header, block, sizeof(header));
        bool sane = header.key_len <= LIMIT_KEY_BYTES && header.index < LIMIT_SHARDS &&
                    header.reserved_bytes <= LIMIT_EXTENT_BYTES;
        return sane ? BLOCK_SHARD : BLOCK_OTHER;
    }
    if (mark_matches(&mark, magic_delete, identity) && block_crc_ok(block)) {
        uint32_t count;
        memcpy(&count, block + offsetof(struct delete_record, count), sizeof(count));
        return count >= 1 && count <= DELETE_ENTRIES_MAX ? BLOCK_DELETES : BLOCK_OTHER;
    }
    return BLOCK_OTHER;
}

bool shard_footer_plausible(const uint8_t *from, const struct segment_identity *identity,
                            uint64_t end, struct shard_footer *out)
{
    memcpy(out, from, sizeof(*out));
    return mark_matches(&out->mark, magic_footer, identity) && out->index < LIMIT_SHARDS &&
           out->payload_bytes <= LIMIT_EXTENT_BYTES &&
           out->block_count == segment_block_count(out->payload_bytes) &&
           out->mark.at % SEGMENT_ALIGN == 0 && out->mark.at >= SEGMENT_ALIGN &&
           out->mark.at < end && end - out->mark.at == segment_region_bytes(out->payload_bytes);
}

bool shard_footer_check(const uint8_t *from, size_t len)
{
    size_t crc_bytes;
    uint32_t crc;

    if (len < sizeof(struct shard_footer)) {
        return false;
    }
    crc_bytes = len - sizeof(struct shard_footer);
    memcpy(&crc, from + crc_bytes + offsetof(struct segment_mark, crc), sizeof(crc));
    return crc ==
           mark_crc(slice_of(from, crc_bytes), from + crc_bytes, sizeof(struct shard_footer));
}

uint32_t segment_block_crc(const struct segment_identity *identity, const struct shard_id *shard,
                           uint64_t payload_at, uint32_t block, struct slice bytes)
{
    struct block_prefix prefix = {.generation = identity->generation,
                                  .at = payload_at + (uint64_t)block * SEGMENT_BLOCK,
                                  .index = shard->index,
                                  .block = block};

    ASSERT(bytes.len <= SEGMENT_BLOCK);
    memcpy(prefix.uuid, identity->uuid, sizeof(prefix.uuid));
    memcpy(prefix.extent, shard->extent.bytes, sizeof(prefix.extent));
    return crc32c(crc32c(0, &prefix, sizeof(prefix)), bytes.data, bytes.len);
}

/* NOLINTNEXTLINE(readability-function-size): what a checksum covers is all there is */
uint32_t segment_verify_blocks(const struct segment_identity *identity,
                               const struct shard_id *shard, uint64_t payload_at, uint32_t first,
                               struct slice bytes, const uint32_t *crcs, uint32_t *bad)
{
    uint32_t failed = 0;

    for (uint32_t i = 0; bytes.len > 0; i++) {
        size_t len = bytes.len < SEGMENT_BLOCK ? bytes.len : SEGMENT_BLOCK;
        uint32_t crc =
            segment_block_crc(identity, shard, payload_at, first + i, slice_of(bytes.data, len));

        if (crc != crcs[i]) {
            *bad = failed == 0 ? first + i : *bad;
            failed += 1;
        }
        bytes = slice_after(bytes, len);
    }
    return failed;
}
