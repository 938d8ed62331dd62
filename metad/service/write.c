/*
 * Writes: an entry goes to the leader and its answer comes back.
 *
 *     encoded on the caller's loop -> waits for a leader -> proposed -> applied -> answer
 *                                          ^  not leader, ambiguous: the same request id again
 *                                          '--------------------------------------'
 *
 * An attempt of which it is unknown whether it will be applied is repeated with the same request
 * id: apply gives the first answer again. When the deadline passes first the caller is told
 * RC_AMBIGUOUS; apply refuses the entry from then on, so that nothing comes true later that was
 * given up.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/log/log_store.h"
#include "metad/service/service_private.h"
#include "metad/store/message.h"

static void write_propose(struct service *service, struct write_request *request);

/* ---- The answer, on the caller's loop ---- */

static void write_free(struct write_request *request)
{
    mem_free(request->result);
    mem_free(request);
}

static enum rc write_decode(struct meta_write *call, const struct machine_result *result)
{
    call->reply =
        message_unpack(call->arena, &kist__reply__descriptor, slice_of(result->reply, result->len));
    return call->reply != NULL ? RC_OK : RC_CORRUPT;
}

static void write_answer_post(struct env_post *post)
{
    struct write_request *request = CONTAINER_OF(post, struct write_request, post);
    struct meta_write *call = request->call;
    enum rc rc = request->rc;

    if (request->raw != NULL) {
        request->raw->rc = rc;
        request->raw->reply =
            rc == RC_OK ? slice_of(request->result->reply, request->result->len) : SLICE_EMPTY;
        request->raw->done(request->raw);
        write_free(request);
        return;
    }
    if (rc == RC_OK) {
        rc = write_decode(call, request->result);
    }
    struct task *task = call->task;

    write_free(request);
    task_resume(task, rc);
}

/* The answer of a caller whose entry is still under way. */
struct write_early {
    struct env_post post;
    struct meta_write *call;
    struct service_write *raw;
    enum rc rc;
};

static void write_early_post(struct env_post *post)
{
    struct write_early *early = CONTAINER_OF(post, struct write_early, post);
    struct meta_write *call = early->call;
    struct service_write *raw = early->raw;
    enum rc rc = early->rc;

    mem_free(early);
    if (raw != NULL) {
        raw->rc = rc;
        raw->reply = SLICE_EMPTY;
        raw->done(raw);
        return;
    }
    task_resume(call->task, rc);
}

static void write_answer_early(struct write_request *request, enum rc rc)
{
    struct write_early *early = mem_alloc(sizeof(*early));

    early->call = request->call;
    early->raw = request->raw;
    early->rc = rc;
    early->post.run = write_early_post;
    request->call = NULL;
    request->raw = NULL;
    request->client->env->post(request->client->env, &early->post);
}

static bool write_awaited(const struct write_request *request)
{
    return request->call != NULL || request->raw != NULL;
}

static void write_answer(struct service *service, struct write_request *request, enum rc rc)
{
    list_remove(&request->link);
    service->write_count -= 1;
    if (!write_awaited(request)) {
        write_free(request);
        return;
    }
    /* Another attempt of it may be in a log that wins: only an answer from apply rules that out. */
    request->rc = rc != RC_OK && request->ambiguous ? RC_AMBIGUOUS : rc;
    request->post.run = write_answer_post;
    request->client->env->post(request->client->env, &request->post);
}

/* ---- Proposing, on the loop of metad ---- */

static void write_done(struct proposal *proposal)
{
    struct write_request *request = CONTAINER_OF(proposal, struct write_request, proposal);
    struct service *service = request->client->service;

    request->proposed = false;
    list_remove(&request->link);
    if (proposal->rc == RC_OK) {
        request->result = proposal->result;
        write_answer(service, request, RC_OK);
        return;
    }
    request->ambiguous = request->ambiguous || proposal->rc == RC_AMBIGUOUS;
    if (!write_awaited(request) || service->closing || request->client->remote ||
        (proposal->rc != RC_AMBIGUOUS && proposal->rc != RC_NOT_LEADER)) {
        write_answer(service, request, proposal->rc);
        return;
    }
    list_push_back(&service->writes, &request->link);
    service_tick_start(service);
}

