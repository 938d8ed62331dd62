/*
 * What RPC costs: both ends in one process on one loop, over loopback sockets, so that CPU per call
 * is that of client, server and kernel together. Each with TLS and without: the difference is
 * TLS's.
 *
 *     kist_bench_rpc [seconds a measurement]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security.h"

enum { CALLS_MAX = 1024, PIECE_BYTES = 1024 * 1024, NS_PER_S = 1000 * 1000 * 1000 };

struct bench {
    struct env_uv *world;
    struct env *env;
    struct rpc_security *security;
    struct rpc *server;
    struct rpc *client;
    struct rpc_peer *peer;
    struct rpc_service echo;
    struct rpc_service sink;
    struct rpc_stream in;
    struct rpc_stream out;
    struct rpc_call calls[CALLS_MAX];
    char head[32];
    char body[64 * 1024];
    size_t body_len;
    char *piece;
    uint64_t completed;
    uint64_t streamed;
    uint32_t under_way;
    bool stopping;
    bool quiet;
    uint32_t closed;
    double seconds;
};

static double cpu_seconds(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- Both ends ---- */

static void echo_on_request(struct rpc_service *service, struct rpc_request *request)
{
    struct rpc_reply reply = {.head = request->head};

    (void)service;
    rpc_reply(request, &reply);
}

static void in_on_read(struct rpc_stream *stream, struct slice bytes)
{
    CONTAINER_OF(stream, struct bench, in)->streamed += bytes.len;
    rpc_stream_consumed(stream, bytes.len);
}

static void in_on_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    (void)rc;
    (void)head;
    rpc_stream_end(stream, SLICE_EMPTY);
}

static void in_on_close(struct rpc_stream *stream)
{
    (void)stream;
}

static enum rc sink_on_stream(struct rpc_service *service, struct rpc_incoming *incoming,
                              const struct rpc_identity *from, struct slice head)
{
    struct bench *bench = CONTAINER_OF(service, struct bench, sink);

    (void)from;
    (void)head;
    memset(&bench->in, 0, sizeof(bench->in));
    bench->in.on_read = in_on_read;
    bench->in.on_end = in_on_end;
    bench->in.on_close = in_on_close;
    rpc_stream_accept(incoming, &bench->in);
    return RC_OK;
}

static struct bench *bench_of(const struct rpc_call *call)
{
    return rpc_peer_owner(call->peer);
}

static void call_done(struct rpc_call *call)
{
    struct bench *bench = bench_of(call);

    ASSERT(call->rc == RC_OK);
    bench->completed += 1;
    if (!bench->stopping) {
        rpc_call(bench->peer, call);
        return;
    }
    bench->under_way -= 1;
    if (bench->under_way == 0) {
        env_uv_stop(bench->env);
    }
}

static void out_on_written(struct rpc_stream *stream)
{
    struct bench *bench = CONTAINER_OF(stream, struct bench, out);
    struct slice piece = slice_of(bench->piece, PIECE_BYTES);

    if (bench->stopping) {
        rpc_stream_end(stream, SLICE_EMPTY);
    } else {
        rpc_stream_write(stream, &piece, 1);
    }
}

static void out_on_read(struct rpc_stream *stream, struct slice bytes)
{
    rpc_stream_consumed(stream, bytes.len);
}

static void out_on_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    (void)stream;
    (void)rc;
    (void)head;
}

static void out_on_close(struct rpc_stream *stream)
{
    env_uv_stop(CONTAINER_OF(stream, struct bench, out)->env);
}

/* ---- Life ---- */

struct stop_timer {
    struct env_timer timer;
    struct bench *bench;
};

static void stop_fire(struct env_timer *timer)
{
    CONTAINER_OF(timer, struct stop_timer, timer)->bench->stopping = true;
}

static void bench_run(struct bench *bench)
{
    struct stop_timer stop = {.timer.fire = stop_fire, .bench = bench};

    bench->stopping = false;
    bench->env->clock->timer_start(bench->env, &stop.timer, (uint64_t)(bench->seconds * 1e9));
    env_uv_run(bench->env);
}

