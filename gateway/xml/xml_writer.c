/*
 * XML text from elements and values. A listing of 1,000 keys is 300 KB, so runs of harmless bytes
 * are found eight at a time and copied whole.
 */
#include "gateway/xml/xml_writer.h"

#include <string.h>

#include "common/base/assert.h"

#define ONES  0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

static const struct slice replacement = {"\xEF\xBF\xBD", 3}; /* U+FFFD */

/* A high bit is set in some byte if any of the eight bytes may need a look: below 0x20, one of & <
 * > " or not ASCII. May err towards "look", never away from it. */
static uint64_t escape_suspects(uint64_t word)
{
    uint64_t control = word - ONES * 0x20;
    uint64_t quote = (word ^ (ONES * '"')) - ONES;
    uint64_t ampersand = (word ^ (ONES * '&')) - ONES;
    /* '<' (0x3C) and '>' (0x3E) differ in one bit. */
    uint64_t angle = ((word | (ONES * 2)) ^ (ONES * '>')) - ONES;

    return (control | quote | ampersand | angle | word) & HIGHS;
}

static bool escape_harmless(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '&' && c != '<' && c != '>' && c != '"';
}

/* Bytes at the start of `text` that are copied as they are. */
static size_t escape_run(const char *text, size_t len)
{
    size_t at = 0;

    for (;;) {
        while (len - at >= sizeof(uint64_t)) {
            uint64_t word;

            memcpy(&word, text + at, sizeof(word));
            if (escape_suspects(word) != 0) {
                break;
            }
            at += sizeof(word);
        }
        for (size_t end = at + sizeof(uint64_t); at < end; at++) {
            if (at == len || !escape_harmless((unsigned char)text[at])) {
                return at;
            }
        }
    }
}

/* Length of the well-formed UTF-8 sequence at `text`, 0 if there is none (RFC 3629). */
static size_t utf8_len(const unsigned char *text, size_t len)
{
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t need;

    if (text[0] >= 0xC2 && text[0] <= 0xDF) {
        need = 2;
    } else if (text[0] >= 0xE0 && text[0] <= 0xEF) {
        need = 3;
        low = text[0] == 0xE0 ? 0xA0 : low;
        high = text[0] == 0xED ? 0x9F : high;
    } else if (text[0] >= 0xF0 && text[0] <= 0xF4) {
        need = 4;
        low = text[0] == 0xF0 ? 0x90 : low;
        high = text[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (len < need || text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < need; i++) {
        if (text[i] < 0x80 || text[i] > 0xBF) {
            return 0;
        }
    }
    return need;
}

/* Writes what stands for the one character at `text`, which is not harmless; returns its length. */
static size_t escape_one(struct buffer *to, const unsigned char *text, size_t len)
{
    size_t sequence;

    switch (text[0]) {
    case '&':
        buffer_append(to, SLICE("&amp;"));
        return 1;
    case '<':
        buffer_append(to, SLICE("&lt;"));
        return 1;
    case '>':
        buffer_append(to, SLICE("&gt;"));
        return 1;
    case '"':
        buffer_append(to, SLICE("&quot;"));
        return 1;
    default:
        break;
    }
    if (text[0] < 0x20) {
        buffer_printf(to, "&#x%x;", (unsigned)text[0]);
        return 1;
    }
    sequence = utf8_len(text, len);
    if (sequence == 0) {
        buffer_append(to, replacement);
        return 1;
    }
    if (sequence == 3 && text[0] == 0xEF && text[1] == 0xBF && text[2] >= 0xBE) {
        buffer_append(to, text[2] == 0xBE ? SLICE("&#xfffe;") : SLICE("&#xffff;"));
    } else {
        buffer_append(to, slice_of(text, sequence));
    }
    return sequence;
}

void xml_escape(struct buffer *to, struct slice text)
{
    size_t at = 0;

    while (at < text.len) {
        size_t run = escape_run(text.data + at, text.len - at);

        buffer_append(to, slice_of(text.data + at, run));
        at += run;
        if (at < text.len) {
            at += escape_one(to, (const unsigned char *)text.data + at, text.len - at);
        }
    }
}

void xml_writer_init_bare(struct xml_writer *xml, struct buffer *to)
{
    xml->to = to;
    xml->depth = 0;
}

void xml_writer_init(struct xml_writer *xml, struct buffer *to)
{
    xml_writer_init_bare(xml, to);
    buffer_append(to, SLICE("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"));
}

/* Room is reserved once for a whole element; then bytes are put without further checks. */
static char *put(char *at, struct slice bytes)
{
    if (bytes.len > 0) {
        memcpy(at, bytes.data, bytes.len);
    }
    return at + bytes.len;
}

static char *put_start_tag(char *at, struct slice name)
{
    *at++ = '<';
    at = put(at, name);
    *at++ = '>';
    return at;
}

static char *put_end_tag(char *at, struct slice name)
{
    *at++ = '<';
    *at++ = '/';
    at = put(at, name);
    *at++ = '>';
    return at;
}

static void advance(struct buffer *to, const char *end)
{
    to->len = (size_t)(end - to->data);
}

void xml_writer_begin(struct xml_writer *xml, struct slice name, struct slice ns,
                      struct slice attributes)
{
    ASSERT(xml->depth < XML_WRITER_DEPTH_MAX);
    ASSERT(name.len > 0);
    xml->open[xml->depth] = name;
    xml->depth += 1;
    buffer_append_byte(xml->to, '<');
    buffer_append(xml->to, name);
    if (ns.len > 0) {
        buffer_append(xml->to, SLICE(" xmlns=\""));
        buffer_append(xml->to, ns);
        buffer_append_byte(xml->to, '"');
    }
    buffer_append(xml->to, attributes);
    buffer_append_byte(xml->to, '>');
}

void xml_writer_close(struct xml_writer *xml)
{
    struct slice name;

    ASSERT(xml->depth > 0);
    xml->depth -= 1;
    name = xml->open[xml->depth];
    advance(xml->to, put_end_tag(buffer_reserve(xml->to, name.len + 3), name));
}

void xml_writer_element_raw(struct xml_writer *xml, struct slice name, struct slice value)
{
    char *at = buffer_reserve(xml->to, 2 * name.len + value.len + 5);

    at = put_start_tag(at, name);
    at = put(at, value);
    advance(xml->to, put_end_tag(at, name));
}

void xml_writer_element(struct xml_writer *xml, struct slice name, struct slice value)
{
    if (escape_run(value.data, value.len) == value.len) {
        xml_writer_element_raw(xml, name, value);
        return;
    }
    advance(xml->to, put_start_tag(buffer_reserve(xml->to, name.len + 2), name));
    xml_escape(xml->to, value);
    advance(xml->to, put_end_tag(buffer_reserve(xml->to, name.len + 3), name));
}

void xml_writer_element_u64(struct xml_writer *xml, struct slice name, uint64_t value)
{
    advance(xml->to, put_start_tag(buffer_reserve(xml->to, name.len + 2), name));
    buffer_append_u64(xml->to, value);
    advance(xml->to, put_end_tag(buffer_reserve(xml->to, name.len + 3), name));
}

void xml_writer_element_quoted(struct xml_writer *xml, struct slice name, struct slice value)
{
    advance(xml->to, put_start_tag(buffer_reserve(xml->to, name.len + 2), name));
    buffer_append(xml->to, SLICE("&quot;"));
    xml_escape(xml->to, value);
    buffer_append(xml->to, SLICE("&quot;"));
    advance(xml->to, put_end_tag(buffer_reserve(xml->to, name.len + 3), name));
}
