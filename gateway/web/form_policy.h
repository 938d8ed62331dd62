/*
 * The policy of a form (AWS: "POST policy"): base64 of JSON that says until when, and with which
 * fields, the form is good. Pure; reads JSON with jansson.
 */
#ifndef GATEWAY_WEB_FORM_POLICY_H
#define GATEWAY_WEB_FORM_POLICY_H

#include "gateway/s3/error.h"
#include "gateway/web/form_parser.h"

struct form_limits {
    uint64_t length_min; /* of the file */
    uint64_t length_max;
};

struct form_policy_input {
    const struct form_parser *form;
    struct slice policy; /* the field */
    struct slice bucket;
    struct slice key; /* ${filename} replaced */
    uint64_t now_ns;
    struct arena *arena;
};

/* S3_OK, or why not, with AWS's words. `limits`: narrowed by content-length-range. */
enum s3_error form_policy_check(const struct form_policy_input *input, struct form_limits *limits,
                                struct slice *text);

#endif
