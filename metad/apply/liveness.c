#include "metad/apply/liveness.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"

enum { EXTENT_ID_MS_AT = 8 };

static const uint64_t NS_PER_MS = 1000000ULL;

uint32_t extent_shards(const Kist__Extent *extent)
{
    return extent->data_shards + extent->parity_shards;
}

static bool extent_shape_ok(const Kist__Extent *extent)
{
    if (extent->kind == EXTENT_REPLICA) {
        return extent->data_shards == 1 && extent->parity_shards <= LIMIT_PARITY_SHARDS;
    }
    return extent->kind == EXTENT_STRIPED && extent->data_shards >= 1 &&
           extent->data_shards <= LIMIT_DATA_SHARDS &&
           extent->parity_shards <= LIMIT_PARITY_SHARDS && extent->stripe_unit > 0;
}

static uint32_t extent_missing(const Kist__Extent *extent)
{
    uint32_t all = (uint32_t)((1ULL << extent_shards(extent)) - 1);

    return all & ~extent->durable;
}

/* DESIGN 5.4: with two or more parity shards one of them may be missing less than all; never fewer
 * than can be read back. */
static bool check_durable(struct apply *apply, const Kist__Extent *extent)
{
    uint32_t have = extent_shards(extent) - (uint32_t)__builtin_popcount(extent_missing(extent));
    uint32_t need = extent->data_shards + (extent->parity_shards >= 2 ? 1 : 0);

    if (extent->durable >> extent_shards(extent) != 0) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "durable shards");
    }
    return have >= need || apply_refuse(apply, KIST__OUTCOME__NOT_DURABLE);
}

/* An extent nobody committed within a day may have been deleted by an audit. */
static bool check_age(struct apply *apply, const Kist__Extent *extent)
{
    uint64_t made_ms = be64_get(extent->id.data + EXTENT_ID_MS_AT);
    uint64_t now_ms = apply->stamp / NS_PER_MS;

    return made_ms >= now_ms || now_ms - made_ms <= (uint64_t)LIMIT_EXTENT_AGE_S * 1000 ||
           apply_refuse_text(apply, KIST__OUTCOME__EXPIRED, "an extent is older than 24 h");
}

static bool check_piece(struct apply *apply, const Kist__Piece *piece)
{
    const Kist__Extent *extent = piece->extent;

    if (extent == NULL || extent->id.len != ID_BYTES || !extent_shape_ok(extent)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "shape of an extent");
    }
    if (piece->length == 0 || extent->length > LIMIT_EXTENT_BYTES ||
        piece->extent_offset > extent->length ||
        piece->length > extent->length - piece->extent_offset) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "bounds of a piece");
    }
    if (piece->owner != NULL) {
        return true;
    }
    return check_durable(apply, extent) && check_age(apply, extent);
}

bool layout_check_pieces(struct apply *apply, Kist__Piece *const *pieces, size_t count,
                         uint64_t size)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        if (!check_piece(apply, pieces[i])) {
            return false;
        }
        total += pieces[i]->length; /* each at most 256 MiB, a command holds few: no overflow */
    }
    return total == size ||
           apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "pieces do not make the size");
}

void layout_queue_repairs(struct apply *apply, const struct layout_name *layout,
                          Kist__Piece *const *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Kist__Extent *extent = pieces[i]->extent;
        Kist__Repair repair = KIST__REPAIR__INIT;
        struct row_key row;

        if (pieces[i]->owner != NULL || extent_missing(extent) == 0) {
            continue;
        }
        repair.bucket_id = layout->bucket_id;
        repair.key = message_field(layout->key);
        repair.layout_id = message_field(layout->id);
        repair.extent_id = extent->id;
        repair.missing = extent_missing(extent);
        key_range_u64(&row, apply->range_id, KIND_REPAIR, apply->stamp, message_bytes(extent->id));
        apply_put_message(apply, FAMILY_ROWS, &row, &repair.base);
    }
}

