/*
 * In-memory kv stores by path, for code that takes a `kv_open` function. One set a process at a
 * time:
 *
 *     sim_kv_paths_open(sim); ... options.kv_open = sim_kv_paths_kv_open; ... sim_kv_paths_close();
 *
 * Paths of different nodes must differ. A crash of a node is sim_crash() and sim_kv_paths_crash()
 * of its directory. Stores are not files of the simulated file system: renames do not move them.
 */
#ifndef TESTS_LIB_SIM_KV_PATHS_H
#define TESTS_LIB_SIM_KV_PATHS_H

#include "tests/lib/sim_kv.h"

void sim_kv_paths_open(struct sim *sim);
void sim_kv_paths_close(void);
/* Stores that will be made at or below the directory lie in that machine. */
void sim_kv_paths_bind(const char *directory, const struct sim_node *node);
enum rc sim_kv_paths_kv_open(struct kv **out, const struct kv_options *options,
                             struct error *error);
/* The store at a path; NULL when none was ever opened there. */
struct sim_kv_disk *sim_kv_paths_at(const char *path);
/* All stores at or below a directory. */
void sim_kv_paths_crash(const char *directory, enum sim_crash how);
void sim_kv_paths_cache_misses(const char *directory, uint32_t per_mille);
void sim_kv_paths_wipe(const char *directory); /* none of them is open */

#endif
