/*
 * The JSON admin API: users, keys, buckets; jobs are in api_jobs.c.
 *
 *     body (read whole, at most LIMIT_ADMIN_BODY_BYTES) -> refresh the view -> command (checked
 * against the view, one write) -> refresh -> answer
 *
 * Errors are {"error": "..."} with 400, 404 or 409; the row that fits stands in api.def.
 */
#include "cli/admin/api_private.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/codec/percent.h"
#include "common/codec/time_format.h"
#include "common/crypto/random.h"
#include "common/log/log.h"
#include "common/task/task.h"
#include "gateway/s3/router.h"

enum { ACCESS_KEY_BYTES = 20, SECRET_KEY_BYTES = 40, SECRET_BYTES_MIN = 8 };

#define REQUEST_OF(ptr) CONTAINER_OF(ptr, struct admin_request, task)

void admin_reply(struct http_exchange *exchange, int status, const char *content_type,
                 struct slice body)
{
    const struct http_header headers[] = {
        {SLICE("Content-Type"),           slice_str(content_type)},
        {SLICE("Cache-Control"),          SLICE("no-store")      },
        {SLICE("X-Content-Type-Options"), SLICE("nosniff")       },
    };
    bool head = exchange->request.method == HTTP_HEAD;

    http_reply_start(exchange, status, headers, ARRAY_LEN(headers), (int64_t)body.len);
    http_reply_end(exchange, head || body.len == 0 ? NULL : &body, head || body.len == 0 ? 0 : 1);
}

/* ---- Small helpers ---- */

enum step_result api_refuse(struct admin_request *req, int status, const char *text)
{
    req->status = status;
    return task_fail(&req->task, RC_INVALID, "%s", text);
}

static ProtobufCBinaryData bytes_of(struct slice text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text.data, .len = text.len};
}

static struct slice slice_field(const ProtobufCBinaryData *field)
{
    return slice_of(field->data, field->len);
}

/* A text member of the body; data NULL when absent. Lives as long as the body. */
struct slice api_body_text(const struct admin_request *req, const char *name)
{
    const json_t *value = json_object_get(req->json, name);

    return json_is_string(value) ? slice_of(json_string_value(value), json_string_length(value))
                                 : SLICE_EMPTY;
}

enum step_result api_send_write(struct admin_request *req, enum meta_command command,
                                const ProtobufCMessage *message)
{
    req->write = (struct meta_write){.command = command, .message = message, .arena = req->arena};
    return req->meta->write(req->meta, &req->write, &req->task);
}

static const Kist__User *find_user(const struct view *view, struct slice name)
{
    for (size_t i = 0; i < view_user_count(view); i++) {
        if (slice_eq(slice_field(&view_user_at(view, i)->name), name)) {
            return view_user_at(view, i);
        }
    }
    return NULL;
}

/* Letters, digits and the signs that IAM allows in names. */
static bool name_valid(struct slice name, size_t max)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.@_-";

    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '\0' || strchr(letters, name.data[i]) == NULL) {
            return false;
        }
    }
    return name.len >= 1 && name.len <= max;
}

/* ---- Commands ---- */

static enum step_result user_add(struct admin_request *req)
{
    Kist__PutUser *put = &req->message.put_user;
    struct slice name = api_body_text(req, "name");

    if (!name_valid(name, LIMIT_USER_NAME_BYTES)) {
        return api_refuse(req, 400, "name: want 1 to 64 letters, digits or + . @ _ -");
    }
    kist__put_user__init(put);
    kist__user__init(&req->user);
    req->user.name = bytes_of(name);
    put->user = &req->user;
    put->must_be_new = true;
    return api_send_write(req, META_PUT_USER, &put->base);
}

static enum step_result user_remove(struct admin_request *req)
{
    Kist__DeleteUser *remove = &req->message.delete_user;

    if (slice_eq_str(req->name, "root")) {
        return api_refuse(req, 409, "root cannot be removed");
    }
    kist__delete_user__init(remove);
    remove->name = bytes_of(req->name);
    return api_send_write(req, META_DELETE_USER, &remove->base);
}

static enum step_result key_add(struct admin_request *req)
{
    Kist__PutAccessKey *put = &req->message.put_key;
    struct slice user = api_body_text(req, "user");
    struct slice access = api_body_text(req, "access_key");
    struct slice secret = api_body_text(req, "secret_key");

