/* Files of shards: creation, allocation, holding. See segment.h. */
#include "datad/store/segment.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"

enum { NAME_DIGITS = 16 };

#define SEGMENT_LIVE 0x80000000U

void segment_table_init(struct segment_table *table, struct env *env, const char *directory)
{
    /* Zeroed by mem_alloc: half a MiB of pointers, of which few pages are ever touched. */
    table->env = env;
    table->directory = directory;
}

static void segment_close_file(struct segment_table *table, struct segment *segment)
{
    if (segment->file >= 0) {
        table->env->file->close(table->env, segment->file);
        segment->file = -1;
    }
    if (segment->early_file >= 0) {
        table->env->file->close(table->env, segment->early_file);
        segment->early_file = -1;
    }
}

void segment_table_deinit(struct segment_table *table)
{
    for (size_t i = 0; i < SEGMENT_TABLE_CHUNKS; i++) {
        struct segment_chunk *chunk = atomic_load(&table->chunks[i]);
        for (size_t j = 0; chunk != NULL && j < SEGMENT_TABLE_CHUNK; j++) {
            struct segment *segment = atomic_load(&chunk->slots[j]);
            if (segment != NULL) {
                ASSERT((atomic_load(&segment->hold) & ~SEGMENT_LIVE) == 0);
                segment_close_file(table, segment);
                mem_free(segment);
            }
        }
        mem_free(chunk);
    }
}

void segment_path(const struct segment_table *table, uint64_t generation,
                  char path[SEGMENT_PATH_BYTES])
{
    int len = snprintf(path, SEGMENT_PATH_BYTES, "%s/%016llx.seg", table->directory,
                       (unsigned long long)generation);

    ASSERT(len > 0 && len < SEGMENT_PATH_BYTES);
}

enum rc segment_open_direct(const struct segment_table *table, uint64_t generation, int *file,
                            bool *direct)
{
    struct env *env = table->env;
    char path[SEGMENT_PATH_BYTES];
    enum rc rc;

    segment_path(table, generation, path);
    rc = env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_DIRECT, file, NULL);
    *direct = rc == RC_OK;
    if (rc == RC_INVALID || rc == RC_UNSUPPORTED) {
        rc = env->file->open(env, path, ENV_OPEN_READ, file, NULL);
    }
    return rc;
}

uint64_t segment_name_parse(const char *name)
{
    uint64_t value = 0;

    if (strlen(name) != NAME_DIGITS + 4 || strcmp(name + NAME_DIGITS, ".seg") != 0) {
        return 0;
    }
    for (size_t i = 0; i < NAME_DIGITS; i++) {
        const char *digits = "0123456789abcdef";
        const char *found = strchr(digits, name[i]);
        if (found == NULL) {
            return 0;
        }
        value = value << 4 | (uint64_t)(found - digits);
    }
    return value;
}

/* Only the queue thread (or start-up) adds; readers see a whole pointer or none. */
static enum rc table_add(struct segment_table *table, struct segment *segment, struct error *error)
{
    uint64_t chunk_at = segment->identity.generation / SEGMENT_TABLE_CHUNK;
    size_t at = (size_t)(segment->identity.generation % SEGMENT_TABLE_CHUNK);
    struct segment_chunk *chunk;

    if (chunk_at >= SEGMENT_TABLE_CHUNKS) {
        return error_set(error, RC_LIMIT, "segment number %llu is over the limit",
                         (unsigned long long)segment->identity.generation);
    }
    chunk = atomic_load_explicit(&table->chunks[chunk_at], memory_order_acquire);
    if (chunk == NULL) {
        chunk = mem_alloc(sizeof(*chunk));
        atomic_store_explicit(&table->chunks[chunk_at], chunk, memory_order_release);
    }
    ASSERT(atomic_load(&chunk->slots[at]) == NULL);
    atomic_store_explicit(&chunk->slots[at], segment, memory_order_release);
    return RC_OK;
}

