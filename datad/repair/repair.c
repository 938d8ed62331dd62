/*
 * Pages of work and the workers that take extents from them:
 *
 *     idle --timer--> page (hints | queue | walk) --> workers until it is used up --> next or idle
 *
 * A page lives in one arena, freed when its last extent is done.
 */
#include "datad/repair/repair.h"

#include <stdatomic.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/repair/check.h"

enum {
    PAGE_ITEMS = 128,
    POLL_MS = 5000,
    WALK_RETRY_MS = 60 * 1000,
    WALK_UNRESOLVED_MS = 10 * 60 * 1000
};

#define BYTES_PER_S (256ULL * 1024 * 1024)
#define NS_PER_MS   1000000ULL
#define NEVER       UINT64_MAX

enum page_kind { PAGE_NONE, PAGE_HINTS, PAGE_QUEUE, PAGE_WALK };

struct repair_item {
    enum check_from from;
    uint64_t disk;
    struct shard_id hint;
    uint64_t bucket_id;
    struct slice key;
    struct slice layout_id;
    struct slice extent_id;
    struct slice queue_key;
    const Kist__Piece *piece;
};

struct repair_worker {
    struct repair *repair;
    bool busy;
    struct check check;
};

struct repair_numbers { /* any thread reads them */
    _Atomic bool walking;
    _Atomic uint64_t walk_done;
    _Atomic uint64_t walk_total;
    _Atomic uint64_t deficit;
    _Atomic uint64_t lost_extents;
    _Atomic uint64_t walks;
    _Atomic uint64_t rebuilt_shards;
    _Atomic uint64_t rebuilt_bytes;
    _Atomic uint64_t failures;
    _Atomic(const char *) error; /* a static text */
};

struct repair {
    struct repair_options options;
    struct env *env;
    struct repair_pace pace;
    struct env_timer timer;
    /* The page. */
    enum page_kind page;
    bool fetching;
    struct task fetch;
    struct arena arena;
    struct meta_repairs queue_call;
    struct meta_scan scan_call;
    struct repair_item *items;
    uint32_t item_count;
    uint32_t item_at;
    uint32_t busy;
    struct repair_worker workers[REPAIR_PARALLEL];
    /* Hints. */
    struct datad_bad hints[REPAIR_HINTS_MAX];
    uint32_t hint_count;
    /* Queue: where the next page begins; polled again at queue_ms. */
    struct buffer queue_after;
    bool queue_more;
    uint64_t queue_ms;
    /* Walk. */
    struct buffer cursor;
    bool walking;
    bool walk_again;        /* asked for while one is under way */
    uint64_t walk_ms;       /* when the next begins */
    uint64_t unresolved_ms; /* a queue row asks for a walk at most this often */
    uint64_t walk_missing;
    uint64_t walk_rebuilt;
    uint64_t walk_lost;
    uint64_t walk_failures;
    struct repair_numbers numbers;
    bool closing;
    void (*done)(void *arg);
    void *arg;
};

static void repair_next(struct repair *repair);

static uint64_t now_ms(const struct repair *repair)
{
    return repair->env->clock->mono_ns(repair->env) / NS_PER_MS;
}

static void note_failure(struct repair *repair, enum rc rc)
{
    atomic_fetch_add(&repair->numbers.failures, 1);
    atomic_store(&repair->numbers.error, rc_text(rc));
}

/* ---- Workers ---- */

static void worker_start(struct repair_worker *worker);

static void worker_count(struct repair *repair, const struct check *check)
{
    const struct check_result *result = &check->result;
    bool failed = check->task.error.rc != RC_OK && check->task.error.rc != RC_NOT_FOUND;

    atomic_fetch_add(&repair->numbers.rebuilt_shards, result->rebuilt);
    atomic_fetch_add(&repair->numbers.rebuilt_bytes, result->rebuilt_bytes);
    if (failed) {
        note_failure(repair, check->task.error.rc);
    }
    if (check->from == CHECK_QUEUE && result->gone && now_ms(repair) >= repair->unresolved_ms) {
        /* Perhaps a part of an open upload, which only a walk finds. */
        repair->unresolved_ms = now_ms(repair) + WALK_UNRESOLVED_MS;
        repair_walk(repair);
    }
    if (repair->page == PAGE_WALK) {
        repair->walk_missing += result->gone ? 0 : result->missing;
        repair->walk_rebuilt += result->gone ? 0 : result->rebuilt;
        repair->walk_lost += result->lost ? 1 : 0;
        repair->walk_failures += failed ? 1 : 0;
        atomic_fetch_add(&repair->numbers.walk_done, 1);
        atomic_store(&repair->numbers.deficit, repair->walk_missing - repair->walk_rebuilt);
        atomic_store(&repair->numbers.lost_extents, repair->walk_lost);
    }
}

