/*
 * common/kv/kv.h in memory, with what RocksDB promises about crashes and no more.
 *
 *     struct sim_kv_disk  the files of one store: survives crashes; its owner keeps it
 *     struct kv           the open store, of the program: gone with a crash
 *
 * After sim_kv_crash(): what was flushed is there; of the log, KV_SYNCED writes and all before
 * them; after SIM_KILL all KV_LOGGED; after SIM_POWER a part of the last ones, in order;
 * KV_UNLOGGED only as far as a flush (asked for or by itself) got, all families alike.
 *
 * One thread. Not simulated: the time calls take.
 */
#ifndef TESTS_LIB_SIM_KV_H
#define TESTS_LIB_SIM_KV_H

#include "common/kv/kv.h"
#include "tests/lib/env_sim.h"

struct sim_kv_disk;

/* `sim` (may be NULL: no randomness) decides what a crash loses, and when KV_CACHED_ONLY misses. */
struct sim_kv_disk *sim_kv_disk_new(struct sim *sim);
void sim_kv_disk_free(struct sim_kv_disk *disk); /* after the store is closed or crashed */
/* The machine it lies in: when that was stopped (sim_stop_after), every call fails without effect.
 */
void sim_kv_set_node(struct sim_kv_disk *disk, const struct sim_node *node);
/* Options as for kv_rocksdb_open(); path and cache may be NULL. RC_NOT_FOUND: must_exist, and it
 * was never opened. RC_LOCKED: open already. */
enum rc sim_kv_open(struct kv **out, struct sim_kv_disk *disk, const struct kv_options *options,
                    struct error *error);
/* The program that had it open is gone: its `struct kv`, iterators and pins must not be used again.
 * Harmless when it was closed (a close flushes what has no log, as RocksDB does). */
void sim_kv_crash(struct sim_kv_disk *disk, enum sim_crash how);

/* From the `after`-th next call on (1: the next), get / iterators / write / flush / verify answer
 * `rc` (RC_CORRUPT, RC_IO, RC_FULL) without effect; RC_OK heals. */
void sim_kv_fail(struct sim_kv_disk *disk, enum rc rc, uint64_t after);
/* As above, for writes and flushes only. */
void sim_kv_fail_writes(struct sim_kv_disk *disk, enum rc rc, uint64_t after);
/* Chance that KV_CACHED_ONLY reads and cached_only iterators answer RC_AGAIN: 0 at first. */
void sim_kv_cache_misses(struct sim_kv_disk *disk, uint32_t per_mille);
uint64_t sim_kv_calls(const struct sim_kv_disk *disk);     /* made so far, to place faults */
uint64_t sim_kv_unflushed(const struct sim_kv_disk *disk); /* batches since the last flush */
/* Rows of a family as they are now, in the open store. */
size_t sim_kv_rows(const struct sim_kv_disk *disk, uint32_t family);

#endif
