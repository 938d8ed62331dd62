#include "gateway/s3/list_metadata.h"

#include "common/codec/percent.h"

enum { LIST_METADATA_BYTES_MAX = 4 * 1024 * 1024 }; /* of one page */

bool list_metadata_wanted(const struct s3_request *req)
{
    return slice_eq_nocase(s3_param(req, "metadata"), SLICE("true"));
}

static size_t metadata_bytes(Kist__Header *const *headers, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        len += 2 * headers[i]->name.len + headers[i]->value.len + sizeof("X-Amz-Meta-") * 2;
    }
    return len;
}

static size_t list_metadata_bytes(const Kist__Record *record)
{
    return metadata_bytes(record->metadata, record->n_metadata) +
           metadata_bytes(record->headers, record->n_headers) +
           3 * metadata_bytes(record->tags, record->n_tags) + record->content_type.len;
}

bool list_metadata_full(size_t *bytes, uint32_t at, const Kist__Record *record)
{
    *bytes += record != NULL ? list_metadata_bytes(record) : 0;
    return *bytes > LIST_METADATA_BYTES_MAX && at > 0;
}

/* Header names may hold what element names may not: those few are left out. */
static bool metadata_is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_' && c != '.') {
            return false;
        }
    }
    return true;
}

static void metadata_write_user(struct s3_request *req, struct xml_writer *xml,
                                const Kist__Record *record)
{
    xml_writer_open(xml, "UserMetadata");
    if (record->content_type.len > 0) {
        xml_writer_text(xml, "content-type", s3_slice(record->content_type));
    }
    for (size_t i = 0; i < record->n_headers; i++) {
        xml_writer_element(xml, s3_slice(record->headers[i]->name),
                           s3_slice(record->headers[i]->value));
    }
    for (size_t i = 0; i < record->n_metadata; i++) {
        struct slice name = s3_slice(record->metadata[i]->name);

        if (metadata_is_name(name)) {
            xml_writer_element(
                xml, arena_printf(req->arena, "X-Amz-Meta-%.*s", (int)name.len, name.data),
                s3_slice(record->metadata[i]->value));
        }
    }
    xml_writer_close(xml);
}

static void metadata_write_tags(struct s3_request *req, struct xml_writer *xml,
                                const Kist__Record *record)
{
    struct buffer text;

    buffer_init(&text);
    for (size_t i = 0; i < record->n_tags; i++) {
        if (i > 0) {
            buffer_append(&text, SLICE("&"));
        }
        buffer_append(&text, percent_encode(req->arena, s3_slice(record->tags[i]->name), false));
        buffer_append(&text, SLICE("="));
        buffer_append(&text, percent_encode(req->arena, s3_slice(record->tags[i]->value), false));
    }
    xml_writer_text(xml, "UserTags", buffer_slice(&text));
    buffer_deinit(&text);
}

void list_metadata_write(struct s3_request *req, struct xml_writer *xml, struct slice key,
                         const Kist__Record *record)
{
    if (s3_allowed_key(req, "s3:GetObject", req->bucket, key)) {
        metadata_write_user(req, xml, record);
    }
    if (record->n_tags > 0 && s3_allowed_key(req, "s3:GetObjectTagging", req->bucket, key)) {
        metadata_write_tags(req, xml, record);
    }
}
