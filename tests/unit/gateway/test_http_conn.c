/* Connections as clients see them: order, framing, limits, time. In the simulated world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "gateway/http/conn.h"
#include "tests/lib/fixture_http.h"

#define HOST "Host: s3\r\n"

struct both {
    struct http_fixture fixture;
    struct http_client client;
};

static int setup(void **state)
{
    static struct both both;

    http_fixture_open(&both.fixture, 1, NULL);
    http_client_open(&both.client, &both.fixture);
    *state = &both;
    return 0;
}

static int teardown(void **state)
{
    struct both *both = *state;

    http_client_close(&both->client, &both->fixture);
    http_fixture_close(&both->fixture);
    return 0;
}

static void exchange(struct both *both, struct slice bytes)
{
    http_client_send(&both->client, bytes);
    http_fixture_run(&both->fixture, 3 * SIM_S);
}

static void check_count(const struct both *both, const char *text, uint32_t want)
{
    uint32_t count = http_client_count(&both->client, text);

    if (count != want) {
        fail_msg("\"%s\" %u times instead of %u in: %.*s", text, count, want,
                 (int)(both->client.got.len < 2000 ? both->client.got.len : 2000),
                 both->client.got.data);
    }
}

static size_t body_bytes(const struct both *both)
{
    struct slice got = buffer_slice(&both->client.got);
    size_t at = 0;

    while (at + 4 <= got.len && memcmp(got.data + at, "\r\n\r\n", 4) != 0) {
        at += 1;
    }
    assert_true(at + 4 <= got.len);
    return got.len - at - 4;
}

/* The unread bytes that the only connection holds. */
static size_t held_bytes(const struct both *both)
{
    struct conn *conn = CONTAINER_OF(both->fixture.server->conns.next, struct conn, link);

    return conn->held.capacity + conn->wire.out.capacity + conn->wire.flight.capacity;
}

/* ---- Requests in order ---- */

static const char pipeline[] = "GET /end/3 HTTP/1.1\r\n" HOST "\r\n"
                               "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                               "PUT /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                               "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nt: u\r\n\r\n"
                               "\r\nHEAD /end/4 HTTP/1.1\r\n" HOST "\r\n"
                               "GET /chunked/20 HTTP/1.1\r\n" HOST "\r\n"
                               "GET /end/5 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
                               "GET /never HTTP/1.1\r\n" HOST "\r\n";

static void check_pipeline(const struct both *both)
{
    static const char *in_order[] = {"\r\n\r\nfff",
                                     "\r\n\r\nhello",
                                     "\r\n\r\nabcdefg",
                                     "Content-Length: 4\r\n",
                                     "\r\n\r\n14\r\nffffffffffffffffffff\r\n0\r\n\r\n",
                                     "Connection: close\r\n",
                                     "\r\n\r\nfffff"};
    size_t at = 0;
    struct slice got = buffer_slice(&both->client.got);

    check_count(both, "HTTP/1.1 200 OK\r\n", 6);
    for (size_t i = 0; i < ARRAY_LEN(in_order); i++) {
        struct slice want = slice_str(in_order[i]);

        while (at + want.len <= got.len && memcmp(got.data + at, want.data, want.len) != 0) {
            at += 1;
        }
        assert_true(at + want.len <= got.len);
    }
    assert_int_equal(both->fixture.requests, 6);
    assert_true(both->client.ended);
    assert_int_equal(both->client.end_rc, RC_CLOSED);
}

/* A client that sends ahead gets its replies in order, and nothing after the one that closes. */
static void test_pipelined_requests_are_answered_in_order(void **state)
{
    struct both *both = *state;

    exchange(both, slice_str(pipeline));
    check_pipeline(both);
}

/* How TCP cuts the bytes must not matter. */
static void test_bytes_may_come_one_at_a_time(void **state)
{
    struct both *both = *state;

    sim_net_faults(both->fixture.sim)->pieces = SIM_PIECES_BYTES;
    http_client_send(&both->client, slice_str(pipeline));
    http_fixture_run(&both->fixture, 30 * SIM_S);
    check_pipeline(both);
}

