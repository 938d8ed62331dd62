/*
 * RUN_DUE: what lifecycle has to look at now. The leader reads `due` rows in order of time
 * (metad/lifecycle.c) and names them here; each version is judged again, by the rules and the rows
 * of this moment and the stamp of the command.
 *
 *     row -> version still there? -> what it is now (newest, older, lone marker, upload)
 *         -> a rule acts: expired | a rule will: a later row | none: the row just goes
 *
 * A lock outlives every rule: a locked version gets a row at the end of its lock. One held by legal
 * hold gets one when the hold is lifted (version_rewrite).
 */
#include "common/base/assert.h"
#include "common/lifecycle/lifecycle.h"
#include "metad/apply/due.h"
#include "metad/apply/upload.h"
#include "metad/apply/version.h"

enum { DUE_PARTS_MAX = 2000 }; /* aborted uploads of more parts end the command: some 10 ms */

struct due_op {
    struct apply *apply;
    const Kist__Lifecycle *rules;
    struct version_key key;
    struct version_cause cause;
    uint32_t parts;
};

static void due_later(struct due_op *op, const Kist__Record *record, uint64_t due)
{
    due_put_version(op->apply, op->key.bucket_id, op->key.key, record, due);
}

/* Looked at again when the lock ends. */
static void due_locked(struct due_op *op, const Kist__Record *record)
{
    if (record->lock != NULL && !record->lock->legal_hold &&
        record->lock->until > op->apply->stamp) {
        due_later(op, record, lifecycle_midnight(op->rules, record->lock->until));
    }
}

/* ---- The newest version ---- */

static void judge_current(struct due_op *op, const struct version *version)
{
    uint64_t due = lifecycle_current(op->rules, op->key.key, version->record).due;
    Kist__Deleted deleted = KIST__DELETED__INIT;

    if (due > op->apply->stamp) {
        due_later(op, version->record, due);
    } else if (version_delete_newest(&op->key, &op->cause, false, &deleted) ==
               KIST__OUTCOME__OBJECT_LOCKED) {
        due_locked(op, version->record);
    }
}

/* The version of history that follows this one. */
static bool next_version(struct due_op *op, const Kist__Record *record, struct version *out)
{
    struct row_key from;
    struct row_key prefix;
    struct slice value;

    key_object(&prefix, op->key.bucket_id, op->key.key, KIND_HISTORY, SLICE_EMPTY);
    if (record != NULL) {
        key_history(&from, op->key.bucket_id, op->key.key, record->stamp, record->tie);
        row_key_append(&from, SLICE("\0"));
    } else {
        from = prefix;
    }
    if (!apply_history_from(op->apply, &from, &prefix, &value)) {
        return false;
    }
    out->in_history = true;
    out->record = message_unpack(op->apply->arena, &kist__record__descriptor, value);
    if (out->record == NULL) {
        apply_fail(op->apply, "a row of history does not decode");
    }
    return out->record != NULL;
}

/* Only a marker that is alone is cleaned up. When it becomes so later, version.c notes it. */
static void judge_marker(struct due_op *op, const struct version *version)
{
    uint64_t due = lifecycle_marker(op->rules, op->key.key, version->record, 0).due;
    struct version next;

    if (next_version(op, version->record, &next) || op->apply->error.rc != RC_OK) {
        return;
    }
    if (due > op->apply->stamp) {
        due_later(op, version->record, due);
    } else {
        (void)version_remove(&op->key, version, &op->cause, false);
    }
}

/* ---- Older versions ---- */

static bool same_version(const Kist__Record *a, const Kist__Record *b)
{
    return a->stamp == b->stamp && a->tie == b->tie;
}

/* How many noncurrent versions are newer than this one; counted up to `max`. */
static uint32_t count_newer(struct due_op *op, const Kist__Record *record, uint32_t max)
{
    struct version at = {.record = NULL};
    bool has_current = apply_current(op->apply, op->key.bucket_id, op->key.key) != NULL;
    uint32_t count = 0;

    if (!has_current && !next_version(op, NULL, &at)) {
        return 0;
    }
    while (count < max && next_version(op, at.record, &at) && !same_version(at.record, record)) {
        count += 1;
    }
    return count;
}

