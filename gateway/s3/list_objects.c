/*
 * ListObjects and ListObjectsV2: a page of keys and common prefixes, in byte order, at one point in
 * time.
 *
 *     check -> list -> reply
 *
 * metad makes the page (skip-scan over rolled-up prefixes); here are only parameters, tokens and
 * XML.
 */
#include "common/base/limits.h"
#include "common/codec/time_format.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/list_metadata.h"
#include "gateway/s3/list_params.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/page_token.h"
#include "gateway/s3/upload.h"

enum {
    LIST_ENTRY_BYTES = 420,
    LIST_HEAD_BYTES = 2048
}; /* guesses: what the document is likely to take */

struct list_objects {
    struct s3_request base;
    struct meta_list list;
    struct list_params params;
    struct list_position position;
    bool owner; /* shown with each key */
};

static struct list_objects *list_of(struct task *task)
{
    return CONTAINER_OF(task, struct list_objects, base.task);
}

/* ---- Check ---- */

static enum step_result list_check(struct task *task)
{
    struct list_objects *op = list_of(task);

    if (list_params_read(&op->base, "max-keys", LIMIT_LIST_KEYS, &op->params) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->position = list_position_of(&op->params, s3_param(&op->base, "marker"));
    op->owner = true;
    return STEP_NEXT;
}

static enum step_result list_check_v2(struct task *task)
{
    struct list_objects *op = list_of(task);
    struct s3_request *req = &op->base;
    struct slice token = s3_param(req, "continuation-token");
    struct page_token from;

    if (list_params_read(req, "max-keys", LIMIT_LIST_KEYS, &op->params) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->owner = slice_eq_nocase(s3_param(req, "fetch-owner"), SLICE("true"));
    if (token.len == 0) {
        op->position = list_position_of(&op->params, s3_param(req, "start-after"));
        return STEP_NEXT;
    }
    if (!page_token_decode(req->arena, token, &from)) {
        (void)s3_fail(req, S3_InvalidArgument, "The continuation token provided is incorrect");
        s3_error_detail(req, "ArgumentName", SLICE("continuation-token"));
        return STEP_FAIL;
    }
    op->position.after = from.after;
    op->position.after_prefix = from.after_prefix;
    return STEP_NEXT;
}

/* ---- List ---- */

static enum step_result list_page(struct task *task)
{
    struct list_objects *op = list_of(task);
    struct s3_request *req = &op->base;
    struct meta_client *meta = req->gateway->meta;

