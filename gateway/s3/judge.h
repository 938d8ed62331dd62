/*
 * Access of requests: what a request asks for (its row's action, and more when headers ask for
 * more) goes through access_decide(), with the values that its headers, parameters and document
 * give to the condition keys of policies. s3_allowed(), s3_allowed_key(), s3_check_object() and
 * s3_check_key() (op.h) are defined here as well.
 */
#ifndef GATEWAY_S3_JUDGE_H
#define GATEWAY_S3_JUDGE_H

#include "gateway/access/access.h"
#include "gateway/s3/op.h"

enum { JUDGE_ACTIONS_MAX = 6 };

/* One question. Begins with what access_decide() takes. */
struct judge {
    struct access_request access;
    const struct s3_request *req;
    struct slice key; /* of the object; data NULL: the bucket */
    bool absent_key;  /* ListBucket is asked because `key` is absent: it stands for the prefix */
};

/* S3_OK, or AccessDenied with the reason logged. May leave the answer to s3_check_object(). */
enum s3_error judge_request(struct s3_request *req);

/* judge_values.c: what a condition key holds (policy_request.value). */
bool judge_value(const struct policy_request *policy, enum policy_key_id key, struct slice name,
                 struct policy_values *out);

#endif
