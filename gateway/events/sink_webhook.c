/*
 * A webhook: each event is one POST of its JSON over connections that are kept. Any 2xx is a
 * delivery; anything else, and silence for ten seconds, is not.
 *
 * Up to eight are on their way at a time, never two of one key: a distant target is not served at
 * the pace of its round trip, and the events of a key arrive in order. After a failure one at a
 * time, until a whole batch has been taken: what is offered again and again is then one event, not
 * those around it.
 *
 * libcurl blocks, so it runs on the thread of a queue of this sink's own.
 */
#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "gateway/events/sink.h"

enum {
    WEBHOOK_CONNECT_MS = 5000,
    WEBHOOK_TOTAL_MS = 10000,
    WEBHOOK_POLL_MS = 100,
    WEBHOOK_GRACE_POLLS = 20, /* what is under way when we stop may end, or it is told again */
    WEBHOOK_PARALLEL = 8
};

enum post_state { POST_WAITS = 0, POST_UNDER_WAY, POST_TAKEN, POST_FAILED };

/* One request under way, and the connection it goes over. */
struct webhook_post {
    CURL *curl;
    bool busy;
    uint32_t message;
    char why[CURL_ERROR_SIZE];
};

struct webhook {
    struct sink base;
    struct env *env;
    struct env_queue queue;
    struct env_work work;
    struct sink_batch *batch;
    CURLM *multi;
    struct webhook_post posts[WEBHOOK_PARALLEL];
    struct curl_slist *headers;
    enum post_state states[SINK_BATCH_MAX];
    uint32_t busy_count;
    uint32_t end;     /* of what may be begun: all, or when we stop, what others have overtaken */
    uint32_t reached; /* behind the last that was begun */
    bool failed;      /* in this batch: nothing more is begun */
    bool cautious;    /* the batch before failed */
    _Atomic bool stopped;
};

static struct webhook *webhook_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct webhook, base);
}

/* ---- On the queue's thread ---- */

static size_t drop_reply(char *data, size_t size, size_t count, void *user)
{
    (void)data;
    (void)user;
    return size * count;
}

/* Everything of its key before it was taken? */
static bool post_may_begin(const struct webhook *hook, uint32_t index)
{
    const struct sink_message *messages = hook->batch->messages;

    for (uint32_t i = 0; i < index; i++) {
        if (hook->states[i] != POST_TAKEN && slice_eq(messages[i].key, messages[index].key)) {
            return false;
        }
    }
    return hook->states[index] == POST_WAITS;
}

static void post_begin(struct webhook *hook, uint32_t index)
{
    const struct sink_message *message = &hook->batch->messages[index];
    struct webhook_post *post = hook->posts;

    while (post->busy) {
        post++;
    }
    post->busy = true;
    post->message = index;
    post->why[0] = '\0';
    hook->states[index] = POST_UNDER_WAY;
    hook->reached = index + 1 > hook->reached ? index + 1 : hook->reached;
    hook->busy_count += 1;
    (void)curl_easy_setopt(post->curl, CURLOPT_POSTFIELDS, message->body.data);
    (void)curl_easy_setopt(post->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)message->body.len);
    (void)curl_multi_add_handle(hook->multi, post->curl);
}

static void posts_begin(struct webhook *hook)
{
    uint32_t at_once = hook->cautious ? 1 : WEBHOOK_PARALLEL;

    for (uint32_t i = 0; i < hook->end && hook->busy_count < at_once && !hook->failed; i++) {
        if (post_may_begin(hook, i)) {
            post_begin(hook, i);
        } else if (hook->cautious && hook->states[i] != POST_TAKEN) {
            return;
        }
    }
}

static void post_end(struct webhook *hook, struct webhook_post *post, CURLcode code)
{
    struct error *error = &hook->batch->error;
    long status = 0;

    (void)curl_easy_getinfo(post->curl, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_multi_remove_handle(hook->multi, post->curl);
    post->busy = false;
    hook->busy_count -= 1;
    if (code == CURLE_OK && status >= 200 && status <= 299) {
        hook->states[post->message] = POST_TAKEN;
        return;
    }
    hook->states[post->message] = POST_FAILED;
    hook->failed = true;
    if (code == CURLE_OK) {
        (void)error_set(error, RC_INVALID, "answered %ld", status);
    } else {
        (void)error_set(error, RC_IO, "%s",
                        post->why[0] != '\0' ? post->why : curl_easy_strerror(code));
    }
}

static struct webhook_post *post_of(struct webhook *hook, const CURL *curl)
{
    for (uint32_t i = 0; i < WEBHOOK_PARALLEL; i++) {
        if (hook->posts[i].curl == curl) {
            return &hook->posts[i];
        }
    }
    ASSERT(false);
    return NULL;
}

static void posts_reap(struct webhook *hook)
{
    const CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(hook->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            post_end(hook, post_of(hook, message->easy_handle), message->data.result);
        }
    }
}

static void posts_cut(struct webhook *hook, CURLcode code)
{
    for (uint32_t i = 0; i < WEBHOOK_PARALLEL; i++) {
        if (hook->posts[i].busy) {
            post_end(hook, &hook->posts[i], code);
        }
    }
}

