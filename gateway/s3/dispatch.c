#include "gateway/s3/dispatch.h"

#include <assert.h>

#include "common/base/limits.h"
#include "common/codec/base64.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "gateway/s3/judge.h"
#include "gateway/s3/keep_alive.h"
#include "gateway/s3/router.h"
#include "gateway/s3/server_timing.h"
#include "gateway/s3/verdict.h"
#include "gateway/web/cors.h"
#include "gateway/web/form.h"
#include "gateway/web/website.h"

enum {
    DISPATCH_JUDGEMENTS_MAX = 64, /* fifty clients that change one bucket at once all get through */
    DISPATCH_DOCUMENT_STEP_BYTES = 16384,
    DISPATCH_DOCUMENTS_BYTES_MAX = 32 * 1024 * 1024 /* of all requests of one loop */
};

/* One request on its way. Lives in the exchange's arena. */
struct dispatch {
    struct task task; /* judging and reading the document; then the handler's own task runs */
    struct s3_service *service;
    struct s3_request *req;
    struct s3_route route;
    struct meta_refresh refresh;
    struct view
        *views[DISPATCH_JUDGEMENTS_MAX]; /* all that were used: handlers keep slices of them */
    uint32_t view_count;
    uint32_t judgements;
    bool want_refresh;
    bool fresh; /* the view in use is from a refresh begun after the request arrived */
    bool hung_up;
    struct task *running;
    size_t restart_at;           /* row of the handler to go on with */
    uint64_t home_id;            /* bucket that the body was written for */
    const struct s3_op *forward; /* s3_forward(): to be done next */
    size_t state_size;           /* room for the states of handlers */
    struct buffer document;
    size_t document_bytes; /* taken from the service's budget */
    struct payload_read read;
    struct keep_alive keep;
    struct server_timing *timing; /* NULL: not asked for */
};

static struct dispatch *dispatch_of(struct task *task)
{
    return CONTAINER_OF(task, struct dispatch, task);
}

/* ---- Ids ---- */

static uint64_t dispatch_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static void dispatch_make_id(struct s3_service *service, char out[S3_REQUEST_ID_BYTES + 1])
{
    static const char digits[32] = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A',
                                    'B', 'C', 'D', 'E', 'F', 'G', 'H', 'J', 'K', 'M', 'N',
                                    'P', 'Q', 'R', 'S', 'T', 'V', 'W', 'X', 'Y', 'Z'};
    uint64_t bits;

    service->id_count += 1;
    bits = dispatch_mix(service->id_seed + service->id_count * 0x9e3779b97f4a7c15ULL);
    for (int i = 0; i < S3_REQUEST_ID_BYTES; i++) {
        out[i] = digits[bits & 31];
        bits = bits >> 4 | bits << 60; /* four bits a digit: all 64 show, one overlapping */
    }
    out[S3_REQUEST_ID_BYTES] = '\0';
}

const struct http_header *s3_bad_request_headers(struct s3_service *service, struct arena *arena,
                                                 size_t *count)
{
    struct http_header *headers = arena_alloc_raw(arena, 4 * sizeof(*headers));

    dispatch_make_id(service, service->refused_id);
    headers[0] = (struct http_header){SLICE("x-amz-request-id"),
                                      arena_copy(arena, slice_str(service->refused_id))};
    headers[1] =
        (struct http_header){SLICE("x-amz-id-2"), slice_of(service->host_id, S3_HOST_ID_BYTES)};
    headers[2] = (struct http_header){SLICE("Server"), SLICE("kist")};
    headers[3] = (struct http_header){SLICE("Content-Type"), SLICE("application/xml")};
    *count = 4;
    return headers;
}

struct slice s3_host_id(const struct s3_request *req)
{
    const struct dispatch *d = req->dispatch;

    return slice_of(d->service->host_id, S3_HOST_ID_BYTES);
}

