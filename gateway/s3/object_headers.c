#include "gateway/s3/object_headers.h"

#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/codec/time_format.h"
#include "gateway/s3/metadata_text.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/object_tags.h"

/* Kept as they came and given back. */
static const struct {
    const char *name; /* lower case: in the record */
    const char *wire;
    const char *override; /* query parameter of GET */
} system_headers[] = {
    {"cache-control",                   "Cache-Control",                   "response-cache-control"      },
    {"content-disposition",             "Content-Disposition",             "response-content-disposition"},
    {"content-encoding",                "Content-Encoding",                "response-content-encoding"   },
    {"content-language",                "Content-Language",                "response-content-language"   },
    {"expires",                         "Expires",                         "response-expires"            },
    {"x-amz-website-redirect-location", "x-amz-website-redirect-location", NULL                          },
};

static const char metadata_prefix[] = "x-amz-meta-";

/* ---- From the request ---- */

static Kist__Header *header_new(struct arena *arena, struct slice name, struct slice value)
{
    Kist__Header *header = arena_alloc_raw(arena, sizeof(*header));

    kist__header__init(header);
    header->name = s3_bytes(name);
    header->value = s3_bytes(value);
    return header;
}

/* Without the token that speaks of the transfer, not of the object. */
static struct slice header_content_encoding(struct arena *arena, struct slice value)
{
    char *out = arena_alloc_raw(arena, 2 * value.len + 1);
    struct slice rest = value;
    bool found = false;
    size_t len = 0;

    while (rest.len > 0) {
        size_t comma = slice_find(rest, ',');
        struct slice token = slice_trim(slice_of(rest.data, comma));

        rest = slice_after(rest, comma + 1);
        if (slice_eq_nocase(token, SLICE("aws-chunked"))) {
            found = true;
            continue;
        }
        if (token.len == 0) {
            continue;
        }
        if (len > 0) {
            out[len++] = ',';
            out[len++] = ' ';
        }
        memcpy(out + len, token.data, token.len);
        len += token.len;
    }
    return found ? slice_of(out, len) : value;
}

static enum step_result record_system_headers(struct s3_request *req, Kist__Record *record)
{
    record->headers = arena_alloc_raw(req->arena, ARRAY_LEN(system_headers) * sizeof(void *));
    record->n_headers = 0;
    for (size_t i = 0; i < ARRAY_LEN(system_headers); i++) {
        struct slice value = s3_header(req, system_headers[i].name);

        if (value.data == NULL) {
            continue;
        }
        if (slice_eq_str(SLICE("content-encoding"), system_headers[i].name)) {
            value = header_content_encoding(req->arena, value);
        }
        if (value.len == 0) {
            continue;
        }
        if (i == ARRAY_LEN(system_headers) - 1 && value.data[0] != '/' &&
            !slice_starts(value, SLICE("http://")) && !slice_starts(value, SLICE("https://"))) {
            return s3_fail(req, S3_InvalidRedirectLocation, NULL);
        }
        record->headers[record->n_headers++] =
            header_new(req->arena, slice_str(system_headers[i].name), value);
    }
    return STEP_NEXT;
}

/* Repeated names are joined by commas, as proxies may do on the way (RFC 9110 5.3). */
static void record_metadata_add(struct s3_request *req, Kist__Record *record, struct slice name,
                                struct slice value)
{
    for (size_t i = 0; i < record->n_metadata; i++) {
        struct slice old = s3_slice(record->metadata[i]->value);

        if (slice_eq(s3_slice(record->metadata[i]->name), name)) {
            record->metadata[i]->value = s3_bytes(arena_printf(
                req->arena, "%.*s,%.*s", (int)old.len, old.data, (int)value.len, value.data));
            return;
        }
    }
    record->metadata[record->n_metadata++] = header_new(req->arena, name, value);
}

