#include "gateway/s3/acl_request.h"

#include "gateway/s3/acl_document.h"
#include "gateway/s3/setting.h"

Kist__Ownership *s3_ownership(struct s3_request *req, enum ownership_rule rule, bool unset)
{
    Kist__Ownership *ownership = arena_alloc(req->arena, sizeof(*ownership));

    kist__ownership__init(ownership);
    ownership->rule = (uint32_t)rule;
    ownership->unset = unset;
    return ownership;
}

/* ---- Parsing ---- */

static Kist__Acl *request_canned(struct s3_request *req, struct slice name, struct slice owner,
                                 struct slice bucket_owner)
{
    Kist__Acl *acl = acl_canned(req->arena, name, owner, bucket_owner);

    if (acl == NULL) {
        (void)s3_fail(req, S3_InvalidArgument, NULL);
        s3_error_detail(req, "ArgumentName", SLICE("x-amz-acl"));
        s3_error_detail(req, "ArgumentValue", name);
        return NULL;
    }
    if (slice_eq(name, SLICE("aws-exec-read"))) {
        (void)s3_fail(req, S3_NotImplemented, "The canned ACL aws-exec-read is not implemented.");
        s3_error_detail(req, "Header", SLICE("x-amz-acl"));
        return NULL;
    }
    return acl;
}

/* NULL with req->error S3_OK: no header asks for an ACL. */
static Kist__Acl *request_headers(struct s3_request *req, struct slice owner,
                                  struct slice bucket_owner)
{
    struct slice canned = s3_header(req, "x-amz-acl");

    if (canned.len == 0) {
        return acl_from_headers(req, owner);
    }
    if (acl_headers_present(req)) {
        (void)s3_fail(req, S3_InvalidRequest,
                      "Specifying both Canned ACLs and Header Grants is not allowed.");
        return NULL;
    }
    return request_canned(req, canned, owner, bucket_owner);
}

/* For operations whose whole purpose is an ACL. NULL: it failed. */
static Kist__Acl *request_headers_or_document(struct s3_request *req, struct slice canned_owner,
                                              struct slice bucket_owner)
{
    bool headers = s3_header(req, "x-amz-acl").len > 0 || acl_headers_present(req);

    if (headers && req->document.len > 0) {
        (void)s3_fail(req, S3_UnexpectedContent, NULL);
        return NULL;
    }
    if (!headers && req->document.len == 0) {
        (void)s3_fail(req, S3_MissingSecurityHeader, NULL);
        s3_error_detail(req, "MissingHeaderName", SLICE("x-amz-acl"));
        return NULL;
    }
    return headers ? request_headers(req, canned_owner, bucket_owner) : acl_from_document(req);
}

/* ---- Is it allowed here ---- */

static bool request_gives_to_bucket_owner(const struct s3_request *req)
{
    return slice_eq(s3_header(req, "x-amz-acl"), SLICE("bucket-owner-full-control"));
}

/* Where ACLs are off, only what gives the bucket's owner full control and nobody else anything may
 * be asked for: as AWS does, "private" by the owner himself, but not by others. */
static enum s3_error request_verdict(const struct s3_request *req, const Kist__Acl *acl)
{
    const Kist__PublicAccessBlock *block = s3_settings(req->bucket)->public_access_block;

    if (acl_ownership(req->bucket) == OWNERSHIP_ENFORCED) {
        return request_gives_to_bucket_owner(req) ||
                       acl_is_private(acl, s3_slice(req->bucket->owner))
                   ? S3_OK
                   : S3_AccessControlListNotSupported;
    }
    return block != NULL && block->block_public_acls && acl_is_public(acl) ? S3_AccessDenied
                                                                           : S3_OK;
}

static enum step_result request_refresh(struct s3_request *req, struct acl_request *request)
{
    struct meta_client *meta = req->gateway->meta;
    enum step_result result = meta->refresh(meta, &request->refresh, &req->task);

    request->refreshed = true;
    if (result == STEP_WAIT) {
        return STEP_AGAIN;
    }
    return result == STEP_NEXT ? STEP_REPEAT : result;
}

/* A no of the bucket's settings, which may be out of date: then the request is judged again. */
static enum step_result request_refuse(struct s3_request *req, struct acl_request *request,
                                       enum s3_error error)
{
    const Kist__Bucket *now;

    if (!request->refreshed) {
        request->generation = 0;
        return request_refresh(req, request);
    }
    now = view_bucket(req->gateway->meta->view(req->gateway->meta), req->bucket_name);
    if (now == NULL || now->generation != req->bucket->generation) {
        return task_fail(&req->task, RC_STALE, "the bucket has changed");
    }
    return s3_fail(req, error, NULL);
}

/* ---- Do the grantees exist ---- */

static bool request_user_exists(const struct view *view, struct slice name)
{
    for (size_t i = 0; i < view_user_count(view); i++) {
        if (slice_eq(s3_slice(view_user_at(view, i)->name), name)) {
            return true;
        }
    }
    return false;
}

