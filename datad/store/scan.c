/* The walk over a segment that scan.h describes. */
#include "datad/store/scan.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum {
    WINDOW_BYTES = 1024 * 1024,
    FOOTER_BYTES_MAX = SEGMENT_BLOCKS_MAX * SEGMENT_CRC_BYTES + 2 * SEGMENT_ALIGN
};

static_assert(WINDOW_BYTES % SEGMENT_BLOCK == 0, "verification reads whole blocks");

static void scan_find_runs(struct scan *scan)
{
    uint64_t at = scan->next;

    while (at < scan->limit) {
        struct scan_run *run = &scan->runs[scan->run_count];
        enum rc rc = scan->env->file->data_range(scan->env, scan->file, at, &run->from, &run->to);

        if (rc == RC_NOT_FOUND) {
            return;
        }
        if (rc != RC_OK || scan->run_count + 1 == SCAN_RUNS_MAX) {
            run->from = rc == RC_OK ? run->from : at;
            run->to = scan->limit;
        }
        run->from = run->from / SEGMENT_ALIGN * SEGMENT_ALIGN;
        run->to = run->to < scan->limit ? segment_align_up(run->to) : scan->limit;
        at = run->to;
        scan->run_count += 1;
    }
}

void scan_open(struct scan *scan, const struct scan_options *options)
{
    ASSERT(options->from % SEGMENT_ALIGN == 0);
    *scan = (struct scan){.env = options->env,
                          .file = options->file,
                          .identity = options->identity,
                          .next = options->from < SEGMENT_ALIGN ? SEGMENT_ALIGN : options->from,
                          .limit = options->to / SEGMENT_ALIGN * SEGMENT_ALIGN,
                          .direct = options->direct,
                          .window = mem_alloc_pages(WINDOW_BYTES),
                          .block = mem_alloc_pages(SEGMENT_ALIGN),
                          .footer_bytes = mem_alloc_pages(FOOTER_BYTES_MAX)};
    scan->tail = scan->next;
    scan_find_runs(scan);
}

void scan_close(struct scan *scan)
{
    mem_free(scan->window);
    mem_free(scan->block);
    mem_free(scan->footer_bytes);
    *scan = (struct scan){0};
}

/* The block at `at`, or NULL when it cannot be read. After a failed read of a window it is read
 * block by block, so that one bad sector hides no more than itself. */
static const uint8_t *scan_block(struct scan *scan, uint64_t at)
{
    size_t want = WINDOW_BYTES;
    size_t got = 0;
    enum rc rc;

    ASSERT(scan->window != NULL);
    if (at >= scan->window_at && at + SEGMENT_ALIGN <= scan->window_at + scan->window_len) {
        return scan->window + (at - scan->window_at);
    }
    want = scan->limit - at < want ? (size_t)(scan->limit - at) : want;
    rc = scan->env->file->read(scan->env, scan->file, scan->window, want, at, &got);
    if (rc != RC_OK || got < SEGMENT_ALIGN) {
        rc = scan->env->file->read(scan->env, scan->file, scan->window, SEGMENT_ALIGN, at, &got);
    }
    scan->window_at = at;
    scan->window_len = rc == RC_OK ? got : 0;
    scan->read_errors += rc == RC_OK ? 0 : 1;
    return scan->window_len >= SEGMENT_ALIGN ? scan->window : NULL;
}

/* Passes over what was allocated and never written: most of a young segment. */
static void scan_skip_unwritten(struct scan *scan)
{
    while (scan->run_at < scan->run_count && scan->next >= scan->runs[scan->run_at].to) {
        scan->run_at += 1;
    }
    if (scan->run_at == scan->run_count) {
        scan->next = scan->limit;
    } else if (scan->next < scan->runs[scan->run_at].from) {
        scan->next = scan->runs[scan->run_at].from;
    }
}

/* Takes in the footer that ends at `end`, if there is a whole one there. */
static bool scan_footer(struct scan *scan, const uint8_t *last_block, uint64_t end)
{
    const uint8_t *structure = last_block + SEGMENT_ALIGN - sizeof(struct shard_footer);
    struct shard_footer footer;
    uint64_t bytes;
    uint64_t first;
    size_t got = 0;

    if (!shard_footer_plausible(structure, &scan->identity, end, &footer)) {
        return false;
    }
    bytes = segment_footer_bytes(footer.payload_bytes);
    first = (end - bytes) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    ASSERT(end - first <= FOOTER_BYTES_MAX);
    if (scan->env->file->read(scan->env, scan->file, scan->footer_bytes, (size_t)(end - first),
                              first, &got) != RC_OK ||
        got != end - first) {
        return false;
    }
    const uint8_t *from = scan->footer_bytes + (end - bytes - first);
    if (!shard_footer_check(from, (size_t)bytes)) {
        return false;
    }
    memcpy(&scan->footer, from + (bytes - sizeof(footer)), sizeof(scan->footer));
    /* The CRCs begin anywhere: moved to the front they are aligned. */
    memmove(scan->footer_bytes, from, (size_t)footer.block_count * SEGMENT_CRC_BYTES);
    scan->crcs = (const uint32_t *)(const void *)scan->footer_bytes;
    return true;
}

