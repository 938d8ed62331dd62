/* Policies from outside: refused with a text, or compiled into something that evaluates, within
 * bounds of memory. */
#include "tests/fuzz/fuzz.h"

#include "gateway/access/policy.h"

enum { FUZZ_MEMORY_FACTOR = 512, FUZZ_VALUES = 3 };

static bool fuzz_value(const struct policy_request *request, enum policy_key_id key,
                       struct slice name, struct policy_values *out)
{
    static const struct slice values[FUZZ_VALUES] = {
        {.data = "10.1.2.3",   .len = 8 },
        {.data = "ann",        .len = 3 },
        {.data = "2026-01-01", .len = 10}
    };

    (void)request;
    (void)name;
    out->items = values;
    out->count = (size_t)key % (FUZZ_VALUES + 1);
    return out->count > 0;
}

static void fuzz_evaluate(const struct policy *policy)
{
    struct arena arena;

    arena_init(&arena);
    for (unsigned action = 0; action < POLICY_ACTION_COUNT; action++) {
        struct policy_request request = {
            .action = (enum policy_action)action,
            .resource = action % 2 == 0 ? SLICE("bucket/a/b") : SLICE("bucket"),
            .user = action % 3 == 0 ? SLICE_EMPTY : SLICE("ann"),
            .object_known = action % 5 != 0,
            .arena = &arena,
            .value = fuzz_value,
        };
        struct policy_verdict verdict = policy_evaluate(policy, &request);

        ASSERT((verdict.answers & POLICY_DENIES) == 0 || verdict.statement > 0);
    }
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy_options options = {.kind = POLICY_OF_BUCKET, .bucket = SLICE("bucket")};
    struct policy *policy = NULL;
    struct error error = {.rc = RC_OK};

    if (policy_new(&policy, slice_of(data, size), &options, &error) == RC_OK) {
        ASSERT(policy_bytes(policy) <= size * FUZZ_MEMORY_FACTOR + 65536);
        for (size_t i = 0; i < policy_user_count(policy); i++) {
            ASSERT(policy_user_at(policy, i).len > 0);
        }
        fuzz_evaluate(policy);
        policy_free(policy);
    } else {
        ASSERT(error.rc == RC_INVALID || error.rc == RC_UNSUPPORTED);
        ASSERT(error.text[0] != '\0');
    }
    return 0;
}
