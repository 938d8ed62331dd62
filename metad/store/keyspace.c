/* Keys: see keyspace.h and FORMAT.md. No key is built anywhere else. */
#include "metad/store/keyspace.h"

#include <assert.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"

enum { KEY_ZERO = 0x00, KEY_ESCAPED = 0xff, KEY_END = 0x01 };

static_assert((int)LIMIT_ACCESS_KEY_BYTES <= (int)SUFFIX_BYTES_MAX, "names of root's rows fit");
static_assert(ID_BYTES + ID_BYTES + 8 <= SUFFIX_BYTES_MAX, "two ids and a number fit");

void row_key_append(struct row_key *key, struct slice bytes)
{
    ASSERT(bytes.len <= sizeof(key->bytes) - key->len);
    if (bytes.len > 0) {
        memcpy(key->bytes + key->len, bytes.data, bytes.len);
        key->len += bytes.len;
    }
}

static void append_u8(struct row_key *key, uint8_t value)
{
    ASSERT(key->len < sizeof(key->bytes));
    key->bytes[key->len++] = (char)value;
}

static void append_u32(struct row_key *key, uint32_t value)
{
    ASSERT(sizeof(key->bytes) - key->len >= 4);
    be32_put(key->bytes + key->len, value);
    key->len += 4;
}

static void append_u64(struct row_key *key, uint64_t value)
{
    ASSERT(sizeof(key->bytes) - key->len >= 8);
    be64_put(key->bytes + key->len, value);
    key->len += 8;
}

static void append_escaped_part(struct row_key *key, struct slice raw)
{
    ASSERT(raw.len <= LIMIT_KEY_BYTES);
    for (size_t i = 0; i < raw.len; i++) {
        append_u8(key, (uint8_t)raw.data[i]);
        if (raw.data[i] == KEY_ZERO) {
            append_u8(key, KEY_ESCAPED);
        }
    }
}

static void append_escaped(struct row_key *key, struct slice raw)
{
    append_escaped_part(key, raw);
    append_u8(key, KEY_ZERO);
    append_u8(key, KEY_END);
}

void key_bucket(struct row_key *out, uint64_t bucket_id)
{
    out->len = 0;
    append_u64(out, bucket_id);
}

void key_current(struct row_key *out, uint64_t bucket_id, struct slice key)
{
    ASSERT(bucket_id != 0);
    ASSERT(key.len <= LIMIT_KEY_BYTES);
    key_bucket(out, bucket_id);
    row_key_append(out, key);
}

void key_inline(struct row_key *out, uint64_t bucket_id, struct slice key, uint64_t stamp)
{
    ASSERT(bucket_id != 0);
    key_bucket(out, bucket_id);
    append_escaped(out, key);
    append_u64(out, stamp);
}

void key_object(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                struct slice suffix)
{
    ASSERT(bucket_id != 0);
    ASSERT(kind < KIND_RANGE_STATE);
    key_bucket(out, bucket_id);
    append_escaped(out, key);
    append_u8(out, (uint8_t)kind);
    row_key_append(out, suffix);
}

void key_object_u32(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                    struct slice id, uint32_t number)
{
    key_object(out, bucket_id, key, kind, id);
    append_u32(out, number);
}

void key_object_u64(struct row_key *out, uint64_t bucket_id, struct slice key, enum row_kind kind,
                    struct slice id, uint64_t number)
{
    key_object(out, bucket_id, key, kind, id);
    append_u64(out, number);
}

void key_history(struct row_key *out, uint64_t bucket_id, struct slice key, uint64_t stamp,
                 uint32_t tie)
{
    key_object(out, bucket_id, key, KIND_HISTORY, SLICE_EMPTY);
    append_u64(out, ~stamp);
    append_u32(out, ~tie);
}

void key_object_prefix(struct row_key *out, uint64_t bucket_id, struct slice prefix)
{
    key_bucket(out, bucket_id);
    append_escaped_part(out, prefix);
}

