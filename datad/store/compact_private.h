/* What compact.c (the steps) and compact_work.c (their work on pool threads) share; for nobody
 * else. */
#ifndef DATAD_STORE_COMPACT_PRIVATE_H
#define DATAD_STORE_COMPACT_PRIVATE_H

#include "datad/store/compact.h"

enum {
    ITEMS_MAX = 16, /* live shards listed by one scan: with their keys some 20 KiB */
    BAD_MAX = 64,
    PASSES_MAX = 3
};

enum compact_step {
    COMPACT_IDLE,
    COMPACT_CHOOSE,
    COMPACT_SCAN,
    COMPACT_DELETES,
    COMPACT_BEGIN,
    COMPACT_COPY,
    COMPACT_SEAL,
    COMPACT_ABORT,
    COMPACT_PAUSE,
    COMPACT_RETIRE,
    COMPACT_RECOUNT,
    COMPACT_UNLINK,
    COMPACT_FORGET,
    COMPACT_VERIFY,
    COMPACT_VERIFY_PAUSE,
    COMPACT_SUSPECT,
    COMPACT_VERIFIED
};

struct compact_item {
    struct shard_id shard;
    uint32_t attempt;
    uint64_t at;
    uint64_t length;
    struct shard_origin origin;
    char key[LIMIT_KEY_BYTES];
};

struct compact_bad {
    struct shard_id shard;
    uint64_t at;
};

struct compact {
    struct store *store;
    struct env *env;
    enum compact_step step;
    bool stopping;
    struct segment *segment; /* held */
    uint64_t generation;
    uint64_t scan_at;
    bool scan_done;
    uint32_t passes; /* over the segment; bytes may have become live behind the scan */
    uint64_t moved;  /* shards in this pass */
    uint64_t copied_bytes;
    bool unreadable; /* the shard at hand could not be read: it stays, and is told to repair */
    struct compact_item items[ITEMS_MAX];
    uint32_t item_count;
    uint32_t item_at;
    struct delete_entry deletes[DELETE_ENTRIES_MAX];
    uint32_t delete_count;
    struct compact_bad bad[BAD_MAX];
    uint32_t bad_count;
    uint64_t verified_bytes; /* by the last work job */
    bool scrub;              /* at scrub's pace; given up for anything more urgent */
    uint32_t bad_at;
    uint64_t rows; /* recount */
    enum rc rc;    /* of the work */
    struct store_writer writer;
    struct store_job job;
    struct env_work work;
    struct env_timer timer;
};

/* Work jobs; each leaves its outcome in compact->rc. */
void compact_scan_run(struct env_work *work);    /* fills items and deletes from scan_at on */
void compact_copy_run(struct env_work *work);    /* items[item_at] into writer's region */
void compact_recount_run(struct env_work *work); /* rows: how many name the segment */
void compact_unlink_run(struct env_work *work);  /* index flush, unlink, sync of the directory */
void compact_verify_run(struct env_work *work);  /* bad: live shards that fail direct reads */

#endif
