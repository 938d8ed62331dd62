/*
 * GetObject and HeadObject.
 *
 *     check -> read -> part -> decide -> send -> end
 *
 * `read` is one lookup in metad, with the body when it is inline: the hot path goes on without
 * waiting and answers from the store's own memory, which is held until the reply is written. Other
 * bodies come by read_path, verified.
 */
#include "common/base/limits.h"
#include "gateway/object/read_path.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/lifecycle_headers.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/object_lookup.h"
#include "gateway/s3/range.h"
#include "gateway/s3/unsupported.h"
#include "gateway/s3/veeam.h"

struct get_object {
    struct s3_request base;
    struct object_lookup find;
    struct slice version;
    struct meta_part_range part;
    struct read_path path;
    struct http_write write;
    uint64_t part_number; /* 0: not asked */
    uint64_t offset;
    uint64_t length;
    int status;
    bool is_head;
};

static struct get_object *get_of(struct task *task)
{
    return CONTAINER_OF(task, struct get_object, base.task);
}

/* ---- Check ---- */

static enum step_result get_check(struct task *task)
{
    struct get_object *op = get_of(task);
    struct s3_request *req = &op->base;
    struct slice number;

    op->is_head = req->http->request.method == HTTP_HEAD;
    if (s3_refuse_encryption(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (veeam_is_document(req->key) && !req->object_decides) {
        return veeam_reply(req);
    }
    if (req->param_count == 0) {
        return STEP_NEXT;
    }
    if (s3_version_param(req, &op->version) == STEP_FAIL) {
        return STEP_FAIL;
    }
    number = s3_param(req, "partNumber");
    if (number.data == NULL) {
        return STEP_NEXT;
    }
    if (!slice_to_u64(number, LIMIT_PARTS, &op->part_number) || op->part_number == 0) {
        (void)s3_failf(req, S3_InvalidArgument,
                       "Part number must be an integer between 1 and %d, inclusive.", LIMIT_PARTS);
        s3_error_detail(req, "ArgumentName", SLICE("partNumber"));
        s3_error_detail(req, "ArgumentValue", number);
        return STEP_FAIL;
    }
    if (s3_header(req, "range").data != NULL) {
        return s3_fail(req, S3_InvalidRequest,
                       "Cannot specify both Range header and partNumber query parameter");
    }
    return STEP_NEXT;
}

static enum step_result get_read(struct task *task)
{
    struct get_object *op = get_of(task);

    return object_lookup_start(&op->base, &op->find, op->version, !op->is_head);
}

/* ---- Part: where it lies, for ?partNumber= ---- */

static enum step_result get_no_part(struct s3_request *req, const Kist__Record *record)
{
    (void)s3_fail(req, S3_InvalidPartNumber, NULL);
    s3_error_detail(req, "PartNumberRequested", s3_param(req, "partNumber"));
    s3_error_detail(
        req, "ActualPartCount",
        arena_printf(req->arena, "%u", record->part_count > 0 ? record->part_count : 1));
    return STEP_FAIL;
}

static enum step_result get_part(struct task *task)
{
    struct get_object *op = get_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record;
    struct meta_client *meta = req->gateway->meta;

    if (object_lookup_found(req, &op->find) == STEP_FAIL) {
        return STEP_FAIL;
    }
    record = op->find.get.record;
    if (op->part_number == 0) {
        return STEP_NEXT;
    }
    if (op->part_number > (record->part_count > 0 ? record->part_count : 1)) {
        return get_no_part(req, record);
    }
    if (record->part_count == 0) {
        return STEP_NEXT;
    }
    req->not_found = S3_InvalidPartNumber;
    s3_part_range_of(req, record, (uint32_t)op->part_number, &op->part);
    return meta->part_range(meta, &op->part, task);
}

/* ---- Decide: conditions, range, status ---- */

static enum step_result get_not_modified(struct s3_request *req, const Kist__Record *record)
{
    s3_reply_validators(req, record);
    s3_reply_version(req, record);
    return s3_reply_empty(req, 304);
}

static enum step_result get_unsatisfiable(struct s3_request *req, const Kist__Record *record)
{
    (void)s3_fail(req, S3_InvalidRange, NULL);
    s3_error_detail(req, "RangeRequested", s3_header(req, "range"));
    s3_error_detail(req, "ActualObjectSize",
                    arena_printf(req->arena, "%llu", (unsigned long long)record->size));
    s3_reply_header(req, "Content-Range",
                    arena_printf(req->arena, "bytes */%llu", (unsigned long long)record->size));
    return STEP_FAIL;
}

static enum condition_result get_conditions(struct s3_request *req,
                                            const struct condition_target *target)
{
    struct env *env = req->gateway->env;
    struct read_conditions conditions = {
        .if_match = s3_header(req, "if-match"),
        .if_none_match = s3_header(req, "if-none-match"),
        .if_modified_since = s3_header(req, "if-modified-since"),
        .if_unmodified_since = s3_header(req, "if-unmodified-since"),
    };

    return read_conditions_check(&conditions, target, env->clock->wall_ns(env) / 1000000000U);
}

static enum step_result get_range(struct get_object *op, const struct condition_target *target)
{
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->find.get.record;
    struct slice header = s3_header(req, "range");
    struct env *env = req->gateway->env;
    struct range range = {.kind = RANGE_WHOLE, .length = record->size};

    if (op->part_number > 0) {
        range.kind = record->size > 0 ? RANGE_PART : RANGE_WHOLE;
        if (record->part_count > 0) {
            range.offset = op->part.offset;
            range.length = op->part.size;
            s3_reply_header(req, "x-amz-mp-parts-count",
                            arena_printf(req->arena, "%u", record->part_count));
        }
        if (range.length == 0) {
            range.kind = RANGE_WHOLE; /* an empty part has no Content-Range */
        }
    } else if (header.data != NULL && condition_if_range(s3_header(req, "if-range"), target,
                                                         env->clock->wall_ns(env) / 1000000000U)) {
        range = range_parse(header, record->size);
    }
    if (range.kind == RANGE_UNSATISFIABLE) {
        return get_unsatisfiable(req, record);
    }
    ASSERT(range.offset <= record->size && range.length <= record->size - range.offset);
    op->offset = range.offset;
    op->length = range.length;
    op->status = range.kind == RANGE_PART ? 206 : 200;
    if (range.kind == RANGE_PART) {
        s3_reply_header(req, "Content-Range",
                        arena_printf(req->arena, "bytes %llu-%llu/%llu",
                                     (unsigned long long)range.offset,
                                     (unsigned long long)(range.offset + range.length - 1),
                                     (unsigned long long)record->size));
    }
    return STEP_NEXT;
}

/* Of the object's algorithm, when the upload asked for it: parts of one that asked for none may
 * have checksums of their own besides ours, and AWS shows neither. */
static void get_part_checksum(struct get_object *op)
{
    const Kist__Record *record = op->find.get.record;
    const Kist__PartSummary *part = op->part.part;

    if (part != NULL && part->n_checksums == 1 && record->n_checksums > 0 &&
        part->checksums[0]->algorithm == record->checksums[0]->algorithm) {
        s3_reply_checksums(&op->base, part->checksums, 1, 0);
    }
}

/* Of what is sent: the whole object's, or the part's when they are what the object's is made of; a
 * piece of an object has none. */
static void get_checksums(struct get_object *op)
{
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->find.get.record;

    if (!slice_eq_nocase(s3_header(req, "x-amz-checksum-mode"), SLICE("ENABLED"))) {
        return;
    }
    if (op->part_number > 0 && record->part_count > 0) {
        get_part_checksum(op);
    } else if (op->length == record->size) {
        s3_reply_checksums(req, record->checksums, record->n_checksums, record->part_count);
    }
}

static enum step_result get_decide(struct task *task)
{
    struct get_object *op = get_of(task);
    struct s3_request *req = &op->base;
    const Kist__Record *record = op->find.get.record;
    struct condition_target target = {
        .etag = s3_record_etag(req->arena, record, false),
        .modified_s = record->stamp / 1000000000U,
    };
    enum condition_result result = get_conditions(req, &target);

    if (result == CONDITION_NOT_MODIFIED) {
        return get_not_modified(req, record);
    }
    if (result == CONDITION_FAILED) {
        return s3_fail(req, S3_PreconditionFailed, NULL);
    }
    if (get_range(op, &target) == STEP_FAIL || s3_reply_record(req, record) == STEP_FAIL) {
        return STEP_FAIL;
    }
    get_checksums(op);
    s3_reply_version_state(req, record);
    if (op->find.get.is_current) {
        s3_reply_expiration(req, record);
    }
    if (op->is_head || op->length == 0) {
        s3_reply_begin(req, op->status, op->length);
        return s3_reply_streamed(req);
    }
    return STEP_NEXT;
}

/* ---- Send ---- */

static void get_written(struct http_write *write)
{
    struct get_object *op = CONTAINER_OF(write, struct get_object, write);

    task_resume(&op->base.task, write->rc);
}

static enum step_result get_send_inline(struct get_object *op)
{
    struct s3_request *req = &op->base;
    struct slice body = slice_of(op->find.get.body.data + op->offset, (size_t)op->length);

    if (op->find.get.body.len != op->find.get.record->size) {
        return task_fail(&req->task, RC_CORRUPT, "the inline body has another size");
    }
    s3_reply_begin(req, op->status, op->length);
    op->write.done = get_written;
    if (!http_reply_write(req->http, &op->write, &body, 1)) {
        return STEP_WAIT;
    }
    return op->write.rc == RC_OK ? STEP_NEXT : task_fail(&req->task, op->write.rc, "write reply");
}

static void get_begin(struct read_path *path)
{
    struct get_object *op = CONTAINER_OF(path, struct get_object, path);

    s3_reply_begin(&op->base, op->status, op->length);
}

static enum step_result get_send(struct task *task)
{
    struct get_object *op = get_of(task);
    struct s3_request *req = &op->base;

    req->not_found = S3_OK;
    if (op->find.get.record->inline_body) {
        return get_send_inline(op);
    }
    op->path = (struct read_path){
        .gateway = req->gateway,
        .view = req->view,
        .arena = req->arena,
        .bucket_id = req->bucket->id,
        .key = req->key,
        .record = op->find.get.record,
        .offset = op->offset,
        .length = op->length,
        .http = req->http,
        .begin = get_begin,
    };
    return read_path_start(&op->path, task);
}

static enum step_result get_end(struct task *task)
{
    return s3_reply_streamed(S3_REQUEST_OF(task));
}

static void get_release(struct task *task)
{
    struct get_object *op = get_of(task);

    object_lookup_release(&op->base, &op->find);
}

#define GET_STEPS                                                                                  \
    {                                                                                              \
        {"check",  get_check }, \
        {"read",   get_read  }, \
        {"part",   get_part  },            \
        {"decide", get_decide}, \
        {"send",   get_send  }, \
        {"end",    get_end   },          \
}

const struct s3_handler get_object = {
    .state_size = sizeof(struct get_object),
    .flags = CHECKS_OBJECT,
    .steps = GET_STEPS,
    .release = get_release,
};

const struct s3_handler head_object = {
    .state_size = sizeof(struct get_object),
    .flags = CHECKS_OBJECT,
    .steps = GET_STEPS,
    .release = get_release,
};
#undef GET_STEPS
