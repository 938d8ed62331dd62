#include "gateway/s3/changes_poll.h"

static void poll_tick(struct env_timer *timer)
{
    struct changes_poll *poll = CONTAINER_OF(timer, struct changes_poll, timer);

    task_resume(poll->task, RC_OK);
}

void changes_poll_open(struct changes_poll *poll, struct s3_request *req)
{
    ASSERT(!poll->opened);
    arena_init(&poll->arena);
    poll->opened = true;
    poll->task = &req->task;
    poll->timer.fire = poll_tick;
    poll->call.bucket_id = req->bucket->id;
}

void changes_poll_close(struct changes_poll *poll)
{
    if (poll->opened) {
        arena_deinit(&poll->arena);
        poll->opened = false;
    }
}

enum step_result changes_poll_read(struct changes_poll *poll, struct s3_request *req)
{
    struct meta_client *meta = req->gateway->meta;

    if (poll->reads > 0) {
        poll->call.after_stamp = poll->call.next_stamp;
        poll->call.after_number = poll->call.next_number;
        poll->call.from_oldest = false;
        poll->call.latest = false;
    }
    poll->reads += 1;
    poll->seen = meta->change_stamp(meta);
    arena_reset(&poll->arena);
    poll->call.arena = &poll->arena;
    return meta->changes(meta, &poll->call, &req->task);
}

bool changes_poll_moved(const struct changes_poll *poll, const struct s3_request *req)
{
    struct meta_client *meta = req->gateway->meta;

    return meta->change_stamp(meta) != poll->seen;
}

void changes_poll_wait(struct changes_poll *poll, struct s3_request *req)
{
    struct env *env = req->gateway->env;

    env->clock->timer_start(env, &poll->timer, CHANGES_TICK_MS * 1000000ULL);
}
