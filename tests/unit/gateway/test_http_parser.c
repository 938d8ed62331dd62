/* Every way in which two servers could disagree about where a request ends is refused here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "gateway/http/parser.h"

struct fixture {
    struct arena arena;
    struct http_request request;
};

static int setup(void **state)
{
    static struct fixture fixture;

    arena_init(&fixture.arena);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    arena_deinit(&fixture->arena);
    return 0;
}

/* 0: accepted; 1: more bytes are wanted; otherwise the status. */
static int parse(struct fixture *fixture, struct slice bytes)
{
    struct head_scan scan = {0};
    int status;
    size_t len = head_scan(&scan, bytes, &status);

    if (len == 0) {
        return status != 0 ? status : 1;
    }
    return head_parse(slice_of(bytes.data, len), scan.lines, &fixture->arena, &fixture->request);
}

static void check_slice(struct slice got, const char *want)
{
    assert_true(slice_eq_str(got, want));
}

/* What SDKs send must arrive byte for byte: signatures are computed over it. */
static void test_parses_a_signed_request(void **state)
{
    struct fixture *fixture = *state;
    const struct http_request *request = &fixture->request;

    assert_int_equal(parse(fixture, SLICE("PUT /bucket/a%2Fb?partNumber=1&uploadId=x HTTP/1.1\r\n"
                                          "Host: s3.example:9000\r\n"
                                          "X-Amz-Date:20261130T120000Z\r\n"
                                          "x-amz-meta-name: \t caf\xC3\xA9  x \t\r\n"
                                          "X-Empty:\r\n"
                                          "x-amz-meta-name: second\r\n"
                                          "Content-Length: 12\r\n"
                                          "Expect: 100-Continue\r\n\r\n")),
                     0);
    assert_int_equal(request->method, HTTP_PUT);
    check_slice(request->method_name, "PUT");
    check_slice(request->target, "/bucket/a%2Fb?partNumber=1&uploadId=x");
    check_slice(request->path, "/bucket/a%2Fb");
    check_slice(request->query, "partNumber=1&uploadId=x");
    assert_int_equal(request->header_count, 7);
    check_slice(http_header_get(request, "x-amz-date"), "20261130T120000Z");
    check_slice(http_header_get(request, "x-amz-meta-name"), "caf\xC3\xA9  x");
    check_slice(request->headers[4].value, "second");
    assert_non_null(http_header_get(request, "x-empty").data);
    assert_int_equal(http_header_get(request, "x-empty").len, 0);
    assert_null(http_header_get(request, "absent").data);
    assert_int_equal(http_header_count(request, "x-amz-meta-name"), 2);
    assert_true(request->has_length && request->expect_continue && request->keep_alive);
    assert_int_equal(request->content_length, 12);
    assert_false(request->chunked);
    assert_int_equal(request->minor, 1);
}

/* Proxies send the absolute form; the handler sees the origin form, and only if both names agree.
 */
