/*
 * AppendObject: bytes behind those of an object, which becomes a new version of it. Three ways to
 * ask for it, and what each clears up:
 *
 *     x-amz-write-offset-bytes: N       AWS: N must be the size
 *     ?append&position=N                Ceph: likewise, in its own words
 *     Range: bytes=-1-                  ECS: wherever the end is
 *
 *     acl -> check -> look -> decide -> store -> commit -> reply
 *
 * `look` finds what is there, so that a wrong offset is told before the body is asked for; apply
 * decides it again. Only the new bytes are written, except where an inline body outgrows metad:
 * then the old ones go in front (write_path.prefix). The ETag is no MD5 of all bytes and says so by
 * "-<segments>"; CRCs of the whole are combined from the old one and that of the new bytes, other
 * checksums are dropped. Metadata, tags and ACL of the request count only when the object is new.
 */
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/codec/crc.h"
#include "common/crypto/hash.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lock.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/write_body.h"

enum append_form { APPEND_AWS = 0, APPEND_CEPH, APPEND_ECS };
enum append_phase { APPEND_WRITE = 0, APPEND_JUDGE, APPEND_LOOKED };

/* Of appends that do not care where the end is: others were faster so often. */
enum { APPEND_ATTEMPTS_MAX = 32 };

struct append_object {
    struct s3_request base;
    struct body_write write;
    struct meta_get get;
    bool got;
    enum append_form form;
    enum append_phase phase;
    unsigned attempts;
    uint64_t offset;
    Kist__AppendObject message;
    Kist__Record record;
    Kist__Conditions conditions;
    struct acl_request acl;
    struct extent_id copy_id;
    uint8_t etag[MD5_BYTES];
};

static struct append_object *append_of(struct task *task)
{
    return CONTAINER_OF(task, struct append_object, base.task);
}

static enum step_result append_acl(struct task *task)
{
    struct append_object *op = append_of(task);

    return s3_acl_from_request(&op->base, &op->acl);
}

/* ---- Check ---- */

static enum step_result append_bad_number(struct s3_request *req, const char *name,
                                          struct slice value)
{
    (void)s3_failf(req, S3_InvalidArgument, "%s must be a number of bytes.", name);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return STEP_FAIL;
}

static enum step_result append_read_form(struct append_object *op)
{
    struct s3_request *req = &op->base;
    struct slice offset = s3_header(req, "x-amz-write-offset-bytes");
    struct slice position = s3_param(req, "position");

    if (s3_has_param(req, "append")) {
        op->form = APPEND_CEPH;
        return slice_to_u64(position, LIMIT_OBJECT_BYTES, &op->offset)
                   ? STEP_NEXT
                   : append_bad_number(req, "position", position);
    }
    if (offset.data != NULL) {
        op->form = APPEND_AWS;
        return slice_to_u64(offset, LIMIT_OBJECT_BYTES, &op->offset)
                   ? STEP_NEXT
                   : append_bad_number(req, "x-amz-write-offset-bytes", offset);
    }
    op->form = APPEND_ECS;
    if (!slice_eq(s3_header(req, "range"), SLICE("bytes=-1-"))) {
        (void)s3_fail(req, S3_NotImplemented,
                      "Of the ranges of a PUT only bytes=-1- (append) is implemented.");
        s3_error_detail(req, "Header", SLICE("Range"));
        return STEP_FAIL;
    }
    return STEP_NEXT;
}

static enum step_result append_check(struct task *task)
{
    struct append_object *op = append_of(task);
    struct s3_request *req = &op->base;
    bool conditional;