static void write_propose(struct service *service, struct write_request *request)
{
    struct leader *leader = leader_load(service);

    request->entry.proposed_ns = service->env->clock->wall_ns(service->env);
    if (!service_clock_allows(service, leader, request->entry.proposed_ns)) {
        list_push_back(&service->writes, &request->link); /* until the clock is known to be right */
        service_tick_start(service);
        return;
    }
    if (request->entry.deadline_ns == 0) {
        uint64_t now_ns = service->env->clock->mono_ns(service->env);
        uint64_t left_ns = request->expires_ns > now_ns ? request->expires_ns - now_ns : 0;

        request->entry.deadline_ns = request->entry.proposed_ns + left_ns;
    }
    entry_encode(&request->entry, request->bytes);
    request->part = slice_of(request->bytes, request->len);
    request->proposal =
        (struct proposal){.parts = &request->part, .part_count = 1, .done = write_done};
    request->proposed = true;
    list_push_back(&service->flying, &request->link);
    replica_propose(leader->replica, &request->proposal);
    service_tick_start(service);
}

/* Deletes, aborts and what follows them must work on a full disk. */
static bool write_needs_space(const struct write_request *request)
{
    switch (request->entry.command) {
    case META_PUT_OBJECT:
    case META_COPY_OBJECT:
    case META_CREATE_UPLOAD:
    case META_PUT_PART:
    case META_COMPLETE_UPLOAD:
    case META_CREATE_BUCKET:
    case META_APPEND_OBJECT:
        return true;
    default:
        return false;
    }
}

static void write_arrive_post(struct env_post *post)
{
    struct write_request *request = CONTAINER_OF(post, struct write_request, post);
    struct service *service = request->client->service;
    const struct leader *leader = leader_load(service);

    service->write_count += 1;
    if (service->closing || (leader != NULL && leader->reads_only)) {
        write_answer(service, request, RC_NO_QUORUM);
    } else if (service->write_count > SERVICE_WAITING_MAX) {
        write_answer(service, request, RC_BUSY);
    } else if (service->full && write_needs_space(request)) {
        write_answer(service, request, RC_FULL);
    } else if (leader != NULL) {
        write_propose(service, request);
    } else if (request->client->remote) {
        write_answer(service, request, RC_NOT_LEADER);
    } else {
        list_push_back(&service->writes, &request->link);
        service_tick_start(service);
    }
}

void write_leader_changed(struct service *service)
{
    const struct leader *leader = leader_load(service);
    struct list now;

    list_init(&now);
    while (!list_empty(&service->writes)) {
        list_push_back(&now, list_pop_front(&service->writes));
    }
    while (!list_empty(&now)) {
        struct write_request *request =
            CONTAINER_OF(list_pop_front(&now), struct write_request, link);

        if (leader->reads_only) {
            write_answer(service, request, RC_NO_QUORUM);
        } else {
            write_propose(service, request);
        }
    }
}

void write_expire(struct service *service, uint64_t now_ns, bool all)
{
    struct list *at = service->writes.next;

    while (at != &service->writes) {
        struct write_request *request = CONTAINER_OF(at, struct write_request, link);

        at = at->next;
        if (all || now_ns >= request->expires_ns) {
            write_answer(service, request, RC_NO_QUORUM);
        }
    }
    at = service->flying.next;
    while (at != &service->flying) {
        struct write_request *request = CONTAINER_OF(at, struct write_request, link);

        at = at->next;
        if (write_awaited(request) && (all || now_ns >= request->expires_ns)) {
            write_answer_early(request, RC_AMBIGUOUS);
        }
    }
}

/* ---- The call, on the caller's loop ---- */

static void request_id(struct env *env, uint8_t id[REQUEST_ID_BYTES])
{
    uint64_t words[2] = {env->random(env), env->random(env)};

    memcpy(id, words, REQUEST_ID_BYTES);
}

