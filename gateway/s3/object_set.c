#include "gateway/s3/object_set.h"

enum step_result object_set_begin(struct object_set *op, uint32_t what, Kist__ChangeKind change,
                                  int status)
{
    op->record = (Kist__Record)KIST__RECORD__INIT;
    op->what = what;
    op->change = change;
    op->status = status;
    return s3_version_param_lenient(&op->base, &op->version);
}

enum step_result object_set_find(struct task *task)
{
    struct object_set *op = object_set_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, false);
}

enum step_result object_set_found(struct task *task)
{
    struct object_set *op = object_set_of(task);

    return object_lookup_found(&op->base, &op->find);
}

enum step_result object_set_commit(struct task *task)
{
    struct object_set *op = object_set_of(task);
    struct s3_request *req = &op->base;

    op->message = (Kist__SetObject)KIST__SET_OBJECT__INIT;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.version = s3_bytes(s3_version_of(req->arena, req->bucket, op->find.get.record));
    op->message.what = op->what;
    op->message.record = &op->record;
    op->message.bypass_governance = op->bypass_governance;
    op->message.change = op->change;
    op->message.user = s3_bytes(req->auth.user);
    return s3_write(req, &op->call, META_SET_OBJECT, &op->message.base, SLICE_EMPTY);
}

enum step_result object_set_reply(struct task *task)
{
    struct object_set *op = object_set_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->call.reply;

    if (reply->outcome == KIST__OUTCOME__NO_LOCK_CONFIGURATION) {
        return s3_fail(req, S3_InvalidRequest, "Bucket is missing Object Lock Configuration");
    }
    if (reply->outcome == KIST__OUTCOME__NO_SUCH_VERSION && op->version.len == 0) {
        return s3_fail(req, S3_NoSuchKey, NULL); /* deleted since it was looked up */
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    s3_reply_version(req, op->find.get.record);
    return s3_reply_empty(req, op->status);
}

void object_set_release(struct task *task)
{
    struct object_set *op = object_set_of(task);

    object_lookup_release(&op->base, &op->find);
}