static void worker_done(struct check *check)
{
    struct repair_worker *worker = CONTAINER_OF(check, struct repair_worker, check);
    struct repair *repair = worker->repair;

    worker_count(repair, check);
    worker->busy = false;
    repair->busy -= 1;
    if (repair->item_at < repair->item_count && !repair->closing) {
        worker_start(worker);
    } else if (repair->busy == 0 && !repair->fetching) {
        repair_next(repair);
    }
}

static void worker_start(struct repair_worker *worker)
{
    struct repair *repair = worker->repair;
    const struct repair_item *item = &repair->items[repair->item_at];
    struct check *check = &worker->check;

    repair->item_at += 1;
    repair->busy += 1;
    worker->busy = true;
    check->env = repair->env;
    check->meta = repair->options.meta;
    check->data = repair->options.data;
    check->pace = &repair->pace;
    check->from = item->from;
    check->disk = item->disk;
    check->hint = item->hint;
    check->bucket_id = item->bucket_id;
    check->key = item->key;
    check->layout_id = item->layout_id;
    check->extent_id = item->extent_id;
    check->queue_key = item->queue_key;
    check->piece = item->piece;
    check->done = worker_done;
    check_start(check);
}

/* ---- Pages ---- */

static void page_work(struct repair *repair)
{
    repair->fetching = true; /* workers that end at once must not begin the next page */
    for (uint32_t i = 0; i < REPAIR_PARALLEL && repair->item_at < repair->item_count; i++) {
        if (!repair->workers[i].busy) {
            worker_start(&repair->workers[i]);
        }
    }
    repair->fetching = false;
    if (repair->busy == 0) {
        /* Through the loop: pages without work must not pile up on the stack. */
        repair->env->clock->timer_start(repair->env, &repair->timer, 0);
    }
}

static struct repair_item *page_room(struct repair *repair, uint32_t count)
{
    repair->items =
        arena_alloc(&repair->arena, (size_t)(count > 0 ? count : 1) * sizeof(struct repair_item));
    repair->item_count = count;
    repair->item_at = 0;
    return repair->items;
}

static void page_hints(struct repair *repair)
{
    struct repair_item *items = page_room(repair, repair->hint_count);

    for (uint32_t i = 0; i < repair->hint_count; i++) {
        items[i].from = CHECK_HINT;
        items[i].disk = repair->hints[i].disk;
        items[i].hint = repair->hints[i].shard;
    }
    repair->hint_count = 0;
    page_work(repair);
}

static struct slice field(ProtobufCBinaryData data)
{
    return slice_of(data.data, data.len);
}

static void queue_take(struct repair *repair)
{
    const struct meta_repairs *call = &repair->queue_call;
    struct repair_item *items = page_room(repair, call->repair_count);

    for (uint32_t i = 0; i < call->repair_count; i++) {
        const Kist__Repair *row = call->repairs[i];
        items[i].from = CHECK_QUEUE;
        items[i].bucket_id = row->bucket_id;
        items[i].key = field(row->key);
        items[i].layout_id = field(row->layout_id);
        items[i].extent_id = field(row->extent_id);
        items[i].queue_key = call->queue_keys[i];
    }
    buffer_clear(&repair->queue_after);
    repair->queue_more = call->repair_count == PAGE_ITEMS;
    if (repair->queue_more) {
        buffer_append(&repair->queue_after, call->queue_keys[call->repair_count - 1]);
    } else {
        repair->queue_ms = now_ms(repair) + repair->options.poll_ms;
    }
}

static void walk_take(struct repair *repair)
{
    const struct meta_scan *call = &repair->scan_call;
    struct repair_item *items = page_room(repair, call->item_count);

    for (uint32_t i = 0; i < call->item_count; i++) {
        items[i].from = CHECK_PIECE;
        items[i].bucket_id = call->items[i].bucket_id;
        items[i].key = call->items[i].key;
        items[i].layout_id = call->items[i].layout_id;
        items[i].piece = call->items[i].piece;
    }
    buffer_clear(&repair->cursor);
    buffer_append(&repair->cursor, call->next_cursor);
}

static enum step_result fetch_call(struct task *task)
{
    struct repair *repair = CONTAINER_OF(task, struct repair, fetch);
    struct meta_client *meta = repair->options.meta;

