#include "gateway/s3/object_lookup.h"

#include "common/base/limits.h"
#include "common/codec/time_format.h"

/* ---- Version ids ---- */

/* At least as long as ours, of the characters of ids (AWS, Ceph, MinIO, ULID), with a digit. */
static bool version_is_foreign(struct slice text)
{
    bool digit = false;

    if (text.len < VERSION_ID_TEXT_BYTES || text.len > LIMIT_VERSION_ID_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_digit = c >= '0' && c <= '9';

        digit = digit || is_digit;
        if (!is_digit && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '.' &&
            c != '_' && c != '-') {
            return false;
        }
    }
    return digit;
}

bool s3_version_parse(struct arena *arena, struct slice text, struct slice *version)
{
    static const char nobody[VERSION_ID_BYTES] = {0}; /* no version has the stamp 0 */

    if (version_id_parse(arena, text, version)) {
        return true;
    }
    *version = slice_of(nobody, sizeof(nobody));
    return version_is_foreign(text);
}

enum step_result s3_version_read(struct s3_request *req, const char *name, struct slice text,
                                 struct slice *version)
{
    const char *message = "Invalid version id specified";

    if (text.len > 0 && s3_version_parse(req->arena, text, version)) {
        return STEP_NEXT;
    }
    if (text.len == 0) {
        message = "Version id cannot be the empty string";
    }
    return s3_fail_argument(req, name, text, message);
}

enum step_result s3_version_param(struct s3_request *req, struct slice *version)
{
    struct slice text;

    *version = SLICE_EMPTY;
    if (req->param_count == 0) {
        return STEP_NEXT;
    }
    text = s3_param(req, "versionId");
    return text.data == NULL ? STEP_NEXT : s3_version_read(req, "versionId", text, version);
}

enum step_result s3_version_param_lenient(struct s3_request *req, struct slice *version)
{
    *version = SLICE_EMPTY;
    return s3_param(req, "versionId").len == 0 ? STEP_NEXT : s3_version_param(req, version);
}

bool s3_ever_versioned(const Kist__Bucket *bucket)
{
    return bucket->settings != NULL && bucket->settings->versioning != NULL &&
           bucket->settings->versioning->state != 0;
}

void s3_reply_version(struct s3_request *req, const Kist__Record *record)
{
    if (s3_ever_versioned(req->bucket) ||
        (req->param_count > 0 && s3_has_param(req, "versionId"))) {
        s3_reply_header(req, "x-amz-version-id", version_id_text(req->arena, record));
    }
}

struct slice s3_version_of(struct arena *arena, const Kist__Bucket *bucket,
                           const Kist__Record *record)
{
    uint8_t packed[VERSION_ID_BYTES];

    if (!s3_ever_versioned(bucket)) {
        return SLICE_EMPTY;
    }
    if (record->null_version) {
        return SLICE("null");
    }
    version_id_pack(packed, record->stamp, record->tie);
    return arena_copy(arena, slice_of(packed, sizeof(packed)));
}

void s3_reply_new_version(struct s3_request *req, const Kist__Record *record)
{
    if (!record->null_version && s3_ever_versioned(req->bucket)) {
        s3_reply_header(req, "x-amz-version-id", version_id_text(req->arena, record));
    }
}

/* ---- The lookup ---- */

enum step_result object_lookup_start(struct s3_request *req, struct object_lookup *lookup,
                                     struct slice version, bool want_body)
{
    struct meta_client *meta = req->gateway->meta;

    lookup->get.bucket_id = req->bucket->id;
    lookup->get.generation = req->bucket->generation;
    lookup->get.key = req->key;
    lookup->get.version = version;
    lookup->get.want_body = want_body;
    lookup->get.arena = req->arena;
    return meta->get(meta, &lookup->get, &req->task);
}

static void lookup_marker_headers(struct s3_request *req, const Kist__Record *marker)
{
    s3_reply_header(req, "x-amz-delete-marker", SLICE("true"));
    s3_reply_header(req, "x-amz-version-id", version_id_text(req->arena, marker));
}

/* A marker by its id: there is such a version, but it can only be deleted. */
static enum step_result lookup_is_marker(struct s3_request *req, const Kist__Record *marker)
{
    char *date = arena_alloc_raw(req->arena, TIME_HTTP_BYTES + 1);

    time_format_http(marker->stamp / 1000000000U, date);
    (void)s3_fail(req, S3_MethodNotAllowed, NULL);
    s3_error_detail(req, "Method", req->http->request.method_name);
    s3_error_detail(req, "ResourceType", SLICE("DeleteMarker"));
    lookup_marker_headers(req, marker);
    s3_reply_header(req, "Allow", SLICE("DELETE"));
    s3_reply_header(req, "Last-Modified", slice_of(date, TIME_HTTP_BYTES));
    return STEP_FAIL;
}

static enum step_result lookup_absent(struct s3_request *req, const struct meta_get *get)
{
    if (get->version.len > 0 && get->marker != NULL) {
        return lookup_is_marker(req, get->marker);
    }
    if (get->version.len > 0) {
        (void)s3_fail(req, S3_NoSuchVersion, NULL);
        s3_error_detail(req, "Key", req->key);
        s3_error_detail(req, "VersionId", s3_param(req, "versionId"));
        return STEP_FAIL;
    }
    (void)s3_fail(req, S3_NoSuchKey, NULL);
    if (get->marker != NULL) {
        lookup_marker_headers(req, get->marker);
    }
    return STEP_FAIL;
}

enum step_result object_lookup_found(struct s3_request *req, struct object_lookup *lookup)
{
    lookup->got = true;
    if (s3_check_object(req, lookup->get.record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return lookup->get.record != NULL ? STEP_NEXT : lookup_absent(req, &lookup->get);
}

void object_lookup_release(struct s3_request *req, struct object_lookup *lookup)
{
    struct meta_client *meta = req->gateway->meta;

    /* A hang-up may keep the step after a successful read from being entered: then what was found
     * tells. */
    if (lookup->got || lookup->get.record != NULL || lookup->get.marker != NULL) {
        meta->release(meta, &lookup->get);
        lookup->got = false;
        lookup->get.record = NULL;
        lookup->get.marker = NULL;
    }
}

/* ---- Operations that read one version ---- */

enum step_result object_read_check(struct task *task)
{
    return s3_version_param_lenient(S3_REQUEST_OF(task), &object_read_of(task)->version);
}

enum step_result object_read_start(struct task *task)
{
    struct object_read *op = object_read_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, false);
}

void object_read_release(struct task *task)
{
    struct object_read *op = object_read_of(task);

    object_lookup_release(&op->base, &op->find);
}
