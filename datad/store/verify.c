/* See verify.h. */
#include "datad/store/verify.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { CHUNK_BYTES = 1024 * 1024 };

static_assert(CHUNK_BYTES % SEGMENT_BLOCK == 0, "whole blocks");

/* From the row, or from the footer for long shards. */
static enum rc verify_load_crcs(struct store *store, const struct segment *segment,
                                const struct index_row *row, uint32_t *crcs)
{
    uint64_t footer_at =
        row->at + segment_region_bytes(row->length) - segment_footer_bytes(row->length);
    size_t len = (size_t)segment_block_count(row->length) * SEGMENT_CRC_BYTES;
    size_t got = 0;
    enum rc rc;

    if (row->crc_count > 0 || row->length == 0) {
        memcpy(crcs, row->crcs, (size_t)row->crc_count * SEGMENT_CRC_BYTES);
        return RC_OK;
    }
    rc = store->env->file->read(store->env, segment->file, crcs, len, footer_at, &got);
    return rc == RC_OK && got != len ? RC_CORRUPT : rc;
}

static enum rc verify_payload(struct store *store, const struct segment *segment,
                              const struct shard_id *shard, const struct index_row *row,
                              const uint32_t *crcs)
{
    uint64_t payload_at = row->at + SEGMENT_ALIGN;
    char *chunk = mem_alloc_pages(CHUNK_BYTES);
    uint64_t done = 0;
    enum rc rc = RC_OK;

    while (rc == RC_OK && done < row->length) {
        uint64_t left = row->length - done;
        size_t len = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        uint32_t block = (uint32_t)(done / SEGMENT_BLOCK);
        uint32_t bad = 0;
        size_t got = 0;
        rc = store->env->file->read(store->env, segment->file, chunk, len, payload_at + done, &got);
        if (rc == RC_OK &&
            (got != len || segment_verify_blocks(&segment->identity, shard, payload_at, block,
                                                 slice_of(chunk, len), crcs + block, &bad) > 0)) {
            rc = RC_CORRUPT;
        }
        done += len;
    }
    mem_free(chunk);
    return rc;
}

enum rc verify_row(struct store *store, const struct shard_id *shard, const struct index_row *row)
{
    struct segment *segment = segment_acquire(store->table, row->segment);
    uint32_t *crcs;
    enum rc rc;

    ASSERT(row->kind == INDEX_LIVE);
    if (segment == NULL) {
        return RC_NOT_FOUND;
    }
    crcs = mem_alloc((size_t)segment_block_count(row->length) * SEGMENT_CRC_BYTES);
    rc = verify_load_crcs(store, segment, row, crcs);
    rc = rc == RC_OK ? verify_payload(store, segment, shard, row, crcs) : rc;
    mem_free(crcs);
    segment_release(store->table, segment);
    return rc;
}
