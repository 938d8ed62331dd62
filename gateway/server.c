#include "gateway/server.h"

#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/metrics/metrics.h"
#include "gateway/s3/dispatch.h"

enum {
    SERVER_IDLE_MS = 65 * 1000, /* above the 60 s of common balancers, so that they close first */
    SERVER_HEADER_MS = 15 * 1000,
    SERVER_BODY_MS = 60 * 1000,
    SERVER_DRAIN_CHECK_MS = 5,
    SERVER_LOOP_SHIFT = 48, /* an id's counter: loop number above, count below */
    SERVER_OP_SERIES_MAX = 159
};

struct gateway_server {
    struct gateway gateway;
    struct s3_service service;
    struct http_server *http;
    struct env_timer drain;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- Ids ---- */

struct extent_id gateway_new_id(struct gateway *gateway)
{
    struct extent_id id;
    uint64_t count;

    gateway->id_counter += 1;
    count = (uint64_t)gateway->loop << SERVER_LOOP_SHIFT | gateway->id_counter;
    be32_put(id.bytes, gateway->config->cluster_epoch);
    be32_put(id.bytes + 4, gateway->config->incarnation);
    be64_put(id.bytes + 8, gateway->env->clock->wall_ns(gateway->env) / 1000000U);
    be64_put(id.bytes + 16, count);
    return id;
}

/* ---- Metrics: series are rows of op.def, and the codes of error.def ---- */

static uint32_t server_op_series(const struct s3_op *op)
{
    if (op == NULL) {
        return (uint32_t)s3_op_count;
    }
    for (size_t i = 0; &s3_ops[i] < op; i++) { /* rows of one name count together */
        if (s3_ops[i].name == op->name || strcmp(s3_ops[i].name, op->name) == 0) {
            return (uint32_t)i;
        }
    }
    return (uint32_t)(op - s3_ops);
}

static void server_name_metrics(void)
{
    static const char *const classes[] = {"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"};

    ASSERT(s3_op_count < SERVER_OP_SERIES_MAX);
    for (uint32_t i = 0; i < s3_op_count; i++) {
        if (server_op_series(&s3_ops[i]) == i) {
            metric_label(METRIC_REQUESTS, i, s3_ops[i].name);
            metric_label(METRIC_REQUEST_SECONDS, i, s3_ops[i].name);
        }
    }
    metric_label(METRIC_REQUESTS, (uint32_t)s3_op_count, "unknown");
    metric_label(METRIC_REQUEST_SECONDS, (uint32_t)s3_op_count, "unknown");
    for (uint32_t i = 0; i < ARRAY_LEN(classes); i++) {
        metric_label(METRIC_STATUS, i, classes[i]);
    }
    for (uint32_t i = 1; i < S3_ERROR_COUNT; i++) {
        metric_label(METRIC_ERRORS, i, s3_error_code((enum s3_error)i));
    }
}

static void server_finished(const struct s3_request *req, uint64_t duration_ns)
{
    uint32_t series = (uint32_t)s3_op_count;

    if (req->op != NULL) {
        series =
            req->op->handler != NULL ? (uint32_t)(req->op - s3_ops) : server_op_series(req->op);
    }
    metric_add(METRIC_REQUESTS, series, 1);
    metric_observe_ns(METRIC_REQUEST_SECONDS, series, duration_ns);
    metric_add(METRIC_STATUS, (uint32_t)(req->status / 100), 1);
    if (req->error != S3_OK) {
        metric_add(METRIC_ERRORS, (uint32_t)req->error, 1);
    }
    if (req->payload.received > 0) {
        metric_add(METRIC_RECEIVED_BYTES, 0, req->payload.received);
    }
}

/* ---- Requests ---- */

static void server_on_request(struct http_server *http, struct http_exchange *exchange)
{
    struct gateway_server *server = http_server_user(http);

    s3_dispatch(&server->service, exchange);
}

static const struct http_header *server_bad_request_headers(struct http_server *http,
                                                            struct arena *arena, size_t *count)
{
    struct gateway_server *server = http_server_user(http);

