/*
 * The ACL that a request asks for, and whom the object then belongs to: from x-amz-acl,
 * x-amz-grant-* or a document, under the bucket's ownership rule and its public access block.
 *
 *     parse -> allowed by the bucket? -> do the grantees exist? a no is confirmed by a refresh
 *
 * BucketOwnerEnforced: all belongs to the bucket's owner, and a list that gives anybody else
 * anything is refused (of buckets, any list). BucketOwnerPreferred: to the bucket's owner when
 * bucket-owner-full-control is asked for, else to the writer. ObjectWriter: to the writer.
 *
 * What nobody in particular writes (anonymous callers) belongs to the bucket's owner.
 */
#ifndef GATEWAY_S3_ACL_REQUEST_H
#define GATEWAY_S3_ACL_REQUEST_H

#include "gateway/access/acl.h"
#include "gateway/s3/op.h"

/* Zeroed, part of the operation's struct. */
struct acl_request {
    Kist__Acl *acl;     /* Out. NULL: the owner's alone */
    struct slice owner; /* Out. */
    /* Private. */
    struct meta_refresh refresh;
    uint64_t generation; /* that it was judged by; 0: not yet */
    bool refreshed;
};

/* A step of what writes an object or an upload, before the body is begun: `return
 * s3_acl_from_request(req, &op->acl)`. It may be entered again. */
enum step_result s3_acl_from_request(struct s3_request *req, struct acl_request *request);
/* In the commit: owner and acl of the record. Judges again when the bucket has changed since; so
 * STEP_NEXT or STEP_FAIL. */
enum step_result s3_acl_to_record(struct s3_request *req, struct acl_request *request,
                                  Kist__Record *record);

/* Steps of PutBucketAcl, PutObjectAcl and CreateBucket: headers, or req->document where there are
 * none (NULL `acl` afterwards: private). `owner` of what gets the ACL. */
enum step_result s3_acl_for_object(struct s3_request *req, struct acl_request *request,
                                   struct slice owner);
enum step_result s3_acl_for_bucket(struct s3_request *req, struct acl_request *request);
enum step_result s3_acl_for_new_bucket(struct s3_request *req, struct acl_request *request,
                                       enum ownership_rule rule);

/* A setting in the arena. */
Kist__Ownership *s3_ownership(struct s3_request *req, enum ownership_rule rule, bool unset);

#endif
