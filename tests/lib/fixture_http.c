/* See fixture_http.h. */
#include "tests/lib/fixture_http.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { PIECE_BYTES = 100000, READ_BYTES = 1000, SCRIPT_BYTES_MAX = 4194304 };

/* ---- Handlers ---- */

struct handler {
    struct http_fixture *fixture;
    struct http_exchange *exchange;
    struct http_read read;
    struct http_write write;
    uint64_t left;
    bool waits;  /* for the test to answer it */
    bool aborts; /* when its bytes are out, instead of ending */
    struct buffer body;
    char bytes[READ_BYTES];
};

static char filler[PIECE_BYTES];

static void handler_end(struct handler *handler, int status, struct slice body)
{
    struct http_header type = {.name = SLICE("Content-Type"), .value = SLICE("text/plain")};

    handler->fixture->ended += 1;
    http_reply_start(handler->exchange, status, &type, 1, (int64_t)body.len);
    http_reply_end(handler->exchange, &body, 1);
}

static void handler_abort(struct handler *handler)
{
    handler->fixture->ended += 1;
    http_abort(handler->exchange);
}

static void write_on(struct handler *handler);

static void on_written(struct http_write *write)
{
    struct handler *handler = CONTAINER_OF(write, struct handler, write);

    if (write->rc != RC_OK) {
        handler->fixture->write_rc = write->rc;
        handler_abort(handler);
        return;
    }
    write_on(handler);
}

static void write_on(struct handler *handler)
{
    while (handler->left > 0) {
        struct slice pieces[3] = {slice_of(filler, handler->left < 10 ? handler->left : 10)};

        handler->left -= pieces[0].len;
        for (size_t i = 1; i < ARRAY_LEN(pieces); i++) {
            uint64_t len = handler->left < PIECE_BYTES ? handler->left : PIECE_BYTES;

            pieces[i] = slice_of(filler, len);
            handler->left -= len;
        }
        handler->write.done = on_written;
        if (!http_reply_write(handler->exchange, &handler->write, pieces, ARRAY_LEN(pieces))) {
            return;
        }
        if (handler->write.rc != RC_OK) {
            handler->fixture->write_rc = handler->write.rc;
            handler_abort(handler);
            return;
        }
    }
    if (handler->aborts) {
        handler_abort(handler);
        return;
    }
    handler->fixture->ended += 1;
    http_reply_end(handler->exchange, NULL, 0);
}

static void on_body(struct http_read *read);

static void echo_end(struct handler *handler)
{
    struct http_fixture *fixture = handler->fixture;

    buffer_clear(&fixture->body);
    if (handler->read.rc != RC_OK) {
        fixture->read_rc = handler->read.rc;
        buffer_deinit(&handler->body);
        handler_end(handler, 400, SLICE("bad body"));
        return;
    }
    buffer_append(&fixture->body, buffer_slice(&handler->body));
    buffer_deinit(&handler->body);
    handler_end(handler, 200, buffer_slice(&fixture->body));
}

static void echo_on(struct handler *handler, bool answered)
{
    while (answered) {
        if (handler->read.rc != RC_OK || handler->read.len == 0) {
            echo_end(handler);
            return;
        }
        buffer_append(&handler->body, slice_of(handler->bytes, handler->read.len));
        answered = http_body_read(handler->exchange, &handler->read, handler->bytes, READ_BYTES);
    }
}

static void on_body(struct http_read *read)
{
    echo_on(CONTAINER_OF(read, struct handler, read), true);
}

static void on_hangup(struct http_exchange *exchange)
{
    struct handler *handler = exchange->user;
    struct http_fixture *fixture = handler->fixture;

    fixture->hangups += 1;
    if (fixture->waiting == exchange) {
        fixture->waiting = NULL;
    }
    if (handler->waits) {
        handler_abort(handler);
    }
}

