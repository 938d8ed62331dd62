/*
 * A webhook: each event is one POST of its JSON, in order, over a connection that is kept. Any 2xx
 * is a delivery; anything else, and silence for ten seconds, is not.
 *
 * libcurl blocks, so it runs on the thread of a queue of this sink's own.
 */
#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "gateway/events/sink.h"

enum { WEBHOOK_CONNECT_MS = 5000, WEBHOOK_TOTAL_MS = 10000 };

struct webhook {
    struct sink base;
    struct env *env;
    struct env_queue queue;
    struct env_work work;
    struct sink_batch *batch;
    CURL *curl;
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE];
    _Atomic bool stopped;
    void (*close_done)(void *owner);
    void *close_owner;
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

static int give_up(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                   curl_off_t up)
{
    struct webhook *hook = user;

    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    return atomic_load(&hook->stopped) ? 1 : 0;
}

static enum rc post_one(struct webhook *hook, const struct sink_message *message,
                        struct error *error)
{
    long status = 0;
    CURLcode code;

    if (atomic_load(&hook->stopped)) {
        return error_set(error, RC_CANCELLED, "stopped");
    }
    hook->why[0] = '\0';
    (void)curl_easy_setopt(hook->curl, CURLOPT_POSTFIELDS, message->body.data);
    (void)curl_easy_setopt(hook->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)message->body.len);
    code = curl_easy_perform(hook->curl);
    if (code != CURLE_OK) {
        return error_set(error, RC_IO, "%s",
                         hook->why[0] != '\0' ? hook->why : curl_easy_strerror(code));
    }
    (void)curl_easy_getinfo(hook->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299) {
        return error_set(error, RC_INVALID, "answered %ld", status);
    }
    return RC_OK;
}

static void webhook_run(struct env_work *work)
{
    struct webhook *hook = CONTAINER_OF(work, struct webhook, work);
    struct sink_batch *batch = hook->batch;

    while (batch->delivered < batch->count &&
           post_one(hook, &batch->messages[batch->delivered], &batch->error) == RC_OK) {
        batch->delivered += 1;
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

    ASSERT(hook->batch == NULL);
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
    curl_slist_free_all(hook->headers);
    curl_easy_cleanup(hook->curl);
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

static void set_curl(struct webhook *hook, const struct sink_options *options)
{
    CURL *curl = hook->curl;

    (void)curl_easy_setopt(curl, CURLOPT_URL, options->url);
    (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, hook->headers);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "kist");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)WEBHOOK_CONNECT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WEBHOOK_TOTAL_MS);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_reply);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, hook->why);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, give_up);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, hook);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
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
    hook->curl = curl_easy_init();
    if (hook->curl == NULL) {
        mem_free(hook);
        return error_set(error, RC_IO, "libcurl does not start");
    }
    rc = set_headers(hook, options, error);
    if (rc != RC_OK) {
        webhook_free(hook);
        return error_prefix(error, "webhook %s", options->name);
    }
    set_curl(hook, options);
    hook->queue.name = "webhook";
    env->worker->queue_open(env, &hook->queue);
    *out = &hook->base;
    return RC_OK;
}
