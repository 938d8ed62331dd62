/*
 * Two things go on side by side, write_pump() starts whatever can start:
 *
 *     fill:  payload_read() into the free stripe buffer
 *     send:  first stripe known to be the whole body -> inline, or one put per shard
 *            otherwise begin -> (encode, append) per stripe -> seal per extent
 *
 * Encoding runs on the loop: 256 KiB at 2+2 are 20 us, a twentieth of the MD5 that every body
 * needs. After a failure nothing new starts; what is under way ends, open shards are aborted, then
 * the parent is told. Sealed shards of a failed write are deleted by write_path_discard().
 */
#include "gateway/object/write_path.h"

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "gateway/object/shard_discard.h"
#include "gateway/object/write_state.h"

enum { WRITE_FIRST_BYTES = 4096 };

static void write_pump(struct write_state *state);

/* ---- The end ---- */

static void write_release(struct write_state *state)
{
    for (uint32_t i = 0; i < WRITE_BUFFERS_MAX; i++) {
        mem_free(state->buffers[i].data);
        state->buffers[i].data = NULL;
    }
    mem_free(state->parity);
    state->parity = NULL;
    memory_hold_end(&state->hold);
    if (state->admitted_bytes > 0) {
        stream_memory_give(state->path->gateway, state->admitted_bytes);
        state->admitted_bytes = 0;
    }
}

/* The last thing that happens: the request may be gone when it returns. */
static void write_finish(struct write_state *state)
{
    struct write_path *path = state->path;

    ASSERT(!state->reading && !state->calling);
    write_release(state);
    state->finished = true;
    if (path->size == 0) {
        path->is_inline = true; /* an empty body has no pieces, however it came */
    }
    if (state->failed == RC_OK && !path->is_inline) {
        path->pieces = state->pieces;
        path->piece_count = state->piece_count;
    }
    if (state->starting) {
        return;
    }
    if (state->failed != RC_OK) {
        (void)error_set(&path->parent->error, state->failed, "write: %s", state->failed_text);
    }
    task_resume(path->parent, state->failed);
}

/* ---- Sending ---- */

static void write_sent(struct write_state *state)
{
    struct write_buffer *buffer = &state->buffers[state->send];

    buffer->filled = false;
    buffer->len = 0;
    state->send = (state->send + 1) % state->plan.buffers;
}

static void write_extent_done(struct extent_writer *extent)
{
    struct write_state *state = CONTAINER_OF(extent, struct write_state, extent);

    state->calling = false;
    memory_hold_client(&state->hold, state->reading);
    if (extent->rc != RC_OK) {
        write_fail(state, extent->rc, "too few disks took their shards");
    }
    switch (extent->step) {
    case EXTENT_APPEND:
        write_sent(state);
        break;
    case EXTENT_SEAL:
        state->open = false;
        if (extent->durable != 0) {
            write_add_piece(state);
        }
        state->extent_len = 0;
        break;
    case EXTENT_NEW:
    case EXTENT_BEGIN:
    case EXTENT_ABORT:
        break;
    }
    write_pump(state);
}

/* The whole body lies in the first buffer: no need to begin and seal apart. */
static bool write_send_whole(struct write_state *state)
{
    struct write_path *path = state->path;
    struct write_buffer *buffer = &state->buffers[state->send];
    bool replica = buffer->len <= state->plan.replica_max;
    struct slice units[LIMIT_SHARDS];

    if (path->allow_inline && buffer->len <= state->plan.inline_max) {
        path->is_inline = true;
        path->body = arena_copy(path->arena,
                                slice_after(slice_of(buffer->data, buffer->len), path->prefix.len));
        write_sent(state);
        return true;
    }
    if (!write_extent_prepare(state, replica ? EXTENT_KIND_REPLICA : EXTENT_KIND_STRIPED)) {
        return true;
    }
    if (replica) {
        for (uint32_t i = 0; i < LIMIT_SHARDS; i++) {
            units[i] = slice_of(buffer->data, buffer->len);
        }
    } else {
        write_encode(state, units);
    }
    state->extent_len = buffer->len;
    state->sent_bytes = buffer->len;
    state->calling = true;
    extent_writer_put(&state->extent, units);
    write_sent(state); /* the bytes stay until the call is done: nothing more is read */
    return true;
}

static void write_send_stripe(struct write_state *state)
{
    struct write_buffer *buffer = &state->buffers[state->send];
    struct slice units[LIMIT_SHARDS];

    write_encode(state, units);
    state->extent_len += buffer->len;
    state->sent_bytes += buffer->len;
    state->calling = true;
    extent_writer_append(&state->extent, units);
}

