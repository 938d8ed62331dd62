/*
 * The Condition element (AWS: "IAM JSON policy elements: Condition operators"): operators are
 * joined by AND, so are keys, the values of a key by OR (of a negated operator: none may match).
 *
 * An absent key: a positive operator is false, a negated one true, ...IfExists true, ForAllValues
 * true, ForAnyValue false.
 */
#include "gateway/access/policy_form.h"

#include "common/base/assert.h"

/* ---- Operators ---- */

struct operator_row {
    const char *name;
    enum policy_test test;
    enum policy_order order;
    bool negated;
    unsigned pattern; /* flags of its pattern */
};

enum {
    PLAIN = POLICY_PATTERN_VARIABLES,
    LIKE = POLICY_PATTERN_VARIABLES | POLICY_PATTERN_WILDCARDS
};

static const struct operator_row operators[] = {
    {"StringEquals",              TEST_STRING,      ORDER_EQUAL,         false, PLAIN},
    {"StringNotEquals",           TEST_STRING,      ORDER_EQUAL,         true,  PLAIN},
    {"StringEqualsIgnoreCase",    TEST_STRING_FOLD, ORDER_EQUAL,         false, PLAIN},
    {"StringNotEqualsIgnoreCase", TEST_STRING_FOLD, ORDER_EQUAL,         true,  PLAIN},
    {"StringLike",                TEST_STRING,      ORDER_EQUAL,         false, LIKE },
    {"StringNotLike",             TEST_STRING,      ORDER_EQUAL,         true,  LIKE },
    {"NumericEquals",             TEST_NUMBER,      ORDER_EQUAL,         false, 0    },
    {"NumericNotEquals",          TEST_NUMBER,      ORDER_EQUAL,         true,  0    },
    {"NumericLessThan",           TEST_NUMBER,      ORDER_LESS,          false, 0    },
    {"NumericLessThanEquals",     TEST_NUMBER,      ORDER_LESS_EQUAL,    false, 0    },
    {"NumericGreaterThan",        TEST_NUMBER,      ORDER_GREATER,       false, 0    },
    {"NumericGreaterThanEquals",  TEST_NUMBER,      ORDER_GREATER_EQUAL, false, 0    },
    {"DateEquals",                TEST_DATE,        ORDER_EQUAL,         false, 0    },
    {"DateNotEquals",             TEST_DATE,        ORDER_EQUAL,         true,  0    },
    {"DateLessThan",              TEST_DATE,        ORDER_LESS,          false, 0    },
    {"DateLessThanEquals",        TEST_DATE,        ORDER_LESS_EQUAL,    false, 0    },
    {"DateGreaterThan",           TEST_DATE,        ORDER_GREATER,       false, 0    },
    {"DateGreaterThanEquals",     TEST_DATE,        ORDER_GREATER_EQUAL, false, 0    },
    {"Bool",                      TEST_BOOL,        ORDER_EQUAL,         false, 0    },
    {"BinaryEquals",              TEST_BINARY,      ORDER_EQUAL,         false, 0    },
    {"IpAddress",                 TEST_ADDRESS,     ORDER_EQUAL,         false, 0    },
    {"NotIpAddress",              TEST_ADDRESS,     ORDER_EQUAL,         true,  0    },
    {"ArnEquals",                 TEST_ARN,         ORDER_EQUAL,         false, LIKE },
    {"ArnLike",                   TEST_ARN,         ORDER_EQUAL,         false, LIKE },
    {"ArnNotEquals",              TEST_ARN,         ORDER_EQUAL,         true,  LIKE },
    {"ArnNotLike",                TEST_ARN,         ORDER_EQUAL,         true,  LIKE },
    {"Null",                      TEST_NULL,        ORDER_EQUAL,         false, 0    },
};

static const struct operator_row *operator_find(struct slice name, struct policy_condition *out)
{
    const struct slice if_exists = SLICE("IfExists");

    out->set = SET_NONE;
    if (slice_starts(name, SLICE("ForAllValues:"))) {
        out->set = SET_ALL;
        name = slice_after(name, sizeof("ForAllValues:") - 1);
    } else if (slice_starts(name, SLICE("ForAnyValue:"))) {
        out->set = SET_ANY;
        name = slice_after(name, sizeof("ForAnyValue:") - 1);
    }
    out->if_exists = name.len > if_exists.len &&
                     slice_eq(slice_after(name, name.len - if_exists.len), if_exists);
    if (out->if_exists) {
        name.len -= if_exists.len;
    }
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (slice_eq_str(name, operators[i].name)) {
            return operators[i].test == TEST_NULL && out->if_exists ? NULL : &operators[i];
        }
    }
    return NULL;
}

