/*
 * A form upload (AWS: "Browser-based uploads using POST"): the fields of a multipart/form-data
 * body, who signed them, what their policy allows. Once its fields are read, the request goes on as
 * a PutObject whose headers are the fields and whose body is the file:
 *
 *     body -> form_parser (fields) -> form_apply() -> judged by form_authenticate()
 *          -> put_object: form_source gives it the file -> form_reply()
 */
#ifndef GATEWAY_WEB_FORM_H
#define GATEWAY_WEB_FORM_H

#include "gateway/s3/op.h"
#include "gateway/web/form_parser.h"
#include "gateway/web/form_policy.h"
#include "gateway/web/form_source.h"

/* Hangs on the request (req->form), in its arena. */
struct form {
    struct form_parser parser; /* fields, name of the file */
    struct slice key;          /* ${filename} replaced */
    struct form_limits limits; /* of the policy */
    struct form_source source; /* the file */
};

/* Makes headers and key of the request out of the fields. STEP_FAIL: what is missing or wrong. */
enum step_result form_apply(struct s3_request *req);
/* Fills req->auth from the fields, and checks their policy. S3_OK or the refusal (s3_fail() was
 * called). */
enum s3_error form_authenticate(struct s3_request *req, const struct sigv4_options *options);
/* The reply of a form upload: redirect, 200, 201 with a document, or 204. `etag` with quotes. */
enum step_result form_reply(struct s3_request *req, struct slice etag);
/* <ProposedSize> and the like behind EntityTooLarge and EntityTooSmall. */
void form_error_size(const struct s3_request *req, struct xml_writer *xml);

#endif