    if (repair->page == PAGE_QUEUE) {
        repair->queue_call = (struct meta_repairs){.limit = PAGE_ITEMS,
                                                   .after = buffer_slice(&repair->queue_after),
                                                   .arena = &repair->arena};
        return meta->repairs(meta, &repair->queue_call, task);
    }
    repair->scan_call = (struct meta_scan){
        .limit = PAGE_ITEMS, .cursor = buffer_slice(&repair->cursor), .arena = &repair->arena};
    return meta->scan(meta, &repair->scan_call, task);
}

static enum step_result fetch_take(struct task *task)
{
    struct repair *repair = CONTAINER_OF(task, struct repair, fetch);

    if (repair->page == PAGE_QUEUE) {
        queue_take(repair);
    } else {
        walk_take(repair);
    }
    return STEP_NEXT;
}

static const struct step fetch_steps[] = {
    {"call", fetch_call},
    {"take", fetch_take},
    {NULL,   NULL      }
};

static void fetch_ended(struct task *task)
{
    struct repair *repair = CONTAINER_OF(task, struct repair, fetch);
    enum page_kind page = repair->page;

    if (task->error.rc == RC_OK) {
        repair->fetching = false;
        page_work(repair);
        return;
    }
    /* The metadata cannot be read now: later. A walk goes on where it stopped. */
    note_failure(repair, task->error.rc);
    repair->fetching = false;
    repair->page = PAGE_NONE;
    if (page == PAGE_QUEUE) {
        repair->queue_more = false;
        repair->queue_ms = now_ms(repair) + repair->options.poll_ms;
        buffer_clear(&repair->queue_after);
    } else {
        repair->walk_ms = now_ms(repair) + repair->options.poll_ms;
    }
    repair->env->clock->timer_start(repair->env, &repair->timer,
                                    repair->options.poll_ms * NS_PER_MS);
}

static void page_fetch(struct repair *repair, enum page_kind page)
{
    repair->page = page;
    repair->fetching = true;
    repair->item_count = 0;
    repair->item_at = 0;
    task_start(&repair->fetch, fetch_steps, fetch_ended);
}

/* ---- Walks ---- */

static void walk_begin(struct repair *repair)
{
    LOG_INFO("repair_walk_begins", "extents_last=%llu",
             (unsigned long long)atomic_load(&repair->numbers.walk_total));
    repair->walking = true;
    repair->walk_again = false;
    repair->walk_missing = 0;
    repair->walk_rebuilt = 0;
    repair->walk_lost = 0;
    repair->walk_failures = 0;
    buffer_clear(&repair->cursor);
    atomic_store(&repair->numbers.walk_done, 0);
    atomic_store(&repair->numbers.walking, true);
}

/* Only a walk that found everything in its place ends the refill of a new disk. */
static void walk_end(struct repair *repair)
{
    uint64_t deficit = repair->walk_missing - repair->walk_rebuilt;
    bool whole = deficit == 0 && repair->walk_failures == 0;

    LOG_INFO("repair_walk_ends", "extents=%llu missing=%llu rebuilt=%llu lost=%llu failures=%llu",
             (unsigned long long)atomic_load(&repair->numbers.walk_done),
             (unsigned long long)repair->walk_missing, (unsigned long long)repair->walk_rebuilt,
             (unsigned long long)repair->walk_lost, (unsigned long long)repair->walk_failures);
    repair->walking = false;
    atomic_store(&repair->numbers.walking, false);
    atomic_store(&repair->numbers.deficit, deficit);
    atomic_store(&repair->numbers.walk_total, atomic_load(&repair->numbers.walk_done));
    atomic_fetch_add(&repair->numbers.walks, 1);
    repair->walk_ms = whole ? NEVER : now_ms(repair) + WALK_RETRY_MS;
    repair->walk_ms = repair->walk_again ? 0 : repair->walk_ms;
    if (whole && repair->options.datad != NULL) {
        datad_filled(repair->options.datad);
    }
}

/* ---- What next ---- */

static void take_bad(struct repair *repair)
{
    if (repair->options.datad != NULL && repair->hint_count < REPAIR_HINTS_MAX) {
        repair->hint_count +=
            datad_take_bad(repair->options.datad, repair->hints + repair->hint_count,
                           REPAIR_HINTS_MAX - repair->hint_count);
    }
}

static void repair_idle(struct repair *repair)
{
    repair->page = PAGE_NONE;
    repair->env->clock->timer_start(repair->env, &repair->timer,
                                    repair->options.poll_ms / 5 * NS_PER_MS);
}