    if (find_user(req->meta->view(req->meta), user) == NULL) {
        return api_refuse(req, 404, "no such user");
    }
    if (access.data == NULL) {
        char *text = arena_alloc(req->arena, ACCESS_KEY_BYTES + 1);

        random_text(text, ACCESS_KEY_BYTES, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
        access = slice_of(text, ACCESS_KEY_BYTES);
    }
    if (secret.data == NULL) {
        char *text = arena_alloc(req->arena, SECRET_KEY_BYTES + 1);

        random_text(text, SECRET_KEY_BYTES,
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
        secret = slice_of(text, SECRET_KEY_BYTES);
    }
    if (!name_valid(access, LIMIT_ACCESS_KEY_BYTES) || access.len < 3) {
        return api_refuse(req, 400, "access_key: want 3 to 128 letters, digits or + . @ _ -");
    }
    if (secret.len < SECRET_BYTES_MIN || secret.len > LIMIT_SECRET_KEY_BYTES) {
        return api_refuse(req, 400, "secret_key: want 8 to 128 characters");
    }
    kist__put_access_key__init(put);
    kist__access_key__init(&req->key);
    req->key.access_key = bytes_of(access);
    req->key.secret_key = bytes_of(secret);
    req->key.user = bytes_of(user);
    put->key = &req->key;
    put->must_be_new = true;
    return api_send_write(req, META_PUT_ACCESS_KEY, &put->base);
}

static enum step_result key_remove(struct admin_request *req)
{
    Kist__DeleteAccessKey *remove = &req->message.delete_key;
    const struct view *view = req->meta->view(req->meta);
    const struct view_key *key = view_access_key(view, req->name);
    uint32_t of_root = 0;

    for (size_t i = 0; i < view_key_count(view); i++) {
        of_root += slice_eq_str(slice_field(&view_key_at(view, i)->user), "root") ? 1 : 0;
    }
    if (key != NULL && slice_eq_str(slice_field(&key->key->user), "root") && of_root == 1) {
        return api_refuse(req, 409,
                          "the last key of root cannot be removed: nobody could sign in any more");
    }
    kist__delete_access_key__init(remove);
    remove->access_key = bytes_of(req->name);
    return api_send_write(req, META_DELETE_ACCESS_KEY, &remove->base);
}

static enum step_result bucket_add(struct admin_request *req)
{
    Kist__CreateBucket *create = &req->message.create_bucket;
    struct slice name = api_body_text(req, "name");
    struct slice owner = api_body_text(req, "owner");

    if (!router_bucket_name_valid(name)) {
        return api_refuse(req, 400, "name: not a bucket name");
    }
    owner = owner.data == NULL ? SLICE("root") : owner;
    if (find_user(req->meta->view(req->meta), owner) == NULL) {
        return api_refuse(req, 404, "no such user");
    }
    kist__create_bucket__init(create);
    create->name = bytes_of(name);
    create->owner = bytes_of(owner);
    create->region = bytes_of(slice_str(req->region));
    return api_send_write(req, META_CREATE_BUCKET, &create->base);
}

static enum step_result bucket_remove(struct admin_request *req)
{
    Kist__DeleteBucket *remove = &req->message.delete_bucket;
    const Kist__Bucket *bucket = view_bucket(req->meta->view(req->meta), req->name);

    if (bucket == NULL) {
        return api_refuse(req, 404, "no such bucket");
    }
    kist__delete_bucket__init(remove);
    remove->name = bytes_of(req->name);
    remove->bucket_id = bucket->id;
    return api_send_write(req, META_DELETE_BUCKET, &remove->base);
}

static enum step_result bucket_owner(struct admin_request *req)
{
    Kist__SetBucketOwner *set = &req->message.set_owner;
    struct slice owner = api_body_text(req, "owner");

    if (view_bucket(req->meta->view(req->meta), req->name) == NULL) {
        return api_refuse(req, 404, "no such bucket");
    }
    if (find_user(req->meta->view(req->meta), owner) == NULL) {
        return api_refuse(req, 404, "no such user");
    }
    kist__set_bucket_owner__init(set);
    set->name = bytes_of(req->name);
    set->owner = bytes_of(owner);
    return api_send_write(req, META_SET_BUCKET_OWNER, &set->base);
}

/* ---- Answers ---- */

/* Takes `value`. */
void api_answer_json(struct admin_request *req, int status, json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    struct slice body;

    ASSERT(text != NULL);
    body = arena_printf(req->arena, "%s\n", text);
    free(text);
    json_decref(value);
    admin_reply(req->http, status, "application/json", body);
}

json_t *api_json_of(struct slice text)
{
    json_t *value = json_stringn(text.data != NULL ? text.data : "", text.len);

    return value != NULL ? value : json_string("?"); /* not UTF-8 */
}

json_t *api_json_stamp(uint64_t nanoseconds)
{
    char text[TIME_ISO8601_BYTES + 1];

    time_format_iso8601(nanoseconds, text);
    return json_string(text);
}

static void answer_done(struct admin_request *req)
{
    api_answer_json(req, 200, json_pack("{s:b}", "ok", 1));
}

static void answer_key(struct admin_request *req)
{
    api_answer_json(req, 200,
                    json_pack("{s:o,s:o,s:o}", "user", api_json_of(slice_field(&req->key.user)),
                              "access_key", api_json_of(slice_field(&req->key.access_key)),
                              "secret_key", api_json_of(slice_field(&req->key.secret_key))));
}

static void answer_users(struct admin_request *req)
{
    const struct view *view = req->meta->view(req->meta);
    json_t *list = json_array();

    for (size_t i = 0; i < view_user_count(view); i++) {
        const Kist__User *user = view_user_at(view, i);

        json_array_append_new(list, json_pack("{s:o,s:o,s:b}", "name",
                                              api_json_of(slice_field(&user->name)), "created",
                                              api_json_stamp(user->created), "disabled",
                                              user->disabled ? 1 : 0));
    }
    api_answer_json(req, 200, json_pack("{s:o}", "users", list));
}

static void answer_keys(struct admin_request *req)
{
    const struct view *view = req->meta->view(req->meta);
    json_t *list = json_array();

    for (size_t i = 0; i < view_key_count(view); i++) {
        const Kist__AccessKey *key = view_key_at(view, i);

        json_array_append_new(list, json_pack("{s:o,s:o,s:o}", "access_key",
                                              api_json_of(slice_field(&key->access_key)), "user",
                                              api_json_of(slice_field(&key->user)), "created",
                                              api_json_stamp(key->created)));
    }
    api_answer_json(req, 200, json_pack("{s:o}", "keys", list));
}

static void answer_buckets(struct admin_request *req)
{
    const struct view *view = req->meta->view(req->meta);
    json_t *list = json_array();

    for (size_t i = 0; i < view_bucket_count(view); i++) {
        const Kist__Bucket *bucket = view_bucket_at(view, i);

        json_array_append_new(list, json_pack("{s:o,s:o,s:o,s:o}", "name",
                                              api_json_of(slice_field(&bucket->name)), "owner",
                                              api_json_of(slice_field(&bucket->owner)), "region",
                                              api_json_of(slice_field(&bucket->region)), "created",
                                              api_json_stamp(bucket->created)));
    }
    api_answer_json(req, 200, json_pack("{s:o}", "buckets", list));
}

/* ---- Steps ---- */

static void body_on_read(struct http_read *read)
{
    struct admin_request *req = CONTAINER_OF(read, struct admin_request, read);

    task_resume(&req->task, read->rc);
}

/* Entered again for each piece; the piece before is in `read` then. */
static enum step_result api_body(struct task *task)
{
    struct admin_request *req = REQUEST_OF(task);
    json_error_t error;

    if (req->read.done != NULL) {
        if (req->read.rc != RC_OK) {
            return task_fail(task, req->read.rc, "body: %s", rc_text(req->read.rc));
        }
        if (req->read.len == 0) {
            req->json = json_loadb(req->body.data != NULL ? req->body.data : "", req->body.len,
                                   JSON_REJECT_DUPLICATES, &error);
            return req->body.len > 0 && !json_is_object(req->json)
                       ? api_refuse(req, 400, "the body is not a JSON object")
                       : STEP_NEXT;
        }
        buffer_append(&req->body, slice_of(req->piece, req->read.len));
        if (req->body.len > LIMIT_ADMIN_BODY_BYTES) {
            http_reply_close_after(req->http);
            return api_refuse(req, 413, "the body is too large");
        }
    }
    req->read.done = body_on_read;
    return http_body_read(req->http, &req->read, req->piece, sizeof(req->piece)) ? STEP_REPEAT
                                                                                 : STEP_AGAIN;
}

static enum step_result api_refresh(struct task *task)
{
    struct admin_request *req = REQUEST_OF(task);

    return req->meta->refresh(req->meta, &req->refresh, task);
}

static enum step_result api_command(struct task *task)
{
    struct admin_request *req = REQUEST_OF(task);

    return req->call->command != NULL ? req->call->command(req) : STEP_NEXT;
}

static enum step_result api_outcome(struct task *task)
{
    static const struct {
        Kist__Outcome outcome;
        int status;
        const char *text;
    } rows[] = {
        {KIST__OUTCOME__NO_SUCH_BUCKET,     404, "no such bucket"               },
        {KIST__OUTCOME__NO_SUCH_USER,       404, "no such user"                 },
        {KIST__OUTCOME__NO_SUCH_ACCESS_KEY, 404, "no such access key"           },
        {KIST__OUTCOME__BUCKET_EXISTS,      409, "the bucket exists already"    },
        {KIST__OUTCOME__BUCKET_OWNED,       409, "the bucket exists already"    },
        {KIST__OUTCOME__BUCKET_NOT_EMPTY,   409, "the bucket is not empty"      },
        {KIST__OUTCOME__USER_EXISTS,        409, "the user exists already"      },
        {KIST__OUTCOME__ACCESS_KEY_EXISTS,  409, "the access key exists already"},
        {KIST__OUTCOME__NO_SUCH_JOB,        404, "no such job"                  },
        {KIST__OUTCOME__IN_USE,             409, "the user still owns buckets"  },
        {KIST__OUTCOME__STALE_GENERATION,   409, "changed meanwhile: try again" },
    };
    struct admin_request *req = REQUEST_OF(task);

    if (req->write.reply == NULL || req->write.reply->outcome == KIST__OUTCOME__OUTCOME_OK) {
        return STEP_NEXT;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].outcome == req->write.reply->outcome) {
            return api_refuse(req, rows[i].status, rows[i].text);
        }
    }
    return api_refuse(req, 400, "refused");
}

