/*
 * At most two windows (read_window.h): the one whose bytes go to the client, and the next, read
 * meanwhile if there is memory for it. read_pump() starts whatever can start; a client that does
 * not read stops it with two stripes in memory, or one.
 *
 *     cursor ──> next window: read ──> ready ──> front: http_reply_write() ──> gone
 */
#include "gateway/object/read_path.h"

#include "common/base/assert.h"
#include "gateway/object/memory.h"
#include "gateway/object/memory_hold.h"
#include "gateway/object/read_cursor.h"
#include "gateway/object/read_window.h"

struct read_state {
    struct read_path *path;
    struct read_cursor cursor;
    uint64_t end; /* of the range, within the object */
    struct memory_wait wait;
    struct memory_hold hold;
    uint64_t admitted_bytes;
    uint64_t windows_bytes;    /* of the windows that exist: at most admitted */
    struct read_window *front; /* next to be sent, or being sent */
    struct read_window *next;
    struct http_write write;
    bool loading; /* the cursor asks metad */
    bool writing;
    bool reloaded; /* the record's pieces were found stale once */
    enum rc failed;
    const char *failed_text;
    bool starting;
    bool pumping;
    bool again; /* something happened while pumping */
    bool finished;
};

static void read_pump(struct read_state *state);

static void read_fail(struct read_state *state, enum rc rc, const char *text)
{
    if (state->failed == RC_OK) {
        state->failed = rc;
        state->failed_text = text;
    }
}

/* ---- Windows ---- */

static void read_drop(struct read_state *state, struct read_window **place)
{
    struct read_window *window = *place;

    if (window != NULL) {
        state->windows_bytes -= window->memory_bytes;
        *place = NULL;
        read_window_free(window);
    }
}

static void read_window_done(struct read_window *window);

/* Room for `bytes` more. `must`: the request cannot go on without, and it is within its first
 * admission or little more. */
static bool read_room(struct read_state *state, uint64_t bytes, bool must)
{
    uint64_t needed = state->windows_bytes + bytes;
    struct gateway *gateway = state->path->gateway;

    if (needed <= state->admitted_bytes) {
        return true;
    }
    if (must) {
        stream_memory_force(gateway, needed - state->admitted_bytes);
    } else if (!stream_memory_spare(gateway, needed - state->admitted_bytes)) {
        return false;
    }
    state->admitted_bytes = needed;
    return true;
}

static void read_loaded(struct read_cursor *cursor, enum rc rc)
{
    struct read_state *state = CONTAINER_OF(cursor, struct read_state, cursor);

    state->loading = false;
    if (rc != RC_OK) {
        read_fail(state, rc, "pieces of the layout");
    }
    read_pump(state);
}

/* The window for the next bytes; NULL when there is none to be had now. */
static struct read_window *read_make(struct read_state *state)
{
    struct read_extent extent;
    uint64_t at = 0;
    uint64_t length = 0;
    struct read_window *window;

    if (state->loading || state->cursor.at == state->end) {
        return NULL;
    }
    switch (read_cursor_find(&state->cursor, &extent, &at, &length)) {
    case CURSOR_LOAD:
        state->loading = true;
        read_cursor_load(&state->cursor, read_loaded);
        return NULL;
    case CURSOR_BROKEN:
        read_fail(state, RC_CORRUPT, "the record names no readable extent");
        return NULL;
    case CURSOR_FOUND:
        break;
    }
    if (length > state->end - state->cursor.at) {
        length = state->end - state->cursor.at;
    }
    window = read_window_new(state->path->gateway, &extent, at, length);
    window->object_at = state->cursor.at;
    window->done = read_window_done;
    return window;
}

static void read_start_window(struct read_state *state, struct read_window *window,
                              struct read_window **place)
{
    *place = window;
    window->owner = state;
    state->windows_bytes += window->memory_bytes;
    state->cursor.at += window->length;
    read_window_start(window);
}