/* ---- Compiling ---- */

/* The six parts of an ARN; the last one takes all colons that are left. False: it has fewer. */
static bool arn_part(struct slice *rest, unsigned i, struct slice *part)
{
    size_t end = i + 1 < POLICY_ARN_PARTS ? slice_find(*rest, ':') : rest->len;

    if (i + 1 < POLICY_ARN_PARTS && end == rest->len) {
        return false;
    }
    *part = slice_of(rest->data, end);
    *rest = slice_after(*rest, end + 1);
    return true;
}

static bool condition_read_arn(struct policy *policy, struct slice text, unsigned flags,
                               struct policy_operand *out)
{
    struct policy_pattern *parts = arena_alloc(&policy->arena, POLICY_ARN_PARTS * sizeof(*parts));
    struct slice part;

    for (unsigned i = 0; i < POLICY_ARN_PARTS; i++) {
        if (!arn_part(&text, i, &part)) {
            return i == 0 && out->pattern.wildcard; /* "*": stays one pattern */
        }
        if (!policy_pattern_compile(&policy->arena, part, flags, &parts[i])) {
            return false;
        }
    }
    out->arn = parts;
    return true;
}

static enum rc condition_read_operand(struct policy *policy, struct policy_condition *condition,
                                      const struct operator_row *row, struct slice text,
                                      struct policy_operand *out, struct error *error)
{
    unsigned flags = row->pattern & (policy->variables ? LIKE : POLICY_PATTERN_WILDCARDS);
    bool fine = policy_pattern_compile(&policy->arena, text, flags, &out->pattern);

    if (policy_keys[condition->key].type == POLICY_TYPE_ADDRESS &&
        !policy_address_read(text, &out->address)) {
        return policy_refuse(error, "Invalid IP address in Conditions");
    }
    switch ((int)condition->test) {
    case TEST_NUMBER:
        fine = policy_number(text, &out->number);
        break;
    case TEST_DATE:
        fine = policy_date(text, &out->number);
        break;
    case TEST_BOOL:
    case TEST_NULL:
        fine = policy_boolean(text, &out->flag);
        break;
    case TEST_ADDRESS:
        fine = policy_address_read(text, &out->address);
        break;
    case TEST_ARN:
        fine = fine && condition_read_arn(policy, text, flags, out);
        break;
    default:
        break;
    }
    condition->needs_object = condition->needs_object || policy_pattern_needs_object(&out->pattern);
    return fine ? RC_OK
                : policy_refuse(error, "Invalid value in Conditions: %.*s %.*s",
                                (int)strlen(row->name), row->name,
                                (int)(text.len < 64 ? text.len : 64), text.data);
}

