/*
 * A conversation (hello, calls, a message, a stream) whose connection breaks, is damaged or hears
 * bytes twice, at every single byte of it, each way. Whatever happens: each call completes exactly
 * once, says the truth about what the other side may have done, nobody sees a wrong byte, and
 * afterwards a new connection works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "tests/lib/rpc_pair.h"

enum { CALLS = 5, STREAM_BYTES = 400, TALK_MS = 2000 };

struct talk {
    struct pair pair;
    struct rpc_service service;
    char body[1000];
    struct talk_call {
        struct rpc_call call;
        struct talk *talk;
        uint32_t completed;
        uint32_t served; /* times the server saw it */
    } calls[CALLS];
    uint32_t completed;
    uint64_t carried[2]; /* by the wire, until it was over: to the server, to the client */
    uint32_t messages;
    struct rpc_stream near;
    struct rpc_stream far;
    bool far_open;
    uint32_t near_closes;
    uint32_t far_closes;
    size_t near_got;
    size_t far_got;
    bool wrong;
};

static struct talk *talk_now; /* the server's callbacks find it here: one at a time */

/* ---- Server ---- */

static void talk_on_request(struct rpc_service *service, struct rpc_request *request)
{
    struct talk *talk = CONTAINER_OF(service, struct talk, service);
    struct rpc_reply reply = {.head = request->head, .body = {request->body}, .body_count = 1};
    size_t index = request->head.len == 1 ? (size_t)(unsigned char)request->head.data[0] : CALLS;

    if (index >= CALLS || request->body.len != index * 60 ||
        memcmp(request->body.data, talk->body, request->body.len) != 0) {
        talk->wrong = true;
    } else {
        talk->calls[index].served += 1;
    }
    rpc_reply(request, &reply);
}

static void talk_on_message(struct rpc_service *service, const struct rpc_message *message)
{
    struct talk *talk = CONTAINER_OF(service, struct talk, service);

    talk->wrong = talk->wrong || !slice_eq(message->head, SLICE("note")) ||
                  !slice_eq(message->body, slice_of(talk->body, 70));
    talk->messages += 1;
}

static void far_on_read(struct rpc_stream *stream, struct slice bytes)
{
    struct talk *talk = talk_now;

    talk->wrong = talk->wrong || talk->far_got + bytes.len > STREAM_BYTES ||
                  memcmp(bytes.data, talk->body + talk->far_got, bytes.len) != 0;
    talk->far_got += bytes.len;
    rpc_stream_consumed(stream, bytes.len);
}

static void far_on_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    struct slice back = slice_of(talk_now->body, STREAM_BYTES);

    talk_now->wrong = talk_now->wrong || (rc == RC_OK && talk_now->far_got != STREAM_BYTES) ||
                      (rc == RC_OK && !slice_eq(head, SLICE("over")));
    if (rc == RC_OK) {
        rpc_stream_write(stream, &back, 1);
        rpc_stream_end(stream, SLICE("out"));
    }
}

static void far_on_close(struct rpc_stream *stream)
{
    (void)stream;
    talk_now->far_closes += 1;
}

static enum rc talk_on_stream(struct rpc_service *service, struct rpc_incoming *incoming,
                              const struct rpc_identity *from, struct slice head)
{
    struct talk *talk = CONTAINER_OF(service, struct talk, service);

    (void)from;
    talk->wrong = talk->wrong || !slice_eq(head, SLICE("hear me")) || talk->far_open;
    if (talk->far_open) {
        return RC_EXISTS;
    }
    talk->far_open = true;
    rpc_stream_accept(incoming, &talk->far);
    return RC_OK;
}

/* ---- Client ---- */

static void talk_done(struct rpc_call *call)
{
    struct talk_call *at = CONTAINER_OF(call, struct talk_call, call);

    at->completed += 1;
    at->talk->completed += 1;
    if (call->rc == RC_OK) {
        at->talk->wrong = at->talk->wrong || !slice_eq(call->reply_head, call->head) ||
                          !slice_eq(call->reply_body, call->body[0]);
    }
}

static void near_on_read(struct rpc_stream *stream, struct slice bytes)
{
    struct talk *talk = CONTAINER_OF(stream, struct talk, near);

    talk->wrong = talk->wrong || talk->near_got + bytes.len > STREAM_BYTES ||
                  memcmp(bytes.data, talk->body + talk->near_got, bytes.len) != 0;
    talk->near_got += bytes.len;
    rpc_stream_consumed(stream, bytes.len);
}

static void near_on_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    struct talk *talk = CONTAINER_OF(stream, struct talk, near);

    talk->wrong =
        talk->wrong ||
        (rc == RC_OK && (talk->near_got != STREAM_BYTES || !slice_eq(head, SLICE("out"))));
}

static void near_on_close(struct rpc_stream *stream)
{
    CONTAINER_OF(stream, struct talk, near)->near_closes += 1;
}

static bool talk_over(void *arg)
{
    const struct talk *talk = arg;

    return talk->completed == CALLS && talk->near_closes > 0 &&
           (!talk->far_open || talk->far_closes > 0);
}

