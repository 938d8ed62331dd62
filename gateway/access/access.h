/*
 * The one decision: may this caller do this? In order (AWS: "How Amazon S3 authorizes a request",
 * "Policy evaluation logic"):
 *
 *     the bucket's owner and root may always manage the policy: nobody locks himself out
 *     a policy's explicit deny            -> no, for owner and root as well
 *     root; the bucket's owner            -> yes (not for an object that somebody else owns)
 *     the policy allows                   -> yes (not when public access is restricted)
 *     the bucket's ACL, the object's ACL  -> yes, while ACLs count (ownership) and are not ignored
 *     otherwise                           -> no
 *
 * Pure: no I/O, memory only from the request's arena.
 */
#ifndef GATEWAY_ACCESS_ACCESS_H
#define GATEWAY_ACCESS_ACCESS_H

#include "gateway/access/policy.h"
#include "gateway/access/policy_cache.h"
#include "proto/record.pb-c.h"

enum access_answer {
    ACCESS_NO,
    ACCESS_YES,
    ACCESS_OBJECT_DECIDES /* ask again with the object's record */
};

/* Why: written to the log, and what an explanation would say. */
enum access_reason {
    ACCESS_BY_NOBODY, /* nothing allows it */
    ACCESS_BY_POLICY_KEEPER,
    ACCESS_BY_DENY,
    ACCESS_BY_BROKEN_POLICY,
    ACCESS_BY_ROOT,
    ACCESS_BY_OWNER,
    ACCESS_BY_POLICY,
    ACCESS_BY_BUCKET_ACL,
    ACCESS_BY_OBJECT_ACL,
    ACCESS_BY_RESTRICTION, /* a public policy, and RestrictPublicBuckets */
    ACCESS_BY_OBJECT       /* not known yet */
};

struct access_request {
    struct policy_request policy; /* action, resource, user, is_root, arena, value; object_known */
    const Kist__Bucket *bucket;
    const Kist__Record *record; /* the object, when object_known and it exists */
    bool creates; /* a new version is written: who may do that may also say who reads it */
    struct policy_cache *cache;
};

struct access_decision {
    enum access_answer answer;
    enum access_reason reason;
    uint32_t statement; /* of the policy, counted from 1; 0: none */
};

struct access_decision access_decide(const struct access_request *request);
const char *access_reason_text(enum access_reason reason);

/* Is `user` the bucket's owner? */
bool access_is_owner(const Kist__Bucket *bucket, struct slice user);

#endif
