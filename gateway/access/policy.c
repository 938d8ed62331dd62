#include "gateway/access/policy.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "gateway/access/policy_form.h"

static const struct slice policy_arn = {.data = "arn:aws:s3:::",
                                        .len = sizeof("arn:aws:s3:::") - 1};

enum rc policy_refuse(struct error *error, const char *format, ...)
{
    char text[sizeof(error->text)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(error, RC_INVALID, "%s", text);
}

/* ---- JSON ---- */

size_t policy_text_count(const json_t *node)
{
    if (json_is_array(node)) {
        return json_array_size(node);
    }
    return json_is_string(node) ? 1 : 0;
}

bool policy_text_at(const json_t *node, size_t index, struct slice *out)
{
    const json_t *one = json_is_array(node) ? json_array_get(node, index) : node;

    if (!json_is_string(one)) {
        return false;
    }
    *out = slice_of(json_string_value(one), json_string_length(one));
    return true;
}

/* ---- Statements ---- */

static enum rc statement_effect(struct policy_statement *statement, const json_t *node,
                                struct error *error)
{
    const char *effect = json_string_value(json_object_get(node, "Effect"));

    if (effect == NULL) {
        return policy_refuse(error, "Missing required field Effect");
    }
    statement->allows = strcmp(effect, "Allow") == 0;
    if (!statement->allows && strcmp(effect, "Deny") != 0) {
        return policy_refuse(error, "Invalid effect: %.64s", effect);
    }
    return RC_OK;
}

static enum rc statement_actions(struct policy_statement *statement, const json_t *node,
                                 struct error *error)
{
    const json_t *actions = json_object_get(node, "Action");
    const json_t *others = json_object_get(node, "NotAction");
    size_t count;

    if ((actions == NULL) == (others == NULL)) {
        return policy_refuse(error, "Missing required field Action");
    }
    statement->not_action = others != NULL;
    actions = actions != NULL ? actions : others;
    count = policy_text_count(actions);
    for (size_t i = 0; i < count; i++) {
        struct slice text;

        if (!policy_text_at(actions, i, &text) || !policy_action_match(text, &statement->actions)) {
            return policy_refuse(error, "Policy has invalid action");
        }
    }
    return count > 0 ? RC_OK : policy_refuse(error, "Policy has invalid action");
}

/* A policy of a bucket speaks of that bucket: by its name, or by "*" for any. */
static bool resource_in_bucket(struct slice resource, struct slice bucket)
{
    struct slice rest;

    if (slice_starts(resource, SLICE("*"))) {
        return true;
    }
    rest = slice_after(resource, bucket.len);
    return slice_starts(resource, bucket) &&
           (rest.len == 0 || rest.data[0] == '/' || rest.data[0] == '*' || rest.data[0] == '?');
}

static bool statement_resource(struct policy *policy, const struct policy_options *options,
                               struct slice text, struct policy_pattern *out)
{
    unsigned flags =
        POLICY_PATTERN_WILDCARDS | (policy->variables ? (unsigned)POLICY_PATTERN_VARIABLES : 0);

    if (options->kind == POLICY_OF_IDENTITY && slice_eq(text, SLICE("*"))) {
        return policy_pattern_compile(&policy->arena, text, flags, out);
    }
    if (!slice_starts(text, policy_arn)) {
        return false;
    }
    text = slice_after(text, policy_arn.len);
    if (text.len == 0 || text.data[0] == '/') {
        return false;
    }
    if (options->kind == POLICY_OF_BUCKET && !resource_in_bucket(text, options->bucket)) {
        return false;
    }
    return policy_pattern_compile(&policy->arena, text, flags, out) &&
           !policy_pattern_needs_object(out);
}

static enum rc statement_resources(struct policy *policy, const struct policy_options *options,
                                   struct policy_statement *statement, const json_t *node,
                                   struct error *error)
{
    const json_t *resources = json_object_get(node, "Resource");
    const json_t *others = json_object_get(node, "NotResource");
    struct policy_pattern *patterns;
    size_t count;