static void talk_open(struct talk *talk, const struct pair_options *options,
                      const struct wire_fault *fault)
{
    memset(talk, 0, sizeof(*talk));
    talk_now = talk;
    for (size_t i = 0; i < sizeof(talk->body); i++) {
        talk->body[i] = (char)(i * 11 + i / 256);
    }
    pair_init(&talk->pair, options);
    pair_start(&talk->pair);
    wire_set(talk->pair.wire, fault);
    talk->service.on_request = talk_on_request;
    talk->service.on_message = talk_on_message;
    talk->service.on_stream = talk_on_stream;
    rpc_serve(talk->pair.server, RPC_PROBE_ECHO, &talk->service);
    rpc_serve(talk->pair.server, RPC_PROBE_MESSAGE, &talk->service);
    rpc_serve(talk->pair.server, RPC_PROBE_STREAM, &talk->service);
    talk->far.on_read = far_on_read;
    talk->far.on_end = far_on_end;
    talk->far.on_close = far_on_close;
}

static void talk_begin(struct talk *talk)
{
    static const char numbers[CALLS] = {0, 1, 2, 3, 4};
    struct slice bytes = slice_of(talk->body, STREAM_BYTES);
    struct slice note = slice_of(talk->body, 70);

    for (size_t i = 0; i < CALLS; i++) {
        struct talk_call *at = &talk->calls[i];

        at->talk = talk;
        at->call.method = RPC_PROBE_ECHO;
        at->call.head = slice_of(&numbers[i], 1);
        at->call.body[0] = slice_of(talk->body, i * 60);
        at->call.body_count = 1;
        at->call.timeout_ms = TALK_MS;
        at->call.done = talk_done;
        rpc_call(talk->pair.peer, &at->call);
    }
    (void)rpc_send(talk->pair.peer, RPC_CONTROL, RPC_PROBE_MESSAGE, SLICE("note"), &note, 1);
    talk->near.method = RPC_PROBE_STREAM;
    talk->near.purpose = RPC_CONTROL;
    talk->near.on_read = near_on_read;
    talk->near.on_end = near_on_end;
    talk->near.on_close = near_on_close;
    rpc_stream_open(talk->pair.peer, &talk->near, SLICE("hear me"));
    rpc_stream_write(&talk->near, &bytes, 1);
    rpc_stream_end(&talk->near, SLICE("over"));
}

static bool after_done(void *arg)
{
    return ((struct talk_call *)arg)->completed > 0;
}

/* What must hold whatever happened. Returns how many calls were answered. */
static uint32_t talk_check(struct talk *talk)
{
    struct talk_call after = {.talk = talk};
    struct wire_fault none;
    uint32_t answered = 0;

    assert_true(pair_run(&talk->pair, talk_over, talk, 60000));
    pair_run_for(&talk->pair, 50);
    talk->carried[0] = wire_to_server(talk->pair.wire);
    talk->carried[1] = wire_to_client(talk->pair.wire);
    assert_false(talk->wrong);
    assert_true(talk->messages <= 1 && talk->near_closes == 1);
    assert_int_equal(talk->far_closes, talk->far_open ? 1 : 0);
    for (size_t i = 0; i < CALLS; i++) {
        const struct talk_call *at = &talk->calls[i];
        bool doubt = at->call.rc == RC_AMBIGUOUS || at->call.rc == RC_TIMEOUT;

        assert_int_equal(at->completed, 1);
        assert_true(at->served <= 1); /* never twice */
        assert_true(at->call.rc == RC_OK || at->call.rc == RC_CLOSED || doubt);
        assert_true(at->call.rc != RC_OK || at->served == 1);
        assert_true(at->served == 0 || at->call.taken); /* RC_CLOSED: surely not done */
        answered += at->call.rc == RC_OK;
    }
    wire_fault_none(&none);
    wire_set(talk->pair.wire, &none);
    after.call = talk->calls[0].call;
    after.call.wait_connected = true;
    after.call.timeout_ms = 20000;
    after.call.rc = RC_CLOSED;
    /* The fault may lie in wait at the next byte of this connection: then the next one works. */
    for (int i = 0; i < 2 && after.call.rc != RC_OK; i++) {
        after.completed = 0;
        rpc_call(talk->pair.peer, &after.call);
        assert_true(pair_run(&talk->pair, after_done, &after, 60000));
    }
    assert_int_equal(after.call.rc, RC_OK);
    return answered;
}

struct fault_case {
    size_t field; /* of wire_fault */
    bool to_server;
};

static const struct fault_case fault_cases[] = {
    {offsetof(struct wire_fault, cut_to_server_at),  true },
    {offsetof(struct wire_fault, cut_to_client_at),  false},
    {offsetof(struct wire_fault, flip_to_server_at), true },
    {offsetof(struct wire_fault, flip_to_client_at), false},
    {offsetof(struct wire_fault, insert_at),         true },
};

