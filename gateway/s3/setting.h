/*
 * Reading and writing one setting of a bucket (common/client/setting.def): the steps that all such
 * operations share. A handler's state begins with `struct setting_op`:
 *
 *     GET:         {"refresh", setting_refresh}, {"confirm", setting_confirm}, {"reply", its own}
 *     PUT, DELETE: {"check", its own}, {"write", setting_write}, {"reply", setting_reply}
 *
 * Reads answer from root: a refresh, and when the bucket has another generation than the one that
 * the request was judged by, it is judged again; so behind `confirm` req->bucket->settings is what
 * root held after the request arrived. Writes name the generation they were judged by: when who may
 * do what has changed since, the whole handler runs again (which is why the step is not called
 * "commit"), so what a check read of ACL, ownership and public access block still holds. Other
 * settings are no reason: many may be put at once.
 */
#ifndef GATEWAY_S3_SETTING_H
#define GATEWAY_S3_SETTING_H

#include "gateway/s3/op.h"
#include "gateway/xml/xml_reader.h"

enum setting {
    SETTING_NONE,
#define SETTING(number, name, field, message) SETTING_##name = (number),
#include "common/client/setting.def"
#undef SETTING
};

struct setting_op {
    struct s3_request base;
    enum setting setting; /* set by the check */
    Kist__Settings
        *value; /* from setting_begin(); with that field absent: the setting is deleted */
    /* Private. */
    struct meta_refresh refresh;
    struct meta_write call;
    Kist__PutSetting message;
};

static inline struct setting_op *setting_op_of(struct task *task)
{
    return CONTAINER_OF(task, struct setting_op, base.task);
}

/* ---- Steps ---- */

enum step_result setting_refresh(struct task *task);
enum step_result setting_confirm(struct task *task);
enum step_result setting_write(struct task *task);
/* 200, or 204 after DELETE. */
enum step_result setting_reply(struct task *task);

/* ---- For the check of a write ---- */

/* Empty settings to put the one into; what it points to lives in req->arena. */
Kist__Settings *setting_begin(struct setting_op *op, enum setting setting);
/* The document with that root element, or NULL after MalformedXML (MissingRequestBodyError when
 * there is none). */
const struct xml_node *setting_document(struct s3_request *req, const char *root);
/* Are the children of `node` all among `names` (ends with NULL), each at most once? */
bool setting_children_known(const struct xml_node *node, const char *const *names);
/* "true" or "false" in any case; absent: false. */
bool setting_bool(const struct xml_node *node, const char *name, bool *value);

/* ---- For replies of reads ---- */

/* The bucket's settings, never NULL: empty ones when none was ever set. */
const Kist__Settings *s3_settings(const Kist__Bucket *bucket);

#endif
