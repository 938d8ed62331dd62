#include "gateway/s3/router.h"

#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"

enum {
    ROUTER_METHODS = HTTP_OTHER + 1,
    ROUTER_DEMANDS_MAX = 2,
    ROUTER_WEIGHT_QUERY = 2, /* outweighs a header */
    ROUTER_WEIGHT_HEADER = 1,
    ROUTER_LOOKUP_NAME_BYTES =
        255 /* old buckets of us-east-1 had longer names: these do not exist here */
};

struct router_demand {
    struct slice name;
    struct slice value; /* data NULL: any */
};

struct router_row {
    const struct s3_op *op;
    struct router_demand demands[ROUTER_DEMANDS_MAX];
    unsigned demand_count;
    unsigned weight;
};

struct router {
    struct slice domains; /* as configured: names, separated by commas */
    struct slice website_domains;
    struct router_row *rows;
    size_t row_count;
    /* Rows of one (method, target) stand together. */
    struct {
        size_t first;
        size_t count;
    } groups[ROUTER_METHODS][S3_TARGETS];
};

/* ---- The table, at start-up ---- */

static void router_read_row(struct router_row *row, const struct s3_op *op)
{
    struct slice rest = slice_str(op->query);

    *row = (struct router_row){.op = op};
    while (rest.len > 0) {
        struct slice term = {.data = rest.data, .len = slice_find(rest, '&')};
        size_t equals = slice_find(term, '=');

        ASSERT(row->demand_count < ROUTER_DEMANDS_MAX);
        row->demands[row->demand_count].name = slice_of(term.data, equals);
        if (equals < term.len) {
            row->demands[row->demand_count].value = slice_after(term, equals + 1);
        }
        row->demand_count += 1;
        row->weight += ROUTER_WEIGHT_QUERY;
        rest = slice_after(rest, term.len + 1);
    }
    if (op->header != NULL) {
        row->weight += ROUTER_WEIGHT_HEADER;
    }
}

static bool router_same_demands(const struct s3_op *a, const struct s3_op *b)
{
    return a->method == b->method && a->target == b->target &&
           slice_eq(slice_str(a->query), slice_str(b->query)) &&
           slice_eq(slice_str(a->header), slice_str(b->header));
}

static enum rc router_check(struct error *error)
{
    for (size_t i = 0; i < s3_op_count; i++) {
        for (size_t j = i + 1; j < s3_op_count; j++) {
            if (router_same_demands(&s3_ops[i], &s3_ops[j])) {
                return error_set(error, RC_INVALID, "op.def: %s and %s demand the same",
                                 s3_ops[i].name, s3_ops[j].name);
            }
        }
    }
    return RC_OK;
}

/* The rows of one (method, target), at the end of `rows`. */
static void router_add_group(struct router *router, enum http_method method, enum s3_target target)
{
    router->groups[method][target].first = router->row_count;
    for (size_t i = 0; i < s3_op_count; i++) {
        if (s3_ops[i].method == method && s3_ops[i].target == target) {
            router_read_row(&router->rows[router->row_count], &s3_ops[i]);
            router->row_count += 1;
        }
    }
    router->groups[method][target].count = router->row_count - router->groups[method][target].first;
}

struct router *router_new(struct slice domains, struct slice website_domains, struct error *error)
{
    struct router *router;

    if (router_check(error) != RC_OK) {
        return NULL;
    }
    router = mem_alloc(sizeof(*router));
    router->domains = domains;
    router->website_domains = website_domains;
    router->rows = mem_alloc(s3_op_count * sizeof(*router->rows));
    for (unsigned method = HTTP_GET; method <= HTTP_OTHER; method++) {
        for (unsigned target = ON_SERVICE; target <= ON_WEBSITE; target++) {
            router_add_group(router, (enum http_method)method, (enum s3_target)target);
        }
    }
    ASSERT(router->row_count == s3_op_count);
    return router;
}

void router_free(struct router *router)
{
    if (router != NULL) {
        mem_free(router->rows);
        mem_free(router);
    }
}

/* ---- One request ---- */

