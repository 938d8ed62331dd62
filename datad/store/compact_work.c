/*
 * What compaction does on pool threads: listing what is alive in a segment, copying a shard,
 * counting rows, the end of a segment, and reading back what a failed sync may have lost.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "datad/store/compact_private.h"
#include "datad/store/scan.h"

enum {
    COPY_CHUNK = 1024 * 1024,
    VERIFY_BYTES = 16 * 1024 * 1024 /* by one work job: it must not keep a pool thread for long */
};

/* ---- Scan: what is alive in the segment (pool) ---- */

static bool delete_matters(const struct compact *compact, const struct delete_entry *entry)
{
    struct store *store = compact->store;
    uint64_t now_ms = store->env->clock->wall_ns(store->env) / 1000000;
    struct segment *target;
    struct extent_id id;

    memcpy(id.bytes, entry->extent, sizeof(id.bytes));
    if (index_id_ms(&id) + (uint64_t)STORE_TOMBSTONE_AGE_S * 1000 > now_ms) {
        return true;
    }
    /* As long as the record that it hides exists, a rebuild of the index would bring it back. */
    target = entry->segment != compact->generation ? segment_acquire(store->table, entry->segment)
                                                   : NULL;
    if (target != NULL) {
        segment_release(store->table, target);
    }
    return target != NULL;
}

static void scan_take_item(struct compact *compact, const struct scan *scan)
{
    struct compact_item *item = &compact->items[compact->item_count];
    const struct shard_header *header = scan->header;

    *item = (struct compact_item){.shard = scan_shard_id(scan),
                                  .attempt = scan->footer.attempt,
                                  .at = scan->at,
                                  .length = scan->footer.payload_bytes};
    memcpy(item->key, header->key, header->key_len);
    memcpy(item->origin.layout.bytes, header->layout, EXTENT_ID_BYTES);
    item->origin.home_bucket = header->home_bucket;
    item->origin.home_key = slice_of(item->key, header->key_len);
    item->origin.group = header->group;
    item->origin.group_epoch = header->group_epoch;
    compact->item_count += 1;
}

/* Is the record that the scan is at what the index names? `unsuspected`: only if nothing is known
 * against it. */
static enum rc scan_row(struct compact *compact, const struct scan *scan, bool unsuspected,
                        bool *live)
{
    struct shard_id id = scan_shard_id(scan);
    struct index_row row;
    enum rc rc = index_get(&compact->store->index, &id, KV_ANY, &row, NULL);

    *live = rc == RC_OK && row.kind == INDEX_LIVE && row.segment == compact->generation &&
            row.at == scan->at && !(unsuspected && row.suspect);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* A record into the lists; false when it does not fit any more. */
static bool scan_take(struct compact *compact, const struct scan *scan)
{
    bool live = false;

    if (scan->kind == SCAN_SHARD) {
        compact->rc = scan_row(compact, scan, false, &live);
        if (compact->rc != RC_OK || (live && compact->item_count == ITEMS_MAX)) {
            return false;
        }
        if (live) {
            scan_take_item(compact, scan);
        }
        return true;
    }
    if (compact->passes > 0) {
        return true; /* the first pass kept them */
    }
    if (compact->delete_count + scan->deletes->count > DELETE_ENTRIES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < scan->deletes->count; i++) {
        if (delete_matters(compact, &scan->deletes->entries[i])) {
            compact->deletes[compact->delete_count] = scan->deletes->entries[i];
            compact->delete_count += 1;
        }
    }
    return true;
}

void compact_scan_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    struct scan scan;

    compact->rc = RC_OK;
    compact->item_count = 0;
    compact->delete_count = 0;
    scan_open(&scan, &(struct scan_options){.env = compact->store->env,
                                            .file = compact->segment->file,
                                            .identity = compact->segment->identity,
                                            .from = compact->scan_at,
                                            .to = compact->segment->allocated_bytes});
    compact->scan_done = false;
    for (;;) {
        compact->scan_at = scan.next;
        if (scan_next(&scan) != RC_OK) {
            compact->scan_done = true;
            break;
        }
        if (!scan_take(compact, &scan)) {
            compact->scan_at = scan.at;
            break;
        }
    }
    scan_close(&scan);
}

/* ---- Copy: one shard into its new region (pool) ---- */

/* The checksums of the original: in the row or in the footer. */
static enum rc copy_load_crcs(const struct compact *compact, const struct compact_item *item,
                              uint32_t *crcs)
{
    uint64_t footer_at =
        item->at + segment_region_bytes(item->length) - segment_footer_bytes(item->length);
    size_t len = (size_t)segment_block_count(item->length) * SEGMENT_CRC_BYTES;
    struct env *env = compact->store->env;
    size_t got = 0;
    enum rc rc = env->file->read(env, compact->segment->file, crcs, len, footer_at, &got);

    return rc == RC_OK && got != len ? RC_CORRUPT : rc;
}

/* A block that fails its checksum keeps failing after the move: its new checksum is made not to
 * fit. Its good neighbours stay readable. */