/* A value may also be a JSON number or boolean. */
static bool condition_value(struct policy *policy, const json_t *node, struct slice *out)
{
    switch ((int)json_typeof(node)) {
    case JSON_STRING:
        *out = slice_of(json_string_value(node), json_string_length(node));
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = json_is_true(node) ? SLICE("true") : SLICE("false");
        return true;
    case JSON_INTEGER:
        *out = arena_printf(&policy->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
        return true;
    case JSON_REAL:
        *out = arena_printf(&policy->arena, "%.17g", json_real_value(node));
        return true;
    default:
        return false;
    }
}

static enum rc condition_read_operands(struct policy *policy, struct policy_condition *condition,
                                       const struct operator_row *row, const json_t *node,
                                       struct error *error)
{
    size_t count = json_is_array(node) ? json_array_size(node) : 1;
    struct policy_operand *operands;

    if (count == 0) {
        return policy_refuse(error, "Condition values cannot be empty");
    }
    operands = arena_alloc(&policy->arena, count * sizeof(*operands));
    for (size_t i = 0; i < count; i++) {
        struct slice text;

        if (!condition_value(policy, json_is_array(node) ? json_array_get(node, i) : node, &text)) {
            return policy_refuse(error, "This policy contains invalid Json");
        }
        if (condition_read_operand(policy, condition, row, text, &operands[i], error) != RC_OK) {
            return error->rc;
        }
    }
    condition->operands = operands;
    condition->operand_count = count;
    return RC_OK;
}

/* Every action that is named without a wildcard must know the key. */
static bool condition_applies(const struct policy_statement *statement, const json_t *actions,
                              enum policy_key_id key)
{
    uint32_t classes = policy_keys[key].classes;
    struct slice text;

    if (classes == 0 || statement->not_action) {
        return true;
    }
    for (size_t i = 0; i < policy_text_count(actions); i++) {
        struct policy_action_set set = {{0}};

        if (!policy_text_at(actions, i, &text) || slice_find(text, '*') < text.len ||
            slice_find(text, '?') < text.len) {
            continue;
        }
        (void)policy_action_match(text, &set);
        for (unsigned action = 0; action < POLICY_ACTION_COUNT; action++) {
            if (policy_action_has(&set, (enum policy_action)action) &&
                (policy_actions[action].classes & classes) == 0) {
                return false;
            }
        }
    }
    return true;
}

static enum rc condition_read_key(struct policy *policy, struct policy_condition *condition,
                                  struct slice key, struct error *error)
{
    condition->key = policy_key_find(key, &condition->name);
    if (condition->key == POLICY_KEY_COUNT && policy_key_unsupported(key)) {
        return error_set(error, RC_UNSUPPORTED, "the condition key %.*s",
                         (int)(key.len < 64 ? key.len : 64), key.data);
    }
    if (condition->key == POLICY_KEY_COUNT) {
        return policy_refuse(error, "Policy has an invalid condition key");
    }
    condition->name = arena_copy(&policy->arena, condition->name);
    condition->needs_object = condition->key == POLICY_KEY_EXISTING_TAG;
    return RC_OK;
}

enum rc policy_conditions_read(struct policy *policy, struct policy_statement *statement,
                               const json_t *node, struct error *error)
{
    const json_t *block = json_object_get(node, "Condition");
    const json_t *actions = json_object_get(node, "Action");
    struct policy_condition *conditions;
    const char *operator_name;
    const char *key;
    json_t *keys;
    json_t *values;
    size_t count = 0;

    if (block == NULL) {
        return RC_OK;
    }
    json_object_foreach((json_t *)(uintptr_t)block, operator_name, keys)
    {
        count += json_object_size(keys);
    }
    if (!json_is_object(block)) {
        return policy_refuse(error, "This policy contains invalid Json");
    }
    conditions = arena_alloc(&policy->arena, count * sizeof(*conditions) + 1);
    statement->conditions = conditions;
    json_object_foreach((json_t *)(uintptr_t)block, operator_name, keys)
    {
        struct policy_condition form = {0};
        const struct operator_row *row = operator_find(slice_str(operator_name), &form);

        if (row == NULL) {
            return policy_refuse(error, "Invalid Condition type : %.64s", operator_name);
        }
        if (!json_is_object(keys)) {
            return policy_refuse(error, "This policy contains invalid Json");
        }
        json_object_foreach(keys, key, values)
        {
            struct policy_condition *condition = &conditions[statement->condition_count];

            *condition = form;
            condition->test = row->test;
            condition->order = row->order;
            condition->negated = row->negated;
            if (condition_read_key(policy, condition, slice_str(key), error) != RC_OK ||
                condition_read_operands(policy, condition, row, values, error) != RC_OK) {
                return error->rc;
            }
            if (!condition_applies(statement, actions, condition->key)) {
                return policy_refuse(error, "Conditions do not apply to combination of actions and "
                                            "resources in statement");
            }
            statement->condition_count += 1;
        }
    }
    ASSERT(statement->condition_count == count);
    return RC_OK;
}

/* ---- Evaluating ---- */

static bool condition_ordered(enum policy_order order, double actual, double expected)
{
    switch (order) {
    case ORDER_LESS:
        return actual < expected;
    case ORDER_LESS_EQUAL:
        return actual <= expected;
    case ORDER_GREATER:
        return actual > expected;
    case ORDER_GREATER_EQUAL:
        return actual >= expected;
    case ORDER_EQUAL:
        break;
    }
    return actual >= expected && actual <= expected;
}

static bool condition_arn(const struct policy_operand *operand, struct slice text,
                          const struct policy_request *request)
{
    struct slice part;

    if (operand->arn == NULL) {
        return policy_pattern_match(&operand->pattern, text, false, request);
    }
    for (unsigned i = 0; i < POLICY_ARN_PARTS; i++) {
        if (!arn_part(&text, i, &part) ||
            !policy_pattern_match(&operand->arn[i], part, false, request)) {
            return false;
        }
    }
    return true;
}

static bool condition_test(const struct policy_condition *condition,
                           const struct policy_operand *operand, struct slice text,
                           const struct policy_request *request)
{
    struct policy_address address;
    double number;
    bool flag;

    switch ((int)condition->test) {
    case TEST_STRING:
    case TEST_STRING_FOLD:
        return policy_pattern_match(&operand->pattern, text, condition->test == TEST_STRING_FOLD,
                                    request);
    case TEST_NUMBER:
        return policy_number(text, &number) &&
               condition_ordered(condition->order, number, operand->number);
    case TEST_DATE:
        return policy_date(text, &number) &&
               condition_ordered(condition->order, number, operand->number);
    case TEST_BOOL:
        return policy_boolean(text, &flag) && flag == operand->flag;
    case TEST_BINARY:
        return slice_eq(operand->pattern.text, text); /* both are base64 texts */
    case TEST_ADDRESS:
        return policy_address_read(text, &address) &&
               policy_address_covers(&operand->address, &address);
    case TEST_ARN:
        return condition_arn(operand, text, request);
    case TEST_NULL:
    default:
        return false;
    }
}

/* Does one value of the request satisfy the operator? */
static bool condition_one(const struct policy_condition *condition, struct slice text,
                          const struct policy_request *request)
{
    for (size_t i = 0; i < condition->operand_count; i++) {
        if (condition_test(condition, &condition->operands[i], text, request)) {
            return !condition->negated;
        }
    }
    return condition->negated;
}

static bool condition_set(const struct policy_condition *condition,
                          const struct policy_values *values, const struct policy_request *request)
{
    bool all = condition->set == SET_ALL || (condition->set == SET_NONE && condition->negated);

    for (size_t i = 0; i < values->count; i++) {
        if (condition_one(condition, values->items[i], request) != all) {
            return !all;
        }
    }
    return all;
}

/* Documents are read after the first judgement, together with the object. */
static bool condition_in_document(const struct policy_condition *condition, uint32_t classes)
{
    return (classes & KEY_DOCUMENT) != 0 &&
           (policy_keys[condition->key].classes & (KEY_LOCK | KEY_NEW_TAGS)) != 0;
}

static enum policy_truth condition_holds(const struct policy_condition *condition,
                                         const struct policy_request *request)
{
    struct policy_values values = {0};
    uint32_t classes = policy_actions[request->action].classes;
    bool tags = (classes & KEY_TAGS) != 0;
    bool present;
    bool holds;

    if (!request->object_known &&
        ((condition->needs_object && tags) || condition_in_document(condition, classes))) {
        return POLICY_UNKNOWN;
    }
    present = (condition->key != POLICY_KEY_EXISTING_TAG || tags) &&
              request->value(request, condition->key, condition->name, &values) && values.count > 0;
    if (condition->test == TEST_NULL) {
        holds = false;
        for (size_t i = 0; i < condition->operand_count; i++) {
            holds = holds || condition->operands[i].flag == !present;
        }
    } else if (present) {
        holds = condition_set(condition, &values, request);
    } else {
        holds = condition->if_exists || condition->set == SET_ALL ||
                (condition->negated && condition->set == SET_NONE);
    }
    return holds ? POLICY_TRUE : POLICY_FALSE;
}

enum policy_truth policy_conditions_hold(const struct policy_statement *statement,
                                         const struct policy_request *request)
{
    enum policy_truth all = POLICY_TRUE;

    for (size_t i = 0; i < statement->condition_count; i++) {
        enum policy_truth one = condition_holds(&statement->conditions[i], request);

        if (one == POLICY_FALSE) {
            return POLICY_FALSE;
        }
        if (one == POLICY_UNKNOWN) {
            all = POLICY_UNKNOWN;
        }
    }
    return all;
}

/* ---- Public? ---- */

static bool condition_fixes(const struct policy_condition *condition)
{
    if ((policy_keys[condition->key].flags & POLICY_KEY_FIXES) == 0 || condition->negated ||
        condition->if_exists || condition->set == SET_ALL || condition->test == TEST_NULL) {
        return false;
    }
    for (size_t i = 0; i < condition->operand_count; i++) {
        const struct policy_operand *operand = &condition->operands[i];
        unsigned narrow = operand->address.is_v4 ? 96 + 8 : 32; /* AWS: /8 and /32 at least */

        if (operand->pattern.wildcard || operand->pattern.variable_count > 0 ||
            (condition->test == TEST_ADDRESS && operand->address.prefix < narrow)) {
            return false;
        }
    }
    return true;
}

bool policy_statement_is_public(const struct policy_statement *statement)
{
    if (!statement->allows || (!statement->anybody && !statement->not_principal)) {
        return false;
    }
    for (size_t i = 0; i < statement->condition_count; i++) {
        if (condition_fixes(&statement->conditions[i])) {
            return false;
        }
    }
    return true;
}
