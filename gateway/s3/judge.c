#include "gateway/s3/judge.h"

#include "common/log/log.h"

/* The user made at first start: may do everything that no policy denies. */
static const char root_user[] = "root";

enum { PAYER_REQUESTER = 2 };

/* ---- One question ---- */

static bool judge_is_root(const struct s3_request *req)
{
    return !req->auth.anonymous && slice_eq_str(req->auth.user, root_user);
}

static struct slice judge_resource(const struct judge *judge, struct slice bucket)
{
    size_t len = bucket.len + (judge->key.data != NULL ? 1 + judge->key.len : 0);
    char *text = arena_alloc_raw(judge->req->arena, len + 1);

    memcpy(text, bucket.data, bucket.len);
    if (judge->key.data != NULL) {
        text[bucket.len] = '/';
        if (judge->key.len > 0) {
            memcpy(text + bucket.len + 1, judge->key.data, judge->key.len);
        }
    }
    return slice_of(text, len);
}

static void judge_init(struct judge *judge, const struct s3_request *req, const char *action,
                       const Kist__Bucket *bucket, struct slice key)
{
    struct policy_request *policy = &judge->access.policy;

    *judge = (struct judge){.req = req};
    policy->action = policy_action_find(slice_str(action));
    ASSERT(policy->action < POLICY_ACTION_COUNT);
    judge->key = policy_actions[policy->action].on == POLICY_ON_OBJECT ? key : SLICE_EMPTY;
    policy->user = req->auth.anonymous ? SLICE_EMPTY : req->auth.user;
    policy->is_root = judge_is_root(req);
    policy->arena = req->arena;
    policy->value = judge_value;
    judge->access.bucket = bucket;
    judge->access.cache = req->gateway->policies;
    /* Tags and ACL of the request's own object may be known by now. */
    if (req->object_known && bucket == req->bucket && slice_eq(key, req->key)) {
        policy->object_known = true;
        judge->access.record = req->object;
    }
}

static struct access_decision judge_decide(struct judge *judge)
{
    const Kist__Bucket *bucket = judge->access.bucket;
    struct access_decision decision;

    if (bucket->settings != NULL && bucket->settings->policy != NULL) {
        judge->access.policy.resource = judge_resource(judge, s3_slice(bucket->name));
    }
    decision = access_decide(&judge->access);
    if (decision.answer == ACCESS_NO) {
        LOG_DEBUG("access_denied", "id=%s action=%s reason=%s statement=%u", judge->req->request_id,
                  policy_actions[judge->access.policy.action].name,
                  access_reason_text(decision.reason), decision.statement);
    }
    return decision;
}

bool s3_allowed(const struct s3_request *req, const char *action, const Kist__Bucket *bucket)
{
    struct judge judge;

    if (bucket == NULL) {
        return !req->auth.anonymous;
    }
    judge_init(&judge, req, action, bucket, req->key);
    if (policy_actions[judge.access.policy.action].on == POLICY_ON_SERVICE) {
        return judge.access.policy.is_root || access_is_owner(bucket, judge.access.policy.user);
    }
    return judge_decide(&judge).answer == ACCESS_YES;
}

bool s3_allowed_key(const struct s3_request *req, const char *action, const Kist__Bucket *bucket,
                    struct slice key)
{
    struct judge judge;

    judge_init(&judge, req, action, bucket, key);
    return judge_decide(&judge).answer == ACCESS_YES;
}

bool s3_may_allow_key(const struct s3_request *req, const char *action, const Kist__Bucket *bucket,
                      struct slice key)
{
    struct judge judge;

    judge_init(&judge, req, action, bucket, key);
    return judge_decide(&judge).answer != ACCESS_NO;
}

/* ---- What a request asks for ---- */

struct judge_actions {
    const char *names[JUDGE_ACTIONS_MAX];
    size_t count;
    bool creates;
};

static void judge_add(struct judge_actions *actions, const char *name)
{
    ASSERT(actions->count < JUDGE_ACTIONS_MAX);
    actions->names[actions->count++] = name;
}

