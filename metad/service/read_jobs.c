/* Rows of jobs, for the admin port. */
#include "metad/service/read.h"
#include "metad/store/message.h"

enum rc read_jobs(struct read_context *read, void *arg)
{
    struct meta_jobs *call = arg;
    struct row_key prefix;
    struct row_key start;
    struct read_walk walk;
    enum rc rc = RC_OK;

    if (read->cached_only) {
        return RC_AGAIN;
    }
    call->job_count = 0;
    call->jobs = arena_alloc(call->arena, call->limit * sizeof(*call->jobs));
    key_range(&prefix, RANGE_FIRST, KIND_JOB, SLICE_EMPTY);
    key_range_u64(&start, RANGE_FIRST, KIND_JOB, call->after, SLICE("\0"));
    read_walk_open(&walk, read, FAMILY_ROWS, &start, &prefix, true);
    while (rc == RC_OK && read_walk_valid(&walk) && call->job_count < call->limit) {
        Kist__Job *job =
            message_unpack(call->arena, &kist__job__descriptor, read_walk_value(&walk));

        if (job == NULL) {
            rc = read_corrupt(read, "a job row");
        } else {
            call->jobs[call->job_count++] = job;
            (void)read_walk_next(&walk);
        }
    }
    rc = rc == RC_OK && !read_walk_valid(&walk) ? read_walk_rc(&walk) : rc;
    read_walk_close(&walk);
    return rc;
}
