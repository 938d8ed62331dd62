/*
 * The thread of a disk. Everything pending is one commit:
 *
 *     take each job (checks, writes) -> delete records -> one fdatasync per file -> one index batch
 *     -> answer
 *
 * A job is answered RC_OK only behind a sync that began after its bytes were written. When a sync
 * fails, every job that waits for that file fails, and so does every writer still open in it.
 */
#include "datad/store/commit.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/store/recover.h"

static void commit_init(struct commit *commit, struct store *store)
{
    commit->store = store;
    commit->first = NULL;
    commit->last = NULL;
    list_init(&commit->dirty);
    list_init(&commit->touched);
    hash_map_init(&commit->removes);
}

void commit_dirty(struct commit *commit, struct segment *segment)
{
    if (list_empty(&segment->dirty)) {
        list_push_back(&commit->dirty, &segment->dirty);
    }
    commit_touch(commit, segment);
}

void commit_touch(struct commit *commit, struct segment *segment)
{
    if (list_empty(&segment->touched)) {
        list_push_back(&commit->touched, &segment->touched);
    }
}

static void commit_wait(struct commit *commit, struct store_job *job, struct segment *segment)
{
    job->segment = segment;
    job->next = NULL;
    if (commit->last == NULL) {
        commit->first = job;
    } else {
        commit->last->next = job;
    }
    commit->last = job;
}

/* ---- Deletes ---- */

/* Entries of one block into a record of its own. */
static enum rc delete_write(struct commit *commit, const struct delete_entry *entries,
                            uint32_t count, struct segment **segment)
{
    struct store *store = commit->store;
    struct slice bytes = slice_of(store->scratch, SEGMENT_ALIGN);
    uint64_t at;
    enum rc rc = space_allocate(store, SEGMENT_ALIGN, true, segment, &at);

    if (rc != RC_OK) {
        return rc;
    }
    delete_record_encode(store->scratch, &(*segment)->identity, at, entries, count);
    rc = store->env->file->write(store->env, (*segment)->file, &bytes, 1, at);
    if (rc != RC_OK) {
        space_segment_failed(store, *segment, rc);
        return rc;
    }
    (*segment)->delete_bytes += SEGMENT_ALIGN;
    commit_dirty(commit, *segment);
    return RC_OK;
}

static void delete_entry_fill(struct delete_entry *entry, const struct store_job *job,
                              uint64_t now_ms)
{
    *entry = (struct delete_entry){.index = job->shard.index,
                                   .attempt = job->row.attempt,
                                   .segment = job->row.segment,
                                   .deleted_ms = now_ms};
    memcpy(entry->extent, job->shard.extent.bytes, EXTENT_ID_BYTES);
}

/* All REMOVE jobs of the commit, packed into as few records as they need. */
static void commit_deletes(struct commit *commit)
{
    struct delete_entry entries[DELETE_ENTRIES_MAX];
    uint64_t now_ms = commit->store->env->clock->wall_ns(commit->store->env) / 1000000;
    struct store_job *job = commit->first;

    while (job != NULL) {
        struct store_job *from = job;
        struct segment *segment = NULL;
        uint32_t count = 0;
        for (; job != NULL && count < DELETE_ENTRIES_MAX; job = job->next) {
            if (job->kind == JOB_REMOVE) {
                delete_entry_fill(&entries[count], job, now_ms);
                count += 1;
            }
        }
        if (count == 0) {
            return;
        }
        enum rc rc = delete_write(commit, entries, count, &segment);
        for (; from != job; from = from->next) {
            if (from->kind == JOB_REMOVE) {
                from->rc = rc;
                from->segment = segment;
                from->row.dead_ms = now_ms;
            }
        }
    }
}

/* Is this shard's row about to change in the running commit? */
static bool commit_concerns(const struct commit *commit, struct slice key)
{
    const struct store_writer *writer = hash_map_get(&commit->store->writers, key);

    return (writer != NULL && writer->sealing) || hash_map_get(&commit->removes, key) != NULL;
}

/* ---- Sync and index ---- */

