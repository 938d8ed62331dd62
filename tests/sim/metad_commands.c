/*
 * Random commands, and what the model makes of them. Every function fills `out` with a message and
 * with the outcome that metad must answer, and changes the model if that is OUTCOME_OK. Here:
 * buckets, users, reclaim, and which kind comes next.
 */
#include "tests/sim/metad_commands.h"
#include "common/base/assert.h"

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

static Kist__Settings *settings_message(struct arena *arena)
{
    Kist__Settings *settings = arena_alloc(arena, sizeof(*settings));

    kist__settings__init(settings);
    return settings;
}

/* Without a default retention: versions get theirs one by one. */
static Kist__ObjectLock *lock_setting_message(struct arena *arena)
{
    Kist__ObjectLock *lock = arena_alloc(arena, sizeof(*lock));

    kist__object_lock__init(lock);
    lock->enabled = true;
    return lock;
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
    if (sim_chance(model->sim, 200)) {
        call->settings = settings_message(arena);
        call->settings->object_lock = lock_setting_message(arena);
    }
    if (it->id == 0) {
        it->id = model->next_bucket_id++;
        it->generation = 1;
        it->locks = call->settings != NULL;
        it->versioning = it->locks ? VERSIONING_ON : VERSIONING_OFF;
    }
}

/* Versioning on or suspended, or object lock for a bucket that is versioned. */
static void command_setting(struct model *model, struct arena *arena, unsigned bucket,
                            struct model_command *out)
{
    Kist__PutSetting *call = arena_alloc(arena, sizeof(*call));
    struct model_bucket *it = &model->buckets[bucket];
    bool lock = sim_chance(model->sim, 200);
    bool suspend = sim_chance(model->sim, 400);

    kist__put_setting__init(call);
    out->command = META_PUT_SETTING;
    out->message = &call->base;
    out->expected = it->id != 0 ? KIST__OUTCOME__OUTCOME_OK : KIST__OUTCOME__NO_SUCH_BUCKET;
    call->name = message_field(model_bucket_name(bucket));
    call->bucket_id = it->id;
    call->value = settings_message(arena);
    if (lock) {
        call->setting = 2;
        call->value->object_lock = lock_setting_message(arena);
    } else {
        call->setting = 1;
        call->value->versioning = arena_alloc(arena, sizeof(Kist__Versioning));
        kist__versioning__init(call->value->versioning);
        call->value->versioning->state = suspend ? 2 : 1;
    }
    if (out->expected == KIST__OUTCOME__OUTCOME_OK &&
        (lock ? it->versioning != VERSIONING_ON : suspend && it->locks)) {
        out->expected = KIST__OUTCOME__INVALID_BUCKET_STATE;
    }
    if (out->expected != KIST__OUTCOME__OUTCOME_OK) {
        return;
    }
    it->generation += 1;
    if (lock) {
        it->locks = true;
    } else {
        it->versioning = suspend ? VERSIONING_SUSPENDED : VERSIONING_ON;
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
        if (it->keys[k].count > 0) {
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

    if (sim_chance(model->sim, 400)) {
        command_setting(model, arena, bucket, out);
    } else if (model->buckets[bucket].id != 0 && sim_chance(model->sim, 800)) {
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
                        (layout->pieces[before].owner != piece->owner ||
                         memcmp(layout->pieces[before].reference, piece->reference, ID_BYTES) != 0);
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

    model_tick(model, out);
    if (what < 22) {
        command_put(model, arena, out);
    } else if (what < 34) {
        command_delete(model, arena, out);
    } else if (what < 46) {
        command_copy(model, arena, out);
    } else if (what < 52) {
        command_append(model, arena, out);
    } else if (what < 56) {
        command_rename(model, arena, out);
    } else if (what < 64) {
        command_set(model, arena, out);
    } else if (what < 65 && command_set_durable(model, arena, out)) {
        return;
    } else if (what < 69) {
        command_bucket(model, arena, out);
    } else {
        command_upload(model, arena, &model->uploads[sim_below(model->sim, MODEL_UPLOADS)], out);
    }
}
