/*
 * META_WRITE: the command goes into the log as it came, under the request id of the one who asks,
 * so that a repeat (to whichever leader) gets the first answer.
 *
 *     message decodes, no field is of a later release -> service_write() -> packed reply
 *
 * Checked here because what is proposed is applied by every replica: one that cannot decode it
 * stops.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/apply/command_table.h"
#include "metad/rpc/service_private.h"
#include "metad/store/message.h"

static const uint64_t NS_PER_MS = 1000000ULL;

struct write_job {
    struct meta_service *service;
    struct rpc_request *request;
    struct service_write write;
};

static void write_job_done(struct service_write *write)
{
    struct write_job *job = CONTAINER_OF(write, struct write_job, write);
    struct meta_service *service = job->service;

    if (write->rc == RC_OK) {
        struct rpc_reply reply = {.rc = RC_OK, .head = write->reply};

        rpc_reply(job->request, &reply);
    } else {
        service_refuse_request(service, job->request, write->rc, NULL);
    }
    mem_free(job);
    service_done(service);
}

static enum rc write_check(const struct wire_write *head, struct slice message)
{
    const struct command *command = command_find(head->command);
    const ProtobufCMessage *unpacked;
    struct arena arena;
    enum rc rc = RC_OK;

    if (command == NULL) {
        return RC_UNSUPPORTED;
    }
    arena_init(&arena);
    unpacked = message_unpack(&arena, command->type, message);
    if (unpacked == NULL) {
        rc = RC_INVALID;
    } else if (!message_known(unpacked)) {
        rc = RC_UNSUPPORTED;
    }
    arena_deinit(&arena);
    return rc;
}

/* The earlier of what the client allows: so long from now, and (it may have been under way for
 * long) up to this time. */
static uint64_t write_deadline(struct env *env, const struct wire_write *head)
{
    uint64_t by_left = env->clock->wall_ns(env) + head->left_ms * NS_PER_MS;

    return head->deadline_ns != 0 && head->deadline_ns < by_left ? head->deadline_ns : by_left;
}

void service_write_request(struct meta_service *service, struct rpc_request *request)
{
    struct env *env = service->env;
    struct slice body = request->body;
    struct wire_write head;
    struct write_job *job;
    enum rc rc;

    if (!wire_write_take(&body, &head) || head.left_ms == 0) {
        service_refuse_request(service, request, RC_INVALID, "not a write");
        return;
    }
    rc = write_check(&head, request->head);
    if (rc != RC_OK) {
        service_refuse_request(service, request, rc, "the command does not decode here");
        return;
    }
    job = mem_alloc(sizeof(*job));
    job->service = service;
    job->request = request;
    job->write = (struct service_write){
        .command = head.command,
        .message = request->head,
        .body = body,
        .expires_ns = env->clock->mono_ns(env) + head.left_ms * NS_PER_MS,
        .deadline_ns = write_deadline(env, &head),
        .done = write_job_done,
    };
    memcpy(job->write.request_id, head.request_id, sizeof(job->write.request_id));
    service_opened(service);
    service_write(service->meta, &job->write);
}
