/* What fake_meta's commands do to its rows. */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/crypto/hash.h"
#include "metad/store/message.h"
#include "tests/lib/fake_meta_store.h"

/* ---- Conditions ---- */

static struct slice etag_text(struct arena *arena, const Kist__Record *record)
{
    struct slice text = SLICE_EMPTY;

    for (size_t i = 0; i < record->etag.len; i++) {
        text = arena_printf(arena, "%.*s%02x", (int)text.len, text.len > 0 ? text.data : "",
                            record->etag.data[i]);
    }
    return record->part_count == 0
               ? text
               : arena_printf(arena, "%.*s-%u", (int)text.len, text.data, record->part_count);
}

static Kist__Outcome conditions_check(struct arena *arena, const Kist__Conditions *conditions,
                                      const struct fake_object *object, bool read)
{
    const Kist__Record *record = object != NULL ? fake_object_record(object, arena, 0) : NULL;
    struct slice etag = record != NULL ? etag_text(arena, record) : SLICE_EMPTY;

    if (conditions == NULL) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    if (conditions->if_match.len > 0) {
        if (record == NULL) {
            return KIST__OUTCOME__NO_SUCH_KEY;
        }
        if (!slice_eq_str(message_bytes(conditions->if_match), "*") &&
            !slice_eq(message_bytes(conditions->if_match), etag)) {
            return KIST__OUTCOME__PRECONDITION_FAILED;
        }
    }
    if (conditions->if_none_match.len > 0 && record != NULL &&
        (slice_eq_str(message_bytes(conditions->if_none_match), "*") ||
         slice_eq(message_bytes(conditions->if_none_match), etag))) {
        return read ? KIST__OUTCOME__NOT_MODIFIED : KIST__OUTCOME__PRECONDITION_FAILED;
    }
    return KIST__OUTCOME__OUTCOME_OK;
}

/* ---- Objects ---- */

static Kist__Outcome write_put(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__PutObject *put = (const Kist__PutObject *)call->message;
    struct slice key = message_bytes(put->key);
    Kist__LayoutChunk chunk = KIST__LAYOUT_CHUNK__INIT;
    Kist__Record record = *put->record;
    struct fake_object *object;
    Kist__Outcome outcome = conditions_check(call->arena, put->conditions,
                                             fake_object_find(meta, put->bucket_id, key), false);

    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return outcome;
    }
    ASSERT(record.inline_body == (call->body.len > 0));
    ASSERT(record.n_pieces <= LIMIT_RECORD_PIECES);
    chunk.pieces = put->n_pieces > 0 ? put->pieces : record.pieces;
    chunk.n_pieces = put->n_pieces > 0 ? put->n_pieces : record.n_pieces;
    object = fake_object_put(meta, put->bucket_id, key, &record);
    object->record = message_pack(&meta->arena, &record.base);
    object->layout = message_pack(&meta->arena, &chunk.base);
    object->body = arena_copy(&meta->arena, call->body);
    call->reply->record = fake_object_record(object, call->arena, SIZE_MAX);
    return KIST__OUTCOME__OUTCOME_OK;
}

