/* Random commands that change what is there: tags and locks of a version, rename, append, shards
 * written again. */
#include "common/base/assert.h"
#include "tests/sim/metad_commands.h"

enum { SET_TAGS = 1, SET_RETENTION = 2, SET_HOLD = 4, APPEND_BODY_MAX = 700 };

/* ---- Tags and locks ---- */

static Kist__Record *set_record(struct model *model, struct arena *arena, uint32_t what,
                                uint64_t stamp)
{
    Kist__Record *record = arena_alloc(arena, sizeof(*record));
    uint64_t tag = sim_random(model->sim) | 1;

    kist__record__init(record);
    if ((what & SET_TAGS) != 0 && sim_chance(model->sim, 800)) {
        Kist__Header *header = arena_alloc(arena, sizeof(*header));

        kist__header__init(header);
        header->name = message_field(SLICE("tag"));
        header->value = field_copy(arena, &tag, sizeof(tag));
        record->tags = arena_alloc(arena, sizeof(Kist__Header *));
        record->tags[0] = header;
        record->n_tags = 1;
    }
    if ((what & (SET_RETENTION | SET_HOLD)) != 0) {
        record->lock = arena_alloc(arena, sizeof(*record->lock));
        kist__lock__init(record->lock);
        record->lock->mode = (uint32_t)sim_below(model->sim, 3);
        record->lock->until = stamp + sim_below(model->sim, 3 * 3600 * SIM_S);
        record->lock->legal_hold = sim_chance(model->sim, 300);
    }
    return record;
}

/* What object lock says to the change (AWS: "Locking objects with Object Lock"). */
static Kist__Outcome set_judge(const struct model_bucket *bucket,
                               const struct model_version *version, const Kist__SetObject *call,
                               uint64_t now)
{
    const Kist__Lock *lock = call->record->lock;

    if ((call->what & (SET_RETENTION | SET_HOLD)) != 0 && !bucket->locks) {
        return KIST__OUTCOME__NO_LOCK_CONFIGURATION;
    }
    if ((call->what & SET_RETENTION) == 0) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    if (version->lock_mode != 0 && version->lock_until > now &&
        (lock->mode != version->lock_mode || lock->until < version->lock_until) &&
        !(version->lock_mode == 1 && call->bypass_governance)) {
        return KIST__OUTCOME__RETENTION_SHORTENED;
    }
    return lock->mode != 0 && lock->until <= now ? KIST__OUTCOME__INVALID_ARGUMENT
                                                 : KIST__OUTCOME__OUTCOME_OK;
}

static void set_model(struct model_version *version, const Kist__SetObject *call)
{
    const Kist__Lock *lock = call->record->lock;

    if ((call->what & SET_TAGS) != 0) {
        version->tag = 0;
        if (call->record->n_tags > 0) {
            memcpy(&version->tag, call->record->tags[0]->value.data, sizeof(version->tag));
        }
    }
    if ((call->what & SET_RETENTION) != 0) {
        version->lock_mode = lock->mode;
        version->lock_until = lock->mode != 0 ? lock->until : 0;
    }
    if ((call->what & SET_HOLD) != 0) {
        version->legal_hold = lock->legal_hold;
    }
}

void command_set(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__SetObject *call = arena_alloc(arena, sizeof(*call));
    unsigned bucket;
    unsigned key;
    const struct model_key *it = any_key(model, &bucket, &key);
    struct model_version *version = it->count > 0 ? it->versions[0] : NULL;
    Kist__Outcome conditions;
    bool by_version = sim_chance(model->sim, 600);

    kist__set_object__init(call);
    out->command = META_SET_OBJECT;
    out->message = &call->base;
    out->expected = any_bucket(model, bucket, &call->bucket_id, &call->generation);
    call->key = message_field(model_keys[key]);
    if (by_version) {
        call->version = any_name(model, arena, it, &version);
    }
    call->what = sim_chance(model->sim, model->buckets[bucket].locks ? 200 : 700)
                     ? SET_TAGS
                     : 1 + (uint32_t)sim_below(model->sim, 7);
    call->bypass_governance = sim_chance(model->sim, 300);
    call->record = set_record(model, arena, call->what, out->stamp);
    if (version != NULL && version->lock_mode != 0 && call->record->lock != NULL &&
        sim_chance(model->sim, 500)) {
        call->record->lock->mode = version->lock_mode; /* longer, or shorter */
    }
    call->conditions = conditions_random(model, arena, version, &conditions);
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    if (version == NULL) {
        out->expected = by_version ? KIST__OUTCOME__NO_SUCH_VERSION : KIST__OUTCOME__NO_SUCH_KEY;
        return;
    }
    out->expected = version->marker ? KIST__OUTCOME__IS_DELETE_MARKER : conditions;
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = set_judge(&model->buckets[bucket], version, call, out->stamp);
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        set_model(version, call);
    }
}

