/*
 * CompleteMultipartUpload.
 *
 *     check -> upload -> parts (again for each page) -> commit -> reply
 *
 * One command of metad: it compares the list with its part rows, decides conditions, sizes and the
 * object's checksum, and makes the object visible. Here only what needs the document is checked:
 * the checksums of single parts. When the upload is not there any more, the command is sent all the
 * same: a repeat of a Complete gets the first answer.
 */
#include "common/base/limits.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/manifest.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/upload.h"

enum { COMPLETE_PAGE_PARTS = 500 };

struct complete_upload {
    struct s3_request base;
    struct task lookup; /* a sub-task, because it may fail without failing us */
    struct meta_list_parts call;
    struct meta_write write;
    Kist__CompleteUpload message;
    Kist__Conditions conditions;
    Kist__Checksum checksum;
    struct checksum_value declared;
    uint32_t declared_parts; /* the number behind a composite one; 0: none */
    struct manifest manifest;
    struct slice upload_id;
    enum checksum_algorithm algorithm; /* of the upload; its row lies in the page's arena */
    struct arena page;                 /* parts of one page */
    bool page_open;
    bool lookup_done;
    bool lookup_waited;
    uint32_t after; /* part rows up to this are compared */
};

static struct complete_upload *complete_of(struct task *task)
{
    return CONTAINER_OF(task, struct complete_upload, base.task);
}

/* ---- Check ---- */

static enum step_result complete_bad_checksum(struct complete_upload *op,
                                              enum checksum_algorithm algorithm)
{
    return s3_failf(&op->base, S3_InvalidRequest, "Value for %s header is invalid.",
                    checksum_header(algorithm));
}

/* "<base64>" or "<base64>-<parts>". */
static bool complete_parse_checksum(struct complete_upload *op, enum checksum_algorithm algorithm,
                                    struct slice text)
{
    size_t dash = slice_find(text, '-');
    uint64_t parts = 0;

    if (dash < text.len &&
        (!slice_to_u64(slice_after(text, dash + 1), LIMIT_PARTS, &parts) || parts == 0)) {
        return false;
    }
    op->declared_parts = (uint32_t)parts;
    return checksum_parse(algorithm, slice_of(text.data, dash), &op->declared);
}

/* x-amz-checksum-<algorithm> of the object; a composite one may end in "-<parts>". */
static enum step_result complete_declared(struct complete_upload *op)
{
    struct s3_request *req = &op->base;
    struct slice type = s3_header(req, "x-amz-checksum-type");
    struct slice value = SLICE_EMPTY;
    enum checksum_algorithm found = CHECKSUM_NONE;

    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)i;
        struct slice text = s3_header(req, checksum_header(algorithm));

        if (text.data == NULL) {
            continue;
        }
        if (found != CHECKSUM_NONE) {
            return s3_fail(req, S3_InvalidRequest,
                           "Expecting a single x-amz-checksum- header. Multiple checksum Types "
                           "are not allowed.");
        }
        found = algorithm;
        value = text;
    }
    if (found != CHECKSUM_NONE && !complete_parse_checksum(op, found, value)) {
        return complete_bad_checksum(op, found);
    }
    if (type.len > 0 && !slice_eq_nocase(type, SLICE("FULL_OBJECT")) &&
        !slice_eq_nocase(type, SLICE("COMPOSITE"))) {
        return s3_fail(req, S3_InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
    }
    return STEP_NEXT;
}

static enum step_result complete_check(struct task *task)
{
    struct complete_upload *op = complete_of(task);
    struct s3_request *req = &op->base;
    struct slice size = s3_header(req, "x-amz-mp-object-size");
    bool conditional;

