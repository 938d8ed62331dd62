/*
 * TCP on libuv. All streams of a loop read into one shared buffer: a connection that sends nothing
 * costs its handle and nothing more.
 *
 * Every loop listens for itself (SO_REUSEPORT): the kernel spreads connections over the loops. The
 * option alone would also let a second process of the same user share the port silently, so the
 * first listener of this process for an address tries to bind without it before.
 */
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/env/uv_address.h"
#include "common/env/uv_loop.h"
#include "common/log/log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

struct stream_state {
    uv_tcp_t tcp;
    uv_shutdown_t shutdown;
    bool resolving; /* connect() looks its name up: close() waits for that */
    bool closing;
    bool shut;
};

struct listener_state {
    uv_tcp_t tcp;
    int32_t held; /* index into world->held, or -1 */
    bool waiting; /* a connection that was not accepted yet */
};

struct write_state {
    union {
        uv_write_t write;
        uv_connect_t connect;
    } req;
};

/* A connect whose host is a name: looked up on the pool. */
struct resolve {
    struct env_work work;
    struct env_write *write;
    struct env_stream *stream;
    struct sockaddr_storage found;
    enum rc rc;
    char address[ENV_ADDRESS_MAX];
};

static_assert(sizeof(struct stream_state) <= sizeof(((struct env_stream *)0)->reserved), "stream");
static_assert(sizeof(struct listener_state) <= sizeof(((struct env_listener *)0)->reserved),
              "listener");
static_assert(sizeof(struct write_state) <= sizeof(((struct env_write *)0)->reserved), "write");

static struct stream_state *stream_state(struct env_stream *stream)
{
    return (struct stream_state *)(void *)stream->reserved;
}

static struct listener_state *listener_state(struct env_listener *listener)
{
    return (struct listener_state *)(void *)listener->reserved;
}

static struct write_state *write_state(struct env_write *write)
{
    return (struct write_state *)(void *)write->reserved;
}

static enum rc rc_of_uv(int status)
{
    if (status >= 0) {
        return RC_OK;
    }
    return status == UV_EOF ? RC_CLOSED : rc_from_errno(-status);
}

/* ---- Listeners ---- */

static int socket_bound(const struct sockaddr_storage *address, bool share, int *status)
{
    const int on = 1;
    const int off = 0;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        *status = errno;
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (share) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    }
    if (address->ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, (const struct sockaddr *)address, address_size(address)) != 0) {
        *status = errno;
        (void)close(fd);
        return -1;
    }
    *status = 0;
    return fd;
}

/* The entry of an address that this process listens on, or a free one with count 0. */
static int32_t held_find(const struct env_uv *world, const struct sockaddr_storage *address)
{
    int32_t unused = -1;

    for (int32_t i = 0; i < HELD_ADDRESSES_MAX; i++) {
        if (world->held[i].count == 0) {
            unused = unused < 0 ? i : unused;
        } else if (address_equal(&world->held[i].address, address)) {
            return i;
        }
    }
    return unused;
}

/* Under the mutex: the probe, and the socket that will listen. */
static int listener_bind(struct env_uv *world, const struct sockaddr_storage *address,
                         int32_t *held, int *status)
{
    int fd;

    *held = held_find(world, address);
    if (*held < 0 || world->held[*held].count == 0) {
        fd = socket_bound(address, false, status);
        if (fd < 0) {
            return -1;
        }
        (void)close(fd);
    }
    fd = socket_bound(address, true, status);
    if (fd >= 0 && *held >= 0) {
        struct held_address *entry = &world->held[*held];
        socklen_t len = sizeof(entry->address);

        if (entry->count == 0) { /* as bound: the kernel has chosen the port by now */
            memset(&entry->address, 0, sizeof(entry->address));
            (void)getsockname(fd, (struct sockaddr *)&entry->address, &len);
        }
        entry->count += 1;
    }
    return fd;
}

