/*
 * Streams. Each direction has a window: what its reader allows the writer to send ahead. Frames of
 * a stream are of at most LIMIT_RPC_DATA_BYTES, and streams with something to send take turns.
 *
 * A direction ends with one END of its writer. An END that is not RC_OK gives the whole stream up;
 * the other side answers with its own END, so that both know when the id is free again.
 */
#include "common/rpc/rpc_private.h"

#include <string.h>

enum stream_flag {
    S_ATTACHED = 1,    /* in a slot of a connection */
    S_QUEUED = 2,      /* in its link, not opened yet */
    S_ACCEPT_DUE = 8,  /* to be sent: ACCEPT */
    S_CREDIT_DUE = 16, /* CREDIT */
    S_RUNNING = 32,    /* the other side's window is known */
    S_WRITING = 64,    /* a write is under way */
    S_END_DUE = 128,   /* END after it */
    S_END_SENT = 256,
    S_END_GOT = 512,
    S_EVENT = 1024,   /* in rpc->stream_events */
    S_TELL_END = 2048 /* there: on_end first */
};

struct rpc_incoming {
    struct rpc_conn *conn;
    struct rpc_slot *slot;
    uint64_t id;
    uint32_t window;
    enum rpc_method method;
    struct rpc_stream *accepted;
};

/* ---- States ---- */

static void stream_begin(struct rpc_stream *stream, struct rpc *rpc)
{
    stream->rpc = rpc;
    stream->peer = NULL;
    stream->conn = NULL;
    stream->rc = RC_OK;
    stream->flags = 0;
    stream->credit = 0;
    stream->unconsumed = 0;
    stream->credit_owed = 0;
    stream->write_count = 0;
    stream->open_head = SLICE_EMPTY;
    stream->end_head = SLICE_EMPTY;
    list_init(&stream->link);
    list_init(&stream->ready_link);
    if (stream->window_bytes == 0) {
        stream->window_bytes = rpc->options.stream_window_bytes;
    }
    if (stream->window_bytes > LIMIT_RPC_WINDOW_BYTES) {
        stream->window_bytes = LIMIT_RPC_WINDOW_BYTES;
    }
    rpc->stream_count += 1;
}

static struct slice head_copy(struct slice head)
{
    ASSERT(head.len <= LIMIT_RPC_HEAD_BYTES);
    return head.len > 0 ? slice_of(mem_copy(head.data, head.len), head.len) : SLICE_EMPTY;
}

static void head_free(struct slice *head)
{
    mem_free((void *)(uintptr_t)head->data);
    *head = SLICE_EMPTY;
}

static bool stream_has_work(const struct rpc_stream *stream)
{
    uint32_t flags = stream->flags;

    if ((flags & (S_ACCEPT_DUE | S_CREDIT_DUE)) != 0) {
        return true;
    }
    if ((flags & S_RUNNING) == 0) {
        return false;
    }
    return (flags & S_WRITING) != 0 ? stream->credit > 0 : (flags & S_END_DUE) != 0;
}

static void stream_ready(struct rpc_stream *stream)
{
    if ((stream->flags & S_ATTACHED) != 0 && stream_has_work(stream) &&
        list_empty(&stream->ready_link)) {
        list_push_back(&stream->conn->ready, &stream->ready_link);
        rpc_conn_dirty(stream->conn);
    }
}

static void stream_event(struct rpc_stream *stream, uint32_t flags)
{
    stream->flags |= flags;
    if ((stream->flags & S_EVENT) == 0) {
        stream->flags |= S_EVENT;
        list_push_back(&stream->rpc->stream_events, &stream->link);
        rpc_turn_soon(stream->rpc);
    }
}

/* It is no longer of its connection; on_close comes in the turn. */
static void stream_detach(struct rpc_stream *stream, enum rc rc, uint32_t event)
{
    stream->flags &= ~(uint32_t)(S_ATTACHED | S_QUEUED | S_RUNNING | S_WRITING);
    stream->rc = rc;
    list_remove(&stream->ready_link);
    list_remove(&stream->link);
    head_free(&stream->open_head);
    head_free(&stream->end_head);
    stream_event(stream, event);
}

