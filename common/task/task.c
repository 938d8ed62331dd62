#include "common/task/task.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/assert.h"

/* Returns false when the task waits. */
static bool task_step(struct task *task)
{
    if (task->trace != NULL) {
        task->trace(task, task->steps[task->at].name);
    }
    switch (task->steps[task->at].run(task)) {
    case STEP_NEXT:
        task->at += 1;
        return true;
    case STEP_REPEAT:
        return true;
    case STEP_WAIT:
        task->at += 1;
        task->waiting = true;
        return false;
    case STEP_AGAIN:
        task->waiting = true;
        return false;
    case STEP_DONE:
        while (task->steps[task->at].run != NULL) {
            task->at += 1;
        }
        return true;
    case STEP_FAIL:
        ASSERT(task->error.rc != RC_OK);
        task->done(task);
        return false;
    }
    assert_fail("unknown step result", __FILE__, __LINE__);
}

static void task_run(struct task *task)
{
    while (task->steps[task->at].run != NULL) {
        if (!task_step(task)) {
            return;
        }
    }
    task->done(task);
}

void task_start(struct task *task, const struct step *steps, task_done_cb done)
{
    task_start_traced(task, steps, done, NULL);
}

void task_start_traced(struct task *task, const struct step *steps, task_done_cb done,
                       void (*trace)(struct task *task, const char *step))
{
    ASSERT(steps[0].run != NULL);
    ASSERT(done != NULL);
    *task = (struct task){.steps = steps, .done = done, .trace = trace};
    task_run(task);
}

void task_resume(struct task *task, enum rc rc)
{
    ASSERT(task->waiting);
    task->waiting = false;
    if (rc == RC_OK && task->cancelled) {
        rc = RC_CANCELLED;
    }
    if (rc != RC_OK) {
        if (task->error.rc != rc || task->error.text[0] == '\0') {
            (void)error_set(&task->error, rc, "%s", rc_text(rc));
        }
        task->done(task);
        return;
    }
    task_run(task);
}

void task_cancel(struct task *task)
{
    task->cancelled = true;
}

enum step_result task_fail(struct task *task, enum rc rc, const char *format, ...)
{
    va_list args;

    ASSERT(rc != RC_OK);
    task->error.rc = rc;
    va_start(args, format);
    (void)vsnprintf(task->error.text, sizeof(task->error.text), format, args);
    va_end(args);
    return STEP_FAIL;
}

const char *task_step_name(const struct task *task)
{
    const char *name = task->steps[task->at].name;

    return name != NULL ? name : "done";
}
