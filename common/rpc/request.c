/*
 * Requests, on the side that serves. Each is copied once into memory of its own (a long one is
 * taken over as it was read), lives until the service replies, and its memory is used again. The
 * reply leaves at once, or waits in conn->replies while the other side reads too slowly.
 */
#include "common/rpc/rpc_private.h"

#include <string.h>

#include "common/metrics/metrics.h"

static struct rpc_served *served_new(struct rpc *rpc)
{
    struct rpc_served *served;

    if (list_empty(&rpc->pool)) {
        served = mem_alloc(sizeof(*served));
        buffer_init(&served->memory);
        buffer_init(&served->kept);
    } else {
        served = CONTAINER_OF(list_pop_front(&rpc->pool), struct rpc_served, link);
        rpc->pool_count -= 1;
    }
    list_init(&served->link);
    list_init(&served->cancel_link);
    rpc->served_count += 1;
    return served;
}

void rpc_served_release(struct rpc_served *served)
{
    struct rpc_conn *conn = served->conn;
    struct rpc *rpc = conn->rpc;

    list_remove(&served->link);
    list_remove(&served->cancel_link);
    conn->served_count -= 1;
    rpc->served_count -= 1;
    if (conn->state == RPC_CONN_CLOSING) {
        rpc->reap = true;
        rpc_turn_soon(rpc);
    }
    if (rpc->pool_count >= RPC_POOL_MAX || served->memory.capacity > RPC_POOL_BYTES_MAX ||
        served->kept.capacity > RPC_POOL_BYTES_MAX) {
        buffer_deinit(&served->memory);
        buffer_deinit(&served->kept);
        mem_free(served);
        return;
    }
    buffer_clear(&served->memory);
    buffer_clear(&served->kept);
    list_push_back(&rpc->pool, &served->link);
    rpc->pool_count += 1;
}

/* Head and body into memory of the request. A long frame that is alone in conn->in is not copied:
 * the buffers change hands. */
static void served_keep(struct rpc_served *served, struct rpc_conn *conn, struct slice head,
                        struct slice body)
{
    size_t len = head.len + body.len;
    const char *frame = head.data - RPC_FRAME_HEADER_BYTES;

    if (len >= RPC_STEAL_BYTES_MIN && frame == conn->in.data &&
        conn->in.len == RPC_FRAME_HEADER_BYTES + len) {
        struct buffer held = served->memory;

        served->memory = conn->in;
        conn->in = held;
        conn->stolen = true;
        served->base.head = head;
        served->base.body = body;
        return;
    }
    (void)buffer_reserve(&served->memory, len + 1);
    if (len > 0) {
        buffer_append(&served->memory, head);
        buffer_append(&served->memory, body);
    }
    served->base.head = slice_of(served->memory.data, head.len);
    served->base.body = slice_of(served->memory.data + head.len, body.len);
}

static void request_refuse(struct rpc_conn *conn, uint64_t id, enum rc rc)
{
    rpc_conn_emit_short(conn, RPC_FRAME_REPLY, id, rpc_status_of(rc), RPC_REPLY_OF_RPC);
}

static enum rc request_admit(const struct rpc_conn *conn, const struct rpc_method_row *row,
                             size_t len)
{
    const struct rpc_service *service = row != NULL ? conn->rpc->services[row->method] : NULL;

    if (row == NULL || row->kind != RPC_KIND_REQUEST || service == NULL ||
        service->on_request == NULL) {
        return RC_UNSUPPORTED;
    }
    if (conn->joining && !row->join) {
        return RC_DENIED;
    }
    return conn->inflight_bytes == 0 || conn->inflight_bytes + len <= LIMIT_RPC_INFLIGHT_BYTES
               ? RC_OK
               : RC_BUSY;
}

void rpc_request_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                      struct slice body)
{
    struct rpc *rpc = conn->rpc;
    const struct rpc_method_row *row = rpc_method_find(frame->method);
    struct rpc_slot *slot = rpc_slot_claim(conn, frame->id);
    size_t len = RPC_FRAME_HEADER_BYTES + head.len + body.len;
    struct rpc_served *served;
    enum rc rc = request_admit(conn, row, len);

    if (slot == NULL) {
        rpc_conn_refuse(conn, RC_INVALID, "frame: request under an id in use");
        return;
    }
    slot->kind = RPC_SLOT_REQUEST;
    if (rc != RC_OK) {
        rpc_slot_release(conn, slot);
        request_refuse(conn, frame->id, rc);
        return;
    }
    served = served_new(rpc);
    memset(&served->base, 0, sizeof(served->base));
    served->conn = conn;
    served->id = frame->id;
    served->bytes = len;
    served->told = false;
    served->reply = NULL;
    served->body_count = 0;
    conn->served_count += 1;
    slot->what = served;
    slot->bytes = len;
    conn->inflight_bytes += len;
    served_keep(served, conn, head, body);
    list_init(&served->base.link);
    served->base.method = row->method;
    served->base.from = &conn->other;
    served->base.deadline_ns = frame->value != 0 ? rpc->now_ns + frame->value * RPC_NS_PER_MS : 0;
    metric_add(METRIC_RPC_REQUESTS, row->series, 1);
    rpc->services[row->method]->on_request(rpc->services[row->method], &served->base);
}

