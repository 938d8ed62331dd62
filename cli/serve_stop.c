/* The way down, in the reverse order of the way up: no new work, what is under way finishes, then
 * the stores are flushed and closed. Also undoes a start that failed half-way. */
#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/log/log.h"

#define SERVE_OF_STOP(ptr) CONTAINER_OF(ptr, struct serve, stop)

static void stop_resume(struct env_post *post)
{
    struct serve *serve = CONTAINER_OF(post, struct serve, resume);

    task_resume(&serve->stop, RC_OK);
}

/* A close has completed; it may have done so inside the call, so the task goes on from the loop. */
static void stop_on_done(void *arg)
{
    struct serve *serve = arg;

    serve->resume.run = stop_resume;
    serve->env->post(serve->env, &serve->resume);
}

static enum step_result stop_gateways(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    serve_gateways_close(serve);
    return serve->gateways_pending > 0 ? STEP_WAIT : STEP_NEXT;
}

static enum step_result stop_admin(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->admin == NULL) {
        return STEP_NEXT;
    }
    admin_server_close(serve->admin, stop_on_done, serve);
    serve->admin = NULL;
    return STEP_WAIT;
}

static enum step_result stop_events(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->events == NULL) {
        return STEP_NEXT;
    }
    events_close(serve->events, stop_on_done, serve);
    serve->events = NULL;
    return STEP_WAIT;
}

static enum step_result stop_repair(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->repair == NULL) {
        return STEP_NEXT;
    }
    repair_close(serve->repair, stop_on_done, serve);
    serve->repair = NULL;
    return STEP_WAIT;
}

static enum step_result stop_data(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->datad == NULL) {
        return STEP_NEXT;
    }
    metad_set_data(serve->metad, NULL); /* no reclaim from here on */
    datad_close(serve->datad, stop_on_done, serve);
    serve->datad = NULL;
    return STEP_WAIT;
}

static enum step_result stop_meta(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->metad == NULL) {
        return STEP_NEXT;
    }
    metad_close(serve->metad, stop_on_done, serve);
    serve->metad = NULL;
    return STEP_WAIT;
}

static enum step_result stop_rest(struct task *task)
{
    struct serve *serve = SERVE_OF_STOP(task);

    if (serve->tls != NULL) {
        tls_context_close(serve->tls);
        serve->tls = NULL;
    }
    directories_close(serve->env, &serve->directories);
    env_uv_stop(serve->env);
    return STEP_NEXT;
}

static void stop_done(struct task *task)
{
    ASSERT(task->error.rc == RC_OK);
    if (SERVE_OF_STOP(task)->error.rc == RC_OK) {
        LOG_INFO("stopped", "incarnation=%u", SERVE_OF_STOP(task)->incarnation);
    }
}

void serve_stop(struct serve *serve)
{
    static const struct step steps[] = {
        {"gateways", stop_gateways  },
        {"admin",    stop_admin     },
        {"events",   stop_events    },
        {"repair",   stop_repair    },
        {"data",     stop_data      },
        {"meta rpc", serve_close_rpc},
        {"meta",     stop_meta      },
        {"rest",     stop_rest      },
        {NULL,       NULL           },
    };

    ASSERT(!serve->stopping);
    serve->stopping = true;
    task_start(&serve->stop, steps, stop_done);
}
