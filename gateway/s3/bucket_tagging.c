/* GetBucketTagging, PutBucketTagging, DeleteBucketTagging. Tags as of objects, but 50 of them. */
#include "gateway/s3/bucket_tags.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_tags.h"
#include "gateway/s3/setting.h"

enum { BUCKET_TAGS_MAX = 50 }; /* AWS */

static bool bucket_tags_hold(const Kist__TagSet *set, struct slice key)
{
    for (size_t i = 0; i < set->n_tags; i++) {
        if (slice_eq(s3_slice(set->tags[i]->name), key)) {
            return true;
        }
    }
    return false;
}

static enum step_result bucket_tags_add(struct s3_request *req, Kist__TagSet *set, struct slice key,
                                        struct slice value)
{
    Kist__Header *tag;

    if (set->n_tags == BUCKET_TAGS_MAX) {
        return s3_failf(req, S3_BadRequest, "Bucket tag count cannot be greater than %d",
                        BUCKET_TAGS_MAX);
    }
    if (s3_tag_check(req, key, value) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (bucket_tags_hold(set, key)) {
        (void)s3_fail(req, S3_InvalidTag, "Cannot provide multiple Tags with the same key");
        s3_error_detail(req, "TagKey", key);
        return STEP_FAIL;
    }
    tag = arena_alloc(req->arena, sizeof(*tag));
    kist__header__init(tag);
    tag->name = s3_bytes(key);
    tag->value = s3_bytes(value);
    set->tags[set->n_tags++] = tag;
    return STEP_NEXT;
}

Kist__TagSet *bucket_tags_from_list(struct s3_request *req, const struct xml_node *list)
{
    Kist__TagSet *set = arena_alloc(req->arena, sizeof(*set));

    kist__tag_set__init(set);
    set->tags = arena_alloc(req->arena, BUCKET_TAGS_MAX * sizeof(struct Kist__Header *));
    for (const struct xml_node *tag = xml_child(list, NULL); tag != NULL;
         tag = xml_next(tag, NULL)) {
        struct slice key = xml_child_text(tag, "Key");
        struct slice value = xml_child_text(tag, "Value");

        if (!xml_is(tag, "Tag") || key.data == NULL || value.data == NULL) {
            (void)s3_fail(req, S3_MalformedXML, NULL);
            return NULL;
        }
        if (bucket_tags_add(req, set, key, value) == STEP_FAIL) {
            return NULL;
        }
    }
    return set;
}

static enum step_result get_tagging_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__TagSet *tags = s3_settings(req->bucket)->tags;
    struct xml_writer xml;

    if (tags == NULL || tags->n_tags == 0) {
        (void)s3_fail(req, S3_NoSuchTagSet, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "Tagging", XML_NS_S3);
    object_tags_write(&xml, tags->tags, tags->n_tags);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result put_tagging_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "Tagging");
    const struct xml_node *list = root != NULL ? xml_child(root, "TagSet") : NULL;
    Kist__TagSet *tags;

    if (root == NULL) {
        return STEP_FAIL;
    }
    if (list == NULL || xml_next(xml_child(root, NULL), NULL) != NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    tags = bucket_tags_from_list(req, list);
    if (tags == NULL) {
        return STEP_FAIL;
    }
    setting_begin(op, SETTING_TAGS)->tags = tags;
    return STEP_NEXT;
}

static enum step_result delete_tagging_check(struct task *task)
{
    (void)setting_begin(setting_op_of(task), SETTING_TAGS);
    return STEP_NEXT;
}

static enum step_result put_tagging_reply(struct task *task)
{
    enum step_result result = setting_reply(task);

    if (result == STEP_DONE) {
        S3_REQUEST_OF(task)->status = 204; /* unlike other settings (AWS) */
    }
    return result;
}

const struct s3_handler get_bucket_tagging = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_tagging_reply},
                },
};

const struct s3_handler put_bucket_tagging = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT | NEEDS_CHECKSUM,
    .steps =
        {
                {"check", put_tagging_check},
                {"write", setting_write},
                {"reply", put_tagging_reply},
                },
};

const struct s3_handler delete_bucket_tagging = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_tagging_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
