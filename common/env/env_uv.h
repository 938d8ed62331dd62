/*
 * The real world: libuv loops, liburing or a thread pool for disks, POSIX files (see env.h for what
 * they promise). A world is N loops; loop 0 is run by the main thread, the others on threads of
 * their own.
 *
 *     world = env_uv_open(&options, &error);
 *     ... open servers on env_uv_env(world, 0) ...
 *     env_uv_start(world);                  the other loops turn
 *     env_uv_run(env_uv_env(world, 0));     until env_uv_stop() of loop 0
 *     env_uv_close(world);                  stops and joins the others, frees everything
 *
 * Before env_uv_start() the functions of any loop may be called from the main thread. Before
 * env_uv_close() every stream, listener and queue must be closed and all work completed.
 */
#ifndef COMMON_ENV_ENV_UV_H
#define COMMON_ENV_ENV_UV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env/env.h"

struct env_uv;

enum { ENV_UV_LOOPS_MAX = 64, ENV_UV_POOL_MAX = 32 };

struct env_uv_options {
    uint32_t loop_count; /* 0: one per core the process may use, at most ENV_UV_LOOPS_MAX */
    uint32_t pool_count; /* threads of the shared work pool; 0: 4 */
    bool without_uring;  /* disks go to the pool, as where io_uring is forbidden */
};

/* Also makes the process ignore SIGPIPE. `options` NULL: all defaults. */
struct env_uv *env_uv_open(const struct env_uv_options *options, struct error *error);
uint32_t env_uv_count(const struct env_uv *world);
struct env *env_uv_env(struct env_uv *world, uint32_t index);
bool env_uv_has_uring(const struct env_uv *world); /* every loop has its ring */
void env_uv_start(struct env_uv *world);
/* Turns this loop on the calling thread until env_uv_stop(). May be called again afterwards. */
void env_uv_run(struct env *env);
void env_uv_stop(struct env *env); /* any thread */
void env_uv_close(struct env_uv *world);

/* SIGTERM and SIGINT, delivered on loop 0. Embedded by its owner, lives until env_uv_close(). */
struct env_uv_signals {
    void (*on_signal)(struct env_uv_signals *signals, int number);
};
void env_uv_watch_signals(struct env_uv *world, struct env_uv_signals *signals);

/* Process-wide facts for the status page. */
uint32_t env_uv_cores(void); /* that the process may use */

#endif
