/* The processes of the cluster: rows of root, written when one joins, starts or leaves. */
#include "common/base/assert.h"
#include "metad/apply/apply.h"

enum {
    NODE_NAME_BYTES_MAX = 64,
    NODE_ADDRESS_BYTES_MAX = 72,
    NODE_REPLICAS_MAX = 64,
    NODE_RELEASE_BYTES_MAX = 32,
    NODE_UUID_BYTES = 16
};

void apply_put_node(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__Node *node = ((const Kist__PutNode *)message)->node;
    const Kist__Node *old;
    struct row_key row;

    if (node == NULL || node->id == 0 || node->name.len > NODE_NAME_BYTES_MAX ||
        node->address.len > NODE_ADDRESS_BYTES_MAX || node->n_replica_ids > NODE_REPLICAS_MAX ||
        node->release.len > NODE_RELEASE_BYTES_MAX || node->uuid.len > NODE_UUID_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "a node");
        return;
    }
    key_range_u64(&row, RANGE_ROOT, KIND_NODE, node->id, SLICE_EMPTY);
    old = apply_load(apply, FAMILY_ROWS, &row, &kist__node__descriptor);
    if (old != NULL && node->incarnation < old->incarnation) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "incarnation of a node");
        return;
    }
    apply_put_message(apply, FAMILY_ROWS, &row, &node->base);
    apply->root_changed = true;
}

void apply_delete_node(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__DeleteNode *call = (const Kist__DeleteNode *)message;
    struct row_key row;

    if (call->id == 0) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "id of a node");
        return;
    }
    key_range_u64(&row, RANGE_ROOT, KIND_NODE, call->id, SLICE_EMPTY);
    apply_delete(apply, FAMILY_ROWS, &row);
    apply->root_changed = true;
}