/* False: it has expired. */
static bool judge_noncurrent(struct due_op *op, const struct version *version, uint32_t newer)
{
    uint64_t due = lifecycle_noncurrent(op->rules, op->key.key, version->record, newer).due;

    if (due > op->apply->stamp) {
        due_later(op, version->record, due);
        return true;
    }
    if (version_remove(&op->key, version, &op->cause, false) == KIST__OUTCOME__OBJECT_LOCKED) {
        due_locked(op, version->record);
        return true;
    }
    return false;
}

/* The version, and those that it has pushed out of the ones that a rule keeps. */
static void judge_history(struct due_op *op, const struct version *version)
{
    uint32_t keep = lifecycle_keep(op->rules);
    uint32_t newer = keep > 0 ? count_newer(op, version->record, keep) : 0;
    struct version at = *version;

    for (uint32_t i = 0; i <= keep; i++) {
        struct version next = {.record = NULL};
        bool more = i < keep && next_version(op, at.record, &next);

        newer += judge_noncurrent(op, &at, newer) ? 1 : 0;
        if (!more) {
            return;
        }
        at = next;
    }
}

/* ---- One row ---- */

static void judge_version(struct due_op *op, const struct due_row *row)
{
    struct version version;
    struct version newest;

    version_key_init(&op->key, op->apply, row->bucket_id, row->key);
    if (!version_find_exact(&op->key, row->stamp, row->tie, &version)) {
        return; /* overwritten or deleted meanwhile */
    }
    if (!version.in_history) {
        judge_current(op, &version);
    } else if (version_newest(&op->key, &newest) && same_version(newest.record, version.record)) {
        judge_marker(op, &version);
    } else {
        judge_history(op, &version);
    }
}

static void judge_upload(struct due_op *op, const struct due_row *row)
{
    const Kist__Upload *upload = upload_load(op->apply, row->bucket_id, row->key, row->upload_id);

    if (upload == NULL) {
        return; /* completed or aborted meanwhile */
    }
    if (lifecycle_upload(op->rules, row->key, upload).due > op->apply->stamp) {
        due_note_upload(op->apply, row->bucket_id, row->key, upload);
        return;
    }
    op->parts += upload_abort(op->apply, row->bucket_id, row->key, row->upload_id);
}

/* False: not a row of this kind. */
static bool run_row(struct due_op *op, struct slice row_key)
{
    struct apply *apply = op->apply;
    struct row_key key = {.len = 0};
    struct due_row row;
    struct slice value;

    if (!due_parse(apply, row_key, &row)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "due row");
    }
    row_key_append(&key, row_key);
    if (row.due > apply->stamp || !apply_get(apply, FAMILY_ROWS, &key, &value)) {
        return true; /* too early, or done already: a repeat */
    }
    apply_delete(apply, FAMILY_ROWS, &key);
    if (bucket_table_get(apply->buckets, row.bucket_id) == 0) {
        return true;
    }
    op->rules = due_rules(apply, row.bucket_id);
    if (op->rules != NULL) {
        op->cause = (struct version_cause){
            .kind = KIST__CHANGE_KIND__CHANGE_EXPIRE,
            .user = message_bytes(apply_bucket(apply, row.bucket_id)->owner)};
        if (row.kind == DUE_VERSION) {
            judge_version(op, &row);
        } else {
            judge_upload(op, &row);
        }
    }
    return true;
}

void apply_run_due(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__RunDue *call = (const Kist__RunDue *)message;
    struct due_op op = {.apply = apply};

    if (call->n_rows == 0 || call->n_rows > LIMIT_DUE_ROWS) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "number of rows");
        return;
    }
    for (size_t i = 0; i < call->n_rows; i++) {
        if (op.parts > DUE_PARTS_MAX) {
            break;
        }
        if (!run_row(&op, message_bytes(call->rows[i])) || apply->error.rc != RC_OK) {
            return;
        }
        apply->reply.first = i + 1;
    }
}
