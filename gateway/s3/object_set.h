/*
 * Tags, retention and legal hold of a version: the steps that the operations which change them in
 * place share. A handler's state is `struct object_set`:
 *
 *     check (its own: fills `record`, `what`, `change`) -> object_set_find -> object_set_found
 *     -> object_set_commit -> object_set_reply
 *
 * What is changed is the version that was looked up, so the reply names the right one; when that is
 * gone meanwhile, there is no such version.
 */
#ifndef GATEWAY_S3_OBJECT_SET_H
#define GATEWAY_S3_OBJECT_SET_H

#include "gateway/s3/object_lookup.h"

/* Bits of SetObject.what. */
enum object_set_what { SET_TAGS = 1, SET_RETENTION = 2, SET_LEGAL_HOLD = 4, SET_ACL = 8 };

struct object_set {
    struct s3_request base;
    struct slice version; /* from ?versionId= */
    struct object_lookup find;
    Kist__Record record; /* the new tags, lock, ACL */
    Kist__Lock lock;
    uint32_t what;
    Kist__ChangeKind change;
    bool bypass_governance;
    int status; /* of the reply */
    /* Private. */
    struct meta_write call;
    Kist__SetObject message;
};

static inline struct object_set *object_set_of(struct task *task)
{
    return CONTAINER_OF(task, struct object_set, base.task);
}

/* For the check: reads ?versionId=, makes `record` empty. */
enum step_result object_set_begin(struct object_set *op, uint32_t what, Kist__ChangeKind change,
                                  int status);
enum step_result object_set_find(struct task *task);
enum step_result object_set_found(struct task *task);
enum step_result object_set_commit(struct task *task);
enum step_result object_set_reply(struct task *task);
void object_set_release(struct task *task);

/* The handler with a check of its own. */
#define OBJECT_SET_HANDLER(its_flags, its_check)                                                   \
    {                                                                                              \
        .state_size = sizeof(struct object_set),                                                   \
        .flags = (its_flags) | CHECKS_OBJECT,                                                      \
        .steps =                                                                                   \
            {                                                                                      \
                    {"check", (its_check)},                                                        \
                    {"find", object_set_find},                                                     \
                    {"found", object_set_found},                                                   \
                    {"commit", object_set_commit},                                                 \
                    {"reply", object_set_reply},                                                   \
                    },                                                                             \
        .release = object_set_release,                                                             \
}

#endif
