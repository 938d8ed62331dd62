#include "gateway/s3/page_token.h"

#include "common/base/limits.h"
#include "common/client/data_client.h"
#include "common/codec/base64.h"

enum {
    TOKEN_TEXT_MAX = 2 * (LIMIT_KEY_BYTES + 1),
    UPLOAD_ID_TEXT = EXTENT_ID_BYTES / 3 * 4 /* without padding */
};

/* First byte of a token: format and kind. */
static const char token_after_key = 0x10;
static const char token_after_prefix = 0x11;

static struct slice url_encode(struct arena *arena, struct slice raw)
{
    char *out = arena_alloc_raw(arena, base64_encoded_len(raw.len));
    size_t len = base64_encode(out, raw.data, raw.len);

    while (len > 0 && out[len - 1] == '=') {
        len -= 1;
    }
    for (size_t i = 0; i < len; i++) {
        if (out[i] == '+') {
            out[i] = '-';
        } else if (out[i] == '/') {
            out[i] = '_';
        }
    }
    return slice_of(out, len);
}

static bool url_decode(struct arena *arena, struct slice text, struct slice *raw)
{
    size_t padded = (text.len + 3) / 4 * 4;
    char *copy;
    char *out;
    size_t len = 0;

    if (text.len == 0 || text.len > TOKEN_TEXT_MAX) {
        return false;
    }
    copy = arena_alloc_raw(arena, padded);
    for (size_t i = 0; i < padded; i++) {
        char c = '=';

        if (i < text.len) {
            c = text.data[i];
        }

        if (c == '+' || c == '/' || (c == '=' && i < text.len)) {
            return false;
        }
        if (c == '-') {
            c = '+';
        } else if (c == '_') {
            c = '/';
        }
        copy[i] = c;
    }
    out = arena_alloc_raw(arena, padded);
    if (!base64_decode(slice_of(copy, padded), out, padded, &len)) {
        return false;
    }
    *raw = slice_of(out, len);
    return true;
}

struct slice page_token_encode(struct arena *arena, const struct page_token *token)
{
    char *raw = arena_alloc_raw(arena, token->after.len + 1);

    raw[0] = token->after_prefix ? token_after_prefix : token_after_key;
    if (token->after.len > 0) {
        memcpy(raw + 1, token->after.data, token->after.len);
    }
    return url_encode(arena, slice_of(raw, token->after.len + 1));
}

bool page_token_decode(struct arena *arena, struct slice text, struct page_token *token)
{
    struct slice raw;

    if (!url_decode(arena, text, &raw) || raw.len < 2 || raw.len > LIMIT_KEY_BYTES + 1 ||
        (raw.data[0] != token_after_key && raw.data[0] != token_after_prefix)) {
        return false;
    }
    token->after_prefix = raw.data[0] == token_after_prefix;
    token->after = slice_after(raw, 1);
    return true;
}

struct slice upload_id_encode(struct arena *arena, struct slice id)
{
    return url_encode(arena, id);
}

bool upload_id_decode(struct arena *arena, struct slice text, struct slice *id)
{
    return text.len == UPLOAD_ID_TEXT && url_decode(arena, text, id) && id->len == EXTENT_ID_BYTES;
}
