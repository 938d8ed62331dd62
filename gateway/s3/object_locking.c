/*
 * GetObjectRetention, GetObjectLegalHold, PutObjectRetention, PutObjectLegalHold: the lock of one
 * version.
 *
 *     Get:  check -> read -> reply
 *     Put:  check -> find -> found -> commit -> reply (object_set.h)
 *
 * What a new retention may do to an older one is decided in metad's apply.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/object_set.h"
#include "gateway/xml/xml_reader.h"

/* ---- Get ---- */

/* The version's lock in `lock`; NULL when it never had one. */
static enum step_result get_found(struct object_read *op, const Kist__Lock **lock)
{
    struct s3_request *req = &op->base;

    if (object_lookup_found(req, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (!object_lock_enabled(req->bucket)) {
        return s3_fail(req, S3_InvalidRequest, "Bucket is missing Object Lock Configuration");
    }
    *lock = op->find.get.record->lock;
    return STEP_NEXT;
}

static enum step_result retention_reply(struct task *task)
{
    struct object_read *op = object_read_of(task);
    struct s3_request *req = &op->base;
    const Kist__Lock *lock = NULL;
    struct xml_writer xml;

    if (get_found(op, &lock) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (lock == NULL || lock->mode == LOCK_NONE) {
        return s3_fail(req, S3_NoSuchObjectLockConfiguration, NULL);
    }
    s3_reply_version(req, op->find.get.record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "Retention", XML_NS_S3);
    xml_writer_str(&xml, "Mode", object_lock_mode_name(lock->mode));
    xml_writer_raw(&xml, "RetainUntilDate", object_lock_until_text(req->arena, lock->until));
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result hold_reply(struct task *task)
{
    struct object_read *op = object_read_of(task);
    struct s3_request *req = &op->base;
    const Kist__Lock *lock = NULL;
    struct xml_writer xml;

    if (get_found(op, &lock) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (lock == NULL || !lock->hold_known) {
        return s3_fail(req, S3_NoSuchObjectLockConfiguration, NULL);
    }
    s3_reply_version(req, op->find.get.record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "LegalHold", XML_NS_S3);
    xml_writer_str(&xml, "Status", lock->legal_hold ? "ON" : "OFF");
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler get_object_retention =
    OBJECT_READ_HANDLER(BODY_NONE, object_read_check, retention_reply);
const struct s3_handler get_object_legal_hold =
    OBJECT_READ_HANDLER(BODY_NONE, object_read_check, hold_reply);

/* ---- Put ---- */

static const struct xml_node *put_document(struct s3_request *req, const char *root_name)
{
    const struct xml_node *root;

    if (req->document.len == 0 ||
        xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, root_name)) {
        (void)s3_fail(req, S3_MalformedXML, NULL);
        return NULL;
    }
    return root;
}

/* An empty <Retention/> takes the retention away. */
static enum step_result retention_check(struct task *task)
{
    struct object_set *op = object_set_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    struct slice mode;
    struct slice until;

    if (object_set_begin(op, SET_RETENTION, KIST__CHANGE_KIND__CHANGE_LOCK, 200) == STEP_FAIL) {
        return STEP_FAIL;
    }
    root = put_document(req, "Retention");
    if (root == NULL) {
        return STEP_FAIL;
    }
    op->lock = (Kist__Lock)KIST__LOCK__INIT;
    op->record.lock = &op->lock;
    op->bypass_governance = object_lock_bypass(req, req->key);
    mode = xml_child_text(root, "Mode");
    until = xml_child_text(root, "RetainUntilDate");
    if (mode.data == NULL && until.data == NULL && xml_child(root, NULL) == NULL) {
        return STEP_NEXT;
    }
    op->lock.mode = object_lock_mode_of(mode);
    if (op->lock.mode == LOCK_NONE || until.data == NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    return object_lock_until(req, until, &op->lock.until);
}

static enum step_result hold_check(struct task *task)
{
    struct object_set *op = object_set_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    struct slice status;

    if (object_set_begin(op, SET_LEGAL_HOLD, KIST__CHANGE_KIND__CHANGE_LOCK, 200) == STEP_FAIL) {
        return STEP_FAIL;
    }
    root = put_document(req, "LegalHold");
    if (root == NULL) {
        return STEP_FAIL;
    }
    status = xml_child_text(root, "Status");
    op->lock = (Kist__Lock)KIST__LOCK__INIT;
    op->record.lock = &op->lock;
    op->lock.legal_hold = slice_eq(status, SLICE("ON"));
    if (!op->lock.legal_hold && !slice_eq(status, SLICE("OFF"))) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    return STEP_NEXT;
}

const struct s3_handler put_object_retention =
    OBJECT_SET_HANDLER(BODY_DOCUMENT | NEEDS_CHECKSUM, retention_check);
const struct s3_handler put_object_legal_hold =
    OBJECT_SET_HANDLER(BODY_DOCUMENT | NEEDS_CHECKSUM, hold_check);
