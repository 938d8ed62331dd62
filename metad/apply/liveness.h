/*
 * Who keeps data alive (DESIGN 4.4). A layout has one home: the (bucket, key) it was first written
 * under.
 *
 *     no home row         its owner (the current or older version or part row at the home that
 *                         names it) is its only reference
 *     home row, live      the references are the rows `home_reference` beside it: the owner's (its
 *                         id is the layout's own) and one per copy
 *     home row, condemned nothing may name it any more; shards are being deleted
 *
 * The home row counts, the ids are rows of their own: a million copies never rewrite one row of a
 * million ids.
 *
 * Every command that stops naming a layout removes its own reference here; the last one puts the
 * layout into the reclaim queue. Queue rows are hints: CONDEMN looks again.
 */
#ifndef METAD_APPLY_LIVENESS_H
#define METAD_APPLY_LIVENESS_H

#include "metad/apply/apply.h"

struct layout_name {
    uint64_t bucket_id; /* home */
    struct slice key;   /* home */
    struct slice id;
};

/* ---- New extents ---- */

/* Well formed, fresh enough, and durable on enough shards? `pieces` may hold references (they have
 * an owner): those are registered by layout_reference_pieces(). */
bool layout_check_pieces(struct apply *apply, Kist__Piece *const *pieces, size_t count,
                         uint64_t size);
/* Repair rows for the own extents that lack shards. */
void layout_queue_repairs(struct apply *apply, const struct layout_name *layout,
                          Kist__Piece *const *pieces, size_t count);
/* A layout about to be named for the first time must not be condemned. */
bool layout_check_new(struct apply *apply, const struct layout_name *layout);

/* ---- References ---- */

/* Of the pieces with an owner: one for each distinct reference. */
bool layout_reference_pieces(struct apply *apply, const struct layout_name *holder,
                             Kist__Piece *const *pieces, size_t count);
void layout_unreference_pieces(struct apply *apply, Kist__Piece *const *pieces, size_t count);
/* Refuses when nothing names the layout any more (CONDEMNED), or when the id was used: a repeat of
 * the command is answered from its request row and never comes here. */
bool layout_add_reference(struct apply *apply, const Kist__Reference *reference,
                          uint64_t holder_bucket, struct slice holder_key);
bool layout_has_reference(struct apply *apply, const Kist__Reference *reference);
/* Harmless when it is not there. */
void layout_remove_reference(struct apply *apply, const Kist__Reference *reference);

/* ---- What stops naming a layout ---- */

/* A version that is gone: overwritten or deleted. Its inline bytes go in the same batch. */
void layout_drop_record(struct apply *apply, uint64_t bucket_id, struct slice key,
                        const Kist__Record *record);
/* A part that was replaced, aborted, or not listed. */
void layout_drop_part(struct apply *apply, uint64_t bucket_id, struct slice key,
                      const Kist__Part *part);

/* ---- The owner ---- */

/* The version at the home that owns the layout, current or (by its `owner` row) in history. NULL:
 * none, or a part. */
Kist__Record *layout_owner(struct apply *apply, const struct layout_name *layout, bool *in_history);
/* The same record with other shards of its pieces, in its place. */
void layout_put_owner(struct apply *apply, const struct layout_name *layout,
                      const Kist__Record *record, bool in_history);

/* ---- For condemn ---- */

/* Does a reference exist, or a row at the home that names it? */
bool layout_is_named(struct apply *apply, const struct layout_name *layout, const Kist__Home *home);
Kist__Home *layout_home(struct apply *apply, const struct layout_name *layout);
void layout_put_home(struct apply *apply, const struct layout_name *layout, const Kist__Home *home);

enum { HOME_LIVE = 1, HOME_CONDEMNED = 2 };
enum { EXTENT_REPLICA = 1, EXTENT_STRIPED = 2 };

/* The shards an extent should have. */
uint32_t extent_shards(const Kist__Extent *extent);

#endif
