/*
 * CopyObject: metadata only, at any size.
 *
 *     acl -> check -> find -> confirm -> look -> digest -> copy -> reply
 *
 * One command of metad: it finds the source, decides the conditions of both ends, and makes a
 * record that shares the source's layout (or its inline body). No data is read or written; only a
 * client that asks for a checksum algorithm that the source does not have makes its bytes be read
 * once (`digest`). `look` finds out which version is copied, because the reply names it; where the
 * source has versions the command names it too. A new judgement begins again at `check`: both
 * buckets must be looked up anew.
 */
#include "gateway/s3/acl_request.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/copy_source.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/source_digest.h"
#include "gateway/s3/unsupported.h"

struct copy_object {
    struct s3_request base;
    struct copy_source source;
    struct meta_write call;
    struct extent_id copy_id;
    Kist__CopyObject message;
    Kist__Record record;
    Kist__Conditions conditions;
    Kist__Conditions source_conditions;
    Kist__Header *redirect;            /* the request's, beside metadata that is copied */
    enum checksum_algorithm algorithm; /* asked for by x-amz-checksum-algorithm */
    struct source_digest digest;
    Kist__Checksum *checksums[1];
    bool digested;
    struct acl_request acl;
};

static struct copy_object *copy_of(struct task *task)
{
    return CONTAINER_OF(task, struct copy_object, base.task);
}

static enum step_result copy_acl(struct task *task)
{
    struct copy_object *op = copy_of(task);

    return s3_acl_from_request(&op->base, &op->acl);
}

/* ---- Check ---- */

/* COPY or REPLACE; absent: COPY. */
static enum step_result copy_directive(struct s3_request *req, const char *header, const char *text,
                                       protobuf_c_boolean *replace)
{
    struct slice directive = s3_header(req, header);

    *replace = slice_eq(directive, SLICE("REPLACE"));
    if (directive.len == 0 || *replace || slice_eq(directive, SLICE("COPY"))) {
        return STEP_NEXT;
    }
    return s3_fail_argument(req, header, directive, text);
}

static enum step_result copy_check_metadata(struct copy_object *op)
{
    struct s3_request *req = &op->base;

    if (copy_directive(req, "x-amz-metadata-directive", "Unknown metadata directive.",
                       &op->message.replace) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (s3_record_from_request(req, &op->record) == STEP_FAIL) {
        return STEP_FAIL; /* also of headers that a COPY does not keep */
    }
    if (!op->message.replace) {
        op->redirect = s3_record_redirect(&op->record);
        op->record = (Kist__Record)KIST__RECORD__INIT;
        s3_record_identity(req, &op->record);
    }
    return STEP_NEXT;
}

static enum step_result copy_check_tags(struct copy_object *op)
{
    struct s3_request *req = &op->base;

    if (copy_directive(req, "x-amz-tagging-directive", "Unknown tagging directive.",
                       &op->message.replace_tags) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_record_tags_and_lock(req, &op->record);
}

static enum step_result copy_check_algorithm(struct copy_object *op)
{
    struct slice name = s3_header(&op->base, "x-amz-checksum-algorithm");

    if (name.len == 0) {
        return STEP_NEXT;
    }
    op->algorithm = checksum_by_name(name);
    return op->algorithm != CHECKSUM_NONE
               ? STEP_NEXT
               : s3_fail(
                     &op->base, S3_InvalidRequest,
                     "Checksum algorithm provided is unsupported. Please try again with any of the "
                     "valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, "
                     "XXHASH128, XXHASH3, XXHASH64]");
}

/* AWS refuses a copy onto itself that would change nothing. An older version made the newest again
 * does change something. */
static bool copy_is_idle(const struct copy_object *op)
{
    const struct s3_request *req = &op->base;

    return !op->message.replace && op->redirect == NULL && op->source.version.len == 0 &&
           slice_eq(op->source.bucket_name, req->bucket_name) &&
           slice_eq(op->source.key, req->key) && s3_header(req, "x-amz-storage-class").len == 0;
}

static enum step_result copy_check(struct task *task)
{
    struct copy_object *op = copy_of(task);
    struct s3_request *req = &op->base;
    bool conditional;