    if ((resources == NULL) == (others == NULL)) {
        return policy_refuse(error, "Missing required field Resource");
    }
    statement->not_resource = others != NULL;
    resources = resources != NULL ? resources : others;
    count = policy_text_count(resources);
    patterns = arena_alloc(&policy->arena, count * sizeof(*patterns) + 1);
    for (size_t i = 0; i < count; i++) {
        struct slice text;

        if (!policy_text_at(resources, i, &text) ||
            !statement_resource(policy, options, text, &patterns[i])) {
            return policy_refuse(error, "Policy has invalid resource");
        }
    }
    statement->resources = patterns;
    statement->resource_count = count;
    return count > 0 ? RC_OK : policy_refuse(error, "Policy has invalid resource");
}

/* May this pattern name an object, or a bucket? A star can stand for the slash. */
static bool resource_is_on(const struct policy_pattern *pattern, enum policy_on on)
{
    size_t slash = slice_find(pattern->text, '/');

    if (on == POLICY_ON_OBJECT) {
        return slash < pattern->text.len || slice_find(pattern->text, '*') < pattern->text.len;
    }
    return slash == pattern->text.len || slice_find(pattern->text, '*') < slash;
}

static bool statement_action_applies(const struct policy_statement *statement, struct slice action)
{
    struct policy_action_set set = {{0}};

    (void)policy_action_match(action, &set);
    for (unsigned i = 0; i < POLICY_ACTION_COUNT; i++) {
        if (!policy_action_has(&set, (enum policy_action)i)) {
            continue;
        }
        for (size_t j = 0; j < statement->resource_count; j++) {
            if (resource_is_on(&statement->resources[j], policy_actions[i].on)) {
                return true;
            }
        }
    }
    return false;
}

/* Every action must have a resource that it can act on. */
static enum rc statement_fits(const struct policy_statement *statement, const json_t *node,
                              struct error *error)
{
    const json_t *actions = json_object_get(node, "Action");

    if (statement->not_resource || statement->not_action) {
        return RC_OK;
    }
    for (size_t i = 0; i < policy_text_count(actions); i++) {
        struct slice text;

        if (policy_text_at(actions, i, &text) && !statement_action_applies(statement, text)) {
            return policy_refuse(error, "Action does not apply to any resource(s) in statement");
        }
    }
    return RC_OK;
}

static enum rc statement_known(const json_t *node, struct error *error)
{
    static const char *const names[] = {"Sid",          "Effect",      "Principal",
                                        "NotPrincipal", "Action",      "NotAction",
                                        "Resource",     "NotResource", "Condition"};
    const char *name;
    json_t *value;

    if (!json_is_object(node)) {
        return policy_refuse(error, "This policy contains invalid Json");
    }
    json_object_foreach((json_t *)(uintptr_t)node, name, value)
    {
        size_t i = 0;

        while (i < ARRAY_LEN(names) && strcmp(name, names[i]) != 0) {
            i++;
        }
        if (i == ARRAY_LEN(names) || (i == 0 && !json_is_string(value))) {
            return policy_refuse(error, "Invalid policy syntax.");
        }
    }
    return RC_OK;
}

static enum rc statement_read(struct policy *policy, const struct policy_options *options,
                              const json_t *node, struct error *error)
{
    struct policy_statement *statement = &policy->statements[policy->statement_count];

    if (statement_known(node, error) != RC_OK ||
        statement_effect(statement, node, error) != RC_OK ||
        policy_principals_read(policy, statement, node, error) != RC_OK ||
        statement_actions(statement, node, error) != RC_OK ||
        statement_resources(policy, options, statement, node, error) != RC_OK ||
        policy_conditions_read(policy, statement, node, error) != RC_OK ||
        statement_fits(statement, node, error) != RC_OK) {
        return error->rc;
    }
    policy->statement_count += 1;
    policy->is_public = policy->is_public || policy_statement_is_public(statement);
    return RC_OK;
}

static enum rc policy_check_sids(const json_t *statements, struct error *error)
{
    for (size_t i = 0; i < json_array_size(statements); i++) {
        const json_t *sid = json_object_get(json_array_get(statements, i), "Sid");

        for (size_t j = 0; j < i && json_is_string(sid); j++) {
            if (json_equal(sid, json_object_get(json_array_get(statements, j), "Sid"))) {
                return policy_refuse(error,
                                     "Statement IDs (SID) in a single policy must be unique.");
            }
        }
    }
    return RC_OK;
}

/* ---- The document ---- */

static enum rc policy_read_head(struct policy *policy, const json_t *root, struct error *error)
{
    const json_t *version = json_object_get(root, "Version");
    const char *text = json_string_value(version);
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)root, name, value)
    {
        if (strcmp(name, "Version") != 0 && strcmp(name, "Id") != 0 &&
            strcmp(name, "Statement") != 0) {
            return policy_refuse(error, "Invalid policy syntax.");
        }
        if (strcmp(name, "Id") == 0 && !json_is_string(value)) {
            return policy_refuse(error, "Invalid policy syntax.");
        }
    }
    if (json_object_get(root, "Statement") == NULL) {
        return policy_refuse(error, "Missing required field Statement");
    }
    policy->variables = text != NULL && strcmp(text, "2012-10-17") == 0;
    if (version != NULL && !policy->variables &&
        (text == NULL || strcmp(text, "2008-10-17") != 0)) {
        return policy_refuse(error, "The policy must contain a valid version string");
    }
    return RC_OK;
}