static enum step_result record_metadata(struct s3_request *req, Kist__Record *record)
{
    const struct http_request *request = &req->http->request;
    const struct slice prefix = SLICE(metadata_prefix);
    size_t count = 0;
    size_t bytes = 0;

    for (uint32_t i = 0; i < request->header_count; i++) {
        count += slice_starts(request->headers[i].name, prefix) ? 1 : 0;
    }
    record->n_metadata = 0;
    record->metadata = NULL;
    if (count == 0) {
        return STEP_NEXT;
    }
    record->metadata = arena_alloc_raw(req->arena, count * sizeof(void *));
    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];

        if (slice_starts(header->name, prefix)) {
            record_metadata_add(req, record, slice_after(header->name, prefix.len),
                                metadata_text_decode(req->arena, header->value));
        }
    }
    for (size_t i = 0; i < record->n_metadata; i++) {
        bytes += record->metadata[i]->name.len + record->metadata[i]->value.len;
    }
    if (bytes > LIMIT_USER_METADATA_BYTES) {
        (void)s3_fail(req, S3_MetadataTooLarge, NULL);
        s3_error_detail(req, "Size", arena_printf(req->arena, "%zu", bytes));
        s3_error_detail(req, "MaxSizeAllowed",
                        arena_printf(req->arena, "%d", LIMIT_USER_METADATA_BYTES));
        return STEP_FAIL;
    }
    return STEP_NEXT;
}

void s3_record_identity(struct s3_request *req, Kist__Record *record)
{
    struct slice class = s3_header(req, "x-amz-storage-class");

    record->owner = s3_bytes(req->auth.user);
    if (class.len > 0 && !slice_eq(class, SLICE("STANDARD"))) {
        record->storage_class = s3_bytes(class);
    }
}

enum step_result s3_record_from_request(struct s3_request *req, Kist__Record *record)
{
    struct slice type = s3_header(req, "content-type");