static void commit_sync(struct commit *commit)
{
    struct store *store = commit->store;
    struct error error = {0};
    enum rc epoch_rc = epochs_save(&store->epochs, &error);

    if (epoch_rc != RC_OK) {
        LOG_ERROR("epochs_failed", "disk=%llu error=\"%s\"", (unsigned long long)store->options.id,
                  error.text);
    }
    while (!list_empty(&commit->dirty)) {
        struct segment *segment =
            CONTAINER_OF(list_pop_front(&commit->dirty), struct segment, dirty);
        uint64_t unsynced = atomic_load(&segment->unsynced);
        enum rc rc = store->env->file->sync(store->env, segment->file);
        atomic_fetch_add(&store->syncs, 1);
        if (rc != RC_OK) {
            space_segment_failed(store, segment, rc);
            continue;
        }
        atomic_fetch_sub(&segment->unsynced, unsynced);
        if (!atomic_load(&segment->failed)) {
            store->errors_in_row = 0;
        }
    }
    for (struct store_job *job = commit->first; job != NULL; job = job->next) {
        if (job->rc == RC_OK && job->segment != NULL && atomic_load(&job->segment->failed)) {
            job->rc = RC_IO;
        }
        if (job->rc == RC_OK && job->writer != NULL) {
            job->rc = epoch_rc;
        }
    }
}

static void live_change(struct commit *commit, uint64_t generation, uint64_t length, bool added)
{
    struct segment *segment = segment_acquire(commit->store->table, generation);
    uint64_t bytes = segment_region_bytes(length);

    if (segment == NULL) {
        return;
    }
    if (added) {
        atomic_fetch_add(&segment->live_bytes, bytes);
    } else {
        uint64_t live = atomic_load(&segment->live_bytes);
        atomic_store(&segment->live_bytes, live > bytes ? live - bytes : 0);
    }
    commit_touch(commit, segment);
    /* This thread retires, so it stays: the hold was for the lookup only. */
    segment_release(commit->store->table, segment);
}

/* A sealed shard: its row, in place of what had a lower attempt or was moved. */
static enum rc index_written(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct store_writer *writer = job->writer;
    struct index_row old;
    enum rc rc = index_get(&store->index, &writer->shard, KV_ANY, &old, NULL);

    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return rc;
    }
    if (rc == RC_OK && old.kind == INDEX_LIVE) {
        live_change(commit, old.segment, old.length, false);
    }
    job->row = (struct index_row){.kind = INDEX_LIVE,
                                  .attempt = writer->attempt,
                                  .segment = writer->segment->identity.generation,
                                  .at = writer->at,
                                  .length = writer->appended_bytes,
                                  .suspect = writer->move && rc == RC_OK && old.suspect};
    uint32_t blocks = segment_block_count(writer->appended_bytes);
    if (blocks <= INDEX_CRCS_MAX) {
        job->row.crc_count = blocks;
        memcpy(job->row.crcs, writer->crcs, (size_t)blocks * SEGMENT_CRC_BYTES);
    }
    index_put(store->batch, &writer->shard, &job->row);
    live_change(commit, job->row.segment, job->row.length, true);
    return RC_OK;
}

static void index_removed(struct commit *commit, struct store_job *job)
{
    live_change(commit, job->row.segment, job->row.length, false);
    job->row.kind = INDEX_DEAD;
    job->row.suspect = false;
    job->row.crc_count = 0;
    index_put(commit->store->batch, &job->shard, &job->row);
}

/* The rows of every segment that changed go into the same batch, so that any prefix of batches
 * agrees. */
static void commit_rows(struct commit *commit)
{
    while (!list_empty(&commit->touched)) {
        struct segment *segment =
            CONTAINER_OF(list_pop_front(&commit->touched), struct segment, touched);
        if (segment->state == SEGMENT_RETIRED) {
            continue;
        }
        bool complete = segment->state == SEGMENT_SEALED && list_empty(&segment->writers);
        space_put_row(commit->store, segment, complete ? INDEX_SEGMENT_SEALED : INDEX_SEGMENT_OPEN);
    }
}

static void commit_index(struct commit *commit)
{
    struct store *store = commit->store;
    struct error error = {0};
    enum rc rc = RC_OK;

    for (struct store_job *job = commit->first; job != NULL; job = job->next) {
        if (job->rc == RC_OK && (job->kind == JOB_SEAL || job->kind == JOB_PUT)) {
            job->rc = index_written(commit, job);
        } else if (job->rc == RC_OK && job->kind == JOB_REMOVE) {
            index_removed(commit, job);
        }
        if (job->writer != NULL && job->kind != JOB_BEGIN) {
            write_finish(store, job->writer);
        } else if (job->writer != NULL && job->rc != RC_OK) {
            write_abort(store, job->writer);
        }
    }
    commit_rows(commit);
    if (kv_batch_count(store->batch) > 0 && store->index.kv != NULL) {
        rc = kv_write(store->index.kv, store->batch, KV_UNLOGGED, &error);
        atomic_fetch_add(&store->unflushed, 1);
    }
    if (rc != RC_OK) {
        kv_batch_clear(store->batch);
        recover_index_failed(store, rc, error.text);
    }
    for (struct store_job *job = commit->first; rc != RC_OK && job != NULL; job = job->next) {
        job->rc = job->rc == RC_OK ? RC_IO : job->rc;
    }
}