static enum rc policy_read(struct policy *policy, const struct policy_options *options,
                           const json_t *root, struct error *error)
{
    const json_t *statements = json_object_get(root, "Statement");
    size_t count;

    if (policy_read_head(policy, root, error) != RC_OK) {
        return error->rc;
    }
    count = json_is_array(statements) ? json_array_size(statements) : 1;
    if (count == 0) {
        return policy_refuse(error, "Could not parse the policy: Statement is empty!");
    }
    if (count > POLICY_STATEMENTS_MAX) {
        return policy_refuse(error, "The policy has too many statements");
    }
    policy->statements = arena_alloc(&policy->arena, count * sizeof(*policy->statements));
    for (size_t i = 0; i < count; i++) {
        const json_t *node = json_is_array(statements) ? json_array_get(statements, i) : statements;

        if (statement_read(policy, options, node, error) != RC_OK) {
            return error->rc;
        }
    }
    return policy_check_sids(statements, error);
}

enum rc policy_new(struct policy **out, struct slice json, const struct policy_options *options,
                   struct error *error)
{
    struct policy *policy;
    json_t *root;

    ASSERT(options->kind == POLICY_OF_IDENTITY || options->bucket.len > 0);
    if (json.len > POLICY_BYTES_MAX) {
        return policy_refuse(error, "Policy exceeds the maximum allowed document size.");
    }
    if (json.len == 0 || json.data[0] != '{') {
        return policy_refuse(error, "Policies must be valid JSON and the first byte must be '{'");
    }
    root = json_loadb(json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL) {
        return policy_refuse(error, "This policy contains invalid Json");
    }
    policy = mem_alloc(sizeof(*policy));
    arena_init(&policy->arena);
    policy->kind = options->kind;
    if (policy_read(policy, options, root, error) != RC_OK) {
        json_decref(root);
        policy_free(policy);
        return error->rc;
    }
    json_decref(root);
    *out = policy;
    return RC_OK;
}

void policy_free(struct policy *policy)
{
    arena_deinit(&policy->arena);
    mem_free(policy);
}

size_t policy_bytes(const struct policy *policy)
{
    return sizeof(*policy) + policy->arena.used_bytes;
}

bool policy_is_public(const struct policy *policy)
{
    return policy->is_public;
}

/* ---- Users that are named ---- */

static bool principal_is_user(const struct policy_principal *principal)
{
    return principal->kind == PRINCIPAL_USER;
}

size_t policy_user_count(const struct policy *policy)
{
    size_t count = 0;

    for (size_t i = 0; i < policy->statement_count; i++) {
        for (size_t j = 0; j < policy->statements[i].principal_count; j++) {
            count += principal_is_user(&policy->statements[i].principals[j]) ? 1 : 0;
        }
    }
    return count;
}

struct slice policy_user_at(const struct policy *policy, size_t index)
{
    for (size_t i = 0; i < policy->statement_count; i++) {
        const struct policy_statement *statement = &policy->statements[i];

        for (size_t j = 0; j < statement->principal_count; j++) {
            if (!principal_is_user(&statement->principals[j])) {
                continue;
            }
            if (index == 0) {
                return statement->principals[j].name;
            }
            index -= 1;
        }
    }
    ASSERT(false);
    return SLICE_EMPTY;
}

/* ---- Evaluation ---- */

static bool statement_covers(const struct policy_statement *statement,
                             const struct policy_request *request)
{
    bool found = false;

    if (policy_action_has(&statement->actions, request->action) == statement->not_action ||
        !policy_principals_match(statement, request)) {
        return false;
    }
    for (size_t i = 0; i < statement->resource_count && !found; i++) {
        found = policy_pattern_match(&statement->resources[i], request->resource, false, request);
    }
    return found != statement->not_resource;
}

struct policy_verdict policy_evaluate(const struct policy *policy,
                                      const struct policy_request *request)
{
    struct policy_verdict verdict = {0};

    ASSERT(request->action < POLICY_ACTION_COUNT);
    for (uint32_t i = 0; i < policy->statement_count; i++) {
        const struct policy_statement *statement = &policy->statements[i];
        enum policy_truth truth;

        if (!statement_covers(statement, request)) {
            continue;
        }
        truth = policy_conditions_hold(statement, request);
        if (truth == POLICY_TRUE && !statement->allows) {
            return (struct policy_verdict){.answers = POLICY_DENIES, .statement = i + 1};
        }
        if (truth == POLICY_TRUE) {
            verdict.answers |= POLICY_ALLOWS;
            verdict.statement = i + 1;
        } else if (truth == POLICY_UNKNOWN) {
            verdict.answers |= statement->allows ? POLICY_MAY_ALLOW : POLICY_MAY_DENY;
        }
    }
    return verdict;
}