    if (op->params.limit == 0) { /* AWS: nothing, and not truncated */
        return STEP_NEXT;
    }
    op->list.bucket_id = req->bucket->id;
    op->list.generation = req->bucket->generation;
    op->list.prefix = op->params.prefix;
    op->list.delimiter = op->params.delimiter;
    op->list.after = op->position.after;
    op->list.after_prefix = op->position.after_prefix;
    op->list.limit = op->params.limit;
    op->list.whole = list_metadata_wanted(req);
    op->list.arena = req->arena;
    return meta->list(meta, &op->list, task);
}

/* ---- Reply ---- */

static void list_write_key(struct list_objects *op, struct xml_writer *xml,
                           const struct meta_entry *entry)
{
    struct s3_request *req = &op->base;
    const Kist__Record *record = entry->record;
    char time[TIME_ISO8601_BYTES + 1];

    time_format_iso8601(record->stamp / 1000000000U * 1000000000U, time);
    xml_writer_open(xml, "Contents");
    xml_writer_text(xml, "Key", list_name(req, &op->params, entry->name));
    xml_writer_raw(xml, "LastModified", slice_of(time, TIME_ISO8601_BYTES));
    xml_writer_quoted(xml, "ETag", s3_record_etag(req->arena, record, false));
    s3_xml_checksum_names(xml, record);
    xml_writer_u64(xml, "Size", record->size);
    if (op->owner) {
        upload_write_user(xml, "Owner", s3_slice(record->owner));
    }
    xml_writer_raw(xml, "StorageClass", s3_storage_class(record));
    if (op->list.whole) {
        list_metadata_write(req, xml, entry->name, record);
    }
    xml_writer_close(xml);
}

static void list_write_entries(struct list_objects *op, struct xml_writer *xml)
{
    struct s3_request *req = &op->base;

    for (uint32_t i = 0; i < op->list.entry_count; i++) {
        if (op->list.entries[i].record != NULL) {
            list_write_key(op, xml, &op->list.entries[i]);
        }
    }
    for (uint32_t i = 0; i < op->list.entry_count; i++) {
        if (op->list.entries[i].record == NULL) {
            list_write_prefix(req, xml, &op->params, op->list.entries[i].name);
        }
    }
}

static void list_write_name(struct list_objects *op, struct xml_writer *xml, const char *element,
                            struct slice name)
{
    xml_writer_text(xml, element, list_name(&op->base, &op->params, name));
}

/* What the two versions share behind their own elements. */
static void list_write_params(struct list_objects *op, struct xml_writer *xml)
{
    xml_writer_u64(xml, "MaxKeys", op->params.limit);
    if (op->params.delimiter.len > 0) {
        list_write_name(op, xml, "Delimiter", op->params.delimiter);
    }
    if (op->params.encode) {
        xml_writer_str(xml, "EncodingType", "url");
    }
    xml_writer_bool(xml, "IsTruncated", op->list.truncated);
}

static void list_bound(struct list_objects *op)
{
    size_t bytes = 0;

    for (uint32_t i = 0; op->list.whole && i < op->list.entry_count; i++) {
        if (list_metadata_full(&bytes, i, op->list.entries[i].record)) {
            op->list.entry_count = i;
            op->list.truncated = true;
        }
    }
}

static void list_begin(struct list_objects *op, struct xml_writer *xml)
{
    struct s3_request *req = &op->base;

    ASSERT(!op->list.truncated || op->list.entry_count > 0);
    list_bound(op);
    s3_xml_begin(req, xml);
    (void)buffer_reserve(&req->xml,
                         LIST_HEAD_BYTES + (size_t)op->list.entry_count * LIST_ENTRY_BYTES);
    xml_writer_open_ns(xml, "ListBucketResult", XML_NS_S3);
    xml_writer_text(xml, "Name", req->bucket_name);
    list_write_name(op, xml, "Prefix", op->params.prefix);
}

static enum step_result list_reply(struct task *task)
{
    struct list_objects *op = list_of(task);
    struct s3_request *req = &op->base;
    struct xml_writer xml;

    list_begin(op, &xml);
    list_write_name(op, &xml, "Marker", s3_param(req, "marker"));
    if (op->list.truncated && op->params.delimiter.len > 0) {
        list_write_name(op, &xml, "NextMarker", op->list.entries[op->list.entry_count - 1].name);
    }
    list_write_params(op, &xml);
    list_write_entries(op, &xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result list_reply_v2(struct task *task)
{
    struct list_objects *op = list_of(task);
    struct s3_request *req = &op->base;
    struct xml_writer xml;

    list_begin(op, &xml);
    if (s3_has_param(req, "start-after")) {
        list_write_name(op, &xml, "StartAfter", s3_param(req, "start-after"));
    }
    if (s3_has_param(req, "continuation-token")) {
        xml_writer_text(&xml, "ContinuationToken", s3_param(req, "continuation-token"));
    }
    if (op->list.truncated) {
        const struct meta_entry *last = &op->list.entries[op->list.entry_count - 1];
        struct page_token next = {.after = last->name, .after_prefix = last->record == NULL};

        xml_writer_raw(&xml, "NextContinuationToken", page_token_encode(req->arena, &next));
    }
    xml_writer_u64(&xml, "KeyCount", op->list.entry_count);
    list_write_params(op, &xml);
    list_write_entries(op, &xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler list_objects = {
    .state_size = sizeof(struct list_objects),
    .steps =
        {
                {"check", list_check},
                {"list", list_page},
                {"reply", list_reply},
                },
};

const struct s3_handler list_objects_v2 = {
    .state_size = sizeof(struct list_objects),
    .steps =
        {
                {"check", list_check_v2},
                {"list", list_page},
                {"reply", list_reply_v2},
                },
};
