/*
 * Policies in AWS's language (AWS: "Policies and permissions in IAM", "Bucket policies"): a JSON
 * document is checked and compiled once into an immutable form, and then evaluated in microseconds.
 *
 *     policy_new() -> policy_evaluate() ... -> policy_free()
 *
 * Knows nothing of HTTP, users or ACLs: the request says through `value` what stands in a condition
 * key. A policy may be shared by threads; evaluating takes memory only from the request's arena.
 */
#ifndef GATEWAY_ACCESS_POLICY_H
#define GATEWAY_ACCESS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "gateway/access/policy_action.h"

enum {
    POLICY_BYTES_MAX = 20 * 1024, /* AWS: size of a bucket policy */
    POLICY_STATEMENTS_MAX = 256
};

struct policy;

enum policy_kind {
    POLICY_OF_BUCKET,  /* names principals; its resources lie in one bucket */
    POLICY_OF_IDENTITY /* belongs to a user, a group, a role, a session */
};

struct policy_options {
    enum policy_kind kind;
    struct slice bucket; /* POLICY_OF_BUCKET: its name */
};

/* RC_INVALID: error->text is what MalformedPolicy says. RC_UNSUPPORTED: it uses a condition key
 * that is not enforced here, which the text names. */
enum rc policy_new(struct policy **out, struct slice json, const struct policy_options *options,
                   struct error *error);
void policy_free(struct policy *policy);
size_t policy_bytes(const struct policy *policy); /* memory it holds, about */
/* Users that it names as principals: 0 .. count - 1, so that the caller can check that they exist.
 */
size_t policy_user_count(const struct policy *policy);
struct slice policy_user_at(const struct policy *policy, size_t index);
/* AWS: "The meaning of public": a statement allows everybody, and no condition narrows that to
 * fixed values. */
bool policy_is_public(const struct policy *policy);

/* ---- Evaluation ---- */

struct policy_values {
    const struct slice *items;
    size_t count;
};

struct policy_request {
    enum policy_action action;
    struct slice resource; /* "bucket" or "bucket/key" */
    struct slice user;     /* empty: anonymous */
    bool is_root;
    bool object_known; /* the object's tags can be asked for (it may also be absent) */
    struct arena *arena;
    /* What a condition key holds; false: it is not in the request. `name` as in policy_key_find().
     * Values live as long as the request. */
    bool (*value)(const struct policy_request *request, enum policy_key_id key, struct slice name,
                  struct policy_values *out);
};

/* What the statements that match say. "May": it depends on the object, which is not known yet. */
enum policy_answer {
    POLICY_ALLOWS = 1,
    POLICY_DENIES = 2,
    POLICY_MAY_ALLOW = 4,
    POLICY_MAY_DENY = 8
};

struct policy_verdict {
    unsigned answers;   /* bits of policy_answer */
    uint32_t statement; /* that decided, counted from 1; 0: none */
};

struct policy_verdict policy_evaluate(const struct policy *policy,
                                      const struct policy_request *request);

#endif
