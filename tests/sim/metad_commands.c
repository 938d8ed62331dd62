/*
 * Random commands, and what the model makes of them. Every function fills `out` with a message and
 * with the outcome that metad must answer, and changes the model if that is OUTCOME_OK.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/crypto/hash.h"
#include "metad/store/message.h"
#include "tests/sim/metad_model.h"

static const uint64_t PIECE_BYTES = 6ULL * 1024 * 1024;

static ProtobufCBinaryData field_copy(struct arena *arena, const void *bytes, size_t len)
{
    return message_field(arena_copy(arena, slice_of(bytes, len)));
}

static void random_bytes(struct model *model, void *to, size_t len)
{
    uint8_t *out = to;

    for (size_t i = 0; i < len; i++) {
        out[i] = (uint8_t)sim_random(model->sim);
    }
}

static struct model_object *any_object(struct model *model, unsigned *bucket, unsigned *key)
{
    *bucket = (unsigned)sim_below(model->sim, MODEL_BUCKETS);
    *key = (unsigned)sim_below(model->sim, MODEL_KEYS);
    return &model->buckets[*bucket].objects[*key];
}

/* The id and generation a gateway would send: now and then those of a bucket that is gone. */
static Kist__Outcome any_bucket(struct model *model, unsigned bucket, uint64_t *id,
                                uint64_t *generation)
{
    const struct model_bucket *it = &model->buckets[bucket];

    *id = it->id != 0 ? it->id : it->old_id;
    *generation = it->id != 0 ? it->generation : 1;
    if (*id == 0) {
        *id = 1000000;
    }
    if (it->id != 0 && sim_chance(model->sim, 10)) {
        *generation += 1;
        return KIST__OUTCOME__STALE_GENERATION;
    }
    return it->id != 0 ? KIST__OUTCOME__OUTCOME_OK : KIST__OUTCOME__NO_SUCH_BUCKET;
}

/* ---- Layouts and pieces ---- */

static Kist__Piece *piece_message(struct arena *arena, const struct model_piece *piece)
{
    Kist__Piece *out = arena_alloc(arena, sizeof(*out));
    Kist__Extent *extent = arena_alloc(arena, sizeof(*extent));

    kist__piece__init(out);
    kist__extent__init(extent);
    extent->id = field_copy(arena, piece->extent, ID_BYTES);
    extent->pg = 1;
    extent->pg_epoch = 1;
    extent->kind = 2;
    extent->data_shards = 2;
    extent->parity_shards = 2;
    extent->stripe_unit = 131072;
    extent->length = piece->extent_length;
    extent->durable = piece->durable;
    out->length = piece->length;
    out->extent_offset = piece->offset;
    out->extent = extent;
    if (piece->owner != NULL) {
        Kist__Reference *owner = arena_alloc(arena, sizeof(*owner));

        kist__reference__init(owner);
        owner->layout_id = field_copy(arena, piece->owner->id, ID_BYTES);
        owner->home_bucket = piece->owner->bucket_id;
        owner->home_key = message_field(model_keys[piece->owner->key]);
        owner->reference_id = field_copy(arena, piece->reference, ID_BYTES);
        out->owner = owner;
    }
    return out;
}

static Kist__Piece **piece_messages(struct arena *arena, const struct model_layout *layout)
{
    Kist__Piece **out = arena_alloc(arena, (layout->piece_count + 1) * sizeof(Kist__Piece *));

    for (size_t i = 0; i < layout->piece_count; i++) {
        out[i] = piece_message(arena, &layout->pieces[i]);
    }
    return out;
}

static void layout_add(struct model_layout *layout, const struct model_piece *piece)
{
    layout->pieces =
        mem_realloc(layout->pieces, (layout->piece_count + 1) * sizeof(struct model_piece));
    layout->pieces[layout->piece_count++] = *piece;
}