    if (s3_has_param(req, "versionId")) {
        return s3_fail(req, S3_InvalidArgument, "This operation does not accept a version-id.");
    }
    if (append_read_form(op) == STEP_FAIL || s3_refuse_unsupported(req) == STEP_FAIL ||
        s3_write_conditions(req, &op->conditions, &conditional) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->message = (Kist__AppendObject)KIST__APPEND_OBJECT__INIT;
    op->message.conditions = conditional ? &op->conditions : NULL;
    op->record = (Kist__Record)KIST__RECORD__INIT;
    if (s3_record_from_request(req, &op->record) == STEP_FAIL ||
        s3_record_tags_and_lock(req, &op->record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return object_lock_needs_digest(req, &op->record);
}

/* ---- Look, decide ---- */

static enum step_result append_ask(struct append_object *op, bool want_body)
{
    struct s3_request *req = &op->base;
    struct meta_client *meta = req->gateway->meta;

    op->get = (struct meta_get){.bucket_id = req->bucket->id,
                                .generation = req->bucket->generation,
                                .key = req->key,
                                .want_body = want_body,
                                .arena = req->arena};
    return meta->get(meta, &op->get, &req->task);
}

static enum step_result append_look(struct task *task)
{
    return append_ask(append_of(task), true);
}

static void append_forget(struct append_object *op)
{
    struct meta_client *meta = op->base.gateway->meta;

    if (op->got || op->get.record != NULL || op->get.marker != NULL) {
        meta->release(meta, &op->get);
        op->got = false;
        op->get.record = NULL;
        op->get.marker = NULL;
    }
}

static bool append_has_layout(const Kist__Record *old)
{
    return old != NULL && old->layout_id.len > 0;
}

static enum step_result append_elsewhere(struct append_object *op, const Kist__Record *there)
{
    struct s3_request *req = &op->base;

    if (op->form != APPEND_CEPH) {
        return s3_fail(req, S3_InvalidWriteOffset, NULL);
    }
    (void)s3_fail(req, S3_PositionNotEqualToLength, NULL);
    s3_reply_header(
        req, "x-rgw-next-append-position",
        arena_printf(req->arena, "%llu", there != NULL ? (unsigned long long)there->size : 0ULL));
    return STEP_FAIL;
}

/* The CRCs of what is there: those of the new bytes are needed to go on with them. */
static uint32_t append_combining(const Kist__Record *old)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < old->n_checksums; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)old->checksums[i]->algorithm;

        if (algorithm < CHECKSUM_ALGORITHMS && checksum_combines(algorithm) &&
            old->checksums[i]->type == CHECKSUM_FULL_OBJECT) {
            mask |= 1U << algorithm;
        }
    }
    return mask;
}

static enum step_result append_begin_body(struct append_object *op)
{
    struct s3_request *req = &op->base;
    const struct http_request *request = &req->http->request;

    if (op->get.record == NULL) {
        return s3_write_body_begin(req, CHECKSUM_NONE, LIMIT_PUT_BYTES);
    }
    if (!request->has_length && !request->chunked) {
        return s3_fail(req, S3_MissingContentLength, NULL);
    }
    return s3_body_begin(req, true, append_combining(op->get.record), LIMIT_PUT_BYTES);
}

static enum step_result append_decide(struct task *task)
{
    struct append_object *op = append_of(task);
    const Kist__Record *old = op->get.record;
    uint64_t size = old != NULL ? old->size : 0;

    op->got = true;
    if (op->form == APPEND_ECS) {
        op->offset = size;
    } else if (op->offset != size) {
        return append_elsewhere(op, old);
    }
    if (old != NULL && (old->segments >= LIMIT_PARTS || old->piece_count >= LIMIT_PARTS)) {
        return s3_fail(&op->base, S3_TooManyParts, NULL);
    }
    if (old != NULL && old->inline_body && op->get.body.len != old->size) {
        return task_fail(task, RC_CORRUPT, "the inline body has another size");
    }
    return append_begin_body(op);
}

/* ---- Store ---- */

static enum step_result append_store(struct task *task)
{
    struct append_object *op = append_of(task);
    const Kist__Record *old = op->get.record;
    struct slice front = old != NULL && old->inline_body ? op->get.body : SLICE_EMPTY;

    return body_write_store_behind(&op->base, &op->write, front, !append_has_layout(old));
}

/* ---- Commit ---- */

static void append_etag(struct append_object *op, const Kist__Record *old)
{
    struct md5_hash md5;

    md5_init(&md5);
    md5_update(&md5, old->etag.data, old->etag.len);
    md5_update(&md5, op->base.payload.md5, MD5_BYTES);
    md5_final(&md5, op->etag);
    op->record.etag = s3_bytes(slice_of((const char *)op->etag, MD5_BYTES));
    op->record.segments = (old->segments > 0 ? old->segments : 1) + 1;
}

