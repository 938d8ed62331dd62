/*
 * One disk: segments, index, epochs, and the queue whose thread owns every change.
 *
 *     begin  -> region allocated, header written          \
 *     append -> pool threads write into the region          } one batch: one fdatasync per file,
 *     seal   -> footer written ----------------------------/  one index batch, then all answered
 *     remove -> delete record ----------------------------/
 *
 * Reads need no queue: index row -> segment held -> read (service/read_shard.c). A job belongs to
 * the store from store_submit() to its done.
 */
#ifndef DATAD_STORE_STORE_H
#define DATAD_STORE_STORE_H

#include "common/base/hash_map.h"
#include "datad/store/epochs.h"
#include "datad/store/index.h"
#include "datad/store/segment.h"

enum {
    STORE_SEGMENT_BYTES = 512 * 1024 * 1024,
    STORE_SEGMENT_BYTES_MIN = 1024 * 1024,
    STORE_FREE_BYTES_MIN = 256 * 1024 * 1024,
    STORE_PUT_BYTES_MAX = 256 * 1024, /* larger shards are written by the pool, not by the queue */
    STORE_BAD_MAX = 256,              /* bad shards remembered for repair */
    STORE_SCRUB_AGE_S = 14 * 24 *
        3600,             /* every sealed segment is read back this often, and after a start */
    STORE_ERRORS_MAX = 3, /* failed segments in a row: the disk has failed */
    STORE_PATH_BYTES = 4096,
    /* A client's begin of an id made longer ago is refused, so tombstones need not last longer: 24
     * h in which a PUT must commit, and one for clocks. They are kept for twice as long. */
    STORE_ID_AGE_S = LIMIT_EXTENT_AGE_S + 3600,
    STORE_TOMBSTONE_AGE_S = 2 * STORE_ID_AGE_S
};

enum store_state { STORE_HEALTHY, STORE_FULL, STORE_READ_ONLY, STORE_MISSING, STORE_FAILED };

/* One shard being written. Made by the caller; the queue's while a job runs. */
struct store_writer {
    struct shard_id shard;
    uint32_t attempt;
    uint64_t group;
    uint64_t group_epoch;
    uint64_t reserved_bytes;
    bool move; /* compaction: same attempt; takes the place of the row at (move_segment, move_at) */
    uint64_t move_segment;
    uint64_t move_at;
    /* Set by BEGIN, held until SEAL, ABORT or a failed BEGIN. */
    struct segment *segment;
    uint64_t at; /* of the header; payload 4 KiB further */
    uint64_t appended_bytes;
    uint32_t *crcs; /* owned by the caller: room for all of reserved_bytes */
    /* Private to the queue. */
    struct list link; /* in segment->writers */
    uint8_t key[INDEX_KEY_BYTES];
    bool open;    /* in store->writers */
    bool sealing; /* its SEAL is in the running commit */
    bool removed; /* a remove came meanwhile: SEAL fails */
};

enum store_job_kind {
    JOB_BEGIN,
    JOB_PUT, /* BEGIN, `bytes`, SEAL at once; at most STORE_PUT_BYTES_MAX */
    JOB_SEAL,
    JOB_ABORT,
    JOB_REMOVE,       /* `shard` */
    JOB_KEEP_DELETES, /* compaction: records `entries` again */
    JOB_SUSPECT,      /* `shard`: a checksum failed: repair is to look at it */
    JOB_INDEX_FAILED, /* a read found it damaged: `failure` */
    JOB_WRITE_FAILED, /* `writer`: bytes of it could not be written or synced: `failure` */
    JOB_CHOOSE, /* compaction: `generation` and `verify` of what is worth it; RC_NOT_FOUND: nothing
                 */
    JOB_VERIFIED,     /* compaction: `generation` was read back after its failed sync */
    JOB_RETIRE,       /* compaction: `segment` has nothing live; RC_BUSY when it has */
    JOB_FORGET,       /* compaction: `generation` is unlinked */
    JOB_FILLED,       /* the disk is as full as it should be */
    JOB_TICK,         /* space, presence */
    JOB_SEAL_SEGMENT, /* the active segment is sealed (tests, full disks) */
    JOB_CLOSE
};

