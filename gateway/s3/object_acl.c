/*
 * GetObjectAcl, PutObjectAcl, of any version.
 *
 *     Get:  check -> read -> reply
 *     Put:  check -> find -> found -> judge -> write -> reply (object_set.h)
 *
 * The list is judged by the bucket's settings, so a change of them runs the whole handler again.
 */
#include "gateway/access/acl.h"
#include "gateway/s3/acl_document.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/object_set.h"

/* ---- Get ---- */

struct get_object_acl {
    struct s3_request base;
    struct object_lookup find;
    struct slice version;
};

static struct get_object_acl *get_acl_of(struct task *task)
{
    return CONTAINER_OF(task, struct get_object_acl, base.task);
}

static enum step_result get_acl_check(struct task *task)
{
    return s3_version_param(S3_REQUEST_OF(task), &get_acl_of(task)->version);
}

static enum step_result get_acl_read(struct task *task)
{
    struct get_object_acl *op = get_acl_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, false);
}

static enum step_result get_acl_reply(struct task *task)
{
    struct get_object_acl *op = get_acl_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record;

    if (object_lookup_found(req, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record = op->find.get.record;
    s3_reply_version(req, record);
    acl_document_write(req, acl_of_object(req->bucket, record),
                       acl_object_owner(req->bucket, record));
    return s3_reply_xml(req, 200);
}

static void get_acl_release(struct task *task)
{
    struct get_object_acl *op = get_acl_of(task);

    object_lookup_release(&op->base, &op->find);
}

const struct s3_handler get_object_acl = {
    .state_size = sizeof(struct get_object_acl),
    .flags = CHECKS_OBJECT,
    .steps =
        {
                {"check", get_acl_check},
                {"read", get_acl_read},
                {"reply", get_acl_reply},
                },
    .release = get_acl_release,
};

/* ---- Put ---- */

struct put_object_acl {
    struct object_set base;
    struct acl_request acl;
};

static enum step_result put_acl_check(struct task *task)
{
    return object_set_begin(object_set_of(task), SET_ACL, KIST__CHANGE_KIND__CHANGE_ACL, 200);
}

static enum step_result put_acl_judge(struct task *task)
{
    struct put_object_acl *op = CONTAINER_OF(task, struct put_object_acl, base.base.task);
    struct s3_request *req = &op->base.base;
    struct slice owner = acl_object_owner(req->bucket, op->base.find.get.record);
    enum step_result result = s3_acl_for_object(req, &op->acl, owner);

    op->base.record.acl = op->acl.acl;
    return result;
}

const struct s3_handler put_object_acl = {
    .state_size = sizeof(struct put_object_acl),
    .flags = BODY_DOCUMENT | CHECKS_OBJECT,
    .steps =
        {
                {"check", put_acl_check},
                {"find", object_set_find},
                {"found", object_set_found},
                {"judge", put_acl_judge},
                {"write", object_set_commit},
                {"reply", object_set_reply},
                },
    .release = object_set_release,
};
