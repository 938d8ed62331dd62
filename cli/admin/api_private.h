/* Private to cli/admin: one call of the JSON admin API, shared by the files that answer some. */
#ifndef CLI_ADMIN_API_PRIVATE_H
#define CLI_ADMIN_API_PRIVATE_H

#include <jansson.h>

#include "cli/admin/api.h"
#include "common/base/assert.h"
#include "common/task/task.h"

struct admin_call;

struct admin_request {
    struct task task;
    struct http_exchange *http;
    struct arena *arena;
    struct meta_client *meta;
    const char *region;
    const struct admin_call *call;
    struct slice name; /* the * of the path */
    struct http_read read;
    struct buffer body;
    char piece[4096];
    json_t *json; /* the body; NULL: none */
    int status;   /* of a refusal */
    struct meta_refresh refresh;
    struct meta_write write;
    union {
        Kist__PutUser put_user;
        Kist__DeleteUser delete_user;
        Kist__PutAccessKey put_key;
        Kist__DeleteAccessKey delete_key;
        Kist__CreateBucket create_bucket;
        Kist__DeleteBucket delete_bucket;
        Kist__SetBucketOwner set_owner;
        Kist__PutJob put_job;
    } message;
    Kist__User user;
    Kist__AccessKey key;
    Kist__Job job;
    struct meta_jobs jobs; /* a page of them */
    Kist__Job **job_rows;  /* all that were read */
    size_t job_count;
};

struct admin_call {
    enum http_method method;
    const char *path;
    enum step_result (*command)(struct admin_request *req);
    void (*answer)(struct admin_request *req);
};

/* ---- For commands ---- */

/* Ends the call with {"error": text}. */
enum step_result api_refuse(struct admin_request *req, int status, const char *text);
/* A text member of the body; data NULL when absent. Lives as long as the body. */
struct slice api_body_text(const struct admin_request *req, const char *name);
enum step_result api_send_write(struct admin_request *req, enum meta_command command,
                                const ProtobufCMessage *message);

/* ---- For answers ---- */

/* Takes `value`. */
void api_answer_json(struct admin_request *req, int status, json_t *value);
json_t *api_json_of(struct slice text);
json_t *api_json_stamp(uint64_t nanoseconds);

/* ---- Jobs (api_jobs.c): commands and answers of api.def ---- */

enum step_result job_list(struct admin_request *req);
enum step_result job_show(struct admin_request *req);
enum step_result job_add(struct admin_request *req);
enum step_result job_pause(struct admin_request *req);
enum step_result job_resume(struct admin_request *req);
enum step_result job_cancel(struct admin_request *req);
void answer_jobs(struct admin_request *req);
void answer_job(struct admin_request *req);

#endif
