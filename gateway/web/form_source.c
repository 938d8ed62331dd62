#include "gateway/web/form_source.h"

#include "common/base/assert.h"

enum { SOURCE_WINDOW_BYTES = 65536 };

size_t form_source_safe(struct slice bytes, struct slice delimiter, bool *ends)
{
    size_t at = 0;

    *ends = false;
    while (at < bytes.len) {
        const char *found = memchr(bytes.data + at, '\r', bytes.len - at);
        size_t left;

        if (found == NULL) {
            return bytes.len;
        }
        at = (size_t)(found - bytes.data);
        left = bytes.len - at;
        if (memcmp(found, delimiter.data, left < delimiter.len ? left : delimiter.len) == 0) {
            *ends = left >= delimiter.len;
            return at;
        }
        at += 1;
    }
    return bytes.len;
}

/* Answers `read` if it can. */
static bool source_answer(struct form_source *source, struct http_read *read)
{
    bool ends = false;
    struct slice unread = slice_of(source->window + source->from, source->len - source->from);
    size_t safe = form_source_safe(unread, source->delimiter, &ends);
    size_t len = safe < read->to_len ? safe : read->to_len;

    read->rc = RC_OK;
    read->len = len;
    if (len > 0) {
        memcpy(read->to, unread.data, len);
        source->from += len;
        return true;
    }
    if (ends) {
        return true;
    }
    if (source->rc != RC_OK || source->body_ended) {
        read->rc = source->rc != RC_OK ? source->rc : RC_INVALID; /* ends without a delimiter */
        return true;
    }
    return false;
}

static void source_took(struct form_source *source)
{
    source->rc = source->raw.rc;
    source->body_ended = source->raw.rc == RC_OK && source->raw.len == 0;
    source->len += source->raw.rc == RC_OK ? source->raw.len : 0;
}

/* True when `read` has its answer. */
static bool source_run(struct form_source *source, struct http_read *read)
{
    while (!source_answer(source, read)) {
        /* Unread is less than a delimiter now. */
        memmove(source->window, source->window + source->from, source->len - source->from);
        source->len -= source->from;
        source->from = 0;
        ASSERT(source->len < source->capacity);
        if (!http_body_read(source->http, &source->raw, source->window + source->len,
                            source->capacity - source->len)) {
            source->waiting = read;
            return false;
        }
        source_took(source);
    }
    return true;
}

static void source_raw_done(struct http_read *raw)
{
    struct form_source *source = CONTAINER_OF(raw, struct form_source, raw);
    struct http_read *read = source->waiting;

    source->waiting = NULL;
    source_took(source);
    if (source_run(source, read)) {
        read->done(read);
    }
}

static bool source_read(struct payload_source *base, struct http_read *read, void *to, size_t len)
{
    struct form_source *source = CONTAINER_OF(base, struct form_source, base);

    ASSERT(source->waiting == NULL && len > 0);
    read->to = to;
    read->to_len = len;
    return source_run(source, read);
}

void form_source_init(struct form_source *source, struct http_exchange *http, struct slice begin,
                      struct slice delimiter)
{
    *source =
        (struct form_source){.base = {.read = source_read}, .http = http, .delimiter = delimiter};
    source->capacity = begin.len + SOURCE_WINDOW_BYTES;
    source->window = arena_alloc_raw(http->arena, source->capacity);
    if (begin.len > 0) {
        memcpy(source->window, begin.data, begin.len);
    }
    source->len = begin.len;
    source->raw.done = source_raw_done;
}
