/* Policies: what is refused, what is public, what they answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/access/policy.h"
#include "gateway/access/policy_form.h"
#include "gateway/s3/op.h"

enum { VALUES_MAX = 8 };

/* ---- Policies as text ---- */

#define BOTH                  "['arn:aws:s3:::b','arn:aws:s3:::b/*']"
#define STATEMENT(e, p, a, r) "{'Effect':'" e "'," p "," a "," r "}"
#define WITH(e, a, r, c)                                                                           \
    "{'Effect':'" e "','Principal':'*','Action':'" a "','Resource':" r ",'Condition':" c "}"
#define WHO(e, p)                                                                                  \
    STATEMENT(e, "'Principal':" p, "'Action':'s3:GetObject'", "'Resource':'arn:aws:s3:::b/*'")
#define NOT_WHO(p)                                                                                 \
    STATEMENT("Deny", "'NotPrincipal':" p, "'Action':'s3:GetObject'",                              \
              "'Resource':'arn:aws:s3:::b/*'")
#define WHAT(a)         STATEMENT("Allow", "'Principal':'*'", "'Action':" a, "'Resource':" BOTH)
#define NOT_WHAT(a)     STATEMENT("Allow", "'Principal':'*'", "'NotAction':" a, "'Resource':" BOTH)
#define WHERE(r)        STATEMENT("Allow", "'Principal':'*'", "'Action':'s3:*'", "'Resource':" r)
#define NOT_WHERE(r)    STATEMENT("Allow", "'Principal':'*'", "'Action':'s3:*'", "'NotResource':" r)
#define LIST(c)         WITH("Allow", "s3:ListBucket", "'arn:aws:s3:::b'", c)
#define DENY_LIST(c)    WITH("Deny", "s3:ListBucket", "'arn:aws:s3:::b'", c)
#define GET(c)          WITH("Allow", "s3:GetObject", "'arn:aws:s3:::b/*'", c)
#define DENY_GET(c)     WITH("Deny", "s3:GetObject", "'arn:aws:s3:::b/*'", c)
#define PUT(c)          WITH("Allow", "s3:PutObject", "'arn:aws:s3:::b/*'", c)
#define DENY_PUT(c)     WITH("Deny", "s3:PutObject", "'arn:aws:s3:::b/*'", c)
#define VERSION(c)      WITH("Allow", "s3:GetObjectVersion", "'arn:aws:s3:::b/*'", c)
#define TAG(c)          WITH("Allow", "s3:PutObjectTagging", "'arn:aws:s3:::b/*'", c)
#define ANY(e, c)       WITH(e, "s3:*", "'arn:aws:s3:::b/*'", c)
#define TWO(a, b)       a "," b
#define OLD(statements) "<" statements

static struct slice policy_text(struct arena *arena, const char *statements)
{
    bool old = statements[0] == '<';
    struct slice text = arena_printf(arena, "{'Version':'%s','Statement':[%s]}",
                                     old ? "2008-10-17" : "2012-10-17", statements + (old ? 1 : 0));
    char *bytes = (char *)(uintptr_t)text.data;

    for (size_t i = 0; i < text.len; i++) {
        bytes[i] = bytes[i] == '\'' ? '"' : bytes[i] == '~' ? '\'' : bytes[i];
    }
    return text;
}

/* ---- Requests ---- */

struct asking {
    struct policy_request request;
    const char *context;
};

static bool asking_value(const struct policy_request *request, enum policy_key_id key,
                         struct slice name, struct policy_values *out)
{
    const struct asking *asking =
        CONTAINER_OF((struct policy_request *)(uintptr_t)request, struct asking, request);
    struct slice rest = slice_str(asking->context);
    struct slice *items = arena_alloc(request->arena, VALUES_MAX * sizeof(*items));
    size_t count = 0;

    while (rest.len > 0) {
        struct slice pair = slice_of(rest.data, slice_find(rest, ';'));
        size_t equals = slice_find(pair, '=');
        struct slice pair_name;

        if (policy_key_find(slice_of(pair.data, equals), &pair_name) == key &&
            slice_eq(pair_name, name)) {
            assert_true(count < VALUES_MAX);
            items[count++] = slice_of(pair.data + equals + 1, pair.len - equals - 1);
        }
        rest = slice_after(rest, pair.len + 1);
    }
    *out = (struct policy_values){.items = items, .count = count};
    return count > 0;
}

struct policy_case {
    const char *statements;
    const char *action;
    const char *resource;
    const char *user;
    const char *context;
    unsigned answers;
};

