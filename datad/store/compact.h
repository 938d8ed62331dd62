/*
 * Gives back the space of deleted shards of one disk, a segment at a time, in the background:
 *
 *     choose -> scan (pool): list what is alive -> copy each (pool, queue) -> until nothing is
 *            -> its delete records that still matter are written again
 *            -> retire row -> flush of the index -> unlink -> sync of the directory
 *
 * A restart at any point is safe: a copy has the attempt of its original, the index says which one
 * counts, and the original is unlinked only after the index that names the copy is durable.
 *
 * Also reads back, past the page cache, the acknowledged shards of a segment whose sync failed, and
 * with nothing else to do every sealed segment in turn (scrub): what fails is told to repair.
 * Lives on one loop.
 */
#ifndef DATAD_STORE_COMPACT_H
#define DATAD_STORE_COMPACT_H

#include "datad/store/store.h"

struct compact;

struct compact *compact_new(struct store *store, struct env *env);
void compact_free(struct compact *compact); /* idle */
/* Once a second: begins with a segment that is worth it, when nothing is under way. */
void compact_tick(struct compact *compact);
/* Ends what is under way as soon as its current step is done. */
void compact_stop(struct compact *compact);
bool compact_idle(const struct compact *compact);

#endif