void s3_reply_common_headers(struct s3_request *req)
{
    const struct dispatch *d = req->dispatch;

    s3_reply_header(req, "x-amz-request-id", slice_of(req->request_id, S3_REQUEST_ID_BYTES));
    s3_reply_header(req, "x-amz-id-2", s3_host_id(req));
    s3_reply_header(req, "Server", SLICE("kist"));
    if (d->timing != NULL) {
        s3_reply_header(req, "Server-Timing", server_timing_text(d->timing, req->arena));
    }
    s3_reply_cors(req);
}

/* ---- The end: exactly one of these is reached, once ---- */

static void dispatch_give_back(struct dispatch *d)
{
    struct s3_request *req = d->req;

    if (req->op != NULL && req->op->handler != NULL && req->op->handler->release != NULL &&
        d->home_id != 0) {
        req->op->handler->release(&req->task);
    }
    payload_deinit(&req->payload);
    for (uint32_t i = 0; i < d->view_count; i++) {
        view_unref(d->views[i]);
    }
    d->view_count = 0;
    buffer_deinit(&d->document);
    d->service->document_bytes -= d->document_bytes;
    d->document_bytes = 0;
    d->service->gateway->active_requests -= 1;
    metric_gauge_add(METRIC_REQUESTS_ACTIVE, -1);
}

static void dispatch_send_error(struct dispatch *d)
{
    struct s3_request *req = d->req;
    bool silent = req->http->request.method == HTTP_HEAD || req->error == S3_NotModified;

    req->status = s3_error_status(req->error);
    buffer_clear(&req->xml);
    req->body = SLICE_EMPTY;
    if (req->website != NULL) {
        website_error_page(req, &req->xml);
    } else if (!silent) {
        s3_error_document(req, &req->xml);
    }
    if (!silent) {
        req->body = buffer_slice(&req->xml);
    }
    if (req->website == NULL && req->error != S3_NotModified) {
        s3_reply_header(req, "Content-Type", SLICE("application/xml"));
    }
    s3_reply_common_headers(req);
}

static void dispatch_send(struct dispatch *d, bool cut)
{
    struct s3_request *req = d->req;
    struct s3_service *service = d->service;
    struct http_exchange *http = req->http;
    struct buffer xml = req->xml; /* outlives the arena */
    struct slice body = req->body;

    if (service->finished != NULL) {
        struct env *env = http->env;

        service->finished(req, env->clock->mono_ns(env) - http->started_ns);
    }
    if (cut) {
        http_abort(http);
    } else if (req->streamed) {
        http_reply_end(http, NULL, 0);
    } else if (d->keep.begun) {
        body = keep_alive_rest(body);
        http_reply_end(http, &body, 1);
    } else {
        http_reply_start(http, req->status, req->headers, req->header_count, (int64_t)body.len);
        http_reply_end(http, &body, body.len > 0 ? 1 : 0);
    }
    buffer_deinit(&xml);
}

static void dispatch_finish(struct dispatch *d, const struct error *error)
{
    struct s3_request *req = d->req;
    enum rc rc = error->rc;
    bool failed = rc != RC_OK;
    bool cut;

    if (!failed && req->object_decides) {
        /* A handler that says CHECKS_OBJECT and did not: nothing may be given away. */
        LOG_ERROR("object_not_checked", "id=%s op=%s", req->request_id, req->op->name);
        (void)s3_fail(req, S3_InternalError, NULL);
        failed = true;
    }
    cut = !keep_alive_stop(&d->keep) || d->hung_up || (failed && req->replied);
    if (failed && d->home_id != 0 && req->op->handler->abort != NULL) {
        req->op->handler->abort(&req->task); /* may say what the failure means */
    }
    if (failed && req->error == S3_OK) {
        req->header_count = 0;
        req->error =
            rc == RC_NOT_FOUND && req->not_found != S3_OK ? req->not_found : s3_error_from_rc(rc);
    }
    if (failed && s3_error_status(req->error) >= 500 && req->error != S3_NotImplemented) {
        LOG_WARN("request_failed", "id=%s op=%s code=%s reason=\"%s\"", req->request_id,
                 req->op != NULL ? req->op->name : "-", s3_error_code(req->error), error->text);
    }
    if (failed && !cut) {
        dispatch_send_error(d);
    } else if (!cut && !req->replied) {
        s3_reply_common_headers(req);
    }
    dispatch_give_back(d);
    dispatch_send(d, cut);
}

