/*
 * GetObjectAttributes: what is known of an object without its bytes; of one made by a multipart
 * upload also its parts, a page at a time.
 *
 *     check -> read -> found -> parts (again for each part) -> reply
 *
 * The checksum of the whole object comes without the "-<parts>" that its header has (AWS).
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"

enum { ATTRIBUTES_PARTS_MAX = 1000 };

enum attribute {
    ATTRIBUTE_ETAG = 1,
    ATTRIBUTE_CHECKSUM = 2,
    ATTRIBUTE_PARTS = 4,
    ATTRIBUTE_CLASS = 8,
    ATTRIBUTE_SIZE = 16
};

static const struct {
    const char *name;
    enum attribute bit;
} attributes[] = {
    {"Checksum",     ATTRIBUTE_CHECKSUM},
    {"ETag",         ATTRIBUTE_ETAG    },
    {"ObjectParts",  ATTRIBUTE_PARTS   },
    {"ObjectSize",   ATTRIBUTE_SIZE    },
    {"StorageClass", ATTRIBUTE_CLASS   },
};

struct attributes_part {
    uint64_t size;
    const Kist__PartSummary *summary;
};

struct get_attributes {
    struct s3_request base;
    struct object_lookup find;
    struct slice version;
    struct meta_part_range part;
    unsigned asked; /* bits of enum attribute */
    uint32_t part_marker;
    uint32_t parts_max;
    uint32_t part_at; /* position of the part under way; 0: not begun */
    struct attributes_part *parts;
    uint32_t part_count;
};

static struct get_attributes *attributes_of(struct task *task)
{
    return CONTAINER_OF(task, struct get_attributes, base.task);
}

/* ---- Check ---- */

static unsigned attribute_bit(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
        if (slice_eq_str(name, attributes[i].name)) {
            return attributes[i].bit;
        }
    }
    return 0;
}

/* One header with commas, or the header several times. */
static enum step_result attributes_read_list(struct get_attributes *op, struct slice list)
{
    while (list.len > 0) {
        size_t end = slice_find(list, ',');
        struct slice name = slice_trim(slice_of(list.data, end));
        unsigned bit = attribute_bit(name);

        list = slice_after(list, end + 1);
        if (bit == 0) {
            return s3_fail_argument(&op->base, "x-amz-object-attributes", name,
                                    "Invalid attribute name specified.");
        }
        op->asked |= bit;
    }
    return STEP_NEXT;
}

static enum step_result attributes_read_number(struct s3_request *req, const char *header,
                                               uint32_t max, uint32_t *number)
{
    struct slice text = s3_header(req, header);
    uint64_t value;

    if (text.data == NULL) {
        return STEP_NEXT;
    }
    if (!slice_to_u64(text, INT32_MAX, &value)) {
        return s3_fail_argument(req, header, text, "Provided value is not a number in range");
    }
    *number = value < max ? (uint32_t)value : max;
    return STEP_NEXT;
}

static enum step_result attributes_check(struct task *task)
{
    struct get_attributes *op = attributes_of(task);
    struct s3_request *req = &op->base;
    const struct http_request *request = &req->http->request;

    if (s3_refuse_encryption(req) == STEP_FAIL ||
        s3_version_param(req, &op->version) == STEP_FAIL) {
        return STEP_FAIL;
    }
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (slice_eq(request->headers[i].name, SLICE("x-amz-object-attributes")) &&
            attributes_read_list(op, request->headers[i].value) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    if (op->asked == 0) {
        return s3_fail(req, S3_InvalidRequest,
                       "The x-amz-object-attributes header specifying the attributes to be "
                       "retrieved is either missing or empty");
    }
    op->parts_max = ATTRIBUTES_PARTS_MAX;
    if (attributes_read_number(req, "x-amz-max-parts", ATTRIBUTES_PARTS_MAX, &op->parts_max) ==
        STEP_FAIL) {
        return STEP_FAIL;
    }
    return attributes_read_number(req, "x-amz-part-number-marker", LIMIT_PARTS, &op->part_marker);
}

/* ---- Read ---- */

static enum step_result attributes_read(struct task *task)
{
    struct get_attributes *op = attributes_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, false);
}

static enum step_result attributes_found(struct task *task)
{
    struct get_attributes *op = attributes_of(task);

