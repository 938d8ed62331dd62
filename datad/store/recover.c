/*
 * Recovery. The segments are the truth, the index is a table of contents that may be old or lost:
 *
 *     segments by generation --scan from `covered` (or 0)--> shards, deletes --rules--> index
 *
 * The rules do not depend on the order in which records are met, so it does not matter that an open
 * shard of an old segment is sealed after a delete in a newer one:
 *   - of several records of one shard the highest attempt that is whole counts, of equal ones the
 *     one indexed already;
 *   - a delete of attempt a hides every record of attempt <= a, seen before or after.
 * Records past the covered offset may never have been acknowledged: their payload is checked, and
 * one that is torn is marked suspect, so that no inventory counts it.
 */
#include "datad/store/recover.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/store/commit.h"
#include "datad/store/scan.h"
#include "datad/store/verify.h"

enum { REPLAY_BATCH = 512, UNKNOWN_VERIFY_COUNT = 2 };

struct names {
    uint64_t *generations;
    size_t count;
    size_t capacity;
};

struct rows {
    struct index_segment *rows;
    size_t count;
    size_t capacity;
};

struct replay {
    struct store *store;
    struct names names;
    struct rows rows;
    struct hash_map pending; /* keys in the batch: read only after it was written */
    struct list touched;     /* segments whose live bytes changed since the batch was written */
    struct replay_key *keys;
    size_t key_count;
    uint64_t shards;
    uint64_t deletes;
    uint64_t torn;
};

struct replay_key {
    uint8_t bytes[INDEX_KEY_BYTES];
};

/* ---- The index ---- */

static void mark_path(const struct store *store, char path[SEGMENT_PATH_BYTES])
{
    (void)snprintf(path, SEGMENT_PATH_BYTES, "%s/rebuild-index", store->directory);
}

static void mark_index(struct store *store)
{
    char path[SEGMENT_PATH_BYTES];
    int file;

    mark_path(store, path);
    if (store->env->file->open(store->env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, NULL) ==
        RC_OK) {
        store->env->file->close(store->env, file);
        (void)store->env->file->sync_directory(store->env, store->directory);
    }
}

void recover_index_failed(struct store *store, enum rc rc, const char *why)
{
    if (rc == RC_CORRUPT) {
        mark_index(store);
    }
    store_isolate(store, STORE_FAILED, why);
}

struct clearing {
    struct store *store;
    enum rc rc;
};

static void index_unlink(void *list, const char *name)
{
    struct clearing *clearing = list;
    char path[SEGMENT_PATH_BYTES];
    enum rc rc;

    int len = snprintf(path, sizeof(path), "%s/%s", clearing->store->index_directory, name);
    rc = len < (int)sizeof(path) ? clearing->store->env->file->unlink(clearing->store->env, path)
                                 : RC_INVALID;
    clearing->rc = clearing->rc == RC_OK ? rc : clearing->rc;
}

static enum rc index_clear(struct store *store, struct error *error)
{
    struct clearing clearing = {.store = store};
    enum rc rc;

    mark_index(store); /* until the new one is complete: a crash begins again */
    rc = store->env->file->list(store->env, store->index_directory, index_unlink, &clearing);
    rc = rc == RC_OK ? clearing.rc : rc;
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return error_set(error, rc, "clear %s: %s", store->index_directory, rc_text(rc));
    }
    return RC_OK;
}

/* Is the index itself at fault (and not the disk, or another process)? */
static bool index_is_damaged(enum rc rc, const struct error *error)
{
    return rc == RC_CORRUPT || rc == RC_NOT_FOUND || rc == RC_UNSUPPORTED || rc == RC_INVALID ||
           (rc == RC_IO && strstr(error->text, "No such file") != NULL);
}

enum rc recover_index(struct store *store, struct error *error)
{
    struct index_options options = {.path = store->index_directory,
                                    .disk = store->options.id,
                                    .cache = store->options.cache,
                                    .kv_open = store->options.kv_open};
    char path[SEGMENT_PATH_BYTES];
    struct env_stat stat;
    bool fresh = false;
    enum rc rc = RC_CORRUPT;