static void copy_crcs(struct compact *compact, const struct compact_item *item, uint32_t block,
                      struct slice bytes, const uint32_t *old)
{
    struct store_writer *to = &compact->writer;

    for (; bytes.len > 0; block++) {
        size_t len = bytes.len < SEGMENT_BLOCK ? bytes.len : SEGMENT_BLOCK;
        struct slice one = slice_of(bytes.data, len);
        bool good = segment_block_crc(&compact->segment->identity, &item->shard,
                                      item->at + SEGMENT_ALIGN, block, one) == old[block];
        uint32_t crc = segment_block_crc(&to->segment->identity, &item->shard,
                                         to->at + SEGMENT_ALIGN, block, one);
        to->crcs[block] = good ? crc : ~crc;
        bytes = slice_after(bytes, len);
    }
}

void compact_copy_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    const struct compact_item *item = &compact->items[compact->item_at];
    struct store_writer *to = &compact->writer;
    struct env *env = compact->store->env;
    char *chunk = mem_alloc_pages(COPY_CHUNK);
    uint32_t *old = mem_alloc_raw((size_t)segment_block_count(item->length) * SEGMENT_CRC_BYTES);
    uint64_t done = 0;

    compact->rc = copy_load_crcs(compact, item, old);
    compact->unreadable = compact->rc != RC_OK;
    while (compact->rc == RC_OK && done < item->length) {
        uint64_t left = item->length - done;
        struct slice bytes = slice_of(chunk, left < COPY_CHUNK ? (size_t)left : COPY_CHUNK);
        size_t got = 0;
        enum rc rc = env->file->read(env, compact->segment->file, chunk, bytes.len,
                                     item->at + SEGMENT_ALIGN + done, &got);
        if (rc != RC_OK || got < bytes.len) {
            /* Perhaps it can be read another time: nothing is given up for good here. */
            compact->unreadable = true;
            compact->rc = rc != RC_OK ? rc : RC_CORRUPT;
            break;
        }
        copy_crcs(compact, item, (uint32_t)(done / SEGMENT_BLOCK), bytes, old);
        compact->rc =
            env->file->write(env, to->segment->file, &bytes, 1, to->at + SEGMENT_ALIGN + done);
        done += bytes.len;
    }
    to->appended_bytes = done;
    compact->copied_bytes += done;
    mem_free(old);
    mem_free(chunk);
}

/* ---- Retire: recount, unlink (pool) ---- */

static bool recount_row(void *list, const struct shard_id *shard, const struct index_row *row)
{
    struct compact *compact = list;

    (void)shard;
    compact->rows += row->kind == INDEX_LIVE && row->segment == compact->generation ? 1 : 0;
    return true;
}

void compact_recount_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);

    compact->rows = 0;
    compact->rc = index_each_shard(&compact->store->index, recount_row, compact, NULL);
}

void compact_unlink_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    struct store *store = compact->store;
    char path[SEGMENT_PATH_BYTES];

    compact->rc = store->index.kv->ops->flush(store->index.kv, NULL);
    if (compact->rc == RC_OK) {
        segment_path(store->table, compact->generation, path);
        compact->rc = store->env->file->unlink(store->env, path);
    }
    if (compact->rc == RC_OK) {
        compact->rc = store->env->file->sync_directory(store->env, store->segment_directory);
    }
}

/* ---- Verify: what a failed sync left of acknowledged shards (pool) ---- */

void compact_verify_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    struct store *store = compact->store;
    struct scan scan;
    bool live = false;
    bool direct;
    int file;

    compact->bad_count = 0;
    compact->verified_bytes = 0;
    compact->scan_done = false;
    compact->rc = segment_open_direct(store->table, compact->generation, &file, &direct);
    if (compact->rc != RC_OK) {
        return;
    }
    scan_open(&scan, &(struct scan_options){
                         .env = store->env,
                         .file = file,
                         .identity = compact->segment->identity,
                         .from = compact->scan_at,
                         .to = segment_align_up(atomic_load(&compact->segment->end_bytes)),
                         .direct = direct});
    while (compact->rc == RC_OK && compact->bad_count < BAD_MAX &&
           compact->verified_bytes < VERIFY_BYTES) {
        if (scan_next(&scan) != RC_OK) {
            compact->scan_done = true;
            break;
        }
        compact->scan_at = scan.next;
        compact->verified_bytes += scan.end - scan.at;
        if (scan.kind != SCAN_SHARD) {
            continue;
        }
        compact->rc = scan_row(compact, &scan, true, &live);
        if (compact->rc == RC_OK && live && scan_verify(&scan) != RC_OK) {
            compact->bad[compact->bad_count] =
                (struct compact_bad){.shard = scan_shard_id(&scan), .at = scan.at};
            compact->bad_count += 1;
            atomic_fetch_add(&store->bad_blocks, 1);
        }
    }
    scan_close(&scan);
    store->env->file->close(store->env, file);
}
