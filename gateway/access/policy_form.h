/* The compiled form of a policy: for the files of this module only. Everything lies in the policy's
 * arena and never changes after policy_new(). */
#ifndef GATEWAY_ACCESS_POLICY_FORM_H
#define GATEWAY_ACCESS_POLICY_FORM_H

#include <jansson.h>

#include "gateway/access/policy.h"
#include "gateway/access/policy_pattern.h"
#include "gateway/access/policy_value.h"

enum policy_test {
    TEST_STRING, /* plain, or with wildcards: as its pattern was compiled */
    TEST_STRING_FOLD,
    TEST_NUMBER,
    TEST_DATE,
    TEST_BOOL,
    TEST_BINARY,
    TEST_ADDRESS,
    TEST_ARN,
    TEST_NULL
};
enum policy_order { ORDER_EQUAL, ORDER_LESS, ORDER_LESS_EQUAL, ORDER_GREATER, ORDER_GREATER_EQUAL };
enum policy_set { SET_NONE, SET_ALL, SET_ANY };

struct policy_operand {
    struct policy_pattern pattern;    /* strings; of TEST_ARN the whole text */
    const struct policy_pattern *arn; /* TEST_ARN: POLICY_ARN_PARTS of them */
    double number;                    /* numbers; dates in seconds since 1970 */
    struct policy_address address;
    bool flag; /* TEST_BOOL, TEST_NULL */
};

enum { POLICY_ARN_PARTS = 6 };

struct policy_condition {
    enum policy_test test;
    enum policy_order order;
    enum policy_set set;
    bool negated;
    bool if_exists;
    bool needs_object;
    enum policy_key_id key;
    struct slice name;
    const struct policy_operand *operands;
    size_t operand_count;
};

enum policy_principal_kind { PRINCIPAL_USER, PRINCIPAL_ACCOUNT, PRINCIPAL_SERVICE };

struct policy_principal {
    enum policy_principal_kind kind;
    struct slice name; /* of an account: empty is the store's own */
};

struct policy_statement {
    bool allows;
    bool anybody; /* Principal "*" */
    bool not_principal;
    bool not_action;
    bool not_resource;
    struct policy_action_set actions;
    const struct policy_principal *principals;
    size_t principal_count;
    const struct policy_pattern *resources; /* without "arn:aws:s3:::" */
    size_t resource_count;
    const struct policy_condition *conditions;
    size_t condition_count;
};

struct policy {
    struct arena arena;
    enum policy_kind kind;
    bool variables; /* Version 2012-10-17 */
    struct policy_statement *statements;
    size_t statement_count;
    bool is_public;
};

enum policy_truth { POLICY_FALSE, POLICY_TRUE, POLICY_UNKNOWN };

/* ---- Between its files ---- */

enum rc policy_refuse(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A string, or an array of strings: how many, and which. */
size_t policy_text_count(const json_t *node);
bool policy_text_at(const json_t *node, size_t index, struct slice *out);

enum rc policy_conditions_read(struct policy *policy, struct policy_statement *statement,
                               const json_t *node, struct error *error);
enum policy_truth policy_conditions_hold(const struct policy_statement *statement,
                                         const struct policy_request *request);
enum rc policy_principals_read(struct policy *policy, struct policy_statement *statement,
                               const json_t *node, struct error *error);
bool policy_principals_match(const struct policy_statement *statement,
                             const struct policy_request *request);
bool policy_statement_is_public(const struct policy_statement *statement);

#endif