/* The first grantee, or the owner that a document names, who is not there; data NULL: all are. */
static struct slice request_unknown(struct s3_request *req, struct acl_request *request,
                                    bool *by_email)
{
    const struct view *view = req->gateway->meta->view(req->gateway->meta);
    Kist__Acl *acl = request->acl;

    *by_email = false;
    if (acl != NULL && !slice_eq(s3_slice(acl->owner), request->owner) &&
        !request_user_exists(view, s3_slice(acl->owner))) {
        return s3_slice(acl->owner);
    }
    for (size_t i = 0; acl != NULL && i < acl->n_grants; i++) {
        Kist__Grant *grant = acl->grants[i];

        if (grant->grantee != ACL_USER && grant->grantee != ACL_BY_EMAIL) {
            continue;
        }
        if (!slice_eq(s3_slice(grant->user), request->owner) &&
            !request_user_exists(view, s3_slice(grant->user))) {
            *by_email = grant->grantee == ACL_BY_EMAIL;
            return s3_slice(grant->user);
        }
        grant->grantee = ACL_USER; /* users have no addresses but their names */
    }
    return SLICE_EMPTY;
}

static enum step_result request_users(struct s3_request *req, struct acl_request *request)
{
    bool by_email;
    struct slice unknown = request_unknown(req, request, &by_email);

    if (unknown.data == NULL) {
        if (request->acl != NULL && !slice_eq(s3_slice(request->acl->owner), request->owner)) {
            return s3_fail(req, S3_AccessDenied, NULL); /* a list cannot give the thing away */
        }
        if (acl_is_private(request->acl, request->owner)) {
            request->acl = NULL;
        }
        return STEP_NEXT;
    }
    if (!request->refreshed) {
        return request_refresh(req, request);
    }
    if (by_email) {
        return s3_fail(req, S3_UnresolvableGrantByEmailAddress, NULL);
    }
    (void)s3_fail(req, S3_InvalidArgument, "Invalid id");
    s3_error_detail(req, "ArgumentName", SLICE("CanonicalUser/ID"));
    s3_error_detail(req, "ArgumentValue", unknown);
    return STEP_FAIL;
}

/* ---- Objects that are being written ---- */

static enum step_result request_for_write(struct s3_request *req, struct acl_request *request)
{
    enum ownership_rule rule = acl_ownership(req->bucket);
    struct slice bucket_owner = s3_slice(req->bucket->owner);
    bool off = rule == OWNERSHIP_ENFORCED;
    bool the_buckets = off || req->auth.user.len == 0 ||
                       (rule == OWNERSHIP_PREFERRED && request_gives_to_bucket_owner(req));
    enum s3_error error;

    request->owner = the_buckets ? bucket_owner : req->auth.user;
    request->acl = request_headers(req, off ? req->auth.user : request->owner, bucket_owner);
    request->generation = req->bucket->generation;
    if (req->error != S3_OK) {
        return STEP_FAIL;
    }
    error = request_verdict(req, request->acl);
    if (error != S3_OK) {
        return request_refuse(req, request, error);
    }
    request->acl = off ? NULL : request->acl;
    return STEP_NEXT;
}

enum step_result s3_acl_from_request(struct s3_request *req, struct acl_request *request)
{
    if (request->generation != req->bucket->generation) {
        enum step_result result = request_for_write(req, request);

        if (result != STEP_NEXT) {
            return result;
        }
    }
    return request_users(req, request);
}

enum step_result s3_acl_to_record(struct s3_request *req, struct acl_request *request,
                                  Kist__Record *record)
{
    if (request->generation != req->bucket->generation) {
        /* The view that it is judged by now was made after a refresh. */
        request->refreshed = true;
        if (request_for_write(req, request) != STEP_NEXT ||
            request_users(req, request) != STEP_NEXT) {
            return STEP_FAIL;
        }
    }
    record->owner = s3_bytes(request->owner);
    record->acl = request->acl;
    return STEP_NEXT;
}

/* ---- Operations on ACLs ---- */

enum step_result s3_acl_for_object(struct s3_request *req, struct acl_request *request,
                                   struct slice owner)
{
    bool off = acl_ownership(req->bucket) == OWNERSHIP_ENFORCED;

    if (request->generation == 0) {
        enum s3_error error;

        request->owner = owner;
        request->generation = req->bucket->generation;
        request->acl = request_headers_or_document(req, off ? req->auth.user : owner,
                                                   s3_slice(req->bucket->owner));
        if (request->acl == NULL) {
            return STEP_FAIL;
        }
        error = request_verdict(req, request->acl);
        if (error != S3_OK) {
            return request_refuse(req, request, error);
        }
        request->acl = off ? NULL : request->acl;
    }
    return request_users(req, request);
}

enum step_result s3_acl_for_bucket(struct s3_request *req, struct acl_request *request)
{
    if (acl_ownership(req->bucket) == OWNERSHIP_ENFORCED) { /* "private" is refused, too (AWS) */
        return request_refuse(req, request, S3_AccessControlListNotSupported);
    }
    return s3_acl_for_object(req, request, s3_slice(req->bucket->owner));
}

enum step_result s3_acl_for_new_bucket(struct s3_request *req, struct acl_request *request,
                                       enum ownership_rule rule)
{
    if (request->generation == 0) {
        request->owner = req->auth.user;
        request->generation = 1;
        request->acl = request_headers(req, request->owner, request->owner);
        if (req->error != S3_OK) {
            return STEP_FAIL;
        }
        if (rule == OWNERSHIP_ENFORCED && !acl_is_private(request->acl, request->owner)) {
            return s3_fail(req, S3_InvalidBucketAclWithObjectOwnership, NULL);
        }
    }
    return request_users(req, request);
}
