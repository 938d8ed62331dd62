/* GetPublicAccessBlock, PutPublicAccessBlock, DeletePublicAccessBlock. Enforced where ACLs and
 * policies are put, and where callers are judged (gateway/access). */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

static enum step_result get_block_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__PublicAccessBlock *block = s3_settings(req->bucket)->public_access_block;
    struct xml_writer xml;

    if (block == NULL) {
        (void)s3_fail(req, S3_NoSuchPublicAccessBlockConfiguration, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "PublicAccessBlockConfiguration", XML_NS_S3);
    xml_writer_bool(&xml, "BlockPublicAcls", block->block_public_acls);
    xml_writer_bool(&xml, "IgnorePublicAcls", block->ignore_public_acls);
    xml_writer_bool(&xml, "BlockPublicPolicy", block->block_public_policy);
    xml_writer_bool(&xml, "RestrictPublicBuckets", block->restrict_public_buckets);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static bool put_block_parse(const struct xml_node *root, Kist__PublicAccessBlock *block)
{
    static const char *const names[] = {"BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy",
                                        "RestrictPublicBuckets", NULL};
    bool flags[ARRAY_LEN(names) - 1];

    if (!setting_children_known(root, names) || xml_child(root, NULL) == NULL) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (!setting_bool(root, names[i], &flags[i])) {
            return false;
        }
    }
    block->block_public_acls = flags[0];
    block->ignore_public_acls = flags[1];
    block->block_public_policy = flags[2];
    block->restrict_public_buckets = flags[3];
    return true;
}

static enum step_result put_block_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "PublicAccessBlockConfiguration");
    Kist__PublicAccessBlock *block;

    if (root == NULL) {
        return STEP_FAIL;
    }
    block = arena_alloc(req->arena, sizeof(*block));
    kist__public_access_block__init(block);
    if (!put_block_parse(root, block)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    setting_begin(op, SETTING_PUBLIC_ACCESS_BLOCK)->public_access_block = block;
    return STEP_NEXT;
}

static enum step_result delete_block_check(struct task *task)
{
    (void)setting_begin(setting_op_of(task), SETTING_PUBLIC_ACCESS_BLOCK);
    return STEP_NEXT;
}

const struct s3_handler get_public_access_block = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_block_reply},
                },
};

const struct s3_handler put_public_access_block = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_block_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};

const struct s3_handler delete_public_access_block = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_block_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
