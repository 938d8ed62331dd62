/*
 * llhttp binding: the only file that includes llhttp.h.
 *
 * llhttp sees whole heads only, so each of its spans comes in one piece and points into our copy.
 * It decides about tokens, versions and line ends; the checks here are for what it lets through
 * (llhttp 8.1 joins folded lines, takes a fragment, any Host, and chunked in HTTP/1.0) and for what
 * a message must agree on before its body's end is known (RFC 9112 6.3).
 */
#include "gateway/http/parser.h"

#include <assert.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"

/* Both headers name their methods alike. */
#define HTTP_GET     LLHTTP_GET
#define HTTP_HEAD    LLHTTP_HEAD
#define HTTP_PUT     LLHTTP_PUT
#define HTTP_POST    LLHTTP_POST
#define HTTP_DELETE  LLHTTP_DELETE
#define HTTP_OPTIONS LLHTTP_OPTIONS
#include <llhttp.h>
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_PUT
#undef HTTP_POST
#undef HTTP_DELETE
#undef HTTP_OPTIONS

static_assert(LIMIT_HTTP_TARGET_BYTES < LIMIT_HTTP_HEAD_BYTES, "a head holds its target");

enum {
    BAD_REQUEST = 400,
    URI_TOO_LONG = 414,
    HEADERS_TOO_LARGE = 431,
    NOT_IMPLEMENTED = 501,
    VERSION_NOT_SUPPORTED = 505,
    /* "OPTIONS" and blanks, " HTTP/1.1\r\n": what a request line holds besides its target. */
    REQUEST_LINE_REST_BYTES = 64
};

/* ---- The end of the head ---- */

static int scan_refuse(size_t len, const struct head_scan *scan)
{
    if (scan->lines == 0 && len > LIMIT_HTTP_TARGET_BYTES + REQUEST_LINE_REST_BYTES) {
        return URI_TOO_LONG;
    }
    if (len > LIMIT_HTTP_HEAD_BYTES || scan->lines > LIMIT_HTTP_HEADERS + 1) {
        return HEADERS_TOO_LARGE;
    }
    return 0;
}

size_t head_scan(struct head_scan *scan, struct slice bytes, int *status)
{
    *status = 0;
    while (scan->at < bytes.len) {
        const char *from = bytes.data + scan->at;
        const char *lf = memchr(from, '\n', bytes.len - scan->at);
        size_t end = lf != NULL ? (size_t)(lf - bytes.data) : bytes.len;
        bool folded = scan->lines > 0 && scan->line_at < bytes.len &&
                      (bytes.data[scan->line_at] == ' ' || bytes.data[scan->line_at] == '\t');

        *status = scan_refuse(end, scan);
        if (folded || memchr(from, '\0', end - scan->at) != NULL) {
            *status = BAD_REQUEST;
        }
        if (lf != NULL && (end == scan->line_at || bytes.data[end - 1] != '\r')) {
            *status = BAD_REQUEST; /* a line that ends without CR */
        }
        if (*status != 0) {
            return 0;
        }
        scan->at = end;
        if (lf == NULL) {
            return 0;
        }
        scan->at = end + 1;
        if (end - scan->line_at == 1) { /* the blank line */
            return scan->lines > 0 ? scan->at : (*status = BAD_REQUEST, (size_t)0);
        }
        scan->lines += 1;
        scan->line_at = scan->at;
    }
    return 0;
}

/* ---- llhttp's events ---- */

struct head {
    llhttp_t llhttp;
    struct http_request *request;
    struct slice bytes;
    char *copy; /* where `bytes` lie */
    uint32_t header_max;
    bool complete;
    bool keep_alive;
};

static int on_method(llhttp_t *llhttp, const char *at, size_t len)
{
    struct head *head = llhttp->data;

    head->request->method_name = slice_of(at, len);
    return 0;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
    struct head *head = llhttp->data;

    head->request->target = slice_of(at, len);
    return 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct head *head = llhttp->data;
    struct http_request *request = head->request;

    if (request->header_count == head->header_max) {
        return HPE_USER;
    }
    request->headers[request->header_count] =
        (struct http_header){.name = slice_of(at, len), .value = slice_of(at + len, 0)};
    request->header_count += 1;
    return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct head *head = llhttp->data;
    struct http_request *request = head->request;

    if (request->header_count == 0 || request->headers[request->header_count - 1].value.len > 0) {
        return HPE_USER;
    }
    request->headers[request->header_count - 1].value = slice_of(at, len);
    return 0;
}

/* 1: llhttp takes no body; it is read by body.c when the handler asks. */
static int on_headers_complete(llhttp_t *llhttp)
{
    struct head *head = llhttp->data;

    head->keep_alive = llhttp_should_keep_alive(llhttp) == 1;
    return 1;
}

