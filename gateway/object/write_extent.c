/* From a filled stripe buffer to an extent: group, id, units, parity; and the piece that names it.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/ec/ec.h"
#include "common/ec/stripe.h"
#include "gateway/object/write_state.h"

void write_fail(struct write_state *state, enum rc rc, const char *text)
{
    if (state->failed == RC_OK) {
        state->failed = rc;
        state->failed_text = text;
    }
}

/* A group of another shape may need more room for parity. */
static bool write_parity_room(struct write_state *state)
{
    size_t more = state->plan.parity_bytes - state->parity_size;

    if (more == 0) {
        return true;
    }
    if (!stream_memory_try(state->path->gateway, more)) {
        return false;
    }
    state->admitted_bytes += more;
    mem_free(state->parity);
    state->parity_size = state->plan.parity_bytes;
    state->parity = mem_alloc_pages(state->parity_size);
    return true;
}

bool write_extent_prepare(struct write_state *state, enum extent_kind kind)
{
    struct write_path *path = state->path;
    struct gateway *gateway = path->gateway;
    struct extent_id id = gateway_new_id(gateway);
    const Kist__PlacementGroup *group =
        extent_choose_group(path->view, gateway->data, gateway->env->random(gateway->env));

    if (group == NULL || !write_plan_adapt(&state->plan, group) || !write_parity_room(state)) {
        write_fail(state, group == NULL ? extent_no_group(path->view, gateway->data) : RC_BUSY,
                   "no placement group has all its disks");
        return false;
    }
    state->extent = (struct extent_writer){.done = state->extent_done,
                                           .data = gateway->data,
                                           .group = group,
                                           .kind = kind,
                                           .id = id,
                                           .layout = path->layout,
                                           .home_bucket = path->bucket_id,
                                           .home_key = path->key};
    state->extent_len = 0;
    uint32_t count = extent_writer_shards(&state->extent);
    if (count > state->shard_capacity) {
        state->shards = arena_alloc_raw(path->arena, count * sizeof(*state->shards));
        state->shard_capacity = count;
    }
    uint64_t bytes = state->plan.extent_bytes;
    if (path->payload->has_length) {
        uint64_t rest = path->prefix.len + path->payload->length - state->sent_bytes;

        bytes = rest < bytes ? rest : bytes;
    }
    if (kind == EXTENT_KIND_STRIPED) {
        struct stripe_geometry geometry = {
            .k = state->plan.k, .unit = state->plan.unit, .length = bytes};

        bytes = stripe_shard_length(&geometry);
    }
    extent_writer_init(&state->extent, state->shards, bytes);
    return true;
}

void write_encode(struct write_state *state, struct slice units[LIMIT_SHARDS])
{
    const struct write_plan *plan = &state->plan;
    struct write_buffer *buffer = &state->buffers[state->send];
    struct stripe_geometry geometry = {
        .k = plan->k, .unit = plan->unit, .length = state->extent_len + buffer->len};
    size_t unit = stripe_of(&geometry, state->extent_len).unit;
    uint8_t *data[LIMIT_DATA_SHARDS];
    uint8_t *parity[LIMIT_PARITY_SHARDS] = {NULL};

    ASSERT(unit * plan->k <= plan->stripe_bytes && unit * plan->m <= state->parity_size);
    ASSERT(buffer->len <= unit * plan->k);
    memset(buffer->data + buffer->len, 0, unit * plan->k - buffer->len);
    for (uint32_t i = 0; i < plan->k; i++) {
        data[i] = (uint8_t *)buffer->data + i * unit;
        units[i] = slice_of(data[i], unit);
    }
    for (uint32_t i = 0; i < plan->m; i++) {
        parity[i] = (uint8_t *)state->parity + i * unit;
        units[plan->k + i] = slice_of(parity[i], unit);
    }
    ec_encode(ec_get(plan->k, plan->m), unit, data, parity);
}

/* ---- Pieces ---- */

static Kist__Piece *write_piece(struct write_state *state)
{
    struct arena *arena = state->path->arena;
    Kist__Piece *piece = arena_alloc_raw(arena, sizeof(*piece));
    Kist__Extent *extent = arena_alloc_raw(arena, sizeof(*extent));
    uint8_t *id = arena_alloc_raw(arena, EXTENT_ID_BYTES);

    kist__piece__init(piece);
    kist__extent__init(extent);
    memcpy(id, state->extent.id.bytes, EXTENT_ID_BYTES);
    extent->id = (ProtobufCBinaryData){.data = id, .len = EXTENT_ID_BYTES};
    extent->pg = state->extent.group->id;
    extent->pg_epoch = state->extent.group->epoch;
    extent->kind = state->extent.kind;
    extent->data_shards = state->extent.kind == EXTENT_KIND_REPLICA ? 1 : state->plan.k;
    extent->parity_shards = state->plan.m;
    extent->stripe_unit = state->extent.kind == EXTENT_KIND_REPLICA ? 0 : state->plan.unit;
    extent->length = state->extent_len;
    extent->durable = state->extent.durable;
    piece->length = state->extent_len;
    piece->extent = extent;
    return piece;
}

void write_add_piece(struct write_state *state)
{
    if (state->piece_count == state->piece_capacity) {
        size_t capacity = state->piece_capacity == 0 ? 4 : 2 * state->piece_capacity;
        Kist__Piece **grown = arena_alloc_raw(state->path->arena, capacity * sizeof(*grown));

        if (state->piece_count > 0) {
            memcpy(grown, state->pieces, state->piece_count * sizeof(*grown));
        }
        state->pieces = grown;
        state->piece_capacity = capacity;
    }
    state->pieces[state->piece_count++] = write_piece(state);
}
