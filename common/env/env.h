/*
 * The world outside the process: clock, randomness, network, disks, worker threads.
 *
 * Everything outside common/env reaches the world through `struct env`. There is one `struct env`
 * per loop thread; its functions are called on that thread only, except where "any thread" is said.
 * There are two worlds: env_uv.c (libuv) and tests/sim/env_sim.c (one thread, virtual time, faults
 * drawn from a seed). Both promise:
 *
 *   1. A completion never runs inside the call that started it.
 *   2. Every operation that started completes exactly once, also when it is cancelled.
 *   3. Requests and buffers belong to the world from start to completion; then to the caller again.
 *   4. Bytes are durable only after a sync that began after their write completed. A file's name is
 *      durable only after its directory was synced.
 *
 * Requests are embedded by their owner, who is found again with CONTAINER_OF.
 */
#ifndef COMMON_ENV_ENV_H
#define COMMON_ENV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/list.h"
#include "common/base/slice.h"

struct env;

/* ---- Clock ---- */

struct env_timer {
    void (*fire)(struct env_timer *timer);
    /* Private. */
    uint64_t reserved[24];
};

struct env_clock {
    uint64_t (*mono_ns)(
        struct env *env); /* for durations: counts suspend, never goes back; any thread */
    uint64_t (*wall_ns)(struct env *env); /* nanoseconds since 1970, may jump; any thread */
    /* One shot. Starting a running timer moves it. `fire` is set by the caller before. */
    void (*timer_start)(struct env *env, struct env_timer *timer, uint64_t delay_ns);
    /* After it returns `fire` does not run and the memory is free to reuse. Harmless when not
     * running; the struct must have been zeroed or started before. */
    void (*timer_stop)(struct env *env, struct env_timer *timer);
};

/* ---- Work: blocking or heavy jobs, off the loop ---- */

struct env_work {
    void (*run)(struct env_work *work);  /* on a pool thread (or the queue's thread) */
    void (*done)(struct env_work *work); /* afterwards, on the loop that submitted it */
    struct list link;                    /* the queue's while the work is pending and in `batch` */
    /* Private. */
    struct env *env;
    uint64_t reserved[2];
};

/* A serial executor with a thread of its own. Embedded by its owner. */
struct env_queue {
    const char *name; /* of the thread, at most 15 bytes */
    /* NULL: `run` of each work, one after the other, in the order submitted. Otherwise called with
     * everything that is pending (linked by env_work.link, in order, never empty) instead of the
     * `run`s: one sync then serves them all. All of them complete when it returns. */
    void (*batch)(struct env_queue *queue, struct list *works);
    /* Private. */
    void *impl;
};

struct env_worker {
    void (*queue_open)(struct env *env, struct env_queue *queue);
    /* All its work must have completed. Joins the thread. */
    void (*queue_close)(struct env *env, struct env_queue *queue);
    /* `queue` NULL: any thread of the shared pool, in any order. Submit is called on the loop of
     * `env` and `done` runs there; different loops may submit to one queue. */
    void (*submit)(struct env *env, struct env_queue *queue, struct env_work *work);
};

/* ---- Messages between loops ---- */

/* Runs `run` on the loop of `target`, in the order posted by one sender. Any thread may post. */
struct env_post {
    void (*run)(struct env_post *post);
    /* Private. */
    struct list link;
};

/* ---- Files: blocking calls, for work jobs and for start-up only ---- */

enum env_open_flags {
    ENV_OPEN_READ = 1,
    ENV_OPEN_WRITE = 2,
    ENV_OPEN_CREATE = 4,
    ENV_OPEN_EXCLUSIVE = 8, /* with CREATE: fail if it exists */
    ENV_OPEN_DIRECT = 16    /* past the page cache: offsets, lengths, memory 4 KiB-aligned */
};

struct env_stat {
    uint64_t size_bytes;
    uint64_t device; /* block device: directories on one device fail together */
    bool is_directory;
};

typedef void (*env_name_cb)(void *list, const char *name);

/* Any thread. `file` is a descriptor >= 0. Each returns RC_OK or says why (errno mapped, text in
 * `error` when given). Reads that hit the end are short: `*got` tells. Modes: files 0600,
 * directories 0700. */