/* New extents, mostly durable on all shards. */
static struct model_layout *layout_random(struct model *model, uint64_t bucket_id, unsigned key)
{
    struct model_layout *layout = model_layout_new(model, bucket_id, key);
    size_t count = 1 + (size_t)sim_below(model->sim, 3);

    if (sim_chance(model->sim, 150)) {
        count = 1 + (size_t)sim_below(model->sim, MODEL_PIECES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        struct model_piece piece = {.extent_length = PIECE_BYTES, .durable = 15};

        model_new_id(model, piece.extent);
        piece.length = 1 + sim_below(model->sim, PIECE_BYTES);
        if (sim_chance(model->sim, 800)) {
            piece.length = PIECE_BYTES;
        }
        if (sim_chance(model->sim, 50)) {
            piece.durable = 15 & ~(1U << sim_below(model->sim, 4));
        }
        layout_add(layout, &piece);
    }
    return layout;
}

/* ---- Conditions ---- */

static struct slice etag_text(struct arena *arena, const struct model_object *object)
{
    char text[64];
    size_t len = 0;

    for (unsigned i = 0; i < 16; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%02x", object->etag[i]);
    }
    if (object->part_count > 0) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "-%u", object->part_count);
    }
    return arena_copy(arena, slice_of(text, len));
}

/* NULL mostly; the outcome it makes for a write over `object`. */
static Kist__Conditions *conditions_random(struct model *model, struct arena *arena,
                                           const struct model_object *object,
                                           Kist__Outcome *outcome)
{
    Kist__Conditions *conditions = arena_alloc(arena, sizeof(*conditions));

    *outcome = KIST__OUTCOME__OUTCOME_OK;
    kist__conditions__init(conditions);
    switch (sim_below(model->sim, 10)) {
    case 0:
        conditions->if_none_match = message_field(SLICE("*"));
        if (object->exists) {
            *outcome = KIST__OUTCOME__PRECONDITION_FAILED;
        }
        return conditions;
    case 1:
        conditions->if_match = message_field(SLICE("00000000000000000000000000000000"));
        if (object->exists && sim_chance(model->sim, 700)) {
            conditions->if_match = message_field(etag_text(arena, object));
            return conditions;
        }
        *outcome = object->exists ? KIST__OUTCOME__PRECONDITION_FAILED : KIST__OUTCOME__NO_SUCH_KEY;
        return conditions;
    default:
        return NULL;
    }
}

/* ---- Records ---- */

static Kist__Record *record_new(struct arena *arena, uint64_t mark)
{
    Kist__Record *record = arena_alloc(arena, sizeof(*record));
    Kist__Header *header = arena_alloc(arena, sizeof(*header));

    kist__record__init(record);
    kist__header__init(header);
    header->name = message_field(SLICE("mark"));
    header->value = field_copy(arena, &mark, sizeof(mark));
    record->metadata = arena_alloc(arena, sizeof(Kist__Header *));
    record->metadata[0] = header;
    record->n_metadata = 1;
    record->owner = message_field(SLICE("root"));
    return record;
}