static void read_window_done(struct read_window *window)
{
    read_pump(window->owner);
}

/* Extents that a copy's record names may have been rewritten at their home: it is asked once. */
static void read_window_failed(struct read_state *state)
{
    struct read_window *window = state->front;
    enum rc rc = window->rc;
    bool retry = window->not_found && !state->reloaded && !state->loading;
    uint64_t at = window->object_at;

    if (!retry) {
        read_fail(state, rc, "too few shards of a stripe can be read");
        return;
    }
    state->reloaded = true;
    read_drop(state, &state->front);
    read_drop(state, &state->next);
    state->cursor.at = at;
    state->loading = true;
    read_cursor_load(&state->cursor, read_loaded);
}

/* ---- Sending ---- */

static void read_sent(struct read_state *state)
{
    state->writing = false;
    memory_hold_client(&state->hold, false);
    if (state->write.rc != RC_OK) {
        read_fail(state, state->write.rc, "the client is gone");
    }
    read_drop(state, &state->front);
}

static void read_written(struct http_write *write)
{
    struct read_state *state = CONTAINER_OF(write, struct read_state, write);

    read_sent(state);
    read_pump(state);
}

static void read_send(struct read_state *state)
{
    struct read_path *path = state->path;

    if (path->sink != NULL) {
        state->write.rc = RC_OK;
        for (size_t i = 0; i < state->front->slice_count && state->write.rc == RC_OK; i++) {
            state->write.rc = path->sink(path, state->front->slices[i]);
        }
        read_sent(state);
        return;
    }
    if (!path->begun) {
        path->begun = true;
        path->begin(path);
    }
    state->writing = true;
    memory_hold_client(&state->hold, true);
    if (http_reply_write(path->http, &state->write, state->front->slices,
                         state->front->slice_count)) {
        read_sent(state);
    }
}

/* ---- The loop ---- */

/* Each returns true when it changed something. */

static bool read_pump_front(struct read_state *state)
{
    struct read_window *window;

    if (state->front == NULL && state->next != NULL) {
        state->front = state->next;
        state->next = NULL;
        return true;
    }
    if (state->front != NULL) {
        if (state->front->rc != RC_OK) {
            read_window_failed(state);
            return true;
        }
        if (state->front->ready && !state->writing) {
            read_send(state);
            return true;
        }
        return false;
    }
    window = read_make(state);
    if (window == NULL) {
        return state->failed != RC_OK;
    }
    (void)read_room(state, window->memory_bytes, true);
    read_start_window(state, window, &state->front);
    return true;
}

/* Somebody waits for memory: what the windows that exist do not need is given back. */
static void read_give_back(struct read_state *state)
{
    uint64_t spare = state->admitted_bytes - state->windows_bytes;

    state->admitted_bytes -= spare;
    stream_memory_give(state->path->gateway, spare);
}

/* Reads ahead while the client takes the front. */
static bool read_pump_next(struct read_state *state)
{
    struct read_window *window;

    if (state->next != NULL || state->front == NULL || !state->front->ready) {
        return false;
    }
    if (stream_memory_wanted(state->path->gateway)) {
        read_give_back(state);
        return false;
    }
    window = read_make(state);
    if (window == NULL) {
        return false;
    }
    if (!read_room(state, window->memory_bytes, false)) {
        read_window_free(window);
        return false;
    }
    read_start_window(state, window, &state->next);
    return true;
}

static void read_finish(struct read_state *state)
{
    struct read_path *path = state->path;

    read_drop(state, &state->front);
    read_drop(state, &state->next);
    read_cursor_deinit(&state->cursor);
    memory_hold_end(&state->hold);
    if (state->admitted_bytes > 0) {
        stream_memory_give(path->gateway, state->admitted_bytes);
        state->admitted_bytes = 0;
    }
    state->finished = true;
    if (state->starting) {
        return;
    }
    if (state->failed != RC_OK) {
        (void)error_set(&path->parent->error, state->failed, "read: %s", state->failed_text);
    }
    task_resume(path->parent, state->failed);
}

