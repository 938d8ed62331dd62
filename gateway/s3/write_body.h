/* What PutObject and UploadPart share about their bodies. */
#ifndef GATEWAY_S3_WRITE_BODY_H
#define GATEWAY_S3_WRITE_BODY_H

#include "gateway/object/write_path.h"
#include "gateway/s3/op.h"

/* Begins the body with MD5; CRC64NVME is computed when the client announces no checksum of its own. */
enum step_result s3_write_body_begin(struct s3_request *req, uint64_t length_max);
/* At the end of the body: the checksum to keep (the client's algorithm, else CRC64NVME). Returns 0 or 1. */
size_t s3_write_body_checksums(struct s3_request *req, Kist__Checksum ***out);
/* In a handler's abort: turns a refusal by write_path into the request's error. */
void s3_write_body_error(struct s3_request *req, const struct write_path *write);

#endif
