/* Random commands over objects: put, delete (by version too), copy. */
#include "common/base/assert.h"
#include "tests/sim/metad_commands.h"

/* ---- Put ---- */

/* Sometimes a retention or a legal hold, which only a bucket with object lock takes. */
static Kist__Lock *put_lock(struct model *model, struct arena *arena, const struct model_bucket *it,
                            uint64_t stamp)
{
    Kist__Lock *lock;

    if (!sim_chance(model->sim, it->locks ? 300 : 20)) {
        return NULL;
    }
    lock = arena_alloc(arena, sizeof(*lock));
    kist__lock__init(lock);
    lock->legal_hold = sim_chance(model->sim, 100);
    if (!lock->legal_hold || sim_chance(model->sim, 500)) {
        lock->mode = 1 + (uint32_t)sim_below(model->sim, 2);
        lock->until = stamp + 1 + sim_below(model->sim, 4 * 3600 * SIM_S);
    }
    return lock;
}

/* Bytes along with the command, or pieces of a new layout. */
static struct model_layout *put_body(struct model *model, struct arena *arena, Kist__PutObject *put,
                                     unsigned key, struct model_command *out)
{
    struct model_layout *layout;

    if (sim_chance(model->sim, 500)) {
        char *body = arena_alloc(arena, 2048);
        size_t len = (size_t)sim_below(model->sim, sim_chance(model->sim, 200) ? 1 : 2048);

        random_bytes(model, body, len);
        out->body = slice_of(body, len);
        put->record->size = len;
        put->record->inline_body = len > 0;
        return NULL;
    }
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
    return layout;
}

static void put_model(struct model *model, unsigned bucket, unsigned key,
                      const Kist__PutObject *put, struct model_layout *layout,
                      const struct model_command *out)
{
    struct model_version *version = model_version_new();

    memcpy(version->etag, put->record->etag.data, sizeof(version->etag));
    memcpy(&version->mark, put->record->metadata[0]->value.data, sizeof(version->mark));
    version->size = put->record->size;
    version->layout = layout;
    if (put->record->lock != NULL) {
        version->lock_mode = put->record->lock->mode;
        version->lock_until = put->record->lock->until;
        version->legal_hold = put->record->lock->legal_hold;
    }
    buffer_append(&version->body, out->body);
    if (layout != NULL) {
        model_layout_keep(model, layout);
    }
    model_put(&model->buckets[bucket], &model->buckets[bucket].keys[key], version, out->stamp);
}

void command_put(struct model *model, struct arena *arena, struct model_command *out)
{
    unsigned bucket;
    unsigned key;
    const struct model_key *it = any_key(model, &bucket, &key);
    Kist__PutObject *put = arena_alloc(arena, sizeof(*put));
    struct model_layout *layout;
    Kist__Outcome conditions;
    uint8_t etag[16];

    kist__put_object__init(put);
    out->command = META_PUT_OBJECT;
    out->message = &put->base;
    out->expected = any_bucket(model, bucket, &put->bucket_id, &put->generation);
    put->key = message_field(model_keys[key]);
    put->record = record_new(arena, sim_random(model->sim));
    put->conditions = conditions_random(model, arena, model_current(it), &conditions);
    random_bytes(model, etag, sizeof(etag));
    put->record->etag = field_copy(arena, etag, sizeof(etag));
    put->record->lock = put_lock(model, arena, &model->buckets[bucket], out->stamp);
    layout = put_body(model, arena, put, key, out);
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = conditions;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK && put->record->lock != NULL &&
        !model->buckets[bucket].locks) {
        out->expected = KIST__OUTCOME__NO_LOCK_CONFIGURATION;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        put_model(model, bucket, key, put, layout, out);
    } else if (layout != NULL) {
        model_layout_free(layout);
    }
}

/* ---- Delete ---- */

/* A version is named. */
static void delete_named(struct model_key *key, struct model_version *named,
                         const Kist__DeleteObjects__Item *item, uint64_t stamp,
                         struct model_deleted *deleted)
{
    if (named == NULL) {
        return;
    }
    if (model_locked(named, stamp, item->bypass_governance)) {
        deleted->outcome = KIST__OUTCOME__OBJECT_LOCKED;
        return;
    }
    deleted->marker = named->marker;
    deleted->stamp = named->stamp;
    deleted->tie = named->tie;
    deleted->null_version = named->null_version;
    model_remove(key, named);
}