/* Frees the slot, or leaves a zombie in it until the other side's END. */
static void stream_slot_leave(struct rpc_stream *stream, bool zombie)
{
    struct rpc_slot *slot = rpc_slot_find(stream->conn, stream->id);

    ASSERT(slot != NULL && slot->what == stream);
    if (zombie) {
        slot->kind = RPC_SLOT_ZOMBIE;
        slot->what = NULL;
    } else {
        rpc_slot_release(stream->conn, slot);
    }
}

static void stream_end_if_both(struct rpc_stream *stream)
{
    if ((stream->flags & (S_END_SENT | S_END_GOT)) == (S_END_SENT | S_END_GOT)) {
        stream_slot_leave(stream, false);
        stream_detach(stream, RC_OK, 0);
    }
}

void rpc_stream_event_run(struct rpc_stream *stream)
{
    struct rpc *rpc = stream->rpc;

    ASSERT((stream->flags & S_ATTACHED) == 0);
    if ((stream->flags & S_TELL_END) != 0) {
        stream->flags &= ~(uint32_t)S_TELL_END;
        stream->on_end(stream, stream->rc, SLICE_EMPTY);
    }
    stream->flags = 0;
    rpc->stream_count -= 1;
    if (stream->peer != NULL) {
        stream->peer->streams -= 1;
        rpc->reap = rpc->reap || stream->peer->closing;
    }
    stream->on_close(stream);
}

void rpc_stream_broken(struct rpc_stream *stream, enum rc rc)
{
    stream_detach(stream, rc, S_TELL_END);
}

/* ---- What owners call ---- */

void rpc_stream_open(struct rpc_peer *peer, struct rpc_stream *stream, struct slice head)
{
    struct rpc_link *link = &peer->links[stream->purpose];
    bool down =
        link->state == RPC_LINK_BACKOFF || (link->state == RPC_LINK_CONNECTING && link->failed);

    ASSERT(stream->on_read != NULL && stream->on_end != NULL && stream->on_close != NULL);
    stream_begin(stream, peer->rpc);
    stream->peer = peer;
    peer->streams += 1;
    if (peer->closing || down) {
        rpc_stream_broken(stream, RC_CLOSED);
        return;
    }
    stream->open_head = head_copy(head);
    stream->flags = S_QUEUED;
    list_push_back(&link->streams, &stream->link);
    if (link->state == RPC_LINK_UP) {
        rpc_conn_dirty(link->conn);
    } else {
        rpc_link_want(link);
    }
}

void rpc_stream_accept(struct rpc_incoming *incoming, struct rpc_stream *stream)
{
    struct rpc_conn *conn = incoming->conn;

    ASSERT(incoming->accepted == NULL);
    ASSERT(stream->on_read != NULL && stream->on_end != NULL && stream->on_close != NULL);
    stream_begin(stream, conn->rpc);
    stream->method = incoming->method;
    stream->purpose = conn->purpose;
    stream->conn = conn;
    stream->id = incoming->id;
    stream->credit = incoming->window;
    stream->flags = S_ATTACHED | S_ACCEPT_DUE | S_RUNNING;
    incoming->slot->kind = RPC_SLOT_STREAM;
    incoming->slot->what = stream;
    incoming->accepted = stream;
    stream_ready(stream);
}

void rpc_stream_write(struct rpc_stream *stream, const struct slice *bytes, size_t count)
{
    ASSERT(count > 0 && count <= RPC_SLICES_MAX);
    ASSERT((stream->flags & (S_WRITING | S_END_DUE | S_END_SENT)) == 0);
    if ((stream->flags & (S_ATTACHED | S_QUEUED)) == 0) {
        return; /* broken: on_close is on its way */
    }
    memcpy(stream->write, bytes, count * sizeof(*bytes));
    stream->write_count = (uint32_t)count;
    stream->flags |= S_WRITING;
    stream_ready(stream);
}

