/*
 * Object lock of one version (AWS: "Locking objects with Object Lock"): the headers of writes and
 * replies, the texts of modes and dates. Whether a lock may be made, changed or passed over is
 * decided in metad's apply; only the form is judged here.
 */
#ifndef GATEWAY_S3_OBJECT_LOCK_H
#define GATEWAY_S3_OBJECT_LOCK_H

#include "gateway/s3/op.h"

enum lock_mode { LOCK_NONE = 0, LOCK_GOVERNANCE = 1, LOCK_COMPLIANCE = 2 };

/* x-amz-object-lock-mode, -retain-until-date, -legal-hold into `record->lock`, which stays NULL
 * when none is there. STEP_FAIL: InvalidArgument. */
enum step_result object_lock_from_request(struct s3_request *req, Kist__Record *record);
/* Whoever locks an object must show that its bytes arrived whole: PUT needs a digest then, also
 * when the bucket's default retention locks it. STEP_FAIL: InvalidRequest. */
enum step_result object_lock_needs_digest(struct s3_request *req, const Kist__Record *record);
/* The same headers in the reply of GET and HEAD, as far as the caller may see them. */
void object_lock_reply(struct s3_request *req, const Kist__Record *record);

/* Is object lock on for the bucket? Once on, it stays. */
bool object_lock_enabled(const Kist__Bucket *bucket);
/* Does the request ask to pass over GOVERNANCE (x-amz-bypass-governance-retention)? */
bool object_lock_bypass_asked(const struct s3_request *req);
/* Asked, and the caller may, for this key of the request's bucket. */
bool object_lock_bypass(const struct s3_request *req, struct slice key);

/* Two steps: who asks for that in a bucket without object lock gets InvalidArgument, once a view
 * begun after the request confirms it. Not of deletes that name a version: the clean-ups of clients
 * send it with these to every bucket. */
enum step_result object_lock_bypass_ask(struct s3_request *req, struct meta_refresh *refresh);
enum step_result object_lock_bypass_confirm(struct s3_request *req);

/* "GOVERNANCE", "COMPLIANCE". LOCK_NONE for other texts. */
const char *object_lock_mode_name(uint32_t mode);
enum lock_mode object_lock_mode_of(struct slice text);
/* A date that is still to come, in nanoseconds. STEP_FAIL: InvalidArgument. */
enum step_result object_lock_until(struct s3_request *req, struct slice text, uint64_t *until);
/* "2030-01-01T00:00:00.000Z" */
struct slice object_lock_until_text(struct arena *arena, uint64_t until);

#endif
