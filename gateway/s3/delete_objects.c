/*
 * DeleteObjects: up to 1,000 keys, or versions of keys.
 *
 *     check -> ask -> confirm -> commit (again while keys are left) -> reply
 *
 * One command of metad for as many keys as a command may hold: all 1,000 of usual length, so one
 * entry of the log. What became of each key is decided in the apply; a missing key is a success.
 * Each key is judged by itself; a "no" is confirmed by a view begun after the request (`ask`,
 * `confirm`). x-amz-bypass-governance-retention is taken in buckets without object lock, too,
 * unlike DeleteObject's: the clean-ups of clients send it whatever the bucket.
 */
#include "common/base/limits.h"
#include "common/codec/time_format.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"
#include "gateway/xml/xml_reader.h"

enum {
    DELETE_ETAG_BYTES = 48,  /* longer ones are nobody's */
    DELETE_ITEM_BYTES = 160, /* of an item besides its key, conditions included */
    DELETE_COMMAND_BYTES = LIMIT_COMMAND_BYTES - 1024 /* items of one command */
};

struct delete_key {
    struct slice key;
    struct slice version;            /* as the client named it; empty: not named */
    Kist__DeleteObjects__Item *item; /* NULL: refused here, see `error` */
    const Kist__Deleted *deleted;    /* what became of it */
    enum s3_error error;             /* S3_OK: deleted */
    const char *text;
};

struct delete_objects {
    struct s3_request base;
    struct meta_write call;
    struct meta_refresh refresh;
    Kist__DeleteObjects message;
    struct delete_key *keys;
    Kist__DeleteObjects__Item **items; /* of the command under way */
    uint32_t key_count;
    uint32_t at;    /* keys before this are done */
    uint32_t until; /* the command under way covers up to this */
    bool quiet;
    bool denied; /* some keys, by the view in use */
};

static struct delete_objects *deletes_of(struct task *task)
{
    return CONTAINER_OF(task, struct delete_objects, base.task);
}

/* ---- Check ---- */

static void deletes_refuse(struct delete_key *key, enum s3_error error, const char *text)
{
    key->item = NULL;
    key->error = error;
    key->text = text;
}

/* <ETag>, <Size>, <LastModifiedTime>: the key is deleted only if they still hold. */
static bool deletes_conditions(struct s3_request *req, const struct xml_node *object,
                               struct delete_key *key)
{
    struct slice etag = xml_child_text(object, "ETag");
    struct slice size = xml_child_text(object, "Size");
    struct slice modified = xml_child_text(object, "LastModifiedTime");
    struct env *env = req->gateway->env;
    Kist__Conditions *conditions;
    uint64_t nanoseconds = 0;

    if (etag.len == 0 && size.len == 0 && modified.len == 0) {
        return true;
    }
    conditions = arena_alloc(req->arena, sizeof(*conditions));
    kist__conditions__init(conditions);
    key->item->conditions = conditions;
    if (etag.len >= 2 && etag.data[0] == '"' && etag.data[etag.len - 1] == '"') {
        etag = slice_of(etag.data + 1, etag.len - 2);
    }
    if (etag.len > DELETE_ETAG_BYTES) {
        etag.len = DELETE_ETAG_BYTES; /* matches nothing either, and fits a command */
    }
    conditions->if_match = s3_bytes(etag);
    conditions->has_if_match_size = size.len > 0;
    if (size.len > 0 && !slice_to_u64(size, UINT64_MAX, &conditions->if_match_size)) {
        return false;
    }
    if (modified.len > 0 && !time_parse_http(modified, env->clock->wall_ns(env) / 1000000000U,
                                             &conditions->if_match_last_modified)) {
        if (!time_parse_iso8601(modified, &nanoseconds)) {
            return false;
        }
        conditions->if_match_last_modified = nanoseconds / 1000000000U;
    }
    return true;
}

static bool deletes_read_key(struct s3_request *req, const struct xml_node *object,
                             struct delete_key *key)
{
    struct slice packed = SLICE_EMPTY;

