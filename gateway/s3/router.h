/*
 * From a request's head to a bucket, a key, query parameters and a row of op.def.
 *
 *     Host, path --> style (bucket.domain, /bucket, website) --> bucket, key (decoded once)
 *     query      --> parameters --> rows of (method, target) --> the one that demands most
 *
 * Knows nothing of credentials or of which buckets exist. One router per loop.
 */
#ifndef GATEWAY_S3_ROUTER_H
#define GATEWAY_S3_ROUTER_H

#include "gateway/s3/op.h"

struct router;

/* What the request asks for. Slices point into the request or the arena. */
struct s3_route {
    enum s3_error error; /* S3_OK, or why the target makes no sense */
    const char *error_text;
    struct slice bucket;
    struct slice host_bucket; /* ON_WEBSITE: else the bucket of this name, the whole host */
    struct slice key;
    bool virtual_host;
    enum s3_target target;
    struct s3_param *params;
    uint32_t param_count;
    const struct s3_op *op; /* NULL: no operation of that method (405) */
    const struct s3_op
        *op_conflict; /* another row that demands as much: conflicting sub-resources */
    bool stray;       /* a plain write with a sub-resource that is not of this method (405) */
};

/* Domains are separated by commas and borrowed. NULL when two rows of op.def demand the same:
 * `error` names them. */
struct router *router_new(struct slice domains, struct slice website_domains, struct error *error);
void router_free(struct router *router);

/* The host, when any host may be a website ("*") and it is none of our domains; else empty. */
struct slice router_custom_host(const struct router *router, const struct http_request *request,
                                struct arena *arena);
/* `website`: the host is that of a website. */
void router_match(const struct router *router, const struct http_request *request, bool website,
                  struct arena *arena, struct s3_route *route);

/* AWS: "General purpose buckets naming rules". */
bool router_bucket_name_valid(struct slice name);

#endif
