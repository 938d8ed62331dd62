/*
 * UploadPartCopy: a part made of a range of another object.
 *
 *     check -> find -> confirm -> upload -> source -> decide -> gather -> digest -> store -> copy
 *     -> reply
 *
 * A source with extents is not read: the part's pieces are slices of the source's, each naming the
 * layout that owns it, and metad registers the references before the row is written. So the part's
 * ETag cannot be the MD5 of its bytes, unless the range is a whole object with such an ETag: it is
 * an MD5 over source and range, as unique as the other. Only an upload with a checksum algorithm of
 * which the source has none makes the range be read (`digest`); then the ETag is the MD5. An inline
 * source has no extents; its few bytes are written as a part's body would be.
 */
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/copy_source.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/part_pieces.h"
#include "gateway/s3/range.h"
#include "gateway/s3/source_digest.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/upload.h"
#include "gateway/s3/write_body.h"

struct upload_part_copy {
    struct s3_request base;
    struct copy_source source;
    struct meta_list_parts lookup;
    struct part_pieces pieces;
    struct body_write write;
    Kist__PutPart message;
    Kist__Part part;
    struct extent_id layout;
    uint8_t etag[MD5_BYTES];
    struct source_digest digest;
    bool must_read; /* for the upload's checksum */
    struct slice upload_id;
    uint32_t number;
    uint64_t offset;
    uint64_t length;
};

static struct upload_part_copy *part_copy_of(struct task *task)
{
    return CONTAINER_OF(task, struct upload_part_copy, base.task);
}

/* ---- Check ---- */

static enum step_result part_copy_check(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);
    struct s3_request *req = &op->base;

    if (s3_refuse_unsupported(req) == STEP_FAIL ||
        upload_read_number(req, &op->number) == STEP_FAIL ||
        copy_source_parse(req, &op->source) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return upload_read_id(req, &op->upload_id);
}

static enum step_result part_copy_find(struct task *task)
{
    return copy_source_find(&part_copy_of(task)->base, &part_copy_of(task)->source);
}

static enum step_result part_copy_confirm(struct task *task)
{
    return copy_source_confirm(&part_copy_of(task)->base, &part_copy_of(task)->source);
}

static enum step_result part_copy_upload(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);

    return upload_lookup(&op->base, &op->lookup, op->upload_id, 0, 0);
}

static enum step_result part_copy_source(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);

    op->base.not_found = S3_OK;
    return copy_source_look(&op->base, &op->source, true);
}

/* ---- Decide: conditions, range, checksums ---- */

static bool part_copy_conditions_hold(struct s3_request *req, const Kist__Record *record)
{
    struct env *env = req->gateway->env;
    struct condition_target target = {
        .etag = s3_record_etag(req->arena, record, false),
        .modified_s = record->stamp / 1000000000U,
    };
    struct read_conditions conditions = {
        .if_match = s3_header(req, "x-amz-copy-source-if-match"),
        .if_none_match = s3_header(req, "x-amz-copy-source-if-none-match"),
        .if_modified_since = s3_header(req, "x-amz-copy-source-if-modified-since"),
        .if_unmodified_since = s3_header(req, "x-amz-copy-source-if-unmodified-since"),
    };

    return read_conditions_check(&conditions, &target, env->clock->wall_ns(env) / 1000000000U) ==
           CONDITION_TRUE;
}

static enum step_result part_copy_range(struct upload_part_copy *op, const Kist__Record *record)
{
    struct s3_request *req = &op->base;
    struct slice header = s3_header(req, "x-amz-copy-source-range");
    uint64_t last;

