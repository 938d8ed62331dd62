/*
 * A world: one run of a simulated system under one seed, with faults and checkers. It returns when
 * all is well and calls world_fail() otherwise. Worlds run in a process of their own each, so they
 * need not clean up after crashes.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/env_sim.h"

struct world {
    const char *name;
    void (*run)(uint64_t seed);
    uint32_t
        seeds_per_100; /* of every hundred seeds asked for, how many this world gets; 0: one run */
};

extern const struct world worlds[];
extern const unsigned world_count;

/* Prints what is wrong and ends the process: the runner adds seed and commit. */
_Noreturn void world_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define CHECK(cond, ...) ((cond) ? (void)0 : world_fail(__FILE__, __LINE__, __VA_ARGS__))

/* With --verbose: one line a step, with virtual time. */
extern bool world_verbose;
void world_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Counts what happened in a run; printed with --verbose, so that a world that does nothing shows.
 */
void world_count_up(const char *what, uint64_t by);

void world_raft(uint64_t seed);
void world_metad(uint64_t seed);
void world_datad(uint64_t seed);
void scenario_put_boundaries(uint64_t seed);
void scenario_install_cut_twice(uint64_t seed);

#endif