static void test_cuts_the_absolute_form(void **state)
{
    static const struct {
        const char *target;
        int status;
        const char *path;
        const char *query;
    } rows[] = {
        {"http://h:80/a?b", 0,   "/a",              "b"  },
        {"HTTPS://H:80/a",  0,   "/a",              ""   },
        {"http://h:80",     0,   "/",               ""   },
        {"http://h:80?x=1", 0,   "/",               "x=1"},
        {"http://other/a",  400, NULL,              NULL },
        {"ftp://h:80/a",    400, NULL,              NULL },
        {"http:///a",       400, NULL,              NULL },
        {"h:80",            400, NULL,              NULL },
        {"*",               400, NULL,              NULL },
        {"/a#b",            400, NULL,              NULL },
        {"/a?",             0,   "/a",              ""   },
        {"//a",             0,   "//a",             ""   },
        {"/a\"<>{}|^`\\'b", 0,   "/a\"<>{}|^`\\'b", ""   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *fixture = *state;
        struct slice head =
            arena_printf(&fixture->arena, "GET %s HTTP/1.1\r\nHost: h:80\r\n\r\n", rows[i].target);

        assert_int_equal(parse(fixture, head), rows[i].status);
        if (rows[i].status == 0) {
            check_slice(fixture->request.path, rows[i].path);
            check_slice(fixture->request.query, rows[i].query);
        }
    }
}

#define START "POST / HTTP/1.1\r\nHost: h\r\n"
#define END   "\r\n\r\n"

static const struct {
    struct slice head;
    int status;
    const char *why;
} refusals[] = {
#define REFUSE(text, status, why)                                                                  \
    {                                                                                              \
        {text, sizeof(text) - 1}, \
        status, why \
    },
    REFUSE(START "Content-Length: 5\r\nTransfer-Encoding: chunked" END, 400,
           "length and chunked") REFUSE(START "Transfer-Encoding: chunked\r\nContent-Length: 5" END,
                                        400, "chunked and length")
        REFUSE(START "Content-Length: 5\r\nContent-Length: 5" END, 400, "same length twice") REFUSE(
            START "Content-Length: 5\r\nContent-Length: 6" END, 400,
            "two lengths") REFUSE(START "Content-Length: 5, 5" END, 400, "list of lengths")
            REFUSE(START "Content-Length: +5" END, 400, "signed length") REFUSE(
                START "Content-Length: -5" END, 400,
                "negative length") REFUSE(START "Content-Length: 0x5" END, 400,
                                          "hexadecimal length") REFUSE(START
                                                                       "Content-Length: 5 5" END,
                                                                       400, "blank in length")
                REFUSE(START "Content-Length:" END, 400, "empty length") REFUSE(
                    START "Content-Length: 9223372036854775808" END, 400, "length beyond 63 bits")
                    REFUSE(START "Content-Length: 18446744073709551617" END, 400,
                           "length beyond 64 bits") REFUSE(START
                                                           "Transfer-Encoding: gzip, chunked" END,
                                                           501, "coding before chunked")
                        REFUSE(START "Transfer-Encoding: chunked, chunked" END, 400,
                               "chunked twice") REFUSE(START
                                                       "Transfer-Encoding: chunked, identity" END,
                                                       400, "coding after chunked")
                            REFUSE(START "Transfer-Encoding: xchunked" END, 501,
                                   "no known coding") REFUSE(START
                                                             "Transfer-Encoding: chunked;q=1" END,
                                                             501, "coding with parameter")
                                REFUSE(START "Transfer-Encoding: \"chunked\"" END, 501,
                                       "coding in quotes") REFUSE(START
                                                                  "Transfer-Encoding: identity" END,
                                                                  501, "identity")
                                    REFUSE(START "Transfer-Encoding:" END, 501, "empty coding")
                                        REFUSE(START "Transfer-Encoding: "
                                                     "chunked\r\nTransfer-Encoding: identity" END,
                                               400, "two codings")
                                            REFUSE(START "Transfer-Encoding: \x0b"
                                                         "chunked" END,
                                                   400, "vertical tab before chunked")
                                                REFUSE(START "Transfer-Encoding : chunked" END, 400,
                                                       "blank before colon")
                                                    REFUSE(START "Content-Length : 5" END, 400,
                                                           "blank before colon of length")
                                                        REFUSE(START "Content-Length\t: 5" END, 400,
                                                               "tab before colon")
                                                            REFUSE(START " Content-Length: 5" END,
                                                                   400, "blank before name")
                                                                REFUSE(START "X: a\r\n b" END, 400,
                                                                       "folded line") REFUSE(START "X: a\r\n\tb" END, 400, "folded line with tab") REFUSE(START "Transfer-Encoding:\r\n chunked" END, 400, "folded coding") REFUSE(START "X: a\nContent-Length: 5" END, 400, "bare LF between headers") REFUSE("POST / HTTP/1.1\nHost: h\r\n\r\n", 400, "bare LF after request line") REFUSE(START "X: a\r\n\n", 400, "bare LF as blank line") REFUSE(START "X: a\rContent-Length: 5" END, 400, "bare CR") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "X: a\r\rContent-Length: 5" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  400, "two CR") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "X: a\0b" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        400, "NUL in value") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "X\0: a" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    400, "NUL in name") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "X: a\x01"
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "b" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "control character in value") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "X: a\x7f" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "DEL in value") REFUSE(START "X(y): a" END, 400, "name that is no token") REFUSE(START ": a" END, 400, "empty name") REFUSE(START
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "no colon here" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "line without colon") REFUSE(START "Caf\xC3\xA9: x" END, 400, "name that is not ASCII") REFUSE("POST / HTTP/1.1\r\nX: a" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "no Host") REFUSE("POST / HTTP/1.1\r\nHost: a\r\nHost: a" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "Host twice") REFUSE("POST / HTTP/1.1\r\nHost: a\r\nhost: b" END, 400, "two Hosts") REFUSE("POST / HTTP/1.1\r\nHost:" END, 400, "empty Host") REFUSE("POST / HTTP/1.1\r\nHost: a, b" END, 400, "list of Hosts") REFUSE("POST / HTTP/1.1\r\nHost: a/b" END, 400, "Host with path") REFUSE("POST / HTTP/1.1\r\nHost: u@a" END, 400, "Host with user") REFUSE("POST / HTTP/1.0\r\nTransfer-Encoding: chunked" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            "chunked in 1.0") REFUSE("GET /caf\xC3\xA9 HTTP/1.1\r\nHost: h" END, 400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     "raw UTF-8 target") REFUSE("GET /a\x01 HTTP/1.1\r\nHost: h" END, 400, "control character in target") REFUSE("GET /a\tb HTTP/1.1\r\nHost: h" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "tab in target") REFUSE("GET /a b HTTP/1.1\r\nHost: h" END, 400, "blank in target") REFUSE("GET  / HTTP/1.1\r\nHost: h" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            400,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            "two blanks before target") REFUSE("GET /  HTTP/1.1\r\nHost: h" END, 400, "two blanks after target") REFUSE("GET / HTTP/1.1 \r\nHost: h" END,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        505,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "blank after version")
                                                                    REFUSE("GET\t/ "
                                                                           "HTTP/1.1\r\nHost: "
                                                                           "h" END,
                                                                           400,
                                                                           "tab after method") REFUSE(" GET / HTTP/1.1\r\nHost: h" END,
                                                                                                      400,
                                                                                                      "blank before method") REFUSE("GET /a\0b HTTP/1.1\r\nHost: h" END, 400, "NUL in target")
                                                                        REFUSE("GET /\r\nHost: "
                                                                               "h" END,
                                                                               505,
                                                                               "HTTP/0.9") REFUSE("GET / HTTP/0.9\r\nHost: h" END,
                                                                                                  505,
                                                                                                  "version 0.9")
                                                                            REFUSE("GET / "
                                                                                   "HTTP/"
                                                                                   "2.0\r\nHost: "
                                                                                   "h" END,
                                                                                   505,
                                                                                   "version 2.0")
                                                                                REFUSE(
                                                                                    "GET / "
                                                                                    "HTTP/"
                                                                                    "1."
                                                                                    "9\r\nHost: "
                                                                                    "h" END,
                                                                                    505,
                                                                                    "version "
                                                                                    "1.9") REFUSE("GET / HTTP/11\r\nHost: h" END,
                                                                                                  505,
                                                                                                  "version without point")
                                                                                    REFUSE(
                                                                                        "GET / "
                                                                                        "HTTP/"
                                                                                        "1."
                                                                                        "10\r\nHost"
                                                                                        ": h" END,
                                                                                        505,
                                                                                        "version "
                                                                                        "of three "
                                                                                        "digits") REFUSE("GET / http/1.1\r\nHost: h" END,
                                                                                                         400, "version in lower case")
                                                                                        REFUSE(
                                                                                            "PRI * "
                                                                                            "HTTP/"
                                                                                            "2."
                                                                                            "0\r\n"
                                                                                            "\r\n",
                                                                                            400,
                                                                                            "HTTP/"
                                                                                            "2 "
                                                                                            "prefac"
                                                                                            "e") REFUSE("CONNECT h:80 HTTP/1.1\r\nHost: h:80" END, 501, "CONNECT")
                                                                                            REFUSE(
                                                                                                "BR"
                                                                                                "EW"
                                                                                                " /"
                                                                                                " H"
                                                                                                "TT"
                                                                                                "P/"
                                                                                                "1."
                                                                                                "1"
                                                                                                "\r"
                                                                                                "\n"
                                                                                                "Ho"
                                                                                                "st"
                                                                                                ": "
                                                                                                "h" END,
                                                                                                501,
                                                                                                "un"
                                                                                                "kn"
                                                                                                "ow"
                                                                                                "n "
                                                                                                "me"
                                                                                                "th"
                                                                                                "o"
                                                                                                "d")
                                                                                                REFUSE(
                                                                                                    "get / HTTP/1.1\r\nHost: h" END,
                                                                                                    501,
                                                                                                    "method in lower case")
                                                                                                    REFUSE(
                                                                                                        "G(T / HTTP/1.1\r\nHost: h" END,
                                                                                                        400,
                                                                                                        "method that is no token")
                                                                                                        REFUSE(
                                                                                                            "\x16\x03\x01\x02\r\n\r\n",
                                                                                                            400,
                                                                                                            "TLS on a plain port")