struct env_file {
    enum rc (*open)(struct env *env, const char *path, unsigned flags, int *file,
                    struct error *error);
    void (*close)(struct env *env, int file);
    enum rc (*read)(struct env *env, int file, void *to, size_t len, uint64_t at, size_t *got);
    enum rc (*write)(struct env *env, int file, const struct slice *from, size_t count,
                     uint64_t at);
    enum rc (*sync)(struct env *env, int file); /* fdatasync */
    enum rc (*allocate)(struct env *env, int file,
                        uint64_t len); /* reserves [0, len), size grows */
    enum rc (*punch)(struct env *env, int file, uint64_t at, uint64_t len);
    enum rc (*truncate)(struct env *env, int file, uint64_t len);
    /* The first run [from, to) at or after `at` that was ever written: what lies outside of the
     * runs reads as zeros. RC_NOT_FOUND: none up to the end. May call more than that written, never
     * less. */
    enum rc (*data_range)(struct env *env, int file, uint64_t at, uint64_t *from, uint64_t *to);
    enum rc (*stat)(struct env *env, const char *path, struct env_stat *out);
    enum rc (*rename)(struct env *env, const char *from, const char *to);
    enum rc (*unlink)(struct env *env, const char *path);
    enum rc (*mkdir)(struct env *env, const char *path); /* RC_EXISTS when it is there */
    enum rc (*rmdir)(struct env *env, const char *path);
    enum rc (*sync_directory)(struct env *env, const char *path);
    /* Calls back for every entry but "." and "..", in any order. */
    enum rc (*list)(struct env *env, const char *path, env_name_cb each, void *list);
    enum rc (*space)(struct env *env, const char *path, uint64_t *free_bytes,
                     uint64_t *total_bytes);
    /* An exclusive lock on an open file, held until it is closed or the process ends: RC_LOCKED. */
    enum rc (*lock)(struct env *env, int file);
};

/* ---- Disk: the same three calls, asynchronous, for the request path ---- */

struct env_io {
    void (*done)(struct env_io *io); /* on the loop */
    enum rc rc;                      /* valid in `done` */
    size_t len;                      /* bytes moved */
    /* Private. */
    uint64_t reserved[24];
};

struct env_disk {
    void (*read)(struct env *env, struct env_io *io, int file, void *to, size_t len, uint64_t at);
    void (*write)(struct env *env, struct env_io *io, int file, struct slice from, uint64_t at);
    void (*sync)(struct env *env, struct env_io *io, int file);
};

/* ---- Network: byte streams ---- */

/* One connection. Embedded by its owner; zeroed before accept or connect. */
struct env_stream {
    /* Bytes have come (borrowed until return: the callee takes in all of them), or the stream
     * ended: rc RC_CLOSED at an orderly end of the other side's writes, RC_IO when reset; then no
     * more come. */
    void (*on_read)(struct env_stream *stream, struct slice bytes, enum rc rc);
    void (*on_close)(struct env_stream *stream); /* memory is free to reuse */
    /* Private. */
    uint64_t reserved[48];
};

struct env_listener {
    void (*on_accept)(struct env_listener *listener); /* one connection waits: call accept() */
    void (*on_close)(struct env_listener *listener);
    /* Private. */
    uint64_t reserved[48];
};

struct env_write {
    void (*done)(struct env_write *write);
    enum rc rc;
    /* Private. */
    uint64_t reserved[40];
};

enum { ENV_ADDRESS_MAX = 72, ENV_WRITE_SLICES_MAX = 8 };

struct env_net {
    /* `address`: "127.0.0.1:9000", "[::1]:9000", "0.0.0.0:0", "localhost:9000". Every loop listens
     * for itself with SO_REUSEPORT; a port held by another process is still refused (RC_LOCKED)
     * because the first listener of the process probes without it. */
    enum rc (*listen)(struct env *env, struct env_listener *listener, const char *address,
                      struct error *error);
    /* Where it listens: the port that the kernel chose for port 0. */
    void (*listener_address)(struct env *env, struct env_listener *listener,
                             char out[ENV_ADDRESS_MAX]);
    void (*listener_close)(struct env *env, struct env_listener *listener); /* ends with on_close */
    enum rc (*accept)(struct env *env, struct env_listener *listener, struct env_stream *stream);
    /* Completes `write` when connected or refused. */
    void (*connect)(struct env *env, struct env_write *write, struct env_stream *stream,
                    const char *address);
    void (*peer_address)(struct env *env, struct env_stream *stream, char out[ENV_ADDRESS_MAX]);
    void (*read_start)(struct env *env, struct env_stream *stream);
    void (*read_stop)(struct env *env, struct env_stream *stream); /* harmless when stopped */
    /* Takes what the kernel takes at once, without waiting: bytes taken, 0 when it would block. An
     * error shows at the next write(). Not while a write() is under way. */
    size_t (*try_write)(struct env *env, struct env_stream *stream, const struct slice *from,
                        size_t count);
    /* Completes when the kernel has taken all. `from` (at most ENV_WRITE_SLICES_MAX) is copied, the
     * bytes are borrowed. Writes of one stream keep their order. */
    void (*write)(struct env *env, struct env_write *write, struct env_stream *stream,
                  const struct slice *from, size_t count);
    void (*shutdown)(struct env *env, struct env_stream *stream); /* end of our writes: sends FIN */
    /* Cancels what is under way (those complete first), then on_close. Once per stream. */
    void (*close)(struct env *env, struct env_stream *stream);
};

struct env {
    const struct env_clock *clock;
    const struct env_worker *worker;
    const struct env_file *file;
    const struct env_disk *disk;
    const struct env_net *net;
    uint64_t (*random)(struct env *env); /* any thread; unpredictable in the real world */
    void (*post)(struct env *target, struct env_post *post); /* any thread */
    bool simulated;                                          /* BUGGIFY is alive */
    void *impl;
};

/* True now and then in the simulator, never in the real world: makes rare paths common. */
#define BUGGIFY(env) ((env)->simulated && ((env)->random(env) & 31) == 0)

#endif
