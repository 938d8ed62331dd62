/*
 * GetObjectTagging, PutObjectTagging, DeleteObjectTagging: the tags of one version.
 *
 *     Get:          check -> read -> reply
 *     Put, Delete:  check -> find -> found -> commit -> reply (object_set.h)
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/object_set.h"
#include "gateway/s3/object_tags.h"

/* ---- Get ---- */

struct get_tagging {
    struct s3_request base;
    struct object_lookup find;
    struct slice version;
};

static struct get_tagging *get_of(struct task *task)
{
    return CONTAINER_OF(task, struct get_tagging, base.task);
}

static enum step_result get_check(struct task *task)
{
    return s3_version_param_lenient(S3_REQUEST_OF(task), &get_of(task)->version);
}

static enum step_result get_read(struct task *task)
{
    struct get_tagging *op = get_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, false);
}

static enum step_result get_reply(struct task *task)
{
    struct get_tagging *op = get_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record;
    struct xml_writer xml;

    if (object_lookup_found(req, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record = op->find.get.record;
    s3_reply_version(req, record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "Tagging", XML_NS_S3);
    object_tags_write(&xml, record->tags, record->n_tags);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void get_release(struct task *task)
{
    struct get_tagging *op = get_of(task);

    object_lookup_release(&op->base, &op->find);
}

const struct s3_handler get_object_tagging = {
    .state_size = sizeof(struct get_tagging),
    .flags = CHECKS_OBJECT,
    .steps =
        {
                {"check", get_check},
                {"read", get_read},
                {"reply", get_reply},
                },
    .release = get_release,
};

/* ---- Put, Delete ---- */

static enum step_result put_check(struct task *task)
{
    struct object_set *op = object_set_of(task);
    struct tag_set set;

    if (object_set_begin(op, SET_TAGS, KIST__CHANGE_KIND__CHANGE_TAGS_PUT, 200) == STEP_FAIL ||
        object_tags_from_document(&op->base, &set) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->record.tags = set.tags;
    op->record.n_tags = set.count;
    return STEP_NEXT;
}

static enum step_result delete_check(struct task *task)
{
    return object_set_begin(object_set_of(task), SET_TAGS, KIST__CHANGE_KIND__CHANGE_TAGS_DELETE,
                            204);
}

const struct s3_handler put_object_tagging =
    OBJECT_SET_HANDLER(BODY_DOCUMENT | NEEDS_CHECKSUM, put_check);
const struct s3_handler delete_object_tagging = OBJECT_SET_HANDLER(BODY_NONE, delete_check);