    key->version = xml_child_text(object, "VersionId");
    key->key = xml_child_text(object, "Key");
    if (key->key.len == 0) {
        return false;
    }
    key->item = arena_alloc(req->arena, sizeof(*key->item));
    kist__delete_objects__item__init(key->item);
    key->item->key = s3_bytes(key->key);
    if (!deletes_conditions(req, object, key)) {
        return false;
    }
    if (key->key.len > LIMIT_KEY_BYTES) {
        deletes_refuse(key, S3_KeyTooLongError, NULL);
    } else if (key->version.len > 0 && !s3_version_parse(req->arena, key->version, &packed)) {
        deletes_refuse(key, S3_NoSuchVersion, NULL);
    } else {
        key->item->version = s3_bytes(packed);
    }
    return true;
}

static enum step_result deletes_check(struct task *task)
{
    struct delete_objects *op = deletes_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    const struct xml_node *object;

    if (s3_refuse_unsupported(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (req->document.len == 0) {
        return s3_fail(req, S3_MissingRequestBodyError, NULL);
    }
    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "Delete")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    op->quiet = slice_eq_nocase(slice_trim(xml_child_text(root, "Quiet")), SLICE("true"));
    op->keys = arena_alloc(req->arena, LIMIT_DELETE_KEYS * sizeof(*op->keys));
    op->items = arena_alloc(req->arena, LIMIT_DELETE_KEYS * sizeof(*op->items));
    for (object = xml_child(root, "Object"); object != NULL; object = xml_next(object, "Object")) {
        if (op->key_count == LIMIT_DELETE_KEYS ||
            !deletes_read_key(req, object, &op->keys[op->key_count])) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        op->key_count += 1;
    }
    return op->key_count > 0 ? STEP_NEXT : s3_fail(req, S3_MalformedXML, NULL);
}

/* ---- Ask, confirm: may the caller delete each of them ---- */

static bool deletes_allowed(const struct s3_request *req, const struct delete_key *key,
                            const Kist__Bucket *bucket)
{
    return s3_allowed_key(req, key->version.len > 0 ? "s3:DeleteObjectVersion" : "s3:DeleteObject",
                          bucket, key->key);
}

static enum step_result deletes_ask(struct task *task)
{
    struct delete_objects *op = deletes_of(task);
    struct s3_request *req = &op->base;

    for (uint32_t i = 0; i < op->key_count; i++) {
        struct delete_key *key = &op->keys[i];

        if (!deletes_allowed(req, key, req->bucket)) {
            op->denied = true;
        } else if (key->item != NULL) {
            key->item->bypass_governance = object_lock_bypass(req, key->key);
        }
    }
    return op->denied ? req->gateway->meta->refresh(req->gateway->meta, &op->refresh, task)
                      : STEP_NEXT;
}

static enum step_result deletes_confirm(struct task *task)
{
    struct delete_objects *op = deletes_of(task);
    struct s3_request *req = &op->base;
    const Kist__Bucket *bucket;

    if (!op->denied) {
        return STEP_NEXT;
    }
    bucket = view_bucket(req->gateway->meta->view(req->gateway->meta), req->bucket_name);
    for (uint32_t i = 0; i < op->key_count; i++) {
        if (bucket == NULL || !deletes_allowed(req, &op->keys[i], bucket)) {
            deletes_refuse(&op->keys[i], S3_AccessDenied, NULL);
        }
    }
    return STEP_NEXT;
}

/* ---- Commit ---- */

static void deletes_take_results(struct delete_objects *op)
{
    const Kist__Reply *reply = op->call.reply;
    size_t result = 0;

    for (uint32_t i = op->at; i < op->until; i++) {
        struct delete_key *key = &op->keys[i];

        if (key->item == NULL) {
            continue;
        }
        if (result < reply->n_deleted) {
            key->deleted = reply->deleted[result];
            key->error = s3_error_from_outcome(key->deleted->outcome);
            key->text = s3_outcome_message(key->deleted->outcome);
        }
        result += 1;
    }
    op->at = op->until;
}

/* Puts as many keys into the message as a command may hold. */
static void deletes_fill(struct delete_objects *op)
{
    size_t bytes = 0;

    op->message = (Kist__DeleteObjects)KIST__DELETE_OBJECTS__INIT;
    op->message.bucket_id = op->base.bucket->id;
    op->message.generation = op->base.bucket->generation;
    op->message.items = op->items;
    op->message.user = s3_bytes(op->base.auth.user);
    for (op->until = op->at; op->until < op->key_count; op->until++) {
        struct delete_key *key = &op->keys[op->until];
        size_t more = key->key.len + VERSION_ID_BYTES +
                      (key->item != NULL && key->item->conditions != NULL
                           ? DELETE_ITEM_BYTES
                           : 12); /* tags and lengths of protobuf */

        if (key->item == NULL) {
            continue;
        }
        if (bytes + more > DELETE_COMMAND_BYTES) {
            break;
        }
        bytes += more;
        op->items[op->message.n_items++] = key->item;
    }
}

static enum step_result deletes_commit(struct task *task)
{
    struct delete_objects *op = deletes_of(task);
    enum step_result result;

