/* The actions that policies name, and the condition keys that go with them: tables. */
#ifndef GATEWAY_ACCESS_POLICY_ACTION_H
#define GATEWAY_ACCESS_POLICY_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"

/* Classes of condition keys: a key may be used with the actions that carry one of its classes. */
enum policy_key_class {
    KEY_LIST = 1,          /* prefix, delimiter, max-keys */
    KEY_VERSION = 2,       /* VersionId */
    KEY_ACL = 4,           /* x-amz-acl, x-amz-grant-* */
    KEY_PUT = 8,           /* what a PUT carries */
    KEY_LOCK = 16,         /* object-lock-* */
    KEY_TAGS = 32,         /* ExistingObjectTag */
    KEY_NEW_TAGS = 64,     /* RequestObjectTag */
    KEY_CONDITIONAL = 128, /* if-match, if-none-match */
    KEY_CREATE = 256,      /* LocationConstraint */
    KEY_DOCUMENT = 512     /* what KEY_LOCK and KEY_NEW_TAGS speak of stands in the document */
};

enum policy_on { POLICY_ON_SERVICE, POLICY_ON_BUCKET, POLICY_ON_OBJECT };

enum policy_action {
#define ACTION(name, on, classes, bucket_acl, object_acl) POLICY_##name,
#include "gateway/access/policy_action.def"
#undef ACTION
    POLICY_ACTION_COUNT
};

struct policy_action_row {
    const char *name; /* without "s3:" */
    enum policy_on on;
    uint32_t classes;
    uint32_t bucket_acl; /* bits of enum acl_permission */
    uint32_t object_acl;
};

extern const struct policy_action_row policy_actions[POLICY_ACTION_COUNT];

/* "s3:GetObject", exactly; POLICY_ACTION_COUNT: there is none. */
enum policy_action policy_action_find(struct slice name);

enum { POLICY_ACTION_WORDS = 2 };
struct policy_action_set {
    uint64_t bits[POLICY_ACTION_WORDS];
};
static inline bool policy_action_has(const struct policy_action_set *set, enum policy_action action)
{
    return (set->bits[action / 64] >> (action % 64) & 1) != 0;
}
/* Adds what a pattern like "s3:Get*" or "*" names (without case). False: nothing. */
bool policy_action_match(struct slice pattern, struct policy_action_set *set);

enum policy_key_type {
    POLICY_TYPE_TEXT,
    POLICY_TYPE_NUMBER,
    POLICY_TYPE_DATE,
    POLICY_TYPE_BOOLEAN,
    POLICY_TYPE_ADDRESS
};
enum policy_key_flags { POLICY_KEY_FIXES = 1 };

enum policy_key_id {
#define KEY(id, name, type, classes, flags) POLICY_KEY_##id,
#include "gateway/access/policy_key.def"
#undef KEY
    POLICY_KEY_COUNT
};

struct policy_key_row {
    const char *name;
    enum policy_key_type type;
    uint32_t classes;
    uint32_t flags;
};

extern const struct policy_key_row policy_keys[POLICY_KEY_COUNT];

/* A condition key as a policy writes it; `name`: what stands behind the "/". POLICY_KEY_COUNT:
 * there is none. */
enum policy_key_id policy_key_find(struct slice text, struct slice *name);
/* AWS has it, this store has nothing to compare it with. */
bool policy_key_unsupported(struct slice text);

#endif
