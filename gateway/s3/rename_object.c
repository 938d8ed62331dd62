/*
 * RenameObject: an object gets another key of the same bucket, in one step.
 *
 *     check -> source -> found -> rename -> reply
 *
 * One command of metad decides everything: that the source is there, the conditions of both ends,
 * locks. No data is read or written. `source` looks for what only the object itself can tell about
 * the caller's rights. In a bucket that keeps versions the destination gets a new version and the
 * source a delete marker.
 *
 * A client token makes the request repeatable: metad keeps the first answer for a day, so the
 * source of a repeat may be gone.
 */
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"
#include "common/crypto/hash.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"

enum { RENAME_TOKEN_BYTES_MAX = 64 /* as AWS */, RENAME_ID_BYTES = 16 };

/* What a caller must be allowed to do with the source. PutObject of the destination is the row's.
 */
static const char *const rename_actions[] = {"s3:GetObject", "s3:DeleteObject"};

/* What tells one request from another of the same token, besides the keys. */
static const char *const rename_headers[] = {
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "x-amz-rename-source-if-match",
    "x-amz-rename-source-if-none-match",
    "x-amz-rename-source-if-modified-since",
    "x-amz-rename-source-if-unmodified-since",
};

struct rename_object {
    struct s3_request base;
    struct slice source;
    struct meta_get get;
    bool got;
    struct meta_write call;
    struct extent_id copy_id;
    Kist__RenameObject message;
    Kist__Conditions conditions;
    Kist__Conditions source_conditions;
    uint8_t token[HASH_SHA256_BYTES];
    uint8_t digest[HASH_SHA256_BYTES];
};

static struct rename_object *rename_of(struct task *task)
{
    return CONTAINER_OF(task, struct rename_object, base.task);
}

/* ---- Check ---- */

static enum step_result rename_bad_header(struct s3_request *req, const char *name,
                                          const char *text)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", s3_header(req, name));
    return STEP_FAIL;
}

/* "/bucket/key" with the request's own bucket, else all of it is the key. */
static enum step_result rename_read_source(struct rename_object *op)
{
    struct s3_request *req = &op->base;
    struct slice bucket = req->bucket_name;
    struct slice text;

    if (!percent_decode(req->arena, s3_header(req, "x-amz-rename-source"), false, &text) ||
        !utf8_valid(text) || text.len == 0) {
        return rename_bad_header(req, "x-amz-rename-source",
                                 "The rename source must name an object of this bucket.");
    }
    if (text.data[0] == '/' && slice_starts(slice_after(text, 1), bucket) &&
        text.len > bucket.len + 2 && text.data[bucket.len + 1] == '/') {
        text = slice_after(text, bucket.len + 2);
    }
    if (text.len > LIMIT_KEY_BYTES) {
        return s3_fail(req, S3_KeyTooLongError, NULL);
    }
    if (slice_eq(text, req->key)) {
        return s3_fail(req, S3_InvalidRequest,
                       "This rename request is illegal because it is trying to rename an object to "
                       "itself.");
    }
    op->source = text;
    return STEP_NEXT;
}

static void rename_hash(struct sha256_hash *hash, struct slice bytes)
{
    uint8_t len[8];

    be64_put(len, bytes.len);
    sha256_update(hash, len, sizeof(len));
    if (bytes.len > 0) {
        sha256_update(hash, bytes.data, bytes.len);
    }
}

/* A token means the same only to the same user. */
static enum step_result rename_read_token(struct rename_object *op)
{
    struct s3_request *req = &op->base;
    struct slice token = s3_header(req, "x-amz-client-token");
    struct sha256_hash hash;

    if (token.data == NULL) {
        return STEP_NEXT;
    }
    for (size_t i = 0; i < token.len; i++) {
        if (token.data[i] < 33 || token.data[i] > 126) {
            token.len = 0;
        }
    }
    if (token.len == 0 || token.len > RENAME_TOKEN_BYTES_MAX) {
        return rename_bad_header(req, "x-amz-client-token",
                                 "A client token has 1 to 64 printable ASCII characters.");
    }
    sha256_init(&hash);
    rename_hash(&hash, req->auth.user);
    rename_hash(&hash, token);
    sha256_final(&hash, op->token);
    sha256_init(&hash);
    rename_hash(&hash, op->source);
    rename_hash(&hash, req->key);
    for (size_t i = 0; i < ARRAY_LEN(rename_headers); i++) {
        rename_hash(&hash, s3_header(req, rename_headers[i]));
    }
    sha256_final(&hash, op->digest);
    op->message.token = s3_bytes(slice_of((const char *)op->token, RENAME_ID_BYTES));
    op->message.digest = s3_bytes(slice_of((const char *)op->digest, RENAME_ID_BYTES));
    return STEP_NEXT;
}

