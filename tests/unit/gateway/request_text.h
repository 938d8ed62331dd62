/* Heads of requests from their text, and a view with access keys, for the tests of gateway/auth. */
#ifndef TESTS_UNIT_GATEWAY_REQUEST_TEXT_H
#define TESTS_UNIT_GATEWAY_REQUEST_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/client/view.h"
#include "gateway/http/http.h"

enum { REQUEST_HEADERS_MAX = 40 };

/* "GET /a?b HTTP/1.1\r\nname: value\r\n": trusted text of the test itself. */
static inline void request_from_text(struct arena *arena, const char *text,
                                     struct http_request *request)
{
    struct slice rest = slice_str(text);
    size_t end;
    size_t question;

    ASSERT(text != NULL && rest.data != NULL);
    end = slice_find(rest, ' ');
    memset(request, 0, sizeof(*request));
    request->method_name = slice_of(rest.data, end);
    request->method = slice_eq_str(request->method_name, "PUT") ? HTTP_PUT : HTTP_GET;
    rest = slice_after(rest, end + 1);
    ASSERT(rest.data != NULL);
    request->target = slice_of(rest.data, slice_find(rest, ' '));
    question = slice_find(request->target, '?');
    request->path = slice_of(request->target.data, question);
    request->query = slice_after(request->target, question + 1);
    request->headers = arena_alloc(arena, REQUEST_HEADERS_MAX * sizeof(*request->headers));
    request->minor = 1;
    for (rest = slice_after(rest, slice_find(rest, '\n') + 1); rest.len > 0;
         rest = slice_after(rest, slice_find(rest, '\n') + 1)) {
        struct slice line = slice_of(rest.data, slice_find(rest, '\r'));
        size_t colon = slice_find(line, ':');
        struct http_header *header = &request->headers[request->header_count++];

        header->name = slice_of(line.data, colon);
        header->value = slice_trim(slice_after(line, colon + 1));
        if (slice_eq_str(header->name, "content-length")) {
            request->has_length = slice_to_u64(header->value, UINT64_MAX, &request->content_length);
        }
        if (slice_eq_str(header->name, "transfer-encoding")) {
            request->chunked = true;
        }
    }
}

static inline ProtobufCBinaryData request_bytes(const char *text)
{
    size_t len = strlen(text);
    uint8_t *data = malloc(len + 1);

    ASSERT(data != NULL);
    memcpy(data, text, len + 1);
    return (ProtobufCBinaryData){.data = data, .len = len};
}

static inline Kist__AccessKey *request_key(const char *access_key, const char *secret,
                                           const char *user)
{
    Kist__AccessKey *key = malloc(sizeof(*key));

    kist__access_key__init(key);
    key->access_key = request_bytes(access_key);
    key->secret_key = request_bytes(secret);
    key->user = request_bytes(user);
    return key;
}

/* Keys: AWS's published example, "AKIDEXAMPLE", and one whose user is gone. */
static inline struct view *request_view(void)
{
    Kist__User *user = malloc(sizeof(*user));
    Kist__AccessKey *keys[3];
    struct view_parts parts = {
        .version = 1, .users = &user, .user_count = 1, .keys = keys, .key_count = 3};

    kist__user__init(user);
    user->name = request_bytes("root");
    keys[0] =
        request_key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "root");
    keys[1] = request_key("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "root");
    keys[2] = request_key("ORPHAN", "secret", "nobody");
    return view_new(&parts);
}

#endif
