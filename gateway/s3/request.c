/* What a handler asks of its request. */
#include "common/base/limits.h"
#include "gateway/s3/op.h"
#include "gateway/web/form.h"

struct slice s3_param(const struct s3_request *req, const char *name)
{
    for (uint32_t i = 0; i < req->param_count; i++) {
        if (slice_eq_str(req->params[i].name, name)) {
            return req->params[i].value;
        }
    }
    return SLICE_EMPTY;
}

bool s3_has_param(const struct s3_request *req, const char *name)
{
    return s3_param(req, name).data != NULL;
}

struct slice s3_header(const struct s3_request *req, const char *lower_case_name)
{
    return http_header_get(&req->http->request, lower_case_name);
}

enum step_result s3_body_begin(struct s3_request *req, bool md5, uint32_t also, uint64_t length_max)
{
    const char *text = NULL;
    struct payload_options options = {
        .auth = &req->auth, .md5 = md5, .also = also, .length_max = length_max};
    enum s3_error error;

    if (req->form != NULL) {
        options.source = &req->form->source.base;
        options.length_min = req->form->limits.length_min;
        options.length_max =
            req->form->limits.length_max < length_max ? req->form->limits.length_max : length_max;
    }
    error = payload_init(&req->payload, req->http, &options, &text);
    req->body_begun = true;
    return error == S3_OK ? STEP_NEXT : s3_fail(req, error, text);
}

enum step_result s3_write(struct s3_request *req, struct meta_write *call,
                          enum meta_command command, const ProtobufCMessage *message,
                          struct slice body)
{
    *call = (struct meta_write){
        .command = command, .message = message, .body = body, .arena = req->arena};
    return req->gateway->meta->write(req->gateway->meta, call, &req->task);
}

ProtobufCBinaryData s3_bytes(struct slice from)
{
    /* protobuf-c's struct has no const, but packing only reads. */
    union {
        const char *in;
        uint8_t *out;
    } cast = {.in = from.data};

    return (ProtobufCBinaryData){.len = from.len, .data = cast.out};
}