/* Nor how little the kernel takes at a time. */
static void test_writes_may_be_partial(void **state)
{
    struct both *both = *state;

    sim_net_faults(both->fixture.sim)->partial_bytes = 7;
    http_client_send(&both->client, slice_str(pipeline));
    http_fixture_run(&both->fixture, 30 * SIM_S);
    check_pipeline(both);
}

/* HEAD tells the length and sends nothing else, or the client takes the body for the next reply. */
static void test_head_has_no_body(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("HEAD /end/1000 HTTP/1.1\r\n" HOST "\r\n"
                         "HEAD /write/500000 HTTP/1.1\r\n" HOST "\r\n"
                         "HEAD /chunked/70 HTTP/1.1\r\n" HOST "\r\n"));
    check_count(both, "Content-Length: 1000\r\n", 1);
    check_count(both, "Content-Length: 500000\r\n", 1);
    check_count(both, "Transfer-Encoding: chunked\r\n", 1);
    check_count(both, "f", 0 + http_client_count(&both->client, "fer-"));
    check_count(both, "\r\n0\r\n", 0);
    assert_false(both->client.ended);
}

/* Old clients close, or ask not to; what has no length ends with the connection. */
static void test_http_1_0(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("GET /end/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    check_count(both, "Connection: keep-alive\r\n", 1);
    assert_false(both->client.ended);
    exchange(both, SLICE("GET /chunked/20 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    check_count(both, "Transfer-Encoding", 0);
    check_count(both, "Connection: close\r\n\r\nffffffffffffffffffff", 1);
    assert_true(both->client.ended);
}

/* ---- Expect: 100-continue ---- */

/* The body is asked for only by a handler that wants it: a refusal saves the client the upload. */
static void test_continue_is_sent_when_the_body_is_read(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /echo HTTP/1.1\r\n" HOST
                         "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"));
    check_count(both, "HTTP/1.1 100 Continue\r\n\r\n", 1);
    check_count(both, "HTTP/1.1 200", 0);
    exchange(both, SLICE("hello"));
    check_count(both, "HTTP/1.1 200", 1);
    check_count(both, "\r\n\r\nhello", 1);
    assert_false(both->client.ended);
}

/* botocore takes a final reply without it for the reply of all later requests of the connection. */
static void test_continue_is_sent_for_an_empty_body(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /echo HTTP/1.1\r\n" HOST
                         "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n"));
    check_count(both, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200", 1);
    check_count(both, "HTTP/1.1 ", 2);
    assert_false(both->client.ended);
}

static void test_continue_is_not_sent_when_refused(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /refuse HTTP/1.1\r\n" HOST
                         "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"));
    check_count(both, "100 Continue", 0);
    check_count(both, "HTTP/1.1 403", 1);
    check_count(both, "Connection: close\r\n", 1);
    assert_true(both->client.ended);
}

static void test_continue_is_not_sent_to_who_did_not_wait(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /echo HTTP/1.1\r\n" HOST
                         "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"));
    check_count(both, "100 Continue", 0);
    check_count(both, "\r\n\r\nhello", 1);
}

static void test_continue_is_not_sent_in_the_middle(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /echo HTTP/1.1\r\n" HOST
                         "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhe"));
    exchange(both, SLICE("llo"));
    check_count(both, "100 Continue", 0);
    check_count(both, "\r\n\r\nhello", 1);
}

/* ---- What is refused ---- */

/* One empty line before a request is a known slip of old clients; more of them are no request. */
static void test_one_empty_line_is_passed_over(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("\r\n"));
    exchange(both, SLICE("GET /end/3 HTTP/1.1\r\n" HOST "\r\n"));
    check_count(both, "HTTP/1.1 200", 1);
    exchange(both, SLICE("\r"));
    exchange(both, SLICE("\n"));
    exchange(both, SLICE("\r\n"));
    check_count(both, "HTTP/1.1 400", 1);
    assert_true(both->client.ended);
}

/* A head that two servers could read differently ends the connection: nothing after it is looked
 * at. */
