/* The admin port's HTTP: which page, who may ask. */
#include "cli/admin/admin.h"

#include <string.h>

#include "cli/admin/api.h"
#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/codec/base64.h"
#include "common/crypto/hmac.h"
#include "gateway/http/http.h"

enum {
    ADMIN_CONNECTIONS_MAX = 64,
    ADMIN_TIMEOUT_MS = 15000,
    ADMIN_DRAIN_MS = 1000,
    CREDENTIALS_BYTES_MAX = LIMIT_ACCESS_KEY_BYTES + LIMIT_SECRET_KEY_BYTES + 1
};

struct admin_server {
    struct http_server *http;
    struct meta_client *meta;
    struct serve *serve;
    void (*done)(void *arg);
    void *arg;
};

/* From the machine itself: the secret does not cross a network. */
static bool peer_is_local(const char *peer)
{
    return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]:", 6) == 0 ||
           strncmp(peer, "[::ffff:127.", 12) == 0;
}

/* An access key of root and its secret, as HTTP Basic (RFC 7617). */
static bool basic_allows(const struct view *view, struct slice header)
{
    char decoded[CREDENTIALS_BYTES_MAX];
    const struct view_key *key;
    struct slice text;
    struct slice secret;
    size_t len = 0;
    size_t colon;
    bool same;

    if (!slice_eq_nocase(slice_of(header.data, header.len < 6 ? header.len : 6), SLICE("Basic ")) ||
        !base64_decode(slice_trim(slice_after(header, 6)), decoded, sizeof(decoded), &len)) {
        return false;
    }
    text = slice_of(decoded, len);
    colon = slice_find(text, ':');
    secret = slice_after(text, colon + 1);
    key = view_access_key(view, slice_of(text.data, colon));
    same = key != NULL && key->user != NULL &&
           slice_eq_str(slice_of(key->user->name.data, key->user->name.len), "root") &&
           key->key->secret_key.len == secret.len &&
           crypto_equal(key->key->secret_key.data, secret.data, secret.len);
    crypto_wipe(decoded, sizeof(decoded));
    return same;
}

static void api_refused(struct http_exchange *exchange, int status, struct slice text)
{
    const struct http_header headers[] = {
        {SLICE("Content-Type"),     SLICE("application/json")    },
        {SLICE("WWW-Authenticate"), SLICE("Basic realm=\"kist\"")},
    };

    http_reply_start(exchange, status, headers, status == 401 ? 2 : 1, (int64_t)text.len);
    http_reply_end(exchange, &text, 1);
}

static void serve_api(struct admin_server *server, struct http_exchange *exchange)
{
    if (!peer_is_local(exchange->peer)) {
        api_refused(
            exchange, 403,
            SLICE("{\"error\": \"the admin API is answered on the machine itself only\"}\n"));
    } else if (!basic_allows(server->meta->view(server->meta),
                             http_header_get(&exchange->request, "authorization"))) {
        api_refused(exchange, 401,
                    SLICE("{\"error\": \"want HTTP Basic with a key of root and its secret\"}\n"));
    } else {
        admin_api_request(server->meta, server->serve->options->region, exchange);
    }
}

/* A page that is written whole. */
static void serve_page(struct admin_server *server, struct http_exchange *exchange,
                       void (*write)(const struct serve *serve, struct buffer *out),
                       const char *type)
{
    struct buffer out;

    buffer_init(&out);
    write(server->serve, &out);
    admin_reply(exchange, 200, type, arena_copy(exchange->arena, buffer_slice(&out)));
    buffer_deinit(&out);
}

static void serve_ready(struct admin_server *server, struct http_exchange *exchange)
{
    const struct serve *serve = server->serve;

    if (serve->stop_asked) {
        admin_reply(exchange, 503, "text/plain", SLICE("stopping\n"));
    } else if (!serve->started || !server->meta->ready(server->meta)) {
        admin_reply(exchange, 503, "text/plain", SLICE("no quorum of the metadata\n"));
    } else {
        admin_reply(exchange, 200, "text/plain", SLICE("ready\n"));
    }
}

static void admin_on_request(struct http_server *http, struct http_exchange *exchange)
{
    struct admin_server *server = http_server_user(http);
    const struct http_request *request = &exchange->request;

    if (slice_starts(request->path, SLICE("/admin/v1/"))) {
        serve_api(server, exchange);
    } else if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        admin_reply(exchange, 405, "text/plain", SLICE("only GET and HEAD\n"));
    } else if (slice_eq_str(request->path, "/health/live")) {
        admin_reply(exchange, 200, "text/plain", SLICE("live\n"));
    } else if (slice_eq_str(request->path, "/health/ready")) {
        serve_ready(server, exchange);
    } else if (slice_eq_str(request->path, "/metrics")) {
        serve_page(server, exchange, admin_write_metrics,
                   "text/plain; version=0.0.4; charset=utf-8");
    } else if (slice_eq_str(request->path, "/status.json")) {
        serve_page(server, exchange, admin_write_status, "application/json");
    } else if (slice_eq_str(request->path, "/")) {
        serve_page(server, exchange, admin_write_page, "text/html; charset=utf-8");
    } else {
        admin_reply(exchange, 404, "text/plain", SLICE("not found\n"));
    }
}

enum rc admin_server_open(struct admin_server **out, const struct admin_options *options,
                          struct error *error)
{
    struct admin_server *server = mem_alloc(sizeof(*server));
    const struct http_options http = {.address = options->address,
                                      .idle_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .header_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .body_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .connections_max = ADMIN_CONNECTIONS_MAX,
                                      .on_request = admin_on_request,
                                      .user = server};
    enum rc rc;

    server->meta = options->meta;
    server->serve = options->serve;
    rc = http_server_open(&server->http, options->env, &http, error);
    if (rc != RC_OK) {
        mem_free(server);
        return error_prefix(error, "--admin-listen");
    }
    *out = server;
    return RC_OK;
}

void admin_server_address(struct admin_server *server, char out[ENV_ADDRESS_MAX])
{
    http_server_address(server->http, out);
}

static void admin_on_closed(struct http_server *http)
{
    struct admin_server *server = http_server_user(http);
    void (*done)(void *arg) = server->done;
    void *arg = server->arg;

    mem_free(server);
    done(arg);
}

void admin_server_close(struct admin_server *server, void (*done)(void *arg), void *arg)
{
    server->done = done;
    server->arg = arg;
    http_server_close(server->http, ADMIN_DRAIN_MS, admin_on_closed);
}
