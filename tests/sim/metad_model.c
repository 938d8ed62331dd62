#include "tests/sim/metad_model.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"

/* Prefixes of one another, separators, zero bytes, high bytes: where key encodings go wrong. */
const struct slice model_keys[MODEL_KEYS] = {
    {.data = "a",                .len = 1},
    {.data = "a\0",              .len = 2},
    {.data = "a\0\xff",          .len = 3},
    {.data = "a\0\x01",          .len = 3},
    {.data = "a/",               .len = 2},
    {.data = "a/b",              .len = 3},
    {.data = "a//",              .len = 3},
    {.data = "\xff\xff",         .len = 2},
    {.data = "\xf0\x9f\x98\x80", .len = 4},
    {.data = "\0",               .len = 1},
    {.data = "dir/x",            .len = 5},
    {.data = "dir/y",            .len = 5},
    {.data = "dir/y/z",          .len = 7},
    {.data = "zz",               .len = 2},
};

static const uint64_t EPOCH_NS = 1767225600ULL * 1000000000ULL;

void model_init(struct model *model, struct sim *sim)
{
    *model = (struct model){.sim = sim, .clock_ns = EPOCH_NS, .next_bucket_id = 1};
}

struct slice model_bucket_name(unsigned bucket)
{
    static const char *const names[MODEL_BUCKETS] = {"alpha", "beta", "gamma"};

    return slice_str(names[bucket]);
}

/* Of the form of an extent id, made now by the leader's clock. */
void model_new_id(struct model *model, uint8_t out[ID_BYTES])
{
    be32_put(out, 1);
    be32_put(out + 4, 1);
    be64_put(out + 8, model->clock_ns / 1000000);
    be64_put(out + 16, ++model->next_number);
}

void model_tick(struct model *model, struct model_command *command)
{
    if (sim_chance(model->sim, 50)) {
        model->clock_ns -= sim_below(model->sim, 400 * SIM_MS); /* another leader, another clock */
    } else {
        model->clock_ns +=
            sim_below(model->sim, sim_chance(model->sim, 20) ? 3600 * SIM_S : 100 * SIM_MS);
    }
    command->proposed_ns = model->clock_ns;
    command->stamp =
        model->clock_ns > model->last_stamp + 1 ? model->clock_ns : model->last_stamp + 1;
    command->deadline_ns = command->proposed_ns + 30 * SIM_S;
    command->repeats = true;
    model->last_stamp = command->stamp;
}

struct model_layout *model_layout_new(struct model *model, uint64_t bucket_id, unsigned key)
{
    struct model_layout *layout = mem_alloc(sizeof(*layout));

    model_new_id(model, layout->id);
    layout->bucket_id = bucket_id;
    layout->key = key;
    layout->references = 1;
    layout->pieces = mem_alloc(sizeof(struct model_piece));
    return layout;
}

void model_layout_free(struct model_layout *layout)
{
    mem_free(layout->pieces);
    mem_free(layout);
}

void model_layout_keep(struct model *model, struct model_layout *layout)
{
    model->layouts =
        mem_realloc(model->layouts, (model->layout_count + 1) * sizeof(struct model_layout *));
    model->layouts[model->layout_count++] = layout;
}

void model_layout_ref(struct model_layout *layout)
{
    layout->references += 1;
    layout->home = true;
}

void model_layout_unref(struct model_layout *layout)
{
    ASSERT(layout->references > 0);
    layout->references -= 1;
    if (layout->references == 0) {
        layout->state = LAYOUT_DEAD;
    }
}

uint64_t model_layout_size(const struct model_layout *layout)
{
    uint64_t size = 0;

    for (size_t i = 0; i < layout->piece_count; i++) {
        size += layout->pieces[i].length;
    }
    return size;
}

struct model_layout *model_layout_find(struct model *model, struct slice id)
{
    for (size_t i = 0; i < model->layout_count; i++) {
        if (slice_eq(slice_of(model->layouts[i]->id, ID_BYTES), id)) {
            return model->layouts[i];
        }
    }
    return NULL;
}

/* ---- Versions ---- */

struct model_version *model_version_new(void)
{
    struct model_version *version = mem_alloc(sizeof(*version));

    buffer_init(&version->body);
    return version;
}

void model_version_free(struct model_version *version)
{
    if (version->layout != NULL) {
        model_layout_unref(version->layout);
    }
    buffer_deinit(&version->body);
    mem_free(version);
}

struct model_version *model_current(const struct model_key *key)
{
    return key->count > 0 && !key->versions[0]->marker ? key->versions[0] : NULL;
}

struct model_version *model_null(const struct model_key *key)
{
    for (size_t i = 0; i < key->count; i++) {
        if (key->versions[i]->null_version) {
            return key->versions[i];
        }
    }
    return NULL;
}

struct model_version *model_replaced(const struct model_bucket *bucket, const struct model_key *key)
{
    return bucket->versioning == VERSIONING_ON ? NULL : model_null(key);
}

static void key_unlink(struct model_key *key, const struct model_version *version)
{
    size_t at = 0;

    while (at < key->count && key->versions[at] != version) {
        at += 1;
    }
    ASSERT(at < key->count);
    key->count -= 1;
    memmove(key->versions + at, key->versions + at + 1,
            (key->count - at) * sizeof(struct model_version *));
}

void model_put(const struct model_bucket *bucket, struct model_key *key,
               struct model_version *version, uint64_t stamp)
{
    struct model_version *replaced = model_replaced(bucket, key);

    version->stamp = stamp;
    version->tie =
        key->count > 0 && key->versions[0]->stamp == stamp ? key->versions[0]->tie + 1 : 0;
    version->null_version = bucket->versioning != VERSIONING_ON;
    version->since = 0;
    if (replaced != NULL) {
        bool newest = replaced == key->versions[0];

        key_unlink(key, replaced);
        model_version_free(replaced);
        if (!newest) {
            key->versions[0]->since = stamp;
        }
    } else if (key->count > 0) {
        key->versions[0]->since = stamp;
    }
    key->versions = mem_realloc(key->versions, (key->count + 1) * sizeof(struct model_version *));
    memmove(key->versions + 1, key->versions, key->count * sizeof(struct model_version *));
    key->versions[0] = version;
    key->count += 1;
}

void model_remove(struct model_key *key, struct model_version *version)
{
    key_unlink(key, version);
    model_version_free(version);
    if (key->count > 0) {
        key->versions[0]->since = 0;
    }
}

void model_delete(const struct model_bucket *bucket, struct model_key *key, uint64_t stamp,
                  struct model_deleted *deleted)
{
    struct model_version *marker;

    *deleted = (struct model_deleted){.outcome = KIST__OUTCOME__OUTCOME_OK};
    if (bucket->versioning == VERSIONING_OFF) {
        if (key->count > 0) {
            model_remove(key, key->versions[0]);
        }
        return;
    }
    marker = model_version_new();
    marker->marker = true;
    model_put(bucket, key, marker, stamp);
    deleted->marker = true;
    deleted->stamp = marker->stamp;
    deleted->tie = marker->tie;
    deleted->null_version = marker->null_version;
}

bool model_locked(const struct model_version *version, uint64_t now, bool bypass)
{
    if (version->legal_hold) {
        return true;
    }
    return version->lock_mode != 0 && version->lock_until > now &&
           (version->lock_mode == 2 || !bypass);
}