static void delete_item(struct fake_meta *meta, struct meta_write *call,
                        const Kist__DeleteObjects__Item *item, Kist__Deleted *deleted)
{
    uint64_t bucket_id = ((const Kist__DeleteObjects *)call->message)->bucket_id;
    struct slice key = message_bytes(item->key);
    struct slice version = message_bytes(item->version);
    struct fake_object *object = version.len > 0 ? fake_version_find(meta, bucket_id, key, version)
                                                 : fake_object_find(meta, bucket_id, key);

    kist__deleted__init(deleted);
    deleted->key = item->key;
    deleted->outcome = conditions_check(call->arena, item->conditions, object, false);
    if (deleted->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    if (version.len == 0) {
        fake_object_delete(meta, bucket_id, key, deleted);
    } else if (object != NULL) {
        deleted->delete_marker = object->marker;
        deleted->stamp = object->stamp;
        deleted->null_version = object->null_version;
        fake_object_remove(meta, object);
    }
}

static Kist__Outcome write_delete(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__DeleteObjects *message = (const Kist__DeleteObjects *)call->message;
    Kist__Reply *reply = call->reply;

    reply->deleted = arena_alloc(call->arena, message->n_items * sizeof(*reply->deleted));
    reply->n_deleted = message->n_items;
    for (size_t i = 0; i < message->n_items; i++) {
        reply->deleted[i] = arena_alloc(call->arena, sizeof(Kist__Deleted));
        delete_item(meta, call, message->items[i], reply->deleted[i]);
    }
    return KIST__OUTCOME__OUTCOME_OK;
}

/* Tags, lock, ACL: what is named replaces what is there. */
static Kist__Outcome write_set_object(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__SetObject *set = (const Kist__SetObject *)call->message;
    struct fake_object *object = fake_version_find(meta, set->bucket_id, message_bytes(set->key),
                                                   message_bytes(set->version));
    Kist__Record *record;

    if (object == NULL) {
        return set->version.len > 0 ? KIST__OUTCOME__NO_SUCH_VERSION : KIST__OUTCOME__NO_SUCH_KEY;
    }
    if (object->marker) {
        return KIST__OUTCOME__IS_DELETE_MARKER;
    }
    record = fake_object_record(object, call->arena, SIZE_MAX);
    if ((set->what & 1) != 0) {
        record->tags = set->record->tags;
        record->n_tags = set->record->n_tags;
    }
    if ((set->what & 6) != 0) {
        record->lock = set->record->lock;
    }
    if ((set->what & 8) != 0) {
        record->acl = set->record->acl;
    }
    object->record = message_pack(&meta->arena, &record->base);
    call->reply->record = record;
    return KIST__OUTCOME__OUTCOME_OK;
}

static Kist__Outcome write_copy(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__CopyObject *copy = (const Kist__CopyObject *)call->message;
    struct slice key = message_bytes(copy->key);
    struct fake_object *source =
        copy->source_version.len > 0
            ? fake_version_find(meta, copy->source_bucket_id, message_bytes(copy->source_key),
                                message_bytes(copy->source_version))
            : fake_object_find(meta, copy->source_bucket_id, message_bytes(copy->source_key));
    struct fake_object from;
    struct fake_object *object;
    Kist__Record *record;
    Kist__Outcome outcome;

    if (source == NULL) {
        return copy->source_version.len > 0 ? KIST__OUTCOME__NO_SUCH_VERSION
                                            : KIST__OUTCOME__NO_SUCH_KEY;
    }
    if (source->marker) {
        return KIST__OUTCOME__IS_DELETE_MARKER;
    }
    outcome = conditions_check(call->arena, copy->source_conditions, source, true);
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = conditions_check(call->arena, copy->conditions,
                                   fake_object_find(meta, copy->bucket_id, key), false);
    }
    from = *source;
    record = fake_object_record(&from, call->arena, SIZE_MAX);
    if (outcome == KIST__OUTCOME__OUTCOME_OK && record->size > copy->size_max) {
        outcome = KIST__OUTCOME__SOURCE_TOO_LARGE;
    }
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return outcome;
    }
    record->owner = copy->record->owner;
    record->storage_class = copy->record->storage_class;
    if (copy->record->n_checksums > 0) {
        record->checksums = copy->record->checksums;
        record->n_checksums = copy->record->n_checksums;
    }
    if (copy->replace) {
        record->content_type = copy->record->content_type;
        record->headers = copy->record->headers;
        record->n_headers = copy->record->n_headers;
        record->metadata = copy->record->metadata;
        record->n_metadata = copy->record->n_metadata;
    }
    object = fake_object_put(meta, copy->bucket_id, key, record);
    object->record = message_pack(&meta->arena, &record->base);
    object->layout = from.layout;
    object->body = from.body;
    call->reply->record = record;
    return KIST__OUTCOME__OUTCOME_OK;
}

/* ---- Uploads ---- */

static Kist__Outcome write_create_upload(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__CreateUpload *create = (const Kist__CreateUpload *)call->message;
    struct slice key = message_bytes(create->key);
    Kist__Upload row = *create->upload;
    size_t at = 0;

    if (meta->upload_count == meta->upload_capacity) {
        meta->upload_capacity = meta->upload_capacity * 2 + 8;
        meta->uploads = mem_realloc(meta->uploads, meta->upload_capacity * sizeof(*meta->uploads));
    }
    while (at < meta->upload_count && slice_cmp(meta->uploads[at].key, key) <= 0) {
        at += 1;
    }
    memmove(&meta->uploads[at + 1], &meta->uploads[at],
            (meta->upload_count - at) * sizeof(*meta->uploads));
    meta->upload_count += 1;
    row.stamp = meta->stamp;
    meta->uploads[at] = (struct fake_upload){
        .bucket_id = create->bucket_id,
        .key = arena_copy(&meta->arena, key),
        .id = arena_copy(&meta->arena, message_bytes(row.upload_id)),
        .row = message_pack(&meta->arena, &row.base),
    };
    return KIST__OUTCOME__OUTCOME_OK;
}