    record->content_type = s3_bytes(type.len > 0 ? type : SLICE("binary/octet-stream"));
    s3_record_identity(req, record);
    if (record_system_headers(req, record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return record_metadata(req, record);
}

Kist__Header *s3_record_redirect(const Kist__Record *record)
{
    for (size_t i = 0; i < record->n_headers; i++) {
        if (slice_eq_str(s3_slice(record->headers[i]->name), "x-amz-website-redirect-location")) {
            return record->headers[i];
        }
    }
    return NULL;
}

enum step_result s3_record_tags_and_lock(struct s3_request *req, Kist__Record *record)
{
    struct tag_set set;

    if (object_tags_from_header(req, &set) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record->tags = set.tags;
    record->n_tags = set.count;
    return object_lock_from_request(req, record);
}

/* ---- Text forms ---- */

struct slice s3_etag(struct arena *arena, struct slice md5, uint32_t part_count, bool quoted)
{
    enum { ETAG_TEXT_MAX = 2 + 2 * MD5_BYTES + 12 };
    char *out = arena_alloc_raw(arena, ETAG_TEXT_MAX);
    size_t len = 0;

    ASSERT(md5.len <= MD5_BYTES);
    if (quoted) {
        out[len++] = '"';
    }
    hex_encode(out + len, md5.data, md5.len);
    len += 2 * md5.len;
    if (part_count > 0) {
        char digits[12];
        size_t n = 0;

        for (uint32_t rest = part_count; rest > 0; rest /= 10) {
            digits[n++] = (char)('0' + rest % 10);
        }
        out[len++] = '-';
        while (n > 0) {
            out[len++] = digits[--n];
        }
    }
    if (quoted) {
        out[len++] = '"';
    }
    return slice_of(out, len);
}

struct slice s3_record_etag(struct arena *arena, const Kist__Record *record, bool quoted)
{
    uint32_t suffix = record->part_count;

    if (suffix == 0 && record->segments > 1) {
        suffix = record->segments; /* appended: not the MD5 of its bytes, and clients see it */
    }
    return s3_etag(arena, s3_slice(record->etag), suffix, quoted);
}

struct slice s3_checksum_text(struct arena *arena, const Kist__Checksum *checksum,
                              uint32_t part_count)
{
    struct slice text = checksum_text(arena, (enum checksum_algorithm)checksum->algorithm,
                                      s3_slice(checksum->value));

    if (checksum->type != CHECKSUM_COMPOSITE || part_count == 0) {
        return text;
    }
    return arena_printf(arena, "%.*s-%u", (int)text.len, text.data, part_count);
}

const char *s3_checksum_type_name(uint32_t type)
{
    return type == CHECKSUM_COMPOSITE ? "COMPOSITE" : "FULL_OBJECT";
}

struct slice s3_storage_class(const Kist__Record *record)
{
    return record->storage_class.len > 0 ? s3_slice(record->storage_class) : SLICE("STANDARD");
}

struct slice s3_iso8601(struct arena *arena, uint64_t stamp)
{
    char *out = arena_alloc_raw(arena, TIME_ISO8601_BYTES + 1);

    time_format_iso8601(stamp / 1000000000U * 1000000000U, out);
    return slice_of(out, TIME_ISO8601_BYTES);
}

Kist__Checksum *s3_checksum_new(struct arena *arena, const struct checksum_value *value,
                                enum checksum_type type)
{
    Kist__Checksum *checksum = arena_alloc_raw(arena, sizeof(*checksum));
    struct slice raw = slice_of(value->bytes, checksum_bytes(value->algorithm));

    kist__checksum__init(checksum);
    checksum->algorithm = value->algorithm;
    checksum->value = s3_bytes(arena_copy(arena, raw));
    checksum->type = type;
    return checksum;
}

/* ---- To the reply ---- */

static struct slice record_header(const Kist__Record *record, const char *name)
{
    for (size_t i = 0; i < record->n_headers; i++) {
        if (slice_eq_str(s3_slice(record->headers[i]->name), name)) {
            return s3_slice(record->headers[i]->value);
        }
    }
    return SLICE_EMPTY;
}

struct slice s3_last_modified(struct arena *arena, const Kist__Record *record)
{
    char *out = arena_alloc_raw(arena, TIME_HTTP_BYTES + 1);

    time_format_http(record->stamp / 1000000000U, out);
    return slice_of(out, TIME_HTTP_BYTES);
}

/* A decoded query value that goes into a header must not be able to end it. */
static bool header_value_safe(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if ((unsigned char)value.data[i] < 0x20 || value.data[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum step_result reply_overridable(struct s3_request *req, const char *wire,
                                          const char *override, struct slice value)
{
    struct slice asked =
        override != NULL && req->param_count > 0 ? s3_param(req, override) : SLICE_EMPTY;

    if (asked.len > 0) {
        if (!header_value_safe(asked)) {
            return s3_failf(req, S3_InvalidArgument, "The value of %s is not valid in a header.",
                            override);
        }
        value = asked;
    }
    if (value.len > 0) {
        s3_reply_header(req, wire, value);
    }
    return STEP_NEXT;
}

static void reply_metadata(struct s3_request *req, const Kist__Record *record)
{
    for (size_t i = 0; i < record->n_metadata; i++) {
        struct slice name = s3_slice(record->metadata[i]->name);
        char *wire = arena_alloc_raw(req->arena, sizeof(metadata_prefix) + name.len);

        memcpy(wire, metadata_prefix, sizeof(metadata_prefix) - 1);
        if (name.len > 0) { /* "x-amz-meta-:" alone is a name, too */
            memcpy(wire + sizeof(metadata_prefix) - 1, name.data, name.len);
        }
        wire[sizeof(metadata_prefix) - 1 + name.len] = '\0';
        s3_reply_header(req, wire,
                        metadata_text_encode(req->arena, s3_slice(record->metadata[i]->value)));
    }
}

enum step_result s3_reply_record(struct s3_request *req, const Kist__Record *record)
{
    s3_reply_header(req, "Last-Modified", s3_last_modified(req->arena, record));
    s3_reply_header(req, "ETag", s3_record_etag(req->arena, record, true));
    s3_reply_header(req, "Accept-Ranges", SLICE("bytes"));
    if (reply_overridable(req, "Content-Type", "response-content-type",
                          s3_slice(record->content_type)) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (record->n_headers > 0 || req->param_count > 0) {
        for (size_t i = 0; i < ARRAY_LEN(system_headers); i++) {
            if (reply_overridable(req, system_headers[i].wire, system_headers[i].override,
                                  record_header(record, system_headers[i].name)) == STEP_FAIL) {
                return STEP_FAIL;
            }
        }
    }
    if (record->storage_class.len > 0) { /* AWS leaves it out for STANDARD */
        s3_reply_header(req, "x-amz-storage-class", s3_slice(record->storage_class));
    }
    reply_metadata(req, record);
    return STEP_NEXT;
}

void s3_reply_version_state(struct s3_request *req, const Kist__Record *record)
{
    s3_reply_version(req, record);
    if (record->n_tags > 0 && s3_allowed_key(req, "s3:GetObjectTagging", req->bucket, req->key)) {
        s3_reply_header(req, "x-amz-tagging-count",
                        arena_printf(req->arena, "%zu", record->n_tags));
    }
    object_lock_reply(req, record);
}

void s3_reply_validators(struct s3_request *req, const Kist__Record *record)
{
    s3_reply_header(req, "ETag", s3_record_etag(req->arena, record, true));
    s3_reply_header(req, "Last-Modified", s3_last_modified(req->arena, record));
    (void)reply_overridable(req, "Cache-Control", NULL, record_header(record, "cache-control"));
    (void)reply_overridable(req, "Expires", NULL, record_header(record, "expires"));
}

void s3_reply_checksums(struct s3_request *req, Kist__Checksum *const *checksums, size_t count,
                        uint32_t part_count)
{
    for (size_t i = 0; i < count; i++) {
        s3_reply_header(req, checksum_header((enum checksum_algorithm)checksums[i]->algorithm),
                        s3_checksum_text(req->arena, checksums[i], part_count));
    }
    if (count > 0) {
        s3_reply_header(req, "x-amz-checksum-type",
                        slice_str(s3_checksum_type_name(checksums[0]->type)));
    }
}

void s3_xml_checksums(struct s3_request *req, struct xml_writer *xml,
                      Kist__Checksum *const *checksums, size_t count, uint32_t part_count)
{
    for (size_t i = 0; i < count; i++) {
        xml_writer_raw(xml, checksum_element((enum checksum_algorithm)checksums[i]->algorithm),
                       s3_checksum_text(req->arena, checksums[i], part_count));
    }
}

void s3_xml_checksum_names(struct xml_writer *xml, const Kist__Record *record)
{
    for (size_t i = 0; i < record->n_checksums; i++) {
        xml_writer_str(xml, "ChecksumAlgorithm",
                       checksum_name((enum checksum_algorithm)record->checksums[i]->algorithm));
    }
    if (record->n_checksums > 0) {
        xml_writer_str(xml, "ChecksumType", s3_checksum_type_name(record->checksums[0]->type));
    }
}

void s3_part_range_of(struct s3_request *req, const Kist__Record *record, uint32_t number,
                      struct meta_part_range *call)
{
    const Kist__Reference *shared = record->shared;

    *call = (struct meta_part_range){
        .bucket_id = shared != NULL ? shared->home_bucket : req->bucket->id,
        .key = shared != NULL ? s3_slice(shared->home_key) : req->key,
        .layout_id = s3_slice(shared != NULL ? shared->layout_id : record->layout_id),
        .number = number,
        .arena = req->arena,
    };
}
