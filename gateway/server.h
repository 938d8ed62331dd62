/*
 * The gateway of one loop thread: a listener (SO_REUSEPORT), its connections, the S3 service.
 *
 *     http connection -> s3_dispatch() -> handler -> meta client, data client
 *
 * One per loop; all calls on that loop, except that gateway_server_open() of loop 0 comes first (it
 * names the metrics).
 */
#ifndef GATEWAY_SERVER_H
#define GATEWAY_SERVER_H

#include "gateway/gateway.h"
#include "gateway/http/http.h"

struct gateway_server;

struct gateway_server_options {
    struct env *env;
    struct meta_client *meta;            /* of this loop */
    struct data_client *data;            /* of this loop */
    const struct gateway_config *config; /* shared; outlives the server */
    const char *address;
    struct tls_context *tls; /* NULL: plain */
    uint32_t loop;           /* number of this loop, from 0: part of every id made here */
    uint64_t memory_budget; /* stripe and read buffers of this loop; 0: LIMIT_STREAM_MEMORY_BYTES */
    /* 0: the defaults of server.c. */
    uint64_t idle_timeout_ms;
    uint64_t header_timeout_ms;
    uint64_t body_timeout_ms;
    uint32_t connections_max;
};

/* Listens and serves. A failed open needs no close. */
enum rc gateway_server_open(struct gateway_server **out,
                            const struct gateway_server_options *options, struct error *error);
/* Stops accepting, lets requests finish for up to `drain_ms`, then cuts the rest; `done` when
 * nothing is left. */
void gateway_server_close(struct gateway_server *server, uint64_t drain_ms, void (*done)(void *arg),
                          void *arg);
/* Where it listens: the port that the kernel chose for port 0. */
void gateway_server_address(struct gateway_server *server, char out[ENV_ADDRESS_MAX]);
/* Under way; on the loop. */
uint64_t gateway_server_requests(const struct gateway_server *server);

#endif
