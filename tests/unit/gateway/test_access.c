/* The one decision: owner, root, policy, ACLs, public access block, ownership. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/access/access.h"
#include "gateway/access/acl.h"

/* ---- The world: bucket b of user "own" ---- */

#define ALLOW_GET(who)                                                                             \
    "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":" who ",\"Action\":\"s3:GetObject\","     \
    "\"Resource\":\"arn:aws:s3:::b/*\"}]}"
#define DENY_ALL                                                                                   \
    "{\"Statement\":[{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:*\","                \
    "\"Resource\":[\"arn:aws:s3:::b\",\"arn:aws:s3:::b/*\"]}]}"
#define ALLOW_TAGGED                                                                               \
    "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\",\"Action\":\"s3:GetObject\","       \
    "\"Resource\":\"arn:aws:s3:::b/*\",\"Condition\":{\"StringEquals\":"                           \
    "{\"s3:ExistingObjectTag/a\":\"1\"}}}]}"
#define DENY_TAGGED                                                                                \
    "{\"Statement\":[{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"s3:GetObject\","        \
    "\"Resource\":\"arn:aws:s3:::b/*\",\"Condition\":{\"StringEquals\":"                           \
    "{\"s3:ExistingObjectTag/a\":\"1\"}}}]}"
#define EVERYBODY "\"*\""
#define ANN       "{\"AWS\":\"ann\"}"
#define BROKEN    "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\"}]}"

enum block { NO_BLOCK = 0, IGNORE_ACLS = 1, RESTRICT = 2 };
enum state { UNKNOWN, ABSENT, OWN, FOREIGN, PUBLIC };

struct access_case {
    const char *policy; /* NULL: none */
    unsigned ownership;
    const char *acl; /* canned, of the bucket; NULL: none */
    unsigned block;
    const char *user; /* "": anonymous */
    const char *action;
    enum state object;
    bool creates;
    enum access_answer answer;
    enum access_reason reason;
};

#define E OWNERSHIP_ENFORCED
#define W OWNERSHIP_WRITER

static const struct access_case cases[] = {
#define CASE(policy, ownership, acl, block, user, action, object, creates, answer, reason)         \
    {(policy), (ownership), (acl),     (block),         (user),                                    \
     (action), (object),    (creates), ACCESS_##answer, ACCESS_BY_##reason},
#include "tests/unit/gateway/access_cases.def"
#undef CASE
};

static ProtobufCBinaryData bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

struct world {
    struct arena arena;
    struct policy_cache *cache;
    Kist__Bucket bucket;
    Kist__Settings settings;
    Kist__Policy policy;
    Kist__Ownership ownership;
    Kist__PublicAccessBlock block;
    Kist__Record record;
    Kist__Header tag;
    Kist__Header *tags[1];
    struct access_request request;
};

static bool world_value(const struct policy_request *policy, enum policy_key_id key,
                        struct slice name, struct policy_values *out)
{
    const struct access_request *request =
        CONTAINER_OF((struct policy_request *)(uintptr_t)policy, struct access_request, policy);
    static const struct slice one = {.data = "1", .len = 1};

    if (key != POLICY_KEY_EXISTING_TAG || request->record == NULL || request->record->n_tags == 0 ||
        !slice_eq_str(name, "a")) {
        return false;
    }
    *out = (struct policy_values){.items = &one, .count = 1};
    return true;
}

static void world_object(struct world *w, enum state state)
{
    w->request.policy.object_known = state != UNKNOWN;
    if (state == UNKNOWN || state == ABSENT) {
        return;
    }
    kist__record__init(&w->record);
    w->record.owner = bytes(state == FOREIGN ? "ann" : "own");
    if (state == PUBLIC) { /* readable for all, and tagged */
        w->record.acl = acl_canned(&w->arena, SLICE("public-read"), SLICE("own"), SLICE("own"));
        kist__header__init(&w->tag);
        w->tag.name = bytes("a");
        w->tag.value = bytes("1");
        w->tags[0] = &w->tag;
        w->record.tags = w->tags;
        w->record.n_tags = 1;
    }
    w->request.record = &w->record;
}

static void world_make(struct world *w, const struct access_case *one, uint64_t id)
{
    *w = (struct world){.cache = w->cache};
    arena_init(&w->arena);
    kist__bucket__init(&w->bucket);
    kist__settings__init(&w->settings);
    w->bucket.name = bytes("b");
    w->bucket.owner = bytes("own");
    w->bucket.id = id;
    w->bucket.generation = 1;
    w->bucket.settings = &w->settings;
    kist__ownership__init(&w->ownership);
    w->ownership.rule = one->ownership;
    w->settings.ownership = &w->ownership;
    if (one->acl != NULL) {
        w->settings.acl = acl_canned(&w->arena, slice_str(one->acl), SLICE("own"), SLICE("own"));
    }
    if (one->policy != NULL) {
        kist__policy__init(&w->policy);
        w->policy.json = bytes(one->policy);
        w->settings.policy = &w->policy;
    }
    kist__public_access_block__init(&w->block);
    w->block.ignore_public_acls = (one->block & IGNORE_ACLS) != 0;
    w->block.restrict_public_buckets = (one->block & RESTRICT) != 0;
    w->settings.public_access_block = one->block != NO_BLOCK ? &w->block : NULL;
    w->request.bucket = &w->bucket;
    w->request.cache = w->cache;
    w->request.creates = one->creates;
    w->request.policy.action = policy_action_find(slice_str(one->action));
    w->request.policy.user = slice_str(one->user);
    w->request.policy.is_root = strcmp(one->user, "root") == 0;
    w->request.policy.arena = &w->arena;
    w->request.policy.value = world_value;
    w->request.policy.resource =
        policy_actions[w->request.policy.action].on == POLICY_ON_OBJECT ? SLICE("b/k") : SLICE("b");
    world_object(w, one->object);
}

/* A wrong row here is a leak, or a lock-out. */
static void test_decides(void **state)
{
    struct world w = {.cache = policy_cache_new()};
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct access_decision got;

        world_make(&w, &cases[i], i + 1);
        got = access_decide(&w.request);
        if (got.answer != cases[i].answer || got.reason != cases[i].reason) {
            print_error("case %zu (%s by \"%s\"): got %d because of %s, want %d because of %s\n",
                        i + 1, cases[i].action, cases[i].user, (int)got.answer,
                        access_reason_text(got.reason), (int)cases[i].answer,
                        access_reason_text(cases[i].reason));
            wrong += 1;
        }
        arena_deinit(&w.arena);
    }
    policy_cache_free(w.cache);
    assert_int_equal(wrong, 0);
}