static void handle_write(struct handler *handler, struct slice path)
{
    bool chunked = slice_starts(path, SLICE("/chunked/"));

    handler->left = strtoull(path.data + (chunked ? 9 : 7), NULL, 10);
    http_reply_start(handler->exchange, 200, NULL, 0, chunked ? -1 : (int64_t)handler->left);
    write_on(handler);
}

/* Less than what was announced. */
static void handle_cut(struct handler *handler, struct slice path)
{
    handler->left = 50;
    handler->aborts = slice_eq_str(path, "/abort");
    http_reply_start(handler->exchange, 200, NULL, 0, 100);
    write_on(handler);
}

static void on_request(struct http_server *server, struct http_exchange *exchange)
{
    struct http_fixture *fixture = http_server_user(server);
    struct handler *handler = arena_alloc(exchange->arena, sizeof(*handler));
    struct slice path = exchange->request.path;

    fixture->requests += 1;
    *handler = (struct handler){.fixture = fixture, .exchange = exchange};
    exchange->user = handler;
    exchange->on_hangup = on_hangup;
    if (slice_starts(path, SLICE("/end/"))) {
        handler_end(handler, 200, slice_of(filler, strtoull(path.data + 5, NULL, 10)));
    } else if (slice_starts(path, SLICE("/write/")) || slice_starts(path, SLICE("/chunked/"))) {
        handle_write(handler, path);
    } else if (slice_eq_str(path, "/echo")) {
        handler->read.done = on_body;
        echo_on(handler, http_body_read(exchange, &handler->read, handler->bytes, READ_BYTES));
    } else if (slice_eq_str(path, "/wait")) {
        fixture->waiting = exchange;
        handler->waits = true;
    } else if (slice_eq_str(path, "/abort") || slice_eq_str(path, "/short")) {
        handle_cut(handler, path);
    } else {
        handler_end(handler, 403, SLICE("refused"));
    }
}

static void on_bad_request(struct http_server *server, struct arena *arena, int status,
                           struct slice *body, struct slice *content_type)
{
    struct http_fixture *fixture = http_server_user(server);

    fixture->refused += 1;
    *body = arena_printf(arena, "bad %d", status);
    *content_type = SLICE("text/plain");
}

/* ---- The server ---- */

void http_fixture_open(struct http_fixture *fixture, uint64_t seed,
                       const struct http_options *options)
{
    struct error error;

    *fixture = (struct http_fixture){.sim = sim_new(seed)};
    memset(filler, 'f', sizeof(filler));
    fixture->server_node = sim_node_new(fixture->sim, "server");
    fixture->client_node = sim_node_new(fixture->sim, "client");
    fixture->server_env = sim_env_new(fixture->server_node);
    fixture->client_env = sim_env_new(fixture->client_node);
    buffer_init(&fixture->body);
    if (options != NULL) {
        fixture->options = *options;
    } else {
        fixture->options = (struct http_options){
            .idle_timeout_ms = HTTP_FIXTURE_IDLE_S * 1000ULL,
            .header_timeout_ms = HTTP_FIXTURE_HEADER_S * 1000ULL,
            .body_timeout_ms = HTTP_FIXTURE_BODY_S * 1000ULL,
            .connections_max = 100,
        };
    }
    fixture->options.address = "0.0.0.0:80";
    fixture->options.on_request = on_request;
    fixture->options.on_bad_request = on_bad_request;
    fixture->options.user = fixture;
    ASSERT(http_server_open(&fixture->server, fixture->server_env, &fixture->options, &error) ==
           RC_OK);
}

static void on_server_closed(struct http_server *server)
{
    struct http_fixture *fixture = http_server_user(server);

    fixture->closed = true;
    fixture->server = NULL;
}

void http_fixture_run(struct http_fixture *fixture, uint64_t ns)
{
    sim_run_for(fixture->sim, ns);
}

void http_fixture_close(struct http_fixture *fixture)
{
    if (fixture->server != NULL) {
        http_server_close(fixture->server, 1000, on_server_closed);
    }
    http_fixture_run(fixture, 60 * SIM_S);
    ASSERT(fixture->closed);
    ASSERT(fixture->requests == fixture->ended);
    ASSERT(sim_open_streams(fixture->server_node) == 0);
    buffer_deinit(&fixture->body);
    sim_free(fixture->sim);
}