static void read_pump(struct read_state *state)
{
    bool moved = true;

    if (state->pumping) {
        state->again = true; /* a load that was answered at once */
        return;
    }
    state->pumping = true;
    while (moved && state->failed == RC_OK) {
        state->again = false;
        moved = read_pump_front(state);
        if (state->failed == RC_OK) {
            moved = read_pump_next(state) || moved;
        }
        moved = moved || state->again;
    }
    state->pumping = false;
    if (state->writing || state->loading) {
        return; /* these borrow from us */
    }
    if (state->failed != RC_OK ||
        (state->cursor.at == state->end && state->front == NULL && state->next == NULL)) {
        read_finish(state);
    }
}

/* ---- The beginning ---- */

static void read_hold(struct read_state *state, uint64_t bytes)
{
    struct http_exchange *http = state->path->sink == NULL ? state->path->http : NULL;

    state->admitted_bytes = bytes;
    state->hold.http = http;
    state->hold.moved = http != NULL ? &http->sent_bytes : NULL;
    state->hold.bytes = bytes;
    memory_hold_begin(&state->hold, state->path->gateway);
}

static void read_admitted(struct memory_wait *wait)
{
    struct read_state *state = CONTAINER_OF(wait, struct read_state, wait);

    if (wait->rc == RC_OK) {
        read_hold(state, wait->bytes);
    } else {
        read_fail(state, wait->rc, "no memory for another reply");
    }
    read_pump(state);
}

/* An estimate of one window: all that later windows need beyond it is forced or not read ahead. */
static uint64_t read_first_bytes(const struct read_path *path)
{
    uint64_t bytes = path->length + 2 * (uint64_t)LIMIT_BLOCK_BYTES;
    uint64_t stripe = 0;

    for (size_t i = 0; i < path->record->n_pieces; i++) {
        const Kist__Extent *extent = path->record->pieces[i]->extent;
        uint64_t unit = extent == NULL ? 0 : extent->stripe_unit;

        unit = unit == 0 ? LIMIT_REPLICA_BYTES : unit;
        if (extent != NULL && extent->data_shards * unit > stripe) {
            stripe = extent->data_shards * unit;
        }
    }
    if (stripe == 0 || stripe > (uint64_t)LIMIT_DATA_SHARDS * LIMIT_STRIPE_UNIT_BYTES) {
        stripe = LIMIT_STRIPE_UNIT_BYTES;
    }
    return bytes < stripe ? bytes : stripe;
}

enum step_result read_path_start(struct read_path *path, struct task *parent)
{
    struct read_state *state = arena_alloc(path->arena, sizeof(*state));
    uint64_t bytes = read_first_bytes(path);
    enum rc rc;

    ASSERT(path->length > 0 && path->offset + path->length <= path->record->size);
    path->parent = parent;
    path->state = state;
    state->path = path;
    state->end = path->offset + path->length;
    state->write.done = read_written;
    state->wait.done = read_admitted;
    state->cursor = (struct read_cursor){.gateway = path->gateway,
                                         .view = path->view,
                                         .bucket_id = path->bucket_id,
                                         .key = path->key,
                                         .record = path->record,
                                         .at = path->offset};
    read_cursor_init(&state->cursor);
    state->starting = true;
    rc = stream_memory_take(path->gateway, &state->wait, bytes);
    if (rc == RC_OK) {
        read_hold(state, bytes);
        read_pump(state);
    } else if (rc != RC_AGAIN) {
        read_fail(state, rc, "no memory for another reply");
        read_finish(state);
    }
    state->starting = false;
    if (!state->finished) {
        return STEP_WAIT;
    }
    if (state->failed != RC_OK) {
        return task_fail(parent, state->failed, "read: %s", state->failed_text);
    }
    return STEP_NEXT;
}
