/*
 * SET_OBJECT: tags, retention, legal hold, ACL of one version, in its place: no new version.
 *
 *     version -> conditions -> each field's own rule -> the row it lies in
 */
#include "metad/apply/conditions.h"
#include "metad/apply/lock.h"
#include "metad/apply/record_check.h"
#include "metad/apply/version.h"

enum { SET_TAGS = 1, SET_RETENTION = 2, SET_LEGAL_HOLD = 4, SET_ACL = 8, SET_ALL = 15 };

static bool set_check(struct apply *apply, const Kist__SetObject *call)
{
    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key) || !version_check_kind(apply, call->change)) {
        return false;
    }
    if (call->record == NULL || call->what == 0 || call->what > SET_ALL) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "what to set");
    }
    return record_check(apply, call->record);
}

static bool set_find(struct apply *apply, const Kist__SetObject *call, struct version_key *key,
                     struct version *out)
{
    Kist__Outcome outcome;

    if (!version_find(key, message_bytes(call->version), out)) {
        return apply_refuse(apply, call->version.len > 0 ? KIST__OUTCOME__NO_SUCH_VERSION
                                                         : KIST__OUTCOME__NO_SUCH_KEY);
    }
    if (out->record->delete_marker) {
        return apply_refuse(apply, KIST__OUTCOME__IS_DELETE_MARKER);
    }
    outcome = conditions_write(call->conditions, out->record);
    return outcome == KIST__OUTCOME__OUTCOME_OK || apply_refuse(apply, outcome);
}

static bool set_judge_lock(struct apply *apply, const Kist__SetObject *call,
                           const struct version_key *key, const Kist__Record *record)
{
    static const Kist__Lock none = KIST__LOCK__INIT;
    const Kist__Lock *lock = call->record->lock != NULL ? call->record->lock : &none;
    Kist__Outcome outcome;

    if ((call->what & (SET_RETENTION | SET_LEGAL_HOLD)) == 0) {
        return true;
    }
    if (!lock_enabled(key->bucket)) {
        return apply_refuse(apply, KIST__OUTCOME__NO_LOCK_CONFIGURATION);
    }
    if ((call->what & SET_RETENTION) == 0) {
        return true;
    }
    outcome = lock_check_retention(record->lock, lock, apply->stamp, call->bypass_governance);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(apply, outcome);
    }
    return lock_check_new(apply, key->bucket, lock);
}

/* What is not set stays as it is. */
static void set_lock(struct apply *apply, const Kist__SetObject *call, Kist__Record *record)
{
    static const Kist__Lock none = KIST__LOCK__INIT;
    const Kist__Lock *from = call->record->lock != NULL ? call->record->lock : &none;
    Kist__Lock *lock = arena_alloc(apply->arena, sizeof(*lock));

    *lock = record->lock != NULL ? *record->lock : none;
    if ((call->what & SET_RETENTION) != 0) {
        lock->mode = from->mode;
        lock->until = from->mode != LOCK_NONE ? from->until : 0;
    }
    if ((call->what & SET_LEGAL_HOLD) != 0) {
        lock->legal_hold = from->legal_hold;
        lock->hold_known = true;
    }
    record->lock = lock->mode != LOCK_NONE || lock->hold_known ? lock : NULL;
}

static void set_fields(struct apply *apply, const Kist__SetObject *call, Kist__Record *record)
{
    if ((call->what & SET_TAGS) != 0) {
        record->tags = call->record->tags;
        record->n_tags = call->record->n_tags;
    }
    if ((call->what & SET_ACL) != 0) {
        record->acl = call->record->acl;
    }
    if ((call->what & (SET_RETENTION | SET_LEGAL_HOLD)) != 0) {
        set_lock(apply, call, record);
    }
}

void apply_set_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__SetObject *call = (const Kist__SetObject *)message;
    struct version_cause cause = {.kind = (Kist__ChangeKind)call->change,
                                  .user = message_bytes(call->user)};
    struct version_key key;
    struct version version;

    if (!set_check(apply, call)) {
        return;
    }
    version_key_init(&key, apply, call->bucket_id, message_bytes(call->key));
    if (!set_find(apply, call, &key, &version) ||
        !set_judge_lock(apply, call, &key, version.record)) {
        return;
    }
    set_fields(apply, call, version.record);
    version_rewrite(&key, &version, &cause);
    apply->reply.record = version.record;
}