/* ---- Home rows ---- */

Kist__Home *layout_home(struct apply *apply, const struct layout_name *layout)
{
    struct row_key row;

    key_object(&row, layout->bucket_id, layout->key, KIND_HOME, layout->id);
    return apply_load(apply, FAMILY_ROWS, &row, &kist__home__descriptor);
}

void layout_put_home(struct apply *apply, const struct layout_name *layout, const Kist__Home *home)
{
    struct row_key row;

    key_object(&row, layout->bucket_id, layout->key, KIND_HOME, layout->id);
    apply_put_message(apply, FAMILY_ROWS, &row, &home->base);
}

static void reference_row(struct row_key *row, const struct layout_name *layout,
                          struct slice reference_id)
{
    key_object(row, layout->bucket_id, layout->key, KIND_HOME_REFERENCE, layout->id);
    row_key_append(row, reference_id);
}

static void put_reference(struct apply *apply, const struct layout_name *layout,
                          struct slice reference_id, uint64_t holder_bucket,
                          struct slice holder_key)
{
    Kist__HomeReference value = KIST__HOME_REFERENCE__INIT;
    struct row_key row;

    value.bucket_id = holder_bucket;
    value.key = message_field(holder_key);
    value.stamp = apply->stamp;
    reference_row(&row, layout, reference_id);
    apply_put_message(apply, FAMILY_ROWS, &row, &value.base);
}

static bool has_reference(struct apply *apply, const struct layout_name *layout,
                          struct slice reference_id)
{
    struct slice value;
    struct row_key row;

    reference_row(&row, layout, reference_id);
    return apply_get(apply, FAMILY_ROWS, &row, &value);
}

bool layout_check_new(struct apply *apply, const struct layout_name *layout)
{
    const Kist__Home *home = layout_home(apply, layout);

    return home == NULL || home->state == HOME_LIVE ||
           apply_refuse(apply, KIST__OUTCOME__CONDEMNED);
}

static bool record_owns(const Kist__Record *record, const struct layout_name *layout)
{
    return record != NULL && record->shared == NULL &&
           slice_eq(message_bytes(record->layout_id), layout->id);
}

/* Where in history the owner lies; false: it does not lie there. */
static bool owner_in_history(struct apply *apply, const struct layout_name *layout,
                             struct row_key *out)
{
    const Kist__VersionName *name;
    struct row_key row;

    key_object(&row, layout->bucket_id, layout->key, KIND_OWNER, layout->id);
    name = apply_load(apply, FAMILY_ROWS, &row, &kist__version_name__descriptor);
    if (name == NULL) {
        return false;
    }
    key_history(out, layout->bucket_id, layout->key, name->stamp, name->tie);
    return true;
}

/* Only objects are copied from, so part rows need not be searched. */
Kist__Record *layout_owner(struct apply *apply, const struct layout_name *layout, bool *in_history)
{
    Kist__Record *record = apply_current(apply, layout->bucket_id, layout->key);
    struct row_key row;

    *in_history = false;
    if (record_owns(record, layout)) {
        return record;
    }
    if (!owner_in_history(apply, layout, &row)) {
        return NULL;
    }
    *in_history = true;
    record = apply_load(apply, FAMILY_HISTORY, &row, &kist__record__descriptor);
    if (!record_owns(record, layout)) {
        apply_fail(apply, "the owner of a layout is not where its row says");
        return NULL;
    }
    return record;
}

void layout_put_owner(struct apply *apply, const struct layout_name *layout,
                      const Kist__Record *record, bool in_history)
{
    struct row_key row;

    if (!in_history) {
        apply_put_current(apply, layout->bucket_id, layout->key, record);
        return;
    }
    key_history(&row, layout->bucket_id, layout->key, record->stamp, record->tie);
    apply_put_message(apply, FAMILY_HISTORY, &row, &record->base);
}

