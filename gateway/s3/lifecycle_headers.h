/*
 * What lifecycle will do, told in reply headers: x-amz-expiration of an object, x-amz-abort-date of
 * an upload. Reckoned from the rules that the request was judged by.
 */
#ifndef GATEWAY_S3_LIFECYCLE_HEADERS_H
#define GATEWAY_S3_LIFECYCLE_HEADERS_H

#include "gateway/s3/op.h"

/* Of a record that is the current version of req->key. */
void s3_reply_expiration(struct s3_request *req, const Kist__Record *record);
/* x-amz-abort-date and x-amz-abort-rule-id. `stamp`: when the upload was begun. */
void s3_reply_abort(struct s3_request *req, uint64_t stamp);

#endif
