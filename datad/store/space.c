/*
 * Where new regions come from: the active segment, a new one, or nowhere (RC_FULL). The reserve
 * (free_bytes_min) is for deletes and compaction only: they are what makes a full disk less full.
 */
#include "common/base/assert.h"
#include "common/log/log.h"
#include "datad/store/commit.h"

enum {
    RESERVE_SEGMENT_BYTES = 1024 * 1024,
    SMALL_SHARE = 16, /* a sealed segment of less than a 16th of a whole one is small */
    SMALL_SEGMENTS_MAX =
        8 /* more of them are put together: each crash leaves one, each holds a descriptor */
};

void space_update(struct store *store)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    enum rc rc =
        store->env->file->space(store->env, store->segment_directory, &free_bytes, &total_bytes);
    int state = atomic_load(&store->state);

    if (rc != RC_OK) {
        return;
    }
    atomic_store_explicit(&store->free_bytes, free_bytes, memory_order_relaxed);
    atomic_store_explicit(&store->total_bytes, total_bytes, memory_order_relaxed);
    /* It was full; there is room for another segment, or the active one is nearly empty. */
    bool room = free_bytes > store->options.free_bytes_min + store->options.segment_bytes / 4;
    if (state == STORE_FULL && room) {
        (void)atomic_compare_exchange_strong(&store->state, &state, STORE_HEALTHY);
        LOG_INFO("disk_has_space", "disk=%llu free_bytes=%llu",
                 (unsigned long long)store->options.id, (unsigned long long)free_bytes);
    }
}

void space_sum(struct store *store)
{
    uint64_t live = 0;
    uint64_t end = 0;
    uint64_t count = 0;

    for (struct list *at = store->segments.next; at != &store->segments; at = at->next) {
        const struct segment *segment = CONTAINER_OF(at, struct segment, link);
        live += atomic_load(&segment->live_bytes);
        end += segment->tail;
        count += 1;
    }
    atomic_store(&store->live_bytes, live);
    atomic_store(&store->end_bytes, end);
    atomic_store(&store->segment_count, count);
}

static void space_full(struct store *store)
{
    int state = STORE_HEALTHY;

    if (atomic_compare_exchange_strong(&store->state, &state, STORE_FULL)) {
        LOG_WARN("disk_full", "disk=%llu free_bytes=%llu free_bytes_min=%llu",
                 (unsigned long long)store->options.id,
                 (unsigned long long)atomic_load(&store->free_bytes),
                 (unsigned long long)store->options.free_bytes_min);
    }
}

uint64_t space_covered(const struct segment *segment)
{
    if (list_empty(&segment->writers)) {
        return segment->tail;
    }
    const struct store_writer *first =
        CONTAINER_OF(segment->writers.next, struct store_writer, link);
    return first->at;
}

void space_put_row(struct store *store, struct segment *segment, enum index_segment_state state)
{
    struct index_segment row = {.generation = segment->identity.generation,
                                .state = state,
                                .covered = space_covered(segment),
                                .live_bytes = atomic_load(&segment->live_bytes)};

    memcpy(row.uuid, segment->identity.uuid, sizeof(row.uuid));
    index_put_segment(store->batch, &row);
}

void space_seal_active(struct store *store)
{
    struct segment *segment = store->active;

    if (segment != NULL) {
        store->active = NULL;
        segment_seal(store->table, segment);
        /* With open writers the row follows when the last one is done. */
        if (list_empty(&segment->writers)) {
            space_put_row(store, segment, INDEX_SEGMENT_SEALED);
        }
    }
}

void space_segment_failed(struct store *store, struct segment *segment, enum rc rc)
{
    bool first = !atomic_exchange(&segment->failed, true);

    if (store->active == segment) {
        space_seal_active(store);
    }
    if (!first) {
        return;
    }
    LOG_ERROR("segment_failed", "disk=%llu segment=%016llx rc=\"%s\"",
              (unsigned long long)store->options.id,
              (unsigned long long)segment->identity.generation, rc_text(rc));
    if (rc == RC_FULL) {
        space_full(store);
        return;
    }
    segment->verify = true;
    store->errors_in_row += 1;
    if (store->errors_in_row >= STORE_ERRORS_MAX) {
        store_isolate(store, STORE_FAILED, "writes to several new segments failed");
    }
}

/* How long the next segment may be: a whole one if the reserve stays, otherwise just what is asked.
 * 0: no room at all. */
static uint64_t space_segment_size(struct store *store, uint64_t need, bool reserve)
{
    uint64_t whole = store->options.segment_bytes;
    uint64_t least = need < RESERVE_SEGMENT_BYTES ? RESERVE_SEGMENT_BYTES : need;
    uint64_t keep = store->options.free_bytes_min;
    uint64_t free_bytes;

    space_update(store);
    free_bytes = atomic_load_explicit(&store->free_bytes, memory_order_relaxed);
    if (need > whole) {
        whole = need;
    }
    if (free_bytes >= whole && free_bytes - whole >= keep) {
        return whole;
    }
    if (reserve && free_bytes >= least) {
        return least;
    }
    return free_bytes >= least && free_bytes - least >= keep ? least : 0;
}

static enum rc space_new_segment(struct store *store, uint64_t bytes, struct segment **out)
{
    struct segment_create create = {.generation = store->generation_next,
                                    .allocated_bytes = bytes,
                                    .disk = store->options.id,
                                    .cluster_epoch = store->options.cluster_epoch};
    struct error error = {0};
    enum rc rc = segment_create(store->table, &create, out, &error);