static int on_message_complete(llhttp_t *llhttp)
{
    struct head *head = llhttp->data;

    head->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_method = on_method,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_message_complete = on_message_complete,
};

/* ---- Our own checks ---- */

static bool is_token_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* llhttp knows a list of methods; another one is unknown (501) if it is a method at all. */
static int refuse_method(struct slice head)
{
    size_t at = 0;

    while (at < head.len && is_token_byte(head.data[at])) {
        at += 1;
    }
    return at > 0 && at < 32 && at < head.len && head.data[at] == ' ' ? NOT_IMPLEMENTED
                                                                      : BAD_REQUEST;
}

/* One blank before the target and one after it: llhttp takes more. */
static bool is_request_line(const struct head *head)
{
    struct slice method = head->request->method_name;
    struct slice target = head->request->target;
    size_t line = slice_find(head->bytes, '\r');

    return method.data == head->bytes.data && target.data == method.data + method.len + 1 &&
           line == method.len + 1 + target.len + sizeof(" HTTP/1.1") - 1;
}

static int check_status(const struct head *head, enum llhttp_errno result)
{
    const struct http_request *request = head->request;

    if (result == HPE_INVALID_METHOD) {
        return refuse_method(head->bytes);
    }
    if (result == HPE_INVALID_VERSION) {
        return VERSION_NOT_SUPPORTED;
    }
    if (!head->complete || (result != HPE_PAUSED && result != HPE_PAUSED_UPGRADE)) {
        return BAD_REQUEST;
    }
    if (head->llhttp.http_major != 1) {
        return VERSION_NOT_SUPPORTED;
    }
    if (head->llhttp.method == HTTP_CONNECT) {
        return NOT_IMPLEMENTED;
    }
    /* llhttp must have stopped exactly where head_scan() did: nothing else may be part of the
     * message. */
    if (llhttp_get_error_pos(&head->llhttp) != head->bytes.data + head->bytes.len ||
        request->target.len == 0) {
        return BAD_REQUEST;
    }
    if (!is_request_line(head)) {
        return BAD_REQUEST;
    }
    return request->target.len > LIMIT_HTTP_TARGET_BYTES ? URI_TOO_LONG : 0;
}

/* Names in lower case (in our copy), values without blanks around them. No blank before a colon,
 * and as many headers as lines. */
static int check_headers(const struct head *head)
{
    struct http_request *request = head->request;

    if (request->header_count != head->header_max) {
        return BAD_REQUEST;
    }
    for (uint32_t i = 0; i < request->header_count; i++) {
        struct http_header *header = &request->headers[i];
        char *name = head->copy + (header->name.data - head->copy);

        if (header->name.len == 0 || name[header->name.len] != ':') {
            return BAD_REQUEST;
        }
        for (size_t j = 0; j < header->name.len; j++) {
            if (name[j] >= 'A' && name[j] <= 'Z') {
                name[j] = (char)(name[j] + ('a' - 'A'));
            }
        }
        header->value = slice_trim(header->value);
    }
    return 0;
}

static bool is_host(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.data[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (c == '\0' || strchr("-._~:[]%", c) == NULL)) {
            return false;
        }
    }
    return host.len > 0;
}

/* RFC 9112 3.2: exactly one Host; HTTP/1.0 may go without. */
static int check_host(const struct http_request *request, struct slice *host)
{
    uint32_t count = http_header_count(request, "host");

    *host = http_header_get(request, "host");
    if (count > 1 || (count == 0 && request->minor > 0)) {
        return BAD_REQUEST;
    }
    return count == 1 && !is_host(*host) ? BAD_REQUEST : 0;
}

/* How long the body is must be beyond doubt: one Content-Length of digits, or one Transfer-Encoding
 * that is "chunked" and nothing else, or neither (RFC 9112 6.1-6.3). */
static int check_framing(struct http_request *request)
{
    uint32_t lengths = http_header_count(request, "content-length");
    uint32_t codings = http_header_count(request, "transfer-encoding");
    struct slice expect = http_header_get(request, "expect");

    if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) {
        return BAD_REQUEST;
    }
    if (lengths == 1) {
        if (!slice_to_u64(http_header_get(request, "content-length"), INT64_MAX,
                          &request->content_length)) {
            return BAD_REQUEST;
        }
        request->has_length = true;
    }
    if (codings == 1) {
        if (request->minor == 0) {
            return BAD_REQUEST;
        }
        if (!slice_eq_nocase(http_header_get(request, "transfer-encoding"), SLICE("chunked"))) {
            return NOT_IMPLEMENTED;
        }
        request->chunked = true;
    }
    /* Other expectations are passed over, as S3 does: clients send empty ones. */
    request->expect_continue = request->minor > 0 && slice_eq_nocase(expect, SLICE("100-continue"));
    return 0;
}

