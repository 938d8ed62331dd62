/*
 * The steps of compact.h as a state machine: each step is one job of the queue or one work job, and
 * its completion chooses the next. Copying is paced to COPY_BYTES_PER_S, and one segment is worked
 * on at a time, so clients hardly notice.
 */
#include "datad/store/compact.h"

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/store/scan.h"

enum {
    ITEMS_MAX = 16, /* live shards listed by one scan: with their keys some 20 KiB */
    COPY_CHUNK = 1024 * 1024,
    BAD_MAX = 64,
    PASSES_MAX = 3
};

#define COPY_BYTES_PER_S (64ULL * 1024 * 1024)
#define NS_PER_S         1000000000ULL

enum compact_step {
    COMPACT_IDLE,
    COMPACT_CHOOSE,
    COMPACT_SCAN,
    COMPACT_DELETES,
    COMPACT_BEGIN,
    COMPACT_COPY,
    COMPACT_SEAL,
    COMPACT_ABORT,
    COMPACT_PAUSE,
    COMPACT_RETIRE,
    COMPACT_RECOUNT,
    COMPACT_UNLINK,
    COMPACT_FORGET,
    COMPACT_VERIFY,
    COMPACT_SUSPECT,
    COMPACT_VERIFIED
};

struct compact_item {
    struct shard_id shard;
    uint32_t attempt;
    uint64_t at;
    uint64_t length;
    struct shard_origin origin;
    char key[LIMIT_KEY_BYTES];
};

struct compact_bad {
    struct shard_id shard;
    uint64_t at;
};

struct compact {
    struct store *store;
    struct env *env;
    enum compact_step step;
    bool stopping;
    struct segment *segment; /* held */
    uint64_t generation;
    uint64_t scan_at;
    bool scan_done;
    uint32_t passes; /* over the segment; bytes may have become live behind the scan */
    uint64_t moved;  /* shards in this pass */
    uint64_t copied_bytes;
    struct compact_item items[ITEMS_MAX];
    uint32_t item_count;
    uint32_t item_at;
    struct delete_entry deletes[DELETE_ENTRIES_MAX];
    uint32_t delete_count;
    struct compact_bad bad[BAD_MAX];
    uint32_t bad_count;
    uint32_t bad_at;
    uint64_t rows; /* recount */
    enum rc rc;    /* of the work */
    struct store_writer writer;
    struct store_job job;
    struct env_work work;
    struct env_timer timer;
};

static void compact_next(struct compact *compact, enum compact_step step);

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

static void scan_run(struct env_work *work)
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

/* A block that fails its checksum, or cannot be read, keeps failing after the move: its new
 * checksum is made not to fit. Its good neighbours stay readable. */
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

static void copy_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    const struct compact_item *item = &compact->items[compact->item_at];
    struct store_writer *to = &compact->writer;
    struct env *env = compact->store->env;
    char *chunk = mem_alloc_pages(COPY_CHUNK);
    uint32_t *old = mem_alloc_raw((size_t)segment_block_count(item->length) * SEGMENT_CRC_BYTES);
    uint64_t done = 0;

    compact->rc = copy_load_crcs(compact, item, old);
    while (compact->rc == RC_OK && done < item->length) {
        uint64_t left = item->length - done;
        struct slice bytes = slice_of(chunk, left < COPY_CHUNK ? (size_t)left : COPY_CHUNK);
        size_t got = 0;
        enum rc rc = env->file->read(env, compact->segment->file, chunk, bytes.len,
                                     item->at + SEGMENT_ALIGN + done, &got);
        if (rc != RC_OK || got < bytes.len) {
            memset(chunk + got, 0, bytes.len - got);
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

static void recount_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);

    compact->rows = 0;
    compact->rc = index_each_shard(&compact->store->index, recount_row, compact, NULL);
}

static void unlink_run(struct env_work *work)
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

