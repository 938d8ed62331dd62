/*
 * What an operation's file may use. dispatch.c has found the row, authenticated the caller, found
 * the bucket and allowed the action before the first step of the row's handler runs (all confirmed
 * by a fresh view when the answer would have been no).
 *
 * Life of a request: dispatch judges it -> the handler's steps run in order -> the last one makes
 * the reply (s3_reply_*) -> dispatch sends it -> `release` -> memory goes. After a failure:
 * `abort`, the error document, `release`. When a step finds that the request was judged by an old
 * view (RC_STALE, STALE_GENERATION), dispatch judges again and goes back to the row named "commit",
 * or to the first.
 */
#ifndef GATEWAY_S3_OP_H
#define GATEWAY_S3_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/task/task.h"
#include "gateway/auth/payload.h"
#include "gateway/auth/sigv4.h"
#include "gateway/gateway.h"
#include "gateway/http/http.h"
#include "gateway/s3/error.h"
#include "gateway/xml/xml_writer.h"

enum {
    S3_STEPS_MAX = 12,
    S3_REPLY_HEADERS_MAX = 192,
    S3_PARAMS_MAX = 64,
    S3_REQUEST_ID_BYTES = 16
};

enum s3_target { ON_SERVICE = 0, ON_BUCKET, ON_OBJECT, ON_WEBSITE };
enum { S3_TARGETS = ON_WEBSITE + 1 };

/* Flags of a handler. */
enum s3_op_flags {
    BODY_NONE = 0,        /* a body is not expected (drained if it comes) */
    BODY_DOCUMENT = 1,    /* read whole into memory before the first step: req->document */
    BODY_STREAM = 2,      /* the handler begins it with s3_body_begin() and reads req->payload */
    CHECKS_MORE = 4,      /* the handler checks further permissions (copy source) */
    NO_BUCKET_LOOKUP = 8, /* the bucket need not exist (CreateBucket) */
    NEEDS_CHECKSUM = 16,  /* a document that must come with Content-MD5 or x-amz-checksum-* */
    AUTH_LATER = 32,      /* the handler judges the caller itself (form uploads, preflight) */
    CHECKS_KEYS = 64,     /* nothing is asked before: the handler asks for each key it was sent */
    KEEPS_ALIVE = 256,    /* may take long: keep_alive.h */
    CHECKS_OBJECT = 128   /* the handler calls s3_check_object(): the object may decide */
};

/* What one handler file exports. */
struct s3_handler {
    size_t state_size; /* the operation's struct (begins with struct s3_request), from the arena */
    unsigned flags;
    struct step steps[S3_STEPS_MAX + 1]; /* ends at the first empty row */
    void (*abort)(struct task *task); /* optional: undo; runs once, after a failure or a hang-up */
    void (*release)(
        struct task *task); /* optional: gives back what is pinned; always, once, at the end */
};

/* One row of op.def. */
struct s3_op {
    enum http_method method;
    enum s3_target target;
    const char *query;  /* "name", "name=value", or several joined by '&'; NULL: nothing demanded */
    const char *header; /* this header must be present */
    const char *name;   /* AWS operation name: metric label, access log, audit log */
    const char *action; /* IAM action; NULL with a row that has no handler */
    const struct s3_handler
        *handler; /* NULL: answers 501 NotImplemented with the operation's name */
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
    const struct s3_param *params;
    uint32_t param_count;
    struct sigv4_result auth;
    struct payload payload; /* BODY_DOCUMENT, and BODY_STREAM after s3_body_begin() */
    struct slice document;  /* BODY_DOCUMENT */
    /* The reply, until it is sent. */
    int status;
    struct http_header *headers;
    uint32_t header_count;
    uint32_t header_capacity;
    struct slice body;
    struct buffer xml; /* s3_xml_begin() writes here; freed at the end */
    bool replied;      /* the head was handed to http: an error can only cut the connection */
    bool streamed;     /* the body as well: only the end is missing */
    /* The failure, when a step returned STEP_FAIL through s3_fail(). */
    enum s3_error error;
    struct slice error_text;  /* replaces the standard message */
    struct slice error_extra; /* XML elements put into the error body as they are */
    enum s3_error
        not_found; /* what RC_NOT_FOUND of the call under way means; S3_OK: nothing known */
    /* What browsers ask for (gateway/web/README.md). */
    struct form *form;       /* a form upload: its fields stand for headers */
    struct website *website; /* a request to a website: failures are pages */
    int status_instead;      /* not 0: sent in place of the handler's status (error documents) */
    /* What s3_check_object() was told. */
    const Kist__Record *object;
    bool object_known;
    bool object_decides; /* it must still be called */
    /* Private. */
    bool body_begun;
    void *dispatch;
};

/* ---- The request ---- */