static void test_smuggled_requests_are_never_seen(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t requests;
        const char *status;
    } rows[] = {
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n",
         0,                                                                           "400"},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 0\r\n\r\n"
         "GET /end/1 HTTP/1.1\r\n" HOST "\r\n",
         0,                                                                           "400"},
        {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
         "1\r\nZ\r\n0\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n",
         1,                                                                           "400"},
        {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
         "1\nZ\r\n0\r\n\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n",
         1,                                                                           "400"},
        {"GET /end/1 HTTP/1.1\nHost: s3\n\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n",   0, "400"},
        {"\r\n\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n",                            0, "400"},
        {"GET /end/1 HTTP/3.0\r\n" HOST "\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n", 0, "505"},
        {"FOO /end/1 HTTP/1.1\r\n" HOST "\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n", 0, "501"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        void *one = NULL;
        struct both *both;

        assert_int_equal(setup(&one), 0);
        both = one;
        exchange(both, slice_str(rows[i].bytes));
        assert_int_equal(both->fixture.requests, rows[i].requests);
        check_count(both, rows[i].status,
                    1 + http_client_count(&both->client, "bad 400") +
                        http_client_count(&both->client, "bad 505") +
                        http_client_count(&both->client, "bad 501"));
        check_count(both, "HTTP/1.1 200", 0);
        check_count(both, "Connection: close\r\n", 1);
        assert_true(both->client.ended);
        assert_int_equal(teardown(&one), 0);
    }
}

/* Endless heads are cut at their limits and told why. */
static void test_heads_are_bounded(void **state)
{
    struct both *both = *state;
    static char endless[LIMIT_HTTP_HEAD_BYTES + 1];

    memset(endless, 'a', sizeof(endless));
    http_client_send(&both->client, SLICE("GET / HTTP/1.1\r\n" HOST "X: "));
    exchange(both, slice_of(endless, sizeof(endless)));
    check_count(both, "HTTP/1.1 431 ", 1);
    check_count(both, "bad 431", 1);
    assert_true(both->client.ended);
    assert_int_equal(both->fixture.requests, 0);
}

/* More connections than planned for are told so, not left hanging; the others go on. */
static void test_connections_are_bounded(void **state)
{
    struct both *both = *state;
    static struct http_client more[101];
    uint32_t told = 0;

    http_fixture_run(&both->fixture, SIM_S);
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        http_client_open(&more[i], &both->fixture);
    }
    http_fixture_run(&both->fixture, SIM_S);
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        told += more[i].ended ? http_client_count(&more[i], "HTTP/1.1 503") : 0;
    }
    assert_int_equal(told, 2);
    exchange(both, SLICE("GET /end/3 HTTP/1.1\r\n" HOST "\r\n"));
    check_count(both, "HTTP/1.1 200", 1);
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        http_client_close(&more[i], &both->fixture);
    }
}

/* ---- Bodies that nobody reads ---- */

/* A small rest is passed over: the connection serves the next request. */
static void test_small_unread_bodies_are_drained(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("PUT /refuse HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n0123456789"
                         "PUT /refuse HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                         "5\r\n01234\r\n0\r\n\r\n"
                         "GET /end/3 HTTP/1.1\r\n" HOST "\r\n"));
    check_count(both, "HTTP/1.1 403", 2);
    check_count(both, "HTTP/1.1 200", 1);
    assert_false(both->client.ended);
}

/* A large rest is not worth waiting for; but the client must get the reply, not a reset. */
static void test_large_unread_bodies_close(void **state)
{
    struct both *both = *state;
    static char bytes[2 * 1024 * 1024];

    http_client_send(&both->client,
                     SLICE("PUT /refuse HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n"));
    exchange(both, slice_of(bytes, sizeof(bytes)));
    check_count(both, "HTTP/1.1 403", 1);
    check_count(both, "Connection: close\r\n", 1);
    check_count(both, "\r\n\r\nrefused", 1);
    assert_true(both->client.ended);
    assert_int_equal(both->client.end_rc, RC_CLOSED);
}

/* A chunked body has no length to judge by: it is cut when it goes on for too long. */
static void test_endless_unread_chunks_close(void **state)
{
    struct both *both = *state;
    static char data[0x10000];
    struct buffer chunk;

    buffer_init(&chunk);
    buffer_append(&chunk, SLICE("10000\r\n"));
    buffer_append(&chunk, slice_of(data, sizeof(data)));
    buffer_append(&chunk, SLICE("\r\n"));
    http_client_send(&both->client,
                     SLICE("PUT /refuse HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"));
    for (size_t i = 0; i < 10; i++) {
        http_client_send(&both->client, buffer_slice(&chunk));
    }
    buffer_deinit(&chunk);
    http_fixture_run(&both->fixture, 10 * SIM_S);
    check_count(both, "HTTP/1.1 403", 1);
    assert_true(both->client.ended);
}

