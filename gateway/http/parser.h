/*
 * Finds and parses the head of one request. Strict: whatever two servers might read differently is
 * refused, and whoever refuses closes the connection. Any thread.
 *
 *     bytes from the client -> head_scan() until the blank line is there -> head_parse() ->
 * http_request
 */
#ifndef GATEWAY_HTTP_PARSER_H
#define GATEWAY_HTTP_PARSER_H

#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "gateway/http/http.h"

/* Progress of the search for the end of a head; zeroed before the first byte of each. */
struct head_scan {
    size_t at;      /* bytes looked at */
    size_t line_at; /* where the current line begins */
    uint32_t lines; /* ended so far; the request line is the first */
};

/* Looks at what has come of a head so far: `bytes` begins with its first byte and only grows
 * between calls. Returns the head's length with the blank line, or 0 while that has not come; or
 * refuses: sets
 * `*status` (400, 414, 431) and returns 0. */
size_t head_scan(struct head_scan *scan, struct slice bytes, int *status);

/* Parses a complete head (as long as head_scan() said) into `request`; `lines` from the scan. The
 * head is copied into `arena`, where all slices of `request` point. Returns 0, or the status to
 * refuse with. */
int head_parse(struct slice head, uint32_t lines, struct arena *arena,
               struct http_request *request);

#endif
