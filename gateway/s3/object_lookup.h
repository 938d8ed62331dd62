/*
 * The version of an object that a request speaks of: ?versionId= is read, the record is looked up
 * once, what is not there is answered as AWS does (404, 405 with the headers of a delete marker).
 *
 *     s3_version_param() -> object_lookup_start() -> object_lookup_found() ...
 * object_lookup_release()
 *
 * For an object of a bucket that was never versioned nothing is allocated or looked up beside the
 * one row.
 */
#ifndef GATEWAY_S3_OBJECT_LOOKUP_H
#define GATEWAY_S3_OBJECT_LOOKUP_H

#include "common/client/version_id.h"
#include "gateway/s3/op.h"

/* A version id of a request as meta calls and commands take it. What has the form of another
 * store's ids is one that no object here has, so that people who moved get NoSuchVersion. False: no
 * id. */
bool s3_version_parse(struct arena *arena, struct slice text, struct slice *version);

/* Zeroed, part of the operation's struct. */
struct object_lookup {
    struct meta_get get; /* `record` after object_lookup_found() */
    /* Private. */
    bool got;
};

/* ?versionId= as meta calls and commands take it; empty when not given. STEP_FAIL: InvalidArgument.
 */
enum step_result s3_version_param(struct s3_request *req, struct slice *version);
/* The same where clients send it empty for the newest version (deletes, tags, locks). */
enum step_result s3_version_param_lenient(struct s3_request *req, struct slice *version);
/* The same for a text from elsewhere; `name` is the argument in the error document. */
enum step_result s3_version_read(struct s3_request *req, const char *name, struct slice text,
                                 struct slice *version);

/* A step: asks for the request's own key. `version` as above. */
enum step_result object_lookup_start(struct s3_request *req, struct object_lookup *lookup,
                                     struct slice version, bool want_body);
/* The step after it: the record is there and the caller may have it, or STEP_FAIL. */
enum step_result object_lookup_found(struct s3_request *req, struct object_lookup *lookup);
/* In the handler's release; harmless when zeroed or called twice. */
void object_lookup_release(struct s3_request *req, struct object_lookup *lookup);

/* An operation that reads one version and answers from its record: the steps before `reply`, which
 * begins with object_lookup_found(). */
struct object_read {
    struct s3_request base;
    struct object_lookup find;
    struct slice version;
};

static inline struct object_read *object_read_of(struct task *task)
{
    return CONTAINER_OF(task, struct object_read, base.task);
}

enum step_result object_read_check(struct task *task);
enum step_result object_read_start(struct task *task);
void object_read_release(struct task *task);

#define OBJECT_READ_HANDLER(its_flags, its_check, its_reply)                                       \
    {                                                                                              \
        .state_size = sizeof(struct object_read),                                                  \
        .flags = (its_flags) | CHECKS_OBJECT,                                                      \
        .steps =                                                                                   \
            {                                                                                      \
                    {"check", (its_check)},                                                        \
                    {"read", object_read_start},                                                   \
                    {"reply", (its_reply)},                                                        \
                    },                                                                             \
        .release = object_read_release,                                                            \
}

/* How a command must name this version: empty in a bucket that was never versioned, where it is the
 * only one. */
struct slice s3_version_of(struct arena *arena, const Kist__Bucket *bucket,
                           const Kist__Record *record);

/* Was versioning of this bucket ever on? */
bool s3_ever_versioned(const Kist__Bucket *bucket);
/* x-amz-version-id, where clients see versions. */
void s3_reply_version(struct s3_request *req, const Kist__Record *record);
/* The same in the reply of what made the version: AWS does not name the null version there. */
void s3_reply_new_version(struct s3_request *req, const Kist__Record *record);

#endif
