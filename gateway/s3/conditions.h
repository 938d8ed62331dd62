/*
 * Conditional requests. Reads are decided here, in the order of RFC 9110 13.2.2; writes are handed
 * to metad, which decides them while it applies the command.
 */
#ifndef GATEWAY_S3_CONDITIONS_H
#define GATEWAY_S3_CONDITIONS_H

#include "gateway/s3/op.h"

enum condition_result { CONDITION_TRUE = 0, CONDITION_NOT_MODIFIED, CONDITION_FAILED };

/* What is compared with. */
struct condition_target {
    struct slice etag; /* text form, without quotes */
    uint64_t modified_s;
};

struct read_conditions {
    struct slice if_match; /* data NULL: absent */
    struct slice if_none_match;
    struct slice if_modified_since;
    struct slice if_unmodified_since;
};

enum condition_result read_conditions_check(const struct read_conditions *conditions,
                                            const struct condition_target *target, uint64_t now_s);
/* If-Range (RFC 9110 13.1.5): does the Range header count? */
bool condition_if_range(struct slice if_range, const struct condition_target *target,
                        uint64_t now_s);
/* Does the list of an If-Match or If-None-Match name `etag`? Quotes are optional. */
bool condition_etag_listed(struct slice list, struct slice etag, bool weak);

/* Fills `out` from If-Match, If-None-Match, x-amz-if-match-version-id and, for deletes,
 * x-amz-if-match-size and -last-modified-time. STEP_FAIL: a form that is not implemented, as at
 * AWS. `any`: whether one was given. */
enum step_result s3_write_conditions(struct s3_request *req, Kist__Conditions *out, bool *any);
enum step_result s3_delete_conditions(struct s3_request *req, Kist__Conditions *out, bool *any);
/* Of RenameObject: If-* for the destination, x-amz-rename-source-if-* for the source. */
enum step_result s3_rename_conditions(struct s3_request *req, bool of_source, Kist__Conditions *out,
                                      bool *any);
/* x-amz-copy-source-if-*. */
enum step_result s3_source_conditions(struct s3_request *req, Kist__Conditions *out, bool *any);

#endif