static Kist__Outcome write_put_part(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__PutPart *put = (const Kist__PutPart *)call->message;
    struct fake_upload *upload = fake_upload_find(meta, put->bucket_id, message_bytes(put->key),
                                                  message_bytes(put->upload_id));
    Kist__Part *part = put->part;

    if (upload == NULL || upload->completed) {
        return KIST__OUTCOME__NO_SUCH_UPLOAD;
    }
    ASSERT(part->number < ARRAY_LEN(upload->parts));
    part->stamp = meta->stamp;
    upload->parts[part->number] = message_pack(&meta->arena, &part->base);
    call->reply->part = part;
    return KIST__OUTCOME__OUTCOME_OK;
}

static bool number_listed(const Kist__CompleteUpload *complete, uint32_t number)
{
    for (size_t i = 0; i + 1 < complete->n_ranges; i += 2) {
        if (number >= complete->ranges[i] && number <= complete->ranges[i + 1]) {
            return true;
        }
    }
    return false;
}

static Kist__Outcome complete_object(struct fake_meta *meta, struct meta_write *call,
                                     struct fake_upload *upload)
{
    const Kist__CompleteUpload *complete = (const Kist__CompleteUpload *)call->message;
    Kist__Upload *row = message_unpack(call->arena, &kist__upload__descriptor, upload->row);
    Kist__LayoutChunk chunk = KIST__LAYOUT_CHUNK__INIT;
    Kist__Record *record = row->template_;
    struct md5_hash manifest;
    struct md5_hash etags;
    uint8_t digest[HASH_MD5_BYTES];
    struct fake_object *object;
    uint32_t small = 0;

    md5_init(&manifest);
    md5_init(&etags);
    chunk.pieces = arena_alloc(call->arena, 4096 * sizeof(*chunk.pieces));
    chunk.parts = arena_alloc(call->arena, ARRAY_LEN(upload->parts) * sizeof(*chunk.parts));
    for (uint32_t i = 1; i < ARRAY_LEN(upload->parts); i++) {
        Kist__Part *part;
        Kist__PartSummary *summary;
        uint8_t number[4];

        if (!number_listed(complete, i)) {
            continue;
        }
        call->reply->part_number = i;
        if (upload->parts[i].len == 0) {
            return KIST__OUTCOME__INVALID_PART;
        }
        if (small != 0) {
            call->reply->part_number = small;
            return KIST__OUTCOME__ENTITY_TOO_SMALL;
        }
        part = message_unpack(call->arena, &kist__part__descriptor, upload->parts[i]);
        be32_put(number, i);
        md5_update(&manifest, number, sizeof(number));
        md5_update(&manifest, part->etag.data, part->etag.len);
        md5_update(&etags, part->etag.data, part->etag.len);
        for (size_t j = 0; j < part->n_pieces; j++) {
            ASSERT(chunk.n_pieces < 4096);
            chunk.pieces[chunk.n_pieces++] = part->pieces[j];
        }
        summary = arena_alloc(call->arena, sizeof(*summary));
        kist__part_summary__init(summary);
        summary->number = i;
        summary->size = part->size;
        summary->checksums = part->checksums;
        summary->n_checksums = part->n_checksums;
        chunk.parts[chunk.n_parts++] = summary;
        record->size += part->size;
        small = part->size < meta->part_bytes_min ? i : 0;
    }
    md5_final(&manifest, digest);
    if (!slice_eq(message_bytes(complete->digest), slice_of(digest, sizeof(digest)))) {
        return KIST__OUTCOME__INVALID_PART;
    }
    if (complete->has_size && complete->size != record->size) {
        return KIST__OUTCOME__INVALID_ARGUMENT;
    }
    md5_final(&etags, digest);
    record->etag = message_field(arena_copy(call->arena, slice_of(digest, sizeof(digest))));
    record->part_count = (uint32_t)chunk.n_parts;
    record->layout_id = row->upload_id;
    record->pieces = chunk.pieces;
    record->n_pieces = chunk.n_pieces;
    record->piece_count = (uint32_t)chunk.n_pieces;
    object = fake_object_put(meta, complete->bucket_id, message_bytes(complete->key), record);
    object->record = message_pack(&meta->arena, &record->base);
    object->layout = message_pack(&meta->arena, &chunk.base);
    object->body = SLICE_EMPTY;
    call->reply->record = record;
    return KIST__OUTCOME__OUTCOME_OK;
}