static enum step_result rename_check_source_rights(struct rename_object *op)
{
    struct s3_request *req = &op->base;

    for (size_t i = 0; i < ARRAY_LEN(rename_actions); i++) {
        if (s3_may_allow_key(req, rename_actions[i], req->bucket, op->source)) {
            continue;
        }
        if (!s3_view_is_fresh(req)) {
            return task_fail(&req->task, RC_STALE, "a no that rests on an old view");
        }
        return s3_fail(req, S3_AccessDenied, NULL);
    }
    return STEP_NEXT;
}

static enum step_result rename_check(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct s3_request *req = &op->base;
    bool conditional;

    op->message = (Kist__RenameObject)KIST__RENAME_OBJECT__INIT;
    if (s3_refuse_unsupported(req) == STEP_FAIL || rename_read_source(op) == STEP_FAIL ||
        rename_read_token(op) == STEP_FAIL || rename_check_source_rights(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (s3_rename_conditions(req, false, &op->conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.conditions = conditional ? &op->conditions : NULL;
    if (s3_rename_conditions(req, true, &op->source_conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.source_conditions = conditional ? &op->source_conditions : NULL;
    return STEP_NEXT;
}

/* ---- Source, found ---- */

static enum step_result rename_source(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct s3_request *req = &op->base;
    struct meta_client *meta = req->gateway->meta;

    op->get.bucket_id = req->bucket->id;
    op->get.generation = req->bucket->generation;
    op->get.key = op->source;
    op->get.arena = req->arena;
    return meta->get(meta, &op->get, task);
}

static enum step_result rename_no_source(struct rename_object *op)
{
    struct s3_request *req = &op->base;

    if (s3_check_key(req, rename_actions[0], req->bucket, op->source, NULL) == STEP_FAIL) {
        return STEP_FAIL;
    }
    (void)s3_fail(req, S3_NoSuchKey, NULL);
    s3_error_detail(req, "Key", op->source);
    return STEP_FAIL;
}

static enum step_result rename_found(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct s3_request *req = &op->base;

    op->got = true;
    if (op->get.record == NULL) {
        return op->message.token.len > 0 ? STEP_NEXT : rename_no_source(op);
    }
    for (size_t i = 0; i < ARRAY_LEN(rename_actions); i++) {
        if (s3_check_key(req, rename_actions[i], req->bucket, op->source, op->get.record) ==
            STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

/* ---- Rename ---- */

static enum step_result rename_commit(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct s3_request *req = &op->base;

    op->copy_id = gateway_new_id(req->gateway);
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.source_key = s3_bytes(op->source);
    op->message.key = s3_bytes(req->key);
    op->message.copy_id = s3_bytes(slice_of(op->copy_id.bytes, EXTENT_ID_BYTES));
    op->message.user = s3_bytes(req->auth.user);
    return s3_write(req, &op->call, META_RENAME_OBJECT, &op->message.base, SLICE_EMPTY);
}

static enum step_result rename_reply(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->call.reply;

    if (reply->outcome == KIST__OUTCOME__NO_SUCH_KEY) {
        return rename_no_source(op);
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    if (reply->record == NULL) {
        return task_fail(task, RC_CORRUPT, "metad answered a rename without its record");
    }
    s3_reply_new_version(req, reply->record);
    return s3_reply_empty(req, 200);
}

static void rename_release(struct task *task)
{
    struct rename_object *op = rename_of(task);
    struct meta_client *meta = op->base.gateway->meta;

    if (op->got || op->get.record != NULL || op->get.marker != NULL) {
        meta->release(meta, &op->get);
        op->got = false;
        op->get.record = NULL;
        op->get.marker = NULL;
    }
}

const struct s3_handler rename_object = {
    .state_size = sizeof(struct rename_object),
    .flags = CHECKS_MORE,
    .steps =
        {
                {"check", rename_check},
                {"source", rename_source},
                {"found", rename_found},
                {"rename", rename_commit},
                {"reply", rename_reply},
                },
    .release = rename_release,
};
