/*
 * Body framing. The chunked reader accepts exactly what RFC 9112 7.1 generates: no blanks around
 * the size, CRLF everywhere. Servers that were lenient here have been smuggled through.
 *
 *     SIZE -> EXTENSION -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *                                  -> TRAILER -> TRAILER_LF -> ... -> END_LF -> END
 */
#include "gateway/http/body.h"

#include "common/base/assert.h"
#include "common/base/limits.h"

enum body_state {
    STATE_DATA = 0, /* also the whole of a body with a length */
    STATE_SIZE,
    STATE_EXTENSION,
    STATE_SIZE_LF,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_TRAILER, /* first byte of a trailer line */
    STATE_TRAILER_LINE,
    STATE_TRAILER_LF,
    STATE_END_LF,
    STATE_END,
    STATE_BAD
};

enum {
    SIZE_DIGITS_MAX = 15, /* below 2^60: sizes cannot overflow */
    /* Extensions of all chunks: a client that sends more of them than data only burns our time. */
    EXTENSIONS_BYTES_MAX = 65536
};

void body_init(struct body *body, const struct http_request *request)
{
    *body = (struct body){.chunked = request->chunked};
    if (request->chunked) {
        body->state = STATE_SIZE;
    } else if (request->has_length && request->content_length > 0) {
        body->remaining = request->content_length;
    } else {
        body->state = STATE_END;
    }
}

bool body_ended(const struct body *body)
{
    return body->state == STATE_END;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Field content: no control characters but the tab (RFC 9110 5.5). */
static bool is_text(char c)
{
    unsigned char byte = (unsigned char)c;

    return (byte >= 0x20 && byte != 0x7F) || byte == '\t';
}

static enum body_state size_byte(struct body *body, char c)
{
    int digit = hex_digit(c);

    if (digit >= 0) {
        body->line_bytes += 1;
        body->remaining = body->remaining * 16 + (uint64_t)digit;
        return body->line_bytes <= SIZE_DIGITS_MAX ? STATE_SIZE : STATE_BAD;
    }
    if (body->line_bytes == 0) {
        return STATE_BAD;
    }
    if (c == ';') {
        return STATE_EXTENSION;
    }
    return c == '\r' ? STATE_SIZE_LF : STATE_BAD;
}

static enum body_state extension_byte(struct body *body, char c)
{
    if (c == '\r') {
        return STATE_SIZE_LF;
    }
    body->line_bytes += 1;
    body->extra_bytes += 1;
    return is_text(c) && body->line_bytes <= LIMIT_CHUNK_HEADER_BYTES &&
                   body->extra_bytes <= EXTENSIONS_BYTES_MAX
               ? STATE_EXTENSION
               : STATE_BAD;
}

static enum body_state trailer_start(struct body *body)
{
    body->line_bytes = 0;
    body->colon = false;
    return STATE_TRAILER;
}

static enum body_state size_line_end(struct body *body, char c)
{
    if (c != '\n') {
        return STATE_BAD;
    }
    body->line_bytes = 0;
    if (body->remaining > 0) {
        return STATE_DATA;
    }
    body->extra_bytes = 0;
    return trailer_start(body);
}

/* Trailer fields of the transfer coding are checked for form and passed over (S3's own trailers
 * stand inside aws-chunked bodies). */
static enum body_state trailer_byte(struct body *body, char c)
{
    if (body->state == STATE_TRAILER && c == '\r') {
        return STATE_END_LF;
    }
    if (body->state == STATE_TRAILER && (c == ' ' || c == '\t' || c == ':')) {
        return STATE_BAD;
    }
    if (c == '\r') {
        return body->colon ? STATE_TRAILER_LF : STATE_BAD;
    }
    body->colon = body->colon || c == ':';
    body->extra_bytes += 1;
    return is_text(c) && body->extra_bytes <= LIMIT_TRAILER_BYTES ? STATE_TRAILER_LINE : STATE_BAD;
}

/* One byte of chunked framing. */
static enum body_state framing_byte(struct body *body, char c)
{
    switch ((enum body_state)body->state) {
    case STATE_SIZE:
        return size_byte(body, c);
    case STATE_EXTENSION:
        return extension_byte(body, c);
    case STATE_SIZE_LF:
        return size_line_end(body, c);
    case STATE_DATA_CR:
        return c == '\r' ? STATE_DATA_LF : STATE_BAD;
    case STATE_DATA_LF:
        return c == '\n' ? STATE_SIZE : STATE_BAD;
    case STATE_TRAILER:
    case STATE_TRAILER_LINE:
        return trailer_byte(body, c);
    case STATE_TRAILER_LF:
        return c == '\n' ? trailer_start(body) : STATE_BAD;
    case STATE_END_LF:
        return c == '\n' ? STATE_END : STATE_BAD;
    case STATE_DATA:
    case STATE_END:
    case STATE_BAD:
        break;
    }
    return STATE_BAD;
}

static size_t data_take(struct body *body, struct slice *in, char *to, size_t len)
{
    size_t take = in->len < len ? in->len : len;

    if (body->remaining < take) {
        take = (size_t)body->remaining;
    }
    if (to != NULL) {
        memcpy(to, in->data, take);
    }
    *in = slice_after(*in, take);
    body->remaining -= take;
    if (body->remaining == 0) {
        body->state = body->chunked ? STATE_DATA_CR : STATE_END;
    }
    return take;
}

enum body_result body_take(struct body *body, struct slice *in, void *to, size_t len, size_t *got)
{
    ASSERT(len > 0);
    *got = 0;
    while (in->len > 0 && *got < len && body->state != STATE_END && body->state != STATE_BAD) {
        if (body->state == STATE_DATA) {
            *got += data_take(body, in, to != NULL ? (char *)to + *got : NULL, len - *got);
        } else {
            body->state = framing_byte(body, in->data[0]);
            *in = slice_after(*in, 1);
        }
    }
    if (body->state == STATE_BAD) {
        return BODY_BAD; /* also when data came before: the body is worth nothing */
    }
    if (*got > 0) {
        return BODY_DATA;
    }
    return body->state == STATE_END ? BODY_END : BODY_MORE;
}
