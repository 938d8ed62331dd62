#include "gateway/s3/setting.h"

#include "common/base/limits.h"

enum { SETTING_CHILDREN_MAX = 16 };

static const Kist__Settings setting_none = KIST__SETTINGS__INIT;

const Kist__Settings *s3_settings(const Kist__Bucket *bucket)
{
    return bucket->settings != NULL ? bucket->settings : &setting_none;
}

/* ---- Reads ---- */

enum step_result setting_refresh(struct task *task)
{
    struct setting_op *op = setting_op_of(task);

    return op->base.gateway->meta->refresh(op->base.gateway->meta, &op->refresh, task);
}

enum step_result setting_confirm(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const struct view *view = req->gateway->meta->view(req->gateway->meta);
    const Kist__Bucket *now = view_bucket(view, req->bucket_name);

    if (now == NULL) {
        return s3_fail(req, S3_NoSuchBucket, NULL);
    }
    if (now->id != req->bucket->id || now->generation != req->bucket->generation) {
        return task_fail(task, RC_STALE, "the bucket has changed");
    }
    return STEP_NEXT;
}

/* ---- Writes ---- */

Kist__Settings *setting_begin(struct setting_op *op, enum setting setting)
{
    ASSERT(setting != SETTING_NONE);
    op->setting = setting;
    op->value = arena_alloc(op->base.arena, sizeof(*op->value));
    kist__settings__init(op->value);
    return op->value;
}

enum step_result setting_write(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;

    ASSERT(op->value != NULL);
    op->message = (Kist__PutSetting)KIST__PUT_SETTING__INIT;
    op->message.name = req->bucket->name;
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.setting = (uint32_t)op->setting;
    op->message.value = op->value;
    if (kist__put_setting__get_packed_size(&op->message) > LIMIT_SETTING_COMMAND_BYTES) {
        return s3_fail(req, S3_MaxMessageLengthExceeded, NULL);
    }
    return s3_write(req, &op->call, META_PUT_SETTING, &op->message.base, SLICE_EMPTY);
}

enum step_result setting_reply(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;

    if (op->call.reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, op->call.reply);
    }
    return s3_reply_empty(req, req->http->request.method == HTTP_DELETE ? 204 : 200);
}

/* ---- Documents ---- */

const struct xml_node *setting_document(struct s3_request *req, const char *root)
{
    const struct xml_node *node;

    if (req->document.len == 0) {
        (void)s3_fail(req, S3_MissingRequestBodyError, NULL);
        return NULL;
    }
    if (xml_reader_parse(req->document, req->arena, &node, NULL) != RC_OK || !xml_is(node, root)) {
        (void)s3_fail(req, S3_MalformedXML, NULL);
        return NULL;
    }
    return node;
}

bool setting_children_known(const struct xml_node *node, const char *const *names)
{
    bool seen[SETTING_CHILDREN_MAX] = {false};

    for (const struct xml_node *child = xml_child(node, NULL); child != NULL;
         child = xml_next(child, NULL)) {
        size_t i = 0;

        while (names[i] != NULL && !xml_is(child, names[i])) {
            i++;
        }
        ASSERT(i < SETTING_CHILDREN_MAX);
        if (names[i] == NULL || seen[i]) {
            return false;
        }
        seen[i] = true;
    }
    return true;
}

bool setting_bool(const struct xml_node *node, const char *name, bool *value)
{
    struct slice text = xml_child_text(node, name);

    *value = slice_eq_nocase(text, SLICE("true"));
    return text.data == NULL || *value || slice_eq_nocase(text, SLICE("false"));
}
