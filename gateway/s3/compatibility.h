/* docs/compatibility.md, made from op.def and error.def. */
#ifndef GATEWAY_S3_COMPATIBILITY_H
#define GATEWAY_S3_COMPATIBILITY_H

#include "common/base/buffer.h"

void s3_write_compatibility(struct buffer *out);

#endif