static void command_put(struct model *model, struct arena *arena, struct model_command *out)
{
    unsigned bucket;
    unsigned key;
    struct model_object *object = any_object(model, &bucket, &key);
    Kist__PutObject *put = arena_alloc(arena, sizeof(*put));
    uint64_t mark = sim_random(model->sim);
    uint8_t etag[16];
    struct model_layout *layout = NULL;
    Kist__Outcome conditions;

    kist__put_object__init(put);
    out->command = META_PUT_OBJECT;
    out->message = &put->base;
    out->expected = any_bucket(model, bucket, &put->bucket_id, &put->generation);
    put->key = message_field(model_keys[key]);
    put->record = record_new(arena, mark);
    put->conditions = conditions_random(model, arena, object, &conditions);
    random_bytes(model, etag, sizeof(etag));
    put->record->etag = field_copy(arena, etag, sizeof(etag));
    if (sim_chance(model->sim, 500)) {
        char *body = arena_alloc(arena, 2048);
        size_t len = (size_t)sim_below(model->sim, sim_chance(model->sim, 200) ? 1 : 2048);

        random_bytes(model, body, len);
        out->body = slice_of(body, len);
        put->record->size = len;
        put->record->inline_body = len > 0;
    } else {
        layout = layout_random(model, put->bucket_id, key);
        put->record->layout_id = field_copy(arena, layout->id, ID_BYTES);
        put->record->size = model_layout_size(layout);
        put->record->piece_count = (uint32_t)layout->piece_count;
        if (layout->piece_count <= LIMIT_RECORD_PIECES) {
            put->record->pieces = piece_messages(arena, layout);
            put->record->n_pieces = layout->piece_count;
        } else {
            put->pieces = piece_messages(arena, layout);
            put->n_pieces = layout->piece_count;
        }
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = conditions;
    }
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        if (layout != NULL) {
            model_layout_free(layout);
        }
        return;
    }
    model_object_drop(object);
    object->exists = true;
    object->stamp = out->stamp;
    object->size = put->record->size;
    memcpy(object->etag, etag, sizeof(etag));
    object->mark = mark;
    object->layout = layout;
    buffer_append(&object->body, out->body);
    if (layout != NULL) {
        model_layout_keep(model, layout);
    }
}

static void command_delete(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__DeleteObjects *call = arena_alloc(arena, sizeof(*call));
    unsigned bucket = (unsigned)sim_below(model->sim, MODEL_BUCKETS);

    kist__delete_objects__init(call);
    out->command = META_DELETE_OBJECTS;
    out->message = &call->base;
    out->expected = any_bucket(model, bucket, &call->bucket_id, &call->generation);
    call->n_items = 1 + (size_t)sim_below(model->sim, 4);
    call->items = arena_alloc(arena, call->n_items * sizeof(Kist__DeleteObjects__Item *));
    for (size_t i = 0; i < call->n_items; i++) {
        Kist__DeleteObjects__Item *item = arena_alloc(arena, sizeof(*item));
        unsigned key = (unsigned)sim_below(model->sim, MODEL_KEYS);
        struct model_object *object = &model->buckets[bucket].objects[key];
        Kist__Outcome conditions;

        kist__delete_objects__item__init(item);
        item->key = message_field(model_keys[key]);
        item->conditions = conditions_random(model, arena, object, &conditions);
        call->items[i] = item;
        if (out->expected == KIST__OUTCOME__OUTCOME_OK && conditions == KIST__OUTCOME__OUTCOME_OK &&
            object->exists) {
            model_object_drop(object);
        }
    }
}

static void command_copy(struct model *model, struct arena *arena, struct model_command *out)
{
    unsigned from_bucket;
    unsigned from_key;
    unsigned bucket;
    unsigned key;
    struct model_object *source = any_object(model, &from_bucket, &from_key);
    struct model_object *object = any_object(model, &bucket, &key);
    Kist__CopyObject *copy = arena_alloc(arena, sizeof(*copy));
    uint64_t mark = sim_random(model->sim);
    Kist__Outcome conditions;
    struct model_object made;
    uint8_t copy_id[ID_BYTES];

    if (sim_chance(model->sim, 100)) {
        object = source; /* onto itself: changes metadata */
        bucket = from_bucket;
        key = from_key;
    }
    kist__copy_object__init(copy);
    out->command = META_COPY_OBJECT;
    out->message = &copy->base;
    out->expected =
        any_bucket(model, from_bucket, &copy->source_bucket_id, &copy->source_generation);
    conditions = any_bucket(model, bucket, &copy->bucket_id, &copy->generation);
    out->expected = out->expected == KIST__OUTCOME__OUTCOME_OK ? conditions : out->expected;
    copy->source_key = message_field(model_keys[from_key]);
    copy->key = message_field(model_keys[key]);
    copy->conditions = conditions_random(model, arena, object, &conditions);
    model_new_id(model, copy_id);
    copy->copy_id = field_copy(arena, copy_id, ID_BYTES);
    copy->replace = sim_chance(model->sim, 500);
    copy->record = record_new(arena, mark);
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = source->exists ? conditions : KIST__OUTCOME__NO_SUCH_KEY;
    }
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    made = *source;
    if (object == source) {
        object->stamp = out->stamp;
        object->mark = copy->replace ? mark : object->mark;
        return;
    }
    buffer_init(&made.body);
    buffer_append(&made.body, buffer_slice(&source->body));
    made.stamp = out->stamp;
    made.mark = copy->replace ? mark : source->mark;
    if (made.layout != NULL) {
        made.layout->references += 1;
        made.shared = true;
        memcpy(made.copy_id, copy_id, ID_BYTES);
    }
    model_object_drop(object);
    buffer_deinit(&object->body);
    *object = made;
}

