#include "gateway/s3/metadata_text.h"

#include "common/codec/base64.h"
#include "common/codec/hex.h"
#include "common/codec/utf8.h"

/* Q encoding (RFC 2047 4.2). Returns the end, or NULL when malformed. */
static char *metadata_decode_q(struct slice text, char *to)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '_') {
            c = ' ';
        } else if (c == '=') {
            int high = text.len - i > 2 ? hex_digit(text.data[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_digit(text.data[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return NULL;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        *to++ = c;
    }
    return to;
}

/* ISO-8859-1 to UTF-8, in place of `from` .. `end`: at most twice as long. */
static char *metadata_latin1(char *from, const char *end, struct arena *arena)
{
    size_t len = (size_t)(end - from);
    struct slice copy = arena_copy(arena, slice_of(from, len));

    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)copy.data[i];

        if (byte < 0x80) {
            *from++ = (char)byte;
        } else {
            *from++ = (char)(0xc0 | byte >> 6);
            *from++ = (char)(0x80 | (byte & 0x3f));
        }
    }
    return from;
}

/* One encoded word "=?charset?B?text?=" off the front of `rest`. */
static char *metadata_decode_word(struct slice *rest, char *to, struct arena *arena)
{
    struct slice charset;
    struct slice text;
    size_t question;
    char encoding;
    char *end;

    if (!slice_starts(*rest, SLICE("=?"))) {
        return NULL;
    }
    *rest = slice_after(*rest, 2);
    question = slice_find(*rest, '?');
    charset = slice_of(rest->data, question);
    *rest = slice_after(*rest, question + 1);
    if (rest->len < 4 || rest->data[1] != '?') {
        return NULL;
    }
    encoding = (char)(rest->data[0] | 0x20);
    *rest = slice_after(*rest, 2);
    question = slice_find(*rest, '?');
    text = slice_of(rest->data, question);
    if (question + 1 >= rest->len || rest->data[question + 1] != '=') {
        return NULL;
    }
    *rest = slice_after(*rest, question + 2);
    if (encoding == 'b') {
        size_t len = 0;

        end = base64_decode(text, to, text.len, &len) ? to + len : NULL;
    } else {
        end = encoding == 'q' ? metadata_decode_q(text, to) : NULL;
    }
    if (end != NULL && slice_eq_nocase(charset, SLICE("iso-8859-1"))) {
        return metadata_latin1(to, end, arena);
    }
    if (!slice_eq_nocase(charset, SLICE("utf-8")) && !slice_eq_nocase(charset, SLICE("us-ascii"))) {
        return NULL;
    }
    return end;
}

struct slice metadata_text_decode(struct arena *arena, struct slice value)
{
    struct slice rest = value;
    char *out;
    char *at;

    if (!slice_starts(value, SLICE("=?"))) {
        return value;
    }
    out = arena_alloc_raw(arena, value.len * 2);
    at = out;
    while (rest.len > 0) {
        at = metadata_decode_word(&rest, at, arena);
        if (at == NULL) {
            return value;
        }
        rest = slice_trim(rest); /* blanks between encoded words are not part of the text */
    }
    return utf8_valid(slice_of(out, (size_t)(at - out))) ? slice_of(out, (size_t)(at - out))
                                                         : value;
}

struct slice metadata_text_encode(struct arena *arena, struct slice value)
{
    bool plain = true;
    struct slice head;
    char *out;
    size_t len;

    for (size_t i = 0; i < value.len && plain; i++) {
        plain = value.data[i] >= 0x20 && value.data[i] < 0x7f;
    }
    if (plain) {
        return value;
    }
    head = utf8_valid(value) ? SLICE("=?UTF-8?B?") : SLICE("=?ISO-8859-1?B?");
    out = arena_alloc_raw(arena, head.len + base64_encoded_len(value.len) + 2);
    memcpy(out, head.data, head.len);
    len = head.len + base64_encode(out + head.len, value.data, value.len);
    out[len++] = '?';
    out[len++] = '=';
    return slice_of(out, len);
}
