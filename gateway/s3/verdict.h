/*
 * What is decided about a request before its handler runs, by one view: who asks, whether the route
 * makes sense, whether the bucket is there, whether the caller may (judge.h). Neither waits nor
 * asks anybody: dispatch.c confirms a "no" by a newer view and comes back.
 */
#ifndef GATEWAY_S3_VERDICT_H
#define GATEWAY_S3_VERDICT_H

#include "gateway/s3/op.h"
#include "gateway/s3/router.h"

/* S3_OK, or the refusal, which then is the request's. Sets req->auth and req->bucket. */
enum s3_error s3_verdict(struct s3_request *req, const struct s3_route *route);

#endif
