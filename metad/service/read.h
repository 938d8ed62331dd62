/*
 * The reads of meta_client.h over one state, as plain functions: on a loop with `cached_only`,
 * where a disk would be needed or too much would be done they answer RC_AGAIN and are repeated from
 * the beginning in a work job.
 *
 * What makes them linearizable is around them (meta_local.c).
 */
#ifndef METAD_SERVICE_READ_H
#define METAD_SERVICE_READ_H

#include "common/client/meta_client.h"
#include "metad/store/store.h"

struct read_context {
    struct store *store;
    bool cached_only;
    bool again; /* a repeat, by an attempt that ended with RC_AGAIN: room for answers is there */
    uint32_t budget;              /* with cached_only: rows and seeks still allowed */
    struct kv_snapshot *snapshot; /* NULL: every look sees the newest */
    struct error error;
};

enum {
    READ_LOOP_BUDGET = 2048, /* rows: a page of 1,000 keys fits, in under 2 ms */
    READ_SEEK_COST = 12      /* a seek, in rows */
};

/* RC_OK, RC_AGAIN, RC_STALE, RC_NOT_FOUND; RC_CORRUPT and RC_IO with a text. */
typedef enum rc (*read_cb)(struct read_context *read, void *arg);

enum rc read_get(struct read_context *read, void *arg);           /* struct meta_get */
enum rc read_list(struct read_context *read, void *arg);          /* struct meta_list */
enum rc read_list_versions(struct read_context *read, void *arg); /* struct meta_list_versions */
enum rc read_changes(struct read_context *read, void *arg);       /* struct meta_changes */
enum rc read_pieces(struct read_context *read, void *arg);        /* struct meta_pieces */
enum rc read_part_range(struct read_context *read, void *arg);    /* struct meta_part_range */
enum rc read_list_parts(struct read_context *read, void *arg);    /* struct meta_list_parts */
enum rc read_list_uploads(struct read_context *read, void *arg);  /* struct meta_list_uploads */
enum rc read_scan(struct read_context *read, void *arg);          /* struct meta_scan */
enum rc read_jobs(struct read_context *read, void *arg);          /* struct meta_jobs */
enum rc read_repairs(struct read_context *read, void *arg);       /* struct meta_repairs */
void read_get_release(struct meta_get *call);

/* ---- Shared by the files of reads ---- */

/* RC_OK, or RC_STALE when the bucket is not known or at another generation. */
enum rc read_check_bucket(struct read_context *read, uint64_t bucket_id, uint64_t generation);
/* RC_NOT_FOUND when absent. The message lies in the arena. */
enum rc read_load(struct read_context *read, enum family family, const struct row_key *key,
                  const ProtobufCMessageDescriptor *type, struct arena *arena, void **out);
/* A version among those of its key. */
struct version_at {
    uint64_t stamp;
    uint32_t tie;
};

/* Where the null version lies when it is not the current one; RC_NOT_FOUND: there is none. */
enum rc read_null_version(struct read_context *read, uint64_t bucket_id, struct slice key,
                          struct arena *arena, struct version_at *at);
/* May there be rows of `history`? False for ever in a bucket that was never versioned. */
bool read_versioned(const struct read_context *read, uint64_t bucket_id);

/* Several looks at one point in time: together they count if nothing was written meanwhile. After
 * READ_LOOKS_MAX attempts a snapshot helps, which costs more than it seems (kv.h).
 *
 *     read_looks_begin(&looks, read);
 *     do { look at this and that } while (read_looks_again(&looks));
 *     read_looks_end(&looks);
 */
struct read_looks {
    struct read_context *read;
    uint64_t sequence;
    uint32_t attempts;
};

enum { READ_LOOKS_MAX = 4 };

void read_looks_begin(struct read_looks *looks, struct read_context *read);
/* Do the looks since the beginning, or since the last repeat, fit together? For walks, which see
 * what was there when they were opened: ask when all are open. */
bool read_looks_fit(const struct read_looks *looks);
/* True: look again. */
bool read_looks_again(struct read_looks *looks);
/* Walks are closed before. */
void read_looks_end(struct read_looks *looks);
/* Length of the common prefix that `name` rolls up into: to the end of the first delimiter behind
 * `from` bytes; 0: none. */
size_t read_rolled_up(struct slice name, size_t from, struct slice delimiter);
enum rc read_corrupt(struct read_context *read, const char *what);
/* False: out of budget (RC_AGAIN). */
bool read_spend(struct read_context *read, uint32_t cost);

/* A walk between two keys. */
struct read_walk {
    struct read_context *read;
    struct kv_iter *iter;
    struct row_key lower;
    struct row_key upper;
    bool bounded; /* `upper` counts */
};

/* From `lower` to the end of `prefix` (both copied). Bulk walks read ahead and leave the cache
 * alone. */
void read_walk_open(struct read_walk *walk, struct read_context *read, enum family family,
                    const struct row_key *lower, const struct row_key *prefix, bool bulk);
void read_walk_close(struct read_walk *walk);
bool read_walk_valid(const struct read_walk *walk);
struct slice read_walk_key(const struct read_walk *walk);
struct slice read_walk_value(const struct read_walk *walk);
/* False: out of budget. */
bool read_walk_next(struct read_walk *walk);
bool read_walk_seek(struct read_walk *walk, const struct row_key *key);
/* Why it is no longer valid: RC_OK at the end. */
enum rc read_walk_rc(struct read_walk *walk);

#endif
