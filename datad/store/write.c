/*
 * Shards coming in: what BEGIN, PUT, SEAL and ABORT do in a commit before its sync.
 *
 * A writer holds its segment from BEGIN on. Whatever fails, its region is never closed by a footer,
 * so recovery does not see it; if it is the last of the segment, the space is used again.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "datad/store/commit.h"
#include "datad/store/recover.h"

static struct slice writer_key(const struct store_writer *writer)
{
    return slice_of(writer->key, sizeof(writer->key));
}

/* Is the row still what compaction set out to move? */
static bool row_is_source(const struct index_row *row, const struct store_writer *writer)
{
    return row->kind == INDEX_LIVE && row->attempt == writer->attempt &&
           row->segment == writer->move_segment && row->at == writer->move_at;
}

/* A client's id that is or was held, or that is so old that nobody remembers, is refused. Repair
 * and move replace what has a lower attempt. */
static enum rc write_check_held(struct store *store, const struct store_writer *writer)
{
    struct index_row row;
    struct error error = {0};
    enum rc rc = index_get(&store->index, &writer->shard, KV_ANY, &row, &error);
    uint64_t now_ms = store->env->clock->wall_ns(store->env) / 1000000;

    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        recover_index_failed(store, rc, error.text);
        return RC_IO;
    }
    if (writer->move) {
        return rc == RC_OK && row_is_source(&row, writer) ? RC_OK : RC_NOT_FOUND;
    }
    if (rc == RC_OK) {
        return writer->attempt > row.attempt ? RC_OK : RC_EXISTS;
    }
    if (writer->attempt == 0 &&
        index_id_ms(&writer->shard.extent) + (uint64_t)STORE_ID_AGE_S * 1000 < now_ms) {
        return RC_EXISTS;
    }
    return RC_OK;
}

enum rc write_check(struct store *store, const struct store_writer *writer)
{
    enum rc rc = store_write_rc(store);
    uint64_t epoch;

    if (rc != RC_OK && !(writer->move && rc == RC_FULL)) {
        return rc;
    }
    if (writer->reserved_bytes > LIMIT_EXTENT_BYTES || writer->shard.index >= LIMIT_SHARDS) {
        return RC_INVALID;
    }
    if (hash_map_get(&store->writers, writer_key(writer)) != NULL) {
        return RC_EXISTS;
    }
    epoch = epochs_get(&store->epochs, writer->group);
    if (!writer->move && writer->group_epoch < epoch) {
        return RC_STALE;
    }
    rc = write_check_held(store, writer);
    if (rc == RC_OK && writer->group_epoch > epoch && !writer->move &&
        !epochs_raise(&store->epochs, writer->group, writer->group_epoch)) {
        return RC_LIMIT;
    }
    return rc;
}

static enum rc write_open_region(struct store *store, struct store_writer *writer)
{
    uint64_t bytes = segment_region_bytes(writer->reserved_bytes);
    enum rc rc = space_allocate(store, bytes, writer->move, &writer->segment, &writer->at);

    if (rc != RC_OK) {
        writer->segment = NULL;
        return rc;
    }
    /* Cannot fail: only this thread retires. */
    struct segment *held = segment_acquire(store->table, writer->segment->identity.generation);
    ASSERT(held == writer->segment);
    list_push_back(&writer->segment->writers, &writer->link);
    (void)hash_map_put(&store->writers, writer_key(writer), writer);
    writer->open = true;
    writer->sealing = false;
    writer->removed = false;
    writer->appended_bytes = 0;
    return RC_OK;
}

static void write_header(struct store *store, const struct store_job *job, uint8_t *block)
{
    const struct store_writer *writer = job->writer;
    const struct shard_origin *origin = job->origin;
    struct shard_header fields = {.index = writer->shard.index,
                                  .attempt = writer->attempt,
                                  .home_bucket = origin->home_bucket,
                                  .group = writer->group,
                                  .group_epoch = writer->group_epoch,
                                  .reserved_bytes = writer->reserved_bytes,
                                  .begun_ms = store->env->clock->wall_ns(store->env) / 1000000,
                                  .cluster_epoch = store->options.cluster_epoch};

    memcpy(fields.extent, writer->shard.extent.bytes, EXTENT_ID_BYTES);
    memcpy(fields.layout, origin->layout.bytes, EXTENT_ID_BYTES);
    shard_header_encode(block, &writer->segment->identity, writer->at, &fields, origin->home_key);
}

/* Puts the footer at the front of `to`; it ends at a block's end in the file. */
static uint64_t write_footer(const struct store_writer *writer, uint8_t *to, size_t *len)
{
    struct shard_footer fields = {.index = writer->shard.index,
                                  .attempt = writer->attempt,
                                  .payload_bytes = writer->appended_bytes,
                                  .block_count = segment_block_count(writer->appended_bytes)};

    memcpy(fields.extent, writer->shard.extent.bytes, EXTENT_ID_BYTES);
    *len = (size_t)segment_footer_bytes(writer->appended_bytes);
    shard_footer_encode(to, &writer->segment->identity, writer->at, &fields, writer->crcs);
    return writer->at + segment_region_bytes(writer->appended_bytes) - *len;
}

