/*
 * Every field must be named by a condition, every condition must hold: a form may be in the hands
 * of anybody, and what its policy does not speak of was not meant by who signed it.
 */
#include "gateway/web/form_policy.h"

#include <jansson.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/codec/base64.h"
#include "common/codec/time_format.h"

enum { POLICY_CONDITIONS_MAX = 1024 };

/* Fields that need no condition: they carry the policy, or the signature over it. */
static const char *const policy_free[] = {"awsaccesskeyid", "file", "policy", "signature",
                                          "x-amz-signature"};

struct policy_check {
    const struct form_policy_input *input;
    struct form_limits *limits;
    struct slice *text;
    bool covered[FORM_FIELDS_MAX];
    bool bucket_covered;
};

static enum s3_error policy_invalid(struct policy_check *check, struct slice text)
{
    *check->text =
        arena_printf(check->input->arena, "Invalid Policy: %.*s", (int)text.len, text.data);
    return S3_InvalidPolicyDocument;
}

static enum s3_error policy_denied(struct policy_check *check, struct slice text)
{
    *check->text = arena_printf(check->input->arena, "Invalid according to Policy: %.*s",
                                (int)text.len, text.data);
    return S3_AccessDenied;
}

static struct slice policy_string(const json_t *value)
{
    return slice_of(json_string_value(value), json_string_length(value));
}

/* As AWS writes conditions: ["eq", "$key", "a"]. */
static enum s3_error policy_failed(struct policy_check *check, const char *operation,
                                   struct slice field, struct slice value)
{
    struct arena *arena = check->input->arena;
    json_t *list = json_pack("[s,s%,s%]", operation, field.data, (size_t)field.len, value.data,
                             (size_t)value.len);
    char *dump = list != NULL ? json_dumps(list, 0) : NULL;
    struct slice text =
        arena_printf(arena, "Policy Condition failed: %s", dump != NULL ? dump : operation);

    free(dump);
    json_decref(list);
    return policy_denied(check, text);
}

/* ---- Conditions ---- */

static bool policy_field(struct policy_check *check, struct slice name, struct slice *value)
{
    const struct form_policy_input *input = check->input;

    for (uint32_t i = 0; i < input->form->count; i++) {
        if (slice_eq_nocase(input->form->fields[i].name, name)) {
            check->covered[i] = true;
            *value = input->form->fields[i].value;
            if (slice_eq_nocase(name, SLICE("key"))) {
                *value = input->key;
            }
            if (!slice_eq_nocase(name, SLICE("bucket"))) {
                return true;
            }
        }
    }
    if (slice_eq_nocase(name, SLICE("bucket"))) { /* of the request, whatever a field says */
        check->bucket_covered = true;
        *value = input->bucket;
        return true;
    }
    return false;
}

/* A list of content types: each of them. */
static bool policy_starts(struct slice name, struct slice value, struct slice prefix)
{
    if (!slice_eq_nocase(name, SLICE("content-type"))) {
        return slice_starts(value, prefix);
    }
    do {
        size_t comma = slice_find(value, ',');

        if (!slice_starts(slice_trim(slice_of(value.data, comma)), prefix)) {
            return false;
        }
        value = slice_after(value, comma + 1);
    } while (value.len > 0);
    return true;
}

static enum s3_error policy_simple(struct policy_check *check, json_t *condition)
{
    const char *name;
    const json_t *wanted;
    struct slice value;

    if (json_object_size(condition) != 1) {
        return policy_invalid(check, SLICE("Invalid Simple-Condition: Simple-Conditions must have "
                                           "exactly one property specified."));
    }
    name = json_object_iter_key(json_object_iter(condition));
    wanted = json_object_get(condition, name);
    if (!json_is_string(wanted)) {
        return policy_invalid(check, SLICE("Invalid Simple-Condition: value must be a string."));
    }
    if (policy_field(check, slice_str(name), &value) && slice_eq(value, policy_string(wanted))) {
        return S3_OK;
    }
    return policy_failed(check, "eq", arena_printf(check->input->arena, "$%s", name),
                         policy_string(wanted));
}

static enum s3_error policy_matches(struct policy_check *check, json_t *condition, bool starts)
{
    const json_t *field = json_array_get(condition, 1);
    const json_t *wanted = json_array_get(condition, 2);
    struct slice name;
    struct slice value;

    if (!json_is_string(field) || !json_is_string(wanted)) {
        return policy_invalid(check, SLICE("Invalid JSON."));
    }
    name = policy_string(field);
    if (name.len > 1 && name.data[0] == '$' && policy_field(check, slice_after(name, 1), &value)) {
        if (starts ? policy_starts(slice_after(name, 1), value, policy_string(wanted))
                   : slice_eq(value, policy_string(wanted))) {
            return S3_OK;
        }
    }
    return policy_failed(check, starts ? "starts-with" : "eq", name, policy_string(wanted));
}

