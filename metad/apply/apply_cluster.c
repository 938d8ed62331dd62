/* The cluster's numbers, disks and placement groups: rows of root. */
#include "common/base/assert.h"
#include "metad/apply/apply.h"
#include "metad/apply/root_rows.h"

enum { MINT_NAME_BYTES_MAX = 32, MINT_COUNT_MAX = 1000000, PLACEMENT_ROWS_MAX = 4096 };

uint64_t root_mint(struct apply *apply, struct slice name, uint64_t count)
{
    Kist__Counter first = KIST__COUNTER__INIT;
    Kist__Counter *counter;
    struct row_key row;
    uint64_t number;

    ASSERT(name.len > 0 && name.len <= MINT_NAME_BYTES_MAX);
    ASSERT(count > 0);
    key_range(&row, RANGE_ROOT, KIND_COUNTER, name);
    counter = apply_load(apply, FAMILY_ROWS, &row, &kist__counter__descriptor);
    if (counter == NULL) {
        first.next = 1;
        counter = &first;
    }
    number = counter->next;
    counter->next += count;
    apply_put_message(apply, FAMILY_ROWS, &row, &counter->base);
    return number;
}

void apply_mint(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__Mint *call = (const Kist__Mint *)message;
    struct slice name = message_bytes(call->name);

    if (name.len == 0 || name.len > MINT_NAME_BYTES_MAX || call->count == 0 ||
        call->count > MINT_COUNT_MAX) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "name or count");
        return;
    }
    apply->reply.first = root_mint(apply, name, call->count);
}

static bool group_check(struct apply *apply, const Kist__PlacementGroup *group)
{
    const Kist__PlacementGroup *old;
    struct row_key row;

    if (group->id == 0 || group->data_shards == 0 || group->data_shards > LIMIT_DATA_SHARDS ||
        group->parity_shards > LIMIT_PARITY_SHARDS ||
        group->n_disks != group->data_shards + group->parity_shards) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "shape of a group");
    }
    key_range_u64(&row, RANGE_ROOT, KIND_GROUP, group->id, SLICE_EMPTY);
    old = apply_load(apply, FAMILY_ROWS, &row, &kist__placement_group__descriptor);
    if (old != NULL && group->epoch < old->epoch) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "epoch of a group");
    }
    return true;
}

void apply_put_placement(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutPlacement *call = (const Kist__PutPlacement *)message;
    struct row_key row;

    if (call->n_disks + call->n_groups > PLACEMENT_ROWS_MAX) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "too many rows");
        return;
    }
    for (size_t i = 0; i < call->n_disks; i++) {
        if (call->disks[i]->id == 0) {
            (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "id of a disk");
            return;
        }
    }
    for (size_t i = 0; i < call->n_groups; i++) {
        if (!group_check(apply, call->groups[i])) {
            return;
        }
    }
    for (size_t i = 0; i < call->n_disks; i++) {
        key_range_u64(&row, RANGE_ROOT, KIND_DISK, call->disks[i]->id, SLICE_EMPTY);
        apply_put_message(apply, FAMILY_ROWS, &row, &call->disks[i]->base);
    }
    for (size_t i = 0; i < call->n_groups; i++) {
        key_range_u64(&row, RANGE_ROOT, KIND_GROUP, call->groups[i]->id, SLICE_EMPTY);
        apply_put_message(apply, FAMILY_ROWS, &row, &call->groups[i]->base);
    }
    apply->root_changed = true;
}