/* ---- Uploads ---- */

static struct model_upload *any_upload(struct model *model)
{
    return &model->uploads[sim_below(model->sim, MODEL_UPLOADS)];
}

static void command_create_upload(struct model *model, struct arena *arena,
                                  struct model_upload *upload, struct model_command *out)
{
    Kist__CreateUpload *call = arena_alloc(arena, sizeof(*call));
    Kist__Upload *row = arena_alloc(arena, sizeof(*row));

    kist__create_upload__init(call);
    kist__upload__init(row);
    (void)any_object(model, &upload->bucket, &upload->key);
    model_new_id(model, upload->id);
    upload->mark = sim_random(model->sim);
    upload->stamp = out->stamp;
    out->command = META_CREATE_UPLOAD;
    out->message = &call->base;
    out->expected = any_bucket(model, upload->bucket, &call->bucket_id, &call->generation);
    call->key = message_field(model_keys[upload->key]);
    row->upload_id = field_copy(arena, upload->id, ID_BYTES);
    row->template_ = record_new(arena, upload->mark);
    call->upload = row;
    upload->exists = out->expected == KIST__OUTCOME__OUTCOME_OK;
    memset(upload->parts, 0, sizeof(upload->parts));
}

/* UploadPartCopy: the part stands on extents of an object that exists, by one reference. */
static struct model_layout *layout_of_copy(struct model *model, uint64_t bucket_id, unsigned key)
{
    unsigned from_bucket;
    unsigned from_key;
    struct model_object *source = any_object(model, &from_bucket, &from_key);
    struct model_layout *layout;
    uint8_t reference[ID_BYTES];

    if (!source->exists || source->layout == NULL || source->layout->piece_count > 3) {
        return NULL;
    }
    layout = model_layout_new(model, bucket_id, key);
    model_new_id(model, reference);
    for (size_t i = 0; i < source->layout->piece_count; i++) {
        struct model_piece piece = source->layout->pieces[i];

        if (piece.owner != NULL) { /* keep the model small: no references to references */
            model_layout_free(layout);
            return NULL;
        }
        piece.owner = source->layout;
        memcpy(piece.reference, reference, ID_BYTES);
        layout_add(layout, &piece);
    }
    return layout;
}

static void command_put_part(struct model *model, struct arena *arena, struct model_upload *upload,
                             struct model_command *out)
{
    Kist__PutPart *call = arena_alloc(arena, sizeof(*call));
    Kist__Part *part = arena_alloc(arena, sizeof(*part));
    unsigned number = (unsigned)sim_below(model->sim, MODEL_PARTS);
    struct model_part *slot = &upload->parts[number];
    struct model_layout *layout = NULL;
    uint8_t etag[16];

