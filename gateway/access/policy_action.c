#include "gateway/access/policy_action.h"

#include <assert.h>

#include "common/base/assert.h"
#include "gateway/access/acl.h"

const struct policy_action_row policy_actions[POLICY_ACTION_COUNT] = {
#define ACTION(name, on, classes, bucket_acl, object_acl)                                          \
    {#name, POLICY_ON_##on, (classes), (bucket_acl), (object_acl)},
#include "gateway/access/policy_action.def"
#undef ACTION
};
static_assert(POLICY_ACTION_COUNT <= 64 * POLICY_ACTION_WORDS, "a set holds all actions");

const struct policy_key_row policy_keys[POLICY_KEY_COUNT] = {
#define KEY(id, name, type, classes, flags) {(name), POLICY_TYPE_##type, (classes), (flags)},
#include "gateway/access/policy_key.def"
#undef KEY
};

static const struct slice action_vendor = {.data = "s3:", .len = 3};

enum policy_action policy_action_find(struct slice name)
{
    struct slice rest = slice_after(name, action_vendor.len);
    size_t low = 0;
    size_t high = POLICY_ACTION_COUNT;

    if (!slice_starts(name, action_vendor)) {
        return POLICY_ACTION_COUNT;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_cmp(rest, slice_str(policy_actions[middle].name));

        if (order == 0) {
            return (enum policy_action)middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return POLICY_ACTION_COUNT;
}

static char action_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool action_matches(struct slice pattern, const char *name)
{
    size_t at = 0;
    size_t name_at = 0;
    size_t star = SIZE_MAX;
    size_t star_name = 0;

    while (name[name_at] != '\0') {
        if (at < pattern.len && pattern.data[at] == '*') {
            star = at;
            star_name = name_at;
            at += 1;
        } else if (at < pattern.len &&
                   (pattern.data[at] == '?' ||
                    action_lower(pattern.data[at]) == action_lower(name[name_at]))) {
            at += 1;
            name_at += 1;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            star_name += 1;
            name_at = star_name;
        } else {
            return false;
        }
    }
    while (at < pattern.len && pattern.data[at] == '*') {
        at += 1;
    }
    return at == pattern.len;
}

bool policy_action_match(struct slice pattern, struct policy_action_set *set)
{
    struct slice rest = slice_after(pattern, action_vendor.len);
    bool found = false;

    if (slice_eq(pattern, SLICE("*"))) {
        rest = pattern;
    } else if (pattern.len <= action_vendor.len ||
               !slice_eq_nocase(slice_of(pattern.data, action_vendor.len), action_vendor)) {
        return false;
    }
    for (unsigned i = 0; i < POLICY_ACTION_COUNT; i++) {
        if (action_matches(rest, policy_actions[i].name)) {
            set->bits[i / 64] |= 1ULL << (i % 64);
            found = true;
        }
    }
    return found;
}

enum policy_key_id policy_key_find(struct slice text, struct slice *name)
{
    size_t slash = slice_find(text, '/');

    *name = SLICE_EMPTY;
    for (unsigned i = 0; i < POLICY_KEY_COUNT; i++) {
        struct slice row = slice_str(policy_keys[i].name);

        if (row.data[row.len - 1] == '/') {
            if (slash + 1 < text.len && slice_eq_nocase(slice_of(text.data, slash + 1), row)) {
                *name = slice_after(text, slash + 1);
                return (enum policy_key_id)i;
            }
        } else if (slice_eq_nocase(text, row)) {
            return (enum policy_key_id)i;
        }
    }
    return POLICY_KEY_COUNT;
}

bool policy_key_unsupported(struct slice text)
{
    static const char *const names[] = {
        "aws:CalledVia",
        "aws:CalledViaFirst",
        "aws:CalledViaLast",
        "aws:FederatedProvider",
        "aws:PrincipalOrgPaths",
        "aws:PrincipalServiceName",
        "aws:RequestedRegion",
        "aws:ResourceAccount",
        "aws:ResourceOrgID",
        "aws:ResourceOrgPaths",
        "aws:SourceIdentity",
        "aws:SourceOrgID",
        "aws:SourceOrgPaths",
        "aws:TokenIssueTime",
        "aws:VpcSourceIp",
        "s3:AccessGrantsInstanceArn",
        "s3:AccessPointNetworkOrigin",
        "s3:DataAccessPointAccount",
        "s3:DataAccessPointArn",
        "s3:InventoryAccessibleOptionalFields",
        "s3:TlsVersion",
        "s3:ObjectCreationOperation",
    };
    static const char *const prefixes[] = {"aws:PrincipalTag/", "aws:RequestTag/",
                                           "aws:ResourceTag/", "s3:BucketTag/"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (slice_eq_nocase(text, slice_str(names[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        struct slice prefix = slice_str(prefixes[i]);

        if (text.len > prefix.len && slice_eq_nocase(slice_of(text.data, prefix.len), prefix)) {
            return true;
        }
    }
    return false;
}