/* One fault at every `step`-th byte. */
static void talk_through(const struct pair_options *options, const struct fault_case *fault_case,
                         uint64_t step)
{
    struct talk *talk = mem_alloc(sizeof(*talk));
    struct wire_fault fault;
    uint64_t total;
    uint64_t none_answered = 0;

    wire_fault_none(&fault);
    talk_open(talk, options, &fault);
    talk_begin(talk);
    assert_int_equal(talk_check(talk), CALLS);
    total =
        fault_case->to_server ? wire_to_server(talk->pair.wire) : wire_to_client(talk->pair.wire);
    pair_deinit(&talk->pair);
    assert_true(total > 1000);
    for (uint64_t at = 0; at < total; at += step) {
        wire_fault_none(&fault);
        memcpy((char *)&fault + fault_case->field, &at, sizeof(at));
        talk_open(talk, options, &fault);
        talk_begin(talk);
        none_answered += talk_check(talk) == 0;
        pair_deinit(&talk->pair);
    }
    assert_true(none_answered > 0);
    mem_free(talk);
}

static void faults_in(const struct pair_options *options, uint64_t step)
{
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(fault_cases); i++) {
        bool replay = fault_cases[i].field == offsetof(struct wire_fault, insert_at);

        if (replay && !options->tls) {
            continue; /* without TLS a message heard twice is a message */
        }
        talk_through(options, &fault_cases[i], step);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* A link that breaks or lies at any byte leaves no call without an answer, and none with two. */
static void every_byte_plain(void **state)
{
    static const struct pair_options options = {
        .world = PAIR_SIM, .seed = 5, .wire = true, .lazy = true};

    (void)state;
    faults_in(&options, 1);
}

/* TLS lets no damaged, replayed or truncated byte through to us. */
static void every_byte_tls(void **state)
{
    static const struct pair_options options = {
        .world = PAIR_SIM, .seed = 6, .wire = true, .lazy = true, .tls = true};

    (void)state;
    faults_in(&options, 5);
}

/* The same over real sockets, where reads and writes fall as the kernel likes. */
static void some_bytes_on_sockets(void **state)
{
    static const struct pair_options options = {
        .world = PAIR_REAL, .wire = true, .lazy = true, .tls = true};
    struct wire_fault fault;

    (void)state;
    for (uint64_t at = 0; at < 3500; at += 101) {
        struct talk *talk = mem_alloc(sizeof(*talk));

        wire_fault_none(&fault);
        if (at % 2 == 0) {
            fault.cut_to_server_at = at;
        } else {
            fault.cut_to_client_at = at / 2;
        }
        talk_open(talk, &options, &fault);
        talk_begin(talk);
        (void)talk_check(talk);
        pair_deinit(&talk->pair);
        mem_free(talk);
    }
}

/* Connections that are reset at random, bytes in pieces, partial writes: 200 seeds of it. */
static void random_resets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct pair_options options = {
            .world = PAIR_SIM, .seed = seed, .wire = true, .lazy = true, .tls = seed % 10 == 0};
        struct talk *talk = mem_alloc(sizeof(*talk));
        struct wire_fault none;

        wire_fault_none(&none);
        talk_open(talk, &options, &none);
        sim_net_faults(talk->pair.sim)->reset_ppm = (uint32_t)(seed * 500);
        sim_net_faults(talk->pair.sim)->pieces = (enum sim_pieces)(seed % 3);
        sim_net_faults(talk->pair.sim)->partial_bytes = seed % 4 == 0 ? 7 : 0;
        talk_begin(talk);
        assert_true(pair_run(&talk->pair, talk_over, talk, 60000));
        sim_net_faults(talk->pair.sim)->reset_ppm = 0;
        (void)talk_check(talk);
        pair_deinit(&talk->pair);
        mem_free(talk);
    }
}

/* A link that goes dead without a word is noticed by pings, on both sides, and replaced. */
static void a_dead_link_is_noticed(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct pair_options options = {
            .world = PAIR_SIM, .seed = 9, .wire = true, .tls = tls == 1, .idle_ping_ms = 500};
        struct talk *talk = mem_alloc(sizeof(*talk));
        struct rpc_stats stats;
        struct wire_fault none;

        wire_fault_none(&none);
        talk_open(talk, &options, &none);
        pair_run_for(&talk->pair, 5000);
        assert_int_equal(talk->pair.downs, 0); /* idle is not dead */
        wire_hold(talk->pair.wire, true);
        pair_run_for(&talk->pair, 2500);
        assert_int_equal(talk->pair.downs, 1);
        assert_int_equal(talk->pair.why.rc, RC_TIMEOUT);
        rpc_stats(talk->pair.server, &stats);
        assert_int_equal(stats.connections, 1); /* the new one; the dead one is gone */
        wire_hold(talk->pair.wire, false);
        pair_run_for(&talk->pair, 5000);
        assert_true(rpc_peer_up(talk->pair.peer, RPC_CONTROL));
        pair_deinit(&talk->pair);
        mem_free(talk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_plain),       cmocka_unit_test(every_byte_tls),
        cmocka_unit_test(some_bytes_on_sockets),  cmocka_unit_test(random_resets),
        cmocka_unit_test(a_dead_link_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
