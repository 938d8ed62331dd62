/*
 * HTTP/1.1 towards the layers above: requests with their head parsed, bodies read on demand,
 * replies written with back-pressure. Neither knows of S3. (RFC 9110, RFC 9112.)
 *
 * Ownership: an exchange belongs to its connection from on_request until http_reply_end() (or
 * http_abort()) was called AND, if the client hung up, on_hangup was delivered; the handler keeps
 * its own state in exchange->arena or elsewhere, found through exchange->user. Thread: the loop of
 * the connection.
 */
#ifndef GATEWAY_HTTP_HTTP_H
#define GATEWAY_HTTP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "common/env/env.h"

enum http_method {
    HTTP_GET = 0,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_POST,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

struct http_header {
    struct slice name;  /* lower case */
    struct slice value; /* without blanks at both ends; bytes as received inside */
};

struct http_request {
    enum http_method method;
    struct slice method_name; /* as received */
    struct slice
        target;        /* raw request target as received, origin form; absolute form is cut to it */
    struct slice path; /* raw, before '?' */
    struct slice query;          /* raw, after '?'; empty when absent */
    struct http_header *headers; /* in order received, repeated ones apart */
    uint32_t header_count;
    unsigned minor; /* HTTP/1.minor */
    bool keep_alive;
    bool expect_continue;
    bool has_length;
    uint64_t content_length; /* valid with has_length */
    bool chunked;            /* Transfer-Encoding: chunked */
};

/* One read of the body. Completes with at least one byte, or with len 0 at the end of the body. */
struct http_read {
    void (*done)(struct http_read *read);
    enum rc rc; /* RC_OK, RC_CLOSED: the client hung up or broke the framing, RC_TIMEOUT */
    size_t len;
    /* Private. */
    void *to;
    size_t to_len;
};

struct http_write {
    void (*done)(struct http_write *write);
    enum rc rc; /* RC_OK, RC_CLOSED, RC_TIMEOUT */
    /* Private. */
    struct env_write raw;
};

struct http_exchange {
    struct http_request request; /* lives as long as the exchange */
    struct arena *arena;         /* freed with the exchange */
    struct env *env;
    uint64_t started_ns; /* mono, when the first byte of the head came */
    bool is_tls;
    char peer[ENV_ADDRESS_MAX];
    /* The client is gone or its connection was given up: set by the handler, called at most once,
     * before or instead of completions that are under way (these still come, with RC_CLOSED). The
     * handler must still call http_reply_end(). NULL: not wanted. */
    void (*on_hangup)(struct http_exchange *exchange);
    void *user;          /* the handler's */
    int status;          /* as replied; 0 before */
    uint64_t sent_bytes; /* body bytes handed to the kernel so far */
};

/* First value of a header; `name` in lower case. Empty slice with data NULL when absent. */
struct slice http_header_get(const struct http_request *request, const char *name);
/* How many headers of that name there are. */
uint32_t http_header_count(const struct http_request *request, const char *name);

/* Takes up to `len` body bytes (transfer coding removed, aws-chunked not). Returns true when
 * read->rc and read->len are valid at once (done is not called); false when done will be. One at a
 * time. The first call sends "100 Continue" when the client waits for it. */
bool http_body_read(struct http_exchange *exchange, struct http_read *read, void *to, size_t len);

/* Begins the reply: status line, Date, Connection and the given headers (names as they go on the
 * wire) are kept until the first write or the end, so a small reply is one system call.
 * content_length -1: chunked (HTTP/1.1) or until close (1.0). For HEAD the length is announced and
 * no body may be written. */
void http_reply_start(struct http_exchange *exchange, int status, const struct http_header *headers,
                      size_t header_count, int64_t content_length);
/* Body bytes, borrowed until done. Returns true when all was taken at once (rc valid, done not
 * called). One at a time. The handler writes exactly content_length bytes before http_reply_end().
 */
bool http_reply_write(struct http_exchange *exchange, struct http_write *write,
                      const struct slice *from, size_t count);
/* Ends the reply. What the client still sends of its body is drained (bounded) or the connection is
 * closed. The exchange is gone when it returns. `last` may carry a final small body (copied when it
 * must wait): head and body then leave in one call. */
void http_reply_end(struct http_exchange *exchange, const struct slice *last, size_t count);
/* Asks for the connection to be closed after this reply. */
void http_reply_close_after(struct http_exchange *exchange);
/* The reply cannot be finished truthfully (bytes missing): closes the connection at once. Instead
 * of http_reply_end(). A read or write under way still completes, with RC_CLOSED; the arena stays
 * until then. */
void http_abort(struct http_exchange *exchange);
/* The client stands still and others need what it holds: the read or write under way ends with
 * RC_TIMEOUT, as when its time was over. */
void http_time_out(struct http_exchange *exchange);

struct http_server;
struct tls_context; /* gateway/http/tls.h */

struct http_options {
    const char *address;
    struct tls_context *tls;    /* NULL: plain. Shared, outlives the server. */
    uint64_t idle_timeout_ms;   /* between requests */
    uint64_t header_timeout_ms; /* first byte to end of head */
    uint64_t body_timeout_ms;   /* a body did not move either way: less than 16 KiB came or went */
    uint32_t connections_max;
    /* A request's head is complete. The handler owns the exchange until it ends it. */
    void (*on_request)(struct http_server *server, struct http_exchange *exchange);
    /* The head itself is refused (431, 400, 414, 505, ...): writes the reply's body and content
     * type into `arena`; NULL: an empty body. The connection closes afterwards. */
    void (*on_bad_request)(struct http_server *server, struct arena *arena, int status,
                           struct slice *body, struct slice *content_type);
    /* All headers of such a reply, in `arena`; NULL: the content type alone. Called before the one
     * above. */
    const struct http_header *(*bad_request_headers)(struct http_server *server,
                                                     struct arena *arena, size_t *count);
    void *user;
};

/* One server per loop: listens (SO_REUSEPORT) and serves its connections. */
enum rc http_server_open(struct http_server **out, struct env *env,
                         const struct http_options *options, struct error *error);
void *http_server_user(const struct http_server *server);
void http_server_address(struct http_server *server, char out[ENV_ADDRESS_MAX]);
uint32_t http_server_connections(const struct http_server *server);
/* Stops accepting, closes idle connections, lets requests finish for up to drain_ms, then closes
 * all and calls done. */
void http_server_close(struct http_server *server, uint64_t drain_ms,
                       void (*done)(struct http_server *server));

#endif
