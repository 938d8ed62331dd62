/* Inside the simulated world: what its files (env_sim.c, sim_*.c) share. Not for tests. */
#ifndef TESTS_LIB_SIM_WORLD_H
#define TESTS_LIB_SIM_WORLD_H

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "tests/lib/env_sim.h"

/* One thing that will happen. On the heap until it ran or was cancelled. */
struct sim_event {
    void (*run)(struct sim_event *event);
    void (*drop)(struct sim_event *event); /* instead of `run`, at a crash; NULL: nothing to do */
    uint64_t time;
    uint64_t seq;          /* ties run in the order they were made */
    struct sim_node *node; /* dies with it; NULL: never */
    size_t slot;           /* place in the heap */
    void *subject;         /* what it is about */
    void *more;
};

struct sim {
    uint64_t now;
    uint64_t seq;
    uint64_t rng[2];
    struct sim_event **heap;
    size_t heap_count;
    size_t heap_capacity;
    struct list nodes;
    struct list ends; /* of connections: sim_net.c */
    struct sim_net_faults net;
    uint16_t next_port;
    bool ending; /* sim_free() is under way */
};

enum { SIM_NAME_MAX = 32, SIM_CUTS_MAX = 64 };

struct sim_node {
    struct list link;
    struct sim *sim;
    char name[SIM_NAME_MAX];
    int64_t wall_offset_ns;
    struct list envs;
    struct list listeners;
    struct sim_node *cut[SIM_CUTS_MAX];
    uint32_t cut_count;
    /* Files: sim_file.c. */
    struct list disks;
    struct list names;   /* struct sim_name: what the program sees */
    struct list pending; /* struct sim_change: of names, not yet durable */
    struct sim_open_file **files;
    size_t file_capacity;
    uint64_t changes; /* file changes made so far */
    uint64_t stop_at; /* stop when `changes` gets there; 0: never */
    bool stopped;
    uint64_t cost_ns; /* of file calls since the running job began */
    uint64_t next_device;
};

struct sim_env {
    struct env env;
    struct list link;
    struct sim_node *node;
    uint64_t last_post; /* posts keep their order */
    bool dead;
};

static inline struct sim_env *sim_env_of(struct env *env)
{
    return env->impl;
}

/* Takes nothing; the event is freed after `run`. */
struct sim_event *sim_event_new(struct sim *sim, struct sim_node *node, uint64_t delay_ns,
                                void (*run)(struct sim_event *event), void *subject);
void sim_event_cancel(struct sim *sim, struct sim_event *event);
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high); /* both inclusive */

extern const struct env_clock sim_clock;
extern const struct env_worker sim_worker;
extern const struct env_file sim_file;
extern const struct env_disk sim_disk;
extern const struct env_net sim_net;

void sim_files_init(struct sim_node *node);
void sim_files_deinit(struct sim_node *node);
void sim_files_crash(struct sim_node *node, enum sim_crash how);
void sim_net_crash(struct sim_node *node);
void sim_net_deinit(struct sim *sim);

#endif
