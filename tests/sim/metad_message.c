/*
 * Parts of random commands: ids, pieces, conditions, records, names of versions.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/client/version_id.h"
#include "tests/sim/metad_commands.h"

static const uint64_t PIECE_BYTES = 6ULL * 1024 * 1024;

ProtobufCBinaryData field_copy(struct arena *arena, const void *bytes, size_t len)
{
    return message_field(arena_copy(arena, slice_of(bytes, len)));
}

void random_bytes(struct model *model, void *to, size_t len)
{
    uint8_t *out = to;

    for (size_t i = 0; i < len; i++) {
        out[i] = (uint8_t)sim_random(model->sim);
    }
}

struct model_key *any_key(struct model *model, unsigned *bucket, unsigned *key)
{
    *bucket = (unsigned)sim_below(model->sim, MODEL_BUCKETS);
    *key = (unsigned)sim_below(model->sim, MODEL_KEYS);
    return &model->buckets[*bucket].keys[*key];
}

struct model_version *any_version(struct model *model, const struct model_key *key)
{
    return key->count > 0 ? key->versions[sim_below(model->sim, key->count)] : NULL;
}

ProtobufCBinaryData any_name(struct model *model, struct arena *arena, const struct model_key *key,
                             struct model_version **named)
{
    uint8_t name[VERSION_ID_BYTES];

    if (sim_chance(model->sim, 250)) {
        *named = model_null(key);
        return message_field(SLICE("null"));
    }
    *named = sim_chance(model->sim, 900) ? any_version(model, key) : NULL;
    if (*named != NULL) {
        version_id_pack(name, (*named)->stamp, (*named)->tie);
    } else {
        version_id_pack(name, model->last_stamp + 1, 0);
    }
    return field_copy(arena, name, sizeof(name));
}

Kist__Outcome any_bucket(struct model *model, unsigned bucket, uint64_t *id, uint64_t *generation)
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

Kist__Piece **piece_messages(struct arena *arena, const struct model_layout *layout)
{
    Kist__Piece **out = arena_alloc(arena, (layout->piece_count + 1) * sizeof(Kist__Piece *));

    for (size_t i = 0; i < layout->piece_count; i++) {
        out[i] = piece_message(arena, &layout->pieces[i]);
    }
    return out;
}

void layout_add(struct model_layout *layout, const struct model_piece *piece)
{
    layout->pieces =
        mem_realloc(layout->pieces, (layout->piece_count + 1) * sizeof(struct model_piece));
    layout->pieces[layout->piece_count++] = *piece;
}

struct model_layout *layout_random(struct model *model, uint64_t bucket_id, unsigned key)
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

static struct slice etag_text(struct arena *arena, const struct model_version *version)
{
    char text[64];
    size_t len = 0;

    for (unsigned i = 0; i < 16; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%02x", version->etag[i]);
    }
    if (version->part_count > 0) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "-%u", version->part_count);
    }
    return arena_copy(arena, slice_of(text, len));
}

Kist__Conditions *conditions_random(struct model *model, struct arena *arena,
                                    const struct model_version *version, Kist__Outcome *outcome)
{
    Kist__Conditions *conditions = arena_alloc(arena, sizeof(*conditions));

    *outcome = KIST__OUTCOME__OUTCOME_OK;
    kist__conditions__init(conditions);
    switch (sim_below(model->sim, 10)) {
    case 0:
        conditions->if_none_match = message_field(SLICE("*"));
        if (version != NULL) {
            *outcome = KIST__OUTCOME__PRECONDITION_FAILED;
        }
        return conditions;
    case 1:
        conditions->if_match = message_field(SLICE("00000000000000000000000000000000"));
        if (version != NULL && !version->marker && sim_chance(model->sim, 700)) {
            conditions->if_match = message_field(etag_text(arena, version));
            return conditions;
        }
        *outcome =
            version != NULL ? KIST__OUTCOME__PRECONDITION_FAILED : KIST__OUTCOME__NO_SUCH_KEY;
        return conditions;
    default:
        return NULL;
    }
}

/* ---- Records ---- */

Kist__Record *record_new(struct arena *arena, uint64_t mark)
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