static Kist__Outcome write_complete(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__CompleteUpload *complete = (const Kist__CompleteUpload *)call->message;
    struct fake_upload *upload =
        fake_upload_find(meta, complete->bucket_id, message_bytes(complete->key),
                         message_bytes(complete->upload_id));
    Kist__Outcome outcome;

    if (upload == NULL) {
        return KIST__OUTCOME__NO_SUCH_UPLOAD;
    }
    if (upload->completed) {
        if (!slice_eq(upload->manifest, message_bytes(complete->digest))) {
            return KIST__OUTCOME__NO_SUCH_UPLOAD;
        }
        call->reply = message_unpack(call->arena, &kist__reply__descriptor, upload->reply);
        return KIST__OUTCOME__OUTCOME_OK;
    }
    outcome = conditions_check(
        call->arena, complete->conditions,
        fake_object_find(meta, complete->bucket_id, message_bytes(complete->key)), false);
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = complete_object(meta, call, upload);
    }
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        upload->completed = true;
        upload->manifest = arena_copy(&meta->arena, message_bytes(complete->digest));
        upload->reply = message_pack(&meta->arena, &call->reply->base);
    }
    return outcome;
}

static Kist__Outcome write_abort(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__AbortUpload *abort = (const Kist__AbortUpload *)call->message;
    struct fake_upload *upload = fake_upload_find(meta, abort->bucket_id, message_bytes(abort->key),
                                                  message_bytes(abort->upload_id));
    size_t at;

    if (upload == NULL || upload->completed) {
        return KIST__OUTCOME__NO_SUCH_UPLOAD;
    }
    at = (size_t)(upload - meta->uploads);
    meta->upload_count -= 1;
    memmove(upload, upload + 1, (meta->upload_count - at) * sizeof(*upload));
    return KIST__OUTCOME__OUTCOME_OK;
}

/* ---- Buckets ---- */

static Kist__Settings *bucket_settings(const struct fake_bucket *bucket, struct arena *arena)
{
    Kist__Settings *settings = message_unpack(arena, &kist__settings__descriptor, bucket->settings);

    ASSERT(settings != NULL);
    return settings;
}

static void bucket_set(struct fake_meta *meta, struct fake_bucket *bucket,
                       const Kist__Settings *settings)
{
    bucket->settings = message_pack(&meta->arena, &settings->base);
    if (settings->versioning != NULL) {
        bucket->versioning = settings->versioning->state;
    }
}

/* As the apply: whoever asks for it again learns what it is. */
static Kist__Outcome bucket_taken(const struct fake_bucket *bucket, struct meta_write *call)
{
    const Kist__CreateBucket *create = (const Kist__CreateBucket *)call->message;
    Kist__Bucket *found = arena_alloc(call->arena, sizeof(*found));

    kist__bucket__init(found);
    found->id = bucket->id;
    found->owner = message_field(bucket->owner);
    found->settings = bucket_settings(bucket, call->arena);
    call->reply->bucket = found;
    return slice_eq(bucket->owner, message_bytes(create->owner)) ? KIST__OUTCOME__BUCKET_OWNED
                                                                 : KIST__OUTCOME__BUCKET_EXISTS;
}

static Kist__Outcome write_create_bucket(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__CreateBucket *create = (const Kist__CreateBucket *)call->message;

    for (size_t i = 0; i < meta->bucket_count; i++) {
        if (slice_eq(meta->buckets[i].name, message_bytes(create->name))) {
            return bucket_taken(&meta->buckets[i], call);
        }
    }
    ASSERT(meta->bucket_count < FAKE_META_BUCKETS_MAX);
    meta->buckets[meta->bucket_count++] = (struct fake_bucket){
        .id = ++meta->last_id,
        .generation = 1,
        .name = arena_copy(&meta->arena, message_bytes(create->name)),
        .owner = arena_copy(&meta->arena, message_bytes(create->owner)),
        .created = meta->stamp,
    };
    if (create->settings != NULL) {
        bucket_set(meta, &meta->buckets[meta->bucket_count - 1], create->settings);
    }
    return KIST__OUTCOME__OUTCOME_OK;
}

static Kist__Outcome write_put_setting(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__PutSetting *put = (const Kist__PutSetting *)call->message;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&kist__settings__descriptor, put->setting);
    struct fake_bucket *bucket = fake_bucket_find(meta, put->bucket_id);
    Kist__Settings *settings;
    void *none = NULL;

    if (bucket == NULL) {
        return KIST__OUTCOME__NO_SUCH_BUCKET;
    }
    ASSERT(field != NULL);
    settings = bucket_settings(bucket, call->arena);
    memcpy((char *)settings + field->offset,
           put->value != NULL ? (const void *)((const char *)put->value + field->offset) : &none,
           sizeof(none));
    bucket_set(meta, bucket, settings);
    bucket->generation += 1;
    return KIST__OUTCOME__OUTCOME_OK;
}

