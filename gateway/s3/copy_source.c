#include "gateway/s3/copy_source.h"

#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"

/* Offset of the last "?versionId=", or text.len: a key may hold question marks of its own. */
static size_t copy_source_version_at(struct slice text)
{
    const struct slice mark = SLICE("?versionId=");

    for (size_t i = text.len; i-- > 0;) {
        if (text.data[i] == '?' && slice_starts(slice_after(text, i), mark)) {
            return i;
        }
    }
    return text.len;
}

bool copy_source_split(struct arena *arena, struct slice header, struct copy_source *source,
                       struct slice *version)
{
    size_t mark = copy_source_version_at(header);
    struct slice text;
    size_t slash;

    *version = SLICE_EMPTY;
    if (!percent_decode(arena, slice_of(header.data, mark), false, &text) || !utf8_valid(text)) {
        return false;
    }
    if (text.len > 0 && text.data[0] == '/') {
        text = slice_after(text, 1);
    }
    slash = slice_find(text, '/');
    if (slash == 0 || slash + 1 >= text.len) {
        return false;
    }
    source->bucket_name = slice_of(text.data, slash);
    source->key = slice_after(text, slash + 1);
    if (source->key.len > LIMIT_KEY_BYTES) {
        return false;
    }
    if (mark == header.len) {
        return true;
    }
    *version = slice_after(header, mark + sizeof("?versionId=") - 1);
    if (version->data == NULL) {
        *version = SLICE("");
    }
    return slice_eq(*version, SLICE("null"));
}

enum step_result copy_source_parse(struct s3_request *req, struct copy_source *source)
{
    struct slice header = s3_header(req, "x-amz-copy-source");
    struct slice version;

    if (copy_source_split(req->arena, header, source, &version)) {
        return STEP_NEXT;
    }
    if (version.data == NULL) {
        (void)s3_fail(req, S3_InvalidArgument,
                      "Copy Source must mention the source bucket and key: sourcebucket/sourcekey");
        s3_error_detail(req, "ArgumentName", SLICE("x-amz-copy-source"));
        s3_error_detail(req, "ArgumentValue", header);
        return STEP_FAIL;
    }
    if (version.len == 0) {
        return s3_fail(req, S3_InvalidArgument, "Version id cannot be the empty string");
    }
    (void)s3_fail(req, S3_NotImplemented,
                  "A header you provided implies functionality that is not implemented: "
                  "x-amz-copy-source with versionId");
    s3_error_detail(req, "Header", SLICE("x-amz-copy-source"));
    return STEP_FAIL;
}

static bool copy_source_allowed(const struct s3_request *req, const Kist__Bucket *bucket)
{
    struct slice expected = s3_header(req, "x-amz-source-expected-bucket-owner");

    return s3_allowed(req, "s3:GetObject", bucket) &&
           (expected.data == NULL || slice_eq(expected, s3_slice(bucket->owner)));
}

enum step_result copy_source_find(struct s3_request *req, struct copy_source *source)
{
    const Kist__Bucket *bucket = view_bucket(req->view, source->bucket_name);

    if (bucket != NULL && copy_source_allowed(req, bucket)) {
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
    if (!copy_source_allowed(req, bucket)) {
        return s3_fail(req, S3_AccessDenied, NULL);
    }
    source->bucket = bucket;
    return STEP_NEXT;
}

void copy_source_release(struct copy_source *source)
{
    if (source->view != NULL) {
        view_unref(source->view);
        source->view = NULL;
    }
}
