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
    struct body_write write;
    Kist__PutPart message;
    Kist__Part part;
    struct slice upload_id;
    uint32_t number;
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

    return body_write_store(&op->base, &op->write, false);
}

static enum step_result part_commit(struct task *task)
{
    struct upload_part *op = part_of(task);

    op->part = (Kist__Part)KIST__PART__INIT;
    op->part.number = op->number;
    body_write_part(&op->base, &op->write, &op->part);
    return upload_commit_part(&op->base, &op->write, op->upload_id, &op->message, &op->part);
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

    if (op->write.call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->write.call.reply);
    }
    s3_reply_header(req, "ETag",
                    s3_etag(req->arena, slice_of(req->payload.md5, MD5_BYTES), 0, true));
    part_reply_checksum(op);
    return s3_reply_empty(req, 200);
}

static void part_abort(struct task *task)
{
    body_write_abort(S3_REQUEST_OF(task), &part_of(task)->write);
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
