#include "gateway/s3/write_body.h"

#include "common/base/limits.h"
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

bool s3_write_body_announces_digest(const struct s3_request *req)
{
    return s3_header(req, "content-md5").data != NULL ||
           write_body_announces_checksum(&req->http->request);
}

/* ---- On the way to a command ---- */

enum step_result body_write_store(struct s3_request *req, struct body_write *write,
                                  bool allow_inline)
{
    return body_write_store_behind(req, write, SLICE_EMPTY, allow_inline);
}

enum step_result body_write_store_behind(struct s3_request *req, struct body_write *write,
                                         struct slice prefix, bool allow_inline)
{
    write->stored = true;
    write->path = (struct write_path){
        .gateway = req->gateway,
        .view = req->view,
        .payload = &req->payload,
        .arena = req->arena,
        .bucket_id = req->bucket->id,
        .key = req->key,
        .layout = gateway_new_id(req->gateway),
        .allow_inline = allow_inline,
        .prefix = prefix,
    };
    return write_path_start(&write->path, &req->task);
}

struct piece_list body_write_record(struct s3_request *req, struct body_write *write,
                                    Kist__Record *record)
{
    struct write_path *path = &write->path;
    struct piece_list longer = {0};

    record->size = path->size;
    record->etag = s3_bytes(slice_of(req->payload.md5, MD5_BYTES));
    record->n_checksums = s3_write_body_checksums(req, &record->checksums);
    record->inline_body = path->is_inline && path->size > 0;
    if (path->is_inline) {
        return longer;
    }
    record->layout_id = s3_bytes(slice_of(path->layout.bytes, EXTENT_ID_BYTES));
    record->piece_count = (uint32_t)path->piece_count;
    record->pieces = path->pieces;
    record->n_pieces = path->piece_count;
    if (record->n_pieces > LIMIT_RECORD_PIECES) {
        record->n_pieces = LIMIT_RECORD_PIECES;
        longer = (struct piece_list){.pieces = path->pieces, .count = path->piece_count};
    }
    return longer;
}

void body_write_part(struct s3_request *req, struct body_write *write, Kist__Part *part)
{
    struct write_path *path = &write->path;

    part->size = path->size;
    part->etag = s3_bytes(slice_of(req->payload.md5, MD5_BYTES));
    part->n_checksums = s3_write_body_checksums(req, &part->checksums);
    if (path->size > 0) {
        part->layout_id = s3_bytes(slice_of(path->layout.bytes, EXTENT_ID_BYTES));
        part->pieces = path->pieces;
        part->n_pieces = path->piece_count;
    }
}

enum step_result body_write_commit(struct s3_request *req, struct body_write *write,
                                   enum meta_command command, const ProtobufCMessage *message,
                                   struct slice body)
{
    write->committed = true;
    return s3_write(req, &write->call, command, message, body);
}

void body_write_abort(struct s3_request *req, struct body_write *write)
{
    if (!write->stored) {
        return;
    }
    if (!s3_maybe_applied(req, &write->call, write->committed)) {
        write_path_discard(&write->path);
    }
    s3_write_body_error(req, &write->path);
}