    op->message = (Kist__CopyObject)KIST__COPY_OBJECT__INIT;
    op->record = (Kist__Record)KIST__RECORD__INIT;
    if (s3_refuse_unsupported(req) == STEP_FAIL ||
        copy_source_parse(req, &op->source) == STEP_FAIL || copy_check_metadata(op) == STEP_FAIL ||
        copy_check_tags(op) == STEP_FAIL || copy_check_algorithm(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (copy_is_idle(op)) {
        return s3_fail(
            req, S3_InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect "
            "location or encryption attributes.");
    }
    if (s3_write_conditions(req, &op->conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.conditions = conditional ? &op->conditions : NULL;
    if (s3_source_conditions(req, &op->source_conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message.source_conditions = conditional ? &op->source_conditions : NULL;
    return STEP_NEXT;
}

static enum step_result copy_find(struct task *task)
{
    return copy_source_find(&copy_of(task)->base, &copy_of(task)->source);
}

static enum step_result copy_confirm(struct task *task)
{
    return copy_source_confirm(&copy_of(task)->base, &copy_of(task)->source);
}

/* ---- Look, digest: a checksum that the source does not have needs its bytes ---- */

static enum step_result copy_look(struct task *task)
{
    struct copy_object *op = copy_of(task);

    return copy_source_look(&op->base, &op->source, op->algorithm != CHECKSUM_NONE);
}

static bool copy_has_algorithm(const struct copy_object *op)
{
    const Kist__Record *record = op->source.get.record;

    if (op->algorithm == CHECKSUM_NONE) {
        return true;
    }
    for (size_t i = 0; i < record->n_checksums; i++) {
        if (record->checksums[i]->algorithm == (uint32_t)op->algorithm) {
            return true;
        }
    }
    return false;
}

/* May the caller tag what he is about to make? It has no tags of its own yet. */
static bool copy_may_tag(struct s3_request *req)
{
    bool known = req->object_known;
    bool may;

    req->object_known = true;
    may = s3_allowed_key(req, "s3:PutObjectTagging", req->bucket, req->key);
    req->object_known = known;
    return may;
}

/* Tags go along only for who may read them there and put them here; else AWS refuses to copy what
 * has any. */
static enum step_result copy_tag_rights(struct copy_object *op)
{
    struct s3_request *req = &op->base;
    const struct copy_source *source = &op->source;
    const char *reads =
        source->version.len > 0 ? "s3:GetObjectVersionTagging" : "s3:GetObjectTagging";
    const Kist__Record *record = source->get.record;

    if (op->message.replace_tags ||
        (s3_allowed_key(req, reads, source->bucket, source->key) && copy_may_tag(req))) {
        return STEP_NEXT;
    }
    if (record->n_tags == 0) {
        op->message.replace_tags = true; /* nor do those that it gets meanwhile */
        return STEP_NEXT;
    }
    if (s3_check_key(req, reads, source->bucket, source->key, record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return copy_may_tag(req) ? STEP_NEXT : s3_fail(req, S3_AccessDenied, NULL);
}

/* Where the version itself (its ACL, its tags) let the caller in, it is that one or none. */
static bool copy_is_bound(const struct copy_object *op)
{
    const struct s3_request *req = &op->base;
    const struct copy_source *source = &op->source;
    const char *reads = source->version.len > 0 ? "s3:GetObjectVersion" : "s3:GetObject";

    return (req->auth.anonymous || !slice_eq(req->auth.user, s3_slice(source->bucket->owner))) &&
           !s3_allowed_key(req, reads, source->bucket, source->key);
}

static enum step_result copy_digest(struct task *task)
{
    struct copy_object *op = copy_of(task);
    const Kist__Record *record;

    if (copy_source_found(&op->base, &op->source) == STEP_FAIL ||
        copy_tag_rights(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (copy_is_bound(op)) {
        op->message.source_stamp = op->source.get.record->stamp;
    }
    record = op->source.get.record;
    if (copy_has_algorithm(op) || record->size > op->base.gateway->config->copy_bytes_max) {
        return STEP_NEXT;
    }
    op->digested = true;
    op->digest = (struct source_digest){
        .get = &op->source.get,
        .view = op->base.view,
        .length = record->size,
        .algorithm = op->algorithm,
    };
    return source_digest_start(&op->base, &op->digest);
}

/* ---- Copy ---- */

/* A redirect of the source is never copied, one of the request is kept whatever the directive
 * (AWS): then the metadata that was looked up goes into the command, for that version alone. */
static void copy_redirect(struct copy_object *op)
{
    const Kist__Record *source = op->source.get.record;
    Kist__Header *old = s3_record_redirect(source);

    if (op->message.replace || (op->redirect == NULL && old == NULL)) {
        return;
    }
    op->record.content_type = source->content_type;
    op->record.metadata = source->metadata;
    op->record.n_metadata = source->n_metadata;
    op->record.headers =
        arena_alloc_raw(op->base.arena, (source->n_headers + 1) * sizeof(*op->record.headers));
    for (size_t i = 0; i < source->n_headers; i++) {
        if (source->headers[i] != old) {
            op->record.headers[op->record.n_headers++] = source->headers[i];
        }
    }
    if (op->redirect != NULL) {
        op->record.headers[op->record.n_headers++] = op->redirect;
    }
    op->message.replace = true;
    op->message.source_stamp = source->stamp;
}

static enum step_result copy_commit(struct task *task)
{
    struct copy_object *op = copy_of(task);
    struct s3_request *req = &op->base;

    if (op->digested) {
        source_digest_finish(&op->digest);
        op->checksums[0] = s3_checksum_new(req->arena, &op->digest.value, CHECKSUM_FULL_OBJECT);
        op->record.checksums = op->checksums;
        op->record.n_checksums = 1;
        op->message.source_stamp = op->source.get.record->stamp; /* of the bytes that were read */
    }
    if (s3_acl_to_record(req, &op->acl, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    copy_redirect(op);
    op->copy_id = gateway_new_id(req->gateway);
    op->message.source_bucket_id = op->source.bucket->id;
    op->message.source_generation = op->source.bucket->generation;
    op->message.source_key = s3_bytes(op->source.key);
    op->message.source_version = s3_bytes(copy_source_version(req, &op->source));
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.copy_id = s3_bytes(slice_of(op->copy_id.bytes, EXTENT_ID_BYTES));
    op->message.record = &op->record;
    op->message.size_max = req->gateway->config->copy_bytes_max;
    return s3_write(req, &op->call, META_COPY_OBJECT, &op->message.base, SLICE_EMPTY);
}

static enum step_result copy_reply(struct task *task)
{
    struct copy_object *op = copy_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->call.reply;
    const Kist__Record *record = reply->record;
    struct xml_writer xml;

    if ((reply->outcome == KIST__OUTCOME__NO_SUCH_KEY && op->conditions.if_match.len == 0) ||
        reply->outcome == KIST__OUTCOME__NO_SUCH_VERSION) { /* deleted since the look */
        (void)s3_fail(req, S3_NoSuchKey, NULL);
        s3_error_detail(req, "Key", op->source.key);
        return STEP_FAIL;
    }
    if (reply->outcome == KIST__OUTCOME__PRECONDITION_FAILED && reply->text.len > 0) {
        return s3_fail(req, S3_OperationAborted, NULL); /* the source changed after it was read */
    }
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return s3_fail_outcome(req, reply);
    }
    if (record == NULL) {
        return task_fail(task, RC_CORRUPT, "metad answered a copy without its record");
    }
    copy_source_reply(req, &op->source);
    s3_reply_new_version(req, record);
    s3_reply_expiration(req, record);
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "CopyObjectResult", XML_NS_S3);
    xml_writer_raw(&xml, "LastModified", s3_iso8601(req->arena, record->stamp));
    xml_writer_quoted(&xml, "ETag", s3_record_etag(req->arena, record, false));
    if (record->n_checksums > 0) {
        xml_writer_str(&xml, "ChecksumType", s3_checksum_type_name(record->checksums[0]->type));
    }
    s3_xml_checksums(req, &xml, record->checksums, record->n_checksums, record->part_count);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static void copy_release(struct task *task)
{
    struct copy_object *op = copy_of(task);

    source_digest_release(&op->digest);
    copy_source_release(&op->base, &op->source);
}

const struct s3_handler copy_object = {
    .state_size = sizeof(struct copy_object),
    .flags = CHECKS_MORE | KEEPS_ALIVE,
    .steps =
        {
                {"acl", copy_acl},
                {"check", copy_check},
                {"find", copy_find},
                {"confirm", copy_confirm},
                {"look", copy_look},
                {"digest", copy_digest},
                {"copy", copy_commit},
                {"reply", copy_reply},
                },
    .release = copy_release,
};