/* True when it changed something. */
static bool write_send(struct write_state *state)
{
    const struct write_buffer *buffer = &state->buffers[state->send];
    bool all_sent = state->ended && !buffer->filled;

    if (state->calling || state->failed != RC_OK) {
        return false;
    }
    if (state->open && (all_sent || state->extent_len == state->plan.extent_bytes)) {
        state->calling = true;
        extent_writer_seal(&state->extent);
        return true;
    }
    if (!buffer->filled) {
        return false;
    }
    if (state->ended && !state->open && state->sent_bytes == 0 &&
        buffer->len == state->path->size) {
        return write_send_whole(state);
    }
    if (state->open) {
        write_send_stripe(state);
    } else if (write_extent_prepare(state, EXTENT_KIND_STRIPED)) {
        state->open = true;
        state->calling = true;
        extent_writer_begin(&state->extent);
    }
    return true;
}

/* ---- Filling ---- */

static void write_took(struct write_state *state)
{
    struct write_path *path = state->path;
    struct write_buffer *buffer = &state->buffers[state->fill];

    state->reading = false;
    memory_hold_client(&state->hold, false);
    path->size += state->read.len;
    buffer->len = state->front_bytes + state->read.len;
    state->front_bytes = 0;
    if (buffer->len > 0) {
        buffer->filled = true;
        state->fill = (state->fill + 1) % state->plan.buffers;
    }
    if (!state->read.end) {
        return;
    }
    if (path->payload->error == S3_OK) {
        state->ended = true;
    } else {
        path->error = path->payload->error;
        path->error_text = path->payload->error_text;
        write_fail(state, RC_INVALID, s3_error_code(path->error));
    }
}

static void write_read_done(struct payload_read *read)
{
    struct write_state *state = CONTAINER_OF(read, struct write_state, read);

    write_took(state);
    write_pump(state);
}

/* Somebody waits for memory: the free buffer goes, the other one (being sent, or free as well)
 * stays. */
static void write_shrink(struct write_state *state)
{
    struct write_buffer *spare = &state->buffers[state->fill];

    mem_free(spare->data);
    state->buffers[0] = state->buffers[1 - state->fill];
    state->buffers[1] = (struct write_buffer){0};
    state->fill = 0;
    state->send = 0;
    state->plan.buffers = 1;
    state->admitted_bytes -= state->plan.stripe_bytes;
    stream_memory_give(state->path->gateway, state->plan.stripe_bytes);
}

/* What there is already: the prefix, and what was read before there was a buffer. */
static void write_put_front(struct write_state *state, struct write_buffer *buffer)
{
    struct slice prefix = state->path->prefix;

    ASSERT(prefix.len + state->first_len <= state->plan.stripe_bytes);
    if (prefix.len > 0) {
        memcpy(buffer->data, prefix.data, prefix.len);
    }
    if (state->first_len > 0) {
        memcpy(buffer->data + prefix.len, state->first, state->first_len);
    }
    state->front_bytes = prefix.len + state->first_len;
    state->front_due = false;
}

/* True when it changed something. */
static bool write_fill(struct write_state *state)
{
    struct write_buffer *buffer = &state->buffers[state->fill];

    if (state->reading || state->ended || buffer->filled || state->failed != RC_OK) {
        return false;
    }
    if (state->plan.buffers > 1 && stream_memory_wanted(state->path->gateway)) {
        write_shrink(state);
        return true;
    }
    if (state->front_due) {
        write_put_front(state, buffer);
        if (state->first_ended || state->front_bytes == state->plan.stripe_bytes) {
            state->read.len = 0;
            state->read.end = state->first_ended;
            write_took(state);
            return true;
        }
    }
    state->reading = true;
    memory_hold_client(&state->hold, !state->calling);
    if (!payload_read(state->path->payload, &state->read, buffer->data + state->front_bytes,
                      state->plan.stripe_bytes - state->front_bytes)) {
        return false;
    }
    write_took(state);
    return true;
}

static void write_pump(struct write_state *state)
{
    bool moved = true;

    while (moved) {
        moved = write_fill(state);
        moved = write_send(state) || moved;
    }
    if (state->reading || state->calling) {
        return;
    }
    if (state->failed != RC_OK && state->open) {
        state->open = false;
        if (extent_writer_abort(&state->extent)) {
            state->calling = true;
            return;
        }
    }
    write_finish(state);
}

/* ---- The beginning ---- */

static void write_begin(struct write_state *state)
{
    for (uint32_t i = 0; i < state->plan.buffers; i++) {
        state->buffers[i].data = mem_alloc_pages(state->plan.stripe_bytes);
    }
    if (state->plan.parity_bytes > 0) {
        state->parity = mem_alloc_pages(state->plan.parity_bytes);
        state->parity_size = state->plan.parity_bytes;
    }
    state->hold.http = state->path->payload->http;
    state->hold.moved = &state->path->payload->received;
    state->hold.bytes = state->admitted_bytes;
    memory_hold_begin(&state->hold, state->path->gateway);
    write_pump(state);
}

static void write_admitted(struct memory_wait *wait)
{
    struct write_state *state = CONTAINER_OF(wait, struct write_state, wait);

    if (wait->rc != RC_OK) {
        state->admitted_bytes = 0;
        write_fail(state, wait->rc, "no memory for another body");
        write_finish(state);
        return;
    }
    write_begin(state);
}

/* Two stripe buffers when there is room, one when memory is scarce, a place in line when there is
 * none. */
