/*
 * The replicated logs of all groups of one metad: one ordered store, one writer queue that puts
 * everything pending into one synced batch.
 *
 *     replica -> log_store_write() -> writer queue -> one kv batch, one fdatasync -> write->done
 *
 * Writes complete in the order submitted. After a failed write the store takes no more: every later
 * write fails too, and every watcher is told, because what the disk holds is then unknown
 * (FORMAT.md). Rows carry a CRC32C over key and value; a mismatch is RC_CORRUPT and never repaired
 * here.
 */
#ifndef METAD_LOG_LOG_STORE_H
#define METAD_LOG_LOG_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/base/slice.h"
#include "common/env/env.h"
#include "common/kv/kv.h"

struct log_store;

enum entry_type {
    ENTRY_COMMAND = 1,
    ENTRY_BARRIER = 2, /* empty: marks the term of a new leader */
    ENTRY_CHANGE = 3   /* a configuration (metad/raft/FORMAT.md) */
};

/* Bytes shared by the entries of one batch. Counted on the loop only. */
struct entry_block {
    uint32_t refs;
    size_t len;
    char bytes[];
};

struct log_entry {
    uint64_t term;
    struct entry_block *block; /* NULL: `data` is not owned by a block */
    const char *data;
    uint32_t len;
    uint32_t type; /* enum entry_type */
};

enum {
    LOG_CONFIGURATION_BYTES_MAX = 512,
    LOG_ENTRY_BYTES_MAX = 1024 *
        1024 /* LIMIT_PART_COMMAND_BYTES, or LIMIT_COMMAND_BYTES and an inline body */
};

/* A point up to which the log is replaced by the state: where a trimmed log begins. */
struct log_snapshot {
    uint64_t index; /* 0: none */
    uint64_t term;
    uint64_t configuration_index;
    uint32_t configuration_len;
    char configuration[LOG_CONFIGURATION_BYTES_MAX]; /* as of `index` */
};

/* ---- Life ---- */

/* The families that log_store_open() expects, in `options`; path and the rest are the caller's. */
void log_store_kv_options(struct kv_options *options);
/* Takes the kv when it succeeds. What was recovered is flushed and synced before it returns.
 * Blocking. */
enum rc log_store_open(struct log_store **out, struct env *env, struct kv *kv, struct error *error);
/* All writes must have completed. */
void log_store_close(struct log_store *store);

/* From now on log_store_full() says when less than `floor_bytes` are free where `path` lies. A
 * write that fails for want of space would stop every replica. */
void log_store_guard_space(struct log_store *store, const char *path, uint64_t floor_bytes);
/* On the loop; looks at most once a second. False without a guard. */
bool log_store_full(struct log_store *store);

/* ---- Start-up (blocking) ---- */

struct log_state {
    uint64_t replica_id; /* 0: the group has no rows */
    uint64_t term;
    uint64_t vote;
    struct log_snapshot snapshot;   /* index 0: none */
    struct log_snapshot installing; /* index 0: none; else the installation must be repeated */
    uint64_t first_index;           /* of the entries; snapshot.index + 1 when there are none */
    uint64_t last_index;
};

/* Reads and verifies everything of a group; `entry` is called for every entry in order (data
 * borrowed). */
struct log_load {
    void (*entry)(struct log_load *load, uint64_t index, const struct log_entry *entry);
    struct log_state state;
};
enum rc log_store_load(struct log_store *store, uint64_t group, struct log_load *load,
                       struct error *error);

/* The first rows of a group: its replica id and, for a first member, term 1 and entry 1. Synced. */
enum rc log_store_create(struct log_store *store, uint64_t group, uint64_t replica_id,
                         struct slice bootstrap, struct error *error);
/* As LOG_WRITE_INSTALLED, at start-up. Synced. */
enum rc log_store_installed(struct log_store *store, uint64_t group,
                            const struct log_snapshot *snapshot, struct error *error);
/* Removes every row of a group but its tombstone. Synced. Not while a replica of it is open. */
enum rc log_store_wipe(struct log_store *store, uint64_t group, struct error *error);
/* The lowest replica id that may exist here for the group; only ever rises. Synced. */
enum rc log_store_set_tombstone(struct log_store *store, uint64_t group, uint64_t lowest_id,
                                struct error *error);
enum rc log_store_tombstone(struct log_store *store, uint64_t group, uint64_t *lowest_id,
                            struct error *error);

/* ---- Writing: on a loop, completes there ---- */

enum log_write_what {
    LOG_WRITE_TERM = 1,
    LOG_WRITE_TRUNCATE = 2, /* every entry from truncate_from on, before the new ones */
    LOG_WRITE_ENTRIES = 4,
    LOG_WRITE_TRIM = 8,        /* entries below trim_below; the log then begins at `snapshot` */
    LOG_WRITE_INSTALLING = 16, /* `snapshot` is about to replace the state */
    LOG_WRITE_INSTALLED = 32   /* it did: all entries go, the log begins at `snapshot` */
};

struct log_write {
    void (*done)(struct log_write *write); /* on the loop of `env` */
    enum rc rc;
    unsigned what; /* enum log_write_what */
    uint64_t group;
    uint64_t term;
    uint64_t vote;
    uint64_t truncate_from;
    uint64_t first_index;
    const struct log_entry *entries; /* borrowed, with their bytes, until done */
    uint32_t entry_count;
    uint64_t trim_below;
    const struct log_snapshot *snapshot; /* borrowed until done */
    /* Private. */
    struct env_work work;
    struct log_store *store;
};
void log_store_write(struct log_store *store, struct env *env, struct log_write *write);

/* Told once, on the loop, when a write failed: the owner stops. */
struct log_watch {
    void (*failed)(struct log_watch *watch, const struct error *error);
    struct list link; /* private */
};
void log_store_watch(struct log_store *store, struct log_watch *watch);
void log_store_unwatch(struct log_watch *watch);

/* ---- Reading back: blocking, on work threads ---- */

/* Entries from `from` to at most `to`, until `bytes_max` is passed; at least one. They share one
 * new block with one reference each, owned by the caller. RC_NOT_FOUND: trimmed or truncated
 * meanwhile. */
struct log_read {
    uint64_t group;
    uint64_t from;
    uint64_t to;
    size_t bytes_max;
    struct log_entry *entries; /* room for entry_max, the caller's */
    uint32_t entry_max;
    uint32_t entry_count;      /* out */
    struct entry_block *block; /* out; NULL when nothing was read */
};
enum rc log_store_read(struct log_store *store, struct log_read *read, struct error *error);

static inline void entry_block_unref(struct entry_block *block)
{
    if (block != NULL && --block->refs == 0) {
        mem_free(block);
    }
}

#endif
