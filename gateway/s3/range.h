/* The Range header (RFC 9110 14) against an object's size, as AWS reads it: one range a request. */
#ifndef GATEWAY_S3_RANGE_H
#define GATEWAY_S3_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"

enum range_kind {
    RANGE_WHOLE = 0,    /* none asked, not understood, or several: 200 with all bytes */
    RANGE_PART,         /* 206 */
    RANGE_UNSATISFIABLE /* 416 */
};

struct range {
    enum range_kind kind;
    uint64_t offset;
    uint64_t length;
};

/* `header` data NULL: no header. */
struct range range_parse(struct slice header, uint64_t size);

/* "bytes=first-last" with both ends, within the size: x-amz-copy-source-range. */
bool range_parse_strict(struct slice header, uint64_t *first, uint64_t *last);

#endif