    store->generation_next += 1;
    if (rc == RC_OK) {
        list_push_back(&store->segments, &(*out)->link);
        return RC_OK;
    }
    if (rc == RC_FULL) {
        space_full(store);
        return rc;
    }
    LOG_ERROR("segment_create_failed", "disk=%llu error=\"%s\"",
              (unsigned long long)store->options.id, error.text);
    if (rc == RC_DENIED) {
        store_isolate(store, STORE_READ_ONLY, error.text);
    } else if (rc == RC_NOT_FOUND) {
        store_isolate(store, STORE_MISSING, error.text);
    } else {
        store->errors_in_row += 1;
        if (store->errors_in_row >= STORE_ERRORS_MAX) {
            store_isolate(store, STORE_FAILED, error.text);
        }
    }
    return rc == RC_EXISTS ? RC_IO : rc;
}

enum rc space_allocate(struct store *store, uint64_t bytes, bool reserve, struct segment **segment,
                       uint64_t *at)
{
    uint64_t need = SEGMENT_ALIGN + bytes;
    uint64_t size;
    enum rc rc;

    atomic_fetch_add_explicit(&store->allocated, bytes, memory_order_relaxed);
    if (store->active != NULL) {
        *segment = store->active;
        *at = segment_allocate(store->active, bytes);
        if (*at != 0) {
            return RC_OK;
        }
    }
    size = space_segment_size(store, need, reserve);
    if (size == 0) {
        space_full(store);
        return RC_FULL;
    }
    rc = space_new_segment(store, size, segment);
    if (rc != RC_OK) {
        return rc;
    }
    *at = segment_allocate(*segment, bytes);
    ASSERT(*at != 0);
    if (size == need && need > store->options.segment_bytes) {
        /* Longer than a segment: it has this one for itself, and the active one stays. */
        (*segment)->state = SEGMENT_SEALED;
        return RC_OK;
    }
    space_seal_active(store);
    store->active = *segment;
    return RC_OK;
}

/* Bytes that compaction would give back. Delete records of this run count as alive for as long as
 * most of them still matter: moving them would only write them again. */
static uint64_t segment_dead(const struct store *store, const struct segment *segment)
{
    uint64_t now_ms = store->env->clock->mono_ns(store->env) / 1000000;
    uint64_t live = atomic_load(&segment->live_bytes);
    bool old = segment->sealed_ms == 0 ||
               now_ms - segment->sealed_ms > (uint64_t)STORE_TOMBSTONE_AGE_S * 1000;

    live += old ? 0 : segment->delete_bytes;
    return segment->tail - SEGMENT_ALIGN > live ? segment->tail - SEGMENT_ALIGN - live : 0;
}

static bool segment_may_move(const struct segment *segment)
{
    return segment->state == SEGMENT_SEALED && list_empty(&segment->writers) &&
           !segment->replaying && !segment->stuck;
}

/* With nothing better to do: the sealed segment that was read back longest ago. */
static void choose_scrub(struct store *store, struct store_job *job)
{
    uint64_t now_ms = store->env->clock->mono_ns(store->env) / 1000000;
    uint64_t age_ms = (uint64_t)STORE_SCRUB_AGE_S * 1000;
    const struct segment *oldest = NULL;

    for (struct list *at = store->segments.next; at != &store->segments; at = at->next) {
        const struct segment *segment = CONTAINER_OF(at, struct segment, link);
        bool due = segment->scrubbed_ms == 0 || now_ms - segment->scrubbed_ms > age_ms;
        if (due && segment_may_move(segment) &&
            (oldest == NULL || segment->scrubbed_ms < oldest->scrubbed_ms)) {
            oldest = segment;
        }
    }
    if (oldest != NULL) {
        job->generation = oldest->identity.generation;
        job->verify = true;
        job->scrub = true;
    }
}

/* Half dead: a byte is copied for each that is given back, so writes at most double. A full disk
 * takes what it can get. The one with the greatest dead share first; without any, the smallest of
 * many small ones. */
enum rc space_choose(struct store *store, struct store_job *job)
{
    bool full = store_state(store) == STORE_FULL;
    uint64_t best = full ? 9 : 49; /* percent */
    const struct segment *smallest = NULL;
    uint32_t small_count = 0;

    job->generation = 0;
    job->verify = false;
    job->scrub = false;
    for (struct list *at = store->segments.next; at != &store->segments; at = at->next) {
        const struct segment *segment = CONTAINER_OF(at, struct segment, link);
        uint64_t size = segment->tail - SEGMENT_ALIGN;
        uint64_t percent = size == 0 ? 100 : segment_dead(store, segment) * 100 / size;
        if (segment->verify) {
            job->generation = segment->identity.generation;
            job->verify = true;
            return RC_OK;
        }
        if (!segment_may_move(segment)) {
            continue;
        }
        if (percent > best) {
            best = percent;
            job->generation = segment->identity.generation;
        }
        if (size < store->options.segment_bytes / SMALL_SHARE) {
            small_count += 1;
            smallest = smallest == NULL || segment->tail < smallest->tail ? segment : smallest;
        }
    }
    if (job->generation == 0 && small_count > SMALL_SEGMENTS_MAX && !full) {
        job->generation = smallest->identity.generation;
    }
    if (job->generation == 0) {
        choose_scrub(store, job);
    }
    return job->generation != 0 ? RC_OK : RC_NOT_FOUND;
}
