/*
 * A task walks a table of steps, in order, on the loop thread.
 *
 * A step never blocks. It either goes on, or starts one asynchronous call and waits for it. Whoever
 * finishes that call runs task_resume(). A completion never runs inside the call that started it,
 * so a step can finish its own bookkeeping before it returns STEP_WAIT.
 *
 * A step is entered only if everything that earlier steps waited for succeeded. A call that may
 * have its answer at hand returns a step_result itself (STEP_NEXT, STEP_WAIT or STEP_FAIL), so that
 * a step can end with `return meta_get(...)`.
 */
#ifndef COMMON_TASK_TASK_H
#define COMMON_TASK_TASK_H

#include <stdbool.h>

#include "common/base/error.h"

enum step_result {
    STEP_NEXT = 0, /* go on with the following row */
    STEP_WAIT,     /* a completion resumes at the following row */
    STEP_AGAIN,    /* a completion re-enters this row: loops over a body, a listing, ... */
    STEP_REPEAT,   /* re-enter this row at once: the awaited answer was at hand */
    STEP_FAIL,     /* task->error says why */
    STEP_DONE      /* success: skip the remaining rows */
};

struct task;

struct step {
    const char *name; /* also the trace span and the `step` label of the wait-time metric */
    enum step_result (*run)(struct task *task);
};

typedef void (*task_done_cb)(struct task *task);

struct task {
    struct error error; /* valid in the done callback */
    /* Private. */
    const struct step *steps;
    unsigned at;
    bool waiting;
    bool cancelled;
    task_done_cb done;
    void (*trace)(struct task *task, const char *step);
};

/* Borrows `steps` (ends at a row without `run`) and `task` until `done`; `done` may free `task`. It
 * may run inside task_start() when no step had to wait. */
void task_start(struct task *task, const struct step *steps, task_done_cb done);

/* The same, and `trace` is told each step that is entered. */
void task_start_traced(struct task *task, const struct step *steps, task_done_cb done,
                       void (*trace)(struct task *task, const char *step));

/* Reports the awaited call's outcome. Call once per STEP_WAIT or STEP_AGAIN. With a failure the
 * text may stand in task->error.text already; otherwise the rc's own text is put there. */
void task_resume(struct task *task, enum rc rc);

/* The owner has lost interest: the next resume fails with RC_CANCELLED instead of going on. What
 * was awaited still completes first. */
void task_cancel(struct task *task);

/* Sets the error and returns STEP_FAIL. */
enum step_result task_fail(struct task *task, enum rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The step the task stands at (or waits behind); for traces. */
const char *task_step_name(const struct task *task);

#endif
