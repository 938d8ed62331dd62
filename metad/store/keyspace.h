/*
 * Keys of every row that metad keeps (DESIGN 4.2, FORMAT.md). Big endian, so that memcmp order is
 * S3 order.
 *
 *     current   bucket id u64, raw key
 *     rows      bucket id u64, escaped key, kind u8, ...       |  0 u64, range id u64, kind u8, ...
 *     inline    bucket id u64, escaped key, stamp u64
 *     local     name                                              (never replicated)
 *     uploads   as rows: open uploads and their parts, so that listing them meets nothing else
 *     history   as rows: older versions and markers, so that listing them meets nothing else
 *
 * In an escaped key a 00 byte is written 00 FF and the end is 00 01, so that no key is a prefix of
 * another and the order is kept.
 */
#ifndef METAD_STORE_KEYSPACE_H
#define METAD_STORE_KEYSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/limits.h"
#include "common/base/slice.h"

enum family {
    FAMILY_CURRENT,
    FAMILY_ROWS,
    FAMILY_INLINE,
    FAMILY_LOCAL,
    FAMILY_UPLOADS,
    FAMILY_HISTORY,
    FAMILY_COUNT
};

#define KIND(number, name, begins, then, value, family) KIND_##name = (number),
enum row_kind {
#include "metad/store/kind.def"
};
#undef KIND

enum {
    RANGE_ROOT = 0, /* range id of root's rows */
    RANGE_FIRST = 1,
    ID_BYTES = 24, /* extents, layouts, uploads, copies */
    REQUEST_ID_BYTES = 16,
    SUFFIX_BYTES_MAX =
        160, /* after the kind: the longest is layout id and reference id, or a name */
    ROW_KEY_BYTES_MAX = 8 + 2 * LIMIT_KEY_BYTES + 2 + 1 + SUFFIX_BYTES_MAX
};

struct row_key {
    size_t len;
    char bytes[ROW_KEY_BYTES_MAX];
};

static inline struct slice row_key_slice(const struct row_key *key)
{
    return slice_of(key->bytes, key->len);
}

/* ---- Encoding. `key` is at most LIMIT_KEY_BYTES (asserted: checked when the command came in).
 * ---- */

void key_current(struct row_key *out, uint64_t bucket_id, struct slice key);
void key_inline(struct row_key *out, uint64_t bucket_id, struct slice key, uint64_t stamp);
/* Rows of an object: kind and what follows it. With less than all of it: a prefix of such rows. */
void key_object(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                struct slice suffix);
void key_object_u32(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                    struct slice id, uint32_t number);
void key_object_u64(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                    struct slice id, uint64_t number);
/* A row of the family `history`: of one key, the newest version comes first. */
void key_history(struct row_key *out, uint64_t bucket_id, struct slice key, uint64_t stamp,
                 uint32_t tie);
/* All rows of keys that begin with `prefix`. */
void key_object_prefix(struct row_key *out, uint64_t bucket_id, struct slice prefix);
/* After the last row of this key. */
void key_object_end(struct row_key *out, uint64_t bucket_id, struct slice key);
/* Rows of a range or of root. */
void key_range(struct row_key *out, uint64_t range_id, enum row_kind kind, struct slice suffix);
void key_range_u64(struct row_key *out, uint64_t range_id, enum row_kind kind, uint64_t number,
                   struct slice id);
/* All rows of a bucket begin with this, in every family. */
void key_bucket(struct row_key *out, uint64_t bucket_id);

void row_key_append(struct row_key *key, struct slice bytes);
/* The first key after all that begin with `key`. False when there is none. */
bool row_key_after_prefix(struct row_key *key);

/* ---- Decoding: what is on disk is checked, never trusted ---- */

struct row_name {
    uint64_t bucket_id; /* 0: a row of range `range_id` */
    uint64_t range_id;
    struct slice key; /* unescaped */
    enum row_kind kind;
    struct slice suffix;
};

/* A key of `rows`, `uploads` or `history`. The object key is put into the arena when it had to be
 * unescaped.
 */
bool row_name_parse(struct arena *arena, struct slice key, struct row_name *out);
/* Kind of a row without the rest; 0 when malformed. For compaction. */
uint8_t row_kind_of(struct slice key);
bool current_parse(struct slice key, uint64_t *bucket_id, struct slice *raw);
/* The suffix of a `history` row. */
bool history_parse(struct slice suffix, uint64_t *stamp, uint32_t *tie);

#endif