void key_object_end(struct row_key *out, uint64_t bucket_id, struct slice key)
{
    key_bucket(out, bucket_id);
    append_escaped(out, key);
    append_u8(out, UINT8_MAX);
}

void key_range(struct row_key *out, uint64_t range_id, enum row_kind kind, struct slice suffix)
{
    ASSERT(kind >= KIND_RANGE_STATE);
    ASSERT((range_id == RANGE_ROOT) == (kind >= KIND_BUCKET));
    key_bucket(out, 0);
    append_u64(out, range_id);
    append_u8(out, (uint8_t)kind);
    row_key_append(out, suffix);
}

void key_range_u64(struct row_key *out, uint64_t range_id, enum row_kind kind, uint64_t number,
                   struct slice id)
{
    key_range(out, range_id, kind, SLICE_EMPTY);
    append_u64(out, number);
    row_key_append(out, id);
}

bool row_key_after_prefix(struct row_key *key)
{
    while (key->len > 0) {
        uint8_t last = (uint8_t)key->bytes[key->len - 1];

        if (last != UINT8_MAX) {
            key->bytes[key->len - 1] = (char)(last + 1);
            return true;
        }
        key->len -= 1;
    }
    return false;
}

/* Length of the escaped key with its terminator, 0 when there is none; counts the escapes. */
static size_t escaped_len(struct slice from, size_t *escapes)
{
    *escapes = 0;
    for (size_t i = 0; i + 1 < from.len; i++) {
        if (from.data[i] != KEY_ZERO) {
            continue;
        }
        if ((uint8_t)from.data[i + 1] == KEY_END) {
            return i + 2;
        }
        if ((uint8_t)from.data[i + 1] != KEY_ESCAPED) {
            return 0;
        }
        *escapes += 1;
        i += 1;
    }
    return 0;
}

static struct slice unescape(struct arena *arena, struct slice from, size_t escapes)
{
    char *to = arena_alloc_raw(arena, from.len);
    size_t len = 0;

    for (size_t i = 0; i < from.len; i++) {
        to[len++] = from.data[i];
        i += from.data[i] == KEY_ZERO;
    }
    ASSERT(len == from.len - escapes);
    return slice_of(to, len);
}

bool row_name_parse(struct arena *arena, struct slice key, struct row_name *out)
{
    struct slice rest = slice_after(key, 8);
    size_t escapes = 0;
    size_t len = 8; /* of what stands between the bucket id and the kind */

    if (key.len < 8 + 3) {
        return false;
    }
    *out = (struct row_name){.bucket_id = be64_get(key.data)};
    if (out->bucket_id != 0) {
        len = escaped_len(rest, &escapes);
        if (len == 0 || len - 2 - escapes > LIMIT_KEY_BYTES) {
            return false;
        }
        out->key = slice_of(rest.data, len - 2);
        if (escapes > 0) {
            out->key = unescape(arena, out->key, escapes);
        }
    }
    if (rest.len <= len) {
        return false;
    }
    if (out->bucket_id == 0) {
        out->range_id = be64_get(key.data + 8);
    }
    out->kind = (enum row_kind)(uint8_t)key.data[8 + len];
    out->suffix = slice_after(rest, len + 1);
    return true;
}

uint8_t row_kind_of(struct slice key)
{
    size_t escapes;
    size_t len = 8;

    if (key.len < 8 + 3) {
        return 0;
    }
    if (be64_get(key.data) != 0) {
        len = escaped_len(slice_after(key, 8), &escapes);
    }
    return len == 0 || key.len <= 8 + len ? 0 : (uint8_t)key.data[8 + len];
}

bool current_parse(struct slice key, uint64_t *bucket_id, struct slice *raw)
{
    if (key.len < 8) {
        return false;
    }
    *bucket_id = be64_get(key.data);
    *raw = slice_after(key, 8);
    return *bucket_id != 0;
}

bool history_parse(struct slice suffix, uint64_t *stamp, uint32_t *tie)
{
    if (suffix.len != 12) {
        return false;
    }
    *stamp = ~be64_get(suffix.data);
    *tie = ~be32_get(suffix.data + 8);
    return true;
}
