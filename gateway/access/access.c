#include "gateway/access/access.h"

#include "common/base/assert.h"
#include "gateway/access/acl.h"

static struct slice access_slice(ProtobufCBinaryData from)
{
    return slice_of(from.data, from.len);
}

bool access_is_owner(const Kist__Bucket *bucket, struct slice user)
{
    return user.len > 0 && slice_eq(access_slice(bucket->owner), user);
}

const char *access_reason_text(enum access_reason reason)
{
    static const char *const texts[] = {
        [ACCESS_BY_NOBODY] = "nothing_allows",
        [ACCESS_BY_POLICY_KEEPER] = "keeper_of_policy",
        [ACCESS_BY_DENY] = "explicit_deny",
        [ACCESS_BY_BROKEN_POLICY] = "unreadable_policy",
        [ACCESS_BY_ROOT] = "root",
        [ACCESS_BY_OWNER] = "bucket_owner",
        [ACCESS_BY_POLICY] = "policy",
        [ACCESS_BY_BUCKET_ACL] = "bucket_acl",
        [ACCESS_BY_OBJECT_ACL] = "object_acl",
        [ACCESS_BY_RESTRICTION] = "restrict_public_buckets",
        [ACCESS_BY_OBJECT] = "object_decides",
    };

    ASSERT(reason < ARRAY_LEN(texts));
    return texts[reason];
}

static struct access_decision access_answer(enum access_answer answer, enum access_reason reason,
                                            uint32_t statement)
{
    return (struct access_decision){.answer = answer, .reason = reason, .statement = statement};
}

static const Kist__PublicAccessBlock *access_block(const Kist__Bucket *bucket)
{
    return bucket->settings != NULL ? bucket->settings->public_access_block : NULL;
}

static bool access_keeps_policy(const struct access_request *request)
{
    enum policy_action action = request->policy.action;

    return (action == POLICY_GetBucketPolicy || action == POLICY_PutBucketPolicy ||
            action == POLICY_DeleteBucketPolicy) &&
           (request->policy.is_root || access_is_owner(request->bucket, request->policy.user));
}

/* ---- ACLs ---- */

static bool access_ignores_public(const struct access_request *request)
{
    const Kist__PublicAccessBlock *block = access_block(request->bucket);

    return block != NULL && block->ignore_public_acls;
}

static bool access_bucket_acl(const struct access_request *request)
{
    const Kist__Settings *settings = request->bucket->settings;
    uint32_t wanted = policy_actions[request->policy.action].bucket_acl;

    if (request->creates && request->policy.action == POLICY_PutObjectAcl) {
        wanted = ACL_WRITE;
    }
    return wanted != 0 && settings != NULL &&
           (acl_permissions(settings->acl, access_slice(request->bucket->owner),
                            request->policy.user, access_ignores_public(request)) &
            wanted) == wanted;
}

static bool access_object_acl(const struct access_request *request)
{
    uint32_t wanted = policy_actions[request->policy.action].object_acl;

    return request->record != NULL &&
           (acl_permissions(request->record->acl, access_slice(request->record->owner),
                            request->policy.user, access_ignores_public(request)) &
            wanted) == wanted;
}

/* ---- The decision ---- */

struct access_facts {
    struct policy_verdict verdict;
    bool is_public;  /* the policy */
    bool acls;       /* ACLs count */
    bool object_acl; /* an ACL of an existing object speaks about this action */
    bool own;        /* the object belongs to the bucket's owner, as far as it matters */
    bool unknown;    /* the object matters, and is not known yet */
};

static struct access_facts access_gather(const struct access_request *request,
                                         const struct policy *policy)
{
    struct access_facts facts = {0};

    facts.acls = acl_ownership(request->bucket) != OWNERSHIP_ENFORCED;
    facts.object_acl =
        facts.acls && !request->creates && policy_actions[request->policy.action].object_acl != 0;
    facts.unknown = facts.object_acl && !request->policy.object_known;
    facts.own =
        !facts.object_acl || request->record == NULL ||
        slice_eq(access_slice(request->record->owner), access_slice(request->bucket->owner));
    if (policy != NULL) {
        facts.verdict = policy_evaluate(policy, &request->policy);
        facts.is_public = policy_is_public(policy);
    }
    return facts;
}

/* Nobody denies it: does anything allow it? */
static struct access_decision access_allow(const struct access_request *request,
                                           const struct access_facts *facts)
{
    const Kist__PublicAccessBlock *block = access_block(request->bucket);
    bool owner = access_is_owner(request->bucket, request->policy.user);
    bool restricted = facts->is_public && block != NULL && block->restrict_public_buckets;
    unsigned answers = facts->verdict.answers;

    if (request->policy.is_root) {
        return access_answer(ACCESS_YES, ACCESS_BY_ROOT, 0);
    }
    if (owner && facts->own && !facts->unknown) {
        return access_answer(ACCESS_YES, ACCESS_BY_OWNER, 0);
    }
    if (restricted && !owner) {
        return access_answer(ACCESS_NO, ACCESS_BY_RESTRICTION, 0); /* whatever else allows it */
    }
    if ((answers & POLICY_ALLOWS) != 0 && facts->own && !facts->unknown) {
        return access_answer(ACCESS_YES, ACCESS_BY_POLICY, facts->verdict.statement);
    }
    if (facts->acls && access_bucket_acl(request)) {
        return access_answer(ACCESS_YES, ACCESS_BY_BUCKET_ACL, 0);
    }
    if (facts->object_acl && access_object_acl(request)) {
        return access_answer(ACCESS_YES, ACCESS_BY_OBJECT_ACL, 0);
    }
    if (facts->unknown || (answers & POLICY_MAY_ALLOW) != 0) {
        return access_answer(ACCESS_OBJECT_DECIDES, ACCESS_BY_OBJECT, 0);
    }
    return access_answer(ACCESS_NO, ACCESS_BY_NOBODY, 0);
}

struct access_decision access_decide(const struct access_request *request)
{
    const Kist__Settings *settings = request->bucket->settings;
    const struct policy *policy = NULL;
    struct access_decision decision;
    struct access_facts facts;

    ASSERT(request->policy.action < POLICY_ACTION_COUNT);
    ASSERT(request->record == NULL || request->policy.object_known);
    if (access_keeps_policy(request)) {
        return access_answer(ACCESS_YES, ACCESS_BY_POLICY_KEEPER, 0);
    }
    if (settings != NULL && settings->policy != NULL) {
        policy = policy_cache_get(request->cache, request->bucket);
        if (policy == NULL) {
            return access_answer(ACCESS_NO, ACCESS_BY_BROKEN_POLICY, 0);
        }
    }
    facts = access_gather(request, policy);
    if ((facts.verdict.answers & POLICY_DENIES) != 0) {
        return access_answer(ACCESS_NO, ACCESS_BY_DENY, facts.verdict.statement);
    }
    decision = access_allow(request, &facts);
    if (decision.answer == ACCESS_YES && (facts.verdict.answers & POLICY_MAY_DENY) != 0) {
        return access_answer(ACCESS_OBJECT_DECIDES, ACCESS_BY_OBJECT, 0);
    }
    return decision;
}