    op->offset = 0;
    op->length = record->size;
    if (header.data != NULL) {
        if (!range_parse_strict(header, &op->offset, &last)) {
            (void)s3_fail(req, S3_InvalidArgument,
                          "The x-amz-copy-source-range value must be of the form bytes=first-last "
                          "where first and last are the zero-based offsets of the first and last "
                          "bytes to copy");
            s3_error_detail(req, "ArgumentName", SLICE("x-amz-copy-source-range"));
            s3_error_detail(req, "ArgumentValue", header);
            return STEP_FAIL;
        }
        if (last >= record->size) {
            return s3_failf(req, S3_InvalidArgument,
                            "Range specified is not valid for source object of size: %llu",
                            (unsigned long long)record->size);
        }
        op->length = last - op->offset + 1;
    }
    if (op->length > LIMIT_PUT_BYTES) {
        return s3_failf(req, S3_InvalidRequest,
                        "The specified copy source is larger than the maximum allowable size for a "
                        "copy source: %llu",
                        LIMIT_PUT_BYTES);
    }
    return STEP_NEXT;
}

/* The source's checksums hold for the part only when it is all of the source. */
static void part_copy_checksums(struct upload_part_copy *op, const Kist__Record *record)
{
    uint32_t wanted = op->lookup.upload->checksum_algorithm;
    bool whole = op->length == record->size;

    op->must_read = wanted != CHECKSUM_NONE;
    op->part.checksums =
        arena_alloc_raw(op->base.arena, (record->n_checksums + 1) * sizeof(void *));
    for (size_t i = 0; whole && i < record->n_checksums; i++) {
        if (record->checksums[i]->type == CHECKSUM_FULL_OBJECT) {
            op->part.checksums[op->part.n_checksums++] = record->checksums[i];
            op->must_read = op->must_read && record->checksums[i]->algorithm != wanted;
        }
    }
}

static void part_copy_etag(struct upload_part_copy *op, const Kist__Record *record)
{
    struct md5_hash md5;
    uint8_t numbers[24];

    if (op->length == record->size && record->part_count == 0 && record->etag.len == MD5_BYTES) {
        memcpy(op->etag, record->etag.data, MD5_BYTES);
        return;
    }
    be64_put(numbers, op->offset);
    be64_put(numbers + 8, op->length);
    be64_put(numbers + 16, record->stamp);
    md5_init(&md5);
    md5_update(&md5, record->etag.data, record->etag.len);
    md5_update(&md5, record->layout_id.data, record->layout_id.len);
    md5_update(&md5, numbers, sizeof(numbers));
    md5_final(&md5, op->etag);
}

static void part_copy_begin_pieces(struct upload_part_copy *op, const Kist__Record *record)
{
    struct s3_request *req = &op->base;
    Kist__Reference *home = arena_alloc_raw(req->arena, sizeof(*home));

    kist__reference__init(home);
    if (record->shared != NULL) {
        *home = *record->shared;
    } else {
        home->layout_id = record->layout_id;
        home->home_bucket = op->source.bucket->id;
        home->home_key = s3_bytes(op->source.key);
    }
    home->reference_id = s3_bytes(slice_of(op->layout.bytes, EXTENT_ID_BYTES));
    op->pieces = (struct part_pieces){
        .record = record,
        .home = home,
        .offset = op->offset,
        .length = op->length,
        .part = op->number,
    };
}

