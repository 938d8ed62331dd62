/*
 * What a listing shows of a record, without unpacking the rest: a page of 1,000 keys is a hot path,
 * and protobuf-c allocates for every field.
 */
#ifndef METAD_STORE_RECORD_PEEK_H
#define METAD_STORE_RECORD_PEEK_H

#include "common/base/arena.h"
#include "proto/record.pb-c.h"

/* stamp, tie, null_version, delete_marker, size, etag, part_count, segments, checksums, owner,
 * storage_class; the other fields are as if unset. NULL when the bytes are not a record. Nothing
 * borrows `value`.
 */
Kist__Record *record_peek(struct arena *arena, struct slice value);
/* `whole`: all of it; else as above. */
Kist__Record *record_listed(struct arena *arena, struct slice value, bool whole);

#endif