/* Bytes that no handler asks for stay with the client, all but one read of them. */
static void test_unread_bytes_are_bounded(void **state)
{
    struct both *both = *state;
    static char bytes[2 * 1024 * 1024];

    http_client_send(&both->client,
                     SLICE("PUT /wait HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n"));
    exchange(both, slice_of(bytes, sizeof(bytes)));
    assert_non_null(both->fixture.waiting);
    assert_true(held_bytes(both) <= (size_t)2 * LIMIT_HTTP_READ_BYTES);
    http_fixture_answer(&both->fixture);
}

/* ---- Slow and stopped clients ---- */

/* A reader that stops holds a bounded buffer and is given up; the handler learns of it. */
static void test_stopped_reader_times_out(void **state)
{
    struct both *both = *state;

    http_client_pause(&both->client, true);
    http_fixture_run(&both->fixture, SIM_S);
    http_client_send(&both->client, SLICE("GET /write/3000000 HTTP/1.1\r\n" HOST "\r\n"));
    http_fixture_run(&both->fixture, 10 * SIM_S);
    assert_int_equal(both->fixture.ended, 0);
    assert_true(held_bytes(both) <= LIMIT_HTTP_READ_BYTES);
    http_fixture_run(&both->fixture, (HTTP_FIXTURE_BODY_S + 1) * SIM_S);
    assert_int_equal(both->fixture.ended, 1);
    assert_int_equal(both->fixture.write_rc, RC_TIMEOUT);
    assert_int_equal(both->fixture.hangups, 1);
}

/* A reader that is merely slow gets everything, however long it takes. */
static void test_slow_reader_gets_all(void **state)
{
    struct both *both = *state;

    http_client_send(&both->client, SLICE("GET /write/3000000 HTTP/1.1\r\n" HOST "\r\n"));
    for (size_t i = 0; i < 30; i++) {
        http_client_pause(&both->client, true);
        http_fixture_run(&both->fixture, 15 * SIM_S);
        http_client_pause(&both->client, false);
        http_fixture_run(&both->fixture, SIM_MS);
    }
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(body_bytes(both), 3000000);
    assert_int_equal(both->fixture.hangups, 0);
}

/* Slow is whoever takes 16 KiB in the time allowed: large writes of the handler do not count as
 * one. */
static void test_very_slow_reader_gets_all(void **state)
{
    struct both *both = *state;

    sim_net_faults(both->fixture.sim)->window_bytes = 16384;
    http_client_send(&both->client, SLICE("GET /write/200000 HTTP/1.1\r\n" HOST "\r\n"));
    for (size_t i = 0; i < 20; i++) {
        http_client_pause(&both->client, true);
        http_fixture_run(&both->fixture, 15 * SIM_S);
        http_client_pause(&both->client, false);
        http_fixture_run(&both->fixture, SIM_MS);
    }
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(body_bytes(both), 200000);
    assert_int_equal(both->fixture.hangups, 0);
}

/* A sender that trickles its body is served; one that stops is not waited for. */
static void test_slow_and_stopped_senders(void **state)
{
    struct both *both = *state;

    http_client_send(&both->client,
                     SLICE("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\n"));
    for (size_t i = 0; i < 5; i++) {
        http_client_send(&both->client, SLICE("x"));
        http_fixture_run(&both->fixture, 3 * SIM_S);
    }
    assert_int_equal(both->fixture.ended, 0);
    http_fixture_run(&both->fixture, 6 * SIM_S);
    assert_int_equal(both->fixture.ended, 1);
    assert_int_equal(both->fixture.read_rc, RC_TIMEOUT);
    check_count(both, "HTTP/1.1 400", 1);
    check_count(both, "Connection: close\r\n", 1);
    http_fixture_run(&both->fixture, 5 * SIM_S);
    assert_true(both->client.ended);
}

