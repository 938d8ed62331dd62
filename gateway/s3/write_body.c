#include "gateway/s3/write_body.h"

#include "gateway/s3/object_headers.h"

static bool write_body_announces_checksum(const struct http_request *request)
{
    for (uint32_t i = 0; i < request->header_count; i++) {
        struct slice name = request->headers[i].name;

        if (checksum_by_header(name) != CHECKSUM_NONE || slice_eq(name, SLICE("x-amz-trailer")) ||
            slice_eq(name, SLICE("x-amz-sdk-checksum-algorithm"))) {
            return true;
        }
    }
    return false;
}

enum step_result s3_write_body_begin(struct s3_request *req, enum checksum_algorithm wanted,
                                     uint64_t length_max)
{
    const struct http_request *request = &req->http->request;
    uint32_t also = 0;

    if (wanted != CHECKSUM_NONE) {
        also = 1U << wanted;
    } else if (!write_body_announces_checksum(request)) {
        also = 1U << CHECKSUM_CRC64NVME;
    }
    if (!request->has_length && !request->chunked) {
        return s3_fail(req, S3_MissingContentLength, NULL);
    }
    return s3_body_begin(req, true, also, length_max);
}

size_t s3_write_body_checksums(struct s3_request *req, Kist__Checksum ***out)
{
    const struct payload *payload = &req->payload;
    size_t count = 0;

    *out = arena_alloc_raw(req->arena, CHECKSUM_ALGORITHMS * sizeof(**out));
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        if (payload->checksums[i].algorithm != CHECKSUM_NONE) {
            (*out)[count++] =
                s3_checksum_new(req->arena, &payload->checksums[i], CHECKSUM_FULL_OBJECT);
        }
    }
    return count;
}

void s3_write_body_error(struct s3_request *req, const struct write_path *write)
{
    if (req->error == S3_OK && req->task.error.rc == RC_INVALID && write->error != S3_OK) {
        (void)s3_fail(req, write->error, write->error_text);
    }
}
