/* Shared by the files of metad/log only. */
#ifndef METAD_LOG_LOG_STORE_INTERNAL_H
#define METAD_LOG_LOG_STORE_INTERNAL_H

#include <stdatomic.h>

#include "metad/log/log_rows.h"
#include "metad/log/log_store.h"

struct log_store {
    struct env *env;
    struct kv *kv;
    struct env_queue queue;
    struct kv_batch *batch; /* the writer thread's */
    struct error error;     /* why it failed: written before `failed` */
    atomic_bool failed;
    bool told;
    uint32_t pending; /* writes under way: loop */
    struct list watchers;
    /* log_store_guard_space() */
    char *space_path; /* NULL: no guard */
    uint64_t space_floor_bytes;
    uint64_t space_next_ns; /* when to look again */
    bool full;
};

void log_batch_put_numbers(struct kv_batch *batch, uint64_t group, enum log_row_kind kind,
                           const uint64_t *numbers, uint32_t count);
void log_batch_put_entry(struct kv_batch *batch, uint64_t group, uint64_t index,
                         const struct log_entry *entry);

/* Everything that a write asks for. */
void log_batch_add(struct kv_batch *batch, const struct log_write *write);

#endif