static void repair_free(struct repair *repair)
{
    void (*done)(void *arg) = repair->done;
    void *arg = repair->arg;

    repair->env->clock->timer_stop(repair->env, &repair->timer);
    arena_deinit(&repair->arena);
    buffer_deinit(&repair->queue_after);
    buffer_deinit(&repair->cursor);
    mem_free(repair);
    done(arg);
}

/* No page is under way: the most urgent one begins. */
static void repair_next(struct repair *repair)
{
    uint64_t now = now_ms(repair);

    ASSERT(repair->busy == 0 && !repair->fetching);
    arena_reset(&repair->arena);
    if (repair->closing) {
        repair->page = PAGE_NONE;
        repair->env->clock->timer_start(repair->env, &repair->timer, 0);
        return;
    }
    if (repair->page == PAGE_WALK && repair->cursor.len == 0) {
        walk_end(repair);
    }
    take_bad(repair);
    bool ready = repair->options.meta->ready(repair->options.meta);

    if (ready && repair->hint_count > 0) {
        repair->page = PAGE_HINTS;
        page_hints(repair);
    } else if (ready && (repair->queue_more || now >= repair->queue_ms)) {
        page_fetch(repair, PAGE_QUEUE);
    } else if (ready && (repair->walking || now >= repair->walk_ms)) {
        if (!repair->walking) {
            walk_begin(repair);
        }
        page_fetch(repair, PAGE_WALK);
    } else {
        repair_idle(repair);
    }
}

static void repair_fire(struct env_timer *timer)
{
    struct repair *repair = CONTAINER_OF(timer, struct repair, timer);

    if (repair->closing) {
        repair_free(repair);
    } else {
        repair_next(repair);
    }
}

/* ---- Life ---- */

struct repair *repair_open(const struct repair_options *options)
{
    struct repair *repair = mem_alloc(sizeof(*repair));

    repair->options = *options;
    repair->env = options->env;
    if (repair->options.poll_ms == 0) {
        repair->options.poll_ms = POLL_MS;
    }
    repair->pace.bytes_per_s = options->bytes_per_s != 0 ? options->bytes_per_s : BYTES_PER_S;
    arena_init(&repair->arena);
    buffer_init(&repair->queue_after);
    buffer_init(&repair->cursor);
    for (uint32_t i = 0; i < REPAIR_PARALLEL; i++) {
        repair->workers[i].repair = repair;
    }
    repair->walk_ms = options->datad != NULL && datad_needs_refill(options->datad) ? 0 : NEVER;
    repair->timer.fire = repair_fire;
    repair->env->clock->timer_start(repair->env, &repair->timer, 0);
    return repair;
}

void repair_close(struct repair *repair, void (*done)(void *arg), void *arg)
{
    ASSERT(!repair->closing);
    repair->closing = true;
    repair->done = done;
    repair->arg = arg;
    if (repair->busy == 0 && !repair->fetching) {
        repair->env->clock->timer_start(repair->env, &repair->timer, 0);
    }
}

void repair_walk(struct repair *repair)
{
    if (repair->walking) {
        repair->walk_again = true;
    } else {
        repair->walk_ms = 0;
    }
}

void repair_hint(struct repair *repair, uint64_t disk, const struct shard_id *shard)
{
    if (repair->hint_count < REPAIR_HINTS_MAX) {
        repair->hints[repair->hint_count] = (struct datad_bad){.disk = disk, .shard = *shard};
        repair->hint_count += 1;
    }
}

void repair_status(const struct repair *repair, struct repair_status *out)
{
    const struct repair_numbers *numbers = &repair->numbers;
    const char *error = atomic_load(&numbers->error);

    *out = (struct repair_status){.walking = atomic_load(&numbers->walking),
                                  .walk_done = atomic_load(&numbers->walk_done),
                                  .walk_total = atomic_load(&numbers->walk_total),
                                  .deficit = atomic_load(&numbers->deficit),
                                  .lost_extents = atomic_load(&numbers->lost_extents),
                                  .walks = atomic_load(&numbers->walks),
                                  .rebuilt_shards = atomic_load(&numbers->rebuilt_shards),
                                  .rebuilt_bytes = atomic_load(&numbers->rebuilt_bytes),
                                  .failures = atomic_load(&numbers->failures)};
    if (error != NULL) {
        (void)snprintf(out->error, sizeof(out->error), "%s", error);
    }
}
