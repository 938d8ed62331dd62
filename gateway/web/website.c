/*
 * GET and HEAD of a website.
 *
 *     begin ─> read ─> found ─────────────> GetObject (its own steps: ranges, conditions, body)
 *       │                │ not there
 *       │                └─> index ─> failed ─> page ─> GetObject of the error document
 *       │ redirect               │ 302 to "dir/"  │ redirect by a rule
 *       └────────────────────────┴────────────────┴──────> 301, 302, ...
 *
 * `begin` applies RedirectAllRequestsTo and the rules that need no lookup. Whoever may read a key
 * may also know that it is absent, so a missing page is 404 here without the permission to list.
 */
#include "gateway/web/website.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

enum { WEBSITE_READ = 0, WEBSITE_INDEX, WEBSITE_PAGE, WEBSITE_GETS };

struct website_get {
    struct s3_request base;
    struct meta_get gets[WEBSITE_GETS];
    bool got[WEBSITE_GETS];
    const Kist__Website *config;
    struct slice asked; /* the key as in the URL */
    enum s3_error error;
};

static struct website_get *website_of(struct task *task)
{
    return CONTAINER_OF(task, struct website_get, base.task);
}

static enum step_result website_redirect(struct s3_request *req, int status, struct slice location)
{
    s3_reply_header(req, "Location", location);
    return s3_reply_empty(req, status);
}

static enum step_result website_redirect_rule(struct website_get *op, const Kist__RoutingRule *rule)
{
    struct s3_request *req = &op->base;
    const struct http_request *request = &req->http->request;

    return website_redirect(req, rule->status != 0 ? (int)rule->status : 301,
                            website_rule_location(req->arena, rule, op->asked, request->query,
                                                  s3_header(req, "host"), req->http->is_tls));
}

static enum step_result website_lookup(struct website_get *op, int which, struct slice key)
{
    struct s3_request *req = &op->base;
    struct meta_client *meta = req->gateway->meta;
    struct meta_get *get = &op->gets[which];

    get->bucket_id = req->bucket->id;
    get->generation = req->bucket->generation;
    get->key = key;
    get->arena = req->arena;
    return meta->get(meta, get, &req->task);
}

/* Also when only the object can tell. */
static bool website_may_read(const struct website_get *op, struct slice key)
{
    return s3_may_allow_key(&op->base, "s3:GetObject", op->base.bucket, key);
}

/* `record` NULL: may it be told that the key is absent? */
static bool website_may_read_record(struct website_get *op, struct slice key,
                                    const Kist__Record *record)
{
    struct s3_request *req = &op->base;

    if (record == NULL && s3_allowed_key(req, "s3:GetObject", req->bucket, key)) {
        return true;
    }
    if (s3_check_key(req, "s3:GetObject", req->bucket, key, record) != STEP_FAIL) {
        return true;
    }
    req->error = S3_OK; /* is not the end of it: a rule or an error document may follow */
    req->task.error = (struct error){.rc = RC_OK};
    return false;
}

static struct slice website_header(const Kist__Record *record, const char *name)
{
    for (size_t i = 0; i < record->n_headers; i++) {
        if (slice_eq_str(s3_slice(record->headers[i]->name), name)) {
            return s3_slice(record->headers[i]->value);
        }
    }
    return SLICE_EMPTY;
}

static enum step_result website_serve(struct website_get *op, struct slice key)
{
    struct s3_request *req = &op->base;

    req->key = key;
    return s3_forward(req, req->http->request.method == HTTP_HEAD ? &head_object : &get_object);
}

/* ---- The steps ---- */

static enum step_result website_begin(struct task *task)
{
    struct website_get *op = website_of(task);
    struct s3_request *req = &op->base;
    const struct http_request *request = &req->http->request;
    const Kist__RoutingRule *rule;