/* Actions on a version that is named have names of their own. */
static const char *judge_versioned(const struct s3_request *req, const char *action)
{
    static const char *const names[][2] = {
        {"s3:DeleteObject",        "s3:DeleteObjectVersion"       },
        {"s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging"},
        {"s3:GetObject",           "s3:GetObjectVersion"          },
        {"s3:GetObjectAcl",        "s3:GetObjectVersionAcl"       },
        {"s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"},
        {"s3:GetObjectTagging",    "s3:GetObjectVersionTagging"   },
        {"s3:GetObjectTorrent",    "s3:GetObjectVersionTorrent"   },
        {"s3:PutObjectAcl",        "s3:PutObjectVersionAcl"       },
        {"s3:PutObjectTagging",    "s3:PutObjectVersionTagging"   },
    };

    if (req->param_count == 0 || req->op->target != ON_OBJECT || !s3_has_param(req, "versionId")) {
        return action;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(action, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return action;
}

/* Grants to the bucket's owner alone need no permission of their own (AWS: "Granting s3:PutObject
 * permission with a condition requiring the bucket owner to get full control"). */
static bool judge_grants_others(const struct s3_request *req)
{
    static const char *const grants[] = {"x-amz-grant-read", "x-amz-grant-write",
                                         "x-amz-grant-read-acp", "x-amz-grant-write-acp",
                                         "x-amz-grant-full-control"};
    struct slice acl = s3_header(req, "x-amz-acl");
    struct slice owner = s3_slice(req->bucket->owner);

    if (acl.len > 0 && !slice_eq(acl, SLICE("private")) &&
        !slice_eq(acl, SLICE("bucket-owner-read")) &&
        !slice_eq(acl, SLICE("bucket-owner-full-control"))) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(grants); i++) {
        struct slice grant = s3_header(req, grants[i]);

        if (grant.len == 0) {
            continue;
        }
        if (!slice_starts(grant, SLICE("id="))) {
            return true;
        }
        grant = slice_after(grant, sizeof("id=") - 1);
        if (grant.len >= 2 && grant.data[0] == '"' && grant.data[grant.len - 1] == '"') {
            grant = slice_of(grant.data + 1, grant.len - 2);
        }
        if (!slice_eq(grant, owner)) {
            return true;
        }
    }
    return false;
}

static void judge_find_actions(const struct s3_request *req, struct judge_actions *out)
{
    const char *action = req->op->action;

    judge_add(out, judge_versioned(req, action));
    if (strcmp(action, "s3:GetObjectAttributes") == 0) {
        judge_add(out, judge_versioned(req, "s3:GetObject"));
    }
    if (strcmp(action, "s3:PutObject") != 0 || s3_has_param(req, "uploadId")) {
        return;
    }
    out->creates = true;
    if (judge_grants_others(req)) {
        judge_add(out, "s3:PutObjectAcl");
    }
    if (s3_header(req, "x-amz-tagging").len > 0) {
        judge_add(out, "s3:PutObjectTagging");
    }
    if (s3_header(req, "x-amz-object-lock-mode").len > 0 ||
        s3_header(req, "x-amz-object-lock-retain-until-date").len > 0) {
        judge_add(out, "s3:PutObjectRetention");
    }
    if (s3_header(req, "x-amz-object-lock-legal-hold").len > 0) {
        judge_add(out, "s3:PutObjectLegalHold");
    }
}

/* Asks for all actions of the request; the answer is the weakest one. `no`: the question that was
 * answered so. */
static enum access_answer judge_all(const struct s3_request *req, struct judge *no,
                                    enum access_reason *reason)
{
    struct judge_actions actions = {0};
    enum access_answer answer = ACCESS_YES;

    judge_find_actions(req, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        struct access_decision decision;
        struct judge judge;

        judge_init(&judge, req, actions.names[i], req->bucket, req->key);
        judge.access.creates = actions.creates;
        judge.access.policy.object_known |= actions.creates; /* the new one has nothing yet */
        decision = judge_decide(&judge);
        if (decision.answer == ACCESS_NO) {
            *no = judge;
            *reason = decision.reason;
            return ACCESS_NO;
        }
        answer = decision.answer == ACCESS_OBJECT_DECIDES ? ACCESS_OBJECT_DECIDES : answer;
    }
    return answer;
}

/* A bucket whose requesters pay: they must say that they know. */
static bool judge_payer(struct s3_request *req)
{
    const Kist__Settings *settings = req->bucket->settings;
    struct slice payer = s3_header(req, "x-amz-request-payer");

    if (settings == NULL || settings->request_payment == NULL ||
        settings->request_payment->payer != PAYER_REQUESTER || judge_is_root(req) ||
        access_is_owner(req->bucket, req->auth.user)) {
        return true;
    }
    if (payer.len == 0) {
        payer = s3_param(req, "x-amz-request-payer");
    }
    if (req->auth.anonymous || !slice_eq_nocase(payer, SLICE("requester"))) {
        return false;
    }
    s3_reply_header(req, "x-amz-request-charged", SLICE("requester"));
    return true;
}

static enum s3_error judge_no(struct s3_request *req)
{
    (void)s3_fail(req, S3_AccessDenied, NULL);
    return S3_AccessDenied;
}

/* As AWS words it: who is denied by a policy is told so, who is not allowed learns nothing. */
static enum s3_error judge_say_no(struct s3_request *req, const struct judge *no,
                                  enum access_reason reason)
{
    const struct policy_request *policy = &no->access.policy;
    struct policy_values who = {0};

    if (reason != ACCESS_BY_DENY ||
        !judge_value(policy, POLICY_KEY_PRINCIPAL_ARN, SLICE_EMPTY, &who)) {
        return judge_no(req);
    }
    (void)s3_fail(req, S3_AccessDenied, NULL);
    req->error_text = arena_printf(
        req->arena,
        "User: %.*s is not authorized to perform: s3:%s on resource: \"arn:aws:s3:::%.*s\" with an "
        "explicit deny in a resource-based policy",
        (int)who.items[0].len, who.items[0].data, policy_actions[policy->action].name,
        (int)policy->resource.len, policy->resource.data);
    return S3_AccessDenied;
}

enum s3_error judge_request(struct s3_request *req)
{
    struct slice expected = s3_header(req, "x-amz-expected-bucket-owner");
    enum access_reason reason = ACCESS_BY_NOBODY;
    struct judge no;
    enum access_answer answer;

    req->object_decides = false; /* what is known of the object stays: commits are judged again */
    if (req->bucket == NULL) {
        return req->auth.anonymous ? judge_no(req) : S3_OK;
    }
    if (expected.data != NULL && !slice_eq(expected, s3_slice(req->bucket->owner))) {
        return judge_no(req);
    }
    if ((req->op->handler->flags & CHECKS_KEYS) != 0) {
        return judge_payer(req) ? S3_OK : judge_no(req);
    }
    answer = judge_all(req, &no, &reason);
    if (answer == ACCESS_NO) {
        return judge_say_no(req, &no, reason);
    }
    if ((answer == ACCESS_OBJECT_DECIDES && (req->op->handler->flags & CHECKS_OBJECT) == 0) ||
        !judge_payer(req)) {
        return judge_no(req);
    }
    req->object_decides = answer == ACCESS_OBJECT_DECIDES;
    return S3_OK;
}

/* ---- Objects ---- */

/* Whether a key is absent is told only to those who may list it. */
static enum step_result judge_absent(struct s3_request *req, const Kist__Bucket *bucket,
                                     struct slice key)
{
    struct judge judge;

    judge_init(&judge, req, "s3:ListBucket", bucket, key);
    judge.key = key;
    judge.absent_key = true;
    judge.access.policy.resource = SLICE_EMPTY;
    if (bucket->settings != NULL && bucket->settings->policy != NULL) {
        judge.access.policy.resource = s3_slice(bucket->name);
    }
    return access_decide(&judge.access).answer == ACCESS_YES ? STEP_NEXT
                                                             : s3_fail(req, S3_AccessDenied, NULL);
}

enum step_result s3_check_object(struct s3_request *req, const Kist__Record *record)
{
    bool decides = req->object_decides;
    enum access_reason reason = ACCESS_BY_NOBODY;
    struct judge no;

    req->object_decides = false;
    req->object_known = true;
    req->object = record;
    if (record == NULL) {
        return judge_absent(req, req->bucket, req->key);
    }
    if (!decides || judge_all(req, &no, &reason) == ACCESS_YES) {
        return STEP_NEXT;
    }
    (void)judge_say_no(req, &no, reason);
    return STEP_FAIL;
}

enum step_result s3_check_key(struct s3_request *req, const char *action,
                              const Kist__Bucket *bucket, struct slice key,
                              const Kist__Record *record)
{
    struct judge judge;

    if (record == NULL) {
        return judge_absent(req, bucket, key);
    }
    judge_init(&judge, req, action, bucket, key);
    judge.access.policy.object_known = true;
    judge.access.record = record;
    return judge_decide(&judge).answer == ACCESS_YES ? STEP_NEXT
                                                     : s3_fail(req, S3_AccessDenied, NULL);
}
