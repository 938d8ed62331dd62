/*
 * Continuation tokens (S3: opaque): base64url of one version byte and what the page ended with.
 * Clients may keep one across a restart or another gateway.
 */
#ifndef GATEWAY_S3_PAGE_TOKEN_H
#define GATEWAY_S3_PAGE_TOKEN_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/slice.h"

struct page_token {
    struct slice after; /* key, common prefix or name */
    bool after_prefix;  /* `after` is a common prefix: what starts with it was given */
};

struct slice page_token_encode(struct arena *arena, const struct page_token *token);
/* False: not one of ours. */
bool page_token_decode(struct arena *arena, struct slice text, struct page_token *token);

/* Upload ids: the 24 bytes of an id as 32 characters of base64url. */
struct slice upload_id_encode(struct arena *arena, struct slice id);
bool upload_id_decode(struct arena *arena, struct slice text, struct slice *id);

#endif