static void bench_open(struct bench *bench, bool tls)
{
    struct env_uv_options world = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct rpc_options options = {.owner = bench, .identity = {.node_id = 1}};
    struct rpc_peer_options peer = {.owner = bench};
    struct cluster_key key = {
        .bytes = {1, 2, 3}
    };
    char address[ENV_ADDRESS_MAX];
    struct error error;
    enum rc rc;

    memset(options.identity.cluster_id, 1, sizeof(options.identity.cluster_id));
    bench->world = env_uv_open(&world, &error);
    ASSERT(bench->world != NULL);
    bench->env = env_uv_env(bench->world, 0);
    bench->security =
        tls ? rpc_security_psk(&key, options.identity.cluster_id, false) : rpc_security_plain();
    options.env = bench->env;
    options.security = bench->security;
    bench->server = rpc_open(&options);
    options.identity.node_id = 2;
    bench->client = rpc_open(&options);
    rc = rpc_listen(bench->server, "127.0.0.1:0", &error);
    ASSERT(rc == RC_OK && rpc_address(bench->server, address));
    bench->echo.on_request = echo_on_request;
    bench->sink.on_stream = sink_on_stream;
    rpc_serve(bench->server, RPC_PROBE_ECHO, &bench->echo);
    rpc_serve(bench->server, RPC_PROBE_STREAM, &bench->sink);
    peer.address = address;
    bench->peer = rpc_peer_open(bench->client, &peer);
}

static void bench_on_closed(void *owner)
{
    env_uv_stop(((struct bench *)owner)->env);
}

static void bench_close(struct bench *bench)
{
    rpc_peer_close(bench->peer, bench_on_closed);
    env_uv_run(bench->env);
    rpc_close(bench->client, bench_on_closed);
    env_uv_run(bench->env);
    rpc_close(bench->server, bench_on_closed);
    env_uv_run(bench->env);
    env_uv_close(bench->world);
    rpc_security_free(bench->security);
}

/* ---- Measurements ---- */

static double measure_calls(struct bench *bench, uint32_t deep, size_t body_len)
{
    struct rpc_stats before;
    struct rpc_stats after;
    double cpu;
    double each;

    bench->completed = 0;
    bench->under_way = deep;
    rpc_stats(bench->client, &before);
    cpu = cpu_seconds();
    for (uint32_t i = 0; i < deep; i++) {
        struct rpc_call *call = &bench->calls[i];

        memset(call, 0, sizeof(*call));
        call->method = RPC_PROBE_ECHO;
        call->head = slice_of(bench->head, sizeof(bench->head));
        call->body[0] = slice_of(bench->body, body_len);
        call->body_count = 1;
        call->timeout_ms = 10000;
        call->done = call_done;
        rpc_call(bench->peer, call);
    }
    bench_run(bench);
    cpu = cpu_seconds() - cpu;
    rpc_stats(bench->client, &after);
    each = cpu / (double)bench->completed * 1e6;
    (void)printf("  call, head 32 B, body %5zu B, %3u deep   %6.2f us CPU both ends   %8.0f/s   "
                 "%.1f calls a write\n",
                 body_len, deep, each, (double)bench->completed / bench->seconds,
                 (double)(after.frames_sent - before.frames_sent) /
                     (double)(after.writes - before.writes));
    return each;
}

static double measure_stream(struct bench *bench)
{
    double gib;
    double cpu = cpu_seconds();

    memset(&bench->out, 0, sizeof(bench->out));
    bench->streamed = 0;
    bench->out.method = RPC_PROBE_STREAM;
    bench->out.purpose = RPC_BULK;
    bench->out.on_read = out_on_read;
    bench->out.on_written = out_on_written;
    bench->out.on_end = out_on_end;
    bench->out.on_close = out_on_close;
    rpc_stream_open(bench->peer, &bench->out, SLICE_EMPTY);
    bench->stopping = false;
    out_on_written(&bench->out);
    bench_run(bench);
    cpu = cpu_seconds() - cpu;
    gib = (double)bench->streamed / (1024.0 * 1024 * 1024);
    (void)printf(
        "  stream, writes of 1 MiB                  %6.2f GiB/s of one core, both ends   %6.3f "
        "s CPU a GiB\n",
        gib / cpu, cpu / gib);
    return cpu / gib;
}

int main(int argc, char **argv)
{
    static const struct {
        uint32_t deep;
        size_t body_len;
    } rows[] = {
        {1,   300  },
        {64,  300  },
        {512, 300  },
        {64,  16384}
    };
    struct bench *bench = mem_alloc(sizeof(*bench));
    double calls[2][ARRAY_LEN(rows)];
    double streams[2];

    bench->seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    bench->piece = mem_alloc(PIECE_BYTES);
    for (int tls = 0; tls < 2; tls++) {
        bench_open(bench, tls == 1);
        (void)printf("%s\n", tls == 1 ? "TLS 1.3, PSK, AES-128-GCM" : "plain, CRC32C of bodies");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            calls[tls][i] = measure_calls(bench, rows[i].deep, rows[i].body_len);
        }
        streams[tls] = measure_stream(bench);
        bench_close(bench);
    }
    (void)printf("TLS's share: ");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)printf("%.0f %%, ", 100 * (1 - calls[0][i] / calls[1][i]));
    }
    (void)printf("of the stream %.0f %%\n", 100 * (1 - streams[0] / streams[1]));
    mem_free(bench->piece);
    mem_free(bench);
    return 0;
}