static void write_admit(struct write_state *state)
{
    struct gateway *gateway = state->path->gateway;
    enum rc rc = RC_OK;

    state->admitted_bytes = write_plan_memory(&state->plan);
    if (state->plan.buffers == 1 || !stream_memory_spare(gateway, state->admitted_bytes)) {
        state->plan.buffers = 1;
        state->admitted_bytes = write_plan_memory(&state->plan);
        rc = stream_memory_take(gateway, &state->wait, state->admitted_bytes);
    }
    if (rc == RC_OK) {
        write_begin(state);
    } else if (rc != RC_AGAIN) {
        state->admitted_bytes = 0;
        write_fail(state, rc, "no memory for another body");
        write_finish(state);
    }
}

/* ---- The first bytes ---- */

/* Buffers are for clients that send: one that only said it would does not hold any. */
static void write_first_took(struct write_state *state)
{
    struct write_path *path = state->path;

    state->reading = false;
    state->first_len = state->read.len;
    state->first_ended = state->read.end;
    path->size += state->read.len;
    if (state->read.end && path->payload->error != S3_OK) {
        path->error = path->payload->error;
        path->error_text = path->payload->error_text;
        write_fail(state, RC_INVALID, s3_error_code(path->error));
        write_finish(state);
    } else if (path->size == 0) {
        write_finish(state); /* an empty body, however it came */
    } else {
        state->read.done = write_read_done;
        write_admit(state);
    }
}

static void write_first_done(struct payload_read *read)
{
    write_first_took(CONTAINER_OF(read, struct write_state, read));
}

static void write_first(struct write_state *state)
{
    struct write_path *path = state->path;
    size_t room = state->plan.stripe_bytes - path->prefix.len;

    state->front_due = true;
    if (path->payload->http == NULL) { /* the bytes are at hand */
        write_admit(state);
        return;
    }
    room = room < WRITE_FIRST_BYTES ? room : WRITE_FIRST_BYTES;
    state->first = arena_alloc_raw(path->arena, room);
    state->read.done = write_first_done;
    state->reading = true;
    if (payload_read(path->payload, &state->read, state->first, room)) {
        write_first_took(state);
    }
}

/* A body that is known to be small: straight into the arena. Nothing is admitted: it is as small as
 * its head. */
static void write_inline(struct write_state *state, uint64_t length)
{
    struct write_path *path = state->path;
    char *body = arena_alloc_raw(path->arena, length > 0 ? (size_t)length : 1);

    path->is_inline = true;
    path->body = slice_of(body, (size_t)length);
    state->plan =
        (struct write_plan){.buffers = 1, .stripe_bytes = length > 0 ? (size_t)length : 1};
    state->reading = true;
    if (payload_read(path->payload, &state->read, body, state->plan.stripe_bytes)) {
        write_took(state);
        write_finish(state);
    }
}

static void write_inline_done(struct payload_read *read)
{
    struct write_state *state = CONTAINER_OF(read, struct write_state, read);

    write_took(state);
    write_finish(state);
}

static void write_choose(struct write_state *state)
{
    struct write_path *path = state->path;
    struct gateway *gateway = path->gateway;
    const struct payload *payload = path->payload;
    const Kist__PlacementGroup *group;

    if (payload->has_length &&
        (payload->length == 0 || (path->allow_inline && payload->length + path->prefix.len <=
                                                            gateway->config->inline_bytes_max))) {
        state->read.done = write_inline_done;
        write_inline(state, payload->length);
        return;
    }
    group = extent_choose_group(path->view, gateway->data, gateway->env->random(gateway->env));
    if (group == NULL) {
        write_fail(state, extent_no_group(path->view, gateway->data),
                   "no placement group has all its disks");
        write_finish(state);
        return;
    }
    write_plan_make(&state->plan, gateway->config, group, payload->has_length,
                    payload->length + path->prefix.len);
    write_first(state);
}

enum step_result write_path_start(struct write_path *path, struct task *parent)
{
    struct write_state *state = arena_alloc(path->arena, sizeof(*state));

    ASSERT(path->payload != NULL && path->view != NULL);
    ASSERT(path->prefix.len <= LIMIT_INLINE_BYTES);
    path->parent = parent;
    path->state = state;
    path->size = path->prefix.len;
    path->is_inline = false;
    path->error = S3_OK;
    state->path = path;
    state->read.done = write_read_done;
    state->extent_done = write_extent_done;
    state->wait.done = write_admitted;
    state->starting = true;
    write_choose(state);
    state->starting = false;
    if (!state->finished) {
        return STEP_WAIT;
    }
    if (state->failed != RC_OK) {
        return task_fail(parent, state->failed, "write: %s", state->failed_text);
    }
    return STEP_NEXT;
}

void write_path_discard(struct write_path *path)
{
    struct write_state *state = path->state;

    if (state == NULL) {
        return;
    }
    shard_discard(path->gateway->data, path->view, state->pieces, state->piece_count);
    state->piece_count = 0;
}
