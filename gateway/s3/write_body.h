/* What PutObject and UploadPart share about their bodies. */
#ifndef GATEWAY_S3_WRITE_BODY_H
#define GATEWAY_S3_WRITE_BODY_H

#include "gateway/object/write_path.h"
#include "gateway/s3/op.h"

/* Begins the body with MD5. `wanted` is computed whatever the client sends; NONE: CRC64NVME when
 * the client announces no checksum of its own. */
enum step_result s3_write_body_begin(struct s3_request *req, enum checksum_algorithm wanted,
                                     uint64_t length_max);
/* At the end of the body: the checksums to keep, all of the full bytes. Returns how many. */
size_t s3_write_body_checksums(struct s3_request *req, Kist__Checksum ***out);
/* In a handler's abort: turns a refusal by write_path into the request's error. */
void s3_write_body_error(struct s3_request *req, const struct write_path *write);

#endif
