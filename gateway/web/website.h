/*
 * A bucket as a website (AWS: "Hosting a static website"): index and error documents, redirects,
 * failures as pages. Requests come to BUCKET.<website domain>; who asks is nobody, so only what
 * everybody may read is served.
 */
#ifndef GATEWAY_WEB_WEBSITE_H
#define GATEWAY_WEB_WEBSITE_H

#include "gateway/s3/op.h"

/* Hangs on the request of a website (req->website). */
struct website {
    enum s3_error page_error; /* why the error document could not be served; S3_OK: there is none */
    struct slice page_key;
};

struct website *website_new(struct arena *arena);
/* The page for req->error, with its headers. */
void website_error_page(struct s3_request *req, struct buffer *to);

/* ---- Routing rules ---- */

/* The first rule for `key`: `status` 0, before the object is looked for (rules without an error
 * code); else rules for that status of a failure. NULL: none. */
const Kist__RoutingRule *website_rule(const Kist__Website *website, struct slice key, int status);
/* Where the rule leads. `secure`: the request came over TLS; `host`: its Host header. */
struct slice website_rule_location(struct arena *arena, const Kist__RoutingRule *rule,
                                   struct slice key, struct slice query, struct slice host,
                                   bool secure);
/* Where RedirectAllRequestsTo leads. */
struct slice website_all_location(struct arena *arena, const Kist__Website *website,
                                  struct slice key, struct slice query, bool secure);

#endif
