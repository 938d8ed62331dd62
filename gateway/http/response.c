/* Reply heads. One reservation, then plain copies: this runs once for every request. */
#include "gateway/http/response.h"

#include <string.h>

#include "common/base/assert.h"

struct status_line {
    int status;
    struct slice line;
};

/* What S3 answers with; anything else gets a line without a phrase. */
static const struct status_line lines[] = {
#define LINE(status, text)                                                                         \
    {                                                                                              \
        status,                                                                                    \
        {"HTTP/1.1 " #status " " text "\r\n", sizeof("HTTP/1.1 " #status " " text "\r\n") - 1} \
},
    LINE(200, "OK") LINE(206, "Partial Content") LINE(204, "No Content") LINE(304, "Not Modified")
        LINE(404, "Not Found") LINE(403, "Forbidden") LINE(400, "Bad Request")
            LINE(412, "Precondition Failed") LINE(409, "Conflict")
                LINE(416, "Requested Range Not Satisfiable") LINE(503, "Service Unavailable") LINE(
                    201, "Created") LINE(202, "Accepted") LINE(301, "Moved Permanently")
                    LINE(302, "Found") LINE(303, "See Other") LINE(307, "Temporary Redirect") LINE(
                        308, "Permanent Redirect") LINE(401, "Unauthorized")
                        LINE(405, "Method Not Allowed") LINE(406, "Not Acceptable") LINE(
                            408, "Request Timeout") LINE(410, "Gone") LINE(411, "Length Required")
                            LINE(413, "Content Too Large") LINE(414, "URI Too Long") LINE(
                                415, "Unsupported Media Type") LINE(417, "Expectation Failed")
                                LINE(422, "Unprocessable Content") LINE(429, "Too Many Requests")
                                    LINE(431, "Request Header Fields Too Large")
                                        LINE(500, "Internal Server Error")
                                            LINE(501, "Not Implemented") LINE(502, "Bad Gateway")
                                                LINE(504, "Gateway Timeout")
                                                    LINE(505, "HTTP Version Not Supported")
                                                        LINE(507, "Insufficient Storage")
#undef LINE
};

/* ---- Date ---- */

static void put_two(char *at, uint64_t value)
{
    at[0] = (char)('0' + value / 10 % 10);
    at[1] = (char)('0' + value % 10);
}

/* Days since 1970 -> year, month 1..12, day (civil calendar by 400-year eras that begin in March).
 */
static void date_put_day(char *text, uint64_t days)
{
    static const char weekdays[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t shifted = days + 719468;
    uint64_t era = shifted / 146097;
    uint64_t day_of_era = shifted % 146097;
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t shifted_month = (5 * day_of_year + 2) / 153;
    uint64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    uint64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
    uint64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);

    memcpy(text, weekdays + 3 * (days % 7), 3);
    put_two(text + 5, day);
    memcpy(text + 8, months + 3 * (month - 1), 3);
    put_two(text + 12, year / 100);
    put_two(text + 14, year);
}

struct slice http_date_get(struct http_date *date, uint64_t wall_ns)
{
    uint64_t second = wall_ns / 1000000000;

    if (second != date->second || date->text[0] == '\0') {
        uint64_t of_day = second % 86400;

        memcpy(date->text, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_BYTES + 1);
        date_put_day(date->text, second / 86400);
        put_two(date->text + 17, of_day / 3600);
        put_two(date->text + 20, of_day / 60 % 60);
        put_two(date->text + 23, of_day % 60);
        date->second = second;
    }
    return slice_of(date->text, HTTP_DATE_BYTES);
}

/* ---- Head ---- */

static char *put(char *at, struct slice bytes)
{
    if (bytes.len > 0) {
        memcpy(at, bytes.data, bytes.len);
    }
    return at + bytes.len;
}

/* Copies, and turns control characters into blanks: eight bytes at a time while there are none. */
static char *put_field(char *at, struct slice bytes)
{
    const uint64_t ones = 0x0101010101010101ULL;
    const uint64_t highs = 0x8080808080808080ULL;
    size_t i = 0;

    for (; bytes.len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, bytes.data + i, sizeof(word));
        if (((word - ones * 0x20) & ~word & highs) != 0) {
            break;
        }
        memcpy(at + i, &word, sizeof(word));
    }
    for (; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.data[i];

        at[i] = (c < 0x20 && c != '\t') || c == 0x7F ? ' ' : bytes.data[i];
    }
    return at + bytes.len;
}

static char *put_status(char *at, int status)
{
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (lines[i].status == status) {
            return put(at, lines[i].line);
        }
    }
    at = put(at, SLICE("HTTP/1.1 "));
    *at++ = (char)('0' + status / 100);
    put_two(at, (uint64_t)status % 100);
    return put(at + 2, SLICE(" \r\n"));
}

static char *put_length(char *at, uint64_t value)
{
    char digits[20];
    size_t from = sizeof(digits);

    do {
        from -= 1;
        digits[from] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    at = put(at, SLICE("Content-Length: "));
    at = put(at, slice_of(digits + from, sizeof(digits) - from));
    return put(at, SLICE("\r\n"));
}

static size_t head_bytes_max(const struct response_head *head)
{
    size_t bytes = 256; /* status line and our own headers */

    for (size_t i = 0; i < head->header_count; i++) {
        bytes += head->headers[i].name.len + head->headers[i].value.len + 4;
    }
    return bytes;
}

void response_head_put(struct buffer *to, const struct response_head *head)
{
    char *at = buffer_reserve(to, head_bytes_max(head));

    ASSERT(head->status >= 100 && head->status <= 999);
    at = put_status(at, head->status);
    at = put(at, SLICE("Date: "));
    at = put(at, head->date);
    at = put(at, SLICE("\r\n"));
    if (head->chunked) {
        at = put(at, SLICE("Transfer-Encoding: chunked\r\n"));
    } else if (head->content_length >= 0) {
        at = put_length(at, (uint64_t)head->content_length);
    }
    if (head->close) {
        at = put(at, SLICE("Connection: close\r\n"));
    } else if (head->minor == 0) {
        at = put(at, SLICE("Connection: keep-alive\r\n"));
    }
    for (size_t i = 0; i < head->header_count; i++) {
        at = put_field(at, head->headers[i].name);
        at = put(at, SLICE(": "));
        at = put_field(at, head->headers[i].value);
        at = put(at, SLICE("\r\n"));
    }
    at = put(at, SLICE("\r\n"));
    to->len = (size_t)(at - to->data);
}
