/*
 * RestoreObject: brings an archived object back. Nothing is archived here, so of an object that is
 * there the answer is always AWS's for one that need not be restored.
 *
 *     check -> read -> reply
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/xml/xml_reader.h"

static enum step_result restore_check(struct task *task)
{
    struct object_read *op = object_read_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;

    if (req->document.len == 0) {
        return s3_fail(req, S3_MissingRequestBodyError, NULL);
    }
    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "RestoreRequest")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    return s3_version_param(req, &op->version);
}

static enum step_result restore_reply(struct task *task)
{
    struct object_read *op = object_read_of(task);
    struct s3_request *req = &op->base;

    if (object_lookup_found(req, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    (void)s3_fail(req, S3_InvalidObjectState,
                  "Restore is not allowed for the object's current storage class");
    s3_error_detail(req, "StorageClass", s3_storage_class(op->find.get.record));
    return STEP_FAIL;
}

const struct s3_handler restore_object =
    OBJECT_READ_HANDLER(BODY_DOCUMENT, restore_check, restore_reply);