static void held_release(struct env_uv *world, int32_t held)
{
    if (held >= 0) {
        (void)pthread_mutex_lock(&world->held_mutex);
        world->held[held].count -= 1;
        (void)pthread_mutex_unlock(&world->held_mutex);
    }
}

static void listener_on_connection(uv_stream_t *tcp, int status)
{
    struct env_listener *listener = tcp->data;

    if (status < 0) {
        LOG_WARN("accept_failed", "reason=\"%s\"", uv_strerror(status));
        return;
    }
    listener_state(listener)->waiting = true;
    listener->on_accept(listener);
}

static enum rc listen_error(struct error *error, const char *address, int number)
{
    if (number == EADDRINUSE) {
        return error_set(error, RC_LOCKED, "listen on %s: the port is in use by another process",
                         address);
    }
    if (number == EADDRNOTAVAIL) {
        return error_set(error, RC_INVALID, "listen on %s: not an address of this machine",
                         address);
    }
    if (number == EACCES) {
        return error_set(error, RC_DENIED, "listen on %s: ports below 1024 need privileges",
                         address);
    }
    return error_set(error, rc_from_errno(number), "listen on %s: %s", address,
                     strerrordesc_np(number));
}

static enum rc net_listen(struct env *env, struct env_listener *listener, const char *address,
                          struct error *error)
{
    struct env_loop *loop = loop_of(env);
    struct listener_state *state = listener_state(listener);
    struct sockaddr_storage where;
    int status = 0;
    int fd;
    enum rc rc = address_parse(address, true, &where, error);

    if (rc != RC_OK) {
        return rc;
    }
    (void)pthread_mutex_lock(&loop->world->held_mutex);
    fd = listener_bind(loop->world, &where, &state->held, &status);
    (void)pthread_mutex_unlock(&loop->world->held_mutex);
    if (fd < 0) {
        return listen_error(error, address, status);
    }
    /* Listen before libuv has the socket: a refusal then leaves no handle to close. */
    if (listen(fd, LISTEN_BACKLOG) != 0) {
        status = errno;
        (void)close(fd);
        held_release(loop->world, state->held);
        return listen_error(error, address, status);
    }
    state->waiting = false;
    ASSERT(uv_tcp_init(&loop->uv, &state->tcp) == 0);
    state->tcp.data = listener;
    ASSERT(uv_tcp_open(&state->tcp, fd) == 0);
    ASSERT(uv_listen((uv_stream_t *)&state->tcp, LISTEN_BACKLOG, listener_on_connection) == 0);
    return RC_OK;
}

static void net_listener_address(struct env *env, struct env_listener *listener,
                                 char out[ENV_ADDRESS_MAX])
{
    struct sockaddr_storage found = {0};
    int len = sizeof(found);

    (void)env;
    (void)uv_tcp_getsockname(&listener_state(listener)->tcp, (struct sockaddr *)&found, &len);
    address_format(&found, out);
}

static void listener_on_closed(uv_handle_t *handle)
{
    struct env_listener *listener = handle->data;

    if (listener->on_close != NULL) {
        listener->on_close(listener);
    }
}

static void net_listener_close(struct env *env, struct env_listener *listener)
{
    struct listener_state *state = listener_state(listener);

    held_release(loop_of(env)->world, state->held);
    uv_close((uv_handle_t *)&state->tcp, listener_on_closed);
}

/* ---- Streams ---- */

static void stream_open(struct env *env, struct env_stream *stream)
{
    struct stream_state *state = stream_state(stream);

    ASSERT(uv_tcp_init(&loop_of(env)->uv, &state->tcp) == 0);
    state->tcp.data = stream;
    state->resolving = false;
    state->closing = false;
    state->shut = false;
}

static void stream_on_closed(uv_handle_t *handle)
{
    struct env_stream *stream = handle->data;

    if (stream->on_close != NULL) {
        stream->on_close(stream);
    }
}

static enum rc net_accept(struct env *env, struct env_listener *listener, struct env_stream *stream)
{
    struct listener_state *from = listener_state(listener);
    struct stream_state *state = stream_state(stream);
    int status;