enum {
    NONE = 0,
    ALLOW = POLICY_ALLOWS,
    DENY = POLICY_DENIES,
    MAY_ALLOW = POLICY_MAY_ALLOW,
    MAY_DENY = POLICY_MAY_DENY
};

static const struct policy_case cases[] = {
#define CASE(statements, action, resource, user, context, answers)                                 \
    {(statements), (action), (resource), (user), (context), (answers)},
#include "tests/unit/gateway/policy_cases.def"
#undef CASE
};

static const struct policy_options of_bucket = {
    .kind = POLICY_OF_BUCKET, .bucket = {.data = "b", .len = 1}
};

static unsigned answers_of(const struct policy_case *one, struct arena *arena)
{
    struct policy *policy = NULL;
    struct error error = {.text = ""};
    struct asking asking = {.context = one->context};
    unsigned answers;

    if (policy_new(&policy, policy_text(arena, one->statements), &of_bucket, &error) != RC_OK) {
        print_error("refused: %s: %s\n", one->statements, error.text);
        fail();
        return 0;
    }
    asking.request = (struct policy_request){
        .action = policy_action_find(slice_str(one->action)),
        .resource = slice_str(one->resource),
        .user = slice_str(one->user),
        .is_root = strcmp(one->user, "root") == 0,
        .object_known = strcmp(one->context, "?") != 0,
        .arena = arena,
        .value = asking_value,
    };
    answers = policy_evaluate(policy, &asking.request).answers;
    policy_free(policy);
    return answers;
}

/* Who may do what is decided here: each row of AWS's evaluation rules must hold. */
static void test_evaluates(void **state)
{
    size_t wrong = 0;

    (void)state;
    assert_true(ARRAY_LEN(cases) >= 150);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena arena;
        unsigned answers;

        arena_init(&arena);
        answers = answers_of(&cases[i], &arena);
        if (answers != cases[i].answers) {
            print_error("%s\n  %s on %s by \"%s\" with \"%s\": got %u, want %u\n",
                        cases[i].statements, cases[i].action, cases[i].resource, cases[i].user,
                        cases[i].context, answers, cases[i].answers);
            wrong += 1;
        }
        arena_deinit(&arena);
    }
    assert_int_equal(wrong, 0);
}

/* ---- What is refused ---- */

struct refusal {
    const char *json; /* whole documents, or statements when it begins with "{'Effect" */
    const char *text;
};

