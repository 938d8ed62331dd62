/* See wire.h. Plain bytes go straight to env; TLS bytes through `out` and `flight`. */
#include "gateway/http/wire.h"

#include <assert.h>

#include "common/base/assert.h"
#include "common/base/limits.h"

enum {
    /* Larger buffers are given back when empty: an idle connection holds next to nothing. */
    KEPT_BYTES = 4096,
    RECORD_BYTES = 16384, /* the most that TLS puts into one */
    /* Headers, tags and padding of the records of one piece. */
    SEAL_OVERHEAD_BYTES = 1024
};

static_assert(WIRE_SCRATCH_BYTES == LIMIT_HTTP_READ_BYTES + RECORD_BYTES, "opened | to be sealed");

static void wire_empty(struct buffer *buffer)
{
    if (buffer->capacity > KEPT_BYTES) {
        buffer_deinit(buffer);
    } else {
        buffer_clear(buffer);
    }
}

bool wire_ready(const struct wire *wire)
{
    return wire->tls == NULL || tls_session_ready(wire->tls);
}

bool wire_busy(const struct wire *wire)
{
    return wire->flying || wire->writing || wire->out.len > 0;
}

bool wire_takes_more(const struct wire *wire)
{
    return wire->tls != NULL && !wire_busy(wire) && !wire->closing && wire->failed == RC_OK;
}

/* ---- Out ---- */

/* At most a piece. */
static size_t slices_bytes(const struct slice *from, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        bytes += from[i].len < WIRE_PIECE_BYTES ? from[i].len : WIRE_PIECE_BYTES;
    }
    return bytes < WIRE_PIECE_BYTES ? bytes : WIRE_PIECE_BYTES;
}

/* `out` leaves by an asynchronous write. */
static void wire_launch(struct wire *wire)
{
    struct buffer empty = wire->flight;
    struct slice bytes;

    ASSERT(!wire->flying && wire->flight.len == 0);
    wire->flight = wire->out;
    wire->out = empty;
    wire->flying = true;
    bytes = buffer_slice(&wire->flight);
    wire->env->net->write(wire->env, &wire->flight_write, &wire->stream, &bytes, 1);
}

/* `out` leaves at once as far as the kernel takes it, the rest by a write. */
static void wire_flush(struct wire *wire)
{
    struct slice bytes = buffer_slice(&wire->out);
    size_t taken;

    if (bytes.len == 0 || wire->flying || wire->writing || wire->closing) {
        return;
    }
    taken = wire->env->net->try_write(wire->env, &wire->stream, &bytes, 1);
    if (taken == bytes.len) {
        wire_empty(&wire->out);
        return;
    }
    buffer_consume(&wire->out, taken);
    wire_launch(wire);
}

/* What must wait until nothing is under way. */
static void wire_settle(struct wire *wire)
{
    if (wire->out.len > 0 && !wire->flying && !wire->closing && wire->failed == RC_OK) {
        wire_launch(wire);
    }
    if (wire->flying || wire->writing) {
        return;
    }
    if (wire->shut && !wire->closing) {
        wire->env->net->shutdown(wire->env, &wire->stream);
    }
    if (wire->wanted) {
        wire->wanted = false;
        wire->on_written(wire, wire->failed);
    }
}

static void on_flight_done(struct env_write *write)
{
    struct wire *wire = CONTAINER_OF(write, struct wire, flight_write);

    wire->flying = false;
    wire_empty(&wire->flight);
    if (write->rc != RC_OK) {
        wire->failed = write->rc;
    }
    wire_settle(wire);
}

static void on_write_done(struct env_write *write)
{
    struct wire *wire = CONTAINER_OF(write, struct wire, write);

    wire->writing = false;
    if (write->rc != RC_OK) {
        wire->failed = write->rc;
    }
    wire_settle(wire);
}

/* Records for all of `from`. A session that cannot seal any more (never seen) ends the stream with
 * a byte that is no record: the client sees that it was cut. */
static void wire_seal(struct wire *wire, struct slice from)
{
    if (wire->failed == RC_OK && tls_session_seal(wire->tls, from, &wire->out) != RC_OK) {
        wire->failed = RC_IO;
        wire->shut = true;
        buffer_append_byte(&wire->out, '\0');
    }
}

/* Small slices share a record: head and body of a small reply leave as one. The scratch behind the
 * part that may hold bytes being read right now is ours. */
static size_t wire_try_seal(struct wire *wire, const struct slice *from, size_t count)
{
    char *record = wire->scratch + LIMIT_HTTP_READ_BYTES;
    size_t taken = 0;
    size_t gathered = 0;

    (void)buffer_reserve(&wire->out, slices_bytes(from, count) + SEAL_OVERHEAD_BYTES);
    for (size_t i = 0; i < count; i++) {
        struct slice rest = from[i];

        while (rest.len > 0 && taken < WIRE_PIECE_BYTES) {
            size_t room = RECORD_BYTES - gathered;
            size_t take = rest.len < room ? rest.len : room;

            memcpy(record + gathered, rest.data, take);
            gathered += take;
            taken += take;
            rest = slice_after(rest, take);
            if (gathered == RECORD_BYTES) {
                wire_seal(wire, slice_of(record, gathered));
                gathered = 0;
            }
        }
    }
    if (gathered > 0) {
        wire_seal(wire, slice_of(record, gathered));
    }
    return taken;
}

