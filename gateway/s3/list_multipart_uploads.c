/*
 * ListMultipartUploads: open uploads in order of key, then of their beginning.
 *
 *     check -> list -> reply
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/list_params.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/page_token.h"
#include "gateway/s3/upload.h"

struct list_uploads {
    struct s3_request base;
    struct meta_list_uploads call;
    struct list_params params;
    struct list_position position;
    struct slice after_upload;
};

static struct list_uploads *list_uploads_of(struct task *task)
{
    return CONTAINER_OF(task, struct list_uploads, base.task);
}

static enum step_result list_uploads_check(struct task *task)
{
    struct list_uploads *op = list_uploads_of(task);
    struct s3_request *req = &op->base;
    struct slice key_marker = s3_param(req, "key-marker");
    struct slice upload_marker = s3_param(req, "upload-id-marker");

    if (list_params_read(req, "max-uploads", LIMIT_LIST_KEYS, &op->params) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->position = list_position_of(&op->params, key_marker);
    if (key_marker.len == 0 || upload_marker.len == 0) { /* alone, it is ignored (AWS) */
        return STEP_NEXT;
    }
    if (!upload_id_decode(req->arena, upload_marker, &op->after_upload)) {
        (void)s3_fail(req, S3_InvalidArgument, "Invalid uploadId marker");
        s3_error_detail(req, "ArgumentName", SLICE("upload-id-marker"));
        s3_error_detail(req, "ArgumentValue", upload_marker);
        return STEP_FAIL;
    }
    op->position = (struct list_position){.after = key_marker};
    return STEP_NEXT;
}

static enum step_result list_uploads_page(struct task *task)
{
    struct list_uploads *op = list_uploads_of(task);
    struct s3_request *req = &op->base;
    struct meta_client *meta = req->gateway->meta;

    if (op->params.limit == 0) {
        return STEP_NEXT;
    }
    op->call.bucket_id = req->bucket->id;
    op->call.generation = req->bucket->generation;
    op->call.prefix = op->params.prefix;
    op->call.delimiter = op->params.delimiter;
    op->call.after_key = op->position.after;
    op->call.after_prefix = op->position.after_prefix;
    op->call.after_upload = op->after_upload;
    op->call.limit = op->params.limit;
    op->call.arena = req->arena;
    return meta->list_uploads(meta, &op->call, task);
}

static void list_uploads_name(struct list_uploads *op, struct xml_writer *xml, const char *element,
                              struct slice name)
{
    xml_writer_text(xml, element, list_name(&op->base, &op->params, name));
}

static void list_uploads_write(struct list_uploads *op, struct xml_writer *xml)
{
    struct s3_request *req = &op->base;

    for (uint32_t i = 0; i < op->call.entry_count; i++) {
        const struct meta_upload_entry *entry = &op->call.entries[i];

        if (entry->upload == NULL) {
            continue;
        }
        xml_writer_open(xml, "Upload");
        list_uploads_name(op, xml, "Key", entry->name);
        xml_writer_raw(xml, "UploadId",
                       upload_id_encode(req->arena, s3_slice(entry->upload->upload_id)));
        upload_write_user(xml, "Initiator", s3_slice(entry->upload->initiator));
        upload_write_user(xml, "Owner", s3_slice(entry->upload->template_->owner));
        xml_writer_raw(xml, "StorageClass", s3_storage_class(entry->upload->template_));
        xml_writer_raw(xml, "Initiated", s3_iso8601(req->arena, entry->upload->stamp));
        upload_write_checksum(xml, entry->upload);
        xml_writer_close(xml);
    }
    for (uint32_t i = 0; i < op->call.entry_count; i++) {
        if (op->call.entries[i].upload == NULL) {
            xml_writer_open(xml, "CommonPrefixes");
            list_uploads_name(op, xml, "Prefix", op->call.entries[i].name);
            xml_writer_close(xml);
        }
    }
}

static void list_uploads_next(struct list_uploads *op, struct xml_writer *xml)
{
    const struct meta_upload_entry *last;

    if (!op->call.truncated || op->call.entry_count == 0) {
        return;
    }
    last = &op->call.entries[op->call.entry_count - 1];
    list_uploads_name(op, xml, "NextKeyMarker", last->name);
    if (last->upload != NULL) {
        xml_writer_raw(xml, "NextUploadIdMarker",
                       upload_id_encode(op->base.arena, s3_slice(last->upload->upload_id)));
    }
}

static enum step_result list_uploads_reply(struct task *task)
{
    struct list_uploads *op = list_uploads_of(task);
    struct s3_request *req = &op->base;
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "ListMultipartUploadsResult", XML_NS_S3);
    xml_writer_text(&xml, "Bucket", req->bucket_name);
    list_uploads_name(op, &xml, "KeyMarker", s3_param(req, "key-marker"));
    xml_writer_text(&xml, "UploadIdMarker", s3_param(req, "upload-id-marker"));
    list_uploads_next(op, &xml);
    list_uploads_name(op, &xml, "Prefix", op->params.prefix);
    if (op->params.delimiter.len > 0) {
        list_uploads_name(op, &xml, "Delimiter", op->params.delimiter);
    }
    xml_writer_u64(&xml, "MaxUploads", op->params.limit);
    xml_writer_bool(&xml, "IsTruncated", op->call.truncated);
    if (op->params.encode) {
        xml_writer_str(&xml, "EncodingType", "url");
    }
    list_uploads_write(op, &xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler list_uploads = {
    .state_size = sizeof(struct list_uploads),
    .steps =
        {
                {"check", list_uploads_check},
                {"list", list_uploads_page},
                {"reply", list_uploads_reply},
                },
};
