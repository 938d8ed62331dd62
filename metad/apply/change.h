/*
 * The change feed (DESIGN 4.3): a `change` row for every event in a bucket whose feed is on or that
 * notifies somebody, in the batch of the command that made it. Key: (range, stamp u64, number u32).
 */
#ifndef METAD_APPLY_CHANGE_H
#define METAD_APPLY_CHANGE_H

#include "metad/apply/apply.h"

/* Called by whatever changes a version (version.c). Nothing when the bucket does not want it.
 * `source_key`: of a rename, else empty. `user`: who did it, may be empty. */
void change_note(struct apply *apply, Kist__ChangeKind kind, uint64_t bucket_id, struct slice key,
                 const Kist__Record *record, struct slice user, struct slice source_key);

#endif
