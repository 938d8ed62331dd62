/*
 * What a process of the cluster may send: bytes against a server in the simulated world, without
 * TLS (which lets nothing damaged through) and behind a hello. The first byte says how they come;
 * frames that begin with the magic get their checksum made right first, or a fuzzer would never get
 * behind it. It ends, nothing is left, and the windows hold.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/base/buffer.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "common/log/log.h"
#include "common/rpc/frame.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security.h"
#include "proto/rpc.pb-c.h"
#include "tests/lib/env_sim.h"

enum { WINDOW = 1000, STREAMS = 32, INPUT_MAX = 64 * 1024 };

struct world {
    struct sim *sim;
    struct env *env;
    struct rpc *rpc;
    struct env_stream stream;
    struct env_write connect;
    struct env_write write;
    struct buffer out;
    struct rpc_service service;
    struct fuzz_stream {
        struct rpc_stream stream;
        bool used;
        size_t given;
    } streams[STREAMS];
    bool stream_closed;
    bool done;
    uint8_t style;
};

static struct world *world;

/* ---- The server ---- */

static void on_request(struct rpc_service *service, struct rpc_request *request)
{
    struct rpc_reply reply = {.head = request->head, .body = {request->body}, .body_count = 1};

    (void)service;
    rpc_reply(request, &reply);
}

static void on_message(struct rpc_service *service, const struct rpc_message *message)
{
    (void)service;
    ASSERT(message->head.len <= INPUT_MAX && message->body.len <= INPUT_MAX);
}

static void on_stream_read(struct rpc_stream *stream, struct slice bytes)
{
    struct fuzz_stream *at = CONTAINER_OF(stream, struct fuzz_stream, stream);

    at->given += bytes.len;
    ASSERT(at->given <= WINDOW);
    if ((world->style & 4) != 0) {
        rpc_stream_consumed(stream, at->given);
        at->given = 0;
    }
}

static void on_stream_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    (void)rc;
    (void)head;
    rpc_stream_end(stream, SLICE("bye"));
}

static void on_stream_close(struct rpc_stream *stream)
{
    CONTAINER_OF(stream, struct fuzz_stream, stream)->used = false;
}

static enum rc on_stream(struct rpc_service *service, struct rpc_incoming *incoming,
                         const struct rpc_identity *from, struct slice head)
{
    (void)service;
    (void)from;
    (void)head;
    for (size_t i = 0; i < STREAMS; i++) {
        struct fuzz_stream *at = &world->streams[i];

        if (!at->used) {
            *at = (struct fuzz_stream){
                .used = true,
                .stream = {.window_bytes = WINDOW,
                           .on_read = on_stream_read,
                           .on_end = on_stream_end,
                           .on_close = on_stream_close}
            };
            rpc_stream_accept(incoming, &at->stream);
            return RC_OK;
        }
    }
    return RC_BUSY;
}

/* ---- The sender ---- */

static void hello_append(struct buffer *to)
{
    static uint8_t cluster[RPC_CLUSTER_ID_BYTES] = {1};
    Kist__RpcHello hello = KIST__RPC_HELLO__INIT;
    struct rpc_frame frame = {.version = 1, .kind = RPC_FRAME_HELLO};
    char *at;

    hello.cluster_id.data = cluster;
    hello.cluster_id.len = sizeof(cluster);
    hello.node_id = 7;
    hello.protocol_min = 1;
    hello.protocol_max = 1;
    hello.inflight_max = 100;
    hello.inflight_bytes_max = UINT64_MAX;
    frame.head_len = (uint32_t)kist__rpc_hello__get_packed_size(&hello);
    at = buffer_reserve(to, RPC_FRAME_HEADER_BYTES + frame.head_len);
    (void)kist__rpc_hello__pack(&hello, (uint8_t *)at + RPC_FRAME_HEADER_BYTES);
    rpc_frame_seal(&frame, at);
    to->len += RPC_FRAME_HEADER_BYTES + frame.head_len;
}

