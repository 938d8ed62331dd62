#include "metad/apply/version.h"

#include "common/base/assert.h"
#include "common/client/version_id.h"
#include "metad/apply/change.h"
#include "metad/apply/due.h"
#include "metad/apply/liveness.h"
#include "metad/apply/lock.h"

void version_key_init(struct version_key *key, struct apply *apply, uint64_t bucket_id,
                      struct slice name)
{
    const Kist__Settings *settings;

    ASSERT(name.len >= 1 && name.len <= LIMIT_KEY_BYTES);
    *key = (struct version_key){.apply = apply,
                                .bucket = apply_bucket(apply, bucket_id),
                                .bucket_id = bucket_id,
                                .key = name};
    settings = key->bucket != NULL ? key->bucket->settings : NULL;
    if (settings != NULL && settings->versioning != NULL) {
        key->state = settings->versioning->state;
    }
}

bool version_check_kind(struct apply *apply, uint32_t kind)
{
    return kind <= (uint32_t)KIST__CHANGE_KIND__CHANGE_LOCK ||
           apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "kind of a change");
}

/* ---- Finding ---- */

static bool found_none(struct version *out)
{
    *out = (struct version){.record = NULL};
    return false;
}

static bool find_current(struct version_key *key, struct version *out)
{
    if (!key->current_known) {
        key->current = apply_current(key->apply, key->bucket_id, key->key);
        key->current_known = true;
    }
    *out = (struct version){.record = key->current};
    return out->record != NULL;
}

Kist__Record *version_current(struct version_key *key)
{
    struct version found;

    (void)find_current(key, &found);
    return found.record;
}

/* The first version of history that is not newer than this one. */
static bool find_from(struct version_key *key, uint64_t stamp, uint32_t tie, struct version *out)
{
    struct row_key from;
    struct row_key prefix;
    struct slice value;

    key_object(&prefix, key->bucket_id, key->key, KIND_HISTORY, SLICE_EMPTY);
    key_history(&from, key->bucket_id, key->key, stamp, tie);
    if (!apply_history_from(key->apply, &from, &prefix, &value)) {
        return found_none(out);
    }
    out->in_history = true;
    out->record = message_unpack(key->apply->arena, &kist__record__descriptor, value);
    if (out->record == NULL) {
        apply_fail(key->apply, "a row of history does not decode");
    }
    return out->record != NULL;
}

static bool find_newest_of_history(struct version_key *key, struct version *out)
{
    if (key->state == VERSIONS_OFF) {
        return found_none(out);
    }
    return find_from(key, UINT64_MAX, UINT32_MAX, out);
}

static bool find_in_history(struct version_key *key, uint64_t stamp, uint32_t tie,
                            struct version *out)
{
    struct row_key row;

    key_history(&row, key->bucket_id, key->key, stamp, tie);
    out->in_history = true;
    out->record = apply_load(key->apply, FAMILY_HISTORY, &row, &kist__record__descriptor);
    return out->record != NULL;
}

bool version_newest(struct version_key *key, struct version *out)
{
    return find_current(key, out) || find_newest_of_history(key, out);
}

static void null_row(struct row_key *row, struct version_key *key)
{
    key_object(row, key->bucket_id, key->key, KIND_NULL_VERSION, SLICE_EMPTY);
}

bool version_null(struct version_key *key, struct version *out)
{
    const Kist__VersionName *name;
    struct row_key row;

    if (find_current(key, out) && (out->record->null_version || key->state == VERSIONS_OFF)) {
        return true;
    }
    if (key->state == VERSIONS_OFF) {
        return found_none(out);
    }
    null_row(&row, key);
    name = apply_load(key->apply, FAMILY_ROWS, &row, &kist__version_name__descriptor);
    if (name == NULL) {
        return found_none(out);
    }
    if (!find_in_history(key, name->stamp, name->tie, out)) {
        apply_fail(key->apply, "a null version is not where its row says");
    }
    return out->record != NULL;
}

bool version_find_exact(struct version_key *key, uint64_t stamp, uint32_t tie, struct version *out)
{
    if (find_current(key, out) && out->record->stamp == stamp && out->record->tie == tie) {
        return true;
    }
    return key->state == VERSIONS_OFF ? found_none(out) : find_in_history(key, stamp, tie, out);
}

bool version_find(struct version_key *key, struct slice name, struct version *out)
{
    uint64_t stamp;
    uint32_t tie;

    if (name.len == 0) {
        return version_newest(key, out);
    }
    if (version_id_is_null(name)) {
        return version_null(key, out);
    }
    return version_id_unpack(name, &stamp, &tie) ? version_find_exact(key, stamp, tie, out)
                                                 : found_none(out);
}

/* ---- Rows ---- */

static bool owns_layout(const Kist__Record *record)
{
    return record->layout_id.len > 0 && record->shared == NULL;
}