    if (!from->waiting) {
        return RC_AGAIN;
    }
    from->waiting = false;
    stream_open(env, stream);
    status = uv_accept((uv_stream_t *)&from->tcp, (uv_stream_t *)&state->tcp);
    ASSERT(status == 0); /* libuv holds the accepted socket already */
    (void)uv_tcp_nodelay(&state->tcp, 1);
    return RC_OK;
}

static void connect_on_done(uv_connect_t *req, int status)
{
    struct env_write *write = req->data;

    write->rc = status == UV_ECONNREFUSED ? RC_CLOSED : rc_of_uv(status);
    write->done(write);
}

/* The completion of a connect that failed at once, told from the loop later. */
struct connect_failure {
    struct env_post post;
    struct env_write *write;
    enum rc rc;
};

static void connect_on_failure(struct env_post *post)
{
    struct connect_failure *failure = CONTAINER_OF(post, struct connect_failure, post);
    struct env_write *write = failure->write;

    write->rc = failure->rc;
    mem_free(failure);
    write->done(write);
}

static void connect_fail_later(struct env *env, struct env_write *write, enum rc rc)
{
    struct connect_failure *failure = mem_alloc(sizeof(*failure));

    failure->write = write;
    failure->rc = rc;
    failure->post.run = connect_on_failure;
    env->post(env, &failure->post);
}

static void connect_to(struct env *env, struct env_write *write, struct env_stream *stream,
                       const struct sockaddr_storage *address)
{
    uv_connect_t *req = &write_state(write)->req.connect;
    int status;

    req->data = write;
    status = uv_tcp_connect(req, &stream_state(stream)->tcp, (const struct sockaddr *)address,
                            connect_on_done);
    if (status != 0) {
        connect_fail_later(env, write, rc_of_uv(status));
        return;
    }
    (void)uv_tcp_nodelay(&stream_state(stream)->tcp, 1);
}

static void resolve_run(struct env_work *work)
{
    struct resolve *resolve = CONTAINER_OF(work, struct resolve, work);

    resolve->rc = address_parse(resolve->address, false, &resolve->found, NULL);
}

static void resolve_done(struct env_work *work)
{
    struct resolve *resolve = CONTAINER_OF(work, struct resolve, work);
    struct stream_state *state = stream_state(resolve->stream);

    state->resolving = false;
    if (state->closing) {
        resolve->write->rc = RC_CANCELLED;
        resolve->write->done(resolve->write);
        uv_close((uv_handle_t *)&state->tcp, stream_on_closed);
    } else if (resolve->rc != RC_OK) {
        resolve->write->rc = resolve->rc;
        resolve->write->done(resolve->write);
    } else {
        connect_to(work->env, resolve->write, resolve->stream, &resolve->found);
    }
    mem_free(resolve);
}

static void net_connect(struct env *env, struct env_write *write, struct env_stream *stream,
                        const char *address)
{
    struct sockaddr_storage where;
    struct resolve *resolve;

    ASSERT(write->done != NULL && strlen(address) < ENV_ADDRESS_MAX);
    stream_open(env, stream);
    if (address_parse_numeric(address, &where)) {
        connect_to(env, write, stream, &where);
        return;
    }
    resolve = mem_alloc(sizeof(*resolve));
    resolve->write = write;
    resolve->stream = stream;
    memcpy(resolve->address, address, strlen(address) + 1);
    resolve->work.run = resolve_run;
    resolve->work.done = resolve_done;
    stream_state(stream)->resolving = true;
    env->worker->submit(env, NULL, &resolve->work);
}

static void net_peer_address(struct env *env, struct env_stream *stream, char out[ENV_ADDRESS_MAX])
{
    struct sockaddr_storage found = {0};
    int len = sizeof(found);

    (void)env;
    (void)uv_tcp_getpeername(&stream_state(stream)->tcp, (struct sockaddr *)&found, &len);
    address_format(&found, out);
}

