/*
 * The change feed (DESIGN 4.3): a `change` row for every event in a bucket whose feed is on or that
 * notifies somebody, in the batch of the command that made it. Key: (range, stamp u64, number u32).
 *
 * Whom an event notifies is decided here, by the configuration of that moment, and stands in the
 * row: a later configuration, or the end of the bucket, changes nothing of it.
 */
#ifndef METAD_APPLY_CHANGE_H
#define METAD_APPLY_CHANGE_H

#include "metad/apply/apply.h"

struct change_by {
    struct slice user;       /* who did it; may be empty */
    struct slice source_key; /* of a rename, else empty */
};

/* Called by whatever changes a version (version.c). Nothing when the bucket does not want it.
 * `record`: the version that was made or is gone; NULL: it is not known. */
void change_note(struct apply *apply, Kist__ChangeKind kind, uint64_t bucket_id, struct slice key,
                 const Kist__Record *record, struct change_by by);

/* A setting of a bucket is about to be put (PUT_SETTING): `value` is what will be stored, `old`
 * what was. Notes when a feed began; tells new targets of a notification (s3:TestEvent). */
void change_on_setting(struct apply *apply, const Kist__Bucket *bucket, const Kist__Settings *old,
                       Kist__Settings *value, uint32_t setting);

/* After the command's function: what the notes of this entry add up to. */
void change_finish(struct apply *apply);

#endif