static enum step_result api_answer(struct task *task)
{
    struct admin_request *req = REQUEST_OF(task);

    req->call->answer(req);
    return STEP_NEXT;
}

static void api_done(struct task *task)
{
    struct admin_request *req = REQUEST_OF(task);

    if (task->error.rc != RC_OK) {
        int status = req->status != 0 ? req->status : 503;

        api_answer_json(req, status,
                        json_pack("{s:o}", "error", api_json_of(slice_str(task->error.text))));
    } else if (req->write.reply != NULL) {
        LOG_INFO("admin", "call=\"%s\" name=%.*s", req->call->path, (int)req->name.len,
                 req->name.data != NULL ? req->name.data : "");
    }
    json_decref(req->json);
    buffer_deinit(&req->body);
    mem_free(req);
}

/* ---- Routing ---- */

static const struct admin_call calls[] = {
#define ADMIN_CALL(method, path, command, answer) {HTTP_##method, (path), (command), (answer)},
#include "cli/admin/api.def"
#undef ADMIN_CALL
};

/* Does `path` fit `pattern`, whose * stands for one name without a slash? */
static bool path_fits(struct slice path, const char *pattern, struct slice *name)
{
    const char *star = strchr(pattern, '*');
    struct slice before =
        slice_of(pattern, star != NULL ? (size_t)(star - pattern) : strlen(pattern));
    struct slice after = star != NULL ? slice_str(star + 1) : SLICE_EMPTY;

    if (star == NULL) {
        return slice_eq(path, before);
    }
    if (!slice_starts(path, before) || path.len <= before.len + after.len ||
        !slice_eq(slice_of(path.data + path.len - after.len, after.len), after)) {
        return false;
    }
    *name = slice_of(path.data + before.len, path.len - before.len - after.len);
    return slice_find(*name, '/') == name->len;
}

void admin_api_request(struct meta_client *meta, const char *region, struct http_exchange *exchange)
{
    static const struct step steps[] = {
        {"body",    api_body   },
        {"refresh", api_refresh},
        {"command", api_command},
        {"outcome", api_outcome},
        {"answer",  api_answer },
        {NULL,      NULL       },
    };
    struct slice path = slice_after(exchange->request.path, sizeof("/admin/v1/") - 1);

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct slice name = SLICE_EMPTY;
        struct admin_request *req;

        if (calls[i].method != exchange->request.method || !path_fits(path, calls[i].path, &name) ||
            !percent_decode(exchange->arena, name, false, &name)) {
            continue;
        }
        req = mem_alloc(sizeof(*req));
        req->http = exchange;
        req->arena = exchange->arena;
        req->meta = meta;
        req->region = region;
        req->call = &calls[i];
        req->name = name;
        buffer_init(&req->body);
        task_start(&req->task, steps, api_done);
        return;
    }
    admin_reply(exchange, 404, "application/json", SLICE("{\"error\": \"no such call\"}\n"));
}
