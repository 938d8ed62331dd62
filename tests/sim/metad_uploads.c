/* Random steps of uploads: create, parts (copied ones too), complete, abort. */
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "tests/sim/metad_commands.h"

static void command_create_upload(struct model *model, struct arena *arena,
                                  struct model_upload *upload, struct model_command *out)
{
    Kist__CreateUpload *call = arena_alloc(arena, sizeof(*call));
    Kist__Upload *row = arena_alloc(arena, sizeof(*row));

    kist__create_upload__init(call);
    kist__upload__init(row);
    (void)any_key(model, &upload->bucket, &upload->key);
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
    upload->aborted_in = 0;
    memset(upload->parts, 0, sizeof(upload->parts));
}

/* UploadPartCopy: the part stands on extents of an object that exists, by one reference. */
static struct model_layout *layout_of_copy(struct model *model, uint64_t bucket_id, unsigned key)
{
    unsigned from_bucket;
    unsigned from_key;
    const struct model_version *source =
        any_version(model, any_key(model, &from_bucket, &from_key));
    struct model_layout *layout;
    uint8_t reference[ID_BYTES];

    if (source == NULL || source->layout == NULL || source->layout->piece_count > 3) {
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
        model_layout_ref(layout->pieces[0].owner);
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
        /* A repeat of an abort is a success. */
        if (upload->aborted_in != call->bucket_id) {
            out->expected = KIST__OUTCOME__NO_SUCH_UPLOAD;
        }
        return;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        upload_end(upload);
        upload->aborted_in = call->bucket_id;
    }
}

/* The listed parts become one layout, which has the upload's id. */
static void complete_model(struct model *model, struct model_upload *upload, const bool *listed,
                           struct model_command *out)
{
    struct model_bucket *bucket = &model->buckets[upload->bucket];
    struct model_version *version = model_version_new();
    struct model_layout *layout = model_layout_new(model, bucket->id, upload->key);
    struct md5_hash md5;

    memcpy(layout->id, upload->id, ID_BYTES);
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
        version->part_count += 1;
    }
    md5_final(&md5, version->etag);
    version->size = model_layout_size(layout);
    version->mark = upload->mark;
    version->layout = layout;
    model_layout_keep(model, layout);
    model_put(bucket, &bucket->keys[upload->key], version, out->stamp);
    upload_end(upload);
}

static void command_complete(struct model *model, struct arena *arena, struct model_upload *upload,
                             struct model_command *out)
{
    const struct model_version *current =
        model_current(&model->buckets[upload->bucket].keys[upload->key]);
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
    call->conditions = conditions_random(model, arena, current, &conditions);
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

void command_upload(struct model *model, struct arena *arena, struct model_upload *upload,
                    struct model_command *out)
{
    uint64_t what = sim_below(model->sim, 100);

    if (!upload->exists && sim_chance(model->sim, 700)) {
        command_create_upload(model, arena, upload, out);
    } else if (what < 69) {
        command_put_part(model, arena, upload, out);
    } else if (what < 91) {
        command_complete(model, arena, upload, out);
    } else {
        command_abort(model, arena, upload, out);
    }
}