/* Connections that say nothing are closed silently; a head that never ends is told so. */
static void test_idle_and_head_timeouts(void **state)
{
    struct both *both = *state;
    struct http_client slow;

    http_client_open(&slow, &both->fixture);
    http_client_send(&slow, SLICE("GET / HT"));
    http_fixture_run(&both->fixture, (HTTP_FIXTURE_HEADER_S - 1) * SIM_S);
    assert_false(slow.ended);
    http_client_send(&slow, SLICE("TP/1.1\r\n")); /* more bytes do not give more time */
    http_fixture_run(&both->fixture, 4 * SIM_S);
    assert_true(slow.ended);
    assert_int_equal(http_client_count(&slow, "HTTP/1.1 408"), 1);
    assert_false(both->client.ended);
    http_fixture_run(&both->fixture, HTTP_FIXTURE_IDLE_S * SIM_S);
    assert_true(both->client.ended);
    assert_int_equal(both->client.got.len, 0);
    http_client_close(&slow, &both->fixture);
}

/* One byte now and then must not hold a request, its buffers and a connection for ever; a client
 * that is merely slow is served. */
static void test_trickled_body_times_out(void **state)
{
    struct both *both = *state;
    char piece[2048];

    http_client_send(&both->client,
                     SLICE("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n"));
    memset(piece, 'a', sizeof(piece));
    for (int i = 0; i < 3 * HTTP_FIXTURE_BODY_S; i++) {
        http_client_send(&both->client, slice_of(piece, sizeof(piece)));
        http_fixture_run(&both->fixture, SIM_S);
    }
    assert_false(both->client.ended);
    assert_int_equal(both->fixture.read_rc, RC_OK);
    for (int i = 0; i < HTTP_FIXTURE_BODY_S + 2 && !both->client.ended; i++) {
        http_client_send(&both->client, SLICE("b"));
        http_fixture_run(&both->fixture, SIM_S);
    }
    assert_int_equal(both->fixture.read_rc, RC_TIMEOUT);
}

/* The idle time counts from the last reply. */
static void test_idle_time_begins_again(void **state)
{
    struct both *both = *state;

    for (size_t i = 0; i < 4; i++) {
        exchange(both, SLICE("GET /end/3 HTTP/1.1\r\n" HOST "\r\n"));
        http_fixture_run(&both->fixture, (HTTP_FIXTURE_IDLE_S - 5) * SIM_S);
    }
    assert_false(both->client.ended);
    check_count(both, "HTTP/1.1 200", 4);
    http_fixture_run(&both->fixture, 6 * SIM_S);
    assert_true(both->client.ended);
}

/* ---- Clients that go away ---- */

/* A body cut short must never look whole: it would replace a good object. */
static void test_body_cut_short(void **state)
{
    struct both *both = *state;

    http_client_send(&both->client,
                     SLICE("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n01234"));
    http_client_finish(&both->client);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(both->fixture.read_rc, RC_CLOSED);
    assert_int_equal(both->fixture.body.len, 0);
    check_count(both, "HTTP/1.1 200", 0);
}

static void test_chunked_body_cut_short(void **state)
{
    struct both *both = *state;

    http_client_send(&both->client, SLICE("PUT /echo HTTP/1.1\r\n" HOST
                                          "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n"));
    http_fixture_run(&both->fixture, SIM_S);
    http_client_close(&both->client, &both->fixture);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(both->fixture.read_rc, RC_CLOSED);
    assert_int_equal(both->fixture.ended, 1);
    http_client_open(&both->client, &both->fixture);
}

/* Work for a client that left is wasted: the handler is told while it waits. */
static void test_hangup_is_seen_while_a_reply_waits(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("GET /wait HTTP/1.1\r\n" HOST "\r\n"));
    assert_non_null(both->fixture.waiting);
    http_client_close(&both->client, &both->fixture);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(both->fixture.hangups, 1);
    assert_int_equal(both->fixture.ended, 1);
    http_client_open(&both->client, &both->fixture);
}