/* The CRC of `old` and then `len` bytes whose CRC `new` holds; `new` becomes it. */
static void append_combine(const Kist__Checksum *old, struct checksum_value *new, uint64_t len)
{
    const uint8_t *front = old->value.data;

    switch ((int)new->algorithm) {
    case CHECKSUM_CRC32:
        be32_put(new->bytes, crc32_combine_lengths(be32_get(front), be32_get(new->bytes), len));
        break;
    case CHECKSUM_CRC32C:
        be32_put(new->bytes, crc32c_combine(be32_get(front), be32_get(new->bytes), len));
        break;
    default:
        ASSERT(new->algorithm == CHECKSUM_CRC64NVME);
        be64_put(new->bytes, crc64nvme_combine(be64_get(front), be64_get(new->bytes), len));
        break;
    }
}

static void append_checksums(struct append_object *op, const Kist__Record *old)
{
    struct s3_request *req = &op->base;
    uint32_t combining = append_combining(old);
    uint64_t len = op->record.size - old->size;

    op->record.checksums = arena_alloc_raw(req->arena, (old->n_checksums + 1) * sizeof(void *));
    op->record.n_checksums = 0;
    for (size_t i = 0; i < old->n_checksums; i++) {
        enum checksum_algorithm algorithm = (enum checksum_algorithm)old->checksums[i]->algorithm;
        struct checksum_value value;

        if (algorithm >= CHECKSUM_ALGORITHMS || (combining >> algorithm & 1) == 0) {
            continue;
        }
        value = req->payload.checksums[algorithm];
        if (value.algorithm != algorithm ||
            old->checksums[i]->value.len != checksum_bytes(algorithm)) {
            continue; /* somebody else's version than that of `look`: not computed */
        }
        append_combine(old->checksums[i], &value, len);
        op->record.checksums[op->record.n_checksums++] =
            s3_checksum_new(req->arena, &value, CHECKSUM_FULL_OBJECT);
    }
}

/* Fills the record from what was written and from what is there now. */
static enum step_result append_fill(struct append_object *op)
{
    struct s3_request *req = &op->base;
    const Kist__Record *old = op->get.record;
    struct piece_list longer = body_write_record(req, &op->write, &op->record);
    uint64_t bytes = op->write.path.size - op->write.path.prefix.len;

    op->record.segments = 0;
    if (old != NULL) {
        op->record.size = old->size + bytes;
        append_checksums(op, old);
        append_etag(op, old);
    }
    if (op->record.size > LIMIT_OBJECT_BYTES) {
        return s3_fail(req, S3_EntityTooLarge, NULL);
    }
    op->message.pieces = longer.pieces;
    op->message.n_pieces = longer.count;
    return s3_acl_to_record(req, &op->acl, &op->record);
}

static enum step_result append_send(struct append_object *op)
{
    struct s3_request *req = &op->base;

    if (append_fill(op) == STEP_FAIL) {
        return STEP_FAIL;
    }
    op->copy_id = gateway_new_id(req->gateway);
    op->message.bucket_id = req->bucket->id;
    op->message.generation = req->bucket->generation;
    op->message.key = s3_bytes(req->key);
    op->message.offset = op->offset;
    op->message.record = &op->record;
    op->message.copy_id = s3_bytes(slice_of(op->copy_id.bytes, EXTENT_ID_BYTES));
    op->message.stamp = op->get.record != NULL ? op->get.record->stamp : 0;
    return body_write_commit(req, &op->write, META_APPEND_OBJECT, &op->message.base,
                             op->record.inline_body ? op->write.path.body : SLICE_EMPTY);
}

static bool append_lost_race(const Kist__Reply *reply)
{
    return reply->outcome == KIST__OUTCOME__INVALID_OFFSET ||
           (reply->outcome == KIST__OUTCOME__PRECONDITION_FAILED && reply->text.len > 0);
}

