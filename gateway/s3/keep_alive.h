/*
 * Replies that take long (CompleteMultipartUpload, CopyObject, UploadPartCopy): balancers and
 * clients cut a connection on which nothing moves. After `keep_alive_ms` without an answer the head
 * goes out with status 200 and the XML declaration, then a blank each time as much has passed, then
 * the result, or an Error document, as at AWS. Almost all answers come long before that, with their
 * own status.
 *
 *     keep_alive_start() ... timer: head, blank, blank ... keep_alive_stop() -> the document's rest
 */
#ifndef GATEWAY_S3_KEEP_ALIVE_H
#define GATEWAY_S3_KEEP_ALIVE_H

#include "gateway/s3/op.h"

/* Part of the request's dispatch, zeroed. */
struct keep_alive {
    bool begun; /* the head is out: whatever comes is the rest of a document */
    /* Private. */
    struct s3_request *req;
    struct env_timer timer;
    struct http_write write;
    bool writing;
};

void keep_alive_start(struct keep_alive *keep, struct s3_request *req);
/* Before the reply is ended; harmless when it was never started. False: a blank is still on its
 * way, the reply cannot be finished. */
bool keep_alive_stop(struct keep_alive *keep);
/* The document without what was sent of it. */
struct slice keep_alive_rest(struct slice document);

#endif
