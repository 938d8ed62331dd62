/*
 * Waiting for changes of a bucket, for the handlers that answer with them:
 *
 *     READ -> LOOK: found, or more behind? -> the caller's
 *       ^     nothing -> WAIT: a tick; has a change come? -'
 *
 * One step of a handler drives it; between two reads memory is given back.
 */
#ifndef GATEWAY_S3_CHANGES_POLL_H
#define GATEWAY_S3_CHANGES_POLL_H

#include "gateway/s3/setting.h"

enum { CHANGES_PAGE_MAX = 1000, CHANGES_TICK_MS = 50 };

enum changes_phase { CHANGES_READ = 0, CHANGES_LOOK, CHANGES_WAIT };

struct changes_poll {
    struct meta_changes call; /* bucket, cursor, prefix, limit set by the handler */
    struct arena arena;       /* of one page */
    struct task *task;
    struct env_timer timer;
    enum changes_phase phase;
    uint64_t seen; /* change stamp before the last read */
    uint32_t reads;
    bool opened;
};

void changes_poll_open(struct changes_poll *poll, struct s3_request *req);
void changes_poll_close(struct changes_poll *poll); /* harmless when it was not opened */
/* The next page into poll->call: what its call of metad returns. */
enum step_result changes_poll_read(struct changes_poll *poll, struct s3_request *req);
/* Resumes the task after a tick. */
void changes_poll_wait(struct changes_poll *poll, struct s3_request *req);
/* Has anything come into the feed since the last read? */
bool changes_poll_moved(const struct changes_poll *poll, const struct s3_request *req);

#endif