void rpc_request_cancel(struct rpc_served *served)
{
    struct rpc *rpc = served->conn->rpc;

    if (!served->told) {
        served->told = true;
        list_push_back(&rpc->cancelled, &served->cancel_link);
        rpc_turn_soon(rpc);
    }
}

/* ---- Replies ---- */

void rpc_reply_sent_soon(struct rpc *rpc, struct rpc_reply *reply)
{
    list_push_back(&rpc->sent, &reply->link);
    rpc_turn_soon(rpc);
}

static void reply_slot_release(struct rpc_served *served)
{
    struct rpc_slot *slot = rpc_slot_find(served->conn, served->id);

    ASSERT(slot != NULL && slot->what == served);
    rpc_slot_release(served->conn, slot);
}

/* It waits for room: what is not borrowed is copied. */
static void reply_keep(struct rpc_served *served, const struct rpc_reply *reply)
{
    size_t head_len = reply->message != NULL ? protobuf_c_message_get_packed_size(reply->message)
                                             : reply->head.len;
    char *at = buffer_reserve(&served->kept, head_len + 1);

    if (reply->message != NULL) {
        (void)protobuf_c_message_pack(reply->message, (uint8_t *)at);
    } else if (head_len > 0) {
        memcpy(at, reply->head.data, head_len);
    }
    served->kept.len = head_len;
    served->answer.head_len = (uint32_t)head_len;
    served->body_count = reply->body_count;
    memcpy(served->body, reply->body, sizeof(served->body));
    if (reply->sent == NULL) {
        for (uint32_t i = 0; i < reply->body_count; i++) {
            buffer_append(&served->kept, reply->body[i]);
        }
        served->body_count = 0;
    }
    list_push_back(&served->conn->replies, &served->link);
}

static bool reply_fits(const struct rpc_reply *reply)
{
    size_t head = reply->message != NULL ? protobuf_c_message_get_packed_size(reply->message)
                                         : reply->head.len;
    size_t body = 0;

    for (uint32_t i = 0; i < reply->body_count; i++) {
        body += reply->body[i].len;
    }
    return head <= LIMIT_RPC_HEAD_BYTES && body <= LIMIT_RPC_BODY_BYTES;
}

void rpc_reply(struct rpc_request *request, struct rpc_reply *reply)
{
    struct rpc_served *served = CONTAINER_OF(request, struct rpc_served, base);
    struct rpc_conn *conn = served->conn;

    ASSERT(reply->body_count <= RPC_SLICES_MAX && reply_fits(reply));
    list_remove(&served->cancel_link);
    request->on_cancel = NULL;
    if (conn->state != RPC_CONN_UP) {
        if (reply->sent != NULL) {
            rpc_reply_sent_soon(conn->rpc, reply);
        }
        rpc_served_release(served);
        return;
    }
    served->told = true;
    served->answer = (struct rpc_frame){.kind = RPC_FRAME_REPLY,
                                        .id = served->id,
                                        .method = (uint16_t)request->method,
                                        .status = rpc_status_of(reply->rc)};
    if (!list_empty(&conn->replies) || rpc_conn_backlog(conn) >= LIMIT_RPC_OUT_BYTES) {
        served->reply = reply->sent != NULL ? reply : NULL;
        reply_keep(served, reply);
        return;
    }
    rpc_conn_emit(conn, &served->answer, reply->message, reply->head, reply->body,
                  reply->body_count);
    if (reply->sent != NULL) {
        rpc_reply_sent_soon(conn->rpc, reply);
    }
    reply_slot_release(served);
    rpc_served_release(served);
}

bool rpc_reply_emit(struct rpc_conn *conn)
{
    struct rpc_served *served;
    struct slice kept;
    struct slice copied;

    if (list_empty(&conn->replies)) {
        return false;
    }
    served = CONTAINER_OF(conn->replies.next, struct rpc_served, link);
    kept = slice_of(served->kept.data, served->answer.head_len);
    copied = slice_after(buffer_slice(&served->kept), served->answer.head_len);
    rpc_conn_emit(conn, &served->answer, NULL, kept,
                  served->body_count > 0 ? served->body : &copied,
                  served->body_count > 0 ? served->body_count : 1);
    if (served->reply != NULL) {
        rpc_reply_sent_soon(conn->rpc, served->reply);
    }
    reply_slot_release(served);
    rpc_served_release(served);
    return true;
}

void rpc_reply_rc(struct rpc_request *request, enum rc rc)
{
    struct rpc_reply reply = {.rc = rc};

    rpc_reply(request, &reply);
}
