#include "gateway/access/acl.h"

#include "common/base/assert.h"

static struct slice acl_slice(ProtobufCBinaryData field)
{
    return slice_of(field.data, field.len);
}

static ProtobufCBinaryData acl_field(struct slice from)
{
    return (ProtobufCBinaryData){.len = from.len, .data = (uint8_t *)(uintptr_t)from.data};
}

/* ---- Ownership ---- */

static const char *const ownership_names[] = {
    [OWNERSHIP_ENFORCED] = "BucketOwnerEnforced",
    [OWNERSHIP_PREFERRED] = "BucketOwnerPreferred",
    [OWNERSHIP_WRITER] = "ObjectWriter",
};

const char *acl_ownership_name(enum ownership_rule rule)
{
    ASSERT(rule >= OWNERSHIP_ENFORCED && rule <= OWNERSHIP_WRITER);
    return ownership_names[rule];
}

bool acl_ownership_parse(struct slice name, enum ownership_rule *rule)
{
    for (int i = OWNERSHIP_ENFORCED; i <= OWNERSHIP_WRITER; i++) {
        if (slice_eq_str(name, ownership_names[i])) {
            *rule = (enum ownership_rule)i;
            return true;
        }
    }
    return false;
}

enum ownership_rule acl_ownership(const Kist__Bucket *bucket)
{
    if (bucket->settings == NULL || bucket->settings->ownership == NULL) {
        return OWNERSHIP_ENFORCED;
    }
    return (enum ownership_rule)bucket->settings->ownership->rule;
}

const Kist__Acl *acl_of_bucket(const Kist__Bucket *bucket)
{
    if (bucket->settings == NULL || acl_ownership(bucket) == OWNERSHIP_ENFORCED) {
        return NULL;
    }
    return bucket->settings->acl;
}

const Kist__Acl *acl_of_object(const Kist__Bucket *bucket, const Kist__Record *record)
{
    return acl_ownership(bucket) == OWNERSHIP_ENFORCED ? NULL : record->acl;
}

struct slice acl_object_owner(const Kist__Bucket *bucket, const Kist__Record *record)
{
    bool the_buckets = acl_ownership(bucket) == OWNERSHIP_ENFORCED || record->owner.len == 0;

    return acl_slice(the_buckets ? bucket->owner : record->owner);
}

/* ---- Lists ---- */

static bool grant_is_for(const Kist__Grant *grant, struct slice user, bool ignore_public)
{
    switch (grant->grantee) {
    case ACL_USER:
        return user.len > 0 && slice_eq(acl_slice(grant->user), user);
    case ACL_EVERYBODY:
        return !ignore_public;
    case ACL_AUTHENTICATED:
        return user.len > 0 && !ignore_public;
    default:
        return false;
    }
}

uint32_t acl_permissions(const Kist__Acl *acl, struct slice owner, struct slice user,
                         bool ignore_public)
{
    uint32_t bits = 0;

    if (acl == NULL) {
        return user.len > 0 && slice_eq(owner, user) ? ACL_ALL : 0;
    }
    for (size_t i = 0; i < acl->n_grants; i++) {
        if (grant_is_for(acl->grants[i], user, ignore_public)) {
            bits |= acl->grants[i]->permissions;
        }
    }
    return (bits & ACL_FULL_CONTROL) != 0 ? ACL_ALL : bits;
}

bool acl_is_public(const Kist__Acl *acl)
{
    for (size_t i = 0; acl != NULL && i < acl->n_grants; i++) {
        if (acl->grants[i]->grantee == ACL_EVERYBODY ||
            acl->grants[i]->grantee == ACL_AUTHENTICATED) {
            return true;
        }
    }
    return false;
}

bool acl_is_private(const Kist__Acl *acl, struct slice owner)
{
    bool full = acl == NULL;

    for (size_t i = 0; acl != NULL && i < acl->n_grants; i++) {
        const Kist__Grant *grant = acl->grants[i];

        if (grant->grantee != ACL_USER || !slice_eq(acl_slice(grant->user), owner)) {
            return false;
        }
        full = full || (grant->permissions & ACL_FULL_CONTROL) != 0;
    }
    return full;
}

Kist__Acl *acl_new(struct arena *arena, struct slice owner, size_t grants_max)
{
    Kist__Acl *acl = arena_alloc(arena, sizeof(*acl));

    kist__acl__init(acl);
    acl->owner = acl_field(owner);
    acl->grants = arena_alloc(arena, grants_max * sizeof(struct Kist__Grant *));
    return acl;
}

void acl_add(struct arena *arena, Kist__Acl *acl, enum acl_grantee grantee, struct slice user,
             uint32_t permission)
{
    Kist__Grant *grant = arena_alloc(arena, sizeof(*grant));

    kist__grant__init(grant);
    grant->grantee = grantee;
    grant->user = acl_field(user);
    grant->permissions = permission;
    acl->grants[acl->n_grants++] = grant;
}

/* ---- Canned ones ---- */

struct canned {
    const char *name;
    enum acl_grantee grantee; /* of the second grant; 0: none */
    bool bucket_owner;        /* it is the bucket's owner */
    uint32_t permissions;
};

static const struct canned canned_acls[] = {
    {"private",                   0,                 false, 0                       },
    {"public-read",               ACL_EVERYBODY,     false, ACL_READ                },
    {"public-read-write",         ACL_EVERYBODY,     false, ACL_READ | ACL_WRITE    },
    {"authenticated-read",        ACL_AUTHENTICATED, false, ACL_READ                },
    {"aws-exec-read",             0,                 false, 0                       },
    {"bucket-owner-read",         ACL_USER,          true,  ACL_READ                },
    {"bucket-owner-full-control", ACL_USER,          true,  ACL_FULL_CONTROL        },
    {"log-delivery-write",        ACL_LOG_DELIVERY,  false, ACL_WRITE | ACL_READ_ACP},
};

Kist__Acl *acl_canned(struct arena *arena, struct slice name, struct slice owner,
                      struct slice bucket_owner)
{
    enum { CANNED_GRANTS_MAX = 6 };
    const struct canned *canned = NULL;
    Kist__Acl *acl;

    for (size_t i = 0; canned == NULL && i < ARRAY_LEN(canned_acls); i++) {
        canned = slice_eq_str(name, canned_acls[i].name) ? &canned_acls[i] : NULL;
    }
    if (canned == NULL) {
        return NULL;
    }
    acl = acl_new(arena, owner, CANNED_GRANTS_MAX);
    acl_add(arena, acl, ACL_USER, owner, ACL_FULL_CONTROL);
    if (canned->grantee == 0 || (canned->bucket_owner && slice_eq(owner, bucket_owner))) {
        return acl;
    }
    /* As AWS shows it: one grant a permission. */
    for (uint32_t bit = ACL_READ; bit <= ACL_FULL_CONTROL; bit <<= 1) {
        if ((canned->permissions & bit) != 0) {
            acl_add(arena, acl, canned->grantee, canned->bucket_owner ? bucket_owner : SLICE_EMPTY,
                    bit);
        }
    }
    return acl;
}
