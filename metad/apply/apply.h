/*
 * One entry being applied: what a command's function may use.
 *
 * A command is a function of the rows it reads and of its message: no clock, no configuration, no
 * order that is not in the keys. It first judges (reads, and `apply_refuse`), then changes; what it
 * changed it sees when it reads again. A refused command changes nothing: the machine drops its
 * batch.
 */
#ifndef METAD_APPLY_APPLY_H
#define METAD_APPLY_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/hash_map.h"
#include "common/kv/kv.h"
#include "metad/store/bucket_cache.h"
#include "metad/store/bucket_table.h"
#include "metad/store/keyspace.h"
#include "metad/store/message.h"
#include "proto/command.pb-c.h"
#include "proto/record.pb-c.h"

struct overlay_row;

struct apply {
    struct kv *kv;
    struct kv_batch *batch;
    struct arena *arena; /* gone after the entry */
    const struct bucket_table *buckets;
    struct bucket_cache *bucket_cache;
    uint64_t range_id; /* of the objects; root is hosted beside it */
    uint64_t stamp;    /* of this command */
    struct slice body; /* of an inline object */
    Kist__Reply reply;
    /* What the machine publishes once the batch is written. */
    bool root_changed;
    uint64_t bucket_changed; /* bucket id, 0: none */
    uint64_t bucket_generation;
    bool bucket_versioned; /* versioning is or was on */
    /* change.c's: rows written by this entry, and the feed's row once it was read. */
    uint32_t change_count;
    Kist__FeedState *feed;
    /* An error of the store: the replica stops, nothing is written. */
    struct error error;
    /* Private. */
    struct hash_map overlay;     /* what this entry wrote, by family and key */
    struct overlay_row *history; /* those of the family `history` */
};

typedef Kist__Outcome apply_outcome;

/* ---- Refusals ---- */

/* Sets the outcome; returns false so that `return apply_refuse(...)` reads well in checks. */
bool apply_refuse(struct apply *apply, Kist__Outcome outcome);
bool apply_refuse_text(struct apply *apply, Kist__Outcome outcome, const char *text);
/* Does the range know the bucket, and was the request judged by its present settings? */
bool apply_check_bucket(struct apply *apply, uint64_t bucket_id, uint64_t generation);
/* The bucket with its settings, as the range knows it: for commands that passed the check above.
 * NULL only when the row is damaged (apply->error). Lives until the end of the entry. */
const Kist__Bucket *apply_bucket(struct apply *apply, uint64_t bucket_id);
/* 1 .. LIMIT_KEY_BYTES. */
bool apply_check_key(struct apply *apply, ProtobufCBinaryData key);
bool apply_check_id(struct apply *apply, ProtobufCBinaryData id);

/* ---- Rows ---- */

/* False when absent. The value lies in the arena. */
bool apply_get(struct apply *apply, enum family family, const struct row_key *key,
               struct slice *value);
/* NULL when absent. */
void *apply_load(struct apply *apply, enum family family, const struct row_key *key,
                 const ProtobufCMessageDescriptor *type);
void apply_put(struct apply *apply, enum family family, const struct row_key *key,
               struct slice value);
void apply_put_message(struct apply *apply, enum family family, const struct row_key *key,
                       const ProtobufCMessage *message);
void apply_delete(struct apply *apply, enum family family, const struct row_key *key);

/* The current record of a key; NULL when there is none. */
Kist__Record *apply_current(struct apply *apply, uint64_t bucket_id, struct slice key);
void apply_put_current(struct apply *apply, uint64_t bucket_id, struct slice key,
                       const Kist__Record *record);
/* Not seen by reads of the same entry: for rows that only later entries read. */
void apply_put_unread(struct apply *apply, enum family family, const struct row_key *key,
                      struct slice value);
/* Inline bytes: not seen by reads of the same entry. */
void apply_put_inline(struct apply *apply, uint64_t bucket_id, struct slice key, uint64_t stamp,
                      struct slice body);

/* ---- Walks over rows with a prefix, as they were before this entry ---- */

struct apply_walk {
    struct slice key;
    struct slice value;
    /* Private. */
    struct apply *apply;
    struct kv_iter *iter;
    struct row_key upper;
    struct row_key lower;
    bool begun;
};

void apply_walk_open(struct apply_walk *walk, struct apply *apply, enum family family,
                     const struct row_key *prefix);
/* False at the end and on an error (apply->error). key and value are borrowed until the next call.
 */
bool apply_walk_next(struct apply_walk *walk);
/* To the last row, instead of the first. False when there is none. */
bool apply_walk_last(struct apply_walk *walk);
void apply_walk_close(struct apply_walk *walk);

/* The first row of the family `history` from `from` on that begins with `prefix`, as this entry
 * sees it. False when there is none. */
bool apply_history_from(struct apply *apply, const struct row_key *from,
                        const struct row_key *prefix, struct slice *value);

/* ---- Usage of a bucket: signed deltas; only the sum means something ---- */

void apply_usage(struct apply *apply, uint64_t bucket_id, int64_t objects, int64_t bytes,
                 int64_t uploads);

/* ---- The machine's side ---- */

void apply_init(struct apply *apply);
void apply_deinit(struct apply *apply);
void apply_fail(struct apply *apply, const char *what);

/* One function a command; table in command_table.c. */
#define COMMAND(number, name, type)                                                                \
    void apply_##type(struct apply *apply, const ProtobufCMessage *message);
#include "common/client/command.def"
#undef COMMAND

#endif
