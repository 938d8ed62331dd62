/* Connect, send, read until the server closes ("Connection: close"), take head and body apart. */
#include "cli/admin/client.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/codec/base64.h"
#include "common/env/env_uv.h"

enum { REPLY_BYTES_MAX = 64 * 1024 * 1024, CREDENTIALS_MAX = 512 };

#define CLIENT_TIMEOUT_NS 30000000000ULL

struct client {
    struct env *env;
    struct env_stream stream;
    struct env_write connect;
    struct env_write write;
    struct env_timer timer;
    struct buffer request;
    struct buffer received;
    struct error *error;
    enum rc rc;
    bool closing;
};

static void client_close(struct client *client, enum rc rc)
{
    if (!client->closing) {
        client->closing = true;
        client->rc = rc;
        client->env->net->close(client->env, &client->stream);
    }
}

static void client_on_close(struct env_stream *stream)
{
    env_uv_stop(CONTAINER_OF(stream, struct client, stream)->env);
}

static void client_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct client *client = CONTAINER_OF(stream, struct client, stream);

    if (rc != RC_OK) {
        client_close(client, rc == RC_CLOSED ? RC_OK : rc);
        return;
    }
    if (client->received.len + bytes.len > REPLY_BYTES_MAX) {
        client_close(client, RC_LIMIT);
        return;
    }
    buffer_append(&client->received, bytes);
}

static void client_on_written(struct env_write *write)
{
    struct client *client = CONTAINER_OF(write, struct client, write);

    if (write->rc != RC_OK) {
        client_close(client, write->rc);
    }
}

static void client_on_connect(struct env_write *write)
{
    struct client *client = CONTAINER_OF(write, struct client, connect);
    struct slice request = buffer_slice(&client->request);

    if (write->rc != RC_OK) {
        client_close(client, write->rc);
        return;
    }
    client->env->net->read_start(client->env, &client->stream);
    client->env->net->write(client->env, &client->write, &client->stream, &request, 1);
}

static void client_on_timeout(struct env_timer *timer)
{
    client_close(CONTAINER_OF(timer, struct client, timer), RC_TIMEOUT);
}

static void client_make_request(struct client *client, const struct admin_client_call *call)
{
    struct buffer *out = &client->request;
    struct buffer credentials;
    char encoded[CREDENTIALS_MAX * 2];

    buffer_init(&credentials);
    buffer_printf(&credentials, "%s:%s", call->access_key, call->secret_key);
    ASSERT(base64_encoded_len(credentials.len) <= sizeof(encoded));
    buffer_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Basic ",
                  call->method, call->path, call->address);
    buffer_append(out,
                  slice_of(encoded, base64_encode(encoded, credentials.data, credentials.len)));
    buffer_printf(out, "\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                  call->body.len);
    buffer_append(out, call->body);
    buffer_deinit(&credentials);
}

/* "HTTP/1.1 200 OK\r\n...\r\n\r\nbody" */
static enum rc client_parse(const struct client *client, struct admin_client_call *call,
                            struct error *error)
{
    struct slice all = buffer_slice(&client->received);
    const char *end = all.len > 12 ? memmem(all.data, all.len, "\r\n\r\n", 4) : NULL;
    uint64_t status = 0;

    if (end == NULL || !slice_starts(all, SLICE("HTTP/1.1 ")) ||
        !slice_to_u64(slice_of(all.data + 9, 3), 999, &status)) {
        return error_set(error, RC_CORRUPT, "%s does not answer like the admin port of kist",
                         call->address);
    }
    call->status = (int)status;
    buffer_append(&call->reply, slice_after(all, (size_t)(end + 4 - all.data)));
    return RC_OK;
}

enum rc admin_client_run(struct env *env, struct admin_client_call *call, struct error *error)
{
    struct client *client = mem_alloc(sizeof(*client));
    enum rc rc;

    ASSERT(strlen(call->access_key) + strlen(call->secret_key) + 1 <= CREDENTIALS_MAX);
    client->env = env;
    client->stream.on_read = client_on_read;
    client->stream.on_close = client_on_close;
    client->connect.done = client_on_connect;
    client->write.done = client_on_written;
    client->timer.fire = client_on_timeout;
    buffer_init(&call->reply);
    client_make_request(client, call);
    env->net->connect(env, &client->connect, &client->stream, call->address);
    env->clock->timer_start(env, &client->timer, CLIENT_TIMEOUT_NS);
    env_uv_run(env);
    env->clock->timer_stop(env, &client->timer);
    rc = client->rc != RC_OK
             ? error_set(
                   error, client->rc,
                   "no answer from the admin port %s (%s); is kist running? name it with --admin",
                   call->address, rc_text(client->rc))
             : client_parse(client, call, error);
    buffer_deinit(&client->request);
    buffer_deinit(&client->received);
    mem_free(client);
    return rc;
}