static void stream_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct env_loop *loop = CONTAINER_OF(handle->loop, struct env_loop, uv);

    (void)suggested;
    buf->base = loop->read_buffer;
    buf->len = LIMIT_HTTP_READ_BYTES;
}

static void stream_on_read(uv_stream_t *tcp, ssize_t got, const uv_buf_t *buf)
{
    struct env_stream *stream = tcp->data;

    if (got > 0) {
        stream->on_read(stream, slice_of(buf->base, (size_t)got), RC_OK);
        return;
    }
    if (got < 0) {
        (void)uv_read_stop(tcp);
        stream->on_read(stream, SLICE_EMPTY, got == UV_EOF ? RC_CLOSED : RC_IO);
    }
}

static void net_read_start(struct env *env, struct env_stream *stream)
{
    (void)env;
    ASSERT(stream->on_read != NULL);
    (void)uv_read_start((uv_stream_t *)&stream_state(stream)->tcp, stream_on_alloc, stream_on_read);
}

static void net_read_stop(struct env *env, struct env_stream *stream)
{
    (void)env;
    (void)uv_read_stop((uv_stream_t *)&stream_state(stream)->tcp);
}

static unsigned bufs_from(uv_buf_t bufs[ENV_WRITE_SLICES_MAX], const struct slice *from,
                          size_t count)
{
    ASSERT(count <= ENV_WRITE_SLICES_MAX);
    for (size_t i = 0; i < count; i++) {
        bufs[i].base = (char *)(uintptr_t)from[i].data;
        bufs[i].len = from[i].len;
    }
    return (unsigned)count;
}

static size_t net_try_write(struct env *env, struct env_stream *stream, const struct slice *from,
                            size_t count)
{
    uv_buf_t bufs[ENV_WRITE_SLICES_MAX];
    unsigned used = bufs_from(bufs, from, count);
    int sent = uv_try_write((uv_stream_t *)&stream_state(stream)->tcp, bufs, used);

    (void)env;
    return sent > 0 ? (size_t)sent : 0;
}

static void write_on_done(uv_write_t *req, int status)
{
    struct env_write *write = req->data;

    write->rc = rc_of_uv(status);
    write->done(write);
}

static void net_write(struct env *env, struct env_write *write, struct env_stream *stream,
                      const struct slice *from, size_t count)
{
    uv_write_t *req = &write_state(write)->req.write;
    uv_buf_t bufs[ENV_WRITE_SLICES_MAX];
    unsigned used = bufs_from(bufs, from, count);
    int status;

    ASSERT(write->done != NULL && count > 0);
    req->data = write;
    status = uv_write(req, (uv_stream_t *)&stream_state(stream)->tcp, bufs, used, write_on_done);
    if (status != 0) {
        connect_fail_later(env, write, rc_of_uv(status));
    }
}

static void stream_on_shutdown(uv_shutdown_t *req, int status)
{
    (void)req;
    (void)status;
}

static void net_shutdown(struct env *env, struct env_stream *stream)
{
    struct stream_state *state = stream_state(stream);

    (void)env;
    if (!state->shut) {
        state->shut = true;
        (void)uv_shutdown(&state->shutdown, (uv_stream_t *)&state->tcp, stream_on_shutdown);
    }
}

static void net_close(struct env *env, struct env_stream *stream)
{
    struct stream_state *state = stream_state(stream);

    (void)env;
    ASSERT(!state->closing);
    state->closing = true;
    if (!state->resolving) {
        uv_close((uv_handle_t *)&state->tcp, stream_on_closed);
    }
}

const struct env_net env_uv_net = {
    .listen = net_listen,
    .listener_address = net_listener_address,
    .listener_close = net_listener_close,
    .accept = net_accept,
    .connect = net_connect,
    .peer_address = net_peer_address,
    .read_start = net_read_start,
    .read_stop = net_read_stop,
    .try_write = net_try_write,
    .write = net_write,
    .shutdown = net_shutdown,
    .close = net_close,
};
