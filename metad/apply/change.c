#include "metad/apply/change.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/client/event_match.h"
#include "common/codec/hex.h"

enum { CHANGE_SUFFIX_BYTES = 4, ETAG_BYTES = 16, ETAG_TEXT_MAX = 48 };
enum { SETTING_NUMBER_NOTIFICATION = 11, SETTING_NUMBER_FEED = 13 };

/* ---- The row ---- */

static Kist__FeedState *change_state(struct apply *apply)
{
    struct row_key row;

    if (apply->feed == NULL) {
        key_range(&row, apply->range_id, KIND_FEED, SLICE_EMPTY);
        apply->feed = apply_load(apply, FAMILY_ROWS, &row, &kist__feed_state__descriptor);
    }
    if (apply->feed == NULL) {
        apply->feed = arena_alloc(apply->arena, sizeof(*apply->feed));
        kist__feed_state__init(apply->feed);
    }
    return apply->feed;
}

static void change_put(struct apply *apply, const Kist__Change *change)
{
    Kist__FeedState *state = change_state(apply);
    struct slice value = message_pack(apply->arena, &change->base);
    uint8_t number[CHANGE_SUFFIX_BYTES];
    struct row_key row;

    apply->change_count += 1;
    be32_put(number, apply->change_count);
    key_range_u64(&row, apply->range_id, KIND_CHANGE, apply->stamp,
                  slice_of(number, sizeof(number)));
    apply_put_unread(apply, FAMILY_ROWS, &row, value);
    state->bytes += row.len + value.len;
    state->count += 1;
}

void change_finish(struct apply *apply)
{
    struct row_key row;

    if (apply->feed != NULL && apply->reply.outcome == KIST__OUTCOME__OUTCOME_OK) {
        key_range(&row, apply->range_id, KIND_FEED, SLICE_EMPTY);
        apply_put_message(apply, FAMILY_ROWS, &row, &apply->feed->base);
    }
}

/* ---- Whom it concerns ---- */

static void change_add_target(struct apply *apply, Kist__Change *change,
                              const Kist__NotificationTarget *target)
{
    Kist__ChangeTarget *told;
    struct slice region;
    struct slice sink;

    if (!event_sink_of(message_bytes(target->arn), &region, &sink)) {
        return;
    }
    told = arena_alloc(apply->arena, sizeof(*told));
    kist__change_target__init(told);
    told->sink = message_field(sink);
    told->id = target->id;
    change->targets[change->n_targets++] = told;
}

static void change_targets(struct apply *apply, Kist__Change *change,
                           const Kist__Notification *notification)
{
    uint32_t bit = event_bit(change->kind);

    if (notification == NULL || notification->n_targets == 0) {
        return;
    }
    change->targets = (Kist__ChangeTarget **)arena_alloc(
        apply->arena, notification->n_targets * sizeof(*change->targets));
    for (size_t i = 0; i < notification->n_targets; i++) {
        if (event_wanted(notification->targets[i], bit, message_bytes(change->key))) {
            change_add_target(apply, change, notification->targets[i]);
        }
    }
}

static bool change_feed_on(const struct apply *apply, const Kist__Settings *settings)
{
    return settings->feed != NULL &&
           (settings->feed->enabled || settings->feed->until >= apply->stamp);
}

static ProtobufCBinaryData change_etag(struct apply *apply, const Kist__Record *record)
{
    char *text = arena_alloc(apply->arena, ETAG_TEXT_MAX);
    size_t len = 2 * (size_t)ETAG_BYTES;

    if (record->etag.len != ETAG_BYTES || record->delete_marker) {
        return (ProtobufCBinaryData){.len = 0, .data = NULL};
    }
    hex_encode(text, record->etag.data, ETAG_BYTES);
    if (record->part_count > 0 || record->segments > 1) {
        len += (size_t)snprintf(text + len, ETAG_TEXT_MAX - len, "-%u",
                                record->part_count > 0 ? record->part_count : record->segments);
    }
    return message_field(slice_of(text, len));
}

