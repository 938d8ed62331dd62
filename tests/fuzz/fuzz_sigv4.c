/* SigV4: the head of a request is judged, whatever it claims. Nothing but the right signature
 * passes as the user. */
#include "tests/fuzz/fuzz.h"

#include "common/base/mem.h"
#include "gateway/auth/sigv4.h"
#include "gateway/http/parser.h"

enum { FUZZ_NOW_S = 1369353600 }; /* of AWS's examples: 2013-05-24 */

/* As if unpacked: view_new() takes it. */
static ProtobufCBinaryData field(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = mem_copy(text, strlen(text))};
}

static struct view *view_make(void)
{
    Kist__User *user = mem_alloc(sizeof(*user));
    Kist__AccessKey *key = mem_alloc(sizeof(*key));

    kist__user__init(user);
    kist__access_key__init(key);
    user->name = field("root");
    key->user = field("root");
    key->access_key = field("AKIAIOSFODNN7EXAMPLE");
    key->secret_key = field("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    return view_new(
        &(struct view_parts){.users = &user, .user_count = 1, .keys = &key, .key_count = 1});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct view *view;
    static struct sigv4_cache *cache;
    struct head_scan scan = {.at = 0};
    struct http_request request = {.minor = 0};
    struct sigv4_result result;
    struct sigv4_options options;
    struct arena arena;
    int status = 0;
    size_t len = head_scan(&scan, slice_of(data, size), &status);

    if (view == NULL) {
        view = view_make();
        cache = sigv4_cache_new();
    }
    if (len == 0 || status != 0) {
        return 0;
    }
    options =
        (struct sigv4_options){.region = SLICE("us-east-1"), .now_s = FUZZ_NOW_S, .cache = cache};
    arena_init(&arena);
    if (head_parse(slice_of(data, len), scan.lines, &arena, &request) == 0) {
        sigv4_verify(&request, view, &options, &arena, &result);
        ASSERT(result.error == S3_OK || result.error < S3_ERROR_COUNT);
        ASSERT(result.error != S3_OK || result.anonymous ||
               slice_eq_str(result.access_key, "AKIAIOSFODNN7EXAMPLE"));
    }
    arena_deinit(&arena);
    return 0;
}
