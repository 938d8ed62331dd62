/*
 * What is asked of every bucket but cannot be configured here: acceleration, logging, replication,
 * encryption, analytics, inventory, metrics, tiers. Reading them answers what AWS answers for a
 * bucket where they were never configured, which is true here; writing them answers 501 (op.def).
 * Terraform and scanners read all of them.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

struct unconfigured {
    const char *op;
    const char *root; /* of an empty document; NULL: the error */
    bool list;        /* with IsTruncated */
    enum s3_error error;
};

static const struct unconfigured unconfigured_ops[] = {
#define EMPTY(op, root)  {#op, (root), false, S3_OK},
#define LIST(op, root)   {#op, (root), true, S3_OK},
#define ABSENT(op, code) {#op, NULL, false, S3_##code},
#include "gateway/s3/unconfigured.def"
#undef EMPTY
#undef LIST
#undef ABSENT
};

static enum step_result unconfigured_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const struct unconfigured *found = NULL;
    struct xml_writer xml;

    for (size_t i = 0; found == NULL && i < ARRAY_LEN(unconfigured_ops); i++) {
        found = strcmp(req->op->name, unconfigured_ops[i].op) == 0 ? &unconfigured_ops[i] : NULL;
    }
    ASSERT(found != NULL);
    if (found->root == NULL) {
        (void)s3_fail(req, found->error, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, found->root, XML_NS_S3);
    if (found->list) {
        xml_writer_bool(&xml, "IsTruncated", false);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler get_unconfigured = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", unconfigured_reply},
                },
};