    kist__put_part__init(call);
    kist__part__init(part);
    out->command = META_PUT_PART;
    out->message = &call->base;
    out->expected = any_bucket(model, upload->bucket, &call->bucket_id, &call->generation);
    if (sim_chance(model->sim, 200)) {
        layout = layout_of_copy(model, call->bucket_id, upload->key);
    }
    if (layout == NULL) {
        layout = layout_random(model, call->bucket_id, upload->key);
    }
    random_bytes(model, etag, sizeof(etag));
    call->key = message_field(model_keys[upload->key]);
    call->upload_id = field_copy(arena, upload->id, ID_BYTES);
    call->part = part;
    part->number = number + 1;
    part->size = model_layout_size(layout);
    part->etag = field_copy(arena, etag, sizeof(etag));
    part->layout_id = field_copy(arena, layout->id, ID_BYTES);
    part->pieces = piece_messages(arena, layout);
    part->n_pieces = layout->piece_count;
    if (out->expected == KIST__OUTCOME__OUTCOME_OK && !upload->exists) {
        out->expected = KIST__OUTCOME__NO_SUCH_UPLOAD;
    }
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        model_layout_free(layout);
        return;
    }
    if (layout->pieces[0].owner != NULL) {
        layout->pieces[0].owner->references += 1;
    }
    if (slot->exists) {
        model_layout_unref(slot->layout);
    }
    model_layout_keep(model, layout);
    *slot = (struct model_part){.exists = true, .size = part->size, .layout = layout};
    memcpy(slot->etag, etag, sizeof(etag));
}

static void upload_end(struct model_upload *upload)
{
    upload->exists = false;
    for (unsigned i = 0; i < MODEL_PARTS; i++) {
        if (upload->parts[i].exists) {
            model_layout_unref(upload->parts[i].layout);
            upload->parts[i].exists = false;
        }
    }
}

static void command_abort(struct model *model, struct arena *arena, struct model_upload *upload,
                          struct model_command *out)
{
    Kist__AbortUpload *call = arena_alloc(arena, sizeof(*call));

    kist__abort_upload__init(call);
    out->command = META_ABORT_UPLOAD;
    out->message = &call->base;
    out->expected = any_bucket(model, upload->bucket, &call->bucket_id, &call->generation);
    call->key = message_field(model_keys[upload->key]);
    call->upload_id = field_copy(arena, upload->id, ID_BYTES);
    if (out->expected == KIST__OUTCOME__OUTCOME_OK && !upload->exists) {
        out->expected = KIST__OUTCOME__NO_SUCH_UPLOAD;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        upload_end(upload);
    }
}

/* The listed parts become one layout, which has the upload's id. */
static void complete_model(struct model *model, struct model_upload *upload, const bool *listed,
                           struct model_command *out)
{
    struct model_object *object = &model->buckets[upload->bucket].objects[upload->key];
    struct model_layout *layout =
        model_layout_new(model, model->buckets[upload->bucket].id, upload->key);
    struct md5_hash md5;

    memcpy(layout->id, upload->id, ID_BYTES);
    model_object_drop(object);
    md5_init(&md5);
    for (unsigned i = 0; i < MODEL_PARTS; i++) {
        struct model_part *part = &upload->parts[i];

        if (!listed[i]) {
            continue;
        }
        md5_update(&md5, part->etag, sizeof(part->etag));
        for (size_t p = 0; p < part->layout->piece_count; p++) {
            layout_add(layout, &part->layout->pieces[p]);
        }
        part->layout->state = LAYOUT_GONE; /* taken over, references and all */
        part->exists = false;
        object->part_count += 1;
    }
    md5_final(&md5, object->etag);
    object->exists = true;
    object->size = model_layout_size(layout);
    object->stamp = out->stamp;
    object->mark = upload->mark;
    object->layout = layout;
    model_layout_keep(model, layout);
    upload_end(upload);
}

static void command_complete(struct model *model, struct arena *arena, struct model_upload *upload,
                             struct model_command *out)
{
    struct model_object *object = &model->buckets[upload->bucket].objects[upload->key];
    Kist__CompleteUpload *call = arena_alloc(arena, sizeof(*call));
    bool listed[MODEL_PARTS] = {false};
    struct md5_hash md5;
    uint8_t digest[16];
    Kist__Outcome conditions;
    unsigned last = MODEL_PARTS;
    bool small = false;

