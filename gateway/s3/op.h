/*
 * What an operation's file may use. dispatch.c has found the row, authenticated the caller, found the bucket
 * and allowed the action before the first step of the row's handler runs (all confirmed by a fresh view when
 * the answer would have been no).
 */
#ifndef GATEWAY_S3_OP_H
#define GATEWAY_S3_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buffer.h"
#include "common/task/task.h"
#include "gateway/auth/payload.h"
#include "gateway/auth/sigv4.h"
#include "gateway/gateway.h"
#include "gateway/http/http.h"
#include "gateway/s3/error.h"

enum { S3_STEPS_MAX = 12, S3_REPLY_HEADERS_MAX = 96, S3_PARAMS_MAX = 64, S3_REQUEST_ID_BYTES = 16 };

enum s3_target { ON_SERVICE = 0, ON_BUCKET, ON_OBJECT };

/* Flags of a row. */
enum s3_op_flags {
    BODY_NONE = 0,          /* a body is not expected (drained if it comes) */
    BODY_DOCUMENT = 1,      /* read whole into memory before the first step: req->document */
    BODY_STREAM = 2,        /* req->payload is initialised; the handler reads it */
    CHECKS_MORE = 4,        /* the handler checks further permissions (copy source, keys of a batch) */
    NO_BUCKET_LOOKUP = 8,   /* the bucket need not exist (CreateBucket) */
    NEEDS_CHECKSUM = 16     /* a document that must come with Content-MD5 or x-amz-checksum-* */
};

/* What one handler file exports. */
struct s3_handler {
    size_t state_size; /* the operation's struct (begins with struct s3_request), from the arena */
    struct step steps[S3_STEPS_MAX + 1]; /* ends at the first empty row */
    void (*abort)(struct task *task); /* optional: undo; runs once, after a failure or a hang-up */
};

/* One row of op.def. */
struct s3_op {
    enum http_method method;
    enum s3_target target;
    const char *query;  /* "name" must be present, or "name=value"; NULL: nothing demanded */
    const char *header; /* this header must be present */
    const char *name;   /* AWS operation name: metric label, access log, audit log */
    const char *action; /* IAM action */
    unsigned flags;
    const struct s3_handler *handler; /* NULL: answers 501 NotImplemented with the operation's name */
};

struct s3_param {
    struct slice name;  /* percent-decoded */
    struct slice value; /* percent-decoded; empty when there was no '=' */
};

struct s3_request {
    struct task task;
    struct gateway *gateway;
    struct http_exchange *http;
    struct arena *arena;
    const struct s3_op *op;
    struct view *view; /* one reference, dropped at the end */
    char request_id[S3_REQUEST_ID_BYTES + 1];
    struct slice bucket_name;
    const Kist__Bucket *bucket; /* borrowed from the view */
    struct slice key;           /* percent-decoded bytes, 1 .. LIMIT_KEY_BYTES */
    struct slice resource;      /* raw path, for <Resource> */
    struct s3_param params[S3_PARAMS_MAX];
    uint32_t param_count;
    struct sigv4_result auth;
    struct payload payload; /* BODY_STREAM and BODY_DOCUMENT */
    struct slice document;  /* BODY_DOCUMENT */
    /* The reply, until it is sent. */
    int status;
    struct http_header headers[S3_REPLY_HEADERS_MAX];
    uint32_t header_count;
    struct slice body;
    bool replied; /* the head was handed to http: an error can only cut the connection */
    /* The failure, when a step returned STEP_FAIL through s3_fail(). */
    enum s3_error error;
    struct slice error_text;   /* replaces the standard message */
    struct slice error_extra;  /* XML elements put into the error body as they are */
    /* Private. */
    void *dispatch;
};

/* ---- The request ---- */

/* Value of a query parameter; data NULL when absent. */
struct slice s3_param(const struct s3_request *req, const char *name);
bool s3_has_param(const struct s3_request *req, const char *name);
struct slice s3_header(const struct s3_request *req, const char *lower_case_name);
/* May the caller do `action` on this bucket? (Owner or root; policies come with their issue.) */
bool s3_allowed(const struct s3_request *req, const char *action, const Kist__Bucket *bucket);

/* ---- The reply: one of these ends the last step ---- */

/* Name as it goes on the wire; literals or arena memory. */
void s3_reply_header(struct s3_request *req, const char *name, struct slice value);
enum step_result s3_reply_empty(struct s3_request *req, int status);
/* `body` lives in the arena; Content-Type application/xml. */
enum step_result s3_reply_xml(struct s3_request *req, int status, struct slice body);
/* The handler has streamed the body itself (read_path): only http_reply_end() remains. */
enum step_result s3_reply_streamed(struct s3_request *req);
/* Sends status and headers now; the body of `length` bytes follows by http_reply_write(). */
void s3_reply_begin(struct s3_request *req, int status, uint64_t length);

/* `text` NULL: the code's standard message. */
enum step_result s3_fail(struct s3_request *req, enum s3_error error, const char *text);
enum step_result s3_failf(struct s3_request *req, enum s3_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* After a metad write whose outcome is not OUTCOME_OK (STALE_GENERATION makes dispatch judge again). */
enum step_result s3_fail_outcome(struct s3_request *req, const Kist__Reply *reply);

#define S3_REQUEST_OF(task_ptr) CONTAINER_OF(task_ptr, struct s3_request, task)

extern const struct s3_op s3_ops[];
extern const size_t s3_op_count;

#endif
