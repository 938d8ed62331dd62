/*
 * The first frame each way. The side that connected speaks first; the other answers when it likes
 * what it heard. Nothing but hello and goodbye is taken before.
 */
#include "common/rpc/rpc_private.h"

#include <string.h>

#include "proto/rpc.pb-c.h"

static const uint8_t no_cluster[RPC_CLUSTER_ID_BYTES];

void rpc_hello_send(struct rpc_conn *conn)
{
    const struct rpc_identity *self = &conn->rpc->options.identity;
    Kist__RpcHello hello = KIST__RPC_HELLO__INIT;
    struct rpc_frame frame = {.kind = RPC_FRAME_HELLO};
    hello.cluster_id.data = (uint8_t *)(uintptr_t)self->cluster_id;
    hello.cluster_id.len = sizeof(self->cluster_id);
    hello.cluster_epoch = self->cluster_epoch;
    hello.node_id = self->node_id;
    hello.incarnation = self->incarnation;
    hello.role = self->role;
    hello.release.data = (uint8_t *)(uintptr_t)self->release;
    hello.release.len = strlen(self->release);
    hello.protocol_min = RPC_FRAME_VERSION_MIN;
    hello.protocol_max = RPC_FRAME_VERSION_MAX;
    hello.inflight_max = LIMIT_RPC_INFLIGHT;
    hello.inflight_bytes_max = LIMIT_RPC_INFLIGHT_BYTES;
    hello.purpose = conn->purpose;
    rpc_conn_emit(conn, &frame, &hello.base, SLICE_EMPTY, NULL, 0);
}

void rpc_goodbye_send(struct rpc_conn *conn, enum rc rc, const char *text)
{
    Kist__RpcGoodbye goodbye = KIST__RPC_GOODBYE__INIT;
    struct rpc_frame frame = {.kind = RPC_FRAME_GOODBYE};

    goodbye.status = rpc_status_of(rc);
    goodbye.text.data = (uint8_t *)(uintptr_t)text;
    goodbye.text.len = strlen(text);
    rpc_conn_emit(conn, &frame, &goodbye.base, SLICE_EMPTY, NULL, 0);
}

/* From outside, and for our logs: printable, and cut to size. */
static void text_copy(char *to, size_t size, const ProtobufCBinaryData *from)
{
    size_t len = from->len < size - 1 ? from->len : size - 1;

    for (size_t i = 0; i < len; i++) {
        char byte = (char)from->data[i];

        to[i] = (char)(byte >= ' ' && byte <= '~' && byte != '"' ? byte : '?');
    }
    to[len] = '\0';
}

/* ---- Judging ---- */

static bool same_process(const struct rpc_identity *a, const struct rpc_identity *b)
{
    return a->node_id == b->node_id && a->incarnation == b->incarnation && a->role == b->role;
}

static enum rc hello_judge_cluster(struct rpc_conn *conn, struct error *error)
{
    const struct rpc_identity *self = &conn->rpc->options.identity;
    const struct rpc_identity *other = &conn->other;
    bool self_joins = memcmp(self->cluster_id, no_cluster, sizeof(no_cluster)) == 0;
    bool other_joins = memcmp(other->cluster_id, no_cluster, sizeof(no_cluster)) == 0;

    if (self_joins || other_joins) {
        conn->joining = true;
    } else if (memcmp(self->cluster_id, other->cluster_id, sizeof(no_cluster)) != 0) {
        return error_set(error, RC_DENIED, "hello: of another cluster");
    }
    /* Also what a connection that an attacker turned back to its sender would show. */
    if (same_process(self, other)) {
        return error_set(error, RC_DENIED, "hello: this process itself");
    }
    if (conn->out != NULL && conn->out->peer->node_id != 0 &&
        conn->out->peer->node_id != other->node_id) {
        return error_set(error, RC_DENIED, "hello: node %016llx answers in place of %016llx",
                         (unsigned long long)other->node_id,
                         (unsigned long long)conn->out->peer->node_id);
    }
    if (conn->rpc->options.judge != NULL) {
        return conn->rpc->options.judge(conn->rpc, other, error);
    }
    return RC_OK;
}