    kist__complete_upload__init(call);
    out->command = META_COMPLETE_UPLOAD;
    out->message = &call->base;
    out->expected = any_bucket(model, upload->bucket, &call->bucket_id, &call->generation);
    call->key = message_field(model_keys[upload->key]);
    call->upload_id = field_copy(arena, upload->id, ID_BYTES);
    call->conditions = conditions_random(model, arena, object, &conditions);
    call->ranges = arena_alloc(arena, (size_t)2 * MODEL_PARTS * sizeof(uint32_t));
    md5_init(&md5);
    for (unsigned i = 0; i < MODEL_PARTS; i++) {
        uint8_t number[4];

        if (!upload->parts[i].exists || sim_chance(model->sim, 100)) {
            continue;
        }
        small = small || (last < MODEL_PARTS && upload->parts[last].size < LIMIT_PART_BYTES_MIN);
        last = i;
        listed[i] = true;
        call->ranges[call->n_ranges++] = i + 1;
        call->ranges[call->n_ranges++] = i + 1;
        be32_put(number, i + 1);
        md5_update(&md5, number, sizeof(number));
        md5_update(&md5, upload->parts[i].etag, 16);
    }
    md5_final(&md5, digest);
    call->digest = field_copy(arena, digest, sizeof(digest));
    if (out->expected == KIST__OUTCOME__OUTCOME_OK && !upload->exists) {
        out->expected = KIST__OUTCOME__NO_SUCH_UPLOAD;
        call->n_ranges = 2;
        call->ranges[0] = 1;
        call->ranges[1] = 1;
    } else if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        if (last == MODEL_PARTS) {
            out->expected = KIST__OUTCOME__INVALID_ARGUMENT;
        } else {
            out->expected = small ? KIST__OUTCOME__ENTITY_TOO_SMALL : conditions;
        }
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        complete_model(model, upload, listed, out);
    }
}

/* ---- Buckets and users ---- */

void command_first_user(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__PutUser *call = arena_alloc(arena, sizeof(*call));
    Kist__User *user = arena_alloc(arena, sizeof(*user));

    model_tick(model, out);
    kist__put_user__init(call);
    kist__user__init(user);
    user->name = message_field(SLICE("root"));
    call->user = user;
    out->command = META_PUT_USER;
    out->message = &call->base;
    out->expected = KIST__OUTCOME__OUTCOME_OK;
}

static void command_create_bucket(struct model *model, struct arena *arena, unsigned bucket,
                                  struct model_command *out)
{
    Kist__CreateBucket *call = arena_alloc(arena, sizeof(*call));
    struct model_bucket *it = &model->buckets[bucket];

    kist__create_bucket__init(call);
    call->name = message_field(model_bucket_name(bucket));
    call->owner = message_field(SLICE("root"));
    out->command = META_CREATE_BUCKET;
    out->message = &call->base;
    out->expected = it->id != 0 ? KIST__OUTCOME__BUCKET_OWNED : KIST__OUTCOME__OUTCOME_OK;
    if (it->id == 0) {
        it->id = model->next_bucket_id++;
        it->generation = 1;
    }
}

static void command_delete_bucket(struct model *model, struct arena *arena, unsigned bucket,
                                  struct model_command *out)
{
    Kist__DeleteBucket *call = arena_alloc(arena, sizeof(*call));
    struct model_bucket *it = &model->buckets[bucket];

    kist__delete_bucket__init(call);
    call->name = message_field(model_bucket_name(bucket));
    call->bucket_id = it->id != 0 ? it->id : it->old_id;
    out->command = META_DELETE_BUCKET;
    out->message = &call->base;
    out->expected = it->id != 0 ? KIST__OUTCOME__OUTCOME_OK : KIST__OUTCOME__NO_SUCH_BUCKET;
    for (unsigned k = 0; k < MODEL_KEYS && it->id != 0; k++) {
        if (it->objects[k].exists) {
            out->expected = KIST__OUTCOME__BUCKET_NOT_EMPTY;
        }
    }
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    it->old_id = it->id;
    it->id = 0;
    for (unsigned u = 0; u < MODEL_UPLOADS; u++) {
        struct model_upload *upload = &model->uploads[u];

        if (upload->exists && upload->bucket == bucket) {
            /* Purged behind it, by PURGE_BUCKET; until then its parts live. */
            upload->exists = false;
            for (unsigned i = 0; i < MODEL_PARTS; i++) {
                if (upload->parts[i].exists) {
                    upload->parts[i].layout->state = LAYOUT_GONE; /* not followed any further */
                    upload->parts[i].exists = false;
                }
            }
        }
    }
}

