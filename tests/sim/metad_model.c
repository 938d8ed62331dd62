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
    for (unsigned b = 0; b < MODEL_BUCKETS; b++) {
        for (unsigned k = 0; k < MODEL_KEYS; k++) {
            buffer_init(&model->buckets[b].objects[k].body);
        }
    }
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

void model_object_drop(struct model_object *object)
{
    if (object->layout != NULL) {
        model_layout_unref(object->layout);
    }
    buffer_clear(&object->body);
    object->exists = false;
    object->layout = NULL;
    object->shared = false;
    object->size = 0;
    object->part_count = 0;
}
