/*
 * RENAME_OBJECT: the source's current version becomes the destination's and is gone at the source,
 * in one entry. The layout keeps its home: the new name holds a reference, the old one drops its
 * own.
 *
 *     not versioned   the record moves
 *     versioned       a new version there, a delete marker here
 *
 * A client token makes it repeatable: a row of the bucket keeps the first answer for a day. It
 * stands under the empty key, which no object has, because a repeat may name other keys.
 */
#include "common/base/assert.h"
#include "metad/apply/conditions.h"
#include "metad/apply/lock.h"
#include "metad/apply/share.h"

enum { RENAME_TOKEN_BYTES = REQUEST_ID_BYTES, RENAME_DIGEST_BYTES = 16 };

static const uint64_t RENAME_REPEAT_NS = 24ULL * 3600 * 1000000000ULL;

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
    if (call->token.len > 0 &&
        (call->token.len != RENAME_TOKEN_BYTES || call->digest.len != RENAME_DIGEST_BYTES)) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "token");
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
        if (outcome == KIST__OUTCOME__NO_SUCH_KEY) { /* that would speak of the source */
            outcome = KIST__OUTCOME__PRECONDITION_FAILED;
        }
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

/* ---- Repeats ---- */

static void rename_token_row(struct row_key *row, const Kist__RenameObject *call)
{
    key_object(row, call->bucket_id, SLICE_EMPTY, KIND_REQUEST, message_bytes(call->token));
}

/* True: the token is known, and the command has its answer. */
static bool rename_is_repeat(struct apply *apply, const Kist__RenameObject *call)
{
    const Kist__Request *request;
    const Kist__Reply *reply;
    struct row_key row;

    if (call->token.len == 0) {
        return false;
    }
    rename_token_row(&row, call);
    request = apply_load(apply, FAMILY_ROWS, &row, &kist__request__descriptor);
    if (request == NULL || request->due < apply->stamp) {
        return false;
    }
    if (!slice_eq(message_bytes(request->digest), message_bytes(call->digest))) {
        (void)apply_refuse(apply, KIST__OUTCOME__TOKEN_MISMATCH);
        return true;
    }
    reply = message_unpack(apply->arena, &kist__reply__descriptor, message_bytes(request->reply));
    if (reply == NULL) {
        apply_fail(apply, "the answer of a rename does not decode");
        return true;
    }
    apply->reply = *reply;
    return true;
}

/* What of the answer clients are told. */
static void rename_keep(struct apply *apply, const Kist__RenameObject *call)
{
    Kist__Request request = KIST__REQUEST__INIT;
    Kist__Record record = KIST__RECORD__INIT;
    Kist__Reply reply = apply->reply;
    struct row_key row;

    if (call->token.len == 0) {
        return;
    }
    ASSERT(reply.record != NULL && reply.outcome == KIST__OUTCOME__OUTCOME_OK);
    record.stamp = reply.record->stamp;
    record.tie = reply.record->tie;
    record.null_version = reply.record->null_version;
    record.size = reply.record->size;
    record.etag = reply.record->etag;
    record.part_count = reply.record->part_count;
    record.segments = reply.record->segments;
    reply.record = &record;
    request.due = apply->stamp + RENAME_REPEAT_NS;
    request.reply = message_field(message_pack(apply->arena, &reply.base));
    request.digest = call->digest;
    rename_token_row(&row, call);
    apply_put_message(apply, FAMILY_ROWS, &row, &request.base);
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

    if (!rename_check(apply, call) || rename_is_repeat(apply, call)) {
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
    rename_keep(apply, call);
}
