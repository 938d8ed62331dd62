/*
 * The admin port: `/` status page, /status.json, /health/live, /health/ready, /metrics, and the
 * JSON admin API under /admin/v1/ (README.md lists its calls). Plain HTTP on one loop.
 *
 * The API asks for HTTP Basic credentials: an access key of root and its secret. Because these
 * would cross a network in the clear, they are accepted only from the machine itself (127.0.0.0/8
 * and ::1).
 */
#ifndef CLI_ADMIN_ADMIN_H
#define CLI_ADMIN_ADMIN_H

#include "common/base/buffer.h"
#include "common/client/meta_client.h"
#include "common/env/env.h"

struct admin_server;
struct serve;

struct admin_options {
    struct env *env;
    struct meta_client *meta; /* of this loop */
    const char *address;
    struct serve *serve; /* for the status page; outlives the server */
};

enum rc admin_server_open(struct admin_server **out, const struct admin_options *options,
                          struct error *error);
void admin_server_address(struct admin_server *server, char out[ENV_ADDRESS_MAX]);
/* `done` runs once nothing is left. */
void admin_server_close(struct admin_server *server, void (*done)(void *arg), void *arg);

/* Pages of the whole process (page.c, metrics_page.c). */
void admin_write_page(const struct serve *serve, struct buffer *out);
void admin_write_metrics(const struct serve *serve, struct buffer *out);
void admin_write_status(const struct serve *serve, struct buffer *out); /* JSON */

/* `kist admin ...`: argv after "admin". Returns the exit code. */
int admin_main(int argc, char *const *argv);

#endif