/* Magic, version and checksums of each frame made right, as far as its lengths lead. */
static void frames_seal(char *bytes, size_t len)
{
    size_t at = 0;

    while (len - at >= RPC_FRAME_HEADER_BYTES) {
        char *frame = bytes + at;
        size_t head = le32_get(frame + 24) & 0xff;
        size_t body = le32_get(frame + 28) & 0x7ff;

        if (len - at - RPC_FRAME_HEADER_BYTES < head + body) {
            return;
        }
        memcpy(frame, "kRPC\x01", 5);
        le32_put(frame + 24, (uint32_t)head);
        le32_put(frame + 28, (uint32_t)body);
        if ((frame[6] & RPC_FRAME_FLAG_BODY_CRC) != 0) {
            le32_put(frame + 32, crc32c(0, frame + RPC_FRAME_HEADER_BYTES + head, body));
        }
        le32_put(frame + 36, crc32c(crc32c(0, frame, 36), frame + RPC_FRAME_HEADER_BYTES, head));
        at += RPC_FRAME_HEADER_BYTES + head + body;
    }
}

static void sender_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    (void)stream;
    (void)bytes;
    (void)rc;
}

static void sender_on_close(struct env_stream *stream)
{
    (void)stream;
    world->stream_closed = true;
}

static void sender_on_written(struct env_write *write)
{
    (void)write;
}

static void sender_on_connect(struct env_write *write)
{
    struct slice bytes = buffer_slice(&world->out);

    ASSERT(write->rc == RC_OK);
    world->env->net->read_start(world->env, &world->stream);
    world->write.done = sender_on_written;
    world->env->net->write(world->env, &world->write, &world->stream, &bytes, 1);
}

static void on_closed(void *owner)
{
    (void)owner;
    world->done = true;
}

static bool is_closed(void *arg)
{
    (void)arg;
    return world->done && world->stream_closed;
}

static void world_run(struct rpc_security *security)
{
    struct rpc_options options = {.env = world->env, .security = security};
    struct env *env = world->env;
    bool came;

    options.identity.cluster_id[0] = 1;
    world->rpc = rpc_open(&options);
    world->service = (struct rpc_service){
        .on_request = on_request, .on_message = on_message, .on_stream = on_stream};
    rpc_serve(world->rpc, RPC_PROBE_ECHO, &world->service);
    rpc_serve(world->rpc, RPC_PROBE_MESSAGE, &world->service);
    rpc_serve(world->rpc, RPC_PROBE_STREAM, &world->service);
    ASSERT(rpc_listen(world->rpc, "127.0.0.1:700", NULL) == RC_OK);
    world->stream.on_read = sender_on_read;
    world->stream.on_close = sender_on_close;
    world->connect.done = sender_on_connect;
    env->net->connect(env, &world->connect, &world->stream, "127.0.0.1:700");
    sim_run_for(world->sim, 300 * SIM_MS);
    env->net->close(env, &world->stream);
    sim_run_for(world->sim, 100 * SIM_MS);
    rpc_close(world->rpc, on_closed);
    came = sim_run_until(world->sim, is_closed, NULL, 20 * SIM_S);
    ASSERT(came);
    for (size_t i = 0; i < STREAMS; i++) {
        ASSERT(!world->streams[i].used);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rpc_security *security = rpc_security_plain();

    if (size == 0 || size > INPUT_MAX) {
        rpc_security_free(security);
        return 0;
    }
    log_set_level(LOG_LEVEL_ERROR);
    world = mem_alloc(sizeof(*world));
    world->style = data[0];
    world->env = sim_env_alone(data[0]);
    world->sim = sim_of(world->env);
    sim_net_faults(world->sim)->pieces = (enum sim_pieces)((world->style & 3) % 3);
    buffer_init(&world->out);
    if ((world->style & 8) != 0) {
        hello_append(&world->out);
    }
    buffer_append(&world->out, slice_of(data + 1, size - 1));
    if ((world->style & 16) != 0) {
        frames_seal(world->out.data, world->out.len);
    }
    world_run(security);
    buffer_deinit(&world->out);
    sim_free(world->sim);
    mem_free(world);
    rpc_security_free(security);
    return 0;
}
