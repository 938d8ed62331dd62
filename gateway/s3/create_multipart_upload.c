/*
 * CreateMultipartUpload: a row that holds what Complete will write.
 *
 *     acl -> check -> commit -> reply
 */
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/page_token.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/upload.h"

struct create_upload {
    struct s3_request base;
    struct meta_write call;
    Kist__CreateUpload message;
    Kist__Upload upload;
    Kist__Record record;
    struct extent_id id;
    enum checksum_algorithm algorithm;
    enum checksum_type type;
    struct acl_request acl;
};

static struct create_upload *create_upload_of(struct task *task)
{
    return CONTAINER_OF(task, struct create_upload, base.task);
}

static enum step_result create_upload_acl(struct task *task)
{
    struct create_upload *op = create_upload_of(task);

    return s3_acl_from_request(&op->base, &op->acl);
}

static enum step_result create_upload_check(struct task *task)
{
    struct create_upload *op = create_upload_of(task);
    struct s3_request *req = &op->base;

    op->record = (Kist__Record)KIST__RECORD__INIT;
    if (s3_refuse_unsupported(req) == STEP_FAIL ||
        upload_read_checksum(req, &op->algorithm, &op->type) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_record_from_request(req, &op->record) == STEP_FAIL
               ? STEP_FAIL
               : s3_record_tags_and_lock(req, &op->record);
}

static enum step_result create_upload_commit(struct task *task)
{
    struct create_upload *op = create_upload_of(task);
    struct s3_request *req = &op->base;

    op->id = gateway_new_id(req->gateway);
    if (s3_acl_to_record(req, &op->acl, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->upload = (Kist__Upload)KIST__UPLOAD__INIT;
    op->upload.upload_id = s3_bytes(slice_of(op->id.bytes, EXTENT_ID_BYTES));
    op->upload.template_ = &op->record;
    op->upload.checksum_algorithm = op->algorithm;
    op->upload.checksum_type = op->algorithm != CHECKSUM_NONE ? (uint32_t)op->type : 0;
    op->upload.initiator = s3_bytes(req->auth.user);
    op->message = (Kist__CreateUpload)KIST__CREATE_UPLOAD__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.upload = &op->upload;
    return s3_write(req, &op->call, META_CREATE_UPLOAD, &op->message.base, SLICE_EMPTY);
}

static enum step_result create_upload_reply(struct task *task)
{
    struct create_upload *op = create_upload_of(task);
    struct s3_request *req = &op->base;
    struct slice id = slice_of(op->id.bytes, EXTENT_ID_BYTES);
    struct xml_writer xml;

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->call.reply);
    }
    if (op->algorithm != CHECKSUM_NONE) {
        s3_reply_header(req, "x-amz-checksum-algorithm", slice_str(checksum_name(op->algorithm)));
        s3_reply_header(req, "x-amz-checksum-type", slice_str(s3_checksum_type_name(op->type)));
    }
    s3_reply_abort(req, op->call.reply->stamp);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "InitiateMultipartUploadResult", XML_NS_S3);
    xml_writer_text(&xml, "Bucket", req->bucket_name);
    xml_writer_text(&xml, "Key", req->key);
    xml_writer_raw(&xml, "UploadId", upload_id_encode(req->arena, id));
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler create_upload = {
    .state_size = sizeof(struct create_upload),
    .steps =
        {
                {"acl", create_upload_acl},
                {"check", create_upload_check},
                {"commit", create_upload_commit},
                {"reply", create_upload_reply},
                },
};