/* "http://host/path" -> "/path". The authority must be the Host: a router before us may have looked
 * at the one, and signatures cover the other. */
static int cut_absolute(struct http_request *request, struct slice host, struct arena *arena)
{
    struct slice target = request->target;
    struct slice rest;
    size_t authority = 0;

    if (target.len > 7 && slice_eq_nocase(slice_of(target.data, 7), SLICE("http://"))) {
        rest = slice_after(target, 7);
    } else if (target.len > 8 && slice_eq_nocase(slice_of(target.data, 8), SLICE("https://"))) {
        rest = slice_after(target, 8);
    } else {
        return BAD_REQUEST;
    }
    while (authority < rest.len && rest.data[authority] != '/' && rest.data[authority] != '?') {
        authority += 1;
    }
    if (host.data != NULL && !slice_eq_nocase(slice_of(rest.data, authority), host)) {
        return BAD_REQUEST;
    }
    rest = slice_after(rest, authority);
    if (rest.len == 0 || rest.data[0] != '/') {
        char *path = arena_alloc_raw(arena, rest.len + 1);

        path[0] = '/';
        if (rest.len > 0) {
            memcpy(path + 1, rest.data, rest.len);
        }
        rest = slice_of(path, rest.len + 1);
    }
    request->target = rest;
    return 0;
}

static int check_target(struct http_request *request, struct slice host, struct arena *arena)
{
    struct slice target = request->target;
    size_t question;

    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.data[i];

        if (c <= 0x20 || c >= 0x7F || c == '#') {
            return BAD_REQUEST;
        }
    }
    if (target.data[0] != '/' && !(request->method == HTTP_OPTIONS && slice_eq_str(target, "*"))) {
        int status = cut_absolute(request, host, arena);

        if (status != 0) {
            return status;
        }
    }
    question = slice_find(request->target, '?');
    request->path = slice_of(request->target.data, question);
    request->query = slice_after(request->target, question + 1);
    return 0;
}

static enum http_method method_of(uint8_t llhttp_method)
{
    switch (llhttp_method) {
    case LLHTTP_GET:
        return HTTP_GET;
    case LLHTTP_HEAD:
        return HTTP_HEAD;
    case LLHTTP_PUT:
        return HTTP_PUT;
    case LLHTTP_POST:
        return HTTP_POST;
    case LLHTTP_DELETE:
        return HTTP_DELETE;
    case LLHTTP_OPTIONS:
        return HTTP_OPTIONS;
    default:
        return HTTP_OTHER;
    }
}

int head_parse(struct slice head_bytes, uint32_t lines, struct arena *arena,
               struct http_request *request)
{
    struct head head = {.request = request, .header_max = lines - 1};
    struct slice host = SLICE_EMPTY;
    int status;

    ASSERT(lines > 0);
    ASSERT(head_bytes.len <= LIMIT_HTTP_HEAD_BYTES);
    *request = (struct http_request){0};
    head.copy = arena_alloc_raw(arena, head_bytes.len);
    memcpy(head.copy, head_bytes.data, head_bytes.len);
    head.bytes = slice_of(head.copy, head_bytes.len);
    request->headers = arena_alloc_raw(arena, (head.header_max + 1) * sizeof(*request->headers));
    llhttp_init(&head.llhttp, HTTP_REQUEST, &settings);
    head.llhttp.data = &head;
    status = check_status(&head, llhttp_execute(&head.llhttp, head.bytes.data, head.bytes.len));
    if (status != 0) {
        return status;
    }
    request->method = method_of(head.llhttp.method);
    request->minor = head.llhttp.http_minor;
    request->keep_alive = head.keep_alive;
    status = check_headers(&head);
    if (status == 0) {
        status = check_host(request, &host);
    }
    if (status == 0) {
        status = check_framing(request);
    }
    return status != 0 ? status : check_target(request, host, arena);
}

/* ---- Looking up ---- */

struct slice http_header_get(const struct http_request *request, const char *name)
{
    struct slice wanted = slice_str(name);

    for (uint32_t i = 0; i < request->header_count; i++) {
        if (slice_eq(request->headers[i].name, wanted)) {
            return request->headers[i].value;
        }
    }
    return SLICE_EMPTY;
}

uint32_t http_header_count(const struct http_request *request, const char *name)
{
    struct slice wanted = slice_str(name);
    uint32_t count = 0;

    for (uint32_t i = 0; i < request->header_count; i++) {
        count += slice_eq(request->headers[i].name, wanted) ? 1 : 0;
    }
    return count;
}
