/* The admin API's calls about jobs: listed, shown, made, paused, resumed, cancelled. */
#include "cli/admin/api_private.h"
#include "common/base/limits.h"

enum { JOB_PAGE = LIMIT_LIST_KEYS };

static struct slice field(ProtobufCBinaryData bytes)
{
    return slice_of(bytes.data, bytes.len);
}

static ProtobufCBinaryData field_of(struct slice text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text.data, .len = text.len};
}

/* ---- Reading: commands that are entered again with a page ---- */

static enum step_result job_read(struct admin_request *req, uint64_t after, uint32_t limit)
{
    enum step_result result;

    req->jobs = (struct meta_jobs){.after = after, .limit = limit, .arena = req->arena};
    result = req->meta->jobs(req->meta, &req->jobs, &req->task);
    if (result == STEP_NEXT) {
        return STEP_REPEAT;
    }
    return result == STEP_WAIT ? STEP_AGAIN : result;
}

static void job_keep_page(struct admin_request *req)
{
    Kist__Job **rows =
        arena_alloc(req->arena, (req->job_count + req->jobs.job_count + 1) * sizeof(*rows));

    if (req->job_count > 0) {
        memcpy(rows, req->job_rows, req->job_count * sizeof(*rows));
    }
    if (req->jobs.job_count > 0) {
        memcpy(rows + req->job_count, req->jobs.jobs, req->jobs.job_count * sizeof(*rows));
    }
    req->job_rows = rows;
    req->job_count += req->jobs.job_count;
}

enum step_result job_list(struct admin_request *req)
{
    if (req->jobs.arena == NULL) {
        return job_read(req, 0, JOB_PAGE);
    }
    job_keep_page(req);
    if (req->jobs.job_count < JOB_PAGE || req->job_count >= LIMIT_JOBS) {
        return STEP_NEXT;
    }
    return job_read(req, req->job_rows[req->job_count - 1]->id, JOB_PAGE);
}

static bool job_id(const struct admin_request *req, uint64_t *id)
{
    return slice_to_u64(req->name, UINT64_MAX, id) && *id > 0;
}

enum step_result job_show(struct admin_request *req)
{
    uint64_t id;

    if (!job_id(req, &id)) {
        return api_refuse(req, 404, "no such job");
    }
    if (req->jobs.arena == NULL) {
        return job_read(req, id - 1, 1);
    }
    job_keep_page(req);
    return req->job_count == 1 && req->job_rows[0]->id == id ? STEP_NEXT
                                                             : api_refuse(req, 404, "no such job");
}

/* ---- Changing ---- */

static enum step_result job_send(struct admin_request *req, Kist__JobAction action,
                                 uint64_t generation)
{
    Kist__PutJob *put = &req->message.put_job;

    kist__put_job__init(put);
    put->action = action;
    put->job = &req->job;
    put->generation = generation;
    return api_send_write(req, META_PUT_JOB, &put->base);
}

enum step_result job_add(struct admin_request *req)
{
    struct slice prefix = api_body_text(req, "prefix");
    const Kist__Bucket *bucket =
        view_bucket(req->meta->view(req->meta), api_body_text(req, "bucket"));

    if (bucket == NULL) {
        return api_refuse(req, 404, "no such bucket");
    }
    if (prefix.data == NULL || prefix.len > LIMIT_KEY_BYTES) {
        return api_refuse(req, 400, "prefix: want what the keys to delete begin with");
    }
    kist__job__init(&req->job);
    req->job.kind = KIST__JOB_KIND__JOB_DELETE_PREFIX;
    req->job.bucket_id = bucket->id;
    req->job.bucket = bucket->name;
    req->job.prefix = field_of(prefix);
    req->job.all_versions = json_is_true(json_object_get(req->json, "all_versions"));
    req->job.user = field_of(SLICE("root"));
    return job_send(req, KIST__JOB_ACTION__JOB_CREATE, bucket->generation);
}

static enum step_result job_set(struct admin_request *req, Kist__JobAction action)
{
    kist__job__init(&req->job);
    if (!job_id(req, &req->job.id)) {
        return api_refuse(req, 404, "no such job");
    }
    return job_send(req, action, 0);
}

enum step_result job_pause(struct admin_request *req)
{
    return job_set(req, KIST__JOB_ACTION__JOB_PAUSE);
}

enum step_result job_resume(struct admin_request *req)
{
    return job_set(req, KIST__JOB_ACTION__JOB_RESUME);
}

enum step_result job_cancel(struct admin_request *req)
{
    return job_set(req, KIST__JOB_ACTION__JOB_CANCEL);
}

/* ---- Answers ---- */

static const char *kind_name(Kist__JobKind kind)
{
    return kind == KIST__JOB_KIND__JOB_DELETE_PREFIX ? "delete-prefix" : "lifecycle-rules";
}

static const char *state_name(Kist__JobState state)
{
    static const char *const names[] = {"?", "running", "paused", "done", "cancelled", "failed"};
    size_t at = (size_t)state;

    return at < ARRAY_LEN(names) ? names[at] : "?";
}

static json_t *json_job(const Kist__Job *job)
{
    json_t *value = json_object();

    json_object_set_new(value, "id", json_integer((json_int_t)job->id));
    json_object_set_new(value, "kind", json_string(kind_name(job->kind)));
    json_object_set_new(value, "state", json_string(state_name(job->state)));
    json_object_set_new(value, "bucket", api_json_of(field(job->bucket)));
    json_object_set_new(value, "prefix", api_json_of(field(job->prefix)));
    json_object_set_new(value, "all_versions", json_boolean(job->all_versions));
    json_object_set_new(value, "user", api_json_of(field(job->user)));
    json_object_set_new(value, "created", api_json_stamp(job->created));
    if (job->finished != 0) {
        json_object_set_new(value, "finished", api_json_stamp(job->finished));
    }
    json_object_set_new(value, "seen", json_integer((json_int_t)job->seen));
    json_object_set_new(value, "done", json_integer((json_int_t)job->done));
    json_object_set_new(value, "skipped", json_integer((json_int_t)job->skipped));
    json_object_set_new(value, "error", api_json_of(field(job->error)));
    return value;
}

void answer_jobs(struct admin_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->job_count; i++) {
        json_array_append_new(list, json_job(req->job_rows[i]));
    }
    api_answer_json(req, 200, json_pack("{s:o}", "jobs", list));
}

void answer_job(struct admin_request *req)
{
    const Kist__Job *job = req->job_count > 0         ? req->job_rows[0]
                           : req->write.reply != NULL ? req->write.reply->job
                                                      : NULL;

    api_answer_json(req, 200, job != NULL ? json_job(job) : json_object());
}
