/*
 * Writes: the command's message goes as the frame's head, packed once; before the inline body
 * stands the request id, which is the same in every attempt.
 *
 * The deadline goes twice: as time left, and as an instant by the leader's clock as far as it is
 * known here, so that a request that lay somewhere for long does not come true after it was given
 * up.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/meta_rpc/remote_private.h"

struct remote_write {
    struct remote_op op;
    struct meta_write *call;
    struct wire_write head;
    char prefix[WIRE_WRITE_BYTES];
};

/* Never later than it really is: the leader told its clock before we heard of it. */
static uint64_t leader_wall(const struct meta_remote *remote)
{
    return remote->leader_wall_ns == 0
               ? 0
               : remote->leader_wall_ns + (remote_now(remote) - remote->leader_wall_at_ns);
}

static void write_prepare(struct remote_op *op, uint32_t left_ms)
{
    struct remote_write *write = CONTAINER_OF(op, struct remote_write, op);
    uint64_t wall_ns = leader_wall(op->remote);

    write->head.left_ms = left_ms;
    write->head.deadline_ns = wall_ns != 0 ? wall_ns + left_ms * REMOTE_NS_PER_MS : 0;
    wire_write_put(&write->head, write->prefix);
}

static enum rc write_decode(struct remote_op *op, struct slice head, struct slice body)
{
    struct meta_write *call = CONTAINER_OF(op, struct remote_write, op)->call;

    (void)body;
    call->reply = wire_unpack(call->arena, &kist__reply__descriptor, head);
    return call->reply != NULL ? RC_OK : RC_CORRUPT;
}

static void write_finish(struct remote_op *op, enum rc rc)
{
    struct remote_write *write = CONTAINER_OF(op, struct remote_write, op);
    struct task *task = write->call->task;

    if (rc != RC_OK && op->text[0] != '\0') {
        (void)error_set(&task->error, rc, "%s", op->text);
    }
    mem_free(write);
    task_resume(task, rc);
}

enum step_result remote_write(struct meta_client *meta, struct meta_write *call, struct task *task)
{
    struct meta_remote *remote = remote_of(meta);
    size_t message_len = protobuf_c_message_get_packed_size(call->message);
    uint64_t deadline_ms = call->deadline_ms != 0 ? call->deadline_ms : REMOTE_WRITE_MS;
    uint64_t words[2] = {remote->env->random(remote->env), remote->env->random(remote->env)};
    struct remote_write *write;

    if (message_len > LIMIT_PART_COMMAND_BYTES || call->body.len > LIMIT_INLINE_BYTES) {
        return task_fail(task, RC_LIMIT, "a command of %zu bytes is too large", message_len);
    }
    write = mem_alloc(sizeof(*write));
    write->call = call;
    write->head.command = (uint16_t)call->command;
    memcpy(write->head.request_id, words, sizeof(write->head.request_id));
    write->op.prepare = write_prepare;
    write->op.decode = write_decode;
    write->op.finish = write_finish;
    write->op.write = true;
    write->op.attempt_ms = REMOTE_ATTEMPT_MS;
    write->op.deadline_ns = remote_now(remote) + deadline_ms * REMOTE_NS_PER_MS;
    write->op.call.method = RPC_META_WRITE;
    write->op.call.purpose = RPC_CONTROL;
    write->op.call.message = call->message;
    write->op.call.body[0] = slice_of(write->prefix, sizeof(write->prefix));
    write->op.call.body[1] = call->body;
    write->op.call.body_count = call->body.len > 0 ? 2 : 1;
    call->task = task;
    call->reply = NULL;
    remote_op_start(remote, &write->op);
    return STEP_WAIT;
}