void http_fixture_answer(struct http_fixture *fixture)
{
    struct http_exchange *exchange = fixture->waiting;

    ASSERT(exchange != NULL);
    fixture->waiting = NULL;
    handler_end(exchange->user, 200, SLICE("at last"));
}

/* ---- Clients ---- */

static void client_pump(struct http_client *client);

static void on_sent(struct env_write *write)
{
    struct http_client *client = CONTAINER_OF(write, struct http_client, sending);

    client->is_sending = false;
    if (write->rc == RC_OK) {
        client_pump(client);
    }
}

static void client_pump(struct http_client *client)
{
    struct slice rest;

    if (!client->connected || client->is_sending || client->closing || client->ended) {
        return;
    }
    rest = slice_after(buffer_slice(&client->to_send), client->sent);
    if (rest.len > 0) {
        /* The buffer does not move while it is on its way: send() reserves in advance. */
        client->sent += rest.len;
        client->is_sending = true;
        client->sending.done = on_sent;
        client->env->net->write(client->env, &client->sending, &client->stream, &rest, 1);
    } else if (client->finish) {
        client->env->net->shutdown(client->env, &client->stream);
    }
}

static void on_client_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct http_client *client = CONTAINER_OF(stream, struct http_client, stream);

    if (rc != RC_OK) {
        client->ended = true;
        client->end_rc = rc;
        return;
    }
    buffer_append(&client->got, bytes);
}

static void on_client_close(struct env_stream *stream)
{
    CONTAINER_OF(stream, struct http_client, stream)->closed = true;
}

static void on_connected(struct env_write *write)
{
    struct http_client *client = CONTAINER_OF(write, struct http_client, connecting);

    if (write->rc != RC_OK) {
        client->ended = true;
        client->end_rc = write->rc;
        return;
    }
    client->connected = true;
    if (!client->paused && !client->closing) {
        client->env->net->read_start(client->env, &client->stream);
    }
    client_pump(client);
}

void http_client_open(struct http_client *client, struct http_fixture *fixture)
{
    *client = (struct http_client){.env = fixture->client_env};
    buffer_init(&client->to_send);
    buffer_init(&client->got);
    (void)buffer_reserve(&client->to_send, SCRIPT_BYTES_MAX);
    client->stream.on_read = on_client_read;
    client->stream.on_close = on_client_close;
    client->connecting.done = on_connected;
    client->env->net->connect(client->env, &client->connecting, &client->stream, "server:80");
}

void http_client_send(struct http_client *client, struct slice bytes)
{
    ASSERT(client->to_send.len + bytes.len <= SCRIPT_BYTES_MAX);
    buffer_append(&client->to_send, bytes);
    client_pump(client);
}

void http_client_finish(struct http_client *client)
{
    client->finish = true;
    client_pump(client);
}

void http_client_pause(struct http_client *client, bool on)
{
    client->paused = on;
    if (!client->connected || client->ended) {
        return;
    }
    if (on) {
        client->env->net->read_stop(client->env, &client->stream);
    } else {
        client->env->net->read_start(client->env, &client->stream);
    }
}

void http_client_close(struct http_client *client, struct http_fixture *fixture)
{
    if (!client->closing) {
        client->closing = true;
        client->env->net->close(client->env, &client->stream);
    }
    http_fixture_run(fixture, SIM_S);
    ASSERT(client->closed);
    buffer_deinit(&client->to_send);
    buffer_deinit(&client->got);
}

uint32_t http_client_count(const struct http_client *client, const char *text)
{
    struct slice wanted = slice_str(text);
    uint32_t count = 0;

    for (size_t at = 0; at + wanted.len <= client->got.len; at++) {
        count += memcmp(client->got.data + at, wanted.data, wanted.len) == 0 ? 1 : 0;
    }
    return count;
}
