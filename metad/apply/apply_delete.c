/*
 * DELETE_OBJECTS: one to a thousand keys of a bucket. Each is judged by itself; a key that is
 * absent is a success, so that a client may repeat what it lost the answer of. Shards are reclaimed
 * later: no datad is asked.
 */
#include "metad/apply/conditions.h"
#include "metad/apply/liveness.h"

static Kist__Outcome delete_item(struct apply *apply, uint64_t bucket_id,
                                 const Kist__DeleteObjects__Item *item)
{
    struct slice key = message_bytes(item->key);
    const Kist__Record *old = apply_current(apply, bucket_id, key);
    Kist__Outcome outcome = conditions_write(item->conditions, old);
    struct row_key row;

    if (outcome != KIST__OUTCOME__OUTCOME_OK || old == NULL) {
        return outcome;
    }
    layout_drop_record(apply, bucket_id, key, old);
    key_current(&row, bucket_id, key);
    apply_delete(apply, FAMILY_CURRENT, &row);
    apply_usage(apply, bucket_id, -1, -(int64_t)old->size, 0);
    return KIST__OUTCOME__OUTCOME_OK;
}

void apply_delete_objects(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__DeleteObjects *call = (const Kist__DeleteObjects *)message;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation)) {
        return;
    }
    if (call->n_items == 0 || call->n_items > LIMIT_DELETE_KEYS) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "number of keys");
        return;
    }
    for (size_t i = 0; i < call->n_items; i++) {
        if (!apply_check_key(apply, call->items[i]->key)) {
            return;
        }
    }
    apply->reply.deleted = arena_alloc(apply->arena, call->n_items * sizeof(Kist__Deleted *));
    apply->reply.n_deleted = call->n_items;
    for (size_t i = 0; i < call->n_items; i++) {
        Kist__Deleted *deleted = arena_alloc(apply->arena, sizeof(*deleted));

        kist__deleted__init(deleted);
        deleted->key = call->items[i]->key;
        deleted->outcome = delete_item(apply, call->bucket_id, call->items[i]);
        apply->reply.deleted[i] = deleted;
    }
}