static void verify_run(struct env_work *work)
{
    struct compact *compact = CONTAINER_OF(work, struct compact, work);
    struct store *store = compact->store;
    char path[SEGMENT_PATH_BYTES];
    struct scan scan;
    bool live = false;
    int file;

    /* With more than fit, the next round finds the rest: those told are suspect by then. */
    compact->bad_count = 0;
    segment_path(store->table, compact->generation, path);
    compact->rc =
        store->env->file->open(store->env, path, ENV_OPEN_READ | ENV_OPEN_DIRECT, &file, NULL);
    if (compact->rc != RC_OK) {
        return;
    }
    scan_open(&scan, &(struct scan_options){
                         .env = store->env,
                         .file = file,
                         .identity = compact->segment->identity,
                         .to = segment_align_up(atomic_load(&compact->segment->end_bytes)),
                         .direct = true});
    while (compact->rc == RC_OK && compact->bad_count < BAD_MAX && scan_next(&scan) == RC_OK) {
        if (scan.kind != SCAN_SHARD) {
            continue;
        }
        compact->rc = scan_row(compact, &scan, true, &live);
        if (compact->rc == RC_OK && live && scan_verify(&scan) != RC_OK) {
            compact->bad[compact->bad_count] =
                (struct compact_bad){.shard = scan_shard_id(&scan), .at = scan.at};
            compact->bad_count += 1;
        }
    }
    scan_close(&scan);
    store->env->file->close(store->env, file);
}

/* ---- Steps ---- */

static void compact_rest(struct compact *compact)
{
    if (compact->segment != NULL) {
        segment_release(compact->store->table, compact->segment);
        compact->segment = NULL;
    }
    mem_free(compact->writer.crcs);
    compact->writer.crcs = NULL;
    compact->step = COMPACT_IDLE;
}

static void step_chosen(struct compact *compact)
{
    bool verify = compact->job.verify;

    if (compact->job.rc == RC_OK) {
        compact->generation = compact->job.generation;
        compact->segment = segment_acquire(compact->store->table, compact->generation);
    }
    if (compact->segment == NULL) {
        compact_rest(compact);
        return;
    }
    compact->scan_at = 0;
    compact->passes = 0;
    compact->moved = 0;
    compact->copied_bytes = 0;
    compact_next(compact, verify ? COMPACT_VERIFY : COMPACT_SCAN);
}

/* What follows when the items at hand are done. */
static void step_batch_done(struct compact *compact)
{
    if (!compact->scan_done) {
        compact_next(compact, COMPACT_SCAN);
        return;
    }
    compact_next(compact, COMPACT_RETIRE);
}