static_assert((size_t)LIMIT_PART_COMMAND_BYTES + ENTRY_HEADER_BYTES <= LOG_ENTRY_BYTES_MAX &&
                  (size_t)LIMIT_COMMAND_BYTES + LIMIT_INLINE_BYTES + ENTRY_HEADER_BYTES <=
                      LOG_ENTRY_BYTES_MAX,
              "a command fits one log entry");

static size_t write_message_max(enum meta_command command)
{
    switch ((int)command) {
    case META_PUT_PART:
        return LIMIT_PART_COMMAND_BYTES;
    case META_PUT_SETTING:
        return LIMIT_SETTING_COMMAND_BYTES;
    default:
        return LIMIT_COMMAND_BYTES;
    }
}

enum step_result write_start(struct meta_client *meta, struct meta_write *call, struct task *task)
{
    struct local_client *client = CONTAINER_OF(meta, struct local_client, base);
    struct env *env = client->env;
    size_t message_len = protobuf_c_message_get_packed_size(call->message);
    uint64_t deadline_ms = call->deadline_ms != 0 ? call->deadline_ms : SERVICE_WRITE_MS;
    struct write_request *request;
    char *to;

    if (message_len > write_message_max(call->command) || call->body.len > LIMIT_INLINE_BYTES) {
        return task_fail(task, RC_LIMIT, "a command of %zu bytes is too large", message_len);
    }
    request = mem_alloc_raw(sizeof(*request) + ENTRY_HEADER_BYTES + message_len + call->body.len);
    *request = (struct write_request){
        .client = client, .call = call, .len = ENTRY_HEADER_BYTES + message_len + call->body.len};
    to = request->bytes + ENTRY_HEADER_BYTES;
    (void)protobuf_c_message_pack(call->message, (uint8_t *)to);
    if (call->body.len > 0) {
        memcpy(to + message_len, call->body.data, call->body.len);
    }
    request->entry.command = (uint16_t)call->command;
    request->entry.message = slice_of(to, message_len);
    request->entry.body = slice_of(to + message_len, call->body.len);
    request_id(env, request->entry.request_id);
    request->expires_ns = env->clock->mono_ns(env) + deadline_ms * SERVICE_NS_PER_MS;
    list_init(&request->link);
    call->task = task;
    call->reply = NULL;
    request->post.run = write_arrive_post;
    client->service->env->post(client->service->env, &request->post);
    return STEP_WAIT;
}

/* ---- A packed one, of another process ---- */

static_assert(sizeof(((struct service_write *)NULL)->request_id) == REQUEST_ID_BYTES,
              "the same id");

static void write_refuse_large(struct local_client *client, struct service_write *write)
{
    struct write_early *early = mem_alloc(sizeof(*early));

    early->raw = write;
    early->rc = RC_LIMIT;
    early->post.run = write_early_post;
    client->env->post(client->env, &early->post);
}

void service_write(struct meta_client *meta, struct service_write *write)
{
    struct local_client *client = CONTAINER_OF(meta, struct local_client, base);
    size_t len = ENTRY_HEADER_BYTES + write->message.len + write->body.len;
    struct write_request *request;
    char *to;

    if (write->message.len > write_message_max((enum meta_command)write->command) ||
        write->body.len > LIMIT_INLINE_BYTES) {
        write_refuse_large(client, write);
        return;
    }
    request = mem_alloc_raw(sizeof(*request) + len);
    *request = (struct write_request){
        .client = client, .raw = write, .len = len, .expires_ns = write->expires_ns};
    to = request->bytes + ENTRY_HEADER_BYTES;
    if (write->message.len > 0) {
        memcpy(to, write->message.data, write->message.len);
    }
    if (write->body.len > 0) {
        memcpy(to + write->message.len, write->body.data, write->body.len);
    }
    request->entry = (struct entry){.command = write->command,
                                    .deadline_ns = write->deadline_ns,
                                    .message = slice_of(to, write->message.len),
                                    .body = slice_of(to + write->message.len, write->body.len)};
    memcpy(request->entry.request_id, write->request_id, REQUEST_ID_BYTES);
    list_init(&request->link);
    request->post.run = write_arrive_post;
    client->service->env->post(client->service->env, &request->post);
}