static void owner_row(struct row_key *row, struct version_key *key, const Kist__Record *record)
{
    key_object(row, key->bucket_id, key->key, KIND_OWNER, message_bytes(record->layout_id));
}

/* History, and what points into it. */
static void history_put(struct version_key *key, const Kist__Record *record)
{
    Kist__VersionName name = KIST__VERSION_NAME__INIT;
    struct row_key row;

    ASSERT(record->stamp != 0 && record->stamp <= key->apply->stamp);
    name.stamp = record->stamp;
    name.tie = record->tie;
    key_history(&row, key->bucket_id, key->key, record->stamp, record->tie);
    apply_put_message(key->apply, FAMILY_HISTORY, &row, &record->base);
    if (record->null_version) {
        null_row(&row, key);
        apply_put_message(key->apply, FAMILY_ROWS, &row, &name.base);
    }
    if (owns_layout(record)) {
        owner_row(&row, key, record);
        apply_put_message(key->apply, FAMILY_ROWS, &row, &name.base);
    }
}

static void history_delete(struct version_key *key, const Kist__Record *record)
{
    struct row_key row;

    key_history(&row, key->bucket_id, key->key, record->stamp, record->tie);
    apply_delete(key->apply, FAMILY_HISTORY, &row);
    if (record->null_version) {
        null_row(&row, key);
        apply_delete(key->apply, FAMILY_ROWS, &row);
    }
    if (owns_layout(record)) {
        owner_row(&row, key, record);
        apply_delete(key->apply, FAMILY_ROWS, &row);
    }
}

static void current_delete(struct version_key *key)
{
    struct row_key row;

    key_current(&row, key->bucket_id, key->key);
    apply_delete(key->apply, FAMILY_CURRENT, &row);
    key->current = NULL;
    key->current_known = true;
}

static void current_put(struct version_key *key, Kist__Record *record)
{
    apply_put_current(key->apply, key->bucket_id, key->key, record);
    key->current = record;
    key->current_known = true;
}

/* Lifecycle need not look at it in the role that it has had. */
static void forget_due(struct version_key *key, const Kist__Record *record)
{
    enum due_role role = record->delete_marker ? DUE_MARKER : DUE_CURRENT;

    due_forget(key->apply, key->bucket_id, key->key, record,
               record->noncurrent_since != 0 ? DUE_NONCURRENT : role);
}

/* The version is gone: its bytes, its share of the usage. */
static void version_drop(struct version_key *key, const Kist__Record *record, bool keeps_bytes)
{
    forget_due(key, record);
    if (record->delete_marker) {
        return;
    }
    /* Inline bytes lie under the version's stamp: they are never handed on. */
    if (!keeps_bytes || record->inline_body) {
        layout_drop_record(key->apply, key->bucket_id, key->key, record);
    }
    apply_usage(key->apply, key->bucket_id, -1, -(int64_t)record->size, 0);
}

/* ---- Notes ---- */

static void note_change(struct version_key *key, const struct version_cause *cause,
                        Kist__ChangeKind kind, const Kist__Record *record)
{
    if (cause->kind != KIST__CHANGE_KIND__CHANGE_NONE) {
        const struct change_by by = {.user = cause->user, .source_key = cause->source_key};

        change_note(key->apply, kind, key->bucket_id, key->key, record, by);
    }
}

static void note_due(struct version_key *key, const Kist__Record *record, bool newest)
{
    enum due_role role = DUE_NONCURRENT;

    if (newest) {
        role = record->delete_marker ? DUE_MARKER : DUE_CURRENT;
    }
    due_note(key->apply, key->bucket_id, key->key, record, role);
}

/* ---- A new newest version ---- */

/* What was the newest version lies below another from now on. */
static void demote(struct version_key *key, Kist__Record *record)
{
    forget_due(key, record);
    record->noncurrent_since = key->apply->stamp;
    history_put(key, record);
    note_due(key, record, false);
}

static bool same_version(const Kist__Record *a, const Kist__Record *b)
{
    return a->stamp == b->stamp && a->tie == b->tie;
}

/* Makes room for a version that is to be the newest: drops the one it replaces, moves the newest
 * to history. The null version is replaced wherever it lies. A row of `current` is the caller's to
 * overwrite or to delete. */
static void begin_newest(struct version_key *key, Kist__Record *record, bool takes_bytes)
{
    struct version newest;
    struct version null;
    bool has_newest = version_newest(key, &newest);
    bool drops_newest = false;

    record->stamp = key->apply->stamp;
    record->tie = has_newest && newest.record->stamp == record->stamp ? newest.record->tie + 1 : 0;
    record->null_version = key->state != VERSIONS_ENABLED;
    record->noncurrent_since = 0;
    if (record->null_version && version_null(key, &null)) {
        drops_newest = has_newest && same_version(null.record, newest.record);
        if (null.in_history) {
            history_delete(key, null.record);
        }
        version_drop(key, null.record, takes_bytes);
    }
    if (has_newest && !drops_newest) {
        demote(key, newest.record);
    }
}