static void step_next_item(struct compact *compact)
{
    compact->item_at += 1;
    if (compact->item_at < compact->item_count) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

static void step_begun(struct compact *compact)
{
    enum rc rc = compact->job.rc;

    if (rc == RC_OK) {
        compact_next(compact, COMPACT_COPY);
    } else if (rc == RC_NOT_FOUND || rc == RC_EXISTS) {
        step_next_item(compact); /* deleted or replaced meanwhile, or being written */
    } else {
        compact_rest(compact);
    }
}

static void step_retired(struct compact *compact)
{
    if (compact->job.rc == RC_OK) {
        segment_release(compact->store->table, compact->segment);
        compact->segment = NULL;
        compact_next(compact, COMPACT_UNLINK);
        return;
    }
    if (compact->job.rc != RC_BUSY || compact->passes + 1 >= PASSES_MAX) {
        compact_rest(compact);
        return;
    }
    compact->passes += 1;
    if (compact->moved > 0) {
        compact->moved = 0;
        compact->scan_at = 0;
        compact_next(compact, COMPACT_SCAN);
    } else {
        compact_next(compact, COMPACT_RECOUNT);
    }
}

static void step_recounted(struct compact *compact)
{
    if (compact->rc == RC_OK && compact->rows == 0) {
        compact->job.recounted = true;
        compact_next(compact, COMPACT_RETIRE);
        return;
    }
    LOG_WARN("segment_not_compacted", "disk=%llu segment=%016llx shards=%llu",
             (unsigned long long)compact->store->options.id,
             (unsigned long long)compact->generation, (unsigned long long)compact->rows);
    compact->job.failure = RC_CORRUPT; /* marks it stuck */
    compact_next(compact, COMPACT_VERIFIED);
}

static void step_verified(struct compact *compact)
{
    if (compact->rc == RC_OK && compact->bad_at < compact->bad_count) {
        compact_next(compact, COMPACT_SUSPECT);
        return;
    }
    if (compact->rc == RC_OK && compact->bad_count == BAD_MAX) {
        compact_next(compact, COMPACT_VERIFY);
        return;
    }
    LOG_INFO("segment_verified", "disk=%llu segment=%016llx bad=%u",
             (unsigned long long)compact->store->options.id,
             (unsigned long long)compact->generation, compact->bad_count);
    compact->job.failure = RC_OK;
    compact_next(compact, COMPACT_VERIFIED);
}

static void step_forgotten(struct compact *compact)
{
    LOG_INFO("segment_compacted", "disk=%llu segment=%016llx copied_bytes=%llu",
             (unsigned long long)compact->store->options.id,
             (unsigned long long)compact->generation, (unsigned long long)compact->copied_bytes);
    compact_rest(compact);
}

static void step_scanned(struct compact *compact)
{
    compact->item_at = 0;
    if (compact->rc != RC_OK) {
        compact_rest(compact);
    } else if (compact->delete_count > 0) {
        compact_next(compact, COMPACT_DELETES);
    } else if (compact->item_count > 0) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

static void step_deletes_kept(struct compact *compact)
{
    if (compact->job.rc != RC_OK) {
        compact_rest(compact);
    } else if (compact->item_count > 0) {
        compact_next(compact, COMPACT_BEGIN);
    } else {
        step_batch_done(compact);
    }
}

/* The step is done: which is next? */
static void compact_done(struct compact *compact)
{
    switch (compact->step) {
    case COMPACT_CHOOSE:
        step_chosen(compact);
        return;
    case COMPACT_SCAN:
        step_scanned(compact);
        return;
    case COMPACT_DELETES:
        step_deletes_kept(compact);
        return;
    case COMPACT_BEGIN:
        step_begun(compact);
        return;
    case COMPACT_COPY:
        compact_next(compact, compact->rc == RC_OK ? COMPACT_SEAL : COMPACT_ABORT);
        return;
    case COMPACT_SEAL:
        compact->moved += compact->job.rc == RC_OK ? 1 : 0;
        compact_next(compact, COMPACT_PAUSE);
        return;
    case COMPACT_PAUSE:
        step_next_item(compact);
        return;
    case COMPACT_RETIRE:
        step_retired(compact);
        return;
    case COMPACT_RECOUNT:
        step_recounted(compact);
        return;
    case COMPACT_UNLINK:
        if (compact->rc == RC_OK) {
            compact_next(compact, COMPACT_FORGET);
            return;
        }
        break;
    case COMPACT_FORGET:
        step_forgotten(compact);
        return;
    case COMPACT_VERIFY:
        compact->bad_at = 0;
        step_verified(compact);
        return;
    case COMPACT_SUSPECT:
        compact->bad_at += 1;
        step_verified(compact);
        return;
    case COMPACT_ABORT:
    case COMPACT_VERIFIED:
    case COMPACT_IDLE:
        break;
    }
    compact_rest(compact);
}

static void compact_job_done(struct store_job *job)
{
    compact_done(CONTAINER_OF(job, struct compact, job));
}

static void compact_work_done(struct env_work *work)
{
    compact_done(CONTAINER_OF(work, struct compact, work));
}

static void compact_paused(struct env_timer *timer)
{
    compact_done(CONTAINER_OF(timer, struct compact, timer));
}

static void compact_submit(struct compact *compact, enum store_job_kind kind)
{
    struct store_job *job = &compact->job;

    *job = (struct store_job){.kind = kind,
                              .done = compact_job_done,
                              .generation = compact->generation,
                              .failure = job->failure,
                              .recounted = job->recounted,
                              .entries = compact->deletes,
                              .entry_count = compact->delete_count};
    if (kind == JOB_BEGIN || kind == JOB_SEAL || kind == JOB_ABORT) {
        job->writer = &compact->writer;
        job->origin = &compact->items[compact->item_at].origin;
    } else if (kind == JOB_SUSPECT) {
        job->shard = compact->bad[compact->bad_at].shard;
        job->suspect_at = compact->bad[compact->bad_at].at;
    }
    store_submit(compact->store, compact->env, job);
}

static void compact_work(struct compact *compact, void (*run)(struct env_work *work))
{
    compact->work = (struct env_work){.run = run, .done = compact_work_done};
    compact->env->worker->submit(compact->env, NULL, &compact->work);
}

static void compact_begin_item(struct compact *compact)
{
    const struct compact_item *item = &compact->items[compact->item_at];
    uint32_t blocks = segment_block_count(item->length);

    mem_free(compact->writer.crcs);
    compact->writer =
        (struct store_writer){.shard = item->shard,
                              .attempt = item->attempt,
                              .group = item->origin.group,
                              .group_epoch = item->origin.group_epoch,
                              .reserved_bytes = item->length,
                              .move = true,
                              .move_segment = compact->generation,
                              .move_at = item->at,
                              .crcs = mem_alloc_raw((size_t)blocks * SEGMENT_CRC_BYTES)};
    list_init(&compact->writer.link);
    compact_submit(compact, JOB_BEGIN);
}

/* A stop is heeded wherever nothing would be left half done in memory. */
static bool compact_may_stop(enum compact_step step)
{
    return step != COMPACT_SEAL && step != COMPACT_ABORT && step != COMPACT_COPY &&
           step != COMPACT_FORGET;
}

static void compact_next(struct compact *compact, enum compact_step step)
{
    const struct compact_item *item =
        &compact->items[compact->item_at < ITEMS_MAX ? compact->item_at : 0];

    if (compact->stopping && compact_may_stop(step)) {
        compact_rest(compact);
        return;
    }
    compact->step = step;
    switch (step) {
    case COMPACT_CHOOSE:
        compact->generation = 0;
        compact->job.recounted = false;
        compact_submit(compact, JOB_CHOOSE);
        return;
    case COMPACT_SCAN:
        compact_work(compact, scan_run);
        return;
    case COMPACT_DELETES:
        compact_submit(compact, JOB_KEEP_DELETES);
        return;
    case COMPACT_BEGIN:
        compact_begin_item(compact);
        return;
    case COMPACT_COPY:
        compact_work(compact, copy_run);
        return;
    case COMPACT_SEAL:
        compact_submit(compact, JOB_SEAL);
        return;
    case COMPACT_ABORT:
        compact_submit(compact, JOB_ABORT);
        return;
    case COMPACT_PAUSE:
        compact->timer.fire = compact_paused;
        compact->env->clock->timer_start(compact->env, &compact->timer,
                                         item->length * NS_PER_S / COPY_BYTES_PER_S);
        return;
    case COMPACT_RETIRE:
        compact_submit(compact, JOB_RETIRE);
        return;
    case COMPACT_RECOUNT:
        compact_work(compact, recount_run);
        return;
    case COMPACT_UNLINK:
        compact_work(compact, unlink_run);
        return;
    case COMPACT_FORGET:
        compact_submit(compact, JOB_FORGET);
        return;
    case COMPACT_VERIFY:
        compact_work(compact, verify_run);
        return;
    case COMPACT_SUSPECT:
        compact_submit(compact, JOB_SUSPECT);
        return;
    case COMPACT_VERIFIED:
        compact_submit(compact, JOB_VERIFIED);
        return;
    case COMPACT_IDLE:
        break;
    }
    ASSERT(false);
}

/* ---- Life ---- */

struct compact *compact_new(struct store *store, struct env *env)
{
    struct compact *compact = mem_alloc(sizeof(*compact));

    compact->store = store;
    compact->env = env;
    return compact;
}

void compact_free(struct compact *compact)
{
    ASSERT(compact->step == COMPACT_IDLE);
    compact->env->clock->timer_stop(compact->env, &compact->timer);
    mem_free(compact);
}

void compact_tick(struct compact *compact)
{
    enum store_state state = store_state(compact->store);

    if (compact->step == COMPACT_IDLE && !compact->stopping &&
        (state == STORE_HEALTHY || state == STORE_FULL)) {
        compact_next(compact, COMPACT_CHOOSE);
    }
}

void compact_stop(struct compact *compact)
{
    compact->stopping = true;
    if (compact->step == COMPACT_PAUSE) {
        compact->env->clock->timer_start(compact->env, &compact->timer, 0);
    }
}

bool compact_idle(const struct compact *compact)
{
    return compact->step == COMPACT_IDLE;
}
