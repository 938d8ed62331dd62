/*
 * The head of a request, without a server: quick. All at once and byte by byte find the same end;
 * what is accepted has a body of one meaning only.
 */
#include "tests/fuzz/fuzz.h"

#include "common/base/limits.h"
#include "gateway/http/parser.h"

static void head_check(const struct http_request *request)
{
    ASSERT(!(request->has_length && request->chunked)); /* request smuggling */
    ASSERT(request->target.len > 0 && request->target.len <= LIMIT_HTTP_TARGET_BYTES);
    ASSERT(request->header_count <= LIMIT_HTTP_HEADERS);
    for (uint32_t i = 0; i < request->header_count; i++) {
        struct slice name = request->headers[i].name;

        ASSERT(name.len > 0);
        for (size_t at = 0; at < name.len; at++) {
            ASSERT(name.data[at] < 'A' || name.data[at] > 'Z');
        }
        ASSERT(slice_find(request->headers[i].value, '\n') == request->headers[i].value.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = slice_of(data, size);
    struct head_scan whole = {.at = 0};
    struct head_scan piecewise = {.at = 0};
    struct http_request request = {.minor = 0};
    struct arena arena;
    int status = 0;
    int status_piecewise = 0;
    size_t len = head_scan(&whole, bytes, &status);
    size_t len_piecewise = 0;

    for (size_t i = 1; i <= size && len_piecewise == 0 && status_piecewise == 0; i++) {
        len_piecewise = head_scan(&piecewise, slice_of(data, i), &status_piecewise);
    }
    ASSERT(len == len_piecewise);
    ASSERT((status != 0) == (status_piecewise != 0));
    if (len == 0 || status != 0) {
        return 0;
    }
    arena_init(&arena);
    if (head_parse(slice_of(data, len), whole.lines, &arena, &request) == 0) {
        head_check(&request);
    }
    arena_deinit(&arena);
    return 0;
}
