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

static enum step_result get_reply(struct task *task)
{
    struct object_read *op = object_read_of(task);
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

const struct s3_handler get_object_tagging =
    OBJECT_READ_HANDLER(BODY_NONE, object_read_check, get_reply);

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
