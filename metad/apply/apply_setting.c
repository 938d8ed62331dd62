/*
 * PUT_SETTING: one setting of a bucket, put or deleted, in root's row and the range's, with a new
 * generation: what was judged by the old settings is judged again.
 *
 *     the bucket that was judged? -> the setting's own rule -> merged -> bounded -> both rows
 *
 * A setting is a field of Settings found by its number, so a new one is a line in
 * common/client/setting.def; only what other settings or stored versions depend on has a rule here.
 */
#include "common/base/assert.h"
#include "common/base/limits.h"
#include "metad/apply/apply.h"
#include "metad/apply/change.h"
#include "metad/apply/job.h"
#include "metad/apply/root_rows.h"

enum { VERSIONING_ENABLED = 1, VERSIONING_SUSPENDED = 2, LOCK_MODES = 2 };
enum {
#define SETTING(number, name, field, message) SETTING_##name = (number),
#include "common/client/setting.def"
#undef SETTING
};

static bool setting_lock_enabled(const Kist__Settings *settings)
{
    return settings != NULL && settings->object_lock != NULL && settings->object_lock->enabled;
}

/* Once on it may be suspended, never forgotten; under object lock it stays on. */
static bool setting_check_versioning(struct apply *apply, const Kist__Settings *old,
                                     const Kist__Versioning *versioning)
{
    if (versioning == NULL ||
        (versioning->state != VERSIONING_ENABLED && versioning->state != VERSIONING_SUSPENDED)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "state of versioning");
    }
    if (versioning->state == VERSIONING_SUSPENDED && setting_lock_enabled(old)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_BUCKET_STATE,
                                 "An Object Lock configuration is present on this bucket, so the "
                                 "versioning state cannot be changed.");
    }
    return true;
}

static bool setting_check_lock(struct apply *apply, const Kist__Settings *settings,
                               const Kist__ObjectLock *lock)
{
    if (lock == NULL || !lock->enabled || lock->mode > LOCK_MODES ||
        (lock->mode == 0) != (lock->days == 0 && lock->years == 0) ||
        (lock->days != 0 && lock->years != 0)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "object lock");
    }
    if (settings == NULL || settings->versioning == NULL ||
        settings->versioning->state != VERSIONING_ENABLED) {
        return apply_refuse_text(
            apply, KIST__OUTCOME__INVALID_BUCKET_STATE,
            "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration");
    }
    return true;
}

static bool setting_check(struct apply *apply, uint32_t setting, const Kist__Settings *old,
                          const Kist__Settings *value)
{
    switch (setting) {
    case SETTING_VERSIONING:
        return setting_check_versioning(apply, old, value->versioning);
    case SETTING_OBJECT_LOCK:
        return setting_check_lock(apply, old, value->object_lock);
    default:
        return true;
    }
}

static bool setting_bounded(struct apply *apply, const Kist__Settings *settings)
{
    return kist__settings__get_packed_size(settings) <= LIMIT_SETTINGS_BYTES ||
           apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT,
                             "The settings of the bucket are larger than all of them together may "
                             "be.");
}

/* Do callers' rights, or the checks of other settings, depend on it? */
static bool setting_judges(uint32_t setting)
{
    switch (setting) {
    case SETTING_ACL:
    case SETTING_OWNERSHIP:
    case SETTING_PUBLIC_ACCESS_BLOCK:
    case SETTING_POLICY:
    case SETTING_REQUEST_PAYMENT:
        return true;
    default:
        return false;
    }
}

static const ProtobufCMessage *setting_field(const Kist__Settings *settings,
                                             const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessage *const *found = (const void *)((const char *)settings + field->offset);

    return *found;
}

/* Is it that already? */
static bool setting_same(struct apply *apply, const Kist__Settings *old,
                         const Kist__Settings *value, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessage *a = old != NULL ? setting_field(old, field) : NULL;
    const ProtobufCMessage *b = setting_field(value, field);

    if (a == NULL || b == NULL) {
        return a == b;
    }
    return slice_eq(message_pack(apply->arena, a), message_pack(apply->arena, b));
}

/* Moves one field over; all of them are messages, absent when NULL. */
static void setting_merge(Kist__Settings *to, Kist__Settings *from,
                          const ProtobufCFieldDescriptor *field)
{
    ASSERT(field->type == PROTOBUF_C_TYPE_MESSAGE);
    ASSERT(field->label != PROTOBUF_C_LABEL_REPEATED);
    memcpy((char *)to + field->offset, (char *)from + field->offset, sizeof(ProtobufCMessage *));
}

void apply_put_setting(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutSetting *call = (const Kist__PutSetting *)message;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&kist__settings__descriptor, call->setting);
    Kist__Bucket *bucket = root_bucket(apply, message_bytes(call->name));
    Kist__Settings none = KIST__SETTINGS__INIT;
    Kist__Settings *value = call->value != NULL ? call->value : &none;
    Kist__Settings *settings;

    if (field == NULL) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "number of the setting");
        return;
    }
    if (bucket == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_BUCKET);
        return;
    }
    if (bucket->id != call->bucket_id ||
        (call->generation != 0 && call->generation < bucket->judged_generation)) {
        (void)apply_refuse(apply, KIST__OUTCOME__STALE_GENERATION);
        return;
    }
    if (!setting_check(apply, call->setting, bucket->settings, value)) {
        return;
    }
    if (setting_judges(call->setting)) {
        if (setting_same(apply, bucket->settings, value, field)) {
            return; /* so those who put the same at once do not send one another back */
        }
        bucket->judged_generation = bucket->generation + 1;
    }
    change_on_setting(apply, bucket, bucket->settings, value, call->setting);
    if (bucket->settings == NULL) {
        bucket->settings = arena_alloc(apply->arena, sizeof(*bucket->settings));
        kist__settings__init(bucket->settings);
    }
    settings = bucket->settings;
    setting_merge(settings, value, field);
    if (!setting_bounded(apply, settings)) {
        return;
    }
    if (call->setting == SETTING_LIFECYCLE) {
        job_rules_changed(apply, bucket);
    }
    bucket->generation += 1;
    root_put_bucket(apply, bucket);
}

bool settings_begin(struct apply *apply, Kist__Settings *settings)
{
    Kist__Versioning *versioning;

    if (setting_lock_enabled(settings) && settings->versioning == NULL) {
        versioning = arena_alloc(apply->arena, sizeof(*versioning));
        kist__versioning__init(versioning);
        versioning->state = VERSIONING_ENABLED;
        settings->versioning = versioning;
    }
    if (settings->versioning != NULL &&
        !setting_check_versioning(apply, settings, settings->versioning)) {
        return false;
    }
    if (settings->object_lock != NULL &&
        !setting_check_lock(apply, settings, settings->object_lock)) {
        return false;
    }
    return setting_bounded(apply, settings);
}