/* ---- Judging ---- */

/* A "no" that rests on a snapshot may be out of date. */
static bool dispatch_must_confirm(enum s3_error error)
{
    return error == S3_NoSuchBucket || error == S3_InvalidAccessKeyId || error == S3_AccessDenied ||
           error == S3_SignatureDoesNotMatch;
}

static enum step_result dispatch_judge(struct task *task)
{
    struct dispatch *d = dispatch_of(task);
    struct s3_request *req = d->req;
    struct meta_client *meta = req->gateway->meta;
    enum s3_error error;

    if (d->want_refresh) {
        enum step_result result;

        d->want_refresh = false;
        d->fresh = true;
        result = meta->refresh(meta, &d->refresh, task);
        if (result == STEP_WAIT) {
            return STEP_AGAIN;
        }
        return result == STEP_NEXT ? STEP_REPEAT : result;
    }
    if (d->judgements == DISPATCH_JUDGEMENTS_MAX) {
        (void)s3_fail(req, S3_ServiceUnavailable, NULL);
        return task_fail(task, RC_STALE, "the bucket changes all the time");
    }
    d->judgements += 1;
    req->view = view_ref(meta->view(meta));
    d->views[d->view_count++] = req->view;
    error = s3_verdict(req, &d->route);
    if (error == S3_OK) {
        return STEP_NEXT;
    }
    if (dispatch_must_confirm(error) && !d->fresh &&
        !(req->auth.anonymous && d->route.target == ON_SERVICE)) {
        d->want_refresh = true;
        return STEP_REPEAT;
    }
    return task_fail(task, RC_INVALID, "%s", s3_error_code(error));
}

/* ---- Documents ---- */

static void dispatch_document_read(struct payload_read *read)
{
    struct dispatch *d = CONTAINER_OF(read, struct dispatch, read);

    task_resume(&d->task, RC_OK);
}

static enum step_result dispatch_document_fail(struct dispatch *d, enum s3_error error,
                                               const char *text)
{
    /* The limit is that of documents, not of objects. */
    if (error == S3_EntityTooLarge) {
        error = S3_MaxMessageLengthExceeded;
        text = NULL;
    }
    (void)s3_fail(d->req, error, text);
    return task_fail(&d->task, RC_INVALID, "%s", s3_error_code(error));
}

static enum step_result dispatch_document_end(struct dispatch *d)
{
    struct s3_request *req = d->req;

    if (req->payload.error != S3_OK) {
        return dispatch_document_fail(d, req->payload.error, req->payload.error_text);
    }
    if ((req->op->handler->flags & NEEDS_CHECKSUM) != 0 &&
        s3_header(req, "content-md5").data == NULL &&
        req->payload.declared.algorithm == CHECKSUM_NONE) {
        return dispatch_document_fail(
            d, S3_InvalidRequest,
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
    }
    req->document = buffer_slice(&d->document);
    return STEP_NEXT;
}

static enum step_result dispatch_document(struct task *task)
{
    struct dispatch *d = dispatch_of(task);
    struct s3_request *req = d->req;
    const size_t step = DISPATCH_DOCUMENT_STEP_BYTES;
    char *to;