static struct segment *segment_new(int file)
{
    struct segment *segment = mem_alloc(sizeof(*segment));

    segment->file = file;
    segment->early_file = -1;
    list_init(&segment->link);
    list_init(&segment->writers);
    list_init(&segment->dirty);
    list_init(&segment->touched);
    atomic_store(&segment->hold, SEGMENT_LIVE);
    return segment;
}

static enum rc segment_write_header(struct segment_table *table, struct segment *segment,
                                    const struct segment_create *create)
{
    struct env *env = table->env;
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);
    struct segment_header fields = {.allocated_bytes = create->allocated_bytes,
                                    .disk = create->disk,
                                    .created_ms = env->clock->wall_ns(env) / 1000000,
                                    .cluster_epoch = create->cluster_epoch};
    struct slice bytes = slice_of(block, SEGMENT_ALIGN);
    enum rc rc;

    segment->identity.generation = create->generation;
    le64_put(segment->identity.uuid, env->random(env));
    le64_put(segment->identity.uuid + 8, env->random(env));
    segment_header_encode(block, &segment->identity, &fields);
    rc = env->file->allocate(env, segment->file, create->allocated_bytes);
    rc = rc == RC_OK ? env->file->write(env, segment->file, &bytes, 1, 0) : rc;
    rc = rc == RC_OK ? env->file->sync(env, segment->file) : rc;
    rc = rc == RC_OK ? env->file->sync_directory(env, table->directory) : rc;
    mem_free(block);
    return rc;
}

enum rc segment_create(struct segment_table *table, const struct segment_create *create,
                       struct segment **out, struct error *error)
{
    struct env *env = table->env;
    char path[SEGMENT_PATH_BYTES];
    struct segment *segment;
    int file;
    enum rc rc;

    ASSERT(create->allocated_bytes % SEGMENT_ALIGN == 0);
    segment_path(table, create->generation, path);
    rc = env->file->open(env, path,
                         ENV_OPEN_READ | ENV_OPEN_WRITE | ENV_OPEN_CREATE | ENV_OPEN_EXCLUSIVE,
                         &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    segment = segment_new(file);
    rc = segment_write_header(table, segment, create);
    if (rc == RC_OK) {
        /* Without it (too many open files) early syncs are left out, nothing else. */
        (void)env->file->open(env, path, ENV_OPEN_WRITE, &segment->early_file, NULL);
        segment->state = SEGMENT_ACTIVE;
        segment->allocated_bytes = create->allocated_bytes;
        segment->tail = SEGMENT_ALIGN;
        atomic_store(&segment->end_bytes, segment->tail);
        rc = table_add(table, segment, error);
    } else {
        (void)error_set(error, rc, "create %s: %s", path, rc_text(rc));
    }
    if (rc != RC_OK) {
        segment_close_file(table, segment);
        mem_free(segment);
        (void)env->file->unlink(env, path);
        return rc;
    }
    *out = segment;
    return RC_OK;
}

enum rc segment_open(struct segment_table *table, uint64_t generation, struct segment **out,
                     struct error *error)
{
    struct env *env = table->env;
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);
    char path[SEGMENT_PATH_BYTES];
    struct segment_header fields;
    struct segment *segment;
    struct env_stat stat = {0};
    size_t got = 0;
    int file = -1;
    enum rc rc;

