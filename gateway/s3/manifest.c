#include "gateway/s3/manifest.h"

#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/crypto/hash.h"
#include "gateway/xml/xml_reader.h"

enum step_result manifest_fail(struct s3_request *req, enum s3_error error,
                               const struct manifest_part *part)
{
    (void)s3_fail(req, error, NULL);
    s3_error_detail(req, "UploadId", s3_param(req, "uploadId"));
    s3_error_detail(req, "PartNumber", arena_printf(req->arena, "%u", part->number));
    s3_error_detail(req, "ETag", part->etag_text);
    return STEP_FAIL;
}

/* ---- Reading ---- */

static struct slice manifest_unquote(struct slice text)
{
    text = slice_trim(text);
    if (text.len >= 2 && text.data[0] == '"' && text.data[text.len - 1] == '"') {
        return slice_of(text.data + 1, text.len - 2);
    }
    return text;
}

/* At most one <ChecksumX>; its value must be well-formed. */
static bool manifest_checksum(const struct xml_node *node, struct checksum_value *out)
{
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)i;
        struct slice text = xml_child_text(node, checksum_element(algorithm));

        if (text.len == 0) {
            continue;
        }
        if (out->algorithm != CHECKSUM_NONE || !checksum_parse(algorithm, slice_trim(text), out)) {
            return false;
        }
    }
    return true;
}

static enum step_result manifest_read_part(struct s3_request *req, const struct xml_node *node,
                                           struct manifest *manifest)
{
    struct manifest_part *part = &manifest->parts[manifest->count];
    struct slice number = slice_trim(xml_child_text(node, "PartNumber"));
    struct slice etag = manifest_unquote(xml_child_text(node, "ETag"));
    uint64_t value;

    *part = (struct manifest_part){.etag_text = etag};
    if (number.len > 1 && number.data[0] == '-' &&
        slice_to_u64(slice_after(number, 1), INT32_MAX, &value)) {
        value = 0; /* out of range like 0 */
    } else if (!slice_to_u64(number, INT32_MAX, &value)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (etag.len == 0) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (value == 0 || value > LIMIT_PARTS) {
        return value == 0 ? s3_fail_argument(req, "PartNumber", number, "PartNumber must be >= 1")
                          : s3_failf(req, S3_InvalidArgument,
                                     "Part number must be an integer between 1 and %d, inclusive.",
                                     LIMIT_PARTS);
    }
    part->number = (uint32_t)value;
    if (manifest->count > 0 && part->number <= part[-1].number) {
        (void)s3_fail(req, S3_InvalidPartOrder, NULL);
        s3_error_detail(req, "UploadId", s3_param(req, "uploadId"));
        return STEP_FAIL;
    }
    if (!manifest_checksum(node, &part->checksum)) {
        (void)s3_fail(req, S3_InvalidArgument,
                      "Invalid Base64 or multiple checksums present in request");
        s3_error_detail(req, "ArgumentName", SLICE("Checksum"));
        return STEP_FAIL;
    }
    if (!hex_decode(etag, part->etag, sizeof(part->etag))) {
        return manifest_fail(req, S3_InvalidPart, part);
    }
    manifest->checksum_count += part->checksum.algorithm != CHECKSUM_NONE ? 1 : 0;
    manifest->count += 1;
    return STEP_NEXT;
}

enum step_result manifest_read(struct s3_request *req, struct manifest *manifest)
{
    const struct xml_node *root;
    const struct xml_node *node;
    size_t count = 0;

    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "CompleteMultipartUpload")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    for (node = xml_child(root, "Part"); node != NULL; node = xml_next(node, "Part")) {
        count += 1;
    }
    if (count == 0 || count > LIMIT_PARTS) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    *manifest = (struct manifest){0};
    manifest->parts = arena_alloc_raw(req->arena, count * sizeof(*manifest->parts));
    for (node = xml_child(root, "Part"); node != NULL; node = xml_next(node, "Part")) {
        if (manifest_read_part(req, node, manifest) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

/* ---- Packing ---- */

void manifest_pack(struct s3_request *req, const struct manifest *manifest,
                   Kist__CompleteUpload *command)
{
    uint8_t *digest = arena_alloc_raw(req->arena, HASH_MD5_BYTES);
    struct md5_hash md5;

    command->ranges =
        arena_alloc_raw(req->arena, (size_t)manifest->count * 2 * sizeof(*command->ranges));
    command->n_ranges = 0;
    md5_init(&md5);
    for (uint32_t i = 0; i < manifest->count; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        uint8_t number[4];

        be32_put(number, part->number);
        md5_update(&md5, number, sizeof(number));
        md5_update(&md5, part->etag, sizeof(part->etag));
        if (command->n_ranges > 0 && command->ranges[command->n_ranges - 1] + 1 == part->number) {
            command->ranges[command->n_ranges - 1] = part->number;
        } else {
            command->ranges[command->n_ranges++] = part->number;
            command->ranges[command->n_ranges++] = part->number;
        }
    }
    md5_final(&md5, digest);
    command->digest = s3_bytes(slice_of(digest, HASH_MD5_BYTES));
}

const struct manifest_part *manifest_find(const struct manifest *manifest, uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = manifest->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (manifest->parts[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < manifest->count && manifest->parts[low].number == number ? &manifest->parts[low]
                                                                          : NULL;
}