/* A policy that was changed must not be answered by the old one, nor by another bucket's. */
static void test_cache(void **state)
{
    static const struct access_case one = {.policy = ALLOW_GET(EVERYBODY),
                                           .ownership = OWNERSHIP_ENFORCED,
                                           .user = "",
                                           .action = "s3:GetObject"};
    struct world w = {.cache = policy_cache_new()};

    (void)state;
    world_make(&w, &one, 7);
    assert_int_equal(access_decide(&w.request).answer, ACCESS_YES);
    w.policy.json = bytes(ALLOW_GET(ANN)); /* the same generation: the compiled one answers */
    assert_int_equal(access_decide(&w.request).answer, ACCESS_YES);
    w.bucket.generation = 2;
    assert_int_equal(access_decide(&w.request).answer, ACCESS_NO);
    w.bucket.id = 7 + 256; /* the same slot */
    w.policy.json = bytes(ALLOW_GET(EVERYBODY));
    assert_int_equal(access_decide(&w.request).answer, ACCESS_YES);
    w.bucket.id = 7;
    w.policy.json = bytes(ALLOW_GET(ANN));
    assert_int_equal(access_decide(&w.request).answer, ACCESS_NO);
    arena_deinit(&w.arena);
    policy_cache_free(w.cache);
}

/* Ten thousand buckets with long policies must not take the memory of the process. */
static void test_cache_bounded(void **state)
{
    enum { BUCKETS = 1000, COPIES = 100 };
    struct policy_cache *cache = policy_cache_new();
    struct arena arena;
    struct slice text = SLICE("{\"Statement\":[");

    (void)state;
    arena_init(&arena);
    for (int i = 0; i < COPIES; i++) {
        text =
            arena_printf(&arena,
                         "%.*s%s{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":\"ann\"},\"Action\":"
                         "\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::b/*/%d/*/x\"}",
                         (int)text.len, text.data, i == 0 ? "" : ",", i);
    }
    text = arena_printf(&arena, "%.*s]}", (int)text.len, text.data);
    for (uint64_t i = 1; i <= BUCKETS; i++) {
        Kist__Bucket bucket = KIST__BUCKET__INIT;
        Kist__Settings settings = KIST__SETTINGS__INIT;
        Kist__Policy policy = KIST__POLICY__INIT;

        policy.json = bytes(text.data);
        settings.policy = &policy;
        bucket.settings = &settings;
        bucket.name = bytes("b");
        bucket.id = i;
        bucket.generation = 1;
        assert_non_null(policy_cache_get(cache, &bucket));
    }
    assert_true(policy_cache_bytes(cache) <= 9 * 1024 * 1024);
    policy_cache_free(cache);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decides),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