    if ((req->op->handler->flags & BODY_DOCUMENT) == 0) {
        return STEP_NEXT;
    }
    if (!req->body_begun) {
        const struct http_request *request = &req->http->request;

        if (!request->has_length && !request->chunked &&
            (req->op->handler->flags & NEEDS_CHECKSUM) == 0) {
            return STEP_NEXT; /* no body: an empty document */
        }
        if (req->auth.mode == PAYLOAD_UNSIGNED_TRAILER && req->op->target == ON_BUCKET &&
            request->method == HTTP_PUT) { /* AWS takes it for objects alone */
            return dispatch_document_fail(d, S3_InvalidRequest,
                                          "The value of x-amz-content-sha256 header is invalid.");
        }
        if (s3_body_begin(req, false, 0, LIMIT_XML_BODY_BYTES) != STEP_NEXT) {
            return dispatch_document_fail(d, req->error,
                                          req->error_text.len > 0 ? req->error_text.data : NULL);
        }
        d->read.done = dispatch_document_read;
    } else {
        d->document.len += d->read.len;
        if (d->read.end) {
            return dispatch_document_end(d);
        }
    }
    if (d->service->document_bytes + step > DISPATCH_DOCUMENTS_BYTES_MAX) {
        return dispatch_document_fail(d, S3_SlowDown, NULL);
    }
    d->service->document_bytes += step;
    d->document_bytes += step;
    to = buffer_reserve(&d->document, step);
    d->read.len = 0;
    return payload_read(&req->payload, &d->read, to, step) ? STEP_REPEAT : STEP_AGAIN;
}

/* ---- The handler ---- */

static void dispatch_trace(struct task *task, const char *step)
{
    server_timing_enter(dispatch_of(task)->timing, step);
}

static void dispatch_trace_handler(struct task *task, const char *step)
{
    const struct dispatch *d = S3_REQUEST_OF(task)->dispatch;

    server_timing_enter(d->timing, step);
}

static const struct step dispatch_judge_again[] = {
    {"judge", dispatch_judge},
    {0}
};
static void dispatch_judged(struct task *task);

/* From where a handler goes on after a new judgement: its commit, if it had come that far. */
static size_t dispatch_restart_row(const struct s3_request *req)
{
    const struct step *steps = req->op->handler->steps;

    for (size_t i = 0; steps[i].run != NULL; i++) {
        if (strcmp(steps[i].name, "commit") == 0) {
            return req->task.steps + req->task.at >= steps + i ? i : 0;
        }
    }
    return 0;
}

static void dispatch_forget_object(struct s3_request *req)
{
    req->object = NULL;
    req->object_known = false;
    req->object_decides = false;
}

static void dispatch_forget_state(struct dispatch *d)
{
    struct s3_request *req = d->req;
    const struct s3_handler *handler = req->op->handler;

    if (handler->abort != NULL) {
        handler->abort(&req->task);
    }
    if (handler->release != NULL) {
        handler->release(&req->task);
    }
    payload_deinit(&req->payload);
    dispatch_forget_object(req);
    memset((char *)req + sizeof(*req), 0, handler->state_size - sizeof(*req));
}

enum step_result s3_forward(struct s3_request *req, const struct s3_handler *handler)
{
    struct dispatch *d = req->dispatch;