    segment_path(table, generation, path);
    rc = env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_WRITE, &file, error);
    if (rc != RC_OK) {
        mem_free(block);
        return rc;
    }
    segment = segment_new(file);
    rc = env->file->read(env, file, block, SEGMENT_ALIGN, 0, &got);
    rc = rc == RC_OK ? env->file->stat(env, path, &stat) : rc;
    if (rc != RC_OK) {
        (void)error_set(error, rc, "%s: %s", path, rc_text(rc));
    } else if (got != SEGMENT_ALIGN || !segment_header_check(block, &segment->identity, &fields) ||
               segment->identity.generation != generation) {
        rc = error_set(error, RC_CORRUPT, "%s: no valid segment header", path);
    } else {
        segment->state = SEGMENT_SEALED;
        segment->allocated_bytes =
            stat.size_bytes < fields.allocated_bytes ? stat.size_bytes : fields.allocated_bytes;
        rc = table_add(table, segment, error);
    }
    mem_free(block);
    if (rc != RC_OK) {
        segment_close_file(table, segment);
        mem_free(segment);
        return rc;
    }
    *out = segment;
    return RC_OK;
}

struct segment *segment_acquire(struct segment_table *table, uint64_t generation)
{
    uint64_t chunk_at = generation / SEGMENT_TABLE_CHUNK;
    struct segment_chunk *chunk;
    struct segment *segment;
    uint32_t hold;

    if (chunk_at >= SEGMENT_TABLE_CHUNKS) {
        return NULL;
    }
    chunk = atomic_load_explicit(&table->chunks[chunk_at], memory_order_acquire);
    if (chunk == NULL) {
        return NULL;
    }
    segment =
        atomic_load_explicit(&chunk->slots[generation % SEGMENT_TABLE_CHUNK], memory_order_acquire);
    if (segment == NULL) {
        return NULL;
    }
    hold = atomic_load_explicit(&segment->hold, memory_order_relaxed);
    do {
        if ((hold & SEGMENT_LIVE) == 0) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&segment->hold, &hold, hold + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return segment;
}

void segment_release(struct segment_table *table, struct segment *segment)
{
    uint32_t before = atomic_fetch_sub_explicit(&segment->hold, 1, memory_order_acq_rel);

    ASSERT((before & ~SEGMENT_LIVE) > 0);
    if (before == 1) {
        segment_close_file(table, segment);
    }
}

uint64_t segment_allocate(struct segment *segment, uint64_t bytes)
{
    uint64_t at = segment->tail;

    ASSERT(bytes % SEGMENT_ALIGN == 0);
    if (segment->state != SEGMENT_ACTIVE || atomic_load(&segment->failed) ||
        bytes > segment->allocated_bytes || at > segment->allocated_bytes - bytes) {
        return 0;
    }
    segment->tail = at + bytes;
    atomic_store_explicit(&segment->end_bytes, segment->tail, memory_order_relaxed);
    return at;
}

/* Appends use the descriptor, and their writers are on the list until they are done. */
void segment_writers_gone(struct segment_table *table, struct segment *segment)
{
    if (segment->state != SEGMENT_ACTIVE && segment->early_file >= 0 &&
        list_empty(&segment->writers)) {
        table->env->file->close(table->env, segment->early_file);
        segment->early_file = -1;
    }
}

void segment_seal(struct segment_table *table, struct segment *segment)
{
    struct env *env = table->env;

    ASSERT(segment->state == SEGMENT_ACTIVE);
    segment->state = SEGMENT_SEALED;
    segment->sealed_ms = env->clock->mono_ns(env) / 1000000;
    segment_writers_gone(table, segment);
    /* Best effort: without it the space comes back with the file. Regions end at the tail at the
     * latest. */
    if (segment->tail < segment->allocated_bytes &&
        env->file->truncate(env, segment->file, segment->tail) == RC_OK) {
        segment->allocated_bytes = segment->tail;
    }
}

void segment_retire(struct segment_table *table, struct segment *segment)
{
    uint32_t before;

    ASSERT(list_empty(&segment->writers));
    segment->state = SEGMENT_RETIRED;
    before = atomic_fetch_and_explicit(&segment->hold, ~SEGMENT_LIVE, memory_order_acq_rel);
    ASSERT((before & SEGMENT_LIVE) != 0);
    if (before == SEGMENT_LIVE) {
        segment_close_file(table, segment);
    }
}
