/*
 * A range of a shard, verified:
 *
 *     index row (cached: on the loop, else pool) -> segment held -> up to 4 reads at once ->
 * checked
 *
 * Checksums are of whole 64 KiB blocks. Whole blocks of the range go straight to the caller's
 * memory; a block that is wanted in part (at most two: the first and the last) goes through memory
 * of its own. Shards of more than INDEX_CRCS_MAX blocks have their checksums only in the footer:
 * the few bytes needed come with a read of their own beside the others.
 *
 * Up to VERIFY_LOOP_BYTES are checked on the loop: 128 KiB are some 7 us at 20 GB/s, less than the
 * way to a pool thread and back. More goes to the pool.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "datad/service/data_local.h"

enum { VERIFY_LOOP_BYTES = 128 * 1024, LOOKUPS_MAX = 4, PARTS_MAX = 3 };

/* Whole blocks that lie together in memory. */
struct read_part {
    struct env_io io;
    struct local_read *read;
    uint32_t block; /* the first */
    size_t len;
    char *to;
    char *own; /* memory to free, or NULL */
};

struct local_read {
    struct data_local *local;
    struct store *store;
    struct shard_read *call;
    struct segment *segment;
    struct index_row row;
    unsigned lookups;
    enum rc rc;
    uint32_t pending;
    uint32_t first; /* block */
    uint32_t last;
    uint32_t bad_blocks;
    uint32_t *crcs; /* of blocks first .. last: points into row, or owned */
    bool crcs_owned;
    struct env_io crc_io;
    struct read_part parts[PARTS_MAX];
    uint32_t part_count;
    struct env_work work;
    struct env_post post;
};

static void read_finish(struct local_read *read)
{
    struct data_local *local = read->local;
    struct shard_read *call = read->call;

    if (read->segment != NULL) {
        segment_release(read->store->table, read->segment);
    }
    for (uint32_t i = 0; i < read->part_count; i++) {
        mem_free(read->parts[i].own);
    }
    if (read->crcs_owned) {
        mem_free(read->crcs);
    }
    call->rc = read->rc;
    mem_free(read);
    call->done(call);
    data_local_end(local);
}

static void read_posted(struct env_post *post)
{
    read_finish(CONTAINER_OF(post, struct local_read, post));
}

static void read_refuse(struct local_read *read, enum rc rc)
{
    read->rc = rc;
    read->post.run = read_posted;
    read->local->env->post(read->local->env, &read->post);
}

/* ---- Checksums and the caller's bytes ---- */

static void read_verify(struct local_read *read)
{
    uint64_t payload_at = read->row.at + SEGMENT_ALIGN;
    const struct shard_read *call = read->call;

    for (uint32_t i = 0; i < read->part_count; i++) {
        const struct read_part *part = &read->parts[i];
        uint32_t bad = 0;
        read->bad_blocks += segment_verify_blocks(
            &read->segment->identity, &call->shard, payload_at, part->block,
            slice_of(part->to, part->len), read->crcs + (part->block - read->first), &bad);
    }
    read->rc = read->bad_blocks == 0 ? RC_OK : RC_CORRUPT;
}

/* From a block of its own to where it was asked for. */
static void read_copy(const struct local_read *read, const struct read_part *part)
{
    const struct shard_read *call = read->call;
    uint64_t part_at = (uint64_t)part->block * SEGMENT_BLOCK;
    uint64_t from = call->at > part_at ? call->at : part_at;
    uint64_t end = call->at + call->len;

    end = end < part_at + part->len ? end : part_at + part->len;
    ASSERT(from < end);
    memcpy((char *)call->to + (from - call->at), part->to + (from - part_at), (size_t)(end - from));
}

static void read_checked(struct local_read *read)
{
    if (read->rc != RC_OK) {
        atomic_fetch_add(&read->store->bad_blocks, read->bad_blocks > 0 ? read->bad_blocks : 1);
        local_suspect(read->local, read->store, &read->call->shard, read->row.at);
    }
    for (uint32_t i = 0; read->rc == RC_OK && i < read->part_count; i++) {
        if (read->parts[i].own != NULL) {
            read_copy(read, &read->parts[i]);
        }
    }
    read_finish(read);
}

static void verify_run(struct env_work *work)
{
    read_verify(CONTAINER_OF(work, struct local_read, work));
}

static void verify_done(struct env_work *work)
{
    read_checked(CONTAINER_OF(work, struct local_read, work));
}

static void read_arrived(struct local_read *read)
{
    struct env *env = read->local->env;

    ASSERT(read->pending > 0);
    read->pending -= 1;
    if (read->pending > 0) {
        return;
    }
    if (read->rc != RC_OK) {
        read_checked(read);
    } else if (read->call->len <= VERIFY_LOOP_BYTES) {
        read_verify(read);
        read_checked(read);
    } else {
        read->work = (struct env_work){.run = verify_run, .done = verify_done};
        env->worker->submit(env, NULL, &read->work);
    }
}

/* ---- Reads ---- */

static void part_done(struct env_io *io)
{
    struct read_part *part = CONTAINER_OF(io, struct read_part, io);
    struct local_read *read = part->read;

    if (io->rc != RC_OK || io->len != part->len) {
        read->rc = io->rc != RC_OK ? io->rc : RC_CORRUPT;
    }
    read_arrived(read);
}

static void crcs_done(struct env_io *io)
{
    struct local_read *read = CONTAINER_OF(io, struct local_read, crc_io);
    size_t len = (size_t)(read->last - read->first + 1) * SEGMENT_CRC_BYTES;

    if (io->rc != RC_OK || io->len != len) {
        read->rc = io->rc != RC_OK ? io->rc : RC_CORRUPT;
    }
    read_arrived(read);
}