#undef REFUSE
};

static void test_refuses_what_could_be_read_differently(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        int status = parse(*state, refusals[i].head);

        if (status != refusals[i].status) {
            fail_msg("%s: %d instead of %d", refusals[i].why, status, refusals[i].status);
        }
    }
}

/* What the table above refuses differs from these by one detail each. */
static void test_accepts_the_neighbours_of_refusals(void **state)
{
    static const char *heads[] = {
        START "Content-Length: 5" END,
        START "Content-Length: 0005 " END,
        START "Content-Length: 9223372036854775807" END,
        START "transfer-encoding: Chunked" END,
        START "X: a\tb" END,
        START "X:a" END,
        START "Upgrade: websocket\r\nConnection: upgrade" END,
        START "Expect: 200-ok" END,
        START "Expect:" END,
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]:9000" END,
        "OPTIONS * HTTP/1.1\r\nHost: h" END,
        "PATCH / HTTP/1.1\r\nHost: h" END,
    };

    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        int status = parse(*state, slice_str(heads[i]));

        if (status != 0) {
            fail_msg("%s: %d", heads[i], status);
        }
    }
}

/* The connection's fate: 1.1 stays open, 1.0 closes, either can ask for the other. */
static void test_decides_about_keep_alive(void **state)
{
    static const struct {
        const char *head;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n",                          true },
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",     false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: TE, Close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n",                                     false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",           true },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *fixture = *state;

        assert_int_equal(parse(fixture, slice_str(rows[i].head)), 0);
        assert_int_equal(fixture->request.keep_alive, rows[i].keep_alive);
    }
}

