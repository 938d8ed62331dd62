/*
 * ListObjectVersions: a page of versions, delete markers and common prefixes; keys in byte order,
 * of each the newest version first; at one point in time.
 *
 *     check -> list -> reply
 *
 * metad makes the page; here are only parameters and XML. A page goes on behind (key-marker,
 * version-id-marker), or behind a common prefix, which has no version.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/list_metadata.h"
#include "gateway/s3/list_params.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/upload.h"

enum { VERSIONS_ENTRY_BYTES = 460, VERSIONS_HEAD_BYTES = 2048 }; /* guesses, as in list_objects.c */

struct list_versions {
    struct s3_request base;
    struct meta_list_versions list;
    struct list_params params;
    struct list_position position;
    struct slice after_version;
};

static struct list_versions *versions_of(struct task *task)
{
    return CONTAINER_OF(task, struct list_versions, base.task);
}

/* ---- Check ---- */

static enum step_result versions_bad_marker(struct s3_request *req, const char *text)
{
    return s3_fail_argument(req, "version-id-marker", s3_param(req, "version-id-marker"), text);
}

static enum step_result versions_check(struct task *task)
{
    struct list_versions *op = versions_of(task);
    struct s3_request *req = &op->base;
    struct slice key = s3_param(req, "key-marker");
    struct slice version = s3_param(req, "version-id-marker");

    if (list_params_read(req, "max-keys", LIMIT_LIST_KEYS, &op->params) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->position = list_position_of(&op->params, key);
    if (version.data == NULL) {
        return STEP_NEXT;
    }
    if (key.len == 0) {
        return version.len == 0
                   ? STEP_NEXT
                   : versions_bad_marker(
                         req, "A version-id marker cannot be specified without a key marker.");
    }
    if (version.len == 0) {
        return versions_bad_marker(req, "A version-id marker cannot be empty.");
    }
    if (!version_id_parse(req->arena, version, &op->after_version)) {
        return versions_bad_marker(req, "Invalid version id specified");
    }
    if (op->position.after_prefix) {
        op->after_version = SLICE_EMPTY; /* all behind the prefix comes */
    }
    return STEP_NEXT;
}

/* ---- List ---- */

static enum step_result versions_page(struct task *task)
{
    struct list_versions *op = versions_of(task);
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
    op->list.after_version = op->after_version;
    op->list.after_prefix = op->position.after_prefix;
    op->list.limit = op->params.limit;
    op->list.whole = list_metadata_wanted(req);
    op->list.arena = req->arena;
    return meta->list_versions(meta, &op->list, task);
}

/* ---- Reply ---- */

static void versions_write_entry(struct list_versions *op, struct xml_writer *xml,
                                 const struct meta_version_entry *entry)
{
    struct s3_request *req = &op->base;
    const Kist__Record *record = entry->record;

    xml_writer_open(xml, record->delete_marker ? "DeleteMarker" : "Version");
    xml_writer_text(xml, "Key", list_name(req, &op->params, entry->name));
    xml_writer_raw(xml, "VersionId", version_id_text(req->arena, record));
    xml_writer_bool(xml, "IsLatest", entry->is_latest);
    xml_writer_raw(xml, "LastModified", s3_iso8601(req->arena, record->stamp));
    if (!record->delete_marker) {
        xml_writer_quoted(xml, "ETag", s3_record_etag(req->arena, record, false));
        s3_xml_checksum_names(xml, record);
        xml_writer_u64(xml, "Size", record->size);
        xml_writer_raw(xml, "StorageClass", s3_storage_class(record));
        if (op->list.whole) {
            list_metadata_write(req, xml, entry->name, record);
        }
    }
    upload_write_user(xml, "Owner", s3_slice(record->owner));
    xml_writer_close(xml);
}

static void versions_write_name(struct list_versions *op, struct xml_writer *xml,
                                const char *element, struct slice name)
{
    xml_writer_text(xml, element, list_name(&op->base, &op->params, name));
}

static void versions_write_next(struct list_versions *op, struct xml_writer *xml)
{
    const struct meta_version_entry *last;

    if (!op->list.truncated) {
        return;
    }
    ASSERT(op->list.entry_count > 0);
    last = &op->list.entries[op->list.entry_count - 1];
    versions_write_name(op, xml, "NextKeyMarker", last->name);
    if (last->record != NULL) {
        xml_writer_raw(xml, "NextVersionIdMarker", version_id_text(op->base.arena, last->record));
    }
}

static void versions_write_head(struct list_versions *op, struct xml_writer *xml)
{
    struct s3_request *req = &op->base;

    xml_writer_text(xml, "Name", req->bucket_name);
    versions_write_name(op, xml, "Prefix", op->params.prefix);
    versions_write_name(op, xml, "KeyMarker", s3_param(req, "key-marker"));
    xml_writer_text(xml, "VersionIdMarker", s3_param(req, "version-id-marker"));
    versions_write_next(op, xml);
    xml_writer_u64(xml, "MaxKeys", op->params.limit);
    if (op->params.delimiter.len > 0) {
        versions_write_name(op, xml, "Delimiter", op->params.delimiter);
    }
    if (op->params.encode) {
        xml_writer_str(xml, "EncodingType", "url");
    }
    xml_writer_bool(xml, "IsTruncated", op->list.truncated);
}

/* As list_bound() of list_objects.c. */
static void versions_bound(struct list_versions *op)
{
    size_t bytes = 0;

    for (uint32_t i = 0; op->list.whole && i < op->list.entry_count; i++) {
        if (list_metadata_full(&bytes, i, op->list.entries[i].record)) {
            op->list.entry_count = i;
            op->list.truncated = true;
        }
    }
}

static enum step_result versions_reply(struct task *task)
{
    struct list_versions *op = versions_of(task);
    struct s3_request *req = &op->base;
    struct xml_writer xml;

    versions_bound(op);
    s3_xml_begin(req, &xml);
    (void)buffer_reserve(&req->xml,
                         VERSIONS_HEAD_BYTES + (size_t)op->list.entry_count * VERSIONS_ENTRY_BYTES);
    xml_writer_open_ns(&xml, "ListVersionsResult", XML_NS_S3);
    versions_write_head(op, &xml);
    for (uint32_t i = 0; i < op->list.entry_count; i++) {
        if (op->list.entries[i].record != NULL) {
            versions_write_entry(op, &xml, &op->list.entries[i]);
        }
    }
    for (uint32_t i = 0; i < op->list.entry_count; i++) {
        if (op->list.entries[i].record == NULL) {
            list_write_prefix(req, &xml, &op->params, op->list.entries[i].name);
        }
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler list_object_versions = {
    .state_size = sizeof(struct list_versions),
    .steps =
        {
                {"check", versions_check},
                {"list", versions_page},
                {"reply", versions_reply},
                },
};