static void webhook_run(struct env_work *work)
{
    struct webhook *hook = CONTAINER_OF(work, struct webhook, work);
    struct sink_batch *batch = hook->batch;
    uint32_t grace = WEBHOOK_GRACE_POLLS;
    int running;

    hook->failed = false;
    hook->reached = 0;
    hook->end = atomic_load(&hook->stopped) ? 0 : batch->count;
    for (uint32_t i = 0; i < batch->count; i++) {
        hook->states[i] = POST_WAITS;
    }
    posts_begin(hook);
    while (hook->busy_count > 0) {
        CURLMcode code = curl_multi_perform(hook->multi, &running);

        posts_reap(hook);
        if (atomic_load(&hook->stopped)) {
            hook->end = hook->reached;
            grace -= 1;
        }
        if (code != CURLM_OK || grace == 0) {
            posts_cut(hook, CURLE_ABORTED_BY_CALLBACK);
            break;
        }
        posts_begin(hook);
        if (hook->busy_count > 0) {
            (void)curl_multi_poll(hook->multi, NULL, 0, WEBHOOK_POLL_MS, NULL);
        }
    }
    while (batch->delivered < batch->count && hook->states[batch->delivered] == POST_TAKEN) {
        batch->delivered += 1;
    }
    hook->cautious = batch->delivered < batch->count;
    if (hook->cautious && batch->error.rc == RC_OK) {
        (void)error_set(&batch->error, RC_CANCELLED, "stopped");
    }
}

/* ---- On the loop ---- */

static void webhook_done(struct env_work *work)
{
    struct webhook *hook = CONTAINER_OF(work, struct webhook, work);
    struct sink_batch *batch = hook->batch;

    hook->batch = NULL;
    batch->done(batch);
}

static void webhook_send(struct sink *sink, struct sink_batch *batch)
{
    struct webhook *hook = webhook_of(sink);

    ASSERT(hook->batch == NULL && batch->count <= SINK_BATCH_MAX);
    batch->delivered = 0;
    batch->error = (struct error){.rc = RC_OK};
    hook->batch = batch;
    hook->work.run = webhook_run;
    hook->work.done = webhook_done;
    hook->env->worker->submit(hook->env, &hook->queue, &hook->work);
}

static void webhook_stop(struct sink *sink)
{
    atomic_store(&webhook_of(sink)->stopped, true);
}

static void webhook_free(struct webhook *hook)
{
    for (uint32_t i = 0; i < WEBHOOK_PARALLEL; i++) {
        curl_easy_cleanup(hook->posts[i].curl);
    }
    (void)curl_multi_cleanup(hook->multi);
    curl_slist_free_all(hook->headers);
    mem_free(hook);
}

static void webhook_close(struct sink *sink, void (*done)(void *owner), void *owner)
{
    struct webhook *hook = webhook_of(sink);

    ASSERT(hook->batch == NULL);
    hook->env->worker->queue_close(hook->env, &hook->queue);
    webhook_free(hook);
    done(owner);
}

static const struct sink_ops webhook_ops = {
    .send = webhook_send,
    .stop = webhook_stop,
    .close = webhook_close,
};

/* ---- Open ---- */

static enum rc add_header(struct webhook *hook, const char *text)
{
    struct curl_slist *more = curl_slist_append(hook->headers, text);

    hook->headers = more != NULL ? more : hook->headers;
    return more != NULL ? RC_OK : RC_INVALID;
}

static enum rc set_headers(struct webhook *hook, const struct sink_options *options,
                           struct error *error)
{
    char secret[SINK_SECRET_MAX];
    char header[SINK_SECRET_MAX + 32];
    enum rc rc = add_header(hook, "Content-Type: application/json");

    rc = rc == RC_OK ? add_header(hook, "Expect:") : rc;
    if (rc == RC_OK && options->token_file[0] != '\0') {
        rc = sink_secret_read(hook->env, options->token_file, secret, error);
        if (rc == RC_OK) {
            (void)snprintf(header, sizeof(header), "Authorization: Bearer %s", secret);
            rc = add_header(hook, header);
        }
    }
    return rc;
}

static void set_post(struct webhook *hook, struct webhook_post *post,
                     const struct sink_options *options)
{
    CURL *curl = post->curl;

    (void)curl_easy_setopt(curl, CURLOPT_URL, options->url);
    (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, hook->headers);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "kist");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)WEBHOOK_CONNECT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WEBHOOK_TOTAL_MS);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_reply);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, post->why);
    if (options->ca[0] != '\0') {
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca);
    }
}

enum rc sink_webhook_open(struct sink **out, struct env *env, const struct sink_options *options,
                          struct error *error)
{
    struct webhook *hook = mem_alloc(sizeof(*hook));
    enum rc rc;

    hook->base.ops = &webhook_ops;
    hook->env = env;
    hook->multi = curl_multi_init();
    rc = hook->multi != NULL ? set_headers(hook, options, error)
                             : error_set(error, RC_IO, "libcurl does not start");
    for (uint32_t i = 0; rc == RC_OK && i < WEBHOOK_PARALLEL; i++) {
        hook->posts[i].curl = curl_easy_init();
        if (hook->posts[i].curl == NULL) {
            rc = error_set(error, RC_IO, "libcurl does not start");
        } else {
            set_post(hook, &hook->posts[i], options);
        }
    }
    if (rc != RC_OK) {
        webhook_free(hook);
        return error_prefix(error, "webhook %s", options->name);
    }
    hook->queue.name = "webhook";
    env->worker->queue_open(env, &hook->queue);
    *out = &hook->base;
    return RC_OK;
}