/* A client that leaves in the middle of a download ends it. */
static void test_hangup_is_seen_while_writing(void **state)
{
    struct both *both = *state;

    http_client_pause(&both->client, true);
    http_fixture_run(&both->fixture, SIM_S);
    exchange(both, SLICE("GET /write/3000000 HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(both->fixture.ended, 0);
    http_client_close(&both->client, &both->fixture);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_int_equal(both->fixture.ended, 1);
    assert_int_equal(both->fixture.write_rc, RC_CLOSED);
    http_client_open(&both->client, &both->fixture);
}

/* ---- Replies that cannot be finished ---- */

/* Missing bytes must show: the connection is cut before the announced length. */
static void test_unfinished_replies_are_cut(void **state)
{
    static const char *paths[] = {"/abort", "/short"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct both *both;
        void *one = NULL;

        assert_int_equal(setup(&one), 0);
        both = one;
        http_client_send(&both->client, SLICE("GET "));
        http_client_send(&both->client, slice_str(paths[i]));
        exchange(both, SLICE(" HTTP/1.1\r\n" HOST "\r\nGET /end/1 HTTP/1.1\r\n" HOST "\r\n"));
        check_count(both, "Content-Length: 100\r\n", 1);
        assert_true(both->client.ended);
        assert_true(both->client.got.len < 250);
        assert_int_equal(both->fixture.requests, 1);
        assert_int_equal(teardown(&one), 0);
    }
}

/* ---- The end of the server ---- */

static void on_closed(struct http_server *server)
{
    struct http_fixture *fixture = http_server_user(server);

    fixture->closed = true;
    fixture->server = NULL;
}

/* Requests under way are finished, idle connections and new ones are not kept. */
static void test_drain_lets_requests_finish(void **state)
{
    struct both *both = *state;
    struct http_client idle;

    http_client_open(&idle, &both->fixture);
    exchange(both, SLICE("GET /wait HTTP/1.1\r\n" HOST "\r\n"));
    http_server_close(both->fixture.server, 10000, on_closed);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_true(idle.ended);
    assert_false(both->client.ended);
    http_fixture_answer(&both->fixture);
    http_fixture_run(&both->fixture, SIM_S);
    check_count(both, "Connection: close\r\n", 1);
    check_count(both, "at last", 1);
    http_fixture_run(&both->fixture, 3 * SIM_S);
    assert_true(both->fixture.closed);
    http_client_close(&idle, &both->fixture);
}

/* A request that does not end in time does not hold the server. */
static void test_drain_ends(void **state)
{
    struct both *both = *state;

    exchange(both, SLICE("GET /wait HTTP/1.1\r\n" HOST "\r\n"));
    http_server_close(both->fixture.server, 5000, on_closed);
    http_fixture_run(&both->fixture, 4 * SIM_S);
    assert_false(both->fixture.closed);
    http_fixture_run(&both->fixture, 2 * SIM_S);
    assert_true(both->fixture.closed);
    assert_int_equal(both->fixture.hangups, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pipelined_requests_are_answered_in_order),
        TEST(test_bytes_may_come_one_at_a_time),
        TEST(test_writes_may_be_partial),
        TEST(test_head_has_no_body),
        TEST(test_http_1_0),
        TEST(test_continue_is_sent_when_the_body_is_read),
        TEST(test_continue_is_sent_for_an_empty_body),
        TEST(test_continue_is_not_sent_when_refused),
        TEST(test_continue_is_not_sent_to_who_did_not_wait),
        TEST(test_continue_is_not_sent_in_the_middle),
        TEST(test_one_empty_line_is_passed_over),
        cmocka_unit_test(test_smuggled_requests_are_never_seen),
        TEST(test_heads_are_bounded),
        TEST(test_connections_are_bounded),
        TEST(test_small_unread_bodies_are_drained),
        TEST(test_large_unread_bodies_close),
        TEST(test_endless_unread_chunks_close),
        TEST(test_unread_bytes_are_bounded),
        TEST(test_stopped_reader_times_out),
        TEST(test_slow_reader_gets_all),
        TEST(test_very_slow_reader_gets_all),
        TEST(test_slow_and_stopped_senders),
        TEST(test_idle_and_head_timeouts),
        TEST(test_trickled_body_times_out),
        TEST(test_idle_time_begins_again),
        TEST(test_body_cut_short),
        TEST(test_chunked_body_cut_short),
        TEST(test_hangup_is_seen_while_a_reply_waits),
        TEST(test_hangup_is_seen_while_writing),
        cmocka_unit_test(test_unfinished_replies_are_cut),
        TEST(test_drain_lets_requests_finish),
        TEST(test_drain_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