static void router_refuse(struct s3_route *route, enum s3_error error, const char *text)
{
    if (route->error == S3_OK) {
        route->error = error;
        route->error_text = text;
    }
}

/* ---- Hosts ---- */

/* Without port and trailing dot, in lower case. "[::1]:9000" -> "[::1]". */
static struct slice router_host_name(const struct http_request *request, struct arena *arena)
{
    struct slice host = http_header_get(request, "host");
    size_t bracket = host.len > 0 && host.data[0] == '[' ? slice_find(host, ']') : host.len;
    char *lower;

    if (bracket < host.len) {
        host.len = bracket + 1;
    } else {
        host.len = slice_find(host, ':');
    }
    if (host.len > 0 && host.data[host.len - 1] == '.') {
        host.len -= 1;
    }
    if (host.len == 0) {
        return SLICE_EMPTY;
    }
    lower = arena_alloc_raw(arena, host.len);
    for (size_t i = 0; i < host.len; i++) {
        char c = host.data[i];

        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return slice_of(lower, host.len);
}

/* Cuts the last label off `name`. */
static struct slice router_cut_label(struct slice *name)
{
    size_t from = name->len;
    struct slice label;

    while (from > 0 && name->data[from - 1] != '.') {
        from -= 1;
    }
    label = slice_of(name->data + from, name->len - from);
    name->len = from > 0 ? from - 1 : 0;
    return label;
}

/* Does `host` end in `domain`, label by label? A label "*" is any one label; a leading "*." stands
 * for the bucket. `before`: what of the host comes before it. */
static bool router_domain_matches(struct slice domain, struct slice host, struct slice *before)
{
    if (slice_starts(domain, SLICE("*."))) {
        domain = slice_after(domain, 2);
    }
    while (domain.len > 0 && host.len > 0) {
        struct slice want = router_cut_label(&domain);
        struct slice label = router_cut_label(&host);

        if (label.len == 0 || (!slice_eq_nocase(want, label) && !slice_eq(want, SLICE("*")))) {
            return false;
        }
    }
    *before = host;
    return domain.len == 0;
}

enum router_host { HOST_OTHER, HOST_DOMAIN, HOST_BUCKET };

/* The longest domain of the list that `host` ends in. */
static enum router_host router_find_domain(struct slice domains, struct slice host,
                                           struct slice *bucket)
{
    enum router_host found = HOST_OTHER;

    *bucket = SLICE_EMPTY;
    while (domains.len > 0) {
        size_t comma = slice_find(domains, ',');
        struct slice domain = slice_trim(slice_of(domains.data, comma));
        struct slice before;

        domains = slice_after(domains, comma + 1);
        if (domain.len == 0 || slice_eq(domain, SLICE("*")) ||
            !router_domain_matches(domain, host, &before)) {
            continue;
        }
        if (found == HOST_OTHER || before.len < bucket->len) {
            found = before.len == 0 ? HOST_DOMAIN : HOST_BUCKET;
            *bucket = before;
        }
    }
    return found;
}

static bool router_any_website(const struct router *router)
{
    struct slice rest = router->website_domains;

    while (rest.len > 0) {
        size_t comma = slice_find(rest, ',');

        if (slice_eq(slice_trim(slice_of(rest.data, comma)), SLICE("*"))) {
            return true;
        }
        rest = slice_after(rest, comma + 1);
    }
    return false;
}

struct slice router_custom_host(const struct router *router, const struct http_request *request,
                                struct arena *arena)
{
    struct slice host;
    struct slice bucket;

    if (router->website_domains.len == 0 || !router_any_website(router)) {
        return SLICE_EMPTY;
    }
    host = router_host_name(request, arena);
    return router_find_domain(router->domains, host, &bucket) == HOST_OTHER ? host : SLICE_EMPTY;
}

/* A host of websites: BUCKET.NAME, or a bucket that is named as the whole host. */
static bool router_website(const struct router *router, struct slice host, bool custom,
                           struct s3_route *route)
{
    struct slice bucket = SLICE_EMPTY;
    enum router_host kind =
        custom ? HOST_DOMAIN : router_find_domain(router->website_domains, host, &bucket);

