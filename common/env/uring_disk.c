/*
 * Disk requests through io_uring: one ring a loop, its eventfd watched by the loop. What a turn of
 * the loop asks for is submitted together, just before the loop would sleep (uv_prepare): one
 * system call for many requests. A request that finds the ring full waits in a chain and goes
 * first.
 *
 * Short transfers are continued until all is moved or the file ends.
 */
#include "common/env/uv_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RING_ENTRIES = 256 };

enum uring_kind { URING_READ, URING_WRITE, URING_SYNC };

struct uring_io {
    struct env_io *next; /* in the chain of those that wait */
    char *bytes;
    uint64_t at;
    size_t len;
    int file;
    enum uring_kind kind;
};

static_assert(sizeof(struct uring_io) <= sizeof(((struct env_io *)0)->reserved), "reserved");

static struct uring_io *uring_state(struct env_io *io)
{
    return (struct uring_io *)(void *)io->reserved;
}

static void uring_wait(struct uring_disk *disk, struct env_io *io)
{
    uring_state(io)->next = NULL;
    *disk->waiting_end = io;
    disk->waiting_end = &uring_state(io)->next;
}

/* Puts the rest of a request into the ring; false when there is no room. */
static bool uring_prepare(struct uring_disk *disk, struct env_io *io)
{
    const struct uring_io *state = uring_state(io);
    struct io_uring_sqe *sqe;
    unsigned len =
        state->len - io->len > 0x40000000 ? 0x40000000 : (unsigned)(state->len - io->len);

    if (disk->in_flight >= 2 * RING_ENTRIES) {
        return false; /* the completion ring holds twice the entries: it never overflows */
    }
    sqe = io_uring_get_sqe(&disk->ring);
    if (sqe == NULL) {
        return false;
    }
    disk->in_flight += 1;
    switch (state->kind) {
    case URING_READ:
        io_uring_prep_read(sqe, state->file, state->bytes + io->len, len, state->at + io->len);
        break;
    case URING_WRITE:
        io_uring_prep_write(sqe, state->file, state->bytes + io->len, len, state->at + io->len);
        break;
    case URING_SYNC:
        io_uring_prep_fsync(sqe, state->file, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data(sqe, io);
    return true;
}

static void uring_start(struct uring_disk *disk, struct env_io *io)
{
    if (disk->waiting != NULL || !uring_prepare(disk, io)) {
        uring_wait(disk, io);
    }
}

static void uring_submit(struct uring_disk *disk)
{
    do {
        while (disk->waiting != NULL && uring_prepare(disk, disk->waiting)) {
            disk->waiting = uring_state(disk->waiting)->next;
            if (disk->waiting == NULL) {
                disk->waiting_end = &disk->waiting;
            }
        }
        if (io_uring_sq_ready(&disk->ring) == 0) {
            return;
        }
    } while (io_uring_submit(&disk->ring) > 0 && disk->waiting != NULL);
}

static void uring_on_prepare(uv_prepare_t *prepare)
{
    struct env_loop *loop = CONTAINER_OF(prepare, struct env_loop, disk.prepare);

    uring_submit(&loop->disk);
    if (io_uring_sq_ready(&loop->disk.ring) > 0) {
        (void)uv_async_send(&loop->wake); /* the kernel was short of memory: try again at once */
    }
}

/* True when the request is complete; otherwise the rest of it goes to the ring again. */
static bool uring_finished(struct env_io *io, int result)
{
    const struct uring_io *state = uring_state(io);

    if (result == -EINTR || result == -EAGAIN) {
        return false;
    }
    if (result == -EINVAL && io->len > 0 && state->kind == URING_READ) {
        return true; /* O_DIRECT: the end of the file is not aligned */
    }
    if (result < 0) {
        io->rc = rc_from_errno(-result);
        return true;
    }
    if (state->kind == URING_SYNC) {
        return true;
    }
    io->len += (size_t)result;
    if (result == 0 && state->kind == URING_WRITE && io->len < state->len) {
        io->rc = RC_IO;
        return true;
    }
    return result == 0 || io->len == state->len;
}

static void uring_reap(struct uring_disk *disk)
{
    struct io_uring_cqe *cqe;

    while (io_uring_peek_cqe(&disk->ring, &cqe) == 0) {
        struct env_io *io = io_uring_cqe_get_data(cqe);
        int result = cqe->res;

        io_uring_cqe_seen(&disk->ring, cqe);
        disk->in_flight -= 1;
        if (uring_finished(io, result)) {
            io->done(io);
        } else {
            uring_start(disk, io);
        }
    }
}

static void uring_on_event(uv_poll_t *poll, int status, int events)
{
    struct uring_disk *disk = poll->data;
    uint64_t count;

    (void)status;
    (void)events;
    (void)!read(disk->eventfd, &count, sizeof(count));
    uring_reap(disk);
}

enum rc uring_disk_open(struct env_loop *loop)
{
    struct uring_disk *disk = &loop->disk;

    if (io_uring_queue_init(RING_ENTRIES, &disk->ring, 0) != 0) {
        return RC_UNSUPPORTED;
    }
    disk->eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (disk->eventfd < 0 || io_uring_register_eventfd(&disk->ring, disk->eventfd) != 0) {
        if (disk->eventfd >= 0) {
            (void)close(disk->eventfd);
        }
        io_uring_queue_exit(&disk->ring);
        return RC_UNSUPPORTED;
    }
    ASSERT(uv_poll_init(&loop->uv, &disk->poll, disk->eventfd) == 0);
    ASSERT(uv_prepare_init(&loop->uv, &disk->prepare) == 0);
    disk->poll.data = disk;
    ASSERT(uv_poll_start(&disk->poll, UV_READABLE, uring_on_event) == 0);
    ASSERT(uv_prepare_start(&disk->prepare, uring_on_prepare) == 0);
    disk->waiting_end = &disk->waiting;
    disk->open = true;
    return RC_OK;
}

void uring_disk_close(struct env_loop *loop)
{
    struct uring_disk *disk = &loop->disk;

    if (!disk->open) {
        return;
    }
    ASSERT(disk->in_flight == 0 && disk->waiting == NULL);
    disk->open = false;
    (void)uv_poll_stop(&disk->poll);
    uv_close((uv_handle_t *)&disk->poll, NULL);
    uv_close((uv_handle_t *)&disk->prepare, NULL);
    io_uring_queue_exit(&disk->ring);
    (void)close(disk->eventfd);
}

static void uring_request(struct env *env, struct env_io *io, const struct uring_io *what)
{
    ASSERT(io->done != NULL && what->file >= 0);
    *uring_state(io) = *what;
    io->rc = RC_OK;
    io->len = 0;
    uring_start(&loop_of(env)->disk, io);
}

static void uring_read(struct env *env, struct env_io *io, int file, void *to, size_t len,
                       uint64_t at)
{
    const struct uring_io what = {
        .kind = URING_READ, .file = file, .bytes = to, .len = len, .at = at};

    uring_request(env, io, &what);
}

static void uring_write(struct env *env, struct env_io *io, int file, struct slice from,
                        uint64_t at)
{
    const struct uring_io what = {.kind = URING_WRITE,
                                  .file = file,
                                  .bytes = (char *)(uintptr_t)from.data,
                                  .len = from.len,
                                  .at = at};

    uring_request(env, io, &what);
}

static void uring_sync(struct env *env, struct env_io *io, int file)
{
    const struct uring_io what = {.kind = URING_SYNC, .file = file};

    uring_request(env, io, &what);
}

const struct env_disk env_uring_disk = {
    .read = uring_read,
    .write = uring_write,
    .sync = uring_sync,
};
