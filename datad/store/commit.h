/* One run of a disk's queue: takes the jobs in order, then syncs, indexes and answers them
 * together. */
#ifndef DATAD_STORE_COMMIT_H
#define DATAD_STORE_COMMIT_H

#include "datad/store/store.h"

struct commit {
    struct store *store;
    struct list dirty;       /* segments to sync */
    struct list touched;     /* segments whose row changes */
    struct store_job *first; /* jobs that wait for the sync */
    struct store_job *last;
    struct hash_map removes; /* of these the REMOVEs, by key */
};

void commit_batch(struct env_queue *queue, struct list *works);

/* ---- Between the files of the commit ---- */

/* A region of `bytes` and the segment, held by the queue. RC_FULL. `reserve`: may use the disk's
 * reserve (deletes, compaction). */
enum rc space_allocate(struct store *store, uint64_t bytes, bool reserve, struct segment **segment,
                       uint64_t *at);
/* Sets free and total bytes, and the state to and from FULL. */
void space_update(struct store *store);
/* A write or sync of this segment failed with `rc`. */
void space_segment_failed(struct store *store, struct segment *segment, enum rc rc);
/* Seals the active segment, if there is one. */
void space_seal_active(struct store *store);
/* Every record below is in the index once the running commit is. */
uint64_t space_covered(const struct segment *segment);
/* Sums for status. */
void space_sum(struct store *store);
/* The segment's row as of now. */
void space_put_row(struct store *store, struct segment *segment, enum index_segment_state state);

/* CHOOSE: which segment compaction should take. */
enum rc space_choose(struct store *store, struct store_job *job);

/* May this id be begun now? Also raises the group's epoch. */
enum rc write_check(struct store *store, const struct store_writer *writer);
enum rc write_begin(struct commit *commit, struct store_job *job);
enum rc write_put(struct commit *commit, struct store_job *job);
enum rc write_seal(struct commit *commit, struct store_job *job);
void write_abort(struct store *store, struct store_writer *writer);
/* The writer is finished: leaves all lists, lets go of the segment. */
void write_finish(struct store *store, struct store_writer *writer);

void commit_dirty(struct commit *commit, struct segment *segment);
void commit_touch(struct commit *commit, struct segment *segment);

#endif
