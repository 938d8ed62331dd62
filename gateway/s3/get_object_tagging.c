/*
 * GetObjectTagging: an object has no tags yet (writing them is refused), and says so. aws-cli asks
 * before every multipart copy.
 *
 *     check -> read -> reply
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/unsupported.h"

struct get_tagging {
    struct s3_request base;
    struct meta_get get;
    bool got;
};

static struct get_tagging *tagging_of(struct task *task)
{
    return CONTAINER_OF(task, struct get_tagging, base.task);
}

static enum step_result tagging_check(struct task *task)
{
    return s3_refuse_version(S3_REQUEST_OF(task));
}

static enum step_result tagging_read(struct task *task)
{
    struct get_tagging *op = tagging_of(task);
    struct s3_request *req = &op->base;

    op->get.bucket_id = req->bucket->id;
    op->get.generation = req->bucket->generation;
    op->get.key = req->key;
    op->get.arena = req->arena;
    return req->gateway->meta->get(req->gateway->meta, &op->get, task);
}

static enum step_result tagging_reply(struct task *task)
{
    struct get_tagging *op = tagging_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->get.record;
    struct xml_writer xml;

    op->got = true;
    if (record == NULL) {
        return s3_fail(req, S3_NoSuchKey, NULL);
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "Tagging", XML_NS_S3);
    xml_writer_open(&xml, "TagSet");
    for (size_t i = 0; i < record->n_tags; i++) {
        xml_writer_open(&xml, "Tag");
        xml_writer_text(&xml, "Key", s3_slice(record->tags[i]->name));
        xml_writer_text(&xml, "Value", s3_slice(record->tags[i]->value));
        xml_writer_close(&xml);
    }
    xml_writer_close(&xml);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void tagging_release(struct task *task)
{
    struct get_tagging *op = tagging_of(task);
    struct meta_client *meta = op->base.gateway->meta;

    if (op->got || op->get.record != NULL) {
        meta->release(meta, &op->get);
        op->got = false;
        op->get.record = NULL;
    }
}

const struct s3_handler get_object_tagging = {
    .state_size = sizeof(struct get_tagging),
    .steps =
        {
                {"check", tagging_check},
                {"read", tagging_read},
                {"reply", tagging_reply},
                },
    .release = tagging_release,
};