/* Do the bytes that were written still fit behind what is there now? */
static bool append_still_fits(const struct append_object *op)
{
    const struct write_path *path = &op->write.path;
    const Kist__Record *old = op->get.record;
    uint64_t size = old != NULL ? old->size : 0;

    if (path->is_inline) {
        return !append_has_layout(old) &&
               size + path->body.len <= op->base.gateway->config->inline_bytes_max;
    }
    return path->prefix.len == 0 && (append_has_layout(old) || size == 0);
}

static enum step_result append_conflict(struct append_object *op)
{
    return s3_fail(&op->base, S3_ConditionalRequestConflict, NULL);
}

/* Waits, and then this step again. */
static enum step_result append_wait(enum step_result result)
{
    if (result == STEP_WAIT) {
        return STEP_AGAIN;
    }
    return result == STEP_NEXT ? STEP_REPEAT : result;
}

/* The end has moved: where it is now is looked up, and the same bytes are committed behind it. */
static enum step_result append_commit(struct task *task)
{
    struct append_object *op = append_of(task);
    const Kist__Reply *reply = op->write.call.reply;
    enum append_phase phase = op->phase;

    op->phase = APPEND_WRITE;
    if (phase == APPEND_LOOKED) {
        op->got = true;
        op->offset = op->get.record != NULL ? op->get.record->size : 0;
        if (!append_still_fits(op)) {
            return append_conflict(op);
        }
    } else if (phase == APPEND_JUDGE && reply != NULL) {
        if (op->form != APPEND_ECS || !append_lost_race(reply) ||
            op->attempts == APPEND_ATTEMPTS_MAX) {
            return STEP_NEXT;
        }
        op->attempts += 1;
        append_forget(op);
        op->phase = APPEND_LOOKED;
        return append_wait(append_ask(op, false));
    }
    op->phase = APPEND_JUDGE;
    return append_wait(append_send(op));
}

/* ---- Reply ---- */

static enum step_result append_fail(struct append_object *op, const Kist__Reply *reply)
{
    if (reply->outcome == KIST__OUTCOME__INVALID_OFFSET && op->form != APPEND_ECS) {
        return append_elsewhere(op, reply->record);
    }
    if (append_lost_race(reply)) {
        return append_conflict(op);
    }
    if (reply->outcome == KIST__OUTCOME__ENTITY_TOO_LARGE && reply->text.len > 0) {
        return s3_fail(&op->base, S3_TooManyParts, NULL);
    }
    return s3_fail_outcome(&op->base, reply);
}

static enum step_result append_reply(struct task *task)
{
    struct append_object *op = append_of(task);
    struct s3_request *req = &op->base;
    const Kist__Reply *reply = op->write.call.reply;
    struct slice size;

    op->phase = APPEND_WRITE;
    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return append_fail(op, reply);
    }
    if (reply->record == NULL) {
        return task_fail(task, RC_CORRUPT, "metad answered an append without its record");
    }
    size = arena_printf(req->arena, "%llu", (unsigned long long)reply->record->size);
    s3_reply_header(req, "ETag", s3_record_etag(req->arena, reply->record, true));
    s3_reply_checksums(req, reply->record->checksums, reply->record->n_checksums, 0);
    s3_reply_header(req, "x-amz-object-size", size);
    if (op->form == APPEND_CEPH) {
        s3_reply_header(req, "x-rgw-next-append-position", size);
    } else if (op->form == APPEND_ECS) {
        s3_reply_header(req, "x-emc-previous-object-size",
                        arena_printf(req->arena, "%llu", (unsigned long long)op->offset));
    }
    s3_reply_new_version(req, reply->record);
    s3_reply_expiration(req, reply->record);
    return s3_reply_empty(req, 200);
}

static void append_abort(struct task *task)
{
    body_write_abort(S3_REQUEST_OF(task), &append_of(task)->write);
}

static void append_release(struct task *task)
{
    append_forget(append_of(task));
}

const struct s3_handler append_object = {
    .state_size = sizeof(struct append_object),
    .flags = BODY_STREAM,
    .steps =
        {
                {"acl", append_acl},
                {"check", append_check},
                {"look", append_look},
                {"decide", append_decide},
                {"store", append_store},
                {"commit", append_commit},
                {"reply", append_reply},
                },
    .abort = append_abort,
    .release = append_release,
};