/* The first reference beside the owner's: from now on the home row decides. */
static Kist__Home *make_home(struct apply *apply, const struct layout_name *layout)
{
    bool in_history;
    const Kist__Record *record = layout_owner(apply, layout, &in_history);
    Kist__Home *home;

    if (record == NULL) {
        return NULL;
    }
    home = arena_alloc(apply->arena, sizeof(*home));
    kist__home__init(home);
    home->state = HOME_LIVE;
    home->reference_count = 1;
    if (record->piece_count <= record->n_pieces) {
        home->pieces = record->pieces;
        home->n_pieces = record->n_pieces;
    }
    put_reference(apply, layout, layout->id, layout->bucket_id, layout->key);
    return home;
}

static bool reference_ok(const Kist__Reference *reference)
{
    return reference->layout_id.len == ID_BYTES && reference->reference_id.len == ID_BYTES &&
           reference->home_bucket != 0 && reference->home_key.len >= 1 &&
           reference->home_key.len <= LIMIT_KEY_BYTES;
}

static struct layout_name reference_home(const Kist__Reference *reference)
{
    return (struct layout_name){.bucket_id = reference->home_bucket,
                                .key = message_bytes(reference->home_key),
                                .id = message_bytes(reference->layout_id)};
}

bool layout_has_reference(struct apply *apply, const Kist__Reference *reference)
{
    struct layout_name layout;

    if (!reference_ok(reference)) {
        return false;
    }
    layout = reference_home(reference);
    return has_reference(apply, &layout, message_bytes(reference->reference_id));
}

bool layout_add_reference(struct apply *apply, const Kist__Reference *reference,
                          uint64_t holder_bucket, struct slice holder_key)
{
    struct layout_name layout;
    Kist__Home *home;

    if (!reference_ok(reference)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "a reference");
    }
    layout = reference_home(reference);
    if (has_reference(apply, &layout, message_bytes(reference->reference_id))) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "a reference id was used");
    }
    home = layout_home(apply, &layout);
    if (home == NULL) {
        home = make_home(apply, &layout);
    }
    if (home == NULL || home->state != HOME_LIVE || home->reference_count == 0) {
        return apply_refuse(apply, KIST__OUTCOME__CONDEMNED);
    }
    home->reference_count += 1;
    layout_put_home(apply, &layout, home);
    put_reference(apply, &layout, message_bytes(reference->reference_id), holder_bucket,
                  holder_key);
    return true;
}

/* Several pieces of one list may stand on one reference. */
static bool reference_seen(Kist__Piece *const *pieces, size_t count,
                           const Kist__Reference *reference)
{
    for (size_t i = count; i > 0; i--) {
        const Kist__Reference *before = pieces[i - 1]->owner;

        if (before != NULL &&
            slice_eq(message_bytes(before->reference_id), message_bytes(reference->reference_id)) &&
            slice_eq(message_bytes(before->layout_id), message_bytes(reference->layout_id))) {
            return true;
        }
    }
    return false;
}

bool layout_reference_pieces(struct apply *apply, const struct layout_name *holder,
                             Kist__Piece *const *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i]->owner != NULL && !reference_seen(pieces, i, pieces[i]->owner) &&
            !layout_add_reference(apply, pieces[i]->owner, holder->bucket_id, holder->key)) {
            return false;
        }
    }
    return true;
}

void layout_unreference_pieces(struct apply *apply, Kist__Piece *const *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i]->owner != NULL) {
            layout_remove_reference(apply, pieces[i]->owner);
        }
    }
}

/* ---- The queue ---- */

/* `pieces` only when no row holds them any more. */
static void queue_reclaim(struct apply *apply, const struct layout_name *layout,
                          Kist__Piece **pieces, size_t count)
{
    Kist__Reclaim reclaim = KIST__RECLAIM__INIT;
    struct row_key row;

    reclaim.bucket_id = layout->bucket_id;
    reclaim.key = message_field(layout->key);
    reclaim.layout_id = message_field(layout->id);
    reclaim.due = apply->stamp;
    reclaim.pieces = pieces;
    reclaim.n_pieces = count;
    key_range_u64(&row, apply->range_id, KIND_RECLAIM, apply->stamp, layout->id);
    apply_put_message(apply, FAMILY_ROWS, &row, &reclaim.base);
}