/* A head may come in any pieces; the answer must not depend on them. */
static void test_finds_the_end_byte_by_byte(void **state)
{
    static const char head[] = "GET /k HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\nGET /next";
    const size_t len = sizeof(head) - 1 - sizeof("GET /next") + 1;
    struct head_scan scan = {0};
    int status = 0;

    (void)state;
    for (size_t i = 1; i < len; i++) {
        assert_int_equal(head_scan(&scan, slice_of(head, i), &status), 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(head_scan(&scan, slice_of(head, len), &status), len);
    assert_int_equal(scan.lines, 3);
    scan = (struct head_scan){0};
    assert_int_equal(head_scan(&scan, slice_of(head, sizeof(head) - 1), &status), len);
}

static int parse_sized(struct fixture *fixture, size_t target, size_t headers, size_t value)
{
    struct buffer head;
    int status;

    buffer_init(&head);
    buffer_append(&head, SLICE("GET /"));
    memset(buffer_reserve(&head, target), 'a', target);
    head.len += target;
    buffer_append(&head, SLICE(" HTTP/1.1\r\nHost: h\r\n"));
    for (size_t i = 0; i < headers; i++) {
        buffer_printf(&head, "X-%zu: ", i);
        memset(buffer_reserve(&head, value), 'v', value);
        head.len += value;
        buffer_append(&head, SLICE("\r\n"));
    }
    buffer_append(&head, SLICE("\r\n"));
    status = parse(fixture, buffer_slice(&head));
    buffer_deinit(&head);
    return status;
}

/* Memory per connection is bounded by these three limits, and clients are told which one they hit.
 */
static void test_bounds_the_head(void **state)
{
    struct fixture *fixture = *state;
    struct head_scan scan = {0};
    static char endless[LIMIT_HTTP_HEAD_BYTES];
    int status = 0;

    assert_int_equal(parse_sized(fixture, LIMIT_HTTP_TARGET_BYTES - 1, 1, 1), 0);
    assert_int_equal(parse_sized(fixture, LIMIT_HTTP_TARGET_BYTES, 1, 1), 414);
    assert_int_equal(parse_sized(fixture, LIMIT_HTTP_HEAD_BYTES + 1, 1, 1), 414);
    assert_int_equal(parse_sized(fixture, 1, LIMIT_HTTP_HEADERS - 1, 1), 0);
    assert_int_equal(parse_sized(fixture, 1, LIMIT_HTTP_HEADERS, 1), 431);
    assert_int_equal(parse_sized(fixture, 1, 1, LIMIT_HTTP_HEAD_BYTES - 100), 0);
    assert_int_equal(parse_sized(fixture, 1, 1, LIMIT_HTTP_HEAD_BYTES), 431);
    memset(endless, 'a', sizeof(endless));
    assert_int_equal(head_scan(&scan, slice_of(endless, sizeof(endless)), &status), 0);
    assert_int_equal(status, 414);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parses_a_signed_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cuts_the_absolute_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_what_could_be_read_differently, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_accepts_the_neighbours_of_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decides_about_keep_alive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finds_the_end_byte_by_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_the_head, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
