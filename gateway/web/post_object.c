/*
 * POST of a form (PostObject).
 *
 *     check ─> fields ─> forward ─> PutObject: judged again, by the form's own signature
 *
 * Reads the body up to its file, which PutObject then reads through form_source.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/web/form.h"

enum {
    /* Fields, and the heads of their parts. */
    POST_HEAD_BYTES = LIMIT_FORM_BYTES + 44 * 1024,
    POST_READ_BYTES = 8192
};

struct post_object {
    struct s3_request base;
    struct form *form; /* req->form from `forward` on */
    struct http_read read;
    char *head; /* CR LF and what has come of the body */
    size_t head_len;
    bool reading;
};

static struct post_object *post_of(struct task *task)
{
    return CONTAINER_OF(task, struct post_object, base.task);
}

static void post_read_done(struct http_read *read)
{
    struct post_object *op = CONTAINER_OF(read, struct post_object, read);

    task_resume(&op->base.task, RC_OK);
}

static enum step_result post_check(struct task *task)
{
    struct post_object *op = post_of(task);
    struct s3_request *req = &op->base;
    const struct http_request *request = &req->http->request;
    struct slice boundary = form_boundary(req->arena, s3_header(req, "content-type"));

    if (boundary.data == NULL) {
        (void)s3_fail(req, S3_PreconditionFailed, NULL);
        s3_error_detail(req, "Condition",
                        SLICE("Bucket POST must be of the enclosure-type multipart/form-data"));
        return STEP_FAIL;
    }
    if (!request->has_length && !request->chunked) {
        return s3_fail(req, S3_MissingContentLength, NULL);
    }
    if (boundary.len == 0) {
        return s3_fail(req, S3_MalformedPOSTRequest, NULL);
    }
    op->form = arena_alloc(req->arena, sizeof(*op->form));
    form_parser_init(&op->form->parser, req->arena, boundary);
    op->head = arena_alloc_raw(req->arena, POST_HEAD_BYTES);
    op->head[0] = '\r'; /* so that the first delimiter looks like the others */
    op->head[1] = '\n';
    op->head_len = 2;
    op->read.done = post_read_done;
    return STEP_NEXT;
}

static enum step_result post_refuse(struct post_object *op, enum form_result result)
{
    struct s3_request *req = &op->base;

    switch (result) {
    case FORM_NO_FILE:
        (void)s3_fail(req, S3_InvalidArgument,
                      "POST requires exactly one file upload per request.");
        s3_error_detail(req, "ArgumentName", SLICE("file"));
        s3_error_detail(req, "ArgumentValue", SLICE("0"));
        return STEP_FAIL;
    case FORM_DUPLICATE:
        (void)s3_fail(req, S3_InvalidArgument, "A field of the form was given more than once.");
        s3_error_detail(req, "ArgumentName", op->form->parser.duplicate);
        return STEP_FAIL;
    case FORM_TOO_LARGE:
        (void)s3_fail(req, S3_MaxPostPreDataLengthExceededError, NULL);
        s3_error_detail(req, "MaxPostPreDataLengthBytes",
                        arena_printf(req->arena, "%d", LIMIT_FORM_BYTES));
        return STEP_FAIL;
    case FORM_MORE:
    case FORM_FILE:
    case FORM_MALFORMED:
        break;
    }
    return s3_fail(req, S3_MalformedPOSTRequest, NULL);
}

static enum step_result post_fields(struct task *task)
{
    struct post_object *op = post_of(task);
    struct s3_request *req = &op->base;
    enum form_result result;
    size_t room;

    if (op->reading) {
        op->reading = false;
        if (op->read.rc != RC_OK) {
            return s3_fail(req, op->read.rc == RC_TIMEOUT ? S3_RequestTimeout : S3_IncompleteBody,
                           NULL);
        }
        if (op->read.len == 0) {
            return s3_fail(req, S3_MalformedPOSTRequest, NULL);
        }
        op->head_len += op->read.len;
    }
    result = form_parser_run(&op->form->parser, slice_of(op->head, op->head_len));
    if (result == FORM_FILE) {
        return STEP_NEXT;
    }
    if (result != FORM_MORE) {
        return post_refuse(op, result);
    }
    room = POST_HEAD_BYTES - op->head_len;
    if (room == 0) {
        return post_refuse(op, FORM_TOO_LARGE);
    }
    op->reading = true;
    return http_body_read(req->http, &op->read, op->head + op->head_len,
                          room < POST_READ_BYTES ? room : POST_READ_BYTES)
               ? STEP_REPEAT
               : STEP_AGAIN;
}

static enum step_result post_forward(struct task *task)
{
    struct post_object *op = post_of(task);
    struct s3_request *req = &op->base;
    struct form *form = op->form;
    size_t at = form->parser.at;

    form_source_init(&form->source, req->http, slice_of(op->head + at, op->head_len - at),
                     form->parser.delimiter);
    req->form = form;
    if (form_apply(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return s3_forward(req, &put_object);
}

const struct s3_handler post_object = {
    .state_size = sizeof(struct post_object),
    .flags = BODY_STREAM | AUTH_LATER | NO_BUCKET_LOOKUP,
    .steps =
        {
                {"check", post_check},
                {"fields", post_fields},
                {"forward", post_forward},
                },
};
