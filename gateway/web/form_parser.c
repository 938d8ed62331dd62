#include "gateway/web/form_parser.h"

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/percent.h"

enum { AT_PREAMBLE = 0, AT_DELIMITER, AT_HEADERS, AT_VALUE, AT_FILE };

/* ---- Parameters of a header: form-data; name="key"; filename="a.txt" ---- */

static struct slice form_lower(struct arena *arena, struct slice text)
{
    char *out = arena_alloc_raw(arena, text.len > 0 ? text.len : 1);

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        out[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return slice_of(out, text.len);
}

/* Behind the opening quote. A backslash escapes only a quote: Windows paths hold others. */
static bool form_quoted(struct arena *arena, struct slice *rest, struct slice *value)
{
    char *out = arena_alloc_raw(arena, rest->len + 1);
    size_t len = 0;

    for (size_t i = 0; i < rest->len; i++) {
        char c = rest->data[i];

        if (c == '"') {
            *rest = slice_after(*rest, i + 1);
            *value = slice_of(out, len);
            return true;
        }
        if (c == '\\' && i + 1 < rest->len && rest->data[i + 1] == '"') {
            i += 1;
            c = '"';
        }
        out[len++] = c;
    }
    return false;
}

/* Cuts "; name=value" off `rest`. False: none follows, or it is not well-formed. */
static bool form_parameter(struct arena *arena, struct slice *rest, struct slice *name,
                           struct slice *value)
{
    size_t semicolon = slice_find(*rest, ';');
    size_t equals;

    *rest = slice_trim(slice_after(*rest, semicolon + 1));
    equals = slice_find(*rest, '=');
    if (equals == rest->len || equals == 0) {
        return false;
    }
    *name = form_lower(arena, slice_trim(slice_of(rest->data, equals)));
    *rest = slice_trim(slice_after(*rest, equals + 1));
    if (rest->len > 0 && rest->data[0] == '"') {
        *rest = slice_after(*rest, 1);
        return form_quoted(arena, rest, value);
    }
    *value = slice_trim(slice_of(rest->data, slice_find(*rest, ';')));
    *rest = slice_after(*rest, slice_find(*rest, ';'));
    if (value->data == NULL) {
        *value = SLICE("");
    }
    return true;
}

struct slice form_boundary(struct arena *arena, struct slice content_type)
{
    struct slice type = slice_trim(slice_of(content_type.data, slice_find(content_type, ';')));
    struct slice name;
    struct slice value;

    if (!slice_eq_nocase(type, SLICE("multipart/form-data"))) {
        return SLICE_EMPTY;
    }
    while (form_parameter(arena, &content_type, &name, &value)) {
        if (!slice_eq(name, SLICE("boundary"))) {
            continue;
        }
        for (size_t i = 0; i < value.len; i++) {
            if ((unsigned char)value.data[i] < 0x20) {
                return SLICE("");
            }
        }
        return value.len <= FORM_BOUNDARY_BYTES_MAX && value.len > 0 ? value : SLICE("");
    }
    return SLICE("");
}

/* ---- Headers of a part ---- */

/* What follows the last slash or backslash: some browsers send whole paths. */
static struct slice form_base_name(struct slice path)
{
    size_t from = path.len;

    while (from > 0 && path.data[from - 1] != '/' && path.data[from - 1] != '\\') {
        from -= 1;
    }
    return slice_after(path, from);
}

/* UTF-8''a%20b (RFC 5987). */
static struct slice form_extended(struct arena *arena, struct slice value)
{
    struct slice rest = slice_after(value, slice_find(value, '\'') + 1);
    struct slice decoded = SLICE_EMPTY;

    rest = slice_after(rest, slice_find(rest, '\'') + 1);
    return percent_decode(arena, rest, false, &decoded) ? decoded : SLICE_EMPTY;
}

static bool form_disposition(struct form_parser *parser, struct slice value)
{
    struct slice kind = slice_trim(slice_of(value.data, slice_find(value, ';')));
    struct slice file_name = SLICE_EMPTY;
    struct slice extended = SLICE_EMPTY;
    struct slice name;
    struct slice text;

    if (!slice_eq_nocase(kind, SLICE("form-data"))) {
        return false;
    }
    parser->name = SLICE_EMPTY;
    while (form_parameter(parser->arena, &value, &name, &text)) {
        if (slice_eq(name, SLICE("name"))) {
            parser->name = form_lower(parser->arena, text);
        } else if (slice_eq(name, SLICE("filename"))) {
            file_name = text;
        } else if (slice_eq(name, SLICE("filename*"))) {
            extended = form_extended(parser->arena, text);
        }
    }
    if (parser->name.len == 0) {
        return false;
    }
    parser->is_file = slice_eq(parser->name, SLICE("file"));
    if (parser->is_file) {
        parser->file_name = form_base_name(extended.len > 0 ? extended : file_name);
    }
    return true;
}

/* The lines of one part's head, without the empty one at its end. */
static bool form_part_head(struct form_parser *parser, struct slice head)
{
    bool named = false;

    while (head.len > 0) {
        size_t end = slice_find(head, '\r');
        struct slice line = slice_of(head.data, end);
        size_t colon = slice_find(line, ':');

        if (end < head.len && (end + 1 == head.len || head.data[end + 1] != '\n')) {
            return false;
        }
        head = slice_after(head, end + 2);
        if (colon == line.len) {
            return false;
        }
        if (slice_eq_nocase(slice_trim(slice_of(line.data, colon)), SLICE("content-disposition"))) {
            if (named || !form_disposition(parser, slice_trim(slice_after(line, colon + 1)))) {
                return false;
            }
            named = true;
        }
    }
    return named;
}

/* ---- The body ---- */

/* Offset of `what` in `bytes` from parser->scan on; SIZE_MAX: not there yet. */
static size_t form_find(struct form_parser *parser, struct slice bytes, struct slice what)
{
    size_t at = parser->scan;

    while (at + what.len <= bytes.len) {
        const char *found = memchr(bytes.data + at, what.data[0], bytes.len - at);

        if (found == NULL) {
            at = bytes.len;
            break;
        }
        at = (size_t)(found - bytes.data);
        if (at + what.len > bytes.len) {
            break;
        }
        if (memcmp(found, what.data, what.len) == 0) {
            return at;
        }
        at += 1;
    }
    parser->scan = at;
    return SIZE_MAX;
}

static void form_go(struct form_parser *parser, int state, size_t at)
{
    parser->state = state;
    parser->at = at;
    parser->scan = at;
}

static enum form_result form_preamble(struct form_parser *parser, struct slice bytes)
{
    size_t found = form_find(parser, bytes, parser->delimiter);