    mark_path(store, path);
    if (store->env->file->stat(store->env, path, &stat) != RC_OK) {
        rc = index_open(&store->index, &options, &fresh, error);
    }
    if (rc == RC_OK || !index_is_damaged(rc, error)) {
        return rc;
    }
    LOG_WARN("index_made_again", "disk=%llu why=\"%s\"", (unsigned long long)store->options.id,
             error->text);
    rc = index_clear(store, error);
    rc = rc == RC_OK ? index_open(&store->index, &options, &fresh, error) : rc;
    return rc == RC_OK && !fresh ? index_wipe(&store->index, error) : rc;
}

/* ---- Reading what is there ---- */

static void collect_name(void *list, const char *name)
{
    struct names *names = list;
    uint64_t generation = segment_name_parse(name);

    if (generation == 0) {
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = names->capacity * 2 + 64;
        names->generations = mem_realloc(names->generations, names->capacity * sizeof(uint64_t));
    }
    names->generations[names->count] = generation;
    names->count += 1;
}

static void collect_row(void *list, const struct index_segment *row)
{
    struct rows *rows = list;

    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity * 2 + 64;
        rows->rows = mem_realloc(rows->rows, rows->capacity * sizeof(rows->rows[0]));
    }
    rows->rows[rows->count] = *row;
    rows->count += 1;
}

static int compare_generations(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;

    return (*left > *right) - (*left < *right);
}

/* Rows come in order of generation. */
static const struct index_segment *find_row(const struct rows *rows, uint64_t generation)
{
    size_t low = 0;
    size_t high = rows->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->rows[middle].generation < generation) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < rows->count && rows->rows[low].generation == generation ? &rows->rows[low] : NULL;
}

/* ---- Replay ---- */

static enum rc replay_flush(struct replay *replay, struct error *error)
{
    replay->key_count = 0;
    hash_map_deinit(&replay->pending);
    /* In the same batch as the shards' rows: a crash in the midst of recovery must leave sums that
     * fit. */
    while (!list_empty(&replay->touched)) {
        struct segment *segment =
            CONTAINER_OF(list_pop_front(&replay->touched), struct segment, touched);
        bool open = segment->replaying || segment->state == SEGMENT_ACTIVE;
        space_put_row(replay->store, segment, open ? INDEX_SEGMENT_OPEN : INDEX_SEGMENT_SEALED);
    }
    return kv_batch_count(replay->store->batch) > 0
               ? kv_write(replay->store->index.kv, replay->store->batch, KV_UNLOGGED, error)
               : RC_OK;
}

/* The row as it will be once the batch is written. */
static enum rc replay_get(struct replay *replay, const struct shard_id *shard,
                          struct index_row *row, struct error *error)
{
    uint8_t key[INDEX_KEY_BYTES];
    enum rc rc = RC_OK;

    index_key(shard, key);
    if (hash_map_get(&replay->pending, slice_of(key, sizeof(key))) != NULL ||
        replay->key_count == REPLAY_BATCH) {
        rc = replay_flush(replay, error);
    }
    return rc == RC_OK ? index_get(&replay->store->index, shard, KV_ANY, row, error) : rc;
}

static void replay_put(struct replay *replay, const struct shard_id *shard,
                       const struct index_row *row)
{
    struct replay_key *key = &replay->keys[replay->key_count];

    index_put(replay->store->batch, shard, row);
    index_key(shard, key->bytes);
    (void)hash_map_put(&replay->pending, slice_of(key->bytes, sizeof(key->bytes)), key);
    replay->key_count += 1;
}

static void replay_live(struct replay *replay, uint64_t generation, uint64_t length, bool added)
{
    struct segment *segment = segment_acquire(replay->store->table, generation);
    uint64_t bytes = segment_region_bytes(length);
    uint64_t live;

    if (segment == NULL) {
        return;
    }
    live = atomic_load(&segment->live_bytes);
    live = added ? live + bytes : live - (live < bytes ? live : bytes);
    atomic_store(&segment->live_bytes, live);
    if (list_empty(&segment->touched)) {
        list_push_back(&replay->touched, &segment->touched);
    }
    segment_release(replay->store->table, segment);
}

static bool replay_segment_exists(struct replay *replay, uint64_t generation)
{
    struct segment *segment = segment_acquire(replay->store->table, generation);

    if (segment != NULL) {
        segment_release(replay->store->table, segment);
    }
    return segment != NULL;
}

