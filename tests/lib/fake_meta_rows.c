/* The rows of fake_meta: versions of objects in order of bucket, key and age; uploads. */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/client/version_id.h"
#include "metad/store/message.h"
#include "tests/lib/fake_meta_store.h"

struct fake_bucket *fake_bucket_find(struct fake_meta *meta, uint64_t bucket_id)
{
    for (size_t i = 0; i < meta->bucket_count; i++) {
        if (meta->buckets[i].id == bucket_id) {
            return &meta->buckets[i];
        }
    }
    return NULL;
}

/* ---- Finding ---- */

/* Of the key's newest version, or where it would be. */
static size_t object_place(const struct fake_meta *meta, uint64_t bucket_id, struct slice key)
{
    size_t at = 0;

    while (at < meta->object_count && (meta->objects[at].bucket_id < bucket_id ||
                                       (meta->objects[at].bucket_id == bucket_id &&
                                        slice_cmp(meta->objects[at].key, key) < 0))) {
        at += 1;
    }
    return at;
}

static bool object_is(const struct fake_meta *meta, size_t at, uint64_t bucket_id, struct slice key)
{
    return at < meta->object_count && meta->objects[at].bucket_id == bucket_id &&
           slice_eq(meta->objects[at].key, key);
}

struct fake_object *fake_object_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key)
{
    size_t at = object_place(meta, bucket_id, key);

    return object_is(meta, at, bucket_id, key) && !meta->objects[at].marker ? &meta->objects[at]
                                                                            : NULL;
}

struct fake_object *fake_version_find(const struct fake_meta *meta, uint64_t bucket_id,
                                      struct slice key, struct slice version)
{
    uint64_t stamp = 0;
    uint32_t tie = 0;

    if (version.len != 0 && !version_id_is_null(version) &&
        !version_id_unpack(version, &stamp, &tie)) {
        return NULL;
    }
    for (size_t at = object_place(meta, bucket_id, key); object_is(meta, at, bucket_id, key);
         at++) {
        struct fake_object *object = &meta->objects[at];

        if (version.len == 0 || (version.len == VERSION_ID_BYTES && object->stamp == stamp) ||
            (version_id_is_null(version) && object->null_version)) {
            return object;
        }
    }
    return NULL;
}

bool fake_object_newest(const struct fake_meta *meta, const struct fake_object *object)
{
    return object == meta->objects || object[-1].bucket_id != object->bucket_id ||
           !slice_eq(object[-1].key, object->key);
}

Kist__Record *fake_object_record(const struct fake_object *object, struct arena *arena,
                                 size_t pieces)
{
    Kist__Record *record = message_unpack(arena, &kist__record__descriptor, object->record);

    ASSERT(record != NULL);
    if (record->n_pieces > pieces) {
        record->n_pieces = pieces;
    }
    return record;
}

/* ---- Changing ---- */

void fake_object_remove(struct fake_meta *meta, const struct fake_object *object)
{
    size_t at = (size_t)(object - meta->objects);

    meta->object_count -= 1;
    memmove(&meta->objects[at], &meta->objects[at + 1],
            (meta->object_count - at) * sizeof(*meta->objects));
}

struct fake_object *fake_object_put(struct fake_meta *meta, uint64_t bucket_id, struct slice key,
                                    Kist__Record *record)
{
    const struct fake_bucket *bucket = fake_bucket_find(meta, bucket_id);
    struct fake_object *old = NULL;
    size_t at;

    record->stamp = meta->stamp;
    record->null_version = bucket == NULL || bucket->versioning != 1;
    if (record->null_version) {
        old = fake_version_find(meta, bucket_id, key, SLICE("null"));
    }
    if (old != NULL) {
        fake_object_remove(meta, old);
    }
    at = object_place(meta, bucket_id, key);
    if (meta->object_count == meta->object_capacity) {
        meta->object_capacity = meta->object_capacity * 2 + 16;
        meta->objects = mem_realloc(meta->objects, meta->object_capacity * sizeof(*meta->objects));
    }
    memmove(&meta->objects[at + 1], &meta->objects[at],
            (meta->object_count - at) * sizeof(*meta->objects));
    meta->object_count += 1;
    meta->objects[at] = (struct fake_object){.bucket_id = bucket_id,
                                             .key = arena_copy(&meta->arena, key),
                                             .stamp = record->stamp,
                                             .null_version = record->null_version,
                                             .marker = record->delete_marker};
    return &meta->objects[at];
}

void fake_object_delete(struct fake_meta *meta, uint64_t bucket_id, struct slice key,
                        Kist__Deleted *deleted)
{
    const struct fake_bucket *bucket = fake_bucket_find(meta, bucket_id);
    Kist__Record marker = KIST__RECORD__INIT;
    struct fake_object *object;

    if (bucket == NULL || bucket->versioning == 0) {
        object = fake_object_find(meta, bucket_id, key);
        if (object != NULL) {
            fake_object_remove(meta, object);
        }
        return;
    }
    marker.delete_marker = true;
    object = fake_object_put(meta, bucket_id, key, &marker);
    object->record = message_pack(&meta->arena, &marker.base);
    deleted->delete_marker = true;
    deleted->stamp = marker.stamp;
    deleted->null_version = marker.null_version;
}

/* ---- For tests, and uploads ---- */

const struct fake_object *fake_meta_object(const struct fake_meta *meta, const char *bucket,
                                           const char *key)
{
    for (size_t i = 0; i < meta->bucket_count; i++) {
        if (slice_eq_str(meta->buckets[i].name, bucket)) {
            return fake_object_find(meta, meta->buckets[i].id, slice_str(key));
        }
    }
    return NULL;
}

struct fake_upload *fake_upload_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key, struct slice id)
{
    for (size_t i = 0; i < meta->upload_count; i++) {
        if (meta->uploads[i].bucket_id == bucket_id && slice_eq(meta->uploads[i].key, key) &&
            slice_eq(meta->uploads[i].id, id)) {
            return &meta->uploads[i];
        }
    }
    return NULL;
}
