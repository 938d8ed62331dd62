/*
 * Buckets: their rows in root (by name) and in the range (by id, with the generation that requests
 * are judged by). While one group holds root and the only range, both change in one command.
 */
#include "common/base/assert.h"
#include "metad/apply/apply.h"
#include "metad/apply/root_rows.h"

Kist__Bucket *root_bucket(struct apply *apply, struct slice name)
{
    struct row_key row;

    if (name.len == 0 || name.len > LIMIT_BUCKET_NAME_BYTES) {
        return NULL;
    }
    key_range(&row, RANGE_ROOT, KIND_BUCKET, name);
    return apply_load(apply, FAMILY_ROWS, &row, &kist__bucket__descriptor);
}

void root_put_bucket(struct apply *apply, const Kist__Bucket *bucket)
{
    struct row_key row;

    key_range(&row, RANGE_ROOT, KIND_BUCKET, message_bytes(bucket->name));
    apply_put_message(apply, FAMILY_ROWS, &row, &bucket->base);
    key_range_u64(&row, apply->range_id, KIND_RANGE_BUCKET, bucket->id, SLICE_EMPTY);
    apply_put_message(apply, FAMILY_ROWS, &row, &bucket->base);
    apply->root_changed = true;
    apply->bucket_changed = bucket->id;
    apply->bucket_generation = bucket->generation;
    apply->bucket_versioned = bucket->settings != NULL && bucket->settings->versioning != NULL;
}

void apply_create_bucket(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__CreateBucket *call = (const Kist__CreateBucket *)message;
    struct slice name = message_bytes(call->name);
    Kist__Bucket *bucket = root_bucket(apply, name);

    if (name.len < LIMIT_BUCKET_NAME_BYTES_MIN || name.len > LIMIT_BUCKET_NAME_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "length of the name");
        return;
    }
    if (bucket != NULL) {
        bool owned = slice_eq(message_bytes(bucket->owner), message_bytes(call->owner));

        apply->reply.bucket = bucket;
        (void)apply_refuse(apply,
                           owned ? KIST__OUTCOME__BUCKET_OWNED : KIST__OUTCOME__BUCKET_EXISTS);
        return;
    }
    if (root_user(apply, message_bytes(call->owner)) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_USER);
        return;
    }
    if (call->settings != NULL && !settings_begin(apply, call->settings)) {
        return;
    }
    bucket = arena_alloc(apply->arena, sizeof(*bucket));
    kist__bucket__init(bucket);
    bucket->name = call->name;
    bucket->id = root_mint(apply, SLICE("bucket"), 1);
    bucket->generation = 1;
    bucket->owner = call->owner;
    bucket->created = apply->stamp;
    bucket->region = call->region;
    bucket->settings = call->settings;
    root_put_bucket(apply, bucket);
    apply->reply.bucket = bucket;
}

static bool bucket_has_rows(struct apply *apply, enum family family, uint64_t bucket_id)
{
    struct apply_walk walk;
    struct row_key prefix;
    bool found;

    key_bucket(&prefix, bucket_id);
    apply_walk_open(&walk, apply, family, &prefix);
    found = apply_walk_next(&walk);
    apply_walk_close(&walk);
    return found;
}

/* Open uploads do not keep a bucket (AWS): they are purged behind it, a bounded step at a time. */
static void bucket_purge_later(struct apply *apply, uint64_t bucket_id)
{
    Kist__Purge purge = KIST__PURGE__INIT;
    struct row_key row;

    purge.bucket_id = bucket_id;
    purge.stamp = apply->stamp;
    key_range_u64(&row, apply->range_id, KIND_PURGE, bucket_id, SLICE_EMPTY);
    apply_put_message(apply, FAMILY_ROWS, &row, &purge.base);
}

void apply_delete_bucket(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__DeleteBucket *call = (const Kist__DeleteBucket *)message;
    const Kist__Bucket *bucket = root_bucket(apply, message_bytes(call->name));
    struct row_key row;

    if (bucket == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_BUCKET);
        return;
    }
    if (bucket->id != call->bucket_id) {
        (void)apply_refuse(apply, KIST__OUTCOME__STALE_GENERATION);
        return;
    }
    if (bucket_has_rows(apply, FAMILY_CURRENT, bucket->id) ||
        bucket_has_rows(apply, FAMILY_HISTORY, bucket->id)) {
        (void)apply_refuse(apply, KIST__OUTCOME__BUCKET_NOT_EMPTY);
        return;
    }
    if (bucket_has_rows(apply, FAMILY_UPLOADS, bucket->id)) {
        bucket_purge_later(apply, bucket->id);
    }
    key_range(&row, RANGE_ROOT, KIND_BUCKET, message_bytes(bucket->name));
    apply_delete(apply, FAMILY_ROWS, &row);
    key_range_u64(&row, apply->range_id, KIND_RANGE_BUCKET, bucket->id, SLICE_EMPTY);
    apply_delete(apply, FAMILY_ROWS, &row);
    key_range_u64(&row, apply->range_id, KIND_USAGE, bucket->id, SLICE_EMPTY);
    apply_delete(apply, FAMILY_ROWS, &row);
    apply->root_changed = true;
    apply->bucket_changed = bucket->id;
    apply->bucket_generation = 0;
}

void apply_set_bucket_owner(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__SetBucketOwner *call = (const Kist__SetBucketOwner *)message;
    Kist__Bucket *bucket = root_bucket(apply, message_bytes(call->name));

    if (bucket == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_BUCKET);
        return;
    }
    if (root_user(apply, message_bytes(call->owner)) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_USER);
        return;
    }
    bucket->owner = call->owner;
    bucket->generation += 1;
    bucket->judged_generation = bucket->generation;
    root_put_bucket(apply, bucket);
    apply->reply.bucket = bucket;
}
