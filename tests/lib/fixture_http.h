/*
 * An HTTP server in the simulated world, with handlers chosen by path, and clients that send
 * scripts and keep what they get.
 *
 *     /end/N      N bytes with http_reply_end()           /write/N    N bytes in pieces,
 * Content-Length /chunked/N  N bytes in pieces, length not announced  /echo       reads the body,
 * replies with it /refuse     403 without reading the body             /wait       replies when the
 * test says so /abort      half of what it announced, then aborts   /short      ends without what
 * it announced
 */
#ifndef TESTS_LIB_FIXTURE_HTTP_H
#define TESTS_LIB_FIXTURE_HTTP_H

#include "common/base/buffer.h"
#include "gateway/http/http.h"
#include "tests/lib/env_sim.h"

enum { HTTP_FIXTURE_IDLE_S = 60, HTTP_FIXTURE_HEADER_S = 10, HTTP_FIXTURE_BODY_S = 20 };

struct http_fixture {
    struct sim *sim;
    struct sim_node *server_node;
    struct sim_node *client_node;
    struct env *server_env;
    struct env *client_env;
    struct http_server *server;
    struct http_options options;
    /* What the handlers saw. */
    uint32_t requests;
    uint32_t ended;
    uint32_t hangups;
    uint32_t refused;              /* on_bad_request */
    enum rc read_rc;               /* of the last body read that failed */
    enum rc write_rc;              /* likewise */
    struct buffer body;            /* of the last /echo */
    struct http_exchange *waiting; /* the last /wait */
    bool closed;
};

struct http_client {
    struct env *env;
    struct env_stream stream;
    struct env_write connecting;
    struct env_write sending;
    struct buffer to_send;
    size_t sent;
    struct buffer got;
    bool connected;
    bool is_sending;
    bool finish; /* FIN after what is sent */
    bool paused; /* does not read */
    bool ended;  /* the server ended or reset its side */
    enum rc end_rc;
    bool closing;
    bool closed;
};

/* `options` NULL: the defaults above, 100 connections. */
void http_fixture_open(struct http_fixture *fixture, uint64_t seed,
                       const struct http_options *options);
/* Closes the server, and checks that nothing is left behind. */
void http_fixture_close(struct http_fixture *fixture);
void http_fixture_run(struct http_fixture *fixture, uint64_t ns);
/* Replies to the exchange that waits. */
void http_fixture_answer(struct http_fixture *fixture);

void http_client_open(struct http_client *client, struct http_fixture *fixture);
void http_client_send(struct http_client *client, struct slice bytes);
void http_client_finish(struct http_client *client);
void http_client_pause(struct http_client *client, bool on);
void http_client_close(struct http_client *client, struct http_fixture *fixture);
/* How often `text` stands in what came. */
uint32_t http_client_count(const struct http_client *client, const char *text);

#endif
