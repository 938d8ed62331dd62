#include "metad/apply/lock.h"

static const uint64_t NS_PER_DAY = 86400ULL * 1000000000ULL;

enum { DAYS_PER_YEAR = 365 };

bool lock_enabled(const Kist__Bucket *bucket)
{
    return bucket != NULL && bucket->settings != NULL && bucket->settings->object_lock != NULL &&
           bucket->settings->object_lock->enabled;
}

static bool retention_active(const Kist__Lock *lock, uint64_t now)
{
    return lock != NULL && lock->mode != LOCK_NONE && lock->until > now;
}

bool lock_holds(const Kist__Record *record, uint64_t now, bool bypass)
{
    const Kist__Lock *lock = record->lock;

    if (lock == NULL) {
        return false;
    }
    if (lock->legal_hold) {
        return true;
    }
    return retention_active(lock, now) && (lock->mode != LOCK_GOVERNANCE || !bypass);
}

bool lock_check_new(struct apply *apply, const Kist__Bucket *bucket, const Kist__Lock *lock)
{
    if (lock == NULL || (lock->mode == LOCK_NONE && !lock->legal_hold)) {
        return true;
    }
    if (!lock_enabled(bucket)) {
        return apply_refuse(apply, KIST__OUTCOME__NO_LOCK_CONFIGURATION);
    }
    if (lock->mode > LOCK_COMPLIANCE) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "mode of a lock");
    }
    if (lock->mode != LOCK_NONE && lock->until <= apply->stamp) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT,
                                 "The retain until date must be in the future!");
    }
    return true;
}

Kist__Lock *lock_of_new(struct apply *apply, const Kist__Bucket *bucket, Kist__Lock *own)
{
    const Kist__ObjectLock *rule;
    Kist__Lock *lock;
    uint64_t days;

    if (!lock_enabled(bucket)) {
        return NULL;
    }
    rule = bucket->settings->object_lock;
    if (own != NULL) {
        own->hold_known = own->hold_known || own->legal_hold;
    }
    if (rule->mode == LOCK_NONE || (own != NULL && own->mode != LOCK_NONE)) {
        return own;
    }
    lock = arena_alloc(apply->arena, sizeof(*lock));
    kist__lock__init(lock);
    lock->legal_hold = own != NULL && own->legal_hold;
    lock->hold_known = own != NULL && own->hold_known;
    lock->mode = rule->mode;
    days = rule->days + (uint64_t)rule->years * DAYS_PER_YEAR;
    lock->until = days <= (UINT64_MAX - apply->stamp) / NS_PER_DAY
                      ? apply->stamp + days * NS_PER_DAY
                      : UINT64_MAX;
    return lock;
}

Kist__Outcome lock_check_retention(const Kist__Lock *old, const Kist__Lock *retention, uint64_t now,
                                   bool bypass)
{
    bool weaker;

    if (!retention_active(old, now)) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    weaker = retention->mode != old->mode || retention->until < old->until;
    if (!weaker || (old->mode == LOCK_GOVERNANCE && bypass)) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    return KIST__OUTCOME__RETENTION_SHORTENED;
}