    if (object_lookup_found(&op->base, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->parts = arena_alloc(op->base.arena, (op->parts_max + 1) * sizeof(*op->parts));
    return STEP_NEXT;
}

/* ---- Parts ---- */

/* AWS lists parts only of objects with a checksum, whatever its type. */
static bool attributes_lists_parts(const struct get_attributes *op)
{
    const Kist__Record *record = op->find.get.record;

    return (op->asked & ATTRIBUTE_PARTS) != 0 && record->part_count > 0 && record->n_checksums > 0;
}

static enum step_result attributes_parts(struct task *task)
{
    struct get_attributes *op = attributes_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->find.get.record;
    enum step_result result;

    if (op->part_at > 0) {
        op->parts[op->part_count++] =
            (struct attributes_part){.size = op->part.size, .summary = op->part.part};
    }
    if (!attributes_lists_parts(op) || op->part_count == op->parts_max ||
        op->part_marker + op->part_count >= record->part_count) {
        return STEP_NEXT;
    }
    op->part_at = op->part_marker + op->part_count + 1;
    s3_part_range_of(req, record, op->part_at, &op->part);
    result = req->gateway->meta->part_range(req->gateway->meta, &op->part, task);
    return result == STEP_NEXT ? STEP_REPEAT : result == STEP_WAIT ? STEP_AGAIN : result;
}

/* ---- Reply ---- */

static void attributes_write_checksums(struct get_attributes *op, struct xml_writer *xml)
{
    const Kist__Record *record = op->find.get.record;

    if (record->n_checksums == 0) {
        return;
    }
    xml_writer_open(xml, "Checksum");
    s3_xml_checksums(&op->base, xml, record->checksums, record->n_checksums, 0);
    xml_writer_str(xml, "ChecksumType", s3_checksum_type_name(record->checksums[0]->type));
    xml_writer_close(xml);
}

static void attributes_write_parts(struct get_attributes *op, struct xml_writer *xml)
{
    const Kist__Record *record = op->find.get.record;

    if (record->part_count == 0) {
        return;
    }
    xml_writer_open(xml, "ObjectParts");
    if (attributes_lists_parts(op)) {
        uint32_t last = op->part_marker + op->part_count;

        xml_writer_bool(xml, "IsTruncated", last < record->part_count);
        xml_writer_u64(xml, "MaxParts", op->parts_max);
        xml_writer_u64(xml, "NextPartNumberMarker", last);
        xml_writer_u64(xml, "PartNumberMarker", op->part_marker);
    }
    for (uint32_t i = 0; i < op->part_count; i++) {
        const struct attributes_part *part = &op->parts[i];

        xml_writer_open(xml, "Part");
        if (part->summary != NULL) {
            s3_xml_checksums(&op->base, xml, part->summary->checksums, part->summary->n_checksums,
                             0);
        }
        xml_writer_u64(xml, "PartNumber", op->part_marker + i + 1);
        xml_writer_u64(xml, "Size", part->size);
        xml_writer_close(xml);
    }
    xml_writer_u64(xml, "PartsCount", record->part_count);
    xml_writer_close(xml);
}

static enum step_result attributes_reply(struct task *task)
{
    struct get_attributes *op = attributes_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->find.get.record;
    struct xml_writer xml;

    s3_reply_header(req, "Last-Modified", s3_last_modified(req->arena, record));
    s3_reply_version(req, record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "GetObjectAttributesResponse", XML_NS_S3);
    if ((op->asked & ATTRIBUTE_ETAG) != 0) {
        xml_writer_raw(&xml, "ETag", s3_record_etag(req->arena, record, false));
    }
    if ((op->asked & ATTRIBUTE_CHECKSUM) != 0) {
        attributes_write_checksums(op, &xml);
    }
    if ((op->asked & ATTRIBUTE_PARTS) != 0) {
        attributes_write_parts(op, &xml);
    }
    if ((op->asked & ATTRIBUTE_CLASS) != 0) {
        xml_writer_raw(&xml, "StorageClass", s3_storage_class(record));
    }
    if ((op->asked & ATTRIBUTE_SIZE) != 0) {
        xml_writer_u64(&xml, "ObjectSize", record->size);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void attributes_release(struct task *task)
{
    struct get_attributes *op = attributes_of(task);

    object_lookup_release(&op->base, &op->find);
}

const struct s3_handler get_object_attributes = {
    .state_size = sizeof(struct get_attributes),
    .flags = CHECKS_OBJECT,
    .steps =
        {
                {"check", attributes_check},
                {"read", attributes_read},
                {"found", attributes_found},
                {"parts", attributes_parts},
                {"reply", attributes_reply},
                },
    .release = attributes_release,
};
