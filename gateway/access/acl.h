/*
 * Access control lists (AWS: "Access control list (ACL) overview"): who may do what beside the
 * owner. Pure functions; no I/O.
 */
#ifndef GATEWAY_ACCESS_ACL_H
#define GATEWAY_ACCESS_ACL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "proto/record.pb-c.h"

enum acl_permission {
    ACL_READ = 1,
    ACL_WRITE = 2,
    ACL_READ_ACP = 4,
    ACL_WRITE_ACP = 8,
    ACL_FULL_CONTROL = 16
};
enum { ACL_ALL = ACL_READ | ACL_WRITE | ACL_READ_ACP | ACL_WRITE_ACP };

enum acl_grantee { ACL_USER = 1, ACL_EVERYBODY = 2, ACL_AUTHENTICATED = 3, ACL_LOG_DELIVERY = 4 };

enum ownership_rule {
    OWNERSHIP_ENFORCED = 1,  /* ACLs are off: the bucket's owner owns all */
    OWNERSHIP_PREFERRED = 2, /* the bucket's owner owns what comes with bucket-owner-full-control */
    OWNERSHIP_WRITER = 3
};

/* The bucket's rule; what was never set is OWNERSHIP_ENFORCED (AWS since 2023). */
enum ownership_rule acl_ownership(const Kist__Bucket *bucket);

/* Names as in S3 ("BucketOwnerEnforced", ...). */
const char *acl_ownership_name(enum ownership_rule rule);
bool acl_ownership_parse(struct slice name, enum ownership_rule *rule);

/* What counts for a bucket or an object of it, given the bucket's ownership rule: the list (NULL:
 * the owner's alone) and the owner. A record without an owner is the bucket owner's. */
const Kist__Acl *acl_of_bucket(const Kist__Bucket *bucket);
const Kist__Acl *acl_of_object(const Kist__Bucket *bucket, const Kist__Record *record);
struct slice acl_object_owner(const Kist__Bucket *bucket, const Kist__Record *record);

/* Bits of acl_permission that `acl` grants the caller (FULL_CONTROL spelled out as ACL_ALL). `acl`
 * NULL: only the owner, `owner`. `user` empty: anonymous. `ignore_public`: grants to everybody and
 * to all authenticated users do not count (public access block). */
uint32_t acl_permissions(const Kist__Acl *acl, struct slice owner, struct slice user,
                         bool ignore_public);
/* Does it grant anything to everybody or to all authenticated users? */
bool acl_is_public(const Kist__Acl *acl);

/* Does it grant FULL_CONTROL to `owner` and nothing to anybody else? (NULL does.) */
bool acl_is_private(const Kist__Acl *acl, struct slice owner);

/* A list without grants, with room for `grants_max`. */
Kist__Acl *acl_new(struct arena *arena, struct slice owner, size_t grants_max);
/* `permission`: one bit. Borrows `user`. There must be room. */
void acl_add(struct arena *arena, Kist__Acl *acl, enum acl_grantee grantee, struct slice user,
             uint32_t permission);

/* A canned ACL by its name ("private", "public-read", ...); NULL: there is none of that name.
 * Arena memory; borrows the names of the owners. */
Kist__Acl *acl_canned(struct arena *arena, struct slice name, struct slice owner,
                      struct slice bucket_owner);

#endif