/* Does the record at hand count, and not what the index has? A footer alone proves nothing: a copy
 * or a higher attempt whose seal failed may have left one over a torn payload, and must not hide
 * the whole record that was acknowledged. So where two compete, both are read. `whole`: the record
 * at hand is. */
static bool replay_wins(struct replay *replay, struct scan *scan, const struct index_row *old,
                        bool *whole)
{
    struct shard_id id = scan_shard_id(scan);
    enum rc old_rc;

    *whole = scan_verify(scan) == RC_OK;
    if (old->kind == INDEX_DEAD) {
        return scan->footer.attempt > old->attempt && *whole;
    }
    old_rc = old->suspect ? RC_CORRUPT : verify_row(replay->store, &id, old);
    if (old_rc == RC_OK) {
        return *whole && scan->footer.attempt > old->attempt;
    }
    return *whole || scan->footer.attempt > old->attempt || old_rc == RC_NOT_FOUND;
}

static enum rc replay_shard(struct replay *replay, struct scan *scan, bool verify,
                            struct error *error)
{
    struct shard_id id = scan_shard_id(scan);
    struct index_row old;
    struct index_row row = {.kind = INDEX_LIVE,
                            .attempt = scan->footer.attempt,
                            .segment = scan->footer.mark.generation,
                            .at = scan->at,
                            .length = scan->footer.payload_bytes};
    enum rc rc = replay_get(replay, &id, &old, error);
    bool held = rc == RC_OK;
    bool whole = true;

    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return rc;
    }
    if (held && old.kind == INDEX_LIVE && old.segment == row.segment && old.at == row.at) {
        return RC_OK; /* indexed already */
    }
    if (held && old.kind == INDEX_DEAD && old.attempt >= row.attempt) {
        return RC_OK;
    }
    if (held && !replay_wins(replay, scan, &old, &whole)) {
        return RC_OK;
    }
    if (!held && verify) {
        whole = scan_verify(scan) == RC_OK;
    }
    row.suspect = !whole;
    replay->torn += row.suspect ? 1 : 0;
    replay->shards += 1;
    if (scan->footer.block_count <= INDEX_CRCS_MAX) {
        row.crc_count = scan->footer.block_count;
        memcpy(row.crcs, scan->crcs, (size_t)row.crc_count * SEGMENT_CRC_BYTES);
    }
    if (held && old.kind == INDEX_LIVE) {
        replay_live(replay, old.segment, old.length, false);
    }
    replay_put(replay, &id, &row);
    replay_live(replay, row.segment, row.length, true);
    return RC_OK;
}

static enum rc replay_delete(struct replay *replay, const struct delete_entry *entry,
                             struct error *error)
{
    struct shard_id id = {.index = entry->index};
    struct index_row old;
    struct index_row row = {.kind = INDEX_DEAD,
                            .attempt = entry->attempt,
                            .segment = entry->segment,
                            .dead_ms = entry->deleted_ms};
    enum rc rc;

    memcpy(id.extent.bytes, entry->extent, EXTENT_ID_BYTES);
    rc = replay_get(replay, &id, &old, error);
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return rc;
    }
    if (rc == RC_OK &&
        (old.attempt > row.attempt || (old.kind == INDEX_DEAD && old.attempt == row.attempt))) {
        return RC_OK;
    }
    if (rc == RC_OK && old.kind == INDEX_LIVE) {
        replay_live(replay, old.segment, old.length, false);
    }
    replay->deletes += 1;
    replay_put(replay, &id, &row);
    return RC_OK;
}

/* From segment->tail (the covered offset) on; then the tail is where the last structure ends. */
static enum rc replay_segment(struct replay *replay, struct segment *segment, bool verify,
                              struct error *error)
{
    struct store *store = replay->store;
    struct scan scan;
    uint64_t tail;
    uint64_t read_errors;
    bool direct;
    int file;
    enum rc rc = segment_open_direct(store->table, segment->identity.generation, &file, &direct);