    return s3_bad_request_headers(&server->service, arena, count);
}

static void server_on_bad_request(struct http_server *http, struct arena *arena, int status,
                                  struct slice *body, struct slice *content_type)
{
    struct gateway_server *server = http_server_user(http);

    s3_bad_request(&server->service, arena, status, body, content_type);
}

/* ---- Life ---- */

static uint64_t server_or(uint64_t value, uint64_t standard)
{
    return value != 0 ? value : standard;
}

static void server_free(struct gateway_server *server)
{
    s3_service_deinit(&server->service);
    sigv4_cache_free(server->gateway.signing_keys);
    mem_free(server);
}

enum rc gateway_server_open(struct gateway_server **out,
                            const struct gateway_server_options *options, struct error *error)
{
    struct gateway_server *server = mem_alloc(sizeof(*server));
    struct gateway *gateway = &server->gateway;
    struct http_options http = {
        .address = options->address,
        .tls = options->tls,
        .idle_timeout_ms = server_or(options->idle_timeout_ms, SERVER_IDLE_MS),
        .header_timeout_ms = server_or(options->header_timeout_ms, SERVER_HEADER_MS),
        .body_timeout_ms = server_or(options->body_timeout_ms, SERVER_BODY_MS),
        .connections_max = (uint32_t)server_or(options->connections_max, LIMIT_CONNECTIONS),
        .on_request = server_on_request,
        .on_bad_request = server_on_bad_request,
        .bad_request_headers = server_bad_request_headers,
        .user = server,
    };

    ASSERT(options->config != NULL && options->meta != NULL);
    if (options->loop == 0) {
        server_name_metrics();
    }
    gateway->env = options->env;
    gateway->meta = options->meta;
    gateway->data = options->data;
    gateway->config = options->config;
    gateway->loop = options->loop;
    gateway->memory.budget_bytes = server_or(options->memory_budget, LIMIT_STREAM_MEMORY_BYTES);
    list_init(&gateway->memory.waiting);
    list_init(&gateway->memory.holders);
    gateway->signing_keys = sigv4_cache_new();
    if (s3_service_init(&server->service, gateway, error) != RC_OK ||
        http_server_open(&server->http, options->env, &http, error) != RC_OK) {
        server_free(server);
        return error_prefix(error, "open gateway on %s", options->address);
    }
    server->service.finished = server_finished;
    *out = server;
    return RC_OK;
}

static void server_drained(struct env_timer *timer)
{
    struct gateway_server *server = CONTAINER_OF(timer, struct gateway_server, drain);
    void (*closed)(void *arg) = server->closed;
    void *arg = server->closed_arg;

    /* A request whose connection was cut may still wait for metad or a datad. */
    if (server->gateway.active_requests > 0) {
        server->gateway.env->clock->timer_start(server->gateway.env, timer,
                                                SERVER_DRAIN_CHECK_MS * 1000000ULL);
        return;
    }
    server_free(server);
    closed(arg);
}

static void server_http_closed(struct http_server *http)
{
    struct gateway_server *server = http_server_user(http);

    server->http = NULL;
    server->drain.fire = server_drained;
    server->gateway.env->clock->timer_start(server->gateway.env, &server->drain, 0);
}

void gateway_server_close(struct gateway_server *server, uint64_t drain_ms, void (*done)(void *arg),
                          void *arg)
{
    ASSERT(server->closed == NULL);
    server->closed = done;
    server->closed_arg = arg;
    server->gateway.draining = true;
    http_server_close(server->http, drain_ms, server_http_closed);
}

void gateway_server_address(struct gateway_server *server, char out[ENV_ADDRESS_MAX])
{
    http_server_address(server->http, out);
}

uint64_t gateway_server_requests(const struct gateway_server *server)
{
    return server->gateway.active_requests;
}
