/*
 * Veeam's Smart Object Storage API (SOSAPI 1.0): two documents that every bucket shows under
 * reserved keys, by which backup software learns what the store can do and how full it is. GET and
 * HEAD only; whoever may GetObject these keys sees them; an object put there is not shown, and
 * listings do not show them.
 */
#ifndef GATEWAY_S3_VEEAM_H
#define GATEWAY_S3_VEEAM_H

#include "gateway/s3/op.h"

/* Is the request's key one of the two? */
bool veeam_is_document(struct slice key);
/* Answers it. */
enum step_result veeam_reply(struct s3_request *req);

#endif