bool rpc_stream_writing(const struct rpc_stream *stream)
{
    return (stream->flags & S_WRITING) != 0;
}

void rpc_stream_consumed(struct rpc_stream *stream, size_t len)
{
    if ((stream->flags & S_ATTACHED) == 0) {
        return;
    }
    ASSERT(len <= stream->unconsumed);
    stream->unconsumed -= (uint32_t)len;
    stream->credit_owed += (uint32_t)len;
    if (stream->credit_owed > 0 && stream->credit_owed >= stream->window_bytes / 4 &&
        (stream->flags & S_END_GOT) == 0) {
        stream->flags |= S_CREDIT_DUE;
        stream_ready(stream);
    }
}

void rpc_stream_end(struct rpc_stream *stream, struct slice head)
{
    if ((stream->flags & (S_ATTACHED | S_QUEUED)) == 0 ||
        (stream->flags & (S_END_DUE | S_END_SENT)) != 0) {
        return;
    }
    stream->flags |= S_END_DUE;
    stream->end_head = head_copy(head);
    stream_ready(stream);
}

void rpc_stream_reset(struct rpc_stream *stream, enum rc rc)
{
    ASSERT(rc != RC_OK);
    if ((stream->flags & (S_ATTACHED | S_QUEUED)) == 0) {
        /* Broken or ended already: only on_close is wanted. */
        stream->flags &= ~(uint32_t)S_TELL_END;
        return;
    }
    if ((stream->flags & S_ATTACHED) != 0) {
        rpc_conn_emit_short(stream->conn, RPC_FRAME_END, stream->id, rpc_status_of(rc), 0);
        stream_slot_leave(stream, (stream->flags & S_END_GOT) == 0);
    }
    stream_detach(stream, rc, 0);
}

/* ---- Sending ---- */

static void stream_emit_open(struct rpc_conn *conn, struct rpc_stream *stream,
                             struct rpc_slot *slot)
{
    struct rpc_frame frame = {.kind = RPC_FRAME_OPEN,
                              .id = slot->id,
                              .method = (uint16_t)stream->method,
                              .value = stream->window_bytes};

    slot->kind = RPC_SLOT_STREAM;
    slot->what = stream;
    stream->conn = conn;
    stream->id = slot->id;
    stream->flags = (stream->flags & ~(uint32_t)S_QUEUED) | S_ATTACHED;
    rpc_conn_emit(conn, &frame, NULL, stream->open_head, NULL, 0);
    head_free(&stream->open_head);
    stream_ready(stream);
}

/* As much as one frame, the credit and the write allow. */
static void stream_emit_data(struct rpc_conn *conn, struct rpc_stream *stream)
{
    struct rpc_frame frame = {.kind = RPC_FRAME_DATA, .id = stream->id};
    struct slice pieces[RPC_SLICES_MAX];
    size_t room = stream->credit < LIMIT_RPC_DATA_BYTES ? stream->credit : LIMIT_RPC_DATA_BYTES;
    uint32_t count = 0;
    uint32_t done = 0;

    while (done < stream->write_count && room > 0) {
        struct slice *from = &stream->write[done];
        size_t take = from->len < room ? from->len : room;

        pieces[count] = slice_of(from->data, take);
        count += 1;
        room -= take;
        stream->credit -= (uint32_t)take;
        *from = slice_after(*from, take);
        if (from->len > 0) {
            break;
        }
        done += 1;
    }
    stream->write_count -= done;
    memmove(stream->write, stream->write + done, stream->write_count * sizeof(stream->write[0]));
    rpc_conn_emit(conn, &frame, NULL, SLICE_EMPTY, pieces, count);
    if (stream->write_count == 0) {
        stream->flags &= ~(uint32_t)S_WRITING;
        if (stream->on_written != NULL) {
            stream->on_written(stream);
        }
    }
}