static const struct refusal refusals[] = {
    {"", "Policies must be valid JSON and the first byte must be '{'"},
    {"[]", "Policies must be valid JSON and the first byte must be '{'"},
    {" {}", "Policies must be valid JSON and the first byte must be '{'"},
    {"{true}", "This policy contains invalid Json"},
    {"{'Statement':[],'Statement':[]}", "This policy contains invalid Json"},
    {"{'Statement':['x']}", "This policy contains invalid Json"},
    {"{}", "Missing required field Statement"},
    {"{'Version':'2012-10-17'}", "Missing required field Statement"},
    {"{'Statement':[]}", "Could not parse the policy: Statement is empty!"},
    {"{'Version':'2012-10-18','Statement':[]}", "The policy must contain a valid version string"},
    {"{'Version':'','Statement':[]}", "The policy must contain a valid version string"},
    {"{'Version':2012,'Statement':[]}", "The policy must contain a valid version string"},
    {"{'Comment':'x','Statement':[]}", "Invalid policy syntax."},
    {"{'Effect':'Perhaps','Principal':'*','Action':'s3:*','Resource':'arn:aws:s3:::b'}",
     "Invalid effect: Perhaps"},
    {"{'Effect':'Allow','Action':'s3:*','Resource':'arn:aws:s3:::b'}",
     "Missing required field Principal"},
    {"{'Effect':'Allow','Principal':'*','Resource':'arn:aws:s3:::b'}",
     "Missing required field Action"},
    {"{'Effect':'Allow','Principal':'*','Action':'s3:*'}", "Missing required field Resource"},
    {"{'Effect':'Allow','Principal':'*','Action':'s3:*','Resource':'arn:aws:s3:::b','Verdict':1}",
     "Invalid policy syntax."},
    {WHO("Allow", "''"), "Invalid principal in policy"},
    {WHO("Allow", "[]"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':[]}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':''}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':['*','ann']}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':'ann*'}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':'arn:aws:iam::1:user/*'}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':'arn:aws:iam::1:role/x'}"), "Invalid principal in policy"},
    {WHO("Allow", "{'AWS':7}"), "Invalid principal in policy"},
    {WHO("Allow", "{'Federated':'x'}"), "Invalid principal in policy"},
    {WHO("Allow", "{'Service':'x'}"), "Invalid principal in policy"},
    {STATEMENT("Allow", "'NotPrincipal':'*'", "'Action':'s3:*'", "'Resource':'arn:aws:s3:::b'"),
     "Allow with NotPrincipal is not allowed."},
    {WHAT("''"), "Policy has invalid action"},
    {WHAT("[]"), "Policy has invalid action"},
    {WHAT("'s3:'"), "Policy has invalid action"},
    {WHAT("'s3:GetObjekt'"), "Policy has invalid action"},
    {WHAT("'GetObject'"), "Policy has invalid action"},
    {WHAT("'*GetObject'"), "Policy has invalid action"},
    {WHAT("'s3:Abort?'"), "Policy has invalid action"},
    {WHERE("''"), "Policy has invalid resource"},
    {WHERE("[]"), "Policy has invalid resource"},
    {WHERE("'b/*'"), "Policy has invalid resource"},
    {WHERE("'*'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::/b'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::bc/*'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::c/*'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::b/${aws:nobody}/*'"), "Policy has invalid resource"},
    {WHERE("'arn:aws:s3:::b/${aws:username'"), "Policy has invalid resource"},
    {STATEMENT("Allow", "'Principal':'*'", "'Action':'s3:GetObject'",
     "'Resource':'arn:aws:s3:::b'"),
     "Action does not apply to any resource(s) in statement"},
    {STATEMENT("Allow", "'Principal':'*'", "'Action':'s3:ListBucket'",
     "'Resource':'arn:aws:s3:::b/*'"),
     "Action does not apply to any resource(s) in statement"},
    {STATEMENT("Allow", "'Principal':'*'", "'Action':['s3:PutObject','s3:GetBucketAcl']",
     "'Resource':'arn:aws:s3:::b/*'"),
     "Action does not apply to any resource(s) in statement"},
    {GET("{'NotAnOperator':{'aws:Referer':'x'}}"), "Invalid Condition type : NotAnOperator"},
    {GET("{'stringequals':{'aws:Referer':'x'}}"), "Invalid Condition type : stringequals"},
    {GET("{'NullIfExists':{'aws:Referer':'true'}}"), "Invalid Condition type : NullIfExists"},
    {GET("{'ForSome:StringEquals':{'aws:Referer':'x'}}"),
     "Invalid Condition type : ForSome:StringEquals"},
    {GET("{'StringEquals':{'aws:Nothing':'x'}}"), "Policy has an invalid condition key"},
    {GET("{'StringEquals':{'s3:ExistingObjectTag/':'x'}}"), "Policy has an invalid condition key"},
    {GET("{'StringEquals':{'s3:prefix':'x'}}"),
     "Conditions do not apply to combination of actions and resources in statement"},
    {GET("{'IpAddress':{'aws:SourceIp':'300.1.1.1'}}"), "Invalid IP address in Conditions"},
    {GET("{'IpAddress':{'aws:SourceIp':'10.0.0.0/33'}}"), "Invalid IP address in Conditions"},
    {GET("{'Null':{'aws:SourceIp':'true'}}"), "Invalid IP address in Conditions"},
    {GET("{'StringEquals':{'aws:Referer':[]}}"), "Condition values cannot be empty"},
    {GET("{'StringEquals':{'aws:Referer':null}}"), "This policy contains invalid Json"},
    {GET("{'Bool':{'aws:SecureTransport':'perhaps'}}"),
     "Invalid value in Conditions: Bool perhaps"},
    {GET("{'NumericEquals':{'aws:EpochTime':'0x10'}}"),
     "Invalid value in Conditions: NumericEquals 0x10"},
    {GET("{'DateEquals':{'aws:CurrentTime':'soon'}}"),
     "Invalid value in Conditions: DateEquals soon"},
    {"{'Effect':'Allow','Sid':'a','Principal':'*','Action':'s3:*','Resource':'arn:aws:s3:::b'},"
     "{'Effect':'Deny','Sid':'a','Principal':'*','Action':'s3:*','Resource':'arn:aws:s3:::b'}", "Statement IDs (SID) in a single policy must be unique."},
};

/* Users find their mistake by the message, and nothing that is not enforced may be stored. */
static void test_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        bool statement = strncmp(refusals[i].json, "{'Effect", 8) == 0;
        struct policy *policy = NULL;
        struct error error;
        struct arena arena;
        struct slice json;

        arena_init(&arena);
        json = policy_text(&arena, refusals[i].json);
        if (!statement) {
            json = slice_after(json, sizeof("{'Version':'2012-10-17','Statement':[") - 1);
            json.len -= 2;
        }
        if (policy_new(&policy, json, &of_bucket, &error) != RC_INVALID) {
            print_error("not refused: %s\n", refusals[i].json);
            fail();
        }
        assert_string_equal(error.text, refusals[i].text);
        arena_deinit(&arena);
    }
}

