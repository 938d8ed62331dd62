#include "gateway/s3/unsupported.h"

#include "gateway/s3/handlers.h"

static enum step_result unsupported_fail(struct s3_request *req, struct slice header)
{
    (void)s3_failf(req, S3_NotImplemented,
                   "A header you provided implies functionality that is not implemented: %.*s",
                   (int)header.len, header.data);
    s3_error_detail(req, "Header", header);
    return STEP_FAIL;
}

/* Refused whatever the value. */
static const char *const unsupported_prefixes[] = {
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-bucket-namespace",
};

static bool unsupported_in(struct slice value, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_eq_str(value, list[i])) {
            return true;
        }
    }
    return false;
}

static enum step_result unsupported_class(struct s3_request *req, const struct http_header *header)
{
    static const char *const fine[] = {"STANDARD", "REDUCED_REDUNDANCY"};
    static const char *const known[] = {"STANDARD_IA", "ONEZONE_IA",   "INTELLIGENT_TIERING",
                                        "GLACIER",     "DEEP_ARCHIVE", "GLACIER_IR",
                                        "OUTPOSTS",    "SNOW",         "EXPRESS_ONEZONE"};

    if (unsupported_in(header->value, fine, ARRAY_LEN(fine))) {
        return STEP_NEXT;
    }
    if (unsupported_in(header->value, known, ARRAY_LEN(known))) {
        return unsupported_fail(req, header->name);
    }
    (void)s3_fail(req, S3_InvalidStorageClass, NULL);
    s3_error_detail(req, "StorageClassRequested", header->value);
    return STEP_FAIL;
}

static enum step_result unsupported_value(struct s3_request *req, const struct http_header *header)
{
    if (slice_eq(header->name, SLICE("x-amz-storage-class"))) {
        return unsupported_class(req, header);
    }
    return STEP_NEXT;
}

enum step_result s3_refuse_unsupported(struct s3_request *req)
{
    const struct http_request *request = &req->http->request;

    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];

        if (!slice_starts(header->name, SLICE("x-amz-"))) {
            continue;
        }
        if (slice_eq(header->name, SLICE("x-amz-write-offset-bytes")) &&
            req->op->handler != &append_object) {
            return unsupported_fail(req, header->name);
        }
        for (size_t j = 0; j < ARRAY_LEN(unsupported_prefixes); j++) {
            if (slice_starts(header->name, slice_str(unsupported_prefixes[j]))) {
                return unsupported_fail(req, header->name);
            }
        }
        if (unsupported_value(req, header) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

enum step_result s3_refuse_encryption(struct s3_request *req)
{
    const struct http_request *request = &req->http->request;

    for (uint32_t i = 0; i < request->header_count; i++) {
        if (slice_starts(request->headers[i].name, SLICE("x-amz-server-side-encryption"))) {
            return unsupported_fail(req, request->headers[i].name);
        }
    }
    return STEP_NEXT;
}
