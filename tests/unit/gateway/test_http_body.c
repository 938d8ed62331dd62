/* A body's end decides where the next request begins: whatever is not plain is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "gateway/http/body.h"

enum { TAKE_BYTES = 3 };

/* Takes the body out of `input`, given in runs of `step` bytes; what it says at the end. */
static enum body_result take(struct slice input, size_t step, bool chunked, uint64_t length,
                             struct buffer *out, struct slice *rest)
{
    struct http_request request = {.chunked = chunked, .has_length = !chunked};
    struct body body;
    enum body_result result = BODY_MORE;
    size_t given = 0;

    request.content_length = length;
    body_init(&body, &request);
    *rest = slice_of(input.data, 0);
    for (;;) {
        char to[TAKE_BYTES];
        size_t got = 0;

        result = body_take(&body, rest, to, sizeof(to), &got);
        buffer_append(out, slice_of(to, got));
        if (result == BODY_END || result == BODY_BAD) {
            return result;
        }
        if (result == BODY_MORE && given == input.len) {
            return BODY_MORE;
        }
        if (result == BODY_MORE) {
            size_t more = input.len - given < step ? input.len - given : step;

            assert_int_equal(rest->len, 0);
            *rest = slice_of(input.data + given, more);
            given += more;
        }
    }
}

static void check(struct slice input, enum body_result want, const char *body, const char *why)
{
    static const size_t steps[] = {1, 2, 7, 4096};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct buffer out;
        struct slice rest;
        enum body_result result;

        buffer_init(&out);
        result = take(input, steps[i], true, 0, &out, &rest);
        if (result != want) {
            fail_msg("%s: %d instead of %d", why, (int)result, (int)want);
        }
        if (want == BODY_END) {
            assert_true(slice_eq_str(buffer_slice(&out), body));
        }
        buffer_deinit(&out);
    }
}

/* Every split into reads gives the same bytes. */
static void test_reads_chunks(void **state)
{
    (void)state;
    check(SLICE("0\r\n\r\n"), BODY_END, "", "empty");
    check(SLICE("5\r\nhello\r\n0\r\n\r\n"), BODY_END, "hello", "one chunk");
    check(SLICE("5\r\nhello\r\nB\r\n, chunks...\r\n000\r\n\r\n"), BODY_END, "hello, chunks...",
          "two");
    check(SLICE("a;name=value;x=\"y\"\r\n0123456789\r\n0;last\r\n\r\n"), BODY_END, "0123456789",
          "extensions");
    check(SLICE("1\r\na\r\n0\r\nx-checksum: 1\r\nother:\r\n\r\n"), BODY_END, "a", "trailers");
    check(SLICE("5\r\nhel"), BODY_MORE, "", "cut in data");
    check(SLICE("5\r\nhello\r\n0\r\n"), BODY_MORE, "", "cut before the end");
}

/* Each of these is read differently by some server. */
static void test_refuses_loose_chunks(void **state)
{
    static const struct {
        struct slice input;
        const char *why;
    } rows[] = {
#define ROW(text, why)                                                                             \
    {                                                                                              \
        {text, sizeof(text) - 1}, \
        why \
},
        ROW("\r\n", "no size") ROW("g\r\n", "not hexadecimal") ROW("0x5\r\nhello\r\n", "prefix")
            ROW("-5\r\nhello\r\n", "sign") ROW(" 5\r\nhello\r\n", "blank before size")
                ROW("5 \r\nhello\r\n", "blank after size") ROW("5\nhello\r\n", "bare LF after size")
                    ROW("5\r\rhello\r\n", "two CR after size") ROW("5\r\nhello\n0\r\n\r\n",
                                                                   "bare LF after data")
                        ROW("5\r\nhelloX\r\n", "longer than its size") ROW("5\r\nhel\r\n0\r\n\r\n",
                                                                           "shorter than its size")
                            ROW("1000000000000000\r\n", "16 digits") ROW(
                                "fffffffffffffffff\r\n", "overflow") ROW("5;a\nb\r\nhello\r\n",
                                                                         "bare LF in extension")
                                ROW("5;a\0b\r\nhello\r\n", "NUL in extension") ROW(
                                    "5;\x01\r\nhello\r\n", "control character in extension")
                                    ROW("5;a\rb\r\n",
                                        "bare CR in extension") ROW("0\r\n\n", "bare LF at the end")
                                        ROW("0\r\nx: y\n\r\n", "bare LF after trailer")
                                            ROW("0\r\n x: y\r\n\r\n", "folded trailer") ROW(
                                                "0\r\nno colon\r\n\r\n", "trailer without colon")
                                                ROW("0\r\n: y\r\n\r\n", "trailer without name")
                                                    ROW("0\r\nx: \0\r\n\r\n", "NUL in trailer")
                                                        ROW("0\r\n\rX", "no LF at the end")
#undef ROW
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check(rows[i].input, BODY_BAD, "", rows[i].why);
    }
}