/* A footer is only as good as the header that it names: both must be of one shard. */
static bool scan_header_matches(struct scan *scan)
{
    const struct shard_footer *footer = &scan->footer;
    size_t got = 0;

    if (scan->env->file->read(scan->env, scan->file, scan->block, SEGMENT_ALIGN, footer->mark.at,
                              &got) != RC_OK ||
        got != SEGMENT_ALIGN ||
        segment_block_check(scan->block, &scan->identity, footer->mark.at) != BLOCK_SHARD) {
        return false;
    }
    const struct shard_header *header = (const struct shard_header *)(void *)scan->block;
    return memcmp(header->extent, footer->extent, EXTENT_ID_BYTES) == 0 &&
           header->index == footer->index && header->attempt == footer->attempt &&
           footer->payload_bytes <= header->reserved_bytes;
}

static enum rc scan_found_shard(struct scan *scan, uint64_t end)
{
    scan->kind = SCAN_SHARD;
    scan->at = scan->footer.mark.at;
    scan->end = end;
    scan->header = (struct shard_header *)(void *)scan->block;
    scan->next = end;
    scan->tail = scan->tail < end ? end : scan->tail;
    return RC_OK;
}

/* A header at `at`: is the footer where a shard of the reserved length has it? */
static bool scan_try_reserved(struct scan *scan, uint64_t at, const uint8_t *block)
{
    struct shard_header header;
    uint64_t end;
    const uint8_t *last;

    memcpy(&header, block, sizeof(header));
    end = at + segment_region_bytes(header.reserved_bytes);
    if (end > scan->limit) {
        return false;
    }
    scan->tail = scan->tail < end ? end : scan->tail;
    last = scan_block(scan, end - SEGMENT_ALIGN);
    return last != NULL && scan_footer(scan, last, end) && scan->footer.mark.at == at &&
           scan_header_matches(scan);
}

enum rc scan_next(struct scan *scan)
{
    for (scan_skip_unwritten(scan); scan->next < scan->limit; scan_skip_unwritten(scan)) {
        uint64_t at = scan->next;
        const uint8_t *block = scan_block(scan, at);
        enum segment_block_kind kind =
            block != NULL ? segment_block_check(block, &scan->identity, at) : BLOCK_OTHER;

        scan->next = at + SEGMENT_ALIGN;
        if (kind == BLOCK_DELETES) {
            memcpy(scan->block, block, SEGMENT_ALIGN);
            scan->kind = SCAN_DELETES;
            scan->deletes = (const struct delete_record *)(void *)scan->block;
            scan->at = at;
            scan->end = scan->next;
            scan->tail = scan->tail < scan->end ? scan->end : scan->tail;
            return RC_OK;
        }
        if (kind == BLOCK_SHARD) {
            if (scan_try_reserved(scan, at, block)) {
                return scan_found_shard(scan, scan->footer.mark.at +
                                                  segment_region_bytes(scan->footer.payload_bytes));
            }
            scan->unfinished += 1;
            continue;
        }
        if (block != NULL && scan_footer(scan, block, scan->next) && scan_header_matches(scan)) {
            scan->unfinished -= scan->unfinished > 0 ? 1 : 0;
            return scan_found_shard(scan, scan->next);
        }
    }
    return RC_NOT_FOUND;
}

enum rc scan_verify(struct scan *scan)
{
    struct shard_id id = scan_shard_id(scan);
    uint64_t payload_at = scan->at + SEGMENT_ALIGN;
    uint64_t left = scan->footer.payload_bytes;
    uint32_t block = 0;
    uint32_t failed = 0;

    ASSERT(scan->kind == SCAN_SHARD);
    scan->window_len = 0;
    while (left > 0) {
        uint64_t at = payload_at + (uint64_t)block * SEGMENT_BLOCK;
        size_t len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        size_t want = scan->direct ? (size_t)segment_align_up(len) : len;
        uint32_t bad = 0;
        size_t got = 0;
        enum rc rc = scan->env->file->read(scan->env, scan->file, scan->window, want, at, &got);

        if (rc != RC_OK || got < len) {
            return rc == RC_OK ? RC_CORRUPT : rc;
        }
        failed += segment_verify_blocks(&scan->identity, &id, payload_at, block,
                                        slice_of(scan->window, len), scan->crcs + block, &bad);
        left -= len;
        block += segment_block_count(len);
    }
    return failed == 0 ? RC_OK : RC_CORRUPT;
}
