#include "gateway/s3/object_lock.h"

#include "common/codec/time_format.h"
#include "gateway/s3/setting.h"
#include "gateway/s3/write_body.h"

/* ---- Texts ---- */

const char *object_lock_mode_name(uint32_t mode)
{
    return mode == LOCK_COMPLIANCE ? "COMPLIANCE" : "GOVERNANCE";
}

enum lock_mode object_lock_mode_of(struct slice text)
{
    if (slice_eq(text, SLICE("GOVERNANCE"))) {
        return LOCK_GOVERNANCE;
    }
    return slice_eq(text, SLICE("COMPLIANCE")) ? LOCK_COMPLIANCE : LOCK_NONE;
}

struct slice object_lock_until_text(struct arena *arena, uint64_t until)
{
    char *out = arena_alloc_raw(arena, TIME_ISO8601_BYTES + 1);

    time_format_iso8601(until, out);
    return slice_of(out, TIME_ISO8601_BYTES);
}

enum step_result object_lock_until(struct s3_request *req, struct slice text, uint64_t *until)
{
    static const char name[] = "x-amz-object-lock-retain-until-date";
    struct env *env = req->gateway->env;

    if (!time_parse_iso8601(text, until)) {
        return s3_fail_argument(req, name, text,
                                "The retain until date must be provided in ISO 8601 format");
    }
    if (*until <= env->clock->wall_ns(env)) {
        return s3_fail_argument(req, name, text, "The retain until date must be in the future!");
    }
    return STEP_NEXT;
}

/* ---- Writes ---- */

static enum step_result lock_read_retention(struct s3_request *req, struct slice mode,
                                            struct slice until, Kist__Lock *lock)
{
    static const char both[] =
        "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied.";

    if (mode.data == NULL) {
        return s3_fail_argument(req, "x-amz-object-lock-mode", mode, both);
    }
    if (until.data == NULL) {
        return s3_fail_argument(req, "x-amz-object-lock-retain-until-date", until, both);
    }
    lock->mode = object_lock_mode_of(mode);
    if (lock->mode == LOCK_NONE) {
        return s3_fail_argument(req, "x-amz-object-lock-mode", mode, "Unknown wormMode directive.");
    }
    return object_lock_until(req, until, &lock->until);
}

enum step_result object_lock_from_request(struct s3_request *req, Kist__Record *record)
{
    struct slice mode = s3_header(req, "x-amz-object-lock-mode");
    struct slice until = s3_header(req, "x-amz-object-lock-retain-until-date");
    struct slice hold = s3_header(req, "x-amz-object-lock-legal-hold");
    Kist__Lock *lock;

    if (mode.data == NULL && until.data == NULL && hold.data == NULL) {
        return STEP_NEXT;
    }
    lock = arena_alloc_raw(req->arena, sizeof(*lock));
    kist__lock__init(lock);
    if (hold.data != NULL) {
        lock->legal_hold = slice_eq(hold, SLICE("ON"));
        lock->hold_known = true;
        if (!lock->legal_hold && !slice_eq(hold, SLICE("OFF"))) {
            return s3_fail_argument(req, "x-amz-object-lock-legal-hold", hold,
                                    "Legal Hold must be either of 'ON' or 'OFF'");
        }
    }
    if ((mode.data != NULL || until.data != NULL) &&
        lock_read_retention(req, mode, until, lock) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record->lock = lock;
    return STEP_NEXT;
}

enum step_result object_lock_needs_digest(struct s3_request *req, const Kist__Record *record)
{
    const Kist__ObjectLock *bucket = s3_settings(req->bucket)->object_lock;
    bool by_default = bucket != NULL && bucket->enabled && bucket->mode != LOCK_NONE;

    if ((record->lock == NULL && !by_default) || s3_write_body_announces_digest(req)) {
        return STEP_NEXT;
    }
    return s3_fail(req, S3_InvalidRequest,
                   "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object "
                   "requests with Object Lock parameters");
}

/* ---- Replies ---- */

void object_lock_reply(struct s3_request *req, const Kist__Record *record)
{
    const Kist__Lock *lock = record->lock;

    if (lock == NULL) {
        return;
    }
    if (lock->mode != LOCK_NONE &&
        s3_allowed_key(req, "s3:GetObjectRetention", req->bucket, req->key)) {
        s3_reply_header(req, "x-amz-object-lock-mode",
                        slice_str(object_lock_mode_name(lock->mode)));
        s3_reply_header(req, "x-amz-object-lock-retain-until-date",
                        object_lock_until_text(req->arena, lock->until));
    }
    if (lock->hold_known && s3_allowed_key(req, "s3:GetObjectLegalHold", req->bucket, req->key)) {
        s3_reply_header(req, "x-amz-object-lock-legal-hold",
                        lock->legal_hold ? SLICE("ON") : SLICE("OFF"));
    }
}

/* ---- Buckets, callers ---- */

bool object_lock_enabled(const Kist__Bucket *bucket)
{
    const Kist__ObjectLock *lock = s3_settings(bucket)->object_lock;

    return lock != NULL && lock->enabled;
}

bool object_lock_bypass_asked(const struct s3_request *req)
{
    return slice_eq_nocase(s3_header(req, "x-amz-bypass-governance-retention"), SLICE("true"));
}

bool object_lock_bypass(const struct s3_request *req, struct slice key)
{
    return object_lock_bypass_asked(req) &&
           s3_allowed_key(req, "s3:BypassGovernanceRetention", req->bucket, key);
}

static bool lock_bypass_suspect(const struct s3_request *req)
{
    return object_lock_bypass_asked(req) && !object_lock_enabled(req->bucket) &&
           s3_param(req, "versionId").len == 0;
}

enum step_result object_lock_bypass_ask(struct s3_request *req, struct meta_refresh *refresh)
{
    if (!lock_bypass_suspect(req)) {
        return STEP_NEXT;
    }
    return req->gateway->meta->refresh(req->gateway->meta, refresh, &req->task);
}

enum step_result object_lock_bypass_confirm(struct s3_request *req)
{
    static const char name[] = "x-amz-bypass-governance-retention";
    const Kist__Bucket *bucket;

    if (!lock_bypass_suspect(req)) {
        return STEP_NEXT;
    }
    bucket = view_bucket(req->gateway->meta->view(req->gateway->meta), req->bucket_name);
    if (bucket == NULL || object_lock_enabled(bucket)) {
        return STEP_NEXT; /* the command finds that the bucket has changed */
    }
    return s3_fail_argument(
        req, name, s3_header(req, name),
        "x-amz-bypass-governance-retention is only applicable to Object Lock enabled "
        "buckets.");
}