static Kist__DeleteObjects__Item *delete_item(struct model *model, struct arena *arena,
                                              unsigned bucket, struct model_command *out)
{
    Kist__DeleteObjects__Item *item = arena_alloc(arena, sizeof(*item));
    unsigned at = (unsigned)sim_below(model->sim, MODEL_KEYS);
    struct model_bucket *it = &model->buckets[bucket];
    struct model_key *key = &it->keys[at];
    struct model_version *named = model_current(key);
    struct model_deleted deleted = {.outcome = KIST__OUTCOME__OUTCOME_OK};
    bool by_version = sim_chance(model->sim, 500);

    kist__delete_objects__item__init(item);
    item->key = message_field(model_keys[at]);
    item->bypass_governance = sim_chance(model->sim, 300);
    if (by_version) {
        item->version = any_name(model, arena, key, &named);
    }
    item->conditions = conditions_random(model, arena, named, &deleted.outcome);
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        return item;
    }
    if (deleted.outcome == KIST__OUTCOME__OUTCOME_OK) {
        if (by_version) {
            delete_named(key, named, item, out->stamp, &deleted);
        } else {
            model_delete(it, key, out->stamp, &deleted);
        }
    }
    out->deleted[out->deleted_count++] = deleted;
    return item;
}

void command_delete(struct model *model, struct arena *arena, struct model_command *out)
{
    Kist__DeleteObjects *call = arena_alloc(arena, sizeof(*call));
    unsigned bucket = (unsigned)sim_below(model->sim, MODEL_BUCKETS);

    kist__delete_objects__init(call);
    out->command = META_DELETE_OBJECTS;
    out->message = &call->base;
    out->expected = any_bucket(model, bucket, &call->bucket_id, &call->generation);
    call->n_items = 1 + (size_t)sim_below(model->sim, MODEL_DELETES_MAX);
    call->items = arena_alloc(arena, call->n_items * sizeof(Kist__DeleteObjects__Item *));
    for (size_t i = 0; i < call->n_items; i++) {
        call->items[i] = delete_item(model, arena, bucket, out);
    }
}

/* ---- Copy ---- */

/* `takes`: the source is what the copy replaces; its bytes stay where they are. */
static void copy_model(struct model_bucket *bucket, struct model_key *key,
                       struct model_version *source, const Kist__CopyObject *copy, uint64_t stamp)
{
    struct model_version *made = model_version_new();
    bool takes = model_replaced(bucket, key) == source;

    made->size = source->size;
    memcpy(made->etag, source->etag, sizeof(made->etag));
    made->part_count = source->part_count;
    made->mark = source->mark;
    made->tag = source->tag;
    if (copy->replace) {
        memcpy(&made->mark, copy->record->metadata[0]->value.data, sizeof(made->mark));
    }
    buffer_append(&made->body, buffer_slice(&source->body));
    made->layout = source->layout;
    if (takes) {
        made->shared = source->shared;
        memcpy(made->copy_id, source->copy_id, ID_BYTES);
        source->layout = NULL;
    } else if (made->layout != NULL) {
        model_layout_ref(made->layout);
        made->shared = true;
        memcpy(made->copy_id, copy->copy_id.data, ID_BYTES);
    }
    model_put(bucket, key, made, stamp);
}

/* The newest version, or one that is named. */
static struct model_version *copy_source(struct model *model, struct arena *arena,
                                         const struct model_key *key, Kist__CopyObject *copy,
                                         Kist__Outcome *outcome)
{
    struct model_version *source = model_current(key);

    *outcome = source != NULL ? KIST__OUTCOME__OUTCOME_OK : KIST__OUTCOME__NO_SUCH_KEY;
    if (sim_chance(model->sim, 300)) {
        copy->source_version = any_name(model, arena, key, &source);
        *outcome = source != NULL ? KIST__OUTCOME__OUTCOME_OK : KIST__OUTCOME__NO_SUCH_VERSION;
        if (source != NULL && source->marker) {
            *outcome = KIST__OUTCOME__IS_DELETE_MARKER;
        }
    }
    return source;
}

void command_copy(struct model *model, struct arena *arena, struct model_command *out)
{
    unsigned from_bucket;
    unsigned from_key;
    unsigned bucket;
    unsigned key;
    const struct model_key *from = any_key(model, &from_bucket, &from_key);
    struct model_key *to = any_key(model, &bucket, &key);
    Kist__CopyObject *copy = arena_alloc(arena, sizeof(*copy));
    struct model_version *source;
    Kist__Outcome conditions;
    Kist__Outcome found;
    uint8_t copy_id[ID_BYTES];

    if (sim_chance(model->sim, 150)) {
        bucket =
            from_bucket; /* onto itself: changes metadata, or makes an old version the newest */
        key = from_key;
        to = &model->buckets[bucket].keys[key];
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
    source = copy_source(model, arena, from, copy, &found);
    copy->conditions = conditions_random(model, arena, model_current(to), &conditions);
    model_new_id(model, copy_id);
    copy->copy_id = field_copy(arena, copy_id, ID_BYTES);
    copy->replace = sim_chance(model->sim, 500);
    copy->record = record_new(arena, sim_random(model->sim));
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = found;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        out->expected = conditions;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK) {
        copy_model(&model->buckets[bucket], to, source, copy, out->stamp);
    }
}