static void stream_emit_end(struct rpc_conn *conn, struct rpc_stream *stream)
{
    struct rpc_frame frame = {.kind = RPC_FRAME_END, .id = stream->id};

    rpc_conn_emit(conn, &frame, NULL, stream->end_head, NULL, 0);
    head_free(&stream->end_head);
    stream->flags = (stream->flags & ~(uint32_t)S_END_DUE) | S_END_SENT;
    stream_end_if_both(stream);
}

static void stream_emit_one(struct rpc_conn *conn, struct rpc_stream *stream)
{
    if ((stream->flags & S_ACCEPT_DUE) != 0) {
        struct rpc_frame frame = {
            .kind = RPC_FRAME_ACCEPT, .id = stream->id, .value = stream->window_bytes};

        stream->flags &= ~(uint32_t)S_ACCEPT_DUE;
        rpc_conn_emit(conn, &frame, NULL, SLICE_EMPTY, NULL, 0);
    } else if ((stream->flags & S_CREDIT_DUE) != 0) {
        stream->flags &= ~(uint32_t)S_CREDIT_DUE;
        rpc_conn_emit_short(conn, RPC_FRAME_CREDIT, stream->id, 0, stream->credit_owed);
        stream->credit_owed = 0;
    } else if ((stream->flags & S_WRITING) != 0) {
        stream_emit_data(conn, stream);
    } else {
        stream_emit_end(conn, stream);
    }
}

bool rpc_stream_emit(struct rpc_conn *conn)
{
    struct rpc_link *link = conn->out;
    struct rpc_stream *stream;
    struct rpc_slot *slot = NULL;

    if (link != NULL && !list_empty(&link->streams)) {
        slot = rpc_slot_take(conn);
    }
    if (slot != NULL) {
        stream = CONTAINER_OF(list_pop_front(&link->streams), struct rpc_stream, link);
        stream_emit_open(conn, stream, slot);
        return true;
    }
    if (list_empty(&conn->ready)) {
        return false;
    }
    stream = CONTAINER_OF(list_pop_front(&conn->ready), struct rpc_stream, ready_link);
    stream_emit_one(conn, stream);
    stream_ready(stream); /* at the end of the row again, if there is more */
    return true;
}

/* ---- What comes in ---- */

static enum rc stream_admit(const struct rpc_conn *conn, const struct rpc_method_row *row)
{
    const struct rpc_service *service = row != NULL ? conn->rpc->services[row->method] : NULL;

    if (row == NULL || row->kind != RPC_KIND_STREAM || service == NULL ||
        service->on_stream == NULL) {
        return RC_UNSUPPORTED;
    }
    return conn->joining && !row->join ? RC_DENIED : RC_OK;
}

static void stream_take_open(struct rpc_conn *conn, const struct rpc_frame *frame,
                             struct slice head)
{
    const struct rpc_method_row *row = rpc_method_find(frame->method);
    struct rpc_incoming incoming = {
        .conn = conn, .id = frame->id, .window = frame->value, .slot = NULL};
    enum rc rc = stream_admit(conn, row);

    incoming.slot = rpc_slot_claim(conn, frame->id);
    if (incoming.slot == NULL || frame->value > LIMIT_RPC_WINDOW_BYTES) {
        rpc_conn_refuse(conn, RC_INVALID, "frame: stream under an id in use, or its window");
        return;
    }
    /* Refused unless accepted: the other side's END is to come then. */
    incoming.slot->kind = RPC_SLOT_ZOMBIE;
    if (rc == RC_OK) {
        struct rpc_service *service = conn->rpc->services[row->method];

        incoming.method = row->method;
        rc = service->on_stream(service, &incoming, &conn->other, head);
        ASSERT((rc == RC_OK) == (incoming.accepted != NULL));
    }
    if (rc != RC_OK && conn->state == RPC_CONN_UP) {
        rpc_conn_emit_short(conn, RPC_FRAME_END, frame->id, rpc_status_of(rc), 0);
    }
}