    op->message = (Kist__CompleteUpload)KIST__COMPLETE_UPLOAD__INIT;
    if (upload_read_id(req, &op->upload_id) == STEP_FAIL ||
        manifest_read(req, &op->manifest) == STEP_FAIL || complete_declared(op) == STEP_FAIL ||
        s3_write_conditions(req, &op->conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.conditions = conditional ? &op->conditions : NULL;
    if (size.data != NULL) {
        if (size.len > 1 && size.data[0] == '-') {
            return s3_failf(req, S3_InvalidRequest,
                            "Value for x-amz-mp-object-size header is less than zero: '%.*s'",
                            (int)size.len, size.data);
        }
        if (!slice_to_u64(size, INT64_MAX, &op->message.size)) {
            return s3_fail(req, S3_InvalidRequest,
                           "Value for x-amz-mp-object-size header is invalid.");
        }
        op->message.has_size = true;
    }
    return STEP_NEXT;
}

/* ---- Upload and parts ---- */

static enum step_result complete_get(struct task *task)
{
    struct complete_upload *op = CONTAINER_OF(task, struct complete_upload, lookup);
    struct meta_client *meta = op->base.gateway->meta;

    return meta->list_parts(meta, &op->call, task);
}

static const struct step complete_lookup_steps[] = {
    {"lookup", complete_get},
    {0}
};

static void complete_looked_up(struct task *task)
{
    struct complete_upload *op = CONTAINER_OF(task, struct complete_upload, lookup);

    op->lookup_done = true;
    if (op->lookup_waited) {
        enum rc rc = task->error.rc;

        task_resume(&op->base.task, rc == RC_NOT_FOUND ? RC_OK : rc);
    }
}

/* STEP_NEXT: the answer (or RC_NOT_FOUND in lookup.error) is there; STEP_WAIT; STEP_FAIL. */
static enum step_result complete_lookup(struct complete_upload *op, uint32_t limit)
{
    if (op->page_open) {
        arena_deinit(&op->page);
    }
    arena_init(&op->page);
    op->page_open = true;
    op->call = (struct meta_list_parts){
        .bucket_id = op->base.bucket->id,
        .generation = op->base.bucket->generation,
        .key = op->base.key,
        .upload_id = op->upload_id,
        .after = op->after,
        .limit = limit,
        .arena = &op->page,
    };
    op->lookup_done = false;
    op->lookup_waited = false;
    task_start(&op->lookup, complete_lookup_steps, complete_looked_up);
    if (!op->lookup_done) {
        op->lookup_waited = true;
        return STEP_WAIT;
    }
    if (op->lookup.error.rc != RC_OK && op->lookup.error.rc != RC_NOT_FOUND) {
        return task_fail(&op->base.task, op->lookup.error.rc, "%s", op->lookup.error.text);
    }
    return STEP_NEXT;
}

static enum step_result complete_upload_row(struct task *task)
{
    return complete_lookup(complete_of(task), 0);
}

/* Of the upload's algorithm, for each part when the object's is composite; and the count behind the
 * object's own. */
static enum step_result complete_check_checksums(struct complete_upload *op, bool composite)
{
    const size_t prefix = sizeof("x-amz-checksum-") - 1;

    for (uint32_t i = 0; i < op->manifest.count; i++) {
        const struct manifest_part *part = &op->manifest.parts[i];

        if (part->checksum.algorithm == CHECKSUM_NONE && composite) {
            return s3_failf(&op->base, S3_InvalidRequest,
                            "The upload was created using a %s checksum. The complete request must "
                            "include the checksum for each part. It was missing for part %u in the "
                            "request.",
                            checksum_header(op->algorithm) + prefix, part->number);
        }
        if (part->checksum.algorithm != CHECKSUM_NONE &&
            part->checksum.algorithm != op->algorithm) {
            return s3_failf(&op->base, S3_BadDigest,
                            "The %s you specified for part %u did not match what we received.",
                            checksum_header(part->checksum.algorithm) + prefix, part->number);
        }
    }
    if (op->declared_parts == 0) {
        return STEP_NEXT;
    }
    if (!composite) {
        return complete_bad_checksum(op, op->declared.algorithm);
    }
    if (op->declared_parts != op->manifest.count) {
        return s3_failf(&op->base, S3_BadDigest,
                        "The %s you specified did not match the calculated checksum.",
                        checksum_name(op->declared.algorithm));
    }
    return STEP_NEXT;
}

/* What the document and the headers say must fit what the upload was created with. */
static enum step_result complete_check_upload(struct complete_upload *op)
{
    struct s3_request *req = &op->base;
    const Kist__Upload *upload = op->call.upload;
    struct slice type = s3_header(req, "x-amz-checksum-type");

    op->algorithm = (enum checksum_algorithm)upload->checksum_algorithm;
    if (op->algorithm >= CHECKSUM_ALGORITHMS) {
        return task_fail(&req->task, RC_CORRUPT, "the upload has an unknown checksum algorithm");
    }
    if (type.len > 0 && op->algorithm != CHECKSUM_NONE &&
        !slice_eq_nocase(type, slice_str(s3_checksum_type_name(upload->checksum_type)))) {
        return s3_failf(
            req, S3_InvalidRequest,
            "The upload was created using the %s checksum mode. The complete request must "
            "use the same checksum mode.",
            s3_checksum_type_name(upload->checksum_type));
    }
    if (op->algorithm == CHECKSUM_NONE) {
        return STEP_NEXT;
    }
    return complete_check_checksums(op, upload->checksum_type == CHECKSUM_COMPOSITE);
}

static bool complete_part_agrees(const struct manifest_part *listed, const Kist__Part *part)
{
    const struct checksum_value *value = &listed->checksum;

    for (size_t i = 0; i < part->n_checksums; i++) {
        if (part->checksums[i]->algorithm == (uint32_t)value->algorithm) {
            return slice_eq(s3_slice(part->checksums[i]->value),
                            slice_of(value->bytes, checksum_bytes(value->algorithm)));
        }
    }
    return false;
}

static enum step_result complete_compare(struct complete_upload *op)
{
    for (size_t i = 0; i < op->call.part_count; i++) {
        const Kist__Part *part = op->call.parts[i];
        const struct manifest_part *listed = manifest_find(&op->manifest, part->number);

        op->after = part->number;
        if (listed != NULL && listed->checksum.algorithm != CHECKSUM_NONE &&
            !complete_part_agrees(listed, part)) {
            return manifest_fail(&op->base, S3_InvalidPart, listed);
        }
    }
    return STEP_NEXT;
}

/* Entered first with the upload's row, then with each page of parts. */
static enum step_result complete_parts(struct task *task)
{
    struct complete_upload *op = complete_of(task);
    enum step_result result;

    if (op->lookup.error.rc == RC_NOT_FOUND) {
        return STEP_NEXT; /* the command knows whether this is a repeat */
    }
    if (op->call.limit == 0) {
        if (complete_check_upload(op) == STEP_FAIL) {
            return STEP_FAIL;
        }
        if (op->manifest.checksum_count == 0) {
            return STEP_NEXT;
        }
    } else if (complete_compare(op) == STEP_FAIL) {
        return STEP_FAIL;
    } else if (!op->call.truncated) {
        return STEP_NEXT;
    }
    result = complete_lookup(op, COMPLETE_PAGE_PARTS);
    return result == STEP_NEXT ? STEP_REPEAT : result == STEP_WAIT ? STEP_AGAIN : result;
}

/* ---- Commit ---- */

static enum step_result complete_commit(struct task *task)
{
    struct complete_upload *op = complete_of(task);
    struct s3_request *req = &op->base;

    if (op->declared.algorithm != CHECKSUM_NONE) {
        op->checksum = (Kist__Checksum)KIST__CHECKSUM__INIT;
        op->checksum.algorithm = op->declared.algorithm;
        op->checksum.value =
            s3_bytes(slice_of(op->declared.bytes, checksum_bytes(op->declared.algorithm)));
        op->message.checksum = &op->checksum;
    }
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.upload_id = s3_bytes(op->upload_id);
    manifest_pack(req, &op->manifest, &op->message);
    return s3_write(req, &op->write, META_COMPLETE_UPLOAD, &op->message.base, SLICE_EMPTY);
}

/* ---- Reply ---- */

static enum step_result complete_fail(struct complete_upload *op)
{
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->write.reply;
    const struct manifest_part *part = manifest_find(&op->manifest, reply->part_number);

    if (reply->outcome == KIST__OUTCOME__INVALID_PART && part != NULL) {
        return manifest_fail(req, S3_InvalidPart, part);
    }
    if (reply->outcome == KIST__OUTCOME__ENTITY_TOO_SMALL && part != NULL) {
        (void)manifest_fail(req, S3_EntityTooSmall, part);
        s3_error_detail(req, "MinSizeAllowed",
                        arena_printf(req->arena, "%llu", (unsigned long long)LIMIT_PART_BYTES_MIN));
        return STEP_FAIL;
    }
    if (reply->outcome == KIST__OUTCOME__BAD_CHECKSUM) {
        return s3_failf(req, S3_BadDigest,
                        "The %s you specified did not match the calculated checksum.",
                        checksum_name(op->declared.algorithm));
    }
    if (reply->outcome == KIST__OUTCOME__INVALID_ARGUMENT && op->message.has_size) {
        return s3_fail(
            req, S3_InvalidRequest,
            "The provided 'x-amz-mp-object-size' header does not match what was computed.");
    }
    return s3_fail_outcome(req, reply);
}

/* The URL of the object, as the client addressed it. */
static struct slice complete_location(struct s3_request *req)
{
    struct slice host = s3_header(req, "host");

    return arena_printf(req->arena, "%s://%.*s%.*s", req->http->is_tls ? "https" : "http",
                        (int)host.len, host.data, (int)req->resource.len, req->resource.data);
}

static enum step_result complete_reply(struct task *task)
{
    struct complete_upload *op = complete_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->write.reply->record;
    struct xml_writer xml;

    if (op->write.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return complete_fail(op);
    }
    if (record == NULL) {
        return task_fail(task, RC_CORRUPT, "metad answered a complete without its record");
    }
    s3_reply_new_version(req, record);
    s3_reply_expiration(req, record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "CompleteMultipartUploadResult", XML_NS_S3);
    xml_writer_text(&xml, "Location", complete_location(req));
    xml_writer_text(&xml, "Bucket", req->bucket_name);
    xml_writer_text(&xml, "Key", req->key);
    xml_writer_quoted(&xml, "ETag", s3_record_etag(req->arena, record, false));
    s3_xml_checksums(req, &xml, record->checksums, record->n_checksums, record->part_count);
    if (record->n_checksums > 0) {
        xml_writer_str(&xml, "ChecksumType", s3_checksum_type_name(record->checksums[0]->type));
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void complete_release(struct task *task)
{
    struct complete_upload *op = complete_of(task);

    if (op->page_open) {
        arena_deinit(&op->page);
        op->page_open = false;
    }
}

const struct s3_handler complete_upload = {
    .state_size = sizeof(struct complete_upload),
    .flags = BODY_DOCUMENT | KEEPS_ALIVE,
    .steps =
        {
                {"check", complete_check},
                {"upload", complete_upload_row},
                {"parts", complete_parts},
                {"commit", complete_commit},
                {"reply", complete_reply},
                },
    .release = complete_release,
};