static Kist__Outcome write_delete_bucket(struct fake_meta *meta, struct meta_write *call)
{
    const Kist__DeleteBucket *message = (const Kist__DeleteBucket *)call->message;

    for (size_t i = 0; i < meta->object_count; i++) {
        if (meta->objects[i].bucket_id == message->bucket_id) {
            return KIST__OUTCOME__BUCKET_NOT_EMPTY;
        }
    }
    for (size_t i = 0; i < meta->bucket_count; i++) {
        if (meta->buckets[i].id == message->bucket_id) {
            meta->buckets[i] = meta->buckets[--meta->bucket_count];
            return KIST__OUTCOME__OUTCOME_OK;
        }
    }
    return KIST__OUTCOME__NO_SUCH_BUCKET;
}

/* ---- All of them ---- */

static const struct {
    enum meta_command command;
    Kist__Outcome (*run)(struct fake_meta *meta, struct meta_write *call);
} commands[] = {
    {META_PUT_OBJECT,      write_put          },
    {META_DELETE_OBJECTS,  write_delete       },
    {META_COPY_OBJECT,     write_copy         },
    {META_CREATE_UPLOAD,   write_create_upload},
    {META_PUT_PART,        write_put_part     },
    {META_COMPLETE_UPLOAD, write_complete     },
    {META_ABORT_UPLOAD,    write_abort        },
    {META_CREATE_BUCKET,   write_create_bucket},
    {META_DELETE_BUCKET,   write_delete_bucket},
    {META_PUT_SETTING,     write_put_setting  },
    {META_SET_OBJECT,      write_set_object   },
};

/* The bucket that a command of objects names. */
static uint64_t command_bucket(const struct meta_write *call)
{
    switch ((int)call->command) {
    case META_PUT_OBJECT:
        return ((const Kist__PutObject *)call->message)->bucket_id;
    case META_DELETE_OBJECTS:
        return ((const Kist__DeleteObjects *)call->message)->bucket_id;
    case META_COPY_OBJECT:
        return ((const Kist__CopyObject *)call->message)->bucket_id;
    case META_CREATE_UPLOAD:
        return ((const Kist__CreateUpload *)call->message)->bucket_id;
    case META_PUT_PART:
        return ((const Kist__PutPart *)call->message)->bucket_id;
    case META_COMPLETE_UPLOAD:
        return ((const Kist__CompleteUpload *)call->message)->bucket_id;
    case META_SET_OBJECT:
        return ((const Kist__SetObject *)call->message)->bucket_id;
    default:
        return 0;
    }
}

static void apply(struct fake_meta *meta, struct meta_write *call)
{
    uint64_t bucket = command_bucket(call);

    meta->stamp += 1000000000ULL;
    call->reply->stamp = meta->stamp;
    if (bucket != 0 && fake_bucket_find(meta, bucket) == NULL) {
        call->reply->outcome = KIST__OUTCOME__NO_SUCH_BUCKET;
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (commands[i].command == call->command) {
            Kist__Outcome outcome = commands[i].run(meta, call);

            call->reply->outcome = outcome; /* `run` may have put another reply there */
            return;
        }
    }
    assert_fail("fake_meta does not know the command", __FILE__, __LINE__);
}

enum step_result fake_meta_write(struct meta_client *client, struct meta_write *call,
                                 struct task *task)
{
    struct fake_meta *meta = CONTAINER_OF(client, struct fake_meta, base);
    enum rc rc = meta->write_rc;
    struct arena scratch;

    ASSERT(protobuf_c_message_get_packed_size(call->message) <= LIMIT_PART_COMMAND_BYTES);
    /* What a caller hands over must be whole: packing walks all of it. */
    arena_init(&scratch);
    (void)message_pack(&scratch, call->message);
    arena_deinit(&scratch);
    meta->write_rc = RC_OK;
    meta->writes += 1;
    meta->last_command = call->command;
    call->reply = arena_alloc(call->arena, sizeof(*call->reply));
    kist__reply__init(call->reply);
    if (rc != RC_OK && rc != RC_AMBIGUOUS) {
        call->reply = NULL;
        return fake_meta_answer(meta, task, rc);
    }
    if (meta->stale_writes > 0) {
        meta->stale_writes -= 1;
        call->reply->outcome = KIST__OUTCOME__STALE_GENERATION;
        return fake_meta_answer(meta, task, RC_OK);
    }
    apply(meta, call);
    if (rc == RC_AMBIGUOUS) {
        call->reply = NULL;
    }
    return fake_meta_answer(meta, task, rc);
}