Kist__Outcome version_replaced(struct version_key *key, struct version *out)
{
    if (key->state == VERSIONS_ENABLED || !version_null(key, out)) {
        (void)found_none(out);
        return KIST__OUTCOME__OUTCOME_OK;
    }
    return lock_holds(out->record, key->apply->stamp, false) ? KIST__OUTCOME__OBJECT_LOCKED
                                                             : KIST__OUTCOME__OUTCOME_OK;
}

void version_put(struct version_key *key, Kist__Record *record, bool takes_bytes,
                 const struct version_cause *cause)
{
    ASSERT(!record->delete_marker);
    begin_newest(key, record, takes_bytes);
    current_put(key, record);
    apply_usage(key->apply, key->bucket_id, 1, (int64_t)record->size, 0);
    note_change(key, cause, cause->kind, record);
    note_due(key, record, true);
}

/* ---- Deletes ---- */

static Kist__ChangeKind marker_kind(const struct version_cause *cause)
{
    return cause->kind == KIST__CHANGE_KIND__CHANGE_EXPIRE
               ? KIST__CHANGE_KIND__CHANGE_EXPIRE_MARKER
               : KIST__CHANGE_KIND__CHANGE_DELETE_MARKER;
}

static void put_marker(struct version_key *key, const struct version_cause *cause,
                       Kist__Deleted *deleted)
{
    Kist__Record marker = KIST__RECORD__INIT;

    marker.delete_marker = true;
    marker.owner = message_field(cause->user);
    begin_newest(key, &marker, false);
    if (key->current != NULL) {
        current_delete(key);
    }
    history_put(key, &marker);
    note_change(key, cause, marker_kind(cause), &marker);
    note_due(key, &marker, true);
    deleted->delete_marker = true;
    deleted->stamp = marker.stamp;
    deleted->tie = marker.tie;
    deleted->null_version = marker.null_version;
}

Kist__Outcome version_delete_newest(struct version_key *key, const struct version_cause *cause,
                                    bool bypass, Kist__Deleted *deleted)
{
    struct version replaced = {.record = NULL};

    if (key->state != VERSIONS_ENABLED && version_null(key, &replaced) &&
        lock_holds(replaced.record, key->apply->stamp, bypass)) {
        return KIST__OUTCOME__OBJECT_LOCKED;
    }
    if (key->state != VERSIONS_OFF) {
        put_marker(key, cause, deleted);
    } else if (replaced.record != NULL) {
        current_delete(key);
        version_drop(key, replaced.record, false);
        note_change(key, cause, cause->kind, replaced.record);
    }
    return KIST__OUTCOME__OUTCOME_OK;
}

/* The newest version went: the next one is the newest now. */
static void promote(struct version_key *key, const Kist__Record *gone)
{
    struct version next;

    if (!find_from(key, gone->stamp, gone->tie, &next)) {
        return;
    }
    forget_due(key, next.record);
    if (next.record->delete_marker) {
        next.record->noncurrent_since = 0;
        history_put(key, next.record);
    } else {
        history_delete(key, next.record);
        next.record->noncurrent_since = 0;
        current_put(key, next.record);
    }
    note_due(key, next.record, true);
}

/* A version of history went. A marker that is alone now may be cleaned up. */
static void removed_from_history(struct version_key *key, const Kist__Record *gone)
{
    struct version newest;

    if (find_current(key, &newest) || !find_newest_of_history(key, &newest)) {
        return;
    }
    if (newest.record->stamp < gone->stamp ||
        (newest.record->stamp == gone->stamp && newest.record->tie < gone->tie)) {
        promote(key, gone);
    } else {
        note_due(key, newest.record, true);
    }
}

Kist__Outcome version_remove(struct version_key *key, const struct version *version,
                             const struct version_cause *cause, bool bypass)
{
    const Kist__Record *record = version->record;

    ASSERT(record != NULL);
    if (lock_holds(record, key->apply->stamp, bypass)) {
        return KIST__OUTCOME__OBJECT_LOCKED;
    }
    version_drop(key, record, false);
    if (version->in_history) {
        history_delete(key, record);
        removed_from_history(key, record);
    } else {
        current_delete(key);
        if (key->state != VERSIONS_OFF) {
            promote(key, record);
        }
    }
    note_change(key, cause, cause->kind, record);
    return KIST__OUTCOME__OUTCOME_OK;
}

void version_rewrite(struct version_key *key, const struct version *version,
                     const struct version_cause *cause)
{
    Kist__Record *record = version->record;

    if (version->in_history) {
        history_put(key, record);
    } else {
        current_put(key, record);
    }
    note_change(key, cause, cause->kind, record);
    note_due(key, record, !version->in_history);
}