    op->config = s3_settings(req->bucket)->website;
    op->asked = req->key;
    if (op->config == NULL && !s3_view_is_fresh(req)) {
        return task_fail(task, RC_STALE, "a website may have been made meanwhile");
    }
    if (op->config == NULL) {
        (void)s3_fail(req, S3_NoSuchWebsiteConfiguration, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    if (op->config->redirect_host.len > 0) {
        return website_redirect(req, 301,
                                website_all_location(req->arena, op->config, op->asked,
                                                     request->query, req->http->is_tls));
    }
    rule = website_rule(op->config, op->asked, 0);
    if (rule != NULL) {
        return website_redirect_rule(op, rule);
    }
    if (op->asked.len == 0 || op->asked.data[op->asked.len - 1] == '/') {
        struct slice suffix = s3_slice(op->config->index_suffix);

        req->key =
            arena_printf(req->arena, "%.*s%.*s", (int)op->asked.len,
                         op->asked.len > 0 ? op->asked.data : "", (int)suffix.len, suffix.data);
    }
    return STEP_NEXT;
}

static enum step_result website_read(struct task *task)
{
    struct website_get *op = website_of(task);

    if (!website_may_read(op, op->base.key)) {
        op->error = S3_AccessDenied;
        return STEP_NEXT;
    }
    return website_lookup(op, WEBSITE_READ, op->base.key);
}

static enum step_result website_found(struct task *task)
{
    struct website_get *op = website_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->gets[WEBSITE_READ].record;
    struct slice location;

    if (op->error != S3_OK) {
        return STEP_NEXT;
    }
    op->got[WEBSITE_READ] = true;
    if (record != NULL) {
        if (!website_may_read_record(op, op->gets[WEBSITE_READ].key, record)) {
            op->error = S3_AccessDenied;
            return STEP_NEXT;
        }
        location = website_header(record, "x-amz-website-redirect-location");
        return location.len > 0 ? website_redirect(req, 301, arena_copy(req->arena, location))
                                : website_serve(op, req->key);
    }
    op->error = website_may_read_record(op, req->key, NULL) ? S3_NoSuchKey : S3_AccessDenied;
    if (op->error == S3_AccessDenied) {
        return STEP_NEXT;
    }
    if (op->asked.len == 0 || op->asked.data[op->asked.len - 1] == '/') {
        return STEP_NEXT;
    }
    return website_lookup(op, WEBSITE_INDEX,
                          arena_printf(req->arena, "%.*s/%.*s", (int)op->asked.len, op->asked.data,
                                       (int)op->config->index_suffix.len,
                                       (const char *)op->config->index_suffix.data));
}

/* "dir" is not there, "dir/index.html" is. The first byte of the path is the only slash before the
 * key's own: "//host/" would lead elsewhere. */
static enum step_result website_index(struct task *task)
{
    struct website_get *op = website_of(task);
    struct s3_request *req = &op->base;
    struct meta_get *get = &op->gets[WEBSITE_INDEX];
    size_t at = 0;
    Kist__RoutingRule to_directory = KIST__ROUTING_RULE__INIT;

    if (get->key.len == 0) {
        return STEP_NEXT;
    }
    op->got[WEBSITE_INDEX] = true;
    if (get->record == NULL || !website_may_read(op, get->key) ||
        !website_may_read_record(op, get->key, get->record)) {
        return STEP_NEXT;
    }
    while (at < op->asked.len && op->asked.data[at] == '/') {
        at += 1;
    }
    if (at > 0) {
        return STEP_NEXT;
    }
    struct slice location =
        website_rule_location(req->arena, &to_directory,
                              arena_printf(req->arena, "%.*s/", (int)op->asked.len, op->asked.data),
                              SLICE_EMPTY, SLICE_EMPTY, req->http->is_tls);

    /* As AWS does it: the path alone. */
    return website_redirect(
        req, 302,
        slice_after(location, req->http->is_tls ? sizeof("https://") - 1 : sizeof("http://") - 1));
}

static enum step_result website_fail(struct website_get *op)
{
    return s3_fail(&op->base, op->error, NULL);
}

static enum step_result website_failed(struct task *task)
{
    struct website_get *op = website_of(task);
    struct s3_request *req = &op->base;
    struct slice page = s3_slice(op->config->error_key);
    const Kist__RoutingRule *rule = website_rule(op->config, op->asked, s3_error_status(op->error));

    ASSERT(op->error != S3_OK);
    if (!s3_view_is_fresh(req)) {
        return task_fail(task, RC_STALE, "what is allowed may have changed meanwhile");
    }
    if (rule != NULL) {
        return website_redirect_rule(op, rule);
    }
    if (page.len == 0) {
        return website_fail(op);
    }
    req->website->page_key = page;
    if (!website_may_read(op, page)) {
        req->website->page_error = S3_AccessDenied;
        return website_fail(op);
    }
    return website_lookup(op, WEBSITE_PAGE, page);
}

/* The error document comes whole, whatever part of the page was asked for. */
static void website_drop_conditions(struct http_request *request)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < request->header_count; i++) {
        struct slice name = request->headers[i].name;

        if (!slice_eq(name, SLICE("range")) && !slice_starts(name, SLICE("if-"))) {
            request->headers[kept++] = request->headers[i];
        }
    }
    request->header_count = kept;
}

static enum step_result website_page(struct task *task)
{
    struct website_get *op = website_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->gets[WEBSITE_PAGE].record;

    op->got[WEBSITE_PAGE] = true;
    if (record == NULL) {
        req->website->page_error = S3_NoSuchKey;
        return website_fail(op);
    }
    if (!website_may_read_record(op, op->gets[WEBSITE_PAGE].key, record)) {
        req->website->page_error = S3_AccessDenied;
        return website_fail(op);
    }
    website_drop_conditions(&req->http->request);
    req->status_instead = s3_error_status(op->error);
    return website_serve(op, req->website->page_key);
}

static void website_release(struct task *task)
{
    struct website_get *op = website_of(task);
    struct meta_client *meta = op->base.gateway->meta;

    for (int i = 0; i < WEBSITE_GETS; i++) {
        if (op->got[i] || op->gets[i].record != NULL || op->gets[i].marker != NULL) {
            meta->release(meta, &op->gets[i]);
            op->got[i] = false;
            op->gets[i].record = NULL;
            op->gets[i].marker = NULL;
        }
    }
}

const struct s3_handler website_get = {
    .state_size = sizeof(struct website_get),
    .flags = AUTH_LATER,
    .steps =
        {
                {"begin", website_begin},
                {"read", website_read},
                {"found", website_found},
                {"index", website_index},
                {"failed", website_failed},
                {"page", website_page},
                },
    .release = website_release,
};
