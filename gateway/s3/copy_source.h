/*
 * x-amz-copy-source: which object, in which bucket, and may the caller read it. Used by CopyObject
 * and UploadPartCopy:
 *
 *     copy_source_parse() -> copy_source_find() -> copy_source_confirm()
 *
 * A "no" of the view in use is confirmed by a refresh, as dispatch does it for the destination.
 */
#ifndef GATEWAY_S3_COPY_SOURCE_H
#define GATEWAY_S3_COPY_SOURCE_H

#include "gateway/s3/op.h"

struct copy_source {
    struct slice bucket_name;
    struct slice key;
    const Kist__Bucket *bucket; /* after copy_source_confirm() */
    /* Private. */
    struct view *view;
    struct meta_refresh refresh;
    bool asked;
};

/* The header's text into bucket and key: "bucket/key", "/bucket/key", percent-encoded, with or
 * without
 * "?versionId=null". False: `version` data NULL when malformed, else the version asked for. */
bool copy_source_split(struct arena *arena, struct slice header, struct copy_source *source,
                       struct slice *version);

enum step_result copy_source_parse(struct s3_request *req, struct copy_source *source);
/* Looks in the view; starts a refresh when the answer would be no. */
enum step_result copy_source_find(struct s3_request *req, struct copy_source *source);
enum step_result copy_source_confirm(struct s3_request *req, struct copy_source *source);
/* In the handler's release; harmless when zeroed. */
void copy_source_release(struct copy_source *source);

#endif
