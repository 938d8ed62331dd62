/*
 * The bytes of a segment file (FORMAT.md). Pure: encodes into memory and checks what was read; no
 * input or output here. Little endian, no padding, every structure checked with a CRC32C that
 * covers segment uuid, generation and its own place, so that bytes of another file, of an older
 * file of that name or of another place never pass.
 */
#ifndef DATAD_STORE_SEGMENT_FORMAT_H
#define DATAD_STORE_SEGMENT_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/slice.h"
#include "common/client/data_client.h"

enum {
    SEGMENT_VERSION = 1,
    SEGMENT_ALIGN = LIMIT_DISK_ALIGN_BYTES,
    SEGMENT_BLOCK = LIMIT_BLOCK_BYTES,
    SEGMENT_UUID_BYTES = 16,
    SEGMENT_CRC_BYTES = 4,
    SEGMENT_BLOCKS_MAX = LIMIT_EXTENT_BYTES / LIMIT_BLOCK_BYTES, /* of one shard (k = 1) */
    DELETE_ENTRIES_MAX = 84                                      /* in one delete record */
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are copied as they are");

/* How every structure begins. `at` is the file offset of its own block (of the shard's header for a
 * footer). */
struct segment_mark {
    uint8_t magic[8];
    uint32_t version;
    uint32_t crc; /* CRC32C of the structure with this field 0 */
    uint8_t uuid[SEGMENT_UUID_BYTES];
    uint64_t generation;
    uint64_t at;
};
static_assert(sizeof(struct segment_mark) == 48, "on disk");
static_assert(offsetof(struct segment_mark, crc) == 12, "on disk");
static_assert(offsetof(struct segment_mark, generation) == 32, "on disk");

/* Block 0 of the file; the CRC covers 4,096 bytes, zeros after the structure. */
struct segment_header {
    struct segment_mark mark; /* "kistSEG1", at 0 */
    uint64_t allocated_bytes;
    uint64_t disk;
    uint64_t created_ms;
    uint32_t cluster_epoch;
    uint32_t zero;
};
static_assert(sizeof(struct segment_header) == 80, "on disk");

/* The block before a shard's payload; the CRC covers 4,096 bytes, zeros after the key. */
struct shard_header {
    struct segment_mark mark; /* "kistSHD1" */
    uint8_t extent[EXTENT_ID_BYTES];
    uint32_t index;
    uint32_t attempt;
    uint8_t layout[EXTENT_ID_BYTES];
    uint64_t home_bucket;
    uint64_t group;
    uint64_t group_epoch;
    uint64_t reserved_bytes;
    uint64_t begun_ms;
    uint32_t cluster_epoch;
    uint16_t key_len;
    uint16_t zero;
    uint8_t key[]; /* home key */
};
static_assert(sizeof(struct shard_header) == 152, "on disk");
static_assert(offsetof(struct shard_header, index) == 72, "on disk");
static_assert(offsetof(struct shard_header, home_bucket) == 104, "on disk");
static_assert(offsetof(struct shard_header, key_len) == 148, "on disk");
static_assert(sizeof(struct shard_header) + LIMIT_KEY_BYTES <= SEGMENT_ALIGN, "one block");

/* Closes a shard: ends at the end of the last block of its run, right behind the blocks' CRCs,
 * which its own CRC covers first. */
struct shard_footer {
    struct segment_mark mark; /* "kistFTR1"; at: of the shard's header */
    uint8_t extent[EXTENT_ID_BYTES];
    uint32_t index;
    uint32_t attempt;
    uint64_t payload_bytes;
    uint32_t block_count;
    uint32_t zero;
};
static_assert(sizeof(struct shard_footer) == 96, "on disk");
static_assert(offsetof(struct shard_footer, payload_bytes) == 80, "on disk");

struct delete_entry {
    uint8_t extent[EXTENT_ID_BYTES];
    uint32_t index;
    uint32_t attempt; /* this attempt and lower ones are deleted */
    uint64_t segment; /* generation of the segment that held it */
    uint64_t deleted_ms;
};
static_assert(sizeof(struct delete_entry) == 48, "on disk");

/* A block of deletes; the CRC covers 4,096 bytes, zeros after the entries. */
struct delete_record {
    struct segment_mark mark; /* "kistDEL1" */
    uint32_t count;
    uint32_t zero;
    struct delete_entry entries[DELETE_ENTRIES_MAX];
};
static_assert(sizeof(struct delete_record) == 56 + 84 * 48, "on disk");
static_assert(sizeof(struct delete_record) <= SEGMENT_ALIGN, "one block");

/* What a block's CRC32C covers before the block's bytes. */
struct block_prefix {
    uint8_t uuid[SEGMENT_UUID_BYTES];
    uint64_t generation;
    uint64_t at; /* file offset of the block's first byte */
    uint8_t extent[EXTENT_ID_BYTES];
    uint32_t index; /* of the shard */
    uint32_t block; /* number within the shard */
};
static_assert(sizeof(struct block_prefix) == 64, "on disk");

/* Which file: what all of its structures must name. */
struct segment_identity {
    uint8_t uuid[SEGMENT_UUID_BYTES];
    uint64_t generation;
};

enum segment_block_kind { BLOCK_OTHER = 0, BLOCK_SHARD, BLOCK_DELETES };

static inline uint64_t segment_align_up(uint64_t value)
{
    return (value + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
}

static inline uint32_t segment_block_count(uint64_t payload_bytes)
{
    return (uint32_t)((payload_bytes + SEGMENT_BLOCK - 1) / SEGMENT_BLOCK);
}

/* CRCs and footer structure together. */
static inline uint64_t segment_footer_bytes(uint64_t payload_bytes)
{
    return (uint64_t)segment_block_count(payload_bytes) * SEGMENT_CRC_BYTES +
           sizeof(struct shard_footer);
}

/* Header block, payload and footer of a shard: a multiple of SEGMENT_ALIGN. */
static inline uint64_t segment_region_bytes(uint64_t payload_bytes)
{
    return SEGMENT_ALIGN + segment_align_up(payload_bytes + segment_footer_bytes(payload_bytes));
}

/* ---- Encoding: `block` is SEGMENT_ALIGN bytes, written whole ---- */

void segment_header_encode(uint8_t *block, const struct segment_identity *identity,
                           const struct segment_header *fields);
/* `fields` without mark, key_len and key. */
void shard_header_encode(uint8_t *block, const struct segment_identity *identity, uint64_t at,
                         const struct shard_header *fields, struct slice key);
void delete_record_encode(uint8_t *block, const struct segment_identity *identity, uint64_t at,
                          const struct delete_entry *entries, uint32_t count);
/* Fills `to` (segment_footer_bytes(payload)) with the CRCs and the structure. `at`: of the header.
 */
void shard_footer_encode(uint8_t *to, const struct segment_identity *identity, uint64_t at,
                         const struct shard_footer *fields, const uint32_t *crcs);

/* ---- Checking: false when it is not, or not whole, or not of this file and place ---- */

/* Block 0, of any file: *fields and *identity are set. */
bool segment_header_check(const uint8_t *block, struct segment_identity *identity,
                          struct segment_header *fields);
enum segment_block_kind segment_block_check(const uint8_t *block,
                                            const struct segment_identity *identity, uint64_t at);
/* A footer structure that ends at file offset `end`, without the CRC (which covers the CRC array
 * too). */
bool shard_footer_plausible(const uint8_t *from, const struct segment_identity *identity,
                            uint64_t end, struct shard_footer *out);
/* CRC array and structure, `len` = segment_footer_bytes(payload). */
bool shard_footer_check(const uint8_t *from, size_t len);

/* CRC32C of block number `block` of a shard whose payload begins at file offset `payload_at`. */
uint32_t segment_block_crc(const struct segment_identity *identity, const struct shard_id *shard,
                           uint64_t payload_at, uint32_t block, struct slice bytes);

/* Checks `len` payload bytes that begin at block `first` and end at a block's or the payload's end.
 * Returns the number of blocks that fail; the first of them in *bad. `crcs` begins with that of
 * block `first`. */
uint32_t segment_verify_blocks(const struct segment_identity *identity,
                               const struct shard_id *shard, uint64_t payload_at, uint32_t first,
                               struct slice bytes, const uint32_t *crcs, uint32_t *bad);

#endif
