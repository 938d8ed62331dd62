/*
 * The simulated world: common/env/env.h on one thread, virtual time, everything drawn from a seed.
 *
 *     sim ── node ("process + machine") ── env (one loop) ── timers, work, posts, io, streams
 *              └── disks ── files (page cache over a platter)
 *
 * Virtual time moves from event to event; one seed gives one run. A node is what crashes together:
 * its envs, its page cache. What a crash may lose is what env.h says may be lost, and a seed
 * decides how much of it goes: unsynced bytes page by page (torn at 512-byte sectors), names of
 * directories that were not synced.
 *
 * File calls are instant in virtual time but their cost delays the `done` of the work job that made
 * them. Memory of a crashed program is not freed: run with leak checks off where nodes crash.
 */
#ifndef TESTS_LIB_ENV_SIM_H
#define TESTS_LIB_ENV_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env/env.h"

struct sim;
struct sim_node;

#define SIM_US 1000ULL
#define SIM_MS (1000ULL * 1000)
#define SIM_S  (1000ULL * 1000 * 1000)

/* ---- The world ---- */

struct sim *sim_new(uint64_t seed);
void sim_free(struct sim *sim); /* with all its nodes and envs */
uint64_t sim_now(const struct sim *sim);
uint64_t sim_random(struct sim *sim);
uint64_t sim_below(struct sim *sim, uint64_t bound);  /* 0 .. bound - 1; bound > 0 */
bool sim_chance(struct sim *sim, uint32_t per_mille); /* true that often */

/* Runs the next event; false: none is left. */
bool sim_step(struct sim *sim);
void sim_run_for(struct sim *sim, uint64_t ns);
/* Until `until` (NULL: no event left) says so: true. False after `timeout_ns`, or with no event
 * left. */
bool sim_run_until(struct sim *sim, bool (*until)(void *arg), void *arg, uint64_t timeout_ns);

/* Something the test does later; embedded by its owner, zeroed before. `node` not NULL: it dies
 * with that node's next crash. */
struct sim_call {
    void (*run)(struct sim_call *call);
    void *event; /* private */
};
void sim_call_at(struct sim *sim, struct sim_node *node, struct sim_call *call, uint64_t delay_ns);
void sim_call_stop(struct sim *sim, struct sim_call *call);

/* ---- Nodes and loops ---- */

struct sim_node *sim_node_new(struct sim *sim, const char *name); /* the name is its host name */
struct env *sim_env_new(struct sim_node *node);                   /* lives until sim_free() */
struct sim *sim_of(struct env *env);
struct sim_node *sim_node_of(struct env *env);
/* Short form: a world of one node with one loop; sim_free(sim_of(env)) ends it. */
struct env *sim_env_alone(uint64_t seed);

enum sim_crash {
    SIM_KILL, /* kill -9: the page cache and the names survive */
    SIM_POWER /* power cut: what was not synced may be lost or torn */
};
/* Nothing of the node's program runs any more; its connections are reset. Its files go through what
 * `how` says. Start again with new envs. */
void sim_crash(struct sim_node *node, enum sim_crash how);
/* The program stops in the middle of its `ops`-th next file change (write, sync, allocate, rename,
 * ...): from then on every file call returns RC_IO without effect and no event of the node runs,
 * until sim_crash(). 0: cancels. */
void sim_stop_after(struct sim_node *node, uint64_t ops);
bool sim_stopped(const struct sim_node *node);
uint64_t sim_file_changes(const struct sim_node *node); /* made so far: to place the next stop */
void sim_wall_jump(struct sim_node *node, int64_t ns);

/* ---- Disks: every node has one at "/"; further ones lie at a directory ---- */

struct sim_disk_faults {
    uint64_t capacity_bytes;  /* 0: 1 TiB */
    uint64_t slow_ns;         /* added to each asynchronous io and to the cost of file calls */
    uint32_t read_error_ppm;  /* RC_IO */
    uint32_t write_error_ppm; /* RC_IO */
    uint32_t sync_error_ppm;  /* RC_IO, and the page cache forgets that the pages are dirty */
    bool failed;              /* every call: RC_IO */
};
/* Makes the directory and a device of its own for it. */
void sim_mount(struct sim_node *node, const char *path);
/* Of the disk that holds `path`; change it at any time. */
struct sim_disk_faults *sim_disk_faults(struct sim_node *node, const char *path);
uint64_t sim_disk_used(struct sim_node *node, const char *path);

/* ---- Files, from outside the program ---- */

/* Flips one bit on the platter and in the cache. False: no such byte. */
bool sim_file_flip(struct sim_node *node, const char *path, uint64_t at, unsigned bit);
/* Reads that touch [at, at + len) fail with RC_IO from now on. False: no such file. */
bool sim_file_bad(struct sim_node *node, const char *path, uint64_t at, uint64_t len);
/* Removes a directory tree or a file, durably (a directory that was lost). */
void sim_file_wipe(struct sim_node *node, const char *path);
/* Number of regular files below a directory, and the n-th of them in order of names. */
uint32_t sim_file_count(struct sim_node *node, const char *directory);
const char *sim_file_at(struct sim_node *node, const char *directory, uint32_t n);
uint64_t sim_file_size(struct sim_node *node, const char *path); /* 0 when there is none */
uint32_t sim_open_files(const struct sim_node *node);            /* descriptors not closed: leaks */

/* ---- Network ---- */

enum sim_pieces { SIM_PIECES_WHOLE, SIM_PIECES_RANDOM, SIM_PIECES_BYTES };

struct sim_net_faults {
    uint64_t latency_min_ns; /* 50 us */
    uint64_t latency_max_ns; /* 500 us */
    size_t window_bytes;     /* what one direction holds between write and on_read: 256 KiB */
    size_t partial_bytes;    /* try_write and one step of write() take at most this; 0: no limit */
    enum sim_pieces pieces;  /* how bytes reach on_read */
    uint32_t reset_ppm;      /* chance of each arrival to reset the connection instead */
};
struct sim_net_faults *sim_net_faults(struct sim *sim);
/* Cuts or heals the link, both ways. Streams over a cut link stall and are reset after 10 s. */
void sim_cut(struct sim_node *a, struct sim_node *b, bool cut);
/* One way only: what `from` sends to `to` is lost; the other way works. No connection is made. */
void sim_cut_way(struct sim_node *from, struct sim_node *to, bool cut);
bool sim_is_cut(const struct sim_node *from, const struct sim_node *to);
uint32_t sim_open_streams(const struct sim_node *node); /* not yet closed by the program: leaks */

#endif
