#include "gateway/s3/copy_source.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/router.h"

/* Offset of the last "?versionId=", or text.len: a key may hold question marks of its own, which
 * SDKs encode, and the mark not. Clients that encode the whole header encode the mark, too; these
 * are known by having no "/" left. */
static size_t copy_source_version_at(struct slice text, size_t *mark_len)
{
    static const char *const marks[] = {"?versionId=", "%3FversionId%3D", "%3fversionId%3d"};
    struct slice path = slice_starts(text, SLICE("/")) ? slice_after(text, 1) : text;
    size_t known = slice_find(path, '/') == path.len ? ARRAY_LEN(marks) : 1;

    *mark_len = 0;
    for (size_t i = text.len; i-- > 0;) {
        for (size_t j = 0; j < known; j++) {
            if (slice_starts(slice_after(text, i), slice_str(marks[j]))) {
                *mark_len = strlen(marks[j]);
                return i;
            }
        }
    }
    return text.len;
}

const char *copy_source_split(struct arena *arena, struct slice header, struct copy_source *source,
                              struct slice *version)
{
    size_t mark_len;
    size_t mark = copy_source_version_at(header, &mark_len);
    struct slice text;
    size_t slash;

    *version = SLICE_EMPTY;
    if (!percent_decode(arena, slice_of(header.data, mark), false, &text) || !utf8_valid(text)) {
        return "Invalid copy source encoding";
    }
    if (text.len > 0 && text.data[0] == '/') {
        text = slice_after(text, 1);
    }
    slash = slice_find(text, '/');
    if (!router_bucket_name_valid(slice_of(text.data, slash))) {
        return "Invalid copy source bucket name";
    }
    source->bucket_name = slice_of(text.data, slash);
    source->key = slice_after(text, slash + 1);
    if (source->key.len == 0 || source->key.len > LIMIT_KEY_BYTES) {
        return "Invalid copy source object key";
    }
    if (mark == header.len) {
        return NULL;
    }
    if (!percent_decode(arena, slice_after(header, mark + mark_len), false, version)) {
        return "Invalid copy source encoding";
    }
    if (version->data == NULL) {
        *version = SLICE("");
    }
    return NULL;
}

enum step_result copy_source_parse(struct s3_request *req, struct copy_source *source)
{
    struct slice header = s3_header(req, "x-amz-copy-source");
    struct slice version;
    const char *problem;

    source->version = SLICE_EMPTY;
    problem = copy_source_split(req->arena, header, source, &version);
    if (problem == NULL) {
        return version.data == NULL ? STEP_NEXT
                                    : s3_version_read(req, "versionId", version, &source->version);
    }
    return s3_fail_argument(req, "x-amz-copy-source", header, problem);
}

static const char *copy_source_action(const struct copy_source *source)
{
    return source->version.len > 0 ? "s3:GetObjectVersion" : "s3:GetObject";
}

static bool copy_source_allowed(const struct s3_request *req, const struct copy_source *source,
                                const Kist__Bucket *bucket)
{
    struct slice expected = s3_header(req, "x-amz-source-expected-bucket-owner");

    return s3_may_allow_key(req, copy_source_action(source), bucket, source->key) &&
           (expected.data == NULL || slice_eq(expected, s3_slice(bucket->owner)));
}

enum step_result copy_source_find(struct s3_request *req, struct copy_source *source)
{
    const Kist__Bucket *bucket = view_bucket(req->view, source->bucket_name);

    if (bucket != NULL && copy_source_allowed(req, source, bucket)) {
        source->bucket = bucket;
        return STEP_NEXT;
    }
    source->asked = true;
    return req->gateway->meta->refresh(req->gateway->meta, &source->refresh, &req->task);
}

enum step_result copy_source_confirm(struct s3_request *req, struct copy_source *source)
{
    const Kist__Bucket *bucket;

    if (!source->asked) {
        return STEP_NEXT;
    }
    source->view = view_ref(req->gateway->meta->view(req->gateway->meta));
    bucket = view_bucket(source->view, source->bucket_name);
    if (bucket == NULL) {
        (void)s3_fail(req, S3_NoSuchBucket, NULL);
        req->bucket_name = source->bucket_name; /* the one that the error speaks of */
        return STEP_FAIL;
    }
    if (!copy_source_allowed(req, source, bucket)) {
        return s3_fail(req, S3_AccessDenied, NULL);
    }
    source->bucket = bucket;
    return STEP_NEXT;
}

enum step_result copy_source_look(struct s3_request *req, struct copy_source *source,
                                  bool want_body)
{
    struct meta_client *meta = req->gateway->meta;

    source->get.bucket_id = source->bucket->id;
    source->get.generation = source->bucket->generation;
    source->get.key = source->key;
    source->get.version = source->version;
    source->get.want_body = want_body;
    source->get.arena = req->arena;
    return meta->get(meta, &source->get, &req->task);
}

enum step_result copy_source_found(struct s3_request *req, struct copy_source *source)
{
    source->got = true;
    if (s3_check_key(req, copy_source_action(source), source->bucket, source->key,
                     source->get.record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (source->get.record != NULL) {
        return STEP_NEXT;
    }
    if (source->version.len > 0 && source->get.marker != NULL) {
        return s3_fail(req, S3_InvalidRequest,
                       "The source of a copy request may not specifically refer to a delete "
                       "marker by version id.");
    }
    (void)s3_fail(req, source->version.len > 0 ? S3_NoSuchVersion : S3_NoSuchKey, NULL);
    s3_error_detail(req, "Key", source->key);
    if (source->version.len > 0) {
        struct slice header = s3_header(req, "x-amz-copy-source");
        size_t mark_len;
        size_t mark = copy_source_version_at(header, &mark_len);

        s3_error_detail(req, "VersionId", slice_after(header, mark + mark_len));
    }
    return STEP_FAIL;
}

struct slice copy_source_version(struct s3_request *req, const struct copy_source *source)
{
    return s3_version_of(req->arena, source->bucket, source->get.record);
}

void copy_source_reply(struct s3_request *req, const struct copy_source *source)
{
    if (s3_ever_versioned(source->bucket) || source->version.len > 0) {
        s3_reply_header(req, "x-amz-copy-source-version-id",
                        version_id_text(req->arena, source->get.record));
    }
}

void copy_source_release(struct s3_request *req, struct copy_source *source)
{
    struct meta_client *meta = req->gateway->meta;

    if (source->got || source->get.record != NULL || source->get.marker != NULL) {
        meta->release(meta, &source->get);
        source->got = false;
        source->get.record = NULL;
        source->get.marker = NULL;
    }
    if (source->view != NULL) {
        view_unref(source->view);
        source->view = NULL;
    }
}