    if (found == SIZE_MAX) {
        return FORM_MORE;
    }
    form_go(parser, AT_DELIMITER, found + parser->delimiter.len);
    return FORM_FILE;
}

/* Behind a delimiter: the end of its line, or of the body. */
static enum form_result form_after_delimiter(struct form_parser *parser, struct slice bytes)
{
    size_t at = parser->at;

    while (at < bytes.len && (bytes.data[at] == ' ' || bytes.data[at] == '\t')) {
        at += 1;
    }
    if (at - parser->at > FORM_PART_HEADER_BYTES_MAX) {
        return FORM_MALFORMED;
    }
    if (bytes.len - at < 2) {
        return FORM_MORE;
    }
    if (at == parser->at && bytes.data[at] == '-' && bytes.data[at + 1] == '-') {
        return FORM_NO_FILE;
    }
    if (bytes.data[at] != '\r' || bytes.data[at + 1] != '\n') {
        return FORM_MALFORMED;
    }
    form_go(parser, AT_HEADERS, at + 2);
    parser->scan = at; /* the empty line may follow at once */
    return FORM_FILE;
}

static enum form_result form_headers(struct form_parser *parser, struct slice bytes)
{
    size_t found = form_find(parser, bytes, SLICE("\r\n\r\n"));

    if (found == SIZE_MAX) {
        return bytes.len - parser->at > FORM_PART_HEADER_BYTES_MAX ? FORM_TOO_LARGE : FORM_MORE;
    }
    if (found < parser->at) {
        return FORM_MALFORMED; /* a part without a head */
    }
    if (found - parser->at > FORM_PART_HEADER_BYTES_MAX) {
        return FORM_TOO_LARGE;
    }
    if (!form_part_head(parser, slice_of(bytes.data + parser->at, found - parser->at))) {
        return FORM_MALFORMED;
    }
    /* The value may be empty: its delimiter begins with the line feed of the head's end. */
    form_go(parser, parser->is_file ? AT_FILE : AT_VALUE, found + 4);
    parser->scan = found + 2;
    return FORM_FILE;
}

static enum form_result form_value(struct form_parser *parser, struct slice bytes)
{
    size_t found = form_find(parser, bytes, parser->delimiter);
    struct slice value;

    if (found == SIZE_MAX) {
        return bytes.len - parser->at > LIMIT_FORM_BYTES + parser->delimiter.len ? FORM_TOO_LARGE
                                                                                 : FORM_MORE;
    }
    value = found > parser->at ? slice_of(bytes.data + parser->at, found - parser->at) : SLICE("");
    for (uint32_t i = 0; i < parser->count; i++) {
        if (slice_eq(parser->fields[i].name, parser->name)) {
            parser->duplicate = parser->name;
            return FORM_DUPLICATE;
        }
    }
    parser->value_bytes += parser->name.len + value.len;
    if (parser->count == FORM_FIELDS_MAX || parser->value_bytes > LIMIT_FORM_BYTES) {
        return FORM_TOO_LARGE;
    }
    parser->fields[parser->count++] = (struct form_field){.name = parser->name, .value = value};
    form_go(parser, AT_DELIMITER, found + parser->delimiter.len);
    return FORM_FILE;
}

void form_parser_init(struct form_parser *parser, struct arena *arena, struct slice boundary)
{
    ASSERT(boundary.len > 0 && boundary.len <= FORM_BOUNDARY_BYTES_MAX);
    memset(parser, 0, sizeof(*parser));
    parser->arena = arena;
    parser->delimiter = arena_printf(arena, "\r\n--%.*s", (int)boundary.len, boundary.data);
}

/* A step's FORM_FILE means: done, the next one. */
enum form_result form_parser_run(struct form_parser *parser, struct slice bytes)
{
    enum form_result result = FORM_FILE;

    while (result == FORM_FILE) {
        ASSERT(parser->at <= bytes.len);
        switch (parser->state) {
        case AT_PREAMBLE:
            result = form_preamble(parser, bytes);
            break;
        case AT_DELIMITER:
            result = form_after_delimiter(parser, bytes);
            break;
        case AT_HEADERS:
            result = form_headers(parser, bytes);
            break;
        case AT_VALUE:
            result = form_value(parser, bytes);
            break;
        default:
            return FORM_FILE;
        }
    }
    return result;
}

struct slice form_field(const struct form_parser *parser, const char *name)
{
    for (uint32_t i = 0; i < parser->count; i++) {
        if (slice_eq_str(parser->fields[i].name, name)) {
            return parser->fields[i].value;
        }
    }
    return SLICE_EMPTY;
}