static void commit_finish(struct commit *commit)
{
    if (commit->first != NULL) {
        commit_deletes(commit);
    }
    commit_sync(commit);
    commit_index(commit);
    hash_map_deinit(&commit->removes);
    commit_init(commit, commit->store);
}

/* ---- Taking jobs ---- */

static void take_remove(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct slice key = slice_of(job->key, sizeof(job->key));
    struct store_writer *writer;
    struct error error = {0};

    job->rc = store_write_rc(store);
    if (job->rc != RC_OK && job->rc != RC_FULL) {
        return;
    }
    index_key(&job->shard, job->key);
    if (commit_concerns(commit, key)) {
        commit_finish(commit); /* what came before it in this commit goes first */
    }
    writer = hash_map_get(&store->writers, key);
    if (writer != NULL) {
        writer->removed = true;
    }
    job->rc = index_get(&store->index, &job->shard, KV_ANY, &job->row, &error);
    if (job->rc == RC_NOT_FOUND || (job->rc == RC_OK && job->row.kind == INDEX_DEAD)) {
        job->rc = RC_OK;
        return;
    }
    if (job->rc == RC_OK) {
        commit_wait(commit, job, NULL);
        (void)hash_map_put(&commit->removes, key, job);
    } else {
        recover_index_failed(store, job->rc, error.text);
    }
}

/* Repair takes it from the ring; a full ring drops it. */
static void bad_put(struct store *store, const struct shard_id *shard)
{
    uint32_t put = atomic_load_explicit(&store->bad_put, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&store->bad_taken, memory_order_acquire);

    if (put - taken < STORE_BAD_MAX) {
        store->bad[put % STORE_BAD_MAX] = *shard;
        atomic_store_explicit(&store->bad_put, put + 1, memory_order_release);
    }
}

static void take_suspect(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;

    commit_finish(commit); /* its row may be about to change */
    job->rc = index_get(&store->index, &job->shard, KV_ANY, &job->row, NULL);
    if (job->rc == RC_OK && job->row.kind == INDEX_LIVE && !job->row.suspect &&
        job->row.at == job->suspect_at) {
        job->row.suspect = true;
        index_put(store->batch, &job->shard, &job->row);
        bad_put(store, &job->shard);
    }
}

static void take_keep_deletes(struct commit *commit, struct store_job *job)
{
    struct segment *segment = NULL;

    ASSERT(job->entry_count >= 1 && job->entry_count <= DELETE_ENTRIES_MAX);
    job->rc = delete_write(commit, job->entries, job->entry_count, &segment);
    if (job->rc == RC_OK) {
        commit_wait(commit, job, segment);
    }
}

static void take_retire(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct segment *segment = segment_acquire(store->table, job->generation);

    if (segment == NULL) {
        job->rc = RC_NOT_FOUND;
        return;
    }
    segment_release(store->table, segment);
    commit_finish(commit); /* nothing pending may name it any more */
    if (segment->state != SEGMENT_SEALED || !list_empty(&segment->writers) ||
        (atomic_load(&segment->live_bytes) > 0 && !job->recounted)) {
        job->rc = RC_BUSY;
        return;
    }
    space_put_row(store, segment, INDEX_SEGMENT_RETIRED);
    list_remove(&segment->link);
    segment_retire(store->table, segment);
    job->rc = RC_OK;
}

static void take_tick(struct store *store)
{
    struct env_stat stat;
    char path[SEGMENT_PATH_BYTES];
    enum rc rc;

    space_sum(store);
    space_update(store);
    /* The file that is written must still be found by name, or what is acknowledged is lost at
     * restart. */
    (void)snprintf(path, sizeof(path), "%s", store->segment_directory);
    if (store->active != NULL) {
        segment_path(store->table, store->active->identity.generation, path);
    }
    rc = store->env->file->stat(store->env, path, &stat);
    if (rc == RC_NOT_FOUND) {
        store_isolate(store, STORE_MISSING, "directory or active segment is gone");
    }
}

static void take_verified(struct store *store, const struct store_job *job)
{
    struct segment *segment = segment_acquire(store->table, job->generation);

    if (segment != NULL) {
        segment->verify = false;
        segment->scrubbed_ms = store->env->clock->mono_ns(store->env) / 1000000 + 1;
        segment->stuck = segment->stuck || job->failure != RC_OK;
        segment_release(store->table, segment);
    }
}