/* A policy too long for AWS is too long here: tools test for it. */
static void test_bounds(void **state)
{
    struct policy *policy = NULL;
    struct error error;
    struct arena arena;
    char *json;

    (void)state;
    arena_init(&arena);
    json = arena_alloc(&arena, POLICY_BYTES_MAX + 1);
    memset(json, ' ', POLICY_BYTES_MAX + 1);
    json[0] = '{';
    assert_int_equal(policy_new(&policy, slice_of(json, POLICY_BYTES_MAX + 1), &of_bucket, &error),
                     RC_INVALID);
    assert_string_equal(error.text, "Policy exceeds the maximum allowed document size.");
    assert_int_equal(policy_new(&policy, slice_of(json, POLICY_BYTES_MAX), &of_bucket, &error),
                     RC_INVALID);
    assert_string_equal(error.text, "This policy contains invalid Json");
    arena_deinit(&arena);
}

/* What is known to AWS and cannot be enforced here is named, never stored. */
static void test_unsupported(void **state)
{
    struct policy *policy = NULL;
    struct error error;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    assert_int_equal(
        policy_new(&policy, policy_text(&arena, GET("{'StringEquals':{'aws:PrincipalTag/a':'x'}}")),
                   &of_bucket, &error),
        RC_UNSUPPORTED);
    assert_string_equal(error.text, "the condition key aws:PrincipalTag/a");
    arena_deinit(&arena);
}

/* ---- Public ---- */

struct public_case {
    const char *statements;
    bool is_public;
};

static const struct public_case publics[] = {
    {WHO("Allow", "'*'"), true},
    {WHO("Allow", "{'AWS':'*'}"), true},
    {WHO("Deny", "'*'"), false},
    {WHO("Allow", "{'AWS':'ann'}"), false},
    {WHO("Allow", "{'AWS':'arn:aws:iam::ann:root'}"), false},
    {TWO(WHO("Allow", "{'AWS':'ann'}"), WHO("Allow", "'*'")), true},
    {GET("{'IpAddress':{'aws:SourceIp':'10.0.0.0/32'}}"), false},
    {GET("{'IpAddress':{'aws:SourceIp':'10.0.0.0/8'}}"), false},
    {GET("{'IpAddress':{'aws:SourceIp':'10.0.0.0/7'}}"), true},
    {GET("{'IpAddress':{'aws:SourceIp':'0.0.0.0/0'}}"), true},
    {GET("{'IpAddress':{'aws:SourceIp':['10.0.0.0/8','0.0.0.0/0']}}"), true},
    {GET("{'IpAddress':{'aws:SourceIp':'2001:db8::/32'}}"), false},
    {GET("{'IpAddress':{'aws:SourceIp':'2001::/31'}}"), true},
    {GET("{'NotIpAddress':{'aws:SourceIp':'10.0.0.0/8'}}"), true},
    {GET("{'IpAddressIfExists':{'aws:SourceIp':'10.0.0.0/8'}}"), true},
    {GET("{'StringEquals':{'aws:SourceVpc':'vpc-91237329'}}"), false},
    {GET("{'StringLike':{'aws:SourceVpc':'vpc-*'}}"), true},
    {GET("{'StringEquals':{'aws:PrincipalOrgID':'o-1'}}"), false},
    {GET("{'StringEquals':{'aws:userid':'${aws:username}'}}"), true},
    {GET("{'StringEquals':{'aws:Referer':'http://x/'}}"), true},
    {GET("{'StringEquals':{'aws:Referer':'x','aws:SourceAccount':'1'}}"), false},
    {GET("{'Null':{'aws:SourceVpc':'false'}}"), true},
    {GET("{'ForAllValues:StringEquals':{'aws:SourceVpc':'vpc-1'}}"), true},
};

/* BlockPublicPolicy and RestrictPublicBuckets stand on this answer. */
static void test_public(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(publics); i++) {
        struct policy *policy = NULL;
        struct error error;
        struct arena arena;

        arena_init(&arena);
        assert_int_equal(
            policy_new(&policy, policy_text(&arena, publics[i].statements), &of_bucket, &error),
            RC_OK);
        if (policy_is_public(policy) != publics[i].is_public) {
            print_error("public is wrong: %s\n", publics[i].statements);
            fail();
        }
        policy_free(policy);
        arena_deinit(&arena);
    }
}

