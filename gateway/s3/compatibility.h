/* docs/compatibility.md, made from the tables of this folder. */
#ifndef GATEWAY_S3_COMPATIBILITY_H
#define GATEWAY_S3_COMPATIBILITY_H

#include "common/base/buffer.h"

/* `suites`: the section on client suites, made elsewhere. */
void s3_write_compatibility(struct buffer *out, struct slice suites);

#endif