void write_finish(struct store *store, struct store_writer *writer)
{
    if (writer->open) {
        list_remove(&writer->link);
        (void)hash_map_remove(&store->writers, writer_key(writer));
        writer->open = false;
    }
    writer->sealing = false;
    if (writer->segment != NULL) {
        segment_writers_gone(store->table, writer->segment);
        segment_release(store->table, writer->segment);
        writer->segment = NULL;
    }
}

void write_abort(struct store *store, struct store_writer *writer)
{
    struct segment *segment = writer->segment;

    if (segment != NULL && segment->state == SEGMENT_ACTIVE &&
        segment->tail == writer->at + segment_region_bytes(writer->reserved_bytes)) {
        segment->tail = writer->at;
        atomic_store_explicit(&segment->end_bytes, segment->tail, memory_order_relaxed);
    }
    write_finish(store, writer);
}

enum rc write_begin(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct store_writer *writer = job->writer;
    struct slice bytes = slice_of(store->scratch, SEGMENT_ALIGN);
    enum rc rc;

    index_key(&writer->shard, writer->key);
    rc = write_check(store, writer);
    rc = rc == RC_OK ? write_open_region(store, writer) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    write_header(store, job, store->scratch);
    rc = store->env->file->write(store->env, writer->segment->file, &bytes, 1, writer->at);
    if (rc != RC_OK) {
        space_segment_failed(store, writer->segment, rc);
        write_abort(store, writer);
    }
    return rc;
}

static void write_crcs(struct store_writer *writer, struct slice bytes)
{
    for (uint32_t block = 0; bytes.len > 0; block++) {
        size_t len = bytes.len < SEGMENT_BLOCK ? bytes.len : SEGMENT_BLOCK;
        writer->crcs[block] =
            segment_block_crc(&writer->segment->identity, &writer->shard,
                              writer->at + SEGMENT_ALIGN, block, slice_of(bytes.data, len));
        bytes = slice_after(bytes, len);
    }
}

/* Header, payload, padding and footer go out in one write. */
enum rc write_put(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct store_writer *writer = job->writer;
    uint8_t *footer = store->scratch + SEGMENT_ALIGN + SEGMENT_ALIGN;
    struct slice parts[4];
    size_t footer_len;
    uint64_t footer_at;
    enum rc rc;

    ASSERT(job->bytes.len <= STORE_PUT_BYTES_MAX);
    writer->reserved_bytes = job->bytes.len;
    index_key(&writer->shard, writer->key);
    rc = write_check(store, writer);
    rc = rc == RC_OK ? write_open_region(store, writer) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    writer->appended_bytes = job->bytes.len;
    write_header(store, job, store->scratch);
    write_crcs(writer, job->bytes);
    footer_at = write_footer(writer, footer, &footer_len);
    memset(store->scratch + SEGMENT_ALIGN, 0, SEGMENT_ALIGN);
    parts[0] = slice_of(store->scratch, SEGMENT_ALIGN);
    parts[1] = job->bytes;
    parts[2] = slice_of(store->scratch + SEGMENT_ALIGN,
                        (size_t)(footer_at - writer->at - SEGMENT_ALIGN - job->bytes.len));
    parts[3] = slice_of(footer, footer_len);
    ASSERT(parts[2].len < SEGMENT_ALIGN);
    rc = store->env->file->write(store->env, writer->segment->file, parts, ARRAY_LEN(parts),
                                 writer->at);
    if (rc != RC_OK) {
        space_segment_failed(store, writer->segment, rc);
        write_abort(store, writer);
        return rc;
    }
    writer->sealing = true;
    commit_dirty(commit, writer->segment);
    return RC_OK;
}

static enum rc write_seal_check(struct store *store, const struct store_writer *writer)
{
    struct index_row row;

    if (writer->removed) {
        return RC_NOT_FOUND;
    }
    if (atomic_load(&writer->segment->failed)) {
        return RC_IO;
    }
    if (writer->move) {
        enum rc rc = index_get(&store->index, &writer->shard, KV_ANY, &row, NULL);
        return rc == RC_OK && row_is_source(&row, writer) ? RC_OK : RC_NOT_FOUND;
    }
    return writer->group_epoch < epochs_get(&store->epochs, writer->group) ? RC_STALE : RC_OK;
}

enum rc write_seal(struct commit *commit, struct store_job *job)
{
    struct store *store = commit->store;
    struct store_writer *writer = job->writer;
    struct segment *segment = writer->segment;
    uint64_t end = writer->at + segment_region_bytes(writer->reserved_bytes);
    struct slice bytes;
    uint64_t at;
    enum rc rc = write_seal_check(store, writer);

    if (rc == RC_OK) {
        at = write_footer(writer, store->scratch, &bytes.len);
        bytes.data = (const char *)store->scratch;
        rc = store->env->file->write(store->env, segment->file, &bytes, 1, at);
        if (rc != RC_OK) {
            space_segment_failed(store, segment, rc);
        }
    }
    if (rc != RC_OK) {
        write_abort(store, writer);
        return rc;
    }
    /* Shorter than reserved, and nothing behind it yet: the rest is free again. */
    if (segment->state == SEGMENT_ACTIVE && segment->tail == end) {
        segment->tail = writer->at + segment_region_bytes(writer->appended_bytes);
        atomic_store_explicit(&segment->end_bytes, segment->tail, memory_order_relaxed);
    }
    writer->sealing = true;
    commit_dirty(commit, segment);
    return RC_OK;
}
