/*
 * COPY_OBJECT within one range: one command, whatever the size. The layout gains a reference at its
 * home; an inline body is small enough to be written again. No datad is asked.
 *
 *     source: bucket, record, conditions, version    destination: bucket, conditions
 *     layout of the source's own -> reference at the source key
 *     layout that the source shares -> reference at that home: chains do not grow
 *     a version that the copy itself replaces (onto itself) -> the layout stays where it is
 */
#include "metad/apply/conditions.h"
#include "metad/apply/lock.h"
#include "metad/apply/record_check.h"
#include "metad/apply/share.h"

struct copy {
    struct apply *apply;
    const Kist__CopyObject *call;
    struct version_key from;
    struct version_key to;
    struct version source;
    struct version replaced;
};

/* The source's bytes are the ones that would be dropped. */
static bool copy_takes_bytes(const struct copy *op)
{
    const Kist__Record *source = op->source.record;
    const Kist__Record *replaced = op->replaced.record;

    return replaced != NULL && op->from.bucket_id == op->to.bucket_id &&
           slice_eq(op->from.key, op->to.key) && source->stamp == replaced->stamp &&
           source->tie == replaced->tie;
}

static bool copy_find_source(struct copy *op)
{
    struct slice name = message_bytes(op->call->source_version);

    if (name.len == 0) {
        op->source.record = version_current(&op->from);
        return op->source.record != NULL || apply_refuse(op->apply, KIST__OUTCOME__NO_SUCH_KEY);
    }
    if (!version_find(&op->from, name, &op->source)) {
        return apply_refuse(op->apply, KIST__OUTCOME__NO_SUCH_VERSION);
    }
    return !op->source.record->delete_marker ||
           apply_refuse(op->apply, KIST__OUTCOME__IS_DELETE_MARKER);
}

static bool copy_judge(struct copy *op)
{
    const Kist__CopyObject *copy = op->call;
    Kist__Outcome outcome;

    if (!copy_find_source(op)) {
        return false;
    }
    outcome = conditions_read(copy->source_conditions, op->source.record);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(op->apply, outcome);
    }
    if (copy->source_stamp != 0 && copy->source_stamp != op->source.record->stamp) {
        return apply_refuse_text(op->apply, KIST__OUTCOME__PRECONDITION_FAILED, "source changed");
    }
    if (copy->size_max != 0 && op->source.record->size > copy->size_max) {
        return apply_refuse(op->apply, KIST__OUTCOME__SOURCE_TOO_LARGE);
    }
    outcome = conditions_write(copy->conditions, version_current(&op->to));
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = version_replaced(&op->to, &op->replaced);
    }
    return outcome == KIST__OUTCOME__OUTCOME_OK || apply_refuse(op->apply, outcome);
}

static bool copy_check(struct apply *apply, const Kist__CopyObject *copy)
{
    if (!apply_check_bucket(apply, copy->source_bucket_id, copy->source_generation) ||
        !apply_check_bucket(apply, copy->bucket_id, copy->generation) ||
        !apply_check_key(apply, copy->source_key) || !apply_check_key(apply, copy->key) ||
        !apply_check_id(apply, copy->copy_id)) {
        return false;
    }
    if (copy->record == NULL) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "record");
    }
    return record_check(apply, copy->record);
}

/* Website redirects belong to one object and are never copied (AWS: CopyObject). */
static void drop_redirect(Kist__Record *record)
{
    size_t kept = 0;

    for (size_t i = 0; i < record->n_headers; i++) {
        if (!slice_eq(message_bytes(record->headers[i]->name),
                      SLICE("x-amz-website-redirect-location"))) {
            record->headers[kept++] = record->headers[i];
        }
    }
    record->n_headers = kept;
}

/* The source's record with what the copy changes. */
static Kist__Record *copy_record(struct apply *apply, const Kist__CopyObject *copy,
                                 const Kist__Record *source)
{
    Kist__Record *record = arena_alloc(apply->arena, sizeof(*record));

    *record = *source;
    record->owner = copy->record->owner;
    record->acl = copy->record->acl;
    record->lock = copy->record->lock;
    record->storage_class = copy->record->storage_class;
    if (copy->replace) {
        record->content_type = copy->record->content_type;
        record->headers = copy->record->headers;
        record->n_headers = copy->record->n_headers;
        record->metadata = copy->record->metadata;
        record->n_metadata = copy->record->n_metadata;
    } else {
        drop_redirect(record);
    }
    if (copy->record->n_checksums > 0) { /* computed anew, because the client asked for another */
        record->checksums = copy->record->checksums;
        record->n_checksums = copy->record->n_checksums;
    }
    if (copy->replace_tags || copy->record->n_tags > 0) {
        record->tags = copy->record->tags;
        record->n_tags = copy->record->n_tags;
    }
    return record;
}

/* Inline bytes lie under the version's stamp: they are written again in any case. */
static bool copy_bytes(struct copy *op, Kist__Record *record)
{
    if (copy_takes_bytes(op) && !record->inline_body) {
        return true;
    }
    return share_bytes(&op->from, op->source.record, &op->to, record, op->call->copy_id);
}

void apply_copy_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__CopyObject *copy = (const Kist__CopyObject *)message;
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_COPY};
    struct copy op = {.apply = apply, .call = copy};
    Kist__Record *record;

    if (!copy_check(apply, copy)) {
        return;
    }
    version_key_init(&op.from, apply, copy->source_bucket_id, message_bytes(copy->source_key));
    version_key_init(&op.to, apply, copy->bucket_id, message_bytes(copy->key));
    if (!copy_judge(&op) || !lock_check_new(apply, op.to.bucket, copy->record->lock)) {
        return;
    }
    record = copy_record(apply, copy, op.source.record);
    record->lock = lock_of_new(apply, op.to.bucket, record->lock);
    if (!copy_bytes(&op, record)) {
        return;
    }
    cause.user = message_bytes(record->owner);
    version_put(&op.to, record, copy_takes_bytes(&op), &cause);
    apply->reply.record = record;
}