    if (rc != RC_OK) {
        return error_set(error, rc, "segment %016llx: open: %s",
                         (unsigned long long)segment->identity.generation, rc_text(rc));
    }
    scan_open(&scan, &(struct scan_options){.env = store->env,
                                            .file = file,
                                            .identity = segment->identity,
                                            .from = segment->tail,
                                            .to = segment->allocated_bytes,
                                            .direct = direct});
    for (rc = scan_next(&scan); rc == RC_OK; rc = scan_next(&scan)) {
        if (scan.kind == SCAN_SHARD) {
            rc = replay_shard(replay, &scan, verify, error);
        }
        for (uint32_t i = 0; rc == RC_OK && scan.kind == SCAN_DELETES && i < scan.deletes->count;
             i++) {
            rc = replay_delete(replay, &scan.deletes->entries[i], error);
        }
        if (rc != RC_OK) {
            break;
        }
    }
    tail = scan.tail;
    read_errors = scan.read_errors;
    scan_close(&scan);
    store->env->file->close(store->env, file);
    rc = rc == RC_NOT_FOUND ? replay_flush(replay, error) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    /* What the page cache gave may not be on the disk yet, and is about to be counted as held. */
    rc = store->env->file->sync(store->env, segment->file);
    if (rc != RC_OK) {
        return error_set(error, rc, "segment %016llx: sync: %s",
                         (unsigned long long)segment->identity.generation, rc_text(rc));
    }
    if (read_errors > 0) {
        /* What could not be read now may be readable next time: it is scanned again then. */
        LOG_ERROR("segment_unreadable", "disk=%llu segment=%016llx blocks=%llu",
                  (unsigned long long)store->options.id,
                  (unsigned long long)segment->identity.generation,
                  (unsigned long long)read_errors);
        return RC_OK;
    }
    /* Never appended to again: what a crash left behind its last record may look like anything. */
    segment->replaying = false;
    segment->tail = tail;
    if (tail < segment->allocated_bytes &&
        store->env->file->truncate(store->env, segment->file, tail) == RC_OK) {
        segment->allocated_bytes = tail;
    }
    space_put_row(store, segment, INDEX_SEGMENT_SEALED);
    return RC_OK;
}

/* ---- All segments ---- */

static void segment_unlink(struct store *store, uint64_t generation)
{
    char path[SEGMENT_PATH_BYTES];

    segment_path(store->table, generation, path);
    if (store->env->file->unlink(store->env, path) == RC_OK) {
        (void)store->env->file->sync_directory(store->env, store->segment_directory);
    }
}

/* No valid header. A crash while it was made leaves zeros, which nobody misses; anything else is
 * set aside for people to look at. */
static void segment_set_aside(struct store *store, uint64_t generation, bool known)
{
    static const uint8_t zeros[SEGMENT_ALIGN];
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);
    char path[SEGMENT_PATH_BYTES];
    char path_bad[SEGMENT_PATH_BYTES + 8];
    size_t got = 0;
    int file;

    segment_path(store->table, generation, path);
    if (store->env->file->open(store->env, path, ENV_OPEN_READ, &file, NULL) == RC_OK) {
        (void)store->env->file->read(store->env, file, block, SEGMENT_ALIGN, 0, &got);
        store->env->file->close(store->env, file);
    }
    if (!known && memcmp(block, zeros, got) == 0) {
        segment_unlink(store, generation);
    } else {
        (void)snprintf(path_bad, sizeof(path_bad), "%s.bad", path);
        (void)store->env->file->rename(store->env, path, path_bad);
        LOG_ERROR("segment_set_aside", "disk=%llu path=%s why=\"no valid header\"",
                  (unsigned long long)store->options.id, path_bad);
    }
    mem_free(block);
}

static bool row_is_of(const struct index_segment *row, const struct segment *segment)
{
    return row != NULL && memcmp(row->uuid, segment->identity.uuid, SEGMENT_UUID_BYTES) == 0 &&
           row->covered >= SEGMENT_ALIGN && row->covered % SEGMENT_ALIGN == 0;
}

static enum rc open_one(struct replay *replay, uint64_t generation, struct error *error)
{
    struct store *store = replay->store;
    const struct index_segment *row = find_row(&replay->rows, generation);
    struct segment *segment;
    enum rc rc;

