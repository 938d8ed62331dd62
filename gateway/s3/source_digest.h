/*
 * Digests of a copy's source, when a checksum is asked for that it does not have: its bytes are
 * read once, nothing is written.
 *
 *     source_digest_start() -> (read_path, or at once for an inline body) -> source_digest_finish()
 */
#ifndef GATEWAY_S3_SOURCE_DIGEST_H
#define GATEWAY_S3_SOURCE_DIGEST_H

#include "gateway/object/read_path.h"
#include "gateway/s3/op.h"

struct source_digest {
    /* In. */
    const struct meta_get *get; /* of the source, with its body when it is inline */
    struct view *view;          /* in which its extents are looked up */
    uint64_t offset;
    uint64_t length;
    enum checksum_algorithm algorithm;
    bool md5; /* also the MD5 */
    /* Out. */
    struct checksum_value value;
    uint8_t md5_value[MD5_BYTES];
    /* Private. */
    struct s3_request *req;
    struct read_path path;
    struct digest_set digests;
    bool open;
};

/* A step: STEP_NEXT, STEP_WAIT or STEP_FAIL. */
enum step_result source_digest_start(struct s3_request *req, struct source_digest *digest);
void source_digest_finish(struct source_digest *digest);
/* In the handler's release; harmless when zeroed. */
void source_digest_release(struct source_digest *digest);

#endif