/* Value of a query parameter; data NULL when absent. */
struct slice s3_param(const struct s3_request *req, const char *name);
bool s3_has_param(const struct s3_request *req, const char *name);
struct slice s3_header(const struct s3_request *req, const char *lower_case_name);
/* Ends the last step of a handler that judges later (AUTH_LATER): the request is judged again, as
 * one of `handler`, whose steps then run. */
enum step_result s3_forward(struct s3_request *req, const struct s3_handler *handler);
/* For a handler that judges later: is the view from after the request arrived? A "no" that rests on
 * an older one is no answer: the step fails with RC_STALE, and the handler runs again. */
bool s3_view_is_fresh(const struct s3_request *req);
/* May the caller do `action` on this bucket, or (actions on objects) on the request's own key? */
bool s3_allowed(const struct s3_request *req, const char *action, const Kist__Bucket *bucket);
/* The same for a key of that bucket: source of a copy, keys of DeleteObjects. */
bool s3_allowed_key(const struct s3_request *req, const char *action, const Kist__Bucket *bucket,
                    struct slice key);
/* Is it at least possible, once the object is known? Then s3_check_key() follows. */
bool s3_may_allow_key(const struct s3_request *req, const char *action, const Kist__Bucket *bucket,
                      struct slice key);
/* What only the object itself can decide (its ACL, its tags in a policy): a handler that reads or
 * changes an existing version calls this as soon as it has the record; NULL: there is none.
 * STEP_NEXT, or STEP_FAIL: AccessDenied, also for an absent key when the caller may not list. */
enum step_result s3_check_object(struct s3_request *req, const Kist__Record *record);
/* The same for another key: the source of a copy. */
enum step_result s3_check_key(struct s3_request *req, const char *action,
                              const Kist__Bucket *bucket, struct slice key,
                              const Kist__Record *record);
/* Checks the headers that describe the body and makes req->payload ready. `also`: mask of checksums
 * to compute besides the declared one. STEP_NEXT, or STEP_FAIL with the refusal. */
enum step_result s3_body_begin(struct s3_request *req, bool md5, uint32_t also,
                               uint64_t length_max);
/* Has the client hung up? Long work without a reply may stop. */
bool s3_client_gone(const struct s3_request *req);
/* Hands one command to metad: `return s3_write(...)` ends a step; call->reply says how it went. */
enum step_result s3_write(struct s3_request *req, struct meta_write *call,
                          enum meta_command command, const ProtobufCMessage *message,
                          struct slice body);
/* Bytes as protobuf-c wants them; borrowed. */
ProtobufCBinaryData s3_bytes(struct slice from);
static inline struct slice s3_slice(ProtobufCBinaryData from)
{
    return slice_of(from.data, from.len);
}

/* ---- The reply: one of these ends the last step ---- */

/* Name as it goes on the wire; literals or arena memory. */
void s3_reply_header(struct s3_request *req, const char *name, struct slice value);
enum step_result s3_reply_empty(struct s3_request *req, int status);
/* Begins a document in req->xml; then s3_reply_xml() sends it, Content-Type application/xml. */
void s3_xml_begin(struct s3_request *req, struct xml_writer *xml);
enum step_result s3_reply_xml(struct s3_request *req, int status);
/* The handler has streamed the body itself (read_path, http_reply_write): only the end remains. */
enum step_result s3_reply_streamed(struct s3_request *req);
/* Sends status and headers now; the body of `length` bytes follows by http_reply_write(). */
void s3_reply_begin(struct s3_request *req, int status, uint64_t length);
/* The same for a body whose end is not known yet: chunked. */
void s3_reply_begin_open(struct s3_request *req, int status);

/* `text` NULL: the code's standard message. */
enum step_result s3_fail(struct s3_request *req, enum s3_error error, const char *text);
enum step_result s3_failf(struct s3_request *req, enum s3_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* InvalidArgument with <ArgumentName> and <ArgumentValue>. */
enum step_result s3_fail_argument(struct s3_request *req, const char *name, struct slice value,
                                  const char *text);
/* Adds <name>value</name> (escaped) to the error document. */
void s3_error_detail(struct s3_request *req, const char *name, struct slice value);
/* After a metad write whose outcome is not OUTCOME_OK (STALE_GENERATION makes dispatch judge
 * again). */
enum step_result s3_fail_outcome(struct s3_request *req, const Kist__Reply *reply);
/* After a failure of `call` (or of what came before it): may its command have been applied, or
 * still be? Then what it names must not be discarded. */
bool s3_maybe_applied(const struct s3_request *req, const struct meta_write *call, bool started);

#define S3_REQUEST_OF(task_ptr) CONTAINER_OF(task_ptr, struct s3_request, task)

extern const struct s3_op s3_ops[];
extern const size_t s3_op_count;

#endif
