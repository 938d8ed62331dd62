/*
 * The Principal element. Users are named by "arn:aws:iam::<account>:user/<name>" (whatever the
 * account: all users are in one), by their canonical id, or plainly by name; both of the latter are
 * the user's name here. An account ("arn:aws:iam::<account>:root", or twelve digits) is the store
 * itself: allowing it allows its root user only, since it delegates to policies of users; denying
 * it denies all users. An account that is not a number is the user of that name: every user owns
 * buckets like an account of AWS.
 */
#include "common/base/limits.h"
#include "gateway/access/policy_form.h"

enum { ACCOUNT_DIGITS = 12 };

static enum rc principal_invalid(struct error *error)
{
    return policy_refuse(error, "Invalid principal in policy");
}

static bool principal_is_number(struct slice account)
{
    for (size_t i = 0; i < account.len; i++) {
        if (account.data[i] < '0' || account.data[i] > '9') {
            return false;
        }
    }
    return account.len == ACCOUNT_DIGITS;
}

static void principal_account(struct slice account, struct policy_principal *out)
{
    out->kind = PRINCIPAL_ACCOUNT;
    out->name = principal_is_number(account) ? SLICE_EMPTY : account;
}

/* "<account>:root" or "<account>:user/path/name". */
static bool principal_arn(struct slice rest, struct policy_principal *out)
{
    size_t colon = slice_find(rest, ':');
    struct slice account = slice_of(rest.data, colon);
    struct slice who = slice_after(rest, colon + 1);

    if (slice_eq(who, SLICE("root"))) {
        principal_account(account, out);
        return true;
    }
    if (!slice_starts(who, SLICE("user/")) || slice_find(who, '*') < who.len) {
        return false;
    }
    out->kind = PRINCIPAL_USER;
    for (size_t at = 0; at < who.len; at = slice_find(who, '/') + 1) {
        who = slice_after(who, at); /* the name stands behind the path */
    }
    out->name = who;
    return who.len > 0 && who.len <= LIMIT_USER_NAME_BYTES;
}

static bool principal_aws(struct slice text, struct policy_principal *out)
{
    const struct slice iam = SLICE("arn:aws:iam::");

    if (slice_starts(text, iam)) {
        return principal_arn(slice_after(text, iam.len), out);
    }
    if (principal_is_number(text)) {
        principal_account(text, out);
        return true;
    }
    out->kind = PRINCIPAL_USER;
    out->name = text;
    return text.len > 0 && text.len <= LIMIT_USER_NAME_BYTES && slice_find(text, '*') == text.len &&
           slice_find(text, ':') == text.len;
}

static bool principal_service(struct slice text, struct policy_principal *out)
{
    const struct slice tail = SLICE(".amazonaws.com");

    out->kind = PRINCIPAL_SERVICE; /* none of them ever calls here */
    out->name = text;
    return text.len > tail.len && slice_eq(slice_after(text, text.len - tail.len), tail);
}

/* One kind of principals: "AWS": "a" or ["a", "b"]. Appends to `list`, which is large enough. */
static enum rc principals_read(struct policy *policy, struct policy_statement *statement,
                               const char *kind, const json_t *node, struct policy_principal *list,
                               struct error *error)
{
    bool service = strcmp(kind, "Service") == 0;
    size_t count = policy_text_count(node);

    if (count == 0 ||
        (!service && strcmp(kind, "AWS") != 0 && strcmp(kind, "CanonicalUser") != 0)) {
        return principal_invalid(error);
    }
    for (size_t i = 0; i < count; i++) {
        struct policy_principal *one = &list[statement->principal_count];
        struct slice text;

        if (!policy_text_at(node, i, &text)) {
            return principal_invalid(error);
        }
        if (slice_eq(text, SLICE("*")) && strcmp(kind, "AWS") == 0) {
            statement->anybody = true;
            continue;
        }
        text = arena_copy(&policy->arena, text);
        if (!(service ? principal_service(text, one) : principal_aws(text, one))) {
            return principal_invalid(error);
        }
        statement->principal_count += 1;
    }
    return RC_OK;
}

enum rc policy_principals_read(struct policy *policy, struct policy_statement *statement,
                               const json_t *node, struct error *error)
{
    const json_t *who = json_object_get(node, "Principal");
    const json_t *not_who = json_object_get(node, "NotPrincipal");
    struct policy_principal *list;
    size_t count = 0;
    const char *kind;
    json_t *values;

    if (policy->kind == POLICY_OF_IDENTITY) {
        statement->anybody = true;
        return who == NULL && not_who == NULL
                   ? RC_OK
                   : policy_refuse(error, "Policy document should not specify a principal.");
    }
    if ((who == NULL) == (not_who == NULL)) {
        return policy_refuse(error, "Missing required field Principal");
    }
    statement->not_principal = not_who != NULL;
    if (not_who != NULL && statement->allows) {
        return policy_refuse(error, "Allow with NotPrincipal is not allowed.");
    }
    who = who != NULL ? who : not_who;
    count = json_is_object(who) ? 0 : policy_text_count(who);
    json_object_foreach((json_t *)(uintptr_t)who, kind, values)
    {
        count += policy_text_count(values);
    }
    if (count == 0) {
        return principal_invalid(error);
    }
    list = arena_alloc(&policy->arena, count * sizeof(*list));
    statement->principals = list;
    if (!json_is_object(who)) {
        if (principals_read(policy, statement, "AWS", who, list, error) != RC_OK) {
            return error->rc;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)who, kind, values)
    {
        if (principals_read(policy, statement, kind, values, list, error) != RC_OK) {
            return error->rc;
        }
    }
    if (statement->anybody && statement->principal_count > 0) {
        return principal_invalid(error); /* "*" stands alone */
    }
    return RC_OK;
}

static bool principal_matches(const struct policy_statement *statement,
                              const struct policy_principal *principal,
                              const struct policy_request *request)
{
    switch (principal->kind) {
    case PRINCIPAL_USER:
        return slice_eq(principal->name, request->user);
    case PRINCIPAL_ACCOUNT:
        if (principal->name.len > 0) {
            return slice_eq(principal->name, request->user);
        }
        return request->is_root || (!statement->allows && !statement->not_principal);
    case PRINCIPAL_SERVICE:
        break;
    }
    return false;
}

bool policy_principals_match(const struct policy_statement *statement,
                             const struct policy_request *request)
{
    bool found = statement->anybody;

    for (size_t i = 0; i < statement->principal_count && !found && request->user.len > 0; i++) {
        found = principal_matches(statement, &statement->principals[i], request);
    }
    return found != statement->not_principal;
}