/* PutBucketPolicy asks whether the users exist: it must hear of each of them. */
static void test_users(void **state)
{
    struct policy *policy = NULL;
    struct error error;
    struct arena arena;

    (void)state;
    arena_init(&arena);
    assert_int_equal(
        policy_new(&policy,
                   policy_text(&arena, TWO(WHO("Allow", "{'AWS':['ann','arn:aws:iam::x:root']}"),
                                           WHO("Deny", "{'AWS':'arn:aws:iam::1:user/bob'}"))),
                   &of_bucket, &error),
        RC_OK);
    assert_int_equal(policy_user_count(policy), 2);
    assert_true(slice_eq_str(policy_user_at(policy, 0), "ann"));
    assert_true(slice_eq_str(policy_user_at(policy, 1), "bob"));
    policy_free(policy);
    arena_deinit(&arena);
}

/* A policy of a user names no principal, and may speak of any bucket. */
static void test_identity(void **state)
{
    const struct policy_options of_user = {.kind = POLICY_OF_IDENTITY};
    const struct policy_case one = {"{'Effect':'Allow','Action':'s3:GetObject','Resource':'*'}",
                                    "s3:GetObject",
                                    "c/k",
                                    "ann",
                                    "",
                                    ALLOW};
    struct policy *policy = NULL;
    struct error error;
    struct arena arena;
    struct asking asking = {.context = ""};

    (void)state;
    arena_init(&arena);
    assert_int_equal(
        policy_new(&policy, policy_text(&arena, WHO("Allow", "'*'")), &of_user, &error),
        RC_INVALID);
    assert_int_equal(policy_new(&policy, policy_text(&arena, one.statements), &of_user, &error),
                     RC_OK);
    asking.request = (struct policy_request){.action = policy_action_find(slice_str(one.action)),
                                             .resource = slice_str(one.resource),
                                             .user = slice_str(one.user),
                                             .object_known = true,
                                             .arena = &arena,
                                             .value = asking_value};
    assert_int_equal(policy_evaluate(policy, &asking.request).answers, ALLOW);
    policy_free(policy);
    arena_deinit(&arena);
}

/* ---- Tables ---- */

/* Lookups are by halves: a row out of order would deny its operation to everybody. */
static void test_tables(void **state)
{
    (void)state;
    for (unsigned i = 0; i < POLICY_ACTION_COUNT; i++) {
        char name[80];

        assert_true(i == 0 || strcmp(policy_actions[i - 1].name, policy_actions[i].name) < 0);
        (void)snprintf(name, sizeof(name), "s3:%s", policy_actions[i].name);
        assert_int_equal(policy_action_find(slice_str(name)), i);
    }
    for (size_t i = 0; i < s3_op_count; i++) {
        if (s3_ops[i].handler == NULL) {
            continue;
        }
        if (policy_action_find(slice_str(s3_ops[i].action)) == POLICY_ACTION_COUNT) {
            print_error("%s: no such action: %s\n", s3_ops[i].name, s3_ops[i].action);
            fail();
        }
    }
}

/* Text from outside: nothing but an address may be taken for one. */
static void test_addresses(void **state)
{
    static const char *const good[] = {"1.2.3.4",
                                       "0.0.0.0/0",
                                       "::",
                                       "::1",
                                       "1::",
                                       "1:2:3:4:5:6:7:8",
                                       "::ffff:1.2.3.4",
                                       "2001:DB8::/32",
                                       "1:2:3:4:5:6:1.2.3.4"};
    static const char *const bad[] = {"",
                                      "1.2.3",
                                      "1.2.3.4.5",
                                      "1.2.3.256",
                                      "1.2.3.4/33",
                                      "1.2.3.4/",
                                      "1..2.3",
                                      ":",
                                      ":::",
                                      "1:2:3:4:5:6:7",
                                      "1:2:3:4:5:6:7:8:9",
                                      "1::2::3",
                                      "12345::",
                                      "g::",
                                      "1:2:3:4:5:6:7:",
                                      "::1/129",
                                      "1:2:3:4:5:6:7:1.2.3.4",
                                      "::1.2.3",
                                      "1:2:3:4:5:6:7::8"};
    struct policy_address address;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(policy_address_read(slice_str(good[i]), &address));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (policy_address_read(slice_str(bad[i]), &address)) {
            print_error("taken for an address: %s\n", bad[i]);
            fail();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluates), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_bounds),    cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_public),    cmocka_unit_test(test_users),
        cmocka_unit_test(test_identity),  cmocka_unit_test(test_tables),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
