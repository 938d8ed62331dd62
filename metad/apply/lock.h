/*
 * Object lock (AWS: "Locking objects with Object Lock"): which versions may go, and how a retention
 * may change. Pure: `now` is the stamp of the command. A lock belongs to one version; a plain
 * delete makes a marker and touches none.
 */
#ifndef METAD_APPLY_LOCK_H
#define METAD_APPLY_LOCK_H

#include "metad/apply/apply.h"

enum { LOCK_NONE = 0, LOCK_GOVERNANCE = 1, LOCK_COMPLIANCE = 2 };

bool lock_enabled(const Kist__Bucket *bucket);
/* Must the version stay? `bypass`: the caller may lift governance, and asked to. */
bool lock_holds(const Kist__Record *record, uint64_t now, bool bypass);
/* A lock that a request brings for a new version. */
bool lock_check_new(struct apply *apply, const Kist__Bucket *bucket, const Kist__Lock *lock);
/* What a new version gets: its own retention, else the bucket's default one. NULL: none. */
Kist__Lock *lock_of_new(struct apply *apply, const Kist__Bucket *bucket, Kist__Lock *own);
/* May the retention become this one? Mode 0 removes it. */
Kist__Outcome lock_check_retention(const Kist__Lock *old, const Kist__Lock *retention, uint64_t now,
                                   bool bypass);

#endif