static enum step_result part_copy_decide(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record;

    if (copy_source_found(req, &op->source) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record = op->source.get.record;
    if (!part_copy_conditions_hold(req, record)) {
        return s3_fail(req, S3_PreconditionFailed, NULL);
    }
    if (op->lookup.upload->checksum_algorithm >= CHECKSUM_ALGORITHMS) {
        return task_fail(task, RC_CORRUPT, "the upload has an unknown checksum algorithm");
    }
    if (part_copy_range(op, record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->layout = gateway_new_id(req->gateway);
    op->part = (Kist__Part)KIST__PART__INIT;
    if (record->inline_body) {
        return STEP_NEXT;
    }
    part_copy_etag(op, record);
    part_copy_begin_pieces(op, record);
    part_copy_checksums(op, record);
    return STEP_NEXT;
}

/* ---- Gather, or store ---- */

static enum step_result part_copy_gather(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);

    if (op->source.get.record->inline_body || op->length == 0) {
        return STEP_NEXT;
    }
    return part_pieces_step(&op->base, &op->pieces);
}

static enum step_result part_copy_digest(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);

    if (!op->must_read) {
        return STEP_NEXT;
    }
    op->digest = (struct source_digest){
        .get = &op->source.get,
        .view = op->base.view,
        .offset = op->offset,
        .length = op->length,
        .algorithm = (enum checksum_algorithm)op->lookup.upload->checksum_algorithm,
        .md5 = true,
    };
    return source_digest_start(&op->base, &op->digest);
}

static enum step_result part_copy_store(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);
    struct s3_request *req = &op->base;
    uint32_t wanted = op->lookup.upload->checksum_algorithm;
    struct payload_options options = {
        .md5 = true, .also = 1U << (wanted != CHECKSUM_NONE ? wanted : CHECKSUM_CRC64NVME)};

    if (!op->source.get.record->inline_body) {
        return STEP_NEXT;
    }
    if (op->source.get.body.len != op->source.get.record->size) {
        return task_fail(task, RC_CORRUPT, "the inline body has another size");
    }
    payload_init_bytes(&req->payload, req->arena,
                       slice_of(op->source.get.body.data + op->offset, (size_t)op->length),
                       &options);
    return body_write_store(req, &op->write, false);
}

/* ---- Copy: the row ---- */

static enum step_result part_copy_commit(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);
    struct s3_request *req = &op->base;

    if (op->write.stored) {
        memcpy(op->etag, req->payload.md5, MD5_BYTES);
        body_write_part(req, &op->write, &op->part);
    } else {
        op->part.pieces = op->pieces.pieces;
        op->part.n_pieces = op->pieces.count;
        if (op->length > 0) {
            op->part.layout_id = s3_bytes(slice_of(op->layout.bytes, EXTENT_ID_BYTES));
        }
    }
    if (op->must_read) {
        source_digest_finish(&op->digest);
        memcpy(op->etag, op->digest.md5_value, MD5_BYTES);
        op->part.checksums[op->part.n_checksums++] =
            s3_checksum_new(req->arena, &op->digest.value, CHECKSUM_FULL_OBJECT);
    }
    op->part.number = op->number;
    op->part.size = op->length;
    op->part.etag = s3_bytes(slice_of(op->etag, MD5_BYTES));
    return upload_commit_part(req, &op->write, op->upload_id, &op->message, &op->part);
}

static enum step_result part_copy_reply(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->write.call.reply;
    struct xml_writer xml;

    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    copy_source_reply(req, &op->source);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "CopyPartResult", XML_NS_S3);
    xml_writer_raw(&xml, "LastModified",
                   s3_iso8601(req->arena, reply->part != NULL ? reply->part->stamp : reply->stamp));
    xml_writer_quoted(&xml, "ETag", s3_etag(req->arena, slice_of(op->etag, MD5_BYTES), 0, false));
    for (size_t i = 0; i < op->part.n_checksums; i++) {
        if (op->part.checksums[i]->algorithm == op->lookup.upload->checksum_algorithm) {
            s3_xml_checksums(req, &xml, &op->part.checksums[i], 1, 0);
        }
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void part_copy_abort(struct task *task)
{
    body_write_abort(S3_REQUEST_OF(task), &part_copy_of(task)->write);
}

static void part_copy_release(struct task *task)
{
    struct upload_part_copy *op = part_copy_of(task);

    source_digest_release(&op->digest);
    copy_source_release(&op->base, &op->source);
}

const struct s3_handler upload_part_copy = {
    .state_size = sizeof(struct upload_part_copy),
    .flags = CHECKS_MORE | KEEPS_ALIVE,
    .steps =
        {
                {"check", part_copy_check},
                {"find", part_copy_find},
                {"confirm", part_copy_confirm},
                {"upload", part_copy_upload},
                {"source", part_copy_source},
                {"decide", part_copy_decide},
                {"gather", part_copy_gather},
                {"digest", part_copy_digest},
                {"store", part_copy_store},
                {"copy", part_copy_commit},
                {"reply", part_copy_reply},
                },
    .abort = part_copy_abort,
    .release = part_copy_release,
};