/* ---- Rename ---- */

static void rename_model(struct model_bucket *bucket, unsigned from, unsigned to,
                         const Kist__RenameObject *call, uint64_t stamp)
{
    struct model_version *source = model_current(&bucket->keys[from]);
    struct model_version *made = model_version_new();
    struct model_deleted deleted;

    made->size = source->size;
    memcpy(made->etag, source->etag, sizeof(made->etag));
    made->part_count = source->part_count;
    made->mark = source->mark;
    made->tag = source->tag;
    buffer_append(&made->body, buffer_slice(&source->body));
    if (source->layout != NULL) {
        made->layout = source->layout;
        made->shared = true;
        memcpy(made->copy_id, call->copy_id.data, ID_BYTES);
        model_layout_ref(made->layout);
    }
    model_delete(bucket, &bucket->keys[from], stamp, &deleted);
    model_put(bucket, &bucket->keys[to], made, stamp);
}

void command_rename(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__RenameObject *call = arena_alloc(arena, sizeof(*call));
    unsigned bucket;
    unsigned from;
    unsigned to = (unsigned)sim_below(model->sim, MODEL_KEYS);
    const struct model_key *source = any_key(model, &bucket, &from);
    struct model_bucket *it = &model->buckets[bucket];
    Kist__Outcome conditions;
    uint8_t copy_id[ID_BYTES];

    kist__rename_object__init(call);
    out->command = META_RENAME_OBJECT;
    out->message = &call->base;
    out->expected = any_bucket(model, bucket, &call->bucket_id, &call->generation);
    call->source_key = message_field(model_keys[from]);
    call->key = message_field(model_keys[to]);
    call->conditions = conditions_random(model, arena, model_current(&it->keys[to]), &conditions);
    model_new_id(model, copy_id);
    call->copy_id = field_copy(arena, copy_id, ID_BYTES);
    if (conditions == KIST__OUTCOME__NO_SUCH_KEY) { /* that would speak of the source */
        conditions = KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK && from == to) {
        out->expected = KIST__OUTCOME__INVALID_ARGUMENT;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = model_current(source) != NULL ? conditions : KIST__OUTCOME__NO_SUCH_KEY;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        rename_model(it, from, to, call, out->stamp);
    }
}

/* ---- Append ---- */

/* Pieces of another layout, by one reference to each layout that owns them. */
static void append_references(struct model_layout *layout, struct model_layout *old,
                              const uint8_t *copy_id)
{
    for (size_t i = 0; i < old->piece_count; i++) {
        struct model_piece piece = old->pieces[i];
        bool known = false;

        if (piece.owner == NULL) {
            piece.owner = old;
        }
        memcpy(piece.reference, copy_id, ID_BYTES);
        for (size_t before = 0; before < layout->piece_count; before++) {
            known = known || layout->pieces[before].owner == piece.owner;
        }
        if (!known) {
            model_layout_ref(piece.owner);
        }
        layout_add(layout, &piece);
    }
}

/* What the version will consist of. `added` is given up when the old layout grows. */
static struct model_layout *append_layout(struct model *model, const struct model_bucket *bucket,
                                          const struct model_key *key, struct model_layout *added,
                                          const uint8_t *copy_id)
{
    struct model_version *old = model_current(key);
    struct model_layout *layout;

    if (old == NULL || old->layout == NULL) {
        model_layout_keep(model, added);
        return added;
    }
    if (!old->shared && model_replaced(bucket, key) == old && !old->layout->home) {
        layout = old->layout;
        old->layout = NULL;
    } else {
        layout = model_layout_new(model, added->bucket_id, added->key);
        memcpy(layout->id, added->id, ID_BYTES);
        append_references(layout, old->layout, copy_id);
        model_layout_keep(model, layout);
    }
    for (size_t i = 0; i < added->piece_count; i++) {
        layout_add(layout, &added->pieces[i]);
    }
    model_layout_free(added);
    return layout;
}

static void append_model(struct model *model, unsigned bucket, unsigned key,
                         const Kist__AppendObject *call, struct model_layout *added,
                         const struct model_command *out)
{
    struct model_bucket *it = &model->buckets[bucket];
    struct model_version *old = model_current(&it->keys[key]);
    struct model_version *made = model_version_new();

    memcpy(made->etag, call->record->etag.data, sizeof(made->etag));
    memcpy(&made->mark, call->record->metadata[0]->value.data, sizeof(made->mark));
    made->size = call->record->size;
    if (old != NULL) {
        made->mark = old->mark;
        made->tag = old->tag;
    }
    if (added != NULL) {
        made->layout = append_layout(model, it, &it->keys[key], added, call->copy_id.data);
    } else {
        if (old != NULL) {
            buffer_append(&made->body, buffer_slice(&old->body));
        }
        buffer_append(&made->body, out->body);
    }
    model_put(it, &it->keys[key], made, out->stamp);
}

