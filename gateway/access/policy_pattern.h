/*
 * Texts of a policy with wildcards ("*": any run of bytes, "?": one character of UTF-8) and
 * variables ("${aws:username}", "${aws:username, 'nobody'}", "${*}" for a plain star). What a
 * variable stands for is never a wildcard. Compiled once, matched without recursion.
 */
#ifndef GATEWAY_ACCESS_POLICY_PATTERN_H
#define GATEWAY_ACCESS_POLICY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "gateway/access/policy_action.h"

struct policy_request;

struct policy_variable {
    enum policy_key_id key;
    struct slice name;      /* of keys that end in "/" */
    struct slice otherwise; /* data NULL: none given */
};

struct policy_pattern {
    struct slice text;      /* as written; also what it matches when it is plain */
    const uint16_t *tokens; /* NULL when plain */
    uint32_t token_count;
    const struct policy_variable *variables;
    uint32_t variable_count;
    bool plain;    /* no wildcard, no variable */
    bool wildcard; /* has "*" or "?" */
};

enum policy_pattern_flags {
    POLICY_PATTERN_WILDCARDS = 1, /* "*" and "?" mean something */
    POLICY_PATTERN_VARIABLES = 2  /* Version 2012-10-17 */
};

/* `text` is copied into the arena. False: a variable is not well-formed or its key is unknown. */
bool policy_pattern_compile(struct arena *arena, struct slice text, unsigned flags,
                            struct policy_pattern *out);
/* A variable that has no value and no default matches nothing. `fold`: ASCII case is ignored. */
bool policy_pattern_match(const struct policy_pattern *pattern, struct slice text, bool fold,
                          const struct policy_request *request);
/* Does it need the object's own tags? */
bool policy_pattern_needs_object(const struct policy_pattern *pattern);

#endif
