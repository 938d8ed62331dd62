/*
 * COPY_OBJECT within one range: one command, whatever the size. The layout gains a reference at its
 * home; an inline body is small enough to be written again. No datad is asked.
 *
 *     source: bucket, record, conditions, version    destination: bucket, conditions
 *     layout of the source's own -> reference at the source key
 *     layout that the source shares -> reference at that home: chains do not grow
 *     onto itself -> the record changes, the layout stays where it is
 */
#include "metad/apply/conditions.h"
#include "metad/apply/liveness.h"
#include "metad/apply/record_check.h"

static bool copy_onto_itself(const Kist__CopyObject *copy)
{
    return copy->source_bucket_id == copy->bucket_id &&
           slice_eq(message_bytes(copy->source_key), message_bytes(copy->key));
}

static bool copy_check_source(struct apply *apply, const Kist__CopyObject *copy,
                              const Kist__Record *source)
{
    Kist__Outcome outcome;

    if (source == NULL) {
        return apply_refuse(apply, KIST__OUTCOME__NO_SUCH_KEY);
    }
    outcome = conditions_read(copy->source_conditions, source);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        return apply_refuse(apply, outcome);
    }
    if (copy->source_stamp != 0 && copy->source_stamp != source->stamp) {
        return apply_refuse_text(apply, KIST__OUTCOME__PRECONDITION_FAILED, "source changed");
    }
    if (copy->size_max != 0 && source->size > copy->size_max) {
        return apply_refuse(apply, KIST__OUTCOME__SOURCE_TOO_LARGE);
    }
    return true;
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
    record->stamp = apply->stamp;
    record->owner = copy->record->owner;
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
    if (copy->record->n_tags > 0) {
        record->tags = copy->record->tags;
        record->n_tags = copy->record->n_tags;
    }
    return record;
}

static bool copy_inline(struct apply *apply, const Kist__CopyObject *copy,
                        const Kist__Record *source)
{
    struct row_key row;
    struct slice body;

    key_inline(&row, copy->source_bucket_id, message_bytes(copy->source_key), source->stamp);
    if (!apply_get(apply, FAMILY_INLINE, &row, &body)) {
        apply_fail(apply, "an inline body is missing");
        return false;
    }
    apply_put_inline(apply, copy->bucket_id, message_bytes(copy->key), apply->stamp, body);
    return true;
}

static bool copy_share(struct apply *apply, const Kist__CopyObject *copy,
                       const Kist__Record *source, Kist__Record *record)
{
    Kist__Reference *reference = arena_alloc(apply->arena, sizeof(*reference));

    kist__reference__init(reference);
    if (source->shared != NULL) {
        *reference = *source->shared;
    } else {
        reference->layout_id = source->layout_id;
        reference->home_bucket = copy->source_bucket_id;
        reference->home_key = copy->source_key;
    }
    reference->reference_id = copy->copy_id;
    record->shared = reference;
    return layout_add_reference(apply, reference, copy->bucket_id, message_bytes(copy->key));
}

static bool copy_bytes(struct apply *apply, const Kist__CopyObject *copy,
                       const Kist__Record *source, Kist__Record *record)
{
    if (source->inline_body) {
        return copy_inline(apply, copy, source);
    }
    if (source->layout_id.len == 0 || copy_onto_itself(copy)) {
        return true;
    }
    return copy_share(apply, copy, source, record);
}

void apply_copy_object(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__CopyObject *copy = (const Kist__CopyObject *)message;
    struct slice key = message_bytes(copy->key);
    const Kist__Record *source;
    const Kist__Record *old;
    Kist__Record *record;
    Kist__Outcome outcome;

    if (!copy_check(apply, copy)) {
        return;
    }
    source = apply_current(apply, copy->source_bucket_id, message_bytes(copy->source_key));
    if (!copy_check_source(apply, copy, source)) {
        return;
    }
    old = apply_current(apply, copy->bucket_id, key);
    outcome = conditions_write(copy->conditions, old);
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        (void)apply_refuse(apply, outcome);
        return;
    }
    record = copy_record(apply, copy, source);
    if (!copy_bytes(apply, copy, source, record)) {
        return;
    }
    if (old != NULL && (record->inline_body || !copy_onto_itself(copy))) {
        layout_drop_record(apply, copy->bucket_id, key, old);
    }
    apply_put_current(apply, copy->bucket_id, key, record);
    apply_usage(apply, copy->bucket_id, old == NULL ? 1 : 0,
                (int64_t)record->size - (old != NULL ? (int64_t)old->size : 0), 0);
    apply->reply.record = record;
}
