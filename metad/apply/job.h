/*
 * Jobs: long work over one bucket, in bounded steps. The row holds all that a step needs, so a step
 * is a command without parameters: a new leader or a restart goes on where the row stands.
 *
 *     JOB_DUE            `due` rows for what was there before the lifecycle rules changed
 *     JOB_DELETE_PREFIX  deletes what was there under a prefix when the job was made
 */
#ifndef METAD_APPLY_JOB_H
#define METAD_APPLY_JOB_H

#include "metad/apply/apply.h"

/* NULL when there is no such job. */
Kist__Job *job_load(struct apply *apply, uint64_t id);
void job_put(struct apply *apply, const Kist__Job *job);
void job_delete(struct apply *apply, uint64_t id);
/* The bucket's lifecycle rules have changed: makes the job, and names it in them. Before the bucket
 * is stored. */
void job_rules_changed(struct apply *apply, Kist__Bucket *bucket);

/* One step (job_step.c). Changes the job, which the caller stores; false: it has nothing to do any
 * more and goes. */
bool job_step(struct apply *apply, Kist__Job *job);

#endif
