/*
 * DELETE_OBJECTS: one to a thousand keys of a bucket, or versions of them. Each is judged by
 * itself; what is absent is a success, so that a client may repeat what it lost the answer of.
 * Shards are reclaimed later: no datad is asked.
 *
 *     no version   the bucket's state decides: removed, or a marker is made (version.h)
 *     a version    is gone for good, be it an object or a marker; the next one becomes current
 */
#include "metad/apply/conditions.h"
#include "metad/apply/version.h"

static Kist__Outcome delete_version(struct version_key *key, const Kist__DeleteObjects__Item *item,
                                    const struct version_cause *cause, Kist__Deleted *deleted)
{
    struct version version;
    Kist__Outcome outcome;

    (void)version_find(key, message_bytes(item->version), &version);
    outcome = conditions_write(item->conditions, version.record);
    if (outcome != KIST__OUTCOME__OUTCOME_OK || version.record == NULL) {
        return outcome;
    }
    outcome = version_remove(key, &version, cause, item->bypass_governance);
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        deleted->delete_marker = version.record->delete_marker;
        deleted->stamp = version.record->stamp;
        deleted->tie = version.record->tie;
        deleted->null_version = version.record->null_version;
    }
    return outcome;
}

static Kist__Outcome delete_item(struct apply *apply, const Kist__DeleteObjects *call,
                                 const Kist__DeleteObjects__Item *item, Kist__Deleted *deleted)
{
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_DELETE,
                                  .user = message_bytes(call->user)};
    struct version_key key;
    Kist__Outcome outcome;

    version_key_init(&key, apply, call->bucket_id, message_bytes(item->key));
    if (item->version.len > 0) {
        return delete_version(&key, item, &cause, deleted);
    }
    outcome = conditions_write(item->conditions, version_current(&key));
    return outcome != KIST__OUTCOME__OUTCOME_OK
               ? outcome
               : version_delete_newest(&key, &cause, item->bypass_governance, deleted);
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
        deleted->outcome = delete_item(apply, call, call->items[i], deleted);
        apply->reply.deleted[i] = deleted;
    }
}
