/*
 * ListParts: a page of an upload's parts by number.
 *
 *     check -> list -> reply
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/list_params.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/upload.h"

struct list_parts {
    struct s3_request base;
    struct meta_list_parts call;
    struct list_params params;
    struct slice upload_id;
    uint64_t after;
};

static struct list_parts *list_parts_of(struct task *task)
{
    return CONTAINER_OF(task, struct list_parts, base.task);
}

static enum step_result list_parts_check(struct task *task)
{
    struct list_parts *op = list_parts_of(task);
    struct s3_request *req = &op->base;

    if (list_params_read(req, "max-parts", LIMIT_LIST_KEYS, &op->params) == STEP_FAIL ||
        list_number(req, "part-number-marker", &op->after) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return upload_read_id(req, &op->upload_id);
}

static enum step_result list_parts_page(struct task *task)
{
    struct list_parts *op = list_parts_of(task);

    return upload_lookup(&op->base, &op->call, op->upload_id, (uint32_t)op->after,
                         op->params.limit);
}

/* Of the upload's algorithm; of the one computed by us when it has none. */
static void list_parts_checksum(struct list_parts *op, struct xml_writer *xml,
                                const Kist__Part *part)
{
    uint32_t wanted = op->call.upload->checksum_algorithm;

    for (size_t i = 0; i < part->n_checksums; i++) {
        if (part->checksums[i]->algorithm == (wanted != 0 ? wanted : CHECKSUM_CRC64NVME)) {
            s3_xml_checksums(&op->base, xml, &part->checksums[i], 1, 0);
        }
    }
}

static void list_parts_write(struct list_parts *op, struct xml_writer *xml)
{
    struct s3_request *req = &op->base;

    for (size_t i = 0; i < op->call.part_count; i++) {
        const Kist__Part *part = op->call.parts[i];

        xml_writer_open(xml, "Part");
        xml_writer_u64(xml, "PartNumber", part->number);
        xml_writer_raw(xml, "LastModified", s3_iso8601(req->arena, part->stamp));
        xml_writer_quoted(xml, "ETag", s3_etag(req->arena, s3_slice(part->etag), 0, false));
        xml_writer_u64(xml, "Size", part->size);
        list_parts_checksum(op, xml, part);
        xml_writer_close(xml);
    }
}

static enum step_result list_parts_reply(struct task *task)
{
    struct list_parts *op = list_parts_of(task);
    struct s3_request *req = &op->base;
    const Kist__Upload *upload = op->call.upload;
    struct xml_writer xml;

    s3_reply_abort(req, upload->stamp);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "ListPartsResult", XML_NS_S3);
    xml_writer_text(&xml, "Bucket", req->bucket_name);
    xml_writer_text(&xml, "Key", list_name(req, &op->params, req->key));
    xml_writer_text(&xml, "UploadId", s3_param(req, "uploadId"));
    upload_write_user(&xml, "Initiator", s3_slice(upload->initiator));
    upload_write_user(&xml, "Owner", s3_slice(upload->template_->owner));
    xml_writer_raw(&xml, "StorageClass", s3_storage_class(upload->template_));
    xml_writer_u64(&xml, "PartNumberMarker", op->after);
    xml_writer_u64(&xml, "NextPartNumberMarker",
                   op->call.part_count > 0 ? op->call.parts[op->call.part_count - 1]->number : 0);
    xml_writer_u64(&xml, "MaxParts", op->params.limit);
    xml_writer_bool(&xml, "IsTruncated", op->params.limit > 0 && op->call.truncated);
    if (op->params.encode) {
        xml_writer_str(&xml, "EncodingType", "url");
    }
    upload_write_checksum(&xml, upload);
    list_parts_write(op, &xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler list_parts = {
    .state_size = sizeof(struct list_parts),
    .steps =
        {
                {"check", list_parts_check},
                {"list", list_parts_page},
                {"reply", list_parts_reply},
                },
};
