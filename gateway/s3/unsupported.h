/*
 * Headers and parameters whose features are not enforced here are refused, never stored silently
 * (DESIGN 1): 501 NotImplemented naming the header, or what AWS answers for a value that no store
 * knows.
 */
#ifndef GATEWAY_S3_UNSUPPORTED_H
#define GATEWAY_S3_UNSUPPORTED_H

#include "gateway/s3/op.h"

/* STEP_NEXT, or STEP_FAIL. For requests that write an object, an upload or a bucket. */
enum step_result s3_refuse_unsupported(struct s3_request *req);
/* For reads: headers of encryption keys. */
enum step_result s3_refuse_encryption(struct s3_request *req);

#endif