static void remove_from_home(struct apply *apply, const struct layout_name *layout,
                             Kist__Home *home, struct slice reference_id)
{
    struct row_key row;

    if (!has_reference(apply, layout, reference_id)) {
        return;
    }
    reference_row(&row, layout, reference_id);
    apply_delete(apply, FAMILY_ROWS, &row);
    if (home->reference_count == 0) {
        apply_fail(apply, "a home row counts fewer references than there are");
        return;
    }
    home->reference_count -= 1;
    layout_put_home(apply, layout, home);
    if (home->reference_count == 0) {
        queue_reclaim(apply, layout, NULL, 0);
    }
}

void layout_remove_reference(struct apply *apply, const Kist__Reference *reference)
{
    struct layout_name layout = reference_home(reference);
    Kist__Home *home = layout_home(apply, &layout);

    if (home != NULL) {
        remove_from_home(apply, &layout, home, message_bytes(reference->reference_id));
    }
}

static void drop_inline(struct apply *apply, uint64_t bucket_id, struct slice key, uint64_t stamp)
{
    struct row_key row;

    key_inline(&row, bucket_id, key, stamp);
    apply_delete(apply, FAMILY_INLINE, &row);
}

void layout_drop_record(struct apply *apply, uint64_t bucket_id, struct slice key,
                        const Kist__Record *record)
{
    struct layout_name layout = {
        .bucket_id = bucket_id, .key = key, .id = message_bytes(record->layout_id)};
    Kist__Home *home;

    if (record->inline_body) {
        drop_inline(apply, bucket_id, key, record->stamp);
        return;
    }
    if (record->shared != NULL) {
        layout_remove_reference(apply, record->shared);
        return;
    }
    if (layout.id.len == 0) {
        return;
    }
    home = layout_home(apply, &layout);
    if (home != NULL) {
        remove_from_home(apply, &layout, home, layout.id);
    } else if (record->piece_count > record->n_pieces) {
        queue_reclaim(apply, &layout, NULL, 0);
    } else {
        queue_reclaim(apply, &layout, record->pieces, record->n_pieces);
    }
}

void layout_drop_part(struct apply *apply, uint64_t bucket_id, struct slice key,
                      const Kist__Part *part)
{
    struct layout_name layout = {
        .bucket_id = bucket_id, .key = key, .id = message_bytes(part->layout_id)};

    if (layout.id.len > 0) {
        queue_reclaim(apply, &layout, part->pieces, part->n_pieces);
    }
}

/* ---- Condemn ---- */

static bool part_names(struct apply *apply, const struct layout_name *layout)
{
    struct apply_walk walk;
    struct row_key prefix;
    bool found = false;

    key_object(&prefix, layout->bucket_id, layout->key, KIND_PART, SLICE_EMPTY);
    apply_walk_open(&walk, apply, FAMILY_UPLOADS, &prefix);
    while (!found && apply_walk_next(&walk)) {
        struct arena arena;
        const Kist__Part *part;

        arena_init(&arena);
        part = message_unpack(&arena, &kist__part__descriptor, walk.value);
        if (part == NULL) {
            apply_fail(apply, "a part row does not decode");
        } else {
            found = slice_eq(message_bytes(part->layout_id), layout->id);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
    return found;
}

bool layout_is_named(struct apply *apply, const struct layout_name *layout, const Kist__Home *home)
{
    bool in_history;

    if (home != NULL && home->reference_count > 0) {
        return true;
    }
    return layout_owner(apply, layout, &in_history) != NULL || part_names(apply, layout);
}