    if (op->call.reply != NULL) {
        const Kist__Reply *reply = op->call.reply;

        if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
            op->call.reply = NULL; /* a new judgement comes back to this step */
            return s3_fail_outcome(&op->base, reply);
        }
        deletes_take_results(op);
        op->call.reply = NULL;
    }
    if (op->at == op->key_count) {
        return STEP_NEXT;
    }
    deletes_fill(op);
    if (op->message.n_items == 0) { /* all that is left was refused here */
        op->at = op->until;
        return STEP_NEXT;
    }
    result = s3_write(&op->base, &op->call, META_DELETE_OBJECTS, &op->message.base, SLICE_EMPTY);
    return result == STEP_NEXT ? STEP_REPEAT : result == STEP_WAIT ? STEP_AGAIN : result;
}

/* ---- Reply ---- */

static void deletes_write_done(struct s3_request *req, struct xml_writer *xml,
                               const struct delete_key *key)
{
    const Kist__Deleted *deleted = key->deleted;

    xml_writer_open(xml, "Deleted");
    xml_writer_text(xml, "Key", key->key);
    if (key->version.len > 0) {
        xml_writer_text(xml, "VersionId", key->version);
    }
    if (deleted != NULL && deleted->delete_marker) {
        xml_writer_bool(xml, "DeleteMarker", true);
        xml_writer_raw(xml, "DeleteMarkerVersionId",
                       key->version.len > 0
                           ? key->version
                           : version_id_text_of(req->arena, deleted->stamp, deleted->tie,
                                                deleted->null_version));
    }
    xml_writer_close(xml);
}

static void deletes_write_error(struct xml_writer *xml, const struct delete_key *key)
{
    xml_writer_open(xml, "Error");
    xml_writer_text(xml, "Key", key->key);
    if (key->version.len > 0) {
        xml_writer_text(xml, "VersionId", key->version);
    }
    xml_writer_str(xml, "Code", s3_error_code(key->error));
    xml_writer_str(xml, "Message", key->text != NULL ? key->text : s3_error_message(key->error));
    xml_writer_close(xml);
}

static enum step_result deletes_reply(struct task *task)
{
    struct delete_objects *op = deletes_of(task);
    struct s3_request *req = &op->base;
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "DeleteResult", XML_NS_S3);
    for (uint32_t i = 0; i < op->key_count; i++) {
        const struct delete_key *key = &op->keys[i];

        if (key->error != S3_OK) {
            deletes_write_error(&xml, key);
        } else if (!op->quiet) {
            deletes_write_done(req, &xml, key);
        }
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

const struct s3_handler delete_objects = {
    .state_size = sizeof(struct delete_objects),
    .flags = BODY_DOCUMENT | NEEDS_CHECKSUM | CHECKS_MORE | CHECKS_KEYS,
    .steps =
        {
                {"check", deletes_check},
                {"ask", deletes_ask},
                {"confirm", deletes_confirm},
                {"commit", deletes_commit},
                {"reply", deletes_reply},
                },
};
