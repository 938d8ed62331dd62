/*
 * Access control lists as requests and replies have them: the AccessControlPolicy document and the
 * x-amz-grant-* headers. Only the form is judged here; whether the grantees exist and the bucket
 * allows the list is acl_request.h's.
 */
#ifndef GATEWAY_S3_ACL_DOCUMENT_H
#define GATEWAY_S3_ACL_DOCUMENT_H

#include "gateway/access/acl.h"
#include "gateway/s3/op.h"

/* A grantee of a list that was just read: named by an e-mail address, not resolved yet. */
enum { ACL_BY_EMAIL = 100 };

/* From req->document, with the owner that it names. NULL after MalformedACLError or
 * InvalidArgument.
 */
Kist__Acl *acl_from_document(struct s3_request *req);
/* NULL and req->error S3_OK: there is no such header. NULL otherwise: it failed. */
Kist__Acl *acl_from_headers(struct s3_request *req, struct slice owner);
bool acl_headers_present(const struct s3_request *req);

/* The whole document; `acl` NULL: the owner alone, with FULL_CONTROL. */
void acl_document_write(struct s3_request *req, const Kist__Acl *acl, struct slice owner);

#endif