static bool policy_number(const json_t *value, uint64_t *out)
{
    if (json_is_string(value)) {
        return slice_to_u64(policy_string(value), INT64_MAX, out);
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum s3_error policy_range(struct policy_check *check, json_t *condition)
{
    uint64_t from;
    uint64_t to;

    if (!policy_number(json_array_get(condition, 1), &from) ||
        !policy_number(json_array_get(condition, 2), &to)) {
        return policy_invalid(check, SLICE("Invalid JSON."));
    }
    if (from > check->limits->length_min) {
        check->limits->length_min = from;
    }
    if (to < check->limits->length_max) {
        check->limits->length_max = to;
    }
    return S3_OK;
}

static enum s3_error policy_condition(struct policy_check *check, json_t *condition)
{
    struct slice operation;
    bool starts;

    if (json_is_object(condition)) {
        return policy_simple(check, condition);
    }
    if (!json_is_array(condition)) {
        return policy_invalid(check, SLICE("Invalid condition test: must be a List or Object."));
    }
    if (json_array_size(condition) == 0) {
        return policy_invalid(check, SLICE("Invalid Condition: missing operation identifier."));
    }
    if (!json_is_string(json_array_get(condition, 0))) {
        return policy_invalid(check, SLICE("Invalid JSON."));
    }
    operation = policy_string(json_array_get(condition, 0));
    starts = slice_eq_nocase(operation, SLICE("starts-with"));
    if (!starts && !slice_eq_nocase(operation, SLICE("eq")) &&
        !slice_eq_nocase(operation, SLICE("content-length-range"))) {
        return policy_invalid(check, arena_printf(check->input->arena,
                                                  "Invalid Condition: unknown operation '%.*s'.",
                                                  (int)operation.len, operation.data));
    }
    if (json_array_size(condition) != 3) {
        return policy_invalid(check, arena_printf(check->input->arena,
                                                  "Invalid %.*s: wrong number of arguments.",
                                                  (int)operation.len, operation.data));
    }
    if (slice_eq_nocase(operation, SLICE("content-length-range"))) {
        return policy_range(check, condition);
    }
    return policy_matches(check, condition, starts);
}

/* ---- The document ---- */

static enum s3_error policy_expiration(struct policy_check *check, const json_t *value)
{
    struct slice text = policy_string(value);
    uint64_t until_ns;

    if (!json_is_string(value)) {
        return policy_invalid(check, SLICE("Invalid JSON."));
    }
    if (text.len < sizeof("2007-12-01T12:00:00Z") - 1 || !time_parse_iso8601(text, &until_ns)) {
        return policy_invalid(check, arena_printf(check->input->arena,
                                                  "Invalid 'expiration' value: '%.*s'",
                                                  (int)text.len, text.data));
    }
    if (check->input->now_ns > until_ns) {
        return policy_denied(check, SLICE("Policy expired."));
    }
    return S3_OK;
}

/* The form of a document is judged before what it says. */
static enum s3_error policy_members(struct policy_check *check, json_t *root)
{
    json_t *conditions = json_object_get(root, "conditions");
    const char *name;
    json_t *value;

    if (json_object_get(root, "expiration") == NULL) {
        return policy_invalid(check, SLICE("Policy missing expiration."));
    }
    if (conditions == NULL) {
        return policy_invalid(check, SLICE("Policy missing conditions."));
    }
    json_object_foreach(root, name, value)
    {
        if (strcmp(name, "expiration") != 0 && strcmp(name, "conditions") != 0) {
            return policy_invalid(check,
                                  arena_printf(check->input->arena, "Unexpected: \"%s\"", name));
        }
    }
    if (!json_is_array(conditions) || json_array_size(conditions) > POLICY_CONDITIONS_MAX) {
        return policy_invalid(check, SLICE("Invalid 'conditions' value: must be a List."));
    }
    return S3_OK;
}

static bool policy_is_free(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(policy_free); i++) {
        if (slice_eq_str(name, policy_free[i])) {
            return true;
        }
    }
    /* A checksum grants nothing: it can only make the upload fail. */
    return slice_starts(name, SLICE("x-ignore-")) || slice_starts(name, SLICE("x-amz-checksum-"));
}

static enum s3_error policy_coverage(struct policy_check *check)
{
    const struct form_parser *form = check->input->form;

    for (uint32_t i = 0; i < form->count; i++) {
        struct slice name = form->fields[i].name;

        if (!check->covered[i] && !policy_is_free(name)) {
            return policy_denied(check,
                                 arena_printf(check->input->arena, "Extra input fields: %.*s",
                                              (int)name.len, name.data));
        }
    }
    return check->bucket_covered ? S3_OK
                                 : policy_denied(check, SLICE("Extra input fields: bucket"));
}

static enum s3_error policy_judge(struct policy_check *check, json_t *root)
{
    json_t *conditions = json_object_get(root, "conditions");
    enum s3_error error = policy_members(check, root);

    if (error == S3_OK) {
        error = policy_expiration(check, json_object_get(root, "expiration"));
    }
    for (size_t i = 0; error == S3_OK && i < json_array_size(conditions); i++) {
        error = policy_condition(check, json_array_get(conditions, i));
    }
    return error == S3_OK ? policy_coverage(check) : error;
}

enum s3_error form_policy_check(const struct form_policy_input *input, struct form_limits *limits,
                                struct slice *text)
{
    struct policy_check check = {.input = input, .limits = limits, .text = text};
    struct slice encoded = slice_trim(input->policy);
    char *bytes = arena_alloc_raw(input->arena, encoded.len + 1);
    size_t len = 0;
    enum s3_error error;
    json_t *root;

    if (encoded.len == 0) {
        return policy_invalid(&check, SLICE("Expecting '{' but found End-of-Input"));
    }
    if (!base64_decode(encoded, bytes, encoded.len, &len)) {
        return policy_invalid(&check, SLICE("invalid Base64 encoding."));
    }
    root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return policy_invalid(&check, SLICE("Invalid JSON."));
    }
    error = policy_judge(&check, root);
    json_decref(root);
    return error;
}
