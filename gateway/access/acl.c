#include "gateway/access/acl.h"

enum ownership_rule acl_ownership(const Kist__Bucket *bucket)
{
    if (bucket->settings == NULL || bucket->settings->ownership == NULL) {
        return OWNERSHIP_ENFORCED;
    }
    return (enum ownership_rule)bucket->settings->ownership->rule;
}

static bool grant_is_for(const Kist__Grant *grant, struct slice user, bool ignore_public)
{
    switch (grant->grantee) {
    case ACL_USER:
        return user.len > 0 && slice_eq(slice_of(grant->user.data, grant->user.len), user);
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

static Kist__Grant *grant_new(struct arena *arena, enum acl_grantee grantee, struct slice user,
                              uint32_t permissions)
{
    Kist__Grant *grant = arena_alloc(arena, sizeof(*grant));

    kist__grant__init(grant);
    grant->grantee = grantee;
    grant->user = (ProtobufCBinaryData){.len = user.len, .data = (uint8_t *)(uintptr_t)user.data};
    grant->permissions = permissions;
    return grant;
}

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

static uint32_t canned_grants(struct arena *arena, const struct canned *canned, struct slice owner,
                              struct slice bucket_owner, Kist__Grant **out)
{
    uint32_t count = 0;

    out[count++] = grant_new(arena, ACL_USER, owner, ACL_FULL_CONTROL);
    if (canned->grantee == 0 || (canned->bucket_owner && slice_eq(owner, bucket_owner))) {
        return count;
    }
    /* As AWS shows it: one grant a permission. */
    for (uint32_t bit = ACL_READ; bit <= ACL_FULL_CONTROL; bit <<= 1) {
        if ((canned->permissions & bit) != 0) {
            out[count++] = grant_new(arena, canned->grantee,
                                     canned->bucket_owner ? bucket_owner : SLICE_EMPTY, bit);
        }
    }
    return count;
}

Kist__Acl *acl_canned(struct arena *arena, struct slice name, struct slice owner,
                      struct slice bucket_owner)
{
    enum { CANNED_GRANTS_MAX = 6 };

    for (size_t i = 0; i < sizeof(canned_acls) / sizeof(canned_acls[0]); i++) {
        if (slice_eq_str(name, canned_acls[i].name)) {
            Kist__Acl *acl = arena_alloc(arena, sizeof(*acl));

            kist__acl__init(acl);
            acl->owner =
                (ProtobufCBinaryData){.len = owner.len, .data = (uint8_t *)(uintptr_t)owner.data};
            acl->grants = arena_alloc(arena, CANNED_GRANTS_MAX * sizeof(*acl->grants));
            acl->n_grants = canned_grants(arena, &canned_acls[i], owner, bucket_owner, acl->grants);
            return acl;
        }
    }
    return NULL;
}
