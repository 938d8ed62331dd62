/* Heads of replies: dates that clients parse, and no way to smuggle a header line into them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/http/response.h"

/* Caches compare dates; a wrong weekday or leap day makes some clients refuse the reply. */
static void test_dates(void **state)
{
    static const struct {
        uint64_t second;
        const char *text;
    } rows[] = {
        {0,          "Thu, 01 Jan 1970 00:00:00 GMT"},
        {951782399,  "Mon, 28 Feb 2000 23:59:59 GMT"},
        {951782400,  "Tue, 29 Feb 2000 00:00:00 GMT"},
        {1077926399, "Fri, 27 Feb 2004 23:59:59 GMT"},
        {1709251199, "Thu, 29 Feb 2024 23:59:59 GMT"},
        {1709251200, "Fri, 01 Mar 2024 00:00:00 GMT"},
        {1796040000, "Mon, 30 Nov 2026 12:00:00 GMT"},
        {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
        {4107542399, "Sun, 28 Feb 2100 23:59:59 GMT"},
    };
    struct http_date date = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice text = http_date_get(&date, rows[i].second * 1000000000 + 999999999);

        assert_true(slice_eq_str(text, rows[i].text));
    }
}

static void check_head(const struct response_head *head, const char *want)
{
    struct buffer to;

    buffer_init(&to);
    response_head_put(&to, head);
    buffer_append_byte(&to, '\0');
    assert_string_equal(to.data, want);
    buffer_deinit(&to);
}

static void test_heads(void **state)
{
    const struct http_header header = {.name = SLICE("ETag"), .value = SLICE("\"x\"")};
    struct response_head head = {
        .status = 200, .minor = 1, .content_length = 5, .headers = &header, .header_count = 1};

    (void)state;
    head.date = SLICE("D");
    check_head(&head, "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n");
    head.minor = 0;
    head.content_length = INT64_MAX;
    check_head(&head, "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 9223372036854775807\r\n"
                      "Connection: keep-alive\r\nETag: \"x\"\r\n\r\n");
    head.close = true;
    head.content_length = -1;
    head.header_count = 0;
    head.status = 299;
    check_head(&head, "HTTP/1.1 299 \r\nDate: D\r\nConnection: close\r\n\r\n");
    head.chunked = true;
    head.status = 206;
    check_head(&head, "HTTP/1.1 206 Partial Content\r\nDate: D\r\nTransfer-Encoding: chunked\r\n"
                      "Connection: close\r\n\r\n");
}

/* response-content-disposition and stored metadata are the client's: a line end in them must not
 * begin a header of its own. */
static void test_control_characters_cannot_split_a_head(void **state)
{
    const struct http_header header = {
        .name = SLICE("X"), .value = SLICE("12345678a\r\nSet-Cookie: y\0\x7f\tend\n caf\xC3\xA9")};
    struct response_head head = {
        .status = 200, .minor = 1, .content_length = 0, .headers = &header, .header_count = 1};

    (void)state;
    check_head(&head, "HTTP/1.1 200 OK\r\nDate: \r\nContent-Length: 0\r\n"
                      "X: 12345678a  Set-Cookie: y  \tend  caf\xC3\xA9\r\n\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_control_characters_cannot_split_a_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
