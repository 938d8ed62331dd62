#include "gateway/s3/keep_alive.h"

#include "gateway/s3/dispatch.h"

enum { KEEP_ALIVE_MS = 10 * 1000 };

#define KEEP_ALIVE_DECLARATION SLICE("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")

static void keep_arm(struct keep_alive *keep)
{
    struct env *env = keep->req->gateway->env;
    uint64_t every_ms = keep->req->gateway->config->keep_alive_ms;

    every_ms = every_ms != 0 ? every_ms : KEEP_ALIVE_MS;
    env->clock->timer_start(env, &keep->timer, every_ms * 1000000U);
}

static void keep_written(struct http_write *write)
{
    struct keep_alive *keep = CONTAINER_OF(write, struct keep_alive, write);

    keep->writing = false;
}

static void keep_write(struct keep_alive *keep, struct slice bytes)
{
    keep->write.done = keep_written;
    keep->writing = !http_reply_write(keep->req->http, &keep->write, &bytes, 1);
}

/* Headers that the handler has gathered stay behind: they belong to an outcome not known yet. */
static void keep_begin(struct keep_alive *keep)
{
    struct s3_request *req = keep->req;
    uint32_t from = req->header_count;

    s3_reply_header(req, "Content-Type", SLICE("application/xml"));
    s3_reply_common_headers(req);
    http_reply_start(req->http, 200, req->headers + from, req->header_count - from, -1);
    req->header_count = from;
    keep->begun = true;
    keep_write(keep, KEEP_ALIVE_DECLARATION);
}

static void keep_fire(struct env_timer *timer)
{
    struct keep_alive *keep = CONTAINER_OF(timer, struct keep_alive, timer);

    if (!keep->begun) {
        keep_begin(keep);
    } else if (!keep->writing) {
        keep_write(keep, SLICE(" "));
    }
    keep_arm(keep);
}

void keep_alive_start(struct keep_alive *keep, struct s3_request *req)
{
    keep->req = req;
    keep->timer.fire = keep_fire;
    keep_arm(keep);
}

bool keep_alive_stop(struct keep_alive *keep)
{
    struct env *env;

    if (keep->req == NULL) {
        return true;
    }
    env = keep->req->gateway->env;
    env->clock->timer_stop(env, &keep->timer);
    return !keep->writing;
}

struct slice keep_alive_rest(struct slice document)
{
    struct slice declaration = KEEP_ALIVE_DECLARATION;

    return slice_starts(document, declaration) ? slice_after(document, declaration.len) : document;
}
