/*
 * UploadPart.
 *
 *     check -> upload -> begin -> store -> commit -> reply
 *
 * Every part upload has a layout of its own, so a part that is sent again never touches what a
 * Complete may be naming. The upload's checksum algorithm is computed whatever the client sends:
 * Complete needs it of every part. For a composite checksum the client must send it.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/upload.h"
#include "gateway/s3/write_body.h"

struct upload_part {
    struct s3_request base;
    struct meta_list_parts lookup;
    struct write_path write;
    struct meta_write call;
    Kist__PutPart message;
    Kist__Part part;
    struct slice upload_id;
    uint32_t number;
    bool stored;
    bool committed;
};

static struct upload_part *part_of(struct task *task)
{
    return CONTAINER_OF(task, struct upload_part, base.task);
}

static enum step_result part_check(struct task *task)
{
    struct upload_part *op = part_of(task);

    if (s3_refuse_unsupported(&op->base) == STEP_FAIL ||
        upload_read_number(&op->base, &op->number) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return upload_read_id(&op->base, &op->upload_id);
}

static enum step_result part_upload(struct task *task)
{
    struct upload_part *op = part_of(task);

    return upload_lookup(&op->base, &op->lookup, op->upload_id, 0, 0);
}

/* A composite checksum vouches for the bytes only if the client has summed each part itself. */
static enum step_result part_check_algorithm(struct upload_part *op, enum checksum_algorithm wanted)
{
    const size_t prefix = sizeof("x-amz-checksum-") - 1;
    enum checksum_algorithm actual = op->base.payload.algorithm;
    bool needed = op->lookup.upload->checksum_type == CHECKSUM_COMPOSITE;

    if (wanted == CHECKSUM_NONE || actual == wanted || (actual == CHECKSUM_NONE && !needed)) {
        return STEP_NEXT;
    }
    return s3_failf(
        &op->base, S3_InvalidRequest,
        "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
        checksum_header(wanted) + prefix,
        actual == CHECKSUM_NONE ? "null" : checksum_header(actual) + prefix);
}

static enum step_result part_begin(struct task *task)
{
    struct upload_part *op = part_of(task);
    struct s3_request *req = &op->base;
    enum checksum_algorithm wanted = (enum checksum_algorithm)op->lookup.upload->checksum_algorithm;

    req->not_found = S3_OK;
    if (wanted >= CHECKSUM_ALGORITHMS) {
        return task_fail(task, RC_CORRUPT, "the upload has an unknown checksum algorithm");
    }
    if (s3_write_body_begin(req, wanted != CHECKSUM_NONE ? wanted : CHECKSUM_CRC64NVME,
                            LIMIT_PUT_BYTES) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return part_check_algorithm(op, wanted);
}

static enum step_result part_store(struct task *task)
{
    struct upload_part *op = part_of(task);
    struct s3_request *req = &op->base;

    op->stored = true;
    op->write = (struct write_path){
        .gateway = req->gateway,
        .view = req->view,
        .payload = &req->payload,
        .arena = req->arena,
        .bucket_id = req->bucket->id,
        .key = req->key,
        .layout = gateway_new_id(req->gateway),
        .allow_inline = false,
    };
    return write_path_start(&op->write, task);
}

static enum step_result part_commit(struct task *task)
{
    struct upload_part *op = part_of(task);
    struct s3_request *req = &op->base;

    op->part = (Kist__Part)KIST__PART__INIT;
    op->part.number = op->number;
    op->part.size = op->write.size;
    op->part.etag = s3_bytes(slice_of(req->payload.md5, MD5_BYTES));
    op->part.n_checksums = s3_write_body_checksums(req, &op->part.checksums);
    if (op->write.size > 0) {
        op->part.layout_id = s3_bytes(slice_of(op->write.layout.bytes, EXTENT_ID_BYTES));
        op->part.pieces = op->write.pieces;
        op->part.n_pieces = op->write.piece_count;
    }
    op->message = (Kist__PutPart)KIST__PUT_PART__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.upload_id = s3_bytes(op->upload_id);
    op->message.part = &op->part;
    op->committed = true;
    return s3_write(req, &op->call, META_PUT_PART, &op->message.base, SLICE_EMPTY);
}

/* Of the checksums kept: the one that the client may compare with its own. */
static void part_reply_checksum(struct upload_part *op)
{
    struct s3_request *req = &op->base;
    uint32_t wanted = op->lookup.upload->checksum_algorithm;

    if (wanted == CHECKSUM_NONE) {
        wanted =
            req->payload.algorithm != CHECKSUM_NONE ? req->payload.algorithm : CHECKSUM_CRC64NVME;
    }
    for (size_t i = 0; i < op->part.n_checksums; i++) {
        if (op->part.checksums[i]->algorithm == wanted) {
            s3_reply_header(req, checksum_header((enum checksum_algorithm)wanted),
                            s3_checksum_text(req->arena, op->part.checksums[i], 0));
        }
    }
}

static enum step_result part_reply(struct task *task)
{
    struct upload_part *op = part_of(task);
    struct s3_request *req = &op->base;

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->call.reply);
    }
    s3_reply_header(req, "ETag",
                    s3_etag(req->arena, slice_of(req->payload.md5, MD5_BYTES), 0, true));
    part_reply_checksum(op);
    return s3_reply_empty(req, 200);
}

static void part_abort(struct task *task)
{
    struct upload_part *op = part_of(task);

    if (!op->stored) {
        return;
    }
    if (!s3_maybe_applied(&op->base, &op->call, op->committed)) {
        write_path_discard(&op->write);
    }
    s3_write_body_error(&op->base, &op->write);
}

const struct s3_handler upload_part = {
    .state_size = sizeof(struct upload_part),
    .flags = BODY_STREAM,
    .steps =
        {
                {"check", part_check},
                {"upload", part_upload},
                {"begin", part_begin},
                {"store", part_store},
                {"commit", part_commit},
                {"reply", part_reply},
                },
    .abort = part_abort,
};