    for (size_t i = 0; i < s3_op_count && d->forward == NULL; i++) {
        d->forward = s3_ops[i].handler == handler ? &s3_ops[i] : NULL;
    }
    ASSERT(d->forward != NULL && handler->state_size <= d->state_size);
    return STEP_DONE;
}

bool s3_view_is_fresh(const struct s3_request *req)
{
    const struct dispatch *d = req->dispatch;

    return d->fresh;
}

/* The handler has found out what is really asked for. */
static void dispatch_forward(struct dispatch *d)
{
    struct s3_request *req = d->req;

    if (req->op->handler->release != NULL) {
        req->op->handler->release(&req->task);
    }
    dispatch_forget_object(req);
    memset((char *)req + sizeof(*req), 0, d->state_size - sizeof(*req));
    req->op = d->forward;
    req->header_count = 0;
    d->forward = NULL;
    d->restart_at = 0;
    d->home_id = 0;
    d->running = &d->task;
    task_start_traced(&d->task, dispatch_judge_again, dispatch_judged,
                      d->timing != NULL ? dispatch_trace : NULL);
}

/* A "no" of the handler rests on the view too, if it has not asked for a newer one itself: then it
 * runs once more, by a fresh one. Not when what it has read of a body cannot be read again. */
static bool dispatch_no_is_old(const struct dispatch *d)
{
    const struct s3_request *req = d->req;
    bool body_gone = req->body_begun && (req->op->handler->flags & BODY_STREAM) != 0;

    return req->error == S3_AccessDenied && !d->fresh && !body_gone;
}

static void dispatch_handler_done(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    struct dispatch *d = req->dispatch;
    size_t row;
    bool again;

    if (d->forward != NULL && task->error.rc == RC_OK && !d->hung_up) {
        dispatch_forward(d);
        return;
    }

    again = (task->error.rc == RC_STALE && req->error == S3_OK) ||
            (task->error.rc != RC_OK && dispatch_no_is_old(d));
    if (!again || req->replied || d->hung_up) {
        dispatch_finish(d, &task->error);
        return;
    }
    row = req->error == S3_OK ? dispatch_restart_row(req) : 0;
    if (row == 0 && req->body_begun && (req->op->handler->flags & BODY_STREAM) != 0) {
        dispatch_finish(d, &task->error); /* what was read of the body cannot be read again */
        return;
    }
    if (row == 0) {
        dispatch_forget_state(d);
        d->home_id = 0;
    }
    d->restart_at = row;
    req->header_count = 0;
    buffer_clear(&req->xml);
    d->want_refresh = true;
    d->running = &d->task;
    task_start_traced(&d->task, dispatch_judge_again, dispatch_judged,
                      d->timing != NULL ? dispatch_trace : NULL);
}

static void dispatch_judged(struct task *task)
{
    struct dispatch *d = dispatch_of(task);
    struct s3_request *req = d->req;
    uint64_t id = req->bucket != NULL ? req->bucket->id : UINT64_MAX;

    if (task->error.rc == RC_OK && d->restart_at > 0 && d->home_id != id) {
        /* Deleted and made again: what was written belongs to the bucket that is gone. */
        if ((req->op->handler->flags & BODY_STREAM) != 0) {
            (void)s3_fail(req, S3_ServiceUnavailable, NULL);
            (void)task_fail(task, RC_STALE, "the bucket was made again");
        } else {
            dispatch_forget_state(d);
            d->restart_at = 0;
        }
    }
    if (task->error.rc != RC_OK || d->hung_up) {
        if (task->error.rc == RC_OK) {
            (void)error_set(&task->error, RC_CANCELLED, "the client hung up");
        }
        dispatch_finish(d, &task->error);
        return;
    }
    d->home_id = id;
    d->running = &req->task;
    if ((req->op->handler->flags & KEEPS_ALIVE) != 0) {
        keep_alive_start(&d->keep, req);
    }
    task_start_traced(&req->task, req->op->handler->steps + d->restart_at, dispatch_handler_done,
                      d->timing != NULL ? dispatch_trace_handler : NULL);
}

/* ---- The beginning ---- */

bool s3_client_gone(const struct s3_request *req)
{
    const struct dispatch *d = req->dispatch;

    return d->hung_up;
}

static void dispatch_hangup(struct http_exchange *exchange)
{
    struct dispatch *d = exchange->user;

    d->hung_up = true;
    task_cancel(d->running);
}

static const struct step dispatch_steps[] = {
    {"judge", dispatch_judge},
    {"document", dispatch_document},
    {0},
};

/* Room for the state of `op`, or of whatever it may forward to. */
static size_t dispatch_state_size(const struct s3_op *op)
{
    size_t size = sizeof(struct s3_request);

    if (op == NULL || op->handler == NULL) {
        return size;
    }
    ASSERT(op->handler->state_size >= size);
    if ((op->handler->flags & AUTH_LATER) == 0) {
        return op->handler->state_size;
    }
    for (size_t i = 0; i < s3_op_count; i++) {
        if (s3_ops[i].handler != NULL && s3_ops[i].handler->state_size > size) {
            size = s3_ops[i].handler->state_size;
        }
    }
    return size;
}

/* A bucket that is named as the host and is a website (--website-domain '*'). */
static bool dispatch_is_website(struct s3_service *service, const struct http_request *request,
                                struct arena *arena)
{
    struct meta_client *meta = service->gateway->meta;
    struct slice host = router_custom_host(service->router, request, arena);
    const Kist__Bucket *bucket = host.len > 0 ? view_bucket(meta->view(meta), host) : NULL;