static enum rc hello_read(struct rpc_conn *conn, const Kist__RpcHello *hello, struct error *error)
{
    uint32_t newest =
        hello->protocol_max < RPC_FRAME_VERSION_MAX ? hello->protocol_max : RPC_FRAME_VERSION_MAX;

    if (hello->cluster_id.len != RPC_CLUSTER_ID_BYTES || hello->purpose >= RPC_PURPOSE_COUNT) {
        return error_set(error, RC_INVALID, "hello: malformed");
    }
    if (newest < RPC_FRAME_VERSION_MIN || newest < hello->protocol_min) {
        return error_set(error, RC_UNSUPPORTED, "hello: protocol %u to %u there, %d to %d here",
                         hello->protocol_min, hello->protocol_max, RPC_FRAME_VERSION_MIN,
                         RPC_FRAME_VERSION_MAX);
    }
    if (hello->inflight_max == 0 || hello->inflight_bytes_max < LIMIT_RPC_BODY_BYTES) {
        return error_set(error, RC_INVALID, "hello: bounds that let nothing through");
    }
    conn->version = (uint8_t)newest;
    conn->other = (struct rpc_identity){.cluster_epoch = hello->cluster_epoch,
                                        .node_id = hello->node_id,
                                        .incarnation = hello->incarnation,
                                        .role = (enum rpc_role)hello->role};
    memcpy(conn->other.cluster_id, hello->cluster_id.data, RPC_CLUSTER_ID_BYTES);
    text_copy(conn->other.release, sizeof(conn->other.release), &hello->release);
    if (conn->accepted) {
        conn->purpose = (enum rpc_purpose)hello->purpose;
        return RC_OK;
    }
    conn->slot_max =
        hello->inflight_max < LIMIT_RPC_INFLIGHT ? hello->inflight_max : LIMIT_RPC_INFLIGHT;
    conn->inflight_bytes_max = hello->inflight_bytes_max < LIMIT_RPC_INFLIGHT_BYTES
                                   ? (size_t)hello->inflight_bytes_max
                                   : LIMIT_RPC_INFLIGHT_BYTES;
    return RC_OK;
}

void rpc_hello_take(struct rpc_conn *conn, struct slice head)
{
    struct error error = {0};
    Kist__RpcHello *hello = NULL;
    enum rc rc = RC_INVALID;

    if (head.len <= RPC_HELLO_BYTES_MAX) {
        hello = kist__rpc_hello__unpack(NULL, head.len, (const uint8_t *)head.data);
    }
    if (hello == NULL) {
        (void)error_set(&error, RC_INVALID, "hello: malformed");
    } else {
        rc = hello_read(conn, hello, &error);
        kist__rpc_hello__free_unpacked(hello, NULL);
    }
    if (rc == RC_OK) {
        rc = hello_judge_cluster(conn, &error);
    }
    if (rc != RC_OK) {
        rpc_conn_refuse(conn, rc, error.text);
        return;
    }
    if (conn->accepted) {
        rpc_hello_send(conn);
    }
    rpc_conn_up(conn);
}

void rpc_goodbye_take(struct rpc_conn *conn, struct slice head)
{
    Kist__RpcGoodbye *goodbye = NULL;
    struct error error = {.rc = RC_CLOSED};
    char text[ERROR_TEXT_MAX];

    if (head.len <= RPC_HELLO_BYTES_MAX) {
        goodbye = kist__rpc_goodbye__unpack(NULL, head.len, (const uint8_t *)head.data);
    }
    if (goodbye == NULL) {
        rpc_conn_refuse(conn, RC_INVALID, "goodbye: malformed");
        return;
    }
    text_copy(text, sizeof(text), &goodbye->text);
    (void)error_set(&error, rpc_status_rc((uint16_t)goodbye->status), "refused there: %.200s",
                    text);
    kist__rpc_goodbye__free_unpacked(goodbye, NULL);
    conn->logged = true;
    rpc_log_refused(conn->rpc, conn->address, error.rc, error.text);
    rpc_conn_fail(conn, error.rc != RC_OK ? error.rc : RC_CLOSED, error.text);
}