static void change_fill(struct apply *apply, Kist__Change *change, const Kist__Bucket *bucket,
                        const Kist__Record *record)
{
    const Kist__Settings *settings = bucket->settings;

    change->bucket_id = bucket->id;
    change->bucket_name = bucket->name;
    change->bucket_owner = bucket->owner;
    change->versioned = settings->versioning != NULL && settings->versioning->state != 0;
    if (record != NULL) {
        change->size = record->size;
        change->etag = change_etag(apply, record);
        change->stamp = record->stamp;
        change->tie = record->tie;
        change->null_version = record->null_version;
    }
}

static void change_add(struct apply *apply, Kist__Change *change, const Kist__Settings *settings)
{
    change_targets(apply, change, settings->notification);
    if (change->n_targets > 0 || change_feed_on(apply, settings)) {
        change_put(apply, change);
    }
}

/* Does anybody want to know what happens in the bucket? */
static bool change_wanted(const struct apply *apply, const Kist__Settings *settings)
{
    return settings != NULL &&
           (change_feed_on(apply, settings) ||
            (settings->notification != NULL && settings->notification->n_targets > 0));
}

/* Those who know only of deletes and creations must learn of both. */
static void change_note_gone(struct apply *apply, const Kist__Bucket *bucket, struct slice key,
                             struct slice user)
{
    Kist__Change gone = KIST__CHANGE__INIT;

    change_fill(apply, &gone, bucket, NULL);
    gone.kind = KIST__CHANGE_KIND__CHANGE_DELETE;
    gone.key = message_field(key);
    gone.user = message_field(user);
    change_add(apply, &gone, bucket->settings);
}

void change_note(struct apply *apply, Kist__ChangeKind kind, uint64_t bucket_id, struct slice key,
                 const Kist__Record *record, struct change_by by)
{
    const Kist__Bucket *bucket = apply_bucket(apply, bucket_id);
    Kist__Change change = KIST__CHANGE__INIT;

    if (bucket == NULL || !change_wanted(apply, bucket->settings)) {
        return;
    }
    if (kind == KIST__CHANGE_KIND__CHANGE_RENAME) {
        change_note_gone(apply, bucket, by.source_key, by.user);
    }
    change_fill(apply, &change, bucket, record);
    change.kind = kind;
    change.key = message_field(key);
    change.user = message_field(by.user);
    change.source_key = message_field(by.source_key);
    change_add(apply, &change, bucket->settings);
}

/* ---- Settings ---- */

/* Listeners raise `until` and leave the rest; whoever puts the setting leaves `until`. */
static void change_merge_feed(struct apply *apply, const Kist__Feed *old, Kist__Feed *feed)
{
    bool was_on = old != NULL && (old->enabled || old->until >= apply->stamp);

    if (feed->until != 0) {
        feed->enabled = old != NULL && old->enabled;
        feed->until = old != NULL && old->until > feed->until ? old->until : feed->until;
    } else {
        feed->until = old != NULL ? old->until : 0;
    }
    feed->since = was_on ? old->since : apply->stamp;
}

static void change_tell(struct apply *apply, const Kist__Bucket *bucket,
                        const Kist__Settings *settings, const Kist__Notification *notification)
{
    Kist__Bucket now = *bucket;
    Kist__Settings none = KIST__SETTINGS__INIT;
    Kist__Change change = KIST__CHANGE__INIT;

    now.settings = (Kist__Settings *)(uintptr_t)(settings != NULL ? settings : &none);
    change_fill(apply, &change, &now, NULL);
    change.kind = KIST__CHANGE_KIND__CHANGE_TEST;
    change.targets = (Kist__ChangeTarget **)arena_alloc(
        apply->arena, (notification->n_targets + 1) * sizeof(*change.targets));
    for (size_t i = 0; i < notification->n_targets; i++) {
        change_add_target(apply, &change, notification->targets[i]);
    }
    if (change.n_targets > 0) {
        change_put(apply, &change);
    }
}

void change_on_setting(struct apply *apply, const Kist__Bucket *bucket, const Kist__Settings *old,
                       Kist__Settings *value, uint32_t setting)
{
    if (setting == SETTING_NUMBER_FEED && value->feed != NULL) {
        change_merge_feed(apply, old != NULL ? old->feed : NULL, value->feed);
    }
    if (setting == SETTING_NUMBER_NOTIFICATION && value->notification != NULL) {
        change_tell(apply, bucket, old, value->notification);
    }
}