    if (row != NULL && row->state == INDEX_SEGMENT_RETIRED) {
        segment_unlink(store, generation);
        index_remove_segment(store->batch, generation);
        return RC_OK;
    }
    rc = segment_open(store->table, generation, &segment, error);
    if (rc == RC_CORRUPT) {
        segment_set_aside(store, generation, row != NULL);
        return RC_OK;
    }
    if (rc != RC_OK) {
        return rc;
    }
    list_push_back(&store->segments, &segment->link);
    segment->tail = SEGMENT_ALIGN;
    segment->replaying = true;
    if (row_is_of(row, segment)) {
        atomic_store(&segment->live_bytes, row->live_bytes);
        segment->tail = row->covered;
        segment->replaying = row->state != INDEX_SEGMENT_SEALED;
    }
    return RC_OK;
}

/* Replays the segment if it must be, and settles its state. */
static enum rc settle_one(struct replay *replay, struct segment *segment, bool newest,
                          struct error *error)
{
    struct store *store = replay->store;
    const struct index_segment *row = find_row(&replay->rows, segment->identity.generation);
    bool known = row_is_of(row, segment);
    enum rc rc = RC_OK;

    if (known && row->state == INDEX_SEGMENT_CLEAN && store->active == NULL) {
        segment->state = SEGMENT_ACTIVE;
        segment->replaying = false;
        store->active = segment;
        space_put_row(store, segment, INDEX_SEGMENT_OPEN);
    } else if (segment->replaying) {
        rc = replay_segment(replay, segment, known || newest, error);
    }
    atomic_store(&segment->end_bytes, segment->tail);
    return rc;
}

static enum rc recover_all(struct replay *replay, struct error *error)
{
    struct store *store = replay->store;
    struct names *names = &replay->names;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < names->count; i++) {
        rc = open_one(replay, names->generations[i], error);
        store->generation_next = names->generations[i] + 1;
    }
    for (size_t i = 0; i < replay->rows.count; i++) {
        uint64_t generation = replay->rows.rows[i].generation;
        if (generation >= store->generation_next) {
            store->generation_next = generation + 1;
        }
        if (!replay_segment_exists(replay, generation)) {
            index_remove_segment(store->batch, generation);
        }
    }
    rc = rc == RC_OK ? replay_flush(replay, error) : rc;
    for (struct list *at = store->segments.next; rc == RC_OK && at != &store->segments;
         at = at->next) {
        struct segment *segment = CONTAINER_OF(at, struct segment, link);
        bool newest = segment->identity.generation + UNKNOWN_VERIFY_COUNT >= store->generation_next;
        rc = settle_one(replay, segment, newest, error);
    }
    rc = rc == RC_OK ? replay_flush(replay, error) : rc;
    /* Also before the first write: a segment that was left clean may now grow past its covered
     * offset. */
    rc = rc == RC_OK ? store->index.kv->ops->flush(store->index.kv, error) : rc;
    if (rc == RC_OK) {
        char path[SEGMENT_PATH_BYTES];
        mark_path(store, path);
        (void)store->env->file->unlink(store->env, path);
    }
    return rc;
}

enum rc recover_segments(struct store *store, struct error *error)
{
    struct replay replay = {.store = store};
    enum rc rc;

    hash_map_init(&replay.pending);
    list_init(&replay.touched);
    replay.keys = mem_alloc(REPLAY_BATCH * sizeof(replay.keys[0]));
    rc = store->env->file->list(store->env, store->segment_directory, collect_name, &replay.names);
    if (rc != RC_OK) {
        (void)error_set(error, rc, "list %s: %s", store->segment_directory, rc_text(rc));
    } else {
        if (replay.names.count > 1) {
            qsort(replay.names.generations, replay.names.count, sizeof(uint64_t),
                  compare_generations);
        }
        rc = index_each_segment(&store->index, collect_row, &replay.rows, error);
    }
    rc = rc == RC_OK ? recover_all(&replay, error) : rc;
    if (replay.shards + replay.deletes > 0) {
        LOG_INFO("segments_replayed", "disk=%llu shards=%llu deletes=%llu torn=%llu",
                 (unsigned long long)store->options.id, (unsigned long long)replay.shards,
                 (unsigned long long)replay.deletes, (unsigned long long)replay.torn);
    }
    hash_map_deinit(&replay.pending);
    mem_free(replay.keys);
    mem_free(replay.names.generations);
    mem_free(replay.rows.rows);
    return rc;
}
