/*
 * The list of parts in CompleteMultipartUpload: read, checked, and made compact for the command
 * (ranges of numbers and one digest over numbers and ETags, which metad compares with its rows).
 */
#ifndef GATEWAY_S3_MANIFEST_H
#define GATEWAY_S3_MANIFEST_H

#include "gateway/s3/op.h"

struct manifest_part {
    uint32_t number;
    uint8_t etag[MD5_BYTES];
    struct slice etag_text;         /* as sent, for error documents */
    struct checksum_value checksum; /* algorithm NONE: not given */
};

struct manifest {
    struct manifest_part *parts; /* ascending numbers */
    uint32_t count;
    uint32_t checksum_count; /* parts that carry one */
};

/* From the request's document. STEP_FAIL: MalformedXML, InvalidPartOrder, InvalidPart,
 * InvalidArgument. */
enum step_result manifest_read(struct s3_request *req, struct manifest *manifest);
/* Ranges and digest into the command. */
void manifest_pack(struct s3_request *req, const struct manifest *manifest,
                   Kist__CompleteUpload *command);
/* NULL when it is not listed. */
const struct manifest_part *manifest_find(const struct manifest *manifest, uint32_t number);
/* InvalidPart and the like, naming the part. */
enum step_result manifest_fail(struct s3_request *req, enum s3_error error,
                               const struct manifest_part *part);

#endif