    if (kind == HOST_OTHER) {
        return false;
    }
    route->target = ON_WEBSITE;
    route->virtual_host = true;
    route->bucket = kind == HOST_BUCKET ? bucket : host;
    route->host_bucket = kind == HOST_BUCKET ? host : SLICE_EMPTY;
    return true;
}

/* Plainly impossible names get InvalidBucketName; the rest is looked up. */
static bool router_bucket_name_plausible(struct slice name)
{
    if (name.len < LIMIT_BUCKET_NAME_BYTES_MIN || name.len > ROUTER_LOOKUP_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool alphanumeric =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alphanumeric && c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    return true;
}

static void router_key(struct slice raw, struct arena *arena, struct s3_route *route)
{
    if (raw.len == 0) {
        return;
    }
    if (!percent_decode(arena, raw, false, &route->key) || !utf8_valid(route->key)) {
        router_refuse(route, S3_InvalidURI, NULL);
    } else if (route->key.len > LIMIT_KEY_BYTES) {
        router_refuse(route, S3_KeyTooLongError, NULL);
    }
}

static void router_path(const struct router *router, const struct http_request *request,
                        bool website, struct arena *arena, struct s3_route *route)
{
    struct slice rest = request->path;
    struct slice host = router_host_name(request, arena);

    if (rest.len == 0 || rest.data[0] != '/') {
        router_refuse(route, S3_InvalidURI, NULL);
        return;
    }
    rest = slice_after(rest, 1);
    if (router_website(router, host, website, route)) {
        router_key(rest, arena, route);
        return;
    }
    route->virtual_host = router_find_domain(router->domains, host, &route->bucket) == HOST_BUCKET;
    if (!route->virtual_host) {
        struct slice raw = {.data = rest.data, .len = slice_find(rest, '/')};

        if (rest.len == 0) {
            route->target = ON_SERVICE;
            return;
        }
        if (!percent_decode(arena, raw, false, &route->bucket)) {
            router_refuse(route, S3_InvalidURI, NULL);
            return;
        }
        rest = slice_after(rest, raw.len + 1);
    }
    route->target = rest.len == 0 ? ON_BUCKET : ON_OBJECT;
    if (!router_bucket_name_plausible(route->bucket)) {
        router_refuse(route, S3_InvalidBucketName, NULL);
    }
    router_key(rest, arena, route);
}

static uint32_t router_count_terms(struct slice query)
{
    uint32_t count = 1;

    for (size_t i = 0; i < query.len; i++) {
        count += query.data[i] == '&' ? 1 : 0;
    }
    return count;
}

static void router_query(const struct http_request *request, struct arena *arena,
                         struct s3_route *route)
{
    struct slice rest = request->query;

    if (rest.len == 0) {
        return;
    }
    if (router_count_terms(rest) > S3_PARAMS_MAX) {
        router_refuse(route, S3_InvalidArgument, "Too many query parameters.");
        return;
    }
    route->params = arena_alloc(arena, router_count_terms(rest) * sizeof(*route->params));
    while (rest.len > 0) {
        struct slice term = {.data = rest.data, .len = slice_find(rest, '&')};
        size_t equals = slice_find(term, '=');
        struct s3_param *param = &route->params[route->param_count];

        rest = slice_after(rest, term.len + 1);
        if (term.len == 0) {
            continue;
        }
        if (!percent_decode(arena, slice_of(term.data, equals), true, &param->name) ||
            !percent_decode(arena, slice_after(term, equals + 1), true, &param->value)) {
            router_refuse(route, S3_InvalidURI, NULL);
            return;
        }
        if (param->value.data == NULL) {
            param->value = SLICE(""); /* present: not to be taken for absent */
        }
        route->param_count += 1;
    }
}

static bool router_demand_met(const struct router_demand *demand, const struct s3_route *route)
{
    for (uint32_t i = 0; i < route->param_count; i++) {
        if (slice_eq(route->params[i].name, demand->name)) {
            return demand->value.data == NULL || slice_eq(route->params[i].value, demand->value);
        }
    }
    return false;
}

static bool router_row_matches(const struct router_row *row, const struct http_request *request,
                               const struct s3_route *route)
{
    if (row->demand_count > route->param_count) {
        return false;
    }
    for (unsigned i = 0; i < row->demand_count; i++) {
        if (!router_demand_met(&row->demands[i], route)) {
            return false;
        }
    }
    return row->op->header == NULL || http_header_get(request, row->op->header).data != NULL;
}

static void router_op(const struct router *router, const struct http_request *request,
                      struct s3_route *route)
{
    size_t first = router->groups[request->method][route->target].first;
    size_t count = router->groups[request->method][route->target].count;
    unsigned best = 0;

    for (size_t i = first; i < first + count; i++) {
        const struct router_row *row = &router->rows[i];

        if ((route->op != NULL && row->weight < best) || !router_row_matches(row, request, route)) {
            continue;
        }
        route->op_conflict = route->op != NULL && row->weight == best ? route->op : NULL;
        route->op = row->op;
        best = row->weight;
    }
}

/* DELETE /bucket?versioning must not delete the bucket: a write that names a sub-resource of some
 * other operation is not the plain one. */
static bool router_is_stray(const struct router *router, const struct http_request *request,
                            const struct s3_route *route)
{
    bool writes = request->method == HTTP_PUT || request->method == HTTP_DELETE ||
                  request->method == HTTP_POST;

    if (!writes || route->op == NULL || route->op->query != NULL) {
        return false;
    }
    for (size_t i = 0; i < router->row_count; i++) {
        const struct router_row *row = &router->rows[i];
        struct slice name;

        if (row->demand_count == 0 || row->demands[0].value.data != NULL) {
            continue;
        }
        name = row->demands[0].name;
        for (uint32_t j = 0; j < route->param_count; j++) {
            if (slice_eq(route->params[j].name, name)) {
                return true;
            }
        }
    }
    return false;
}

void router_match(const struct router *router, const struct http_request *request, bool website,
                  struct arena *arena, struct s3_route *route)
{
    ASSERT(request->method <= HTTP_OTHER);
    *route = (struct s3_route){.error = S3_OK};
    router_path(router, request, website, arena, route);
    if (route->target != ON_WEBSITE) { /* its queries are the pages' own */
        router_query(request, arena, route);
    }
    router_op(router, request, route);
    route->stray = router_is_stray(router, request, route);
}

/* ---- Names of new buckets ---- */

static bool router_is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Four runs of digits joined by dots: reads as an address. */
static bool router_looks_like_address(struct slice name)
{
    unsigned dots = 0;

    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '.') {
            dots += 1;
        } else if (name.data[i] < '0' || name.data[i] > '9') {
            return false;
        }
    }
    return dots == 3;
}

static bool router_ends(struct slice name, struct slice tail)
{
    return name.len >= tail.len && slice_eq(slice_after(name, name.len - tail.len), tail);
}

bool router_bucket_name_valid(struct slice name)
{
    if (name.len < LIMIT_BUCKET_NAME_BYTES_MIN || name.len > LIMIT_BUCKET_NAME_BYTES ||
        !router_is_lower_or_digit(name.data[0]) ||
        !router_is_lower_or_digit(name.data[name.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];

        if (!router_is_lower_or_digit(c) && c != '-' && c != '.') {
            return false;
        }
        if (c == '.' && name.data[i - 1] == '.') {
            return false;
        }
    }
    return !router_looks_like_address(name) && !slice_starts(name, SLICE("xn--")) &&
           !slice_starts(name, SLICE("sthree-")) && !slice_starts(name, SLICE("amzn-s3-demo-")) &&
           !router_ends(name, SLICE("-s3alias")) && !router_ends(name, SLICE("--ol-s3")) &&
           !router_ends(name, SLICE(".mrap")) && !router_ends(name, SLICE("--x-s3")) &&
           !router_ends(name, SLICE("--table-s3"));
}
