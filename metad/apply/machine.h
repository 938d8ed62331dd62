/*
 * The state machine of one replica: entries of the log become rows of a kv (DESIGN 4.1, 4.2).
 *
 *     entry -> stamp -> repeat? (request row) -> deadline? -> command -> one batch
 *
 * The kv has no write-ahead log. A batch holds everything one entry changes and the applied index,
 * and flushes are atomic over all families, so what a crash leaves is the state at some index, from
 * which the log goes on.
 *
 * Threads: apply and flush on the replica's apply queue; export on work threads; machine_store()
 * and the counters on any.
 */
#ifndef METAD_APPLY_MACHINE_H
#define METAD_APPLY_MACHINE_H

#include "common/env/env.h"
#include "metad/raft/replica.h"
#include "metad/store/store.h"

struct machine_options {
    struct env *env;
    const char *path; /* directory of the state: holds numbered stores and the file that names the
                         current one */
    struct kv_cache *cache;
    kv_open_cb kv_open; /* NULL: RocksDB */
    void *owner;
    /* Root's rows changed: views are out of date. On the apply queue. */
    void (*on_root_change)(void *owner);
};

struct machine;

/* Blocking: at start-up. A failed open needs no close. */
enum rc machine_open(struct machine **out, const struct machine_options *options,
                     struct error *error);
/* Nothing runs on it any more and no thread can call machine_store(); references to stores may
 * still be held. Blocking. */
void machine_close(struct machine *machine);

struct state_machine *machine_state(struct machine *machine);

/* What apply hands to the proposal: a packed Reply. Freed with mem_free(). */
struct machine_result {
    size_t len;
    uint8_t reply[];
};

/* The current state, with a reference: store_unref() it. It may already be behind an installed one.
 */
struct store *machine_store(struct machine *machine);
uint64_t machine_last_stamp(const struct machine *machine);
/* Of the last change that came into the feed since the start; 0: none. Any thread. */
uint64_t machine_change_stamp(const struct machine *machine);
/* Log index of the last change of root's rows (or of the open): versions of views. */
uint64_t machine_root_index(const struct machine *machine);

#endif