static void stream_take_data(struct rpc_conn *conn, struct rpc_stream *stream, struct slice body)
{
    if ((stream->flags & S_END_GOT) != 0 ||
        body.len > stream->window_bytes - stream->unconsumed - stream->credit_owed) {
        rpc_conn_refuse(conn, RC_LIMIT, "stream: more than its window allows");
        return;
    }
    stream->unconsumed += (uint32_t)body.len;
    if (body.len > 0) {
        stream->on_read(stream, body);
    }
}

static void stream_take_credit(struct rpc_conn *conn, struct rpc_stream *stream, uint32_t more)
{
    if (stream->credit + (uint64_t)more > LIMIT_RPC_WINDOW_BYTES) {
        rpc_conn_refuse(conn, RC_LIMIT, "stream: credit beyond any window");
        return;
    }
    stream->credit += more;
    stream_ready(stream);
}

static void stream_take_accept(struct rpc_conn *conn, struct rpc_stream *stream, uint32_t window)
{
    if ((stream->flags & S_RUNNING) != 0 || window > LIMIT_RPC_WINDOW_BYTES) {
        rpc_conn_refuse(conn, RC_INVALID, "stream: accepted twice, or its window");
        return;
    }
    stream->flags |= S_RUNNING;
    stream->credit = window;
    if (stream->on_open != NULL) {
        stream->on_open(stream);
    }
    stream_ready(stream);
}

static void stream_take_end(struct rpc_conn *conn, struct rpc_stream *stream, enum rc rc,
                            struct slice head)
{
    if (rc == RC_OK && (stream->flags & S_END_GOT) == 0) {
        stream->flags |= S_END_GOT;
        stream->on_end(stream, RC_OK, head);
        if ((stream->flags & S_ATTACHED) != 0) {
            stream_end_if_both(stream);
        }
        return;
    }
    if (rc == RC_OK) {
        rpc_conn_refuse(conn, RC_INVALID, "stream: ended twice");
        return;
    }
    if ((stream->flags & S_END_SENT) == 0) {
        rpc_conn_emit_short(conn, RPC_FRAME_END, stream->id, rpc_status_of(RC_CANCELLED), 0);
    }
    stream_slot_leave(stream, false);
    stream_detach(stream, rc, 0);
    stream->on_end(stream, rc, head);
}

/* Of one that we gave up, or that ended: what was under way still comes. */
static void stream_take_stray(struct rpc_conn *conn, struct rpc_slot *slot,
                              const struct rpc_frame *frame)
{
    if (slot != NULL && slot->kind != RPC_SLOT_ZOMBIE) {
        rpc_conn_refuse(conn, RC_INVALID, "frame: a call is no stream");
    } else if (slot != NULL && frame->kind == RPC_FRAME_END) {
        rpc_slot_release(conn, slot);
    }
}

void rpc_stream_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                     struct slice body)
{
    struct rpc_slot *slot;
    struct rpc_stream *stream;

    if (frame->kind == RPC_FRAME_OPEN) {
        stream_take_open(conn, frame, head);
        return;
    }
    slot = rpc_slot_find(conn, frame->id);
    if (slot == NULL || slot->kind != RPC_SLOT_STREAM) {
        stream_take_stray(conn, slot, frame);
        return;
    }
    stream = slot->what;
    if (frame->kind == RPC_FRAME_ACCEPT) {
        stream_take_accept(conn, stream, frame->value);
    } else if (frame->kind == RPC_FRAME_DATA) {
        stream_take_data(conn, stream, body);
    } else if (frame->kind == RPC_FRAME_CREDIT) {
        stream_take_credit(conn, stream, frame->value);
    } else {
        stream_take_end(conn, stream, rpc_status_rc(frame->status), head);
    }
}
