/* Open files of the simulated world, shared by the blocking calls (sim_file.c), the asynchronous
 * ones (sim_disk.c) and what tests do from outside (sim_platter.c). */
#ifndef TESTS_LIB_SIM_FILE_H
#define TESTS_LIB_SIM_FILE_H

#include "tests/lib/sim_names.h"

struct sim_open_file {
    struct sim_inode *inode;
    unsigned flags;
};

struct sim_span {
    void *to;
    size_t len;
    uint64_t at;
};

struct sim_open_file *file_of(struct sim_node *node, int file); /* asserts that it is open */
/* Counts one change. RC_IO: the program has stopped. `torn`: it stops with this one, half done. */
enum rc file_step(struct sim_node *node, bool *torn);
enum rc file_fault(struct sim_node *node, struct sim_device *device, uint32_t ppm,
                   uint64_t cost_ns);
enum rc file_read_now(struct sim_node *node, struct sim_open_file *open, struct sim_span span,
                      size_t *got);
enum rc file_write_now(struct sim_node *node, struct sim_open_file *open, struct slice from,
                       uint64_t at);

#endif
