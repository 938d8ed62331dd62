/* Bodies of form uploads. First byte: length of the boundary; the boundary; the body. Piecewise and
 * whole agree, every field lies inside the body, and the file's bytes come before its delimiter. */
#include "tests/fuzz/fuzz.h"

#include "common/base/limits.h"
#include "common/base/mem.h"
#include "gateway/web/form_parser.h"
#include "gateway/web/form_policy.h"
#include "gateway/web/form_source.h"

static void fuzz_file(const struct form_parser *parser, struct slice body)
{
    struct slice file = slice_of(body.data + parser->at, body.len - parser->at);
    bool ends;
    size_t safe = form_source_safe(file, parser->delimiter, &ends);

    ASSERT(safe <= file.len);
    for (size_t at = 0; at + parser->delimiter.len <= safe; at++) {
        ASSERT(memcmp(file.data + at, parser->delimiter.data, parser->delimiter.len) != 0);
    }
    ASSERT(!ends || slice_starts(slice_after(file, safe), parser->delimiter));
}

static void fuzz_policy(const struct form_parser *parser, struct arena *arena)
{
    struct form_limits limits = {.length_max = UINT64_MAX};
    struct slice text = SLICE_EMPTY;
    struct form_policy_input input = {.form = parser,
                                      .policy = form_field(parser, "policy"),
                                      .bucket = SLICE("bkt"),
                                      .key = SLICE("k"),
                                      .now_ns = 1,
                                      .arena = arena};

    if (input.policy.data != NULL) {
        (void)form_policy_check(&input, &limits, &text);
    }
}

static void fuzz_fields(const struct form_parser *parser, struct slice body)
{
    size_t total = 0;

    ASSERT(parser->count <= FORM_FIELDS_MAX && parser->at <= body.len);
    for (uint32_t i = 0; i < parser->count; i++) {
        struct slice value = parser->fields[i].value;

        total += value.len;
        ASSERT(value.len == 0 ||
               (value.data >= body.data && value.data + value.len <= body.data + body.len));
    }
    ASSERT(total <= LIMIT_FORM_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct form_parser whole;
    struct form_parser pieces;
    struct arena arena;
    struct slice boundary;
    struct slice body;
    enum form_result result;
    enum form_result slow = FORM_MORE;
    size_t len;

    if (size < 2) {
        return 0;
    }
    len = (size_t)data[0] % FORM_BOUNDARY_BYTES_MAX + 1;
    if (len > size - 1) {
        return 0;
    }
    boundary = slice_of(data + 1, len);
    if (memchr(boundary.data, '\0', len) != NULL || memchr(boundary.data, '\r', len) != NULL) {
        return 0;
    }
    arena_init(&arena);
    (void)form_boundary(&arena, slice_of(data, size));
    char *copy = arena_alloc_raw(&arena, size + 2);
    copy[0] = '\r';
    copy[1] = '\n';
    memcpy(copy + 2, data + 1 + len, size - 1 - len);
    body = slice_of(copy, size - 1 - len + 2);
    form_parser_init(&whole, &arena, boundary);
    form_parser_init(&pieces, &arena, boundary);
    result = form_parser_run(&whole, body);
    for (size_t at = 2; at <= body.len && slow == FORM_MORE; at++) {
        slow = form_parser_run(&pieces, slice_of(body.data, at));
    }
    ASSERT(slow == result || result == FORM_TOO_LARGE || slow == FORM_TOO_LARGE);
    fuzz_fields(&whole, body);
    if (result == FORM_FILE) {
        ASSERT(slow != FORM_FILE || (pieces.at == whole.at && pieces.count == whole.count));
        fuzz_file(&whole, body);
        fuzz_policy(&whole, &arena);
    }
    arena_deinit(&arena);
    return 0;
}
