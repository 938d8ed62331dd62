/*
 * RENAME_OBJECT: the source's current version becomes the destination's and is gone at the source,
 * in one entry. The layout keeps its home: the new name holds a reference, the old one drops its
 * own.
 *
 *     not versioned   the record moves
 *     versioned       a new version there, a delete marker here
 */
#include "metad/apply/conditions.h"
#include "metad/apply/lock.h"
#include "metad/apply/share.h"

struct rename {
    struct apply *apply;
    const Kist__RenameObject *call;
    struct version_key from;
    struct version_key to;
};

static bool rename_check(struct apply *apply, const Kist__RenameObject *call)
{
    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->source_key) || !apply_check_key(apply, call->key) ||
        !apply_check_id(apply, call->copy_id)) {
        return false;
    }
    return !slice_eq(message_bytes(call->source_key), message_bytes(call->key)) ||
           apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT,
                             "source and destination are the same key");
}

/* A rename writes: where a read would answer 304, it fails. */
static Kist__Outcome rename_judge_source(const Kist__Conditions *conditions,
                                         const Kist__Record *source)
{
    Kist__Outcome outcome = conditions_read(conditions, source);

    return outcome == KIST__OUTCOME__NOT_MODIFIED ? KIST__OUTCOME__PRECONDITION_FAILED : outcome;
}

static bool rename_judge(struct rename *op)
{
    const Kist__Record *source = version_current(&op->from);
    struct version replaced;
    Kist__Outcome outcome;

    if (source == NULL) {
        return apply_refuse(op->apply, KIST__OUTCOME__NO_SUCH_KEY);
    }
    outcome = rename_judge_source(op->call->source_conditions, source);
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = conditions_write(op->call->conditions, version_current(&op->to));
    }
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = version_replaced(&op->to, &replaced);
    }
    return outcome == KIST__OUTCOME__OUTCOME_OK || apply_refuse(op->apply, outcome);
}

/* One change is told, of the rename: none of the source's end. */
static bool rename_end_source(struct rename *op)
{
    const struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_NONE,
                                        .user = message_bytes(op->call->user)};
    struct apply *apply = op->apply;
    Kist__Deleted *deleted = arena_alloc(apply->arena, sizeof(*deleted));
    Kist__Outcome outcome;

    kist__deleted__init(deleted);
    outcome = version_delete_newest(&op->from, &cause, false, deleted);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(apply, outcome);
    }
    deleted->key = op->call->source_key;
    apply->reply.deleted = arena_alloc(apply->arena, sizeof(*apply->reply.deleted));
    apply->reply.deleted[0] = deleted;
    apply->reply.n_deleted = 1;
    return true;
}

void apply_rename_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__RenameObject *call = (const Kist__RenameObject *)message;
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_RENAME,
                                  .user = message_bytes(call->user),
                                  .source_key = message_bytes(call->source_key)};
    struct rename op = {.apply = apply, .call = call};
    const Kist__Record *source;
    Kist__Record *record;

    if (!rename_check(apply, call)) {
        return;
    }
    version_key_init(&op.from, apply, call->bucket_id, message_bytes(call->source_key));
    version_key_init(&op.to, apply, call->bucket_id, message_bytes(call->key));
    if (!rename_judge(&op)) {
        return;
    }
    source = version_current(&op.from);
    record = arena_alloc(apply->arena, sizeof(*record));
    *record = *source;
    record->lock = lock_of_new(apply, op.to.bucket, NULL);
    if (!share_bytes(&op.from, source, &op.to, record, call->copy_id) || !rename_end_source(&op)) {
        return;
    }
    version_put(&op.to, record, false, &cause);
    apply->reply.record = record;
}