/* The bytes of the command: of an inline object, or pieces. */
static struct model_layout *append_bytes(struct model *model, struct arena *arena,
                                         Kist__AppendObject *call, unsigned key,
                                         const struct model_version *old, struct model_command *out)
{
    bool extends = old != NULL && old->layout != NULL;
    uint64_t size = old != NULL ? old->size : 0;
    struct model_layout *added;

    if (!extends && size + APPEND_BODY_MAX <= LIMIT_INLINE_BYTES && sim_chance(model->sim, 700)) {
        size_t len = 1 + (size_t)sim_below(model->sim, APPEND_BODY_MAX);
        char *body = arena_alloc(arena, len);

        random_bytes(model, body, len);
        out->body = slice_of(body, len);
        call->record->size = size + len;
        return NULL;
    }
    added = layout_random(model, call->bucket_id, key);
    call->record->layout_id = field_copy(arena, added->id, ID_BYTES);
    call->record->size = model_layout_size(added) + (extends ? size : 0);
    call->pieces = piece_messages(arena, added);
    call->n_pieces = added->piece_count;
    if (call->record->size <= size) { /* inline bytes that the pieces do not even hold */
        out->expected = KIST__OUTCOME__INVALID_ARGUMENT;
    }
    return added;
}

void command_append(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__AppendObject *call = arena_alloc(arena, sizeof(*call));
    unsigned bucket;
    unsigned key;
    const struct model_key *it = any_key(model, &bucket, &key);
    const struct model_version *old = model_current(it);
    struct model_layout *added;
    Kist__Outcome known;
    Kist__Outcome conditions;
    uint8_t copy_id[ID_BYTES];
    uint8_t etag[16];

    kist__append_object__init(call);
    out->command = META_APPEND_OBJECT;
    out->message = &call->base;
    known = any_bucket(model, bucket, &call->bucket_id, &call->generation);
    call->key = message_field(model_keys[key]);
    model_new_id(model, copy_id);
    call->copy_id = field_copy(arena, copy_id, ID_BYTES);
    call->record = record_new(arena, sim_random(model->sim));
    random_bytes(model, etag, sizeof(etag));
    call->record->etag = field_copy(arena, etag, sizeof(etag));
    call->conditions = conditions_random(model, arena, old, &conditions);
    call->offset = old != NULL ? old->size : 0;
    call->stamp = old != NULL ? old->stamp : 0;
    out->expected = KIST__OUTCOME__OUTCOME_OK;
    added = append_bytes(model, arena, call, key, old, out);
    if (sim_chance(model->sim, 100)) { /* somebody else was faster */
        call->offset += 1;
        out->expected = KIST__OUTCOME__INVALID_OFFSET;
    } else if (sim_chance(model->sim, 50)) {
        call->stamp += 1;
        out->expected = KIST__OUTCOME__PRECONDITION_FAILED;
    }
    out->expected = conditions != KIST__OUTCOME__OUTCOME_OK ? conditions : out->expected;
    out->expected = known != KIST__OUTCOME__OUTCOME_OK ? known : out->expected;
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        append_model(model, bucket, key, call, added, out);
    } else if (added != NULL) {
        model_layout_free(added);
    }
}

/* ---- Repair ---- */

static struct model_piece *piece_to_repair(struct model *model, struct model_layout **of)
{
    for (unsigned tries = 0; tries < 50 && model->layout_count > 0; tries++) {
        struct model_layout *layout = model->layouts[sim_below(model->sim, model->layout_count)];
        struct model_piece *piece;

        if (layout->state != LAYOUT_LIVE || layout->piece_count == 0) {
            continue;
        }
        piece = &layout->pieces[sim_below(model->sim, layout->piece_count)];
        if (piece->owner == NULL && piece->durable != 15) {
            *of = layout;
            return piece;
        }
    }
    return NULL;
}

bool command_set_durable(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__SetDurable *call = arena_alloc(arena, sizeof(*call));
    struct model_layout *layout = NULL;
    struct model_piece *piece = piece_to_repair(model, &layout);

    if (piece == NULL) {
        return false;
    }
    kist__set_durable__init(call);
    call->bucket_id = layout->bucket_id;
    call->key = message_field(model_keys[layout->key]);
    call->layout_id = field_copy(arena, layout->id, ID_BYTES);
    call->extent_id = field_copy(arena, piece->extent, ID_BYTES);
    call->durable = 15;
    out->command = META_SET_DURABLE;
    out->message = &call->base;
    out->repeats = false;
    out->expected = KIST__OUTCOME__OUTCOME_OK;
    piece->durable = 15;
    return true;
}
