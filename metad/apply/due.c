#include "metad/apply/due.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/lifecycle/lifecycle.h"

enum { VERSION_BYTES = 12, DUE_HEAD_BYTES = 8 + 8 + 1 };

const Kist__Lifecycle *due_rules(struct apply *apply, uint64_t bucket_id)
{
    const Kist__Bucket *bucket = apply_bucket(apply, bucket_id);

    if (bucket == NULL || bucket->settings == NULL || bucket->settings->lifecycle == NULL ||
        bucket->settings->lifecycle->n_rules == 0) {
        return NULL;
    }
    return bucket->settings->lifecycle;
}

/* ---- Rows ---- */

static void due_key(const struct apply *apply, const struct due_row *due, struct slice id,
                    struct row_key *row)
{
    char head[8 + 1];

    be64_put(head, due->bucket_id);
    head[8] = (char)due->kind;
    key_range_u64(row, apply->range_id, KIND_DUE, due->due, slice_of(head, sizeof(head)));
    row_key_append(row, id);
    row_key_append(row, due->key);
}

static void due_put(struct apply *apply, struct due_row *due, struct slice id)
{
    Kist__Due empty = KIST__DUE__INIT;
    struct row_key row;

    if (due->due == LIFECYCLE_NEVER) {
        return;
    }
    due->due = due->due > apply->stamp ? due->due : apply->stamp;
    due_key(apply, due, id, &row);
    apply_put_unread(apply, FAMILY_ROWS, &row, message_pack(apply->arena, &empty.base));
}

/* What is due already is on its way to be looked at. */
static void due_delete(struct apply *apply, const struct due_row *due, struct slice id)
{
    struct row_key row;

    if (due->due != LIFECYCLE_NEVER && due->due > apply->stamp) {
        due_key(apply, due, id, &row);
        apply_delete(apply, FAMILY_ROWS, &row);
    }
}

static struct slice version_bytes(const Kist__Record *record, char out[VERSION_BYTES])
{
    be64_put(out, record->stamp);
    be32_put(out + 8, record->tie);
    return slice_of(out, VERSION_BYTES);
}

void due_put_version(struct apply *apply, uint64_t bucket_id, struct slice key,
                     const Kist__Record *record, uint64_t due)
{
    struct due_row row = {.due = due, .bucket_id = bucket_id, .kind = DUE_VERSION, .key = key};
    char id[VERSION_BYTES];

    due_put(apply, &row, version_bytes(record, id));
}

bool due_parse(const struct apply *apply, struct slice row_key, struct due_row *out)
{
    struct row_key prefix;
    const char *at;
    size_t id_bytes;
    size_t left;

    key_range(&prefix, apply->range_id, KIND_DUE, SLICE_EMPTY);
    if (!slice_starts(row_key, row_key_slice(&prefix)) ||
        row_key.len < prefix.len + DUE_HEAD_BYTES) {
        return false;
    }
    at = row_key.data + prefix.len;
    *out = (struct due_row){.due = be64_get(at),
                            .bucket_id = be64_get(at + 8),
                            .kind = (enum due_kind)(uint8_t)at[DUE_HEAD_BYTES - 1]};
    if (out->bucket_id == 0 || (out->kind != DUE_VERSION && out->kind != DUE_UPLOAD)) {
        return false;
    }
    id_bytes = out->kind == DUE_VERSION ? VERSION_BYTES : ID_BYTES;
    at += DUE_HEAD_BYTES;
    left = row_key.len - prefix.len - DUE_HEAD_BYTES;
    if (left <= id_bytes || left > id_bytes + LIMIT_KEY_BYTES) {
        return false;
    }
    out->key = slice_of(at + id_bytes, left - id_bytes);
    if (out->kind == DUE_VERSION) {
        out->stamp = be64_get(at);
        out->tie = be32_get(at + 8);
    } else {
        out->upload_id = slice_of(at, ID_BYTES);
    }
    return true;
}

/* ---- Notes ---- */

/* A version that becomes noncurrent also pushes an older one out of those that a rule keeps: the
 * key is looked at on the next midnight. */
static uint64_t due_noncurrent(const struct apply *apply, const Kist__Lifecycle *rules,
                               struct slice key, const Kist__Record *record)
{
    struct lifecycle_when when = lifecycle_noncurrent(rules, key, record, LIFECYCLE_KEEP_MAX);
    uint64_t midnight = lifecycle_midnight(rules, apply->stamp);

    return lifecycle_keep(rules) > 0 && midnight < when.due ? midnight : when.due;
}

void due_note(struct apply *apply, uint64_t bucket_id, struct slice key, const Kist__Record *record,
              enum due_role role)
{
    const Kist__Lifecycle *rules = due_rules(apply, bucket_id);
    uint64_t due = LIFECYCLE_NEVER;

    if (rules == NULL) {
        return;
    }
    switch (role) {
    case DUE_CURRENT:
        due = lifecycle_current(rules, key, record).due;
        break;
    case DUE_NONCURRENT:
        due = due_noncurrent(apply, rules, key, record);
        break;
    case DUE_MARKER:
        due = lifecycle_marker(rules, key, record, apply->stamp).due;
        break;
    default:
        ASSERT(false);
    }
    due_put_version(apply, bucket_id, key, record, due);
}

void due_note_upload(struct apply *apply, uint64_t bucket_id, struct slice key,
                     const Kist__Upload *upload)
{
    const Kist__Lifecycle *rules = due_rules(apply, bucket_id);
    struct due_row row = {.bucket_id = bucket_id, .kind = DUE_UPLOAD, .key = key};

    ASSERT(upload->upload_id.len == ID_BYTES);
    if (rules != NULL) {
        row.due = lifecycle_upload(rules, key, upload).due;
        due_put(apply, &row, message_bytes(upload->upload_id));
    }
}

/* ---- What need not be looked at any more ---- */

void due_forget(struct apply *apply, uint64_t bucket_id, struct slice key,
                const Kist__Record *record, enum due_role role)
{
    const Kist__Lifecycle *rules = due_rules(apply, bucket_id);
    struct due_row row = {.bucket_id = bucket_id, .kind = DUE_VERSION, .key = key};
    char id[VERSION_BYTES];

    if (rules == NULL || role == DUE_MARKER) {
        return; /* when a marker became alone is not known; its row is soon due */
    }
    row.due = role == DUE_CURRENT
                  ? lifecycle_current(rules, key, record).due
                  : lifecycle_noncurrent(rules, key, record, LIFECYCLE_KEEP_MAX).due;
    due_delete(apply, &row, version_bytes(record, id));
}

void due_forget_upload(struct apply *apply, uint64_t bucket_id, struct slice key,
                       const Kist__Upload *upload)
{
    const Kist__Lifecycle *rules = due_rules(apply, bucket_id);
    struct due_row row = {.bucket_id = bucket_id, .kind = DUE_UPLOAD, .key = key};

    if (rules != NULL) {
        row.due = lifecycle_upload(rules, key, upload).due;
        due_delete(apply, &row, message_bytes(upload->upload_id));
    }
}
