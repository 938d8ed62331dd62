#include "gateway/s3/upload.h"

#include "common/base/limits.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/page_token.h"

enum step_result upload_read_id(struct s3_request *req, struct slice *id)
{
    return upload_id_decode(req->arena, s3_param(req, "uploadId"), id)
               ? STEP_NEXT
               : s3_fail(req, S3_NoSuchUpload, NULL);
}

enum step_result upload_read_number(struct s3_request *req, uint32_t *number)
{
    struct slice text = s3_param(req, "partNumber");
    uint64_t value;

    if (!slice_to_u64(text, LIMIT_PARTS, &value) || value == 0) {
        (void)s3_failf(req, S3_InvalidArgument,
                       "Part number must be an integer between 1 and %d, inclusive.", LIMIT_PARTS);
        s3_error_detail(req, "ArgumentName", SLICE("partNumber"));
        s3_error_detail(req, "ArgumentValue", text);
        return STEP_FAIL;
    }
    *number = (uint32_t)value;
    return STEP_NEXT;
}

static enum step_result upload_bad_pair(struct s3_request *req, enum checksum_algorithm algorithm,
                                        enum checksum_type type)
{
    return s3_failf(req, S3_InvalidRequest,
                    "The %s checksum type cannot be used with the %s checksum algorithm.",
                    s3_checksum_type_name(type),
                    checksum_header(algorithm) + sizeof("x-amz-checksum-") - 1);
}

static bool upload_type_parse(struct slice text, enum checksum_type *type)
{
    if (slice_eq_nocase(text, SLICE("FULL_OBJECT"))) {
        *type = CHECKSUM_FULL_OBJECT;
        return true;
    }
    *type = CHECKSUM_COMPOSITE;
    return slice_eq_nocase(text, SLICE("COMPOSITE"));
}

enum step_result upload_read_checksum(struct s3_request *req, enum checksum_algorithm *algorithm,
                                      enum checksum_type *type)
{
    struct slice name = s3_header(req, "x-amz-checksum-algorithm");
    struct slice kind = s3_header(req, "x-amz-checksum-type");

    *algorithm = CHECKSUM_NONE;
    *type = CHECKSUM_FULL_OBJECT;
    if (kind.len > 0 && !upload_type_parse(kind, type)) {
        return s3_fail(req, S3_InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
    }
    if (name.len == 0) {
        return kind.len == 0 ? STEP_NEXT
                             : s3_fail(req, S3_InvalidRequest,
                                       "The x-amz-checksum-type header can only be used with the "
                                       "x-amz-checksum-algorithm header.");
    }
    *algorithm = checksum_by_name(name);
    if (*algorithm == CHECKSUM_NONE) {
        return s3_fail(
            req, S3_InvalidRequest,
            "Checksum algorithm provided is unsupported. Please try again with any of the "
            "valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, "
            "XXHASH128, XXHASH3, XXHASH64]");
    }
    if (kind.len == 0) {
        *type = *algorithm == CHECKSUM_CRC64NVME ? CHECKSUM_FULL_OBJECT : CHECKSUM_COMPOSITE;
        return STEP_NEXT;
    }
    if ((*type == CHECKSUM_FULL_OBJECT && !checksum_combines(*algorithm)) ||
        (*type == CHECKSUM_COMPOSITE && *algorithm == CHECKSUM_CRC64NVME)) {
        return upload_bad_pair(req, *algorithm, *type);
    }
    return STEP_NEXT;
}

enum step_result upload_lookup(struct s3_request *req, struct meta_list_parts *call,
                               struct slice id, uint32_t after, uint32_t limit)
{
    *call = (struct meta_list_parts){
        .bucket_id = req->bucket->id,
        .generation = req->bucket->generation,
        .key = req->key,
        .upload_id = id,
        .after = after,
        .limit = limit,
        .arena = req->arena,
    };
    req->not_found = S3_NoSuchUpload;
    return req->gateway->meta->list_parts(req->gateway->meta, call, &req->task);
}

enum step_result upload_commit_part(struct s3_request *req, struct body_write *write,
                                    struct slice id, Kist__PutPart *message, Kist__Part *part)
{
    *message = (Kist__PutPart)KIST__PUT_PART__INIT;
    message->bucket_id = req->bucket->id;
    message->generation = req->bucket->generation;
    message->key = s3_bytes(req->key);
    message->upload_id = s3_bytes(id);
    message->part = part;
    return body_write_commit(req, write, META_PUT_PART, &message->base, SLICE_EMPTY);
}

void upload_write_user(struct xml_writer *xml, const char *element, struct slice user)
{
    xml_writer_open(xml, element);
    xml_writer_text(xml, "ID", user);
    xml_writer_text(xml, "DisplayName", user);
    xml_writer_close(xml);
}

void upload_write_checksum(struct xml_writer *xml, const Kist__Upload *upload)
{
    if (upload->checksum_algorithm != CHECKSUM_NONE &&
        upload->checksum_algorithm < CHECKSUM_ALGORITHMS) {
        xml_writer_str(xml, "ChecksumAlgorithm",
                       checksum_name((enum checksum_algorithm)upload->checksum_algorithm));
        xml_writer_str(xml, "ChecksumType", s3_checksum_type_name(upload->checksum_type));
    }
}