/* An orderly end: what is open stays unfinished, the rows say that nothing lies behind. */
static void take_close(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct error error = {0};

    commit_finish(commit);
    job->rc = store_write_rc(store);
    if (store->index.kv == NULL || (job->rc != RC_OK && job->rc != RC_FULL)) {
        return;
    }
    job->rc = RC_OK;
    if (store->active != NULL && list_empty(&store->active->writers)) {
        space_put_row(store, store->active, INDEX_SEGMENT_CLEAN);
    }
    if (kv_batch_count(store->batch) > 0) {
        job->rc = kv_write(store->index.kv, store->batch, KV_UNLOGGED, &error);
    }
    if (job->rc == RC_OK) {
        job->rc = store->index.kv->ops->flush(store->index.kv, &error);
    }
    if (job->rc != RC_OK) {
        LOG_WARN("index_flush_failed", "disk=%llu error=\"%s\"",
                 (unsigned long long)store->options.id, error.text);
    }
}

/* Is the file that is written still there? A write into an unlinked one would be acknowledged and
 * lost. */
static void commit_presence(struct store *store)
{
    struct env_stat stat;
    char path[SEGMENT_PATH_BYTES];

    if (store->active != NULL && store_write_rc(store) == RC_OK) {
        segment_path(store->table, store->active->identity.generation, path);
        if (store->env->file->stat(store->env, path, &stat) == RC_NOT_FOUND) {
            store_isolate(store, STORE_MISSING, "the active segment is gone");
        }
    }
}

static void take_abort(struct commit *commit, struct store_job *job)
{
    if (job->writer->segment != NULL && job->writer->segment->state == SEGMENT_SEALED) {
        commit_touch(commit, job->writer->segment); /* may be complete now */
    }
    write_abort(commit->store, job->writer);
    job->rc = RC_OK;
}

static void take_write(struct commit *commit, struct store_job *job)
{
    if (job->kind != JOB_SEAL) {
        index_key(&job->writer->shard, job->key);
        if (hash_map_get(&commit->removes, slice_of(job->key, sizeof(job->key))) != NULL) {
            commit_finish(commit); /* what is checked must be what will be */
        }
    }
    if (job->kind == JOB_BEGIN) {
        job->rc = write_begin(commit, job);
    } else if (job->kind == JOB_PUT) {
        job->rc = write_put(commit, job);
    } else {
        job->rc = write_seal(commit, job);
    }
    if (job->rc == RC_OK) {
        commit_wait(commit, job, job->writer->segment);
    }
}

static void commit_take(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;

    switch (job->kind) {
    case JOB_BEGIN:
    case JOB_PUT:
    case JOB_SEAL:
        take_write(commit, job);
        break;
    case JOB_ABORT:
        take_abort(commit, job);
        break;
    case JOB_REMOVE:
        take_remove(commit, job);
        break;
    case JOB_KEEP_DELETES:
        take_keep_deletes(commit, job);
        break;
    case JOB_SUSPECT:
        take_suspect(commit, job);
        break;
    case JOB_INDEX_FAILED:
        recover_index_failed(store, job->failure, "a read of the index failed");
        job->rc = RC_OK;
        break;
    case JOB_WRITE_FAILED:
        space_segment_failed(store, job->writer->segment, job->failure);
        job->rc = RC_OK;
        break;
    case JOB_CHOOSE:
        job->rc = space_choose(store, job);
        break;
    case JOB_VERIFIED:
        take_verified(store, job);
        job->rc = RC_OK;
        break;
    case JOB_RETIRE:
        take_retire(commit, job);
        break;
    case JOB_FORGET:
        index_remove_segment(store->batch, job->generation);
        job->rc = RC_OK;
        break;
    case JOB_FILLED:
        store_filled(store);
        job->rc = RC_OK;
        break;
    case JOB_TICK:
        take_tick(store);
        job->rc = RC_OK;
        break;
    case JOB_SEAL_SEGMENT:
        space_seal_active(store);
        job->rc = RC_OK;
        break;
    case JOB_CLOSE:
        take_close(commit, job);
        break;
    }
}

void commit_batch(struct env_queue *queue, struct list *works)
{
    struct store *store = CONTAINER_OF(queue, struct store, queue);
    struct commit commit;

    commit_init(&commit, store);
    commit_presence(store);
    for (struct list *at = works->next; at != works; at = at->next) {
        commit_take(&commit, CONTAINER_OF(at, struct store_job, work.link));
    }
    commit_finish(&commit);
}
