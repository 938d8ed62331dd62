/*
 * x-amz-copy-source: which version of which object, in which bucket, and may the caller read it.
 * Used by CopyObject and UploadPartCopy; each line is a step:
 *
 *     copy_source_parse() -> copy_source_find() -> copy_source_confirm() -> copy_source_look()
 *     -> copy_source_found()
 *
 * A "no" of the view in use is confirmed by a refresh, as dispatch does it for the destination.
 */
#ifndef GATEWAY_S3_COPY_SOURCE_H
#define GATEWAY_S3_COPY_SOURCE_H

#include "gateway/s3/op.h"

struct copy_source {
    struct slice bucket_name;
    struct slice key;
    struct slice version;       /* as meta calls take it; empty: the current one */
    const Kist__Bucket *bucket; /* after copy_source_confirm() */
    struct meta_get get;        /* `record` and body after copy_source_found() */
    /* Private. */
    struct view *view;
    struct meta_refresh refresh;
    bool asked;
    bool got;
};

/* The header's text into bucket and key: "bucket/key", "/bucket/key", percent-encoded, with or
 * without "?versionId=<id>", which goes into `version` (data NULL: not given). Returns what is
 * wrong with it, or NULL. */
const char *copy_source_split(struct arena *arena, struct slice header, struct copy_source *source,
                              struct slice *version);

enum step_result copy_source_parse(struct s3_request *req, struct copy_source *source);
/* Looks in the view; starts a refresh when the answer would be no. */
enum step_result copy_source_find(struct s3_request *req, struct copy_source *source);
enum step_result copy_source_confirm(struct s3_request *req, struct copy_source *source);
enum step_result copy_source_look(struct s3_request *req, struct copy_source *source,
                                  bool want_body);
/* NoSuchKey, NoSuchVersion, InvalidRequest when there is nothing to copy. */
enum step_result copy_source_found(struct s3_request *req, struct copy_source *source);
/* How a command must name what was found: empty where the source has no versions. */
struct slice copy_source_version(struct s3_request *req, const struct copy_source *source);
/* x-amz-copy-source-version-id. */
void copy_source_reply(struct s3_request *req, const struct copy_source *source);
/* In the handler's release; harmless when zeroed. */
void copy_source_release(struct s3_request *req, struct copy_source *source);

#endif
