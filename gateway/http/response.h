/* Formats the head of a reply. Any thread; a date belongs to one loop. */
#ifndef GATEWAY_HTTP_RESPONSE_H
#define GATEWAY_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "gateway/http/http.h"

enum { HTTP_DATE_BYTES = 29 };

/* "Mon, 30 Nov 2026 12:00:00 GMT" of the current second: formatted once a second. Zeroed before
 * use. */
struct http_date {
    /* Private. */
    uint64_t second;
    char text[HTTP_DATE_BYTES + 1];
};

struct slice http_date_get(struct http_date *date, uint64_t wall_ns);

struct response_head {
    int status;
    unsigned minor; /* of the request: 1.0 is told when the connection stays open */
    bool close;
    bool chunked;
    int64_t content_length; /* -1: not announced */
    const struct http_header *headers;
    size_t header_count;
    struct slice date;
};

/* Appends status line, Date, length or coding, Connection, the headers, and the blank line. Bytes
 * that would end a header line (from stored metadata or from parameters of the request) go out as
 * blanks. */
void response_head_put(struct buffer *to, const struct response_head *head);

/* Replies of these kinds have no body, whatever the request (RFC 9110 6.4.1). */
static inline bool response_is_bodiless(int status)
{
    return status == 204 || status == 304 || (status >= 100 && status < 200);
}

#endif