size_t wire_try_write(struct wire *wire, const struct slice *from, size_t count)
{
    size_t taken;

    ASSERT(count <= ENV_WRITE_SLICES_MAX);
    if (wire_busy(wire) || wire->closing) {
        return 0;
    }
    if (wire->tls == NULL) {
        return wire->env->net->try_write(wire->env, &wire->stream, from, count);
    }
    taken = wire_try_seal(wire, from, count);
    wire_flush(wire);
    return taken;
}

void wire_write(struct wire *wire, const struct slice *from, size_t count)
{
    ASSERT(!wire->wanted && !wire->closing);
    ASSERT(count > 0 || wire_busy(wire));
    wire->wanted = true;
    if (count == 0) {
        return;
    }
    if (wire->tls == NULL && wire->out.len == 0) {
        wire->writing = true;
        wire->env->net->write(wire->env, &wire->write, &wire->stream, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (wire->tls != NULL) {
            wire_seal(wire, from[i]);
        } else {
            buffer_append(&wire->out, from[i]);
        }
    }
    if (!wire->flying) {
        wire_launch(wire);
    }
}

void wire_put(struct wire *wire, struct slice bytes)
{
    ASSERT(!wire->wanted && !wire->closing);
    if (wire->tls != NULL) {
        wire_seal(wire, bytes);
    } else {
        buffer_append(&wire->out, bytes);
    }
    wire_flush(wire);
}

void wire_shutdown(struct wire *wire)
{
    if (wire->shut || wire->closing) {
        return;
    }
    wire->shut = true;
    if (wire->tls != NULL && wire->failed == RC_OK) {
        tls_session_end(wire->tls, &wire->out);
        wire_flush(wire);
    }
    if (!wire_busy(wire)) {
        wire->env->net->shutdown(wire->env, &wire->stream);
    }
}

/* ---- In ---- */

static void wire_open_records(struct wire *wire, struct slice in)
{
    enum rc rc = RC_OK;
    size_t got = 1;

    while (rc == RC_OK && !wire->closing && (in.len > 0 || got > 0)) {
        rc = tls_session_open(wire->tls, &in, wire->scratch, LIMIT_HTTP_READ_BYTES, &got,
                              &wire->out);
        wire_flush(wire);
        if (got > 0 && rc != RC_INVALID) {
            wire->on_read(wire, slice_of(wire->scratch, got), RC_OK);
        }
    }
    if (rc != RC_OK && !wire->closing) {
        wire_read(wire, false);
        wire->on_read(wire, SLICE_EMPTY, rc == RC_CLOSED ? RC_CLOSED : RC_IO);
    }
}

static void on_stream_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct wire *wire = CONTAINER_OF(stream, struct wire, stream);

    if (rc != RC_OK) {
        wire->reading = false;
        wire->on_read(wire, SLICE_EMPTY, rc);
    } else if (wire->tls == NULL) {
        wire->on_read(wire, bytes, RC_OK);
    } else {
        wire_open_records(wire, bytes);
    }
}

void wire_read(struct wire *wire, bool on)
{
    if (on == wire->reading || wire->closing) {
        return;
    }
    wire->reading = on;
    if (on) {
        wire->env->net->read_start(wire->env, &wire->stream);
    } else {
        wire->env->net->read_stop(wire->env, &wire->stream);
    }
}

/* ---- Life ---- */

static void on_stream_close(struct env_stream *stream)
{
    struct wire *wire = CONTAINER_OF(stream, struct wire, stream);

    ASSERT(!wire->flying && !wire->writing);
    if (wire->tls != NULL) {
        tls_session_free(wire->tls);
        wire->tls = NULL;
    }
    buffer_deinit(&wire->out);
    buffer_deinit(&wire->flight);
    wire->on_close(wire);
}

enum rc wire_accept(struct wire *wire, struct env *env, struct env_listener *listener,
                    struct tls_context *tls, char *scratch)
{
    enum rc rc;

    ASSERT(wire->on_read != NULL && wire->on_written != NULL && wire->on_close != NULL);
    wire->env = env;
    wire->scratch = scratch;
    wire->stream.on_read = on_stream_read;
    wire->stream.on_close = on_stream_close;
    wire->write.done = on_write_done;
    wire->flight_write.done = on_flight_done;
    buffer_init(&wire->out);
    buffer_init(&wire->flight);
    rc = env->net->accept(env, listener, &wire->stream);
    if (rc == RC_OK && tls != NULL) {
        wire->tls = tls_session_new(tls);
    }
    return rc;
}

void wire_close(struct wire *wire)
{
    ASSERT(!wire->closing);
    wire->closing = true;
    wire->reading = false;
    wire->env->net->close(wire->env, &wire->stream);
}