static void command_bucket(struct model *model, struct arena *arena, struct model_command *out)
{
    unsigned bucket = (unsigned)sim_below(model->sim, MODEL_BUCKETS);

    if (model->buckets[bucket].id != 0 && sim_chance(model->sim, 800)) {
        command_delete_bucket(model, arena, bucket, out);
    } else {
        command_create_bucket(model, arena, bucket, out);
    }
}

/* ---- Reclaim ---- */

void command_condemn(struct model *model, struct arena *arena, struct model_layout *layout,
                     Kist__Piece **pieces, size_t count, struct model_command *out)
{
    Kist__Condemn *call = arena_alloc(arena, sizeof(*call));

    model_tick(model, out);
    kist__condemn__init(call);
    call->bucket_id = layout->bucket_id;
    call->key = message_field(model_keys[layout->key]);
    call->layout_id = field_copy(arena, layout->id, ID_BYTES);
    call->pieces = pieces;
    call->n_pieces = count;
    out->command = META_CONDEMN;
    out->message = &call->base;
    out->repeats = false;
    out->any_outcome = layout->state == LAYOUT_GONE;
    out->expected =
        layout->references > 0 ? KIST__OUTCOME__STILL_REFERENCED : KIST__OUTCOME__OUTCOME_OK;
    if (layout->state == LAYOUT_DEAD) {
        layout->state = LAYOUT_CONDEMNED;
        for (size_t i = 0; i < layout->piece_count; i++) {
            struct model_piece *piece = &layout->pieces[i];
            bool first = piece->owner != NULL;

            for (size_t before = 0; before < i; before++) {
                first = first &&
                        memcmp(layout->pieces[before].reference, piece->reference, ID_BYTES) != 0;
            }
            if (first) {
                model_layout_unref(piece->owner);
            }
        }
    }
}

void command_reclaimed(struct model *model, struct arena *arena, struct model_layout *layout,
                       struct slice queue_key, struct model_command *out)
{
    Kist__Reclaimed *call = arena_alloc(arena, sizeof(*call));

    ASSERT(layout->state == LAYOUT_CONDEMNED);
    model_tick(model, out);
    kist__reclaimed__init(call);
    call->bucket_id = layout->bucket_id;
    call->key = message_field(model_keys[layout->key]);
    call->layout_id = field_copy(arena, layout->id, ID_BYTES);
    call->queue_key = message_field(queue_key);
    out->command = META_RECLAIMED;
    out->message = &call->base;
    out->repeats = false;
    out->expected = KIST__OUTCOME__OUTCOME_OK;
    layout->state = LAYOUT_GONE;
}

void command_random(struct model *model, struct arena *arena, struct model_command *out)
{
    uint64_t what = sim_below(model->sim, 100);
    struct model_upload *upload = any_upload(model);

    model_tick(model, out);
    if (what < 30) {
        command_put(model, arena, out);
    } else if (what < 42) {
        command_delete(model, arena, out);
    } else if (what < 62) {
        command_copy(model, arena, out);
    } else if (what < 68) {
        command_bucket(model, arena, out);
    } else if (!upload->exists && sim_chance(model->sim, 700)) {
        command_create_upload(model, arena, upload, out);
    } else if (what < 90) {
        command_put_part(model, arena, upload, out);
    } else if (what < 97) {
        command_complete(model, arena, upload, out);
    } else {
        command_abort(model, arena, upload, out);
    }
}