/* A pipelined request begins right after the body. */
static void test_leaves_what_follows(void **state)
{
    struct buffer out;
    struct slice rest;

    (void)state;
    buffer_init(&out);
    assert_int_equal(take(SLICE("3\r\nabc\r\n0\r\n\r\nGET /"), 4096, true, 0, &out, &rest),
                     BODY_END);
    assert_true(slice_eq_str(rest, "GET /"));
    assert_int_equal(take(SLICE("abcdefghijGET /"), 4096, false, 10, &out, &rest), BODY_END);
    assert_true(slice_eq_str(rest, "GET /"));
    assert_int_equal(take(SLICE("GET /"), 4096, false, 0, &out, &rest), BODY_END);
    assert_true(slice_eq_str(buffer_slice(&out), "abcabcdefghij"));
    assert_int_equal(take(SLICE("abc"), 1, false, 10, &out, &rest), BODY_MORE);
    buffer_deinit(&out);
}

static enum body_result take_repeated(const char *part, size_t times, const char *end)
{
    struct buffer input;
    struct buffer out;
    struct slice rest;
    enum body_result result;

    buffer_init(&input);
    buffer_init(&out);
    for (size_t i = 0; i < times; i++) {
        buffer_append(&input, slice_str(part));
    }
    buffer_append(&input, slice_str(end));
    result = take(buffer_slice(&input), 4096, true, 0, &out, &rest);
    buffer_deinit(&input);
    buffer_deinit(&out);
    return result;
}

/* Framing without data must end some time: it costs us and not the sender. */
static void test_bounds_extensions(void **state)
{
    (void)state;
    assert_int_equal(take_repeated("1;e\r\na\r\n", 1000, "0\r\n\r\n"), BODY_END);
    assert_int_equal(take_repeated("1;0123456789\r\na\r\n", 7000, "0\r\n\r\n"), BODY_BAD);
    assert_int_equal(take_repeated("5;", 1, ""), BODY_MORE);
    assert_int_equal(take_repeated("5;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 40, ""), BODY_BAD);
}

/* Trailers are thrown away, but not without bound. */
static void test_bounds_trailers(void **state)
{
    struct buffer input;
    struct buffer out;
    struct slice rest;

    (void)state;
    buffer_init(&input);
    buffer_init(&out);
    buffer_append(&input, SLICE("0\r\n"));
    for (size_t i = 0; i < LIMIT_TRAILER_BYTES / 4; i++) {
        buffer_append(&input, SLICE("a: bc\r\n"));
    }
    assert_int_equal(take(buffer_slice(&input), 4096, true, 0, &out, &rest), BODY_BAD);
    buffer_deinit(&input);
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_chunks),        cmocka_unit_test(test_refuses_loose_chunks),
        cmocka_unit_test(test_leaves_what_follows), cmocka_unit_test(test_bounds_extensions),
        cmocka_unit_test(test_bounds_trailers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