/* Blocks `block` .. `last` in one read; into memory of their own when the caller wants less. */
static void read_add_part(struct local_read *read, uint32_t block, uint32_t last, bool own)
{
    const struct shard_read *call = read->call;
    struct read_part *part = &read->parts[read->part_count];
    uint64_t at = (uint64_t)block * SEGMENT_BLOCK;
    uint64_t end = ((uint64_t)last + 1) * SEGMENT_BLOCK;

    ASSERT(read->part_count < PARTS_MAX);
    end = end < read->row.length ? end : read->row.length;
    part->read = read;
    part->block = block;
    part->len = (size_t)(end - at);
    part->own = own ? mem_alloc_raw(part->len) : NULL;
    part->to = own ? part->own : (char *)call->to + (at - call->at);
    part->io.done = part_done;
    read->part_count += 1;
}

static void read_plan(struct local_read *read)
{
    const struct shard_read *call = read->call;
    uint64_t end = call->at + call->len;
    uint32_t from = (uint32_t)(call->at / SEGMENT_BLOCK);
    uint32_t to = (uint32_t)((end - 1) / SEGMENT_BLOCK);
    bool head = call->at % SEGMENT_BLOCK != 0;
    bool tail = end % SEGMENT_BLOCK != 0 && end != read->row.length;

    read->first = from;
    read->last = to;
    if (from == to) {
        read_add_part(read, from, to, head || tail);
        return;
    }
    if (head) {
        read_add_part(read, from, from, true);
        from += 1;
    }
    if (tail) {
        read_add_part(read, to, to, true);
    }
    if (from + (tail ? 1 : 0) <= to) {
        read_add_part(read, from, tail ? to - 1 : to, false);
    }
}

static void read_start(struct local_read *read)
{
    struct env *env = read->local->env;
    uint64_t payload_at = read->row.at + SEGMENT_ALIGN;
    uint32_t count;

    read_plan(read);
    count = read->last - read->first + 1;
    read->pending = read->part_count;
    if (read->row.crc_count > 0) {
        read->crcs = read->row.crcs + read->first;
    } else {
        uint64_t footer_at = read->row.at + segment_region_bytes(read->row.length) -
                             segment_footer_bytes(read->row.length);
        read->crcs = mem_alloc_raw((size_t)count * SEGMENT_CRC_BYTES);
        read->crcs_owned = true;
        read->crc_io.done = crcs_done;
        read->pending += 1;
        env->disk->read(env, &read->crc_io, read->segment->file, read->crcs,
                        (size_t)count * SEGMENT_CRC_BYTES,
                        footer_at + (uint64_t)read->first * SEGMENT_CRC_BYTES);
    }
    for (uint32_t i = 0; i < read->part_count; i++) {
        struct read_part *part = &read->parts[i];
        env->disk->read(env, &part->io, read->segment->file, part->to, part->len,
                        payload_at + (uint64_t)part->block * SEGMENT_BLOCK);
    }
}

/* ---- Lookup ---- */

static void lookup_run(struct env_work *work);
static void lookup_done(struct env_work *work);

static void lookup_submit(struct local_read *read)
{
    struct env *env = read->local->env;

    read->work = (struct env_work){.run = lookup_run, .done = lookup_done};
    env->worker->submit(env, NULL, &read->work);
}

static void read_found(struct local_read *read, enum rc rc)
{
    const struct shard_read *call = read->call;

    if (rc == RC_CORRUPT || rc == RC_IO) {
        local_index_failed(read->local, read->store, rc);
    }
    if (rc != RC_OK || read->row.kind == INDEX_DEAD) {
        read_refuse(read, rc != RC_OK ? rc : RC_NOT_FOUND);
        return;
    }
    if (call->len > read->row.length || call->at > read->row.length - call->len) {
        read_refuse(read, RC_INVALID);
        return;
    }
    if (call->len == 0) {
        read_refuse(read, RC_OK);
        return;
    }
    read->segment = segment_acquire(read->store->table, read->row.segment);
    if (read->segment != NULL) {
        read_start(read);
        return;
    }
    /* Compaction moved it between the lookup and now; or the segment is lost. */
    read->lookups += 1;
    if (read->lookups < LOOKUPS_MAX) {
        lookup_submit(read);
    } else {
        read_refuse(read, RC_NOT_FOUND);
    }
}

static void lookup_run(struct env_work *work)
{
    struct local_read *read = CONTAINER_OF(work, struct local_read, work);

    read->rc = index_get(&read->store->index, &read->call->shard, KV_ANY, &read->row, NULL);
}

static void lookup_done(struct env_work *work)
{
    struct local_read *read = CONTAINER_OF(work, struct local_read, work);
    enum rc rc = read->rc;

    read->rc = RC_OK;
    read_found(read, rc);
}

void local_read(struct data_client *data, struct shard_read *call)
{
    struct data_local *local = CONTAINER_OF(data, struct data_local, base);
    struct local_read *read = mem_alloc(sizeof(*read));
    enum rc rc;

    data_local_begin(local);
    read->local = local;
    read->call = call;
    read->store = data_local_store(local, call->disk);
    rc = read->store == NULL ? RC_NOT_FOUND : store_read_rc(read->store);
    rc = atomic_load(&local->closing) ? RC_CLOSED : rc;
    if (rc != RC_OK) {
        read_refuse(read, rc);
        return;
    }
    rc = index_get(&read->store->index, &call->shard, KV_CACHED_ONLY, &read->row, NULL);
    if (rc == RC_AGAIN) {
        lookup_submit(read);
    } else {
        read_found(read, rc);
    }
}
