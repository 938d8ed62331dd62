/* Disk requests by the shared work pool: where io_uring is forbidden, as in many containers. */
#include "common/env/uv_loop.h"

#include <string.h>

enum pool_kind { POOL_READ, POOL_WRITE, POOL_SYNC };

struct pool_io {
    struct env_work work;
    char *bytes;
    size_t len;
    uint64_t at;
    int file;
    enum pool_kind kind;
};

static_assert(sizeof(struct pool_io) <= sizeof(((struct env_io *)0)->reserved), "reserved");

static struct env_io *pool_owner(struct env_work *work)
{
    return CONTAINER_OF(work, struct env_io, reserved);
}

static void pool_run(struct env_work *work)
{
    struct pool_io *state = CONTAINER_OF(work, struct pool_io, work);
    struct env_io *io = pool_owner(work);
    struct slice from = slice_of(state->bytes, state->len);

    switch (state->kind) {
    case POOL_READ:
        io->rc =
            env_uv_file.read(work->env, state->file, state->bytes, state->len, state->at, &io->len);
        break;
    case POOL_WRITE:
        io->rc = env_uv_file.write(work->env, state->file, &from, 1, state->at);
        io->len = io->rc == RC_OK ? state->len : 0;
        break;
    case POOL_SYNC:
        io->rc = env_uv_file.sync(work->env, state->file);
        break;
    }
}

static void pool_done(struct env_work *work)
{
    struct env_io *io = pool_owner(work);

    io->done(io);
}

static void pool_request(struct env *env, struct env_io *io, const struct pool_io *what)
{
    struct pool_io *state = (struct pool_io *)(void *)io->reserved;

    ASSERT(io->done != NULL && what->file >= 0);
    *state = *what;
    state->work.run = pool_run;
    state->work.done = pool_done;
    io->rc = RC_OK;
    io->len = 0;
    env_uv_worker.submit(env, NULL, &state->work);
}

static void pool_read(struct env *env, struct env_io *io, int file, void *to, size_t len,
                      uint64_t at)
{
    const struct pool_io what = {
        .kind = POOL_READ, .file = file, .bytes = to, .len = len, .at = at};

    pool_request(env, io, &what);
}

static void pool_write(struct env *env, struct env_io *io, int file, struct slice from, uint64_t at)
{
    const struct pool_io what = {.kind = POOL_WRITE,
                                 .file = file,
                                 .bytes = (char *)(uintptr_t)from.data,
                                 .len = from.len,
                                 .at = at};

    pool_request(env, io, &what);
}

static void pool_sync(struct env *env, struct env_io *io, int file)
{
    const struct pool_io what = {.kind = POOL_SYNC, .file = file};

    pool_request(env, io, &what);
}

const struct env_disk env_pool_disk = {
    .read = pool_read,
    .write = pool_write,
    .sync = pool_sync,
};