    return bucket != NULL && bucket->settings != NULL && bucket->settings->website != NULL;
}

void s3_dispatch(struct s3_service *service, struct http_exchange *exchange)
{
    struct arena *arena = exchange->arena;
    struct dispatch *d = arena_alloc(arena, sizeof(*d));
    struct s3_request *req;

    router_match(service->router, &exchange->request,
                 dispatch_is_website(service, &exchange->request, arena), arena, &d->route);
    d->state_size = dispatch_state_size(d->route.op);
    req = arena_alloc(arena, d->state_size);
    req->website = d->route.target == ON_WEBSITE ? website_new(arena) : NULL;
    req->gateway = service->gateway;
    req->http = exchange;
    req->arena = arena;
    req->op = d->route.op;
    req->bucket_name = d->route.bucket;
    req->key = d->route.key;
    req->resource = exchange->request.path;
    req->params = d->route.params;
    req->param_count = d->route.param_count;
    req->dispatch = d;
    buffer_init(&req->xml);
    dispatch_make_id(service, req->request_id);
    d->service = service;
    d->req = req;
    buffer_init(&d->document);
    d->running = &d->task;
    exchange->user = d;
    exchange->on_hangup = dispatch_hangup;
    service->gateway->active_requests += 1;
    metric_gauge_add(METRIC_REQUESTS_ACTIVE, 1);
    if (s3_header(req, "x-kist-server-timing").len > 0) {
        d->timing = arena_alloc(arena, sizeof(*d->timing));
        d->timing->env = exchange->env;
        d->timing->started_ns = exchange->started_ns;
    }
    task_start_traced(&d->task, dispatch_steps, dispatch_judged,
                      d->timing != NULL ? dispatch_trace : NULL);
}

/* ---- The service ---- */

enum rc s3_service_init(struct s3_service *service, struct gateway *gateway, struct error *error)
{
    uint64_t random[S3_HOST_ID_BYTES / 4 * 3 / 8];

    static_assert(sizeof(random) * 4 / 3 == S3_HOST_ID_BYTES, "fills the id");
    *service = (struct s3_service){.gateway = gateway};
    service->router = router_new(gateway->config->domain, gateway->config->website_domain, error);
    if (service->router == NULL) {
        return RC_INVALID;
    }
    for (size_t i = 0; i < s3_op_count; i++) {
        if (s3_ops[i].handler != NULL &&
            policy_action_find(slice_str(s3_ops[i].action)) == POLICY_ACTION_COUNT) {
            return error_set(error, RC_INVALID, "op.def: %s: policy_action.def has no %s",
                             s3_ops[i].name, s3_ops[i].action);
        }
    }
    gateway->policies = policy_cache_new();
    service->id_seed = gateway->env->random(gateway->env);
    for (size_t i = 0; i < ARRAY_LEN(random); i++) {
        random[i] = gateway->env->random(gateway->env);
    }
    (void)base64_encode(service->host_id, random, sizeof(random));
    return RC_OK;
}

void s3_service_deinit(struct s3_service *service)
{
    router_free(service->router);
    service->router = NULL;
    policy_cache_free(service->gateway->policies);
    service->gateway->policies = NULL;
}
