/*
 * Cross-origin resource sharing (AWS: "Using cross-origin resource sharing"; the Fetch standard):
 * which rule of a bucket lets a page of one origin do what, and the headers that tell the browser.
 */
#ifndef GATEWAY_WEB_CORS_H
#define GATEWAY_WEB_CORS_H

#include "gateway/s3/op.h"

/* The first rule that allows `method` from `origin` with these headers (a list as in
 * Access-Control-Request-Headers); NULL: none. */
const Kist__CorsRule *cors_match(const Kist__Cors *cors, struct slice origin, struct slice method,
                                 struct slice headers);
/* May it be the name of a header (RFC 9110 5.6.2, a token)? `wildcard`: '*' counts as a letter. */
bool cors_header_name_valid(struct slice name, bool wildcard);
/* Is it one of GET, PUT, POST, DELETE, HEAD? */
bool cors_method_valid(struct slice method);
/* The headers of a reply to `origin`. */
void cors_reply_rule(struct s3_request *req, const Kist__CorsRule *rule);
/* Those of any reply: none without an Origin, or when no rule allows what was done. */
void s3_reply_cors(struct s3_request *req);

#endif