struct store_job {
    enum store_job_kind kind;
    void (*done)(struct store_job *job); /* on the submitting loop */
    enum rc rc;
    struct store_writer *writer;
    const struct shard_origin *origin; /* BEGIN, PUT: borrowed */
    struct slice bytes;                /* PUT: borrowed */
    struct shard_id shard;             /* REMOVE, SUSPECT */
    enum rc failure;                   /* WRITE_FAILED */
    uint64_t suspect_at; /* SUSPECT: of the header that was read; older news is dropped */
    uint64_t generation; /* CHOOSE (out), VERIFIED, RETIRE, FORGET */
    bool verify;         /* CHOOSE (out): read it back instead of compacting it */
    bool scrub;          /* CHOOSE (out): in passing, at scrub's pace */
    bool recounted;      /* RETIRE: no row names it, whatever the sum says */
    const struct delete_entry *entries; /* KEEP_DELETES: borrowed */
    uint32_t entry_count;
    /* Private. */
    struct env_work work;
    struct store *store;
    uint8_t key[INDEX_KEY_BYTES]; /* of the shard */
    struct store_job *next;       /* in the running commit */
    struct segment *segment;
    struct index_row row; /* REMOVE: what was found; SEAL, PUT: what is written */
};

struct store_options {
    struct env *env; /* any: used for files, clock and randomness from any thread */
    uint64_t id;
    const char *path;       /* directory; `data` in it is ours */
    uint64_t segment_bytes; /* 0: STORE_SEGMENT_BYTES, less on small disks */
    uint64_t free_bytes_min;
    struct kv_cache *cache;
    index_kv_open kv_open;
    uint32_t cluster_epoch;
};

struct store {
    struct store_options options;
    struct env *env;
    char directory[STORE_PATH_BYTES];         /* DIR/data */
    char segment_directory[STORE_PATH_BYTES]; /* DIR/data/segments */
    char index_directory[STORE_PATH_BYTES];   /* DIR/data/index */
    struct env_queue queue;
    struct index index;
    struct segment_table *table;
    _Atomic bool fresh; /* `refill` stands in the directory: repair has not filled the disk yet */
    /* Of the queue thread. */
    struct list segments; /* in order of generation */
    struct segment *active;
    uint64_t generation_next;
    struct epochs epochs;
    struct hash_map writers; /* open ones by key */
    struct kv_batch *batch;
    uint8_t *scratch; /* header block, padding and footer of what is being written */
    uint32_t errors_in_row;
    /* Bad shards for repair: the queue thread puts, one loop takes; what does not fit is dropped
     * (the next walk of repair finds it). */
    struct shard_id bad[STORE_BAD_MAX];
    _Atomic uint32_t bad_put;
    _Atomic uint32_t bad_taken;
    /* Any thread. */
    _Atomic int state; /* enum store_state */
    _Atomic uint64_t free_bytes;
    _Atomic uint64_t total_bytes;
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t end_bytes; /* of all segments: live, dead and open */
    _Atomic uint64_t segment_count;
    _Atomic uint64_t bad_blocks;
    _Atomic uint64_t allocated;      /* bytes of regions since the last flush of the index */
    _Atomic uint64_t unflushed;      /* index batches since the last flush */
    _Atomic uint64_t syncs;          /* fdatasync calls, for metrics */
    char error_text[ERROR_TEXT_MAX]; /* written before `state` leaves HEALTHY or FULL for good */
};

/* Opens or recovers what is there. Always gives a store; *error and its state say what is wrong
 * with it. Blocking. */
struct store *store_open(const struct store_options *options, struct error *error);
/* Starts the queue's thread, through the loop of `env`. */
void store_start(struct store *store, struct env *env);
void store_submit(struct store *store, struct env *env, struct store_job *job);
/* After a JOB_CLOSE was answered and nobody holds a segment. */
void store_free(struct store *store, struct env *env);

enum store_state store_state(const struct store *store);
/* What calls are answered with in this state: RC_OK when reads (or writes) may go on. */
enum rc store_read_rc(const struct store *store);
enum rc store_write_rc(const struct store *store);
const char *store_state_text(enum store_state state);
/* Isolates the disk: said once. `state` READ_ONLY, MISSING or FAILED. Any thread. */
void store_isolate(struct store *store, enum store_state state, const char *why);

/* Drops the mark that the disk is to be filled. Queue thread. */
void store_filled(struct store *store);
/* One shard whose checksum failed since the last call; false: none. One loop only. */
bool store_take_bad(struct store *store, struct shard_id *out);

#endif
