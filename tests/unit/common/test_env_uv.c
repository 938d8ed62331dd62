/*
 * The real world keeps the promises of env.h: every test turns a real loop until what it waits for
 * has happened; nothing sleeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"

enum { LARGE_BYTES = 3 * 1024 * 1024 + 17 };

static struct env_uv *world_new(uint32_t loops, bool without_uring)
{
    struct error error = {0};
    const struct env_uv_options options = {
        .loop_count = loops, .pool_count = 2, .without_uring = without_uring};
    struct env_uv *world = env_uv_open(&options, &error);

    assert_non_null(world);
    return world;
}

/* ---- Timers ---- */

struct alarm {
    struct env_timer timer;
    struct env *env;
    int order;
    int *counter;
    int last; /* stops the loop when the counter reaches this */
};

static void alarm_fire(struct env_timer *timer)
{
    struct alarm *alarm = CONTAINER_OF(timer, struct alarm, timer);

    *alarm->counter += 1;
    alarm->order = *alarm->counter;
    if (*alarm->counter == alarm->last) {
        env_uv_stop(alarm->env);
    }
}

/* Retries, leases and timeouts rely on timers that fire in the order of their times, never when
 * stopped. */
static void timers_fire_in_order_and_not_when_stopped(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    struct alarm alarms[40];
    int counter = 0;

    (void)state;
    memset(alarms, 0, sizeof(alarms));
    for (int i = 0; i < 40; i++) {
        alarms[i] = (struct alarm){.env = env, .counter = &counter, .last = 39};
        alarms[i].timer.fire = alarm_fire;
        env->clock->timer_start(env, &alarms[i].timer, (uint64_t)((i * 7) % 40) * 1000000);
    }
    env->clock->timer_stop(env, &alarms[3].timer);
    env->clock->timer_stop(env, &alarms[3].timer);
    env_uv_run(env);
    assert_int_equal(counter, 39);
    assert_int_equal(alarms[3].order, 0);
    for (int i = 0; i < 40; i++) {
        for (int j = 0; j < 40; j++) {
            if (i != 3 && j != 3 && (i * 7) % 40 < (j * 7) % 40) {
                assert_true(alarms[i].order < alarms[j].order);
            }
        }
    }
    env_uv_close(world);
}

/* A lease must never be thought longer than it is: a timer is late, not early. */
static void timer_is_never_early(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    int counter = 0;
    struct alarm alarm = {.env = env, .counter = &counter, .last = 1};
    uint64_t begin_ns = env->clock->mono_ns(env);

    (void)state;
    alarm.timer.fire = alarm_fire;
    env->clock->timer_start(env, &alarm.timer, 1);
    env->clock->timer_start(env, &alarm.timer, 5500000); /* starting again moves it */
    env_uv_run(env);
    assert_true(env->clock->mono_ns(env) - begin_ns >= 5500000);
    env_uv_close(world);
}

/* ---- Work ---- */

struct job {
    struct env_work work;
    struct env_queue *queue;
    unsigned *sum;
    unsigned value;
    int *done_count;
    int done_order;
    int last;
};

static void job_run(struct env_work *work)
{
    struct job *job = CONTAINER_OF(work, struct job, work);

    *job->sum = *job->sum * 31 + job->value; /* no lock: a queue runs one at a time */
}

static void job_done(struct env_work *work)
{
    struct job *job = CONTAINER_OF(work, struct job, work);

    *job->done_count += 1;
    job->done_order = *job->done_count;
    if (*job->done_count == job->last) {
        env_uv_stop(work->env);
    }
}

/* The log writer relies on it: work of one queue runs and completes in the order submitted. */
static void queue_keeps_the_order(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    struct env_queue queue = {.name = "test-queue"};
    struct job jobs[100];
    unsigned sum = 0;
    unsigned want = 0;
    int done = 0;

    (void)state;
    env->worker->queue_open(env, &queue);
    for (unsigned i = 0; i < 100; i++) {
        jobs[i] = (struct job){.sum = &sum, .value = i, .done_count = &done, .last = 100};
        jobs[i].work.run = job_run;
        jobs[i].work.done = job_done;
        env->worker->submit(env, &queue, &jobs[i].work);
        want = want * 31 + i;
    }
    assert_int_equal(done, 0); /* never inside the call */
    env_uv_run(env);
    assert_int_equal(sum, want);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(jobs[i].done_order, i + 1);
    }
    env->worker->queue_close(env, &queue);
    env_uv_close(world);
}

struct batches {
    struct env_queue queue;
    int calls;
    int works;
};

static void batches_run(struct env_queue *queue, struct list *works)
{
    struct batches *batches = CONTAINER_OF(queue, struct batches, queue);

    assert_false(list_empty(works));
    batches->calls += 1;
    while (!list_empty(works)) { /* taking them out of the list is allowed */
        (void)list_pop_front(works);
        batches->works += 1;
    }
}

/* Group commit: what piles up behind a sync is served by the next one, and each is completed once.
 */
static void batch_serves_all_that_is_pending(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    struct batches batches = {
        .queue = {.name = "test-batch", .batch = batches_run}
    };
    struct job jobs[500];
    int done = 0;

    (void)state;
    env->worker->queue_open(env, &batches.queue);
    for (int i = 0; i < 500; i++) {
        jobs[i] = (struct job){.done_count = &done, .last = 500};
        jobs[i].work.run = NULL;
        jobs[i].work.done = job_done;
        env->worker->submit(env, &batches.queue, &jobs[i].work);
    }
    env_uv_run(env);
    assert_int_equal(batches.works, 500);
    assert_true(batches.calls <= 500);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(jobs[i].done_order, i + 1);
    }
    env->worker->queue_close(env, &batches.queue);
    env_uv_close(world);
}

/* ---- Posts ---- */

struct ping {
    struct env_post post;
    struct env *here;
    struct env *home;
    int left;
};

static void ping_run(struct env_post *post)
{
    struct ping *ping = CONTAINER_OF(post, struct ping, post);
    struct env *target = ping->here;

    ping->left -= 1;
    if (ping->left == 0) {
        env_uv_stop(ping->home);
        return;
    }
    ping->here = ping->home;
    ping->home = target;
    target->post(ping->here, &ping->post);
}

static struct env *ordered_env;
static int ordered_seen;

struct ordered {
    struct env_post post;
    int number;
};

static void ordered_run(struct env_post *post)
{
    const struct ordered *ordered = CONTAINER_OF(post, struct ordered, post);

    assert_int_equal(ordered->number, ordered_seen);
    ordered_seen += 1;
    if (ordered_seen == 50) {
        env_uv_stop(ordered_env);
    }
}

/* Messages between loops arrive in the order of their sender, and none is lost when many come at
 * once. */
static void posts_keep_their_order(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct ordered posts[50];

    (void)state;
    ordered_env = env_uv_env(world, 0);
    ordered_seen = 0;
    for (int i = 0; i < 50; i++) {
        posts[i].number = i;
        posts[i].post.run = ordered_run;
        ordered_env->post(ordered_env, &posts[i].post);
    }
    env_uv_run(ordered_env);
    assert_int_equal(ordered_seen, 50);
    env_uv_close(world);
}

/* A lost wake-up between two loops would hang a request for ever. */
static void posts_cross_loops_without_losing_wakeups(void **state)
{
    struct env_uv *world = world_new(2, true);
    struct ping ping = {.left = 2001};

    (void)state;
    ping.home = env_uv_env(world, 1);
    ping.here = env_uv_env(world, 0);
    ping.post.run = ping_run;
    env_uv_start(world);
    ping.here->post(ping.here, &ping.post);
    /* An odd number of hops ends on loop 0 and stops the other one: stop loop 0 by hand from there.
     */
    ping.left = 2000;
    env_uv_run(env_uv_env(world, 0));
    assert_int_equal(ping.left, 0);
    env_uv_close(world);
}

/* ---- Files and disks ---- */

struct transfer {
    struct env_io io;
    struct env *env;
};

static void transfer_done(struct env_io *io)
{
    env_uv_stop(CONTAINER_OF(io, struct transfer, io)->env);
}

static void disk_round_trip(bool without_uring)
{
    struct env_uv *world = world_new(1, without_uring);
    struct env *env = env_uv_env(world, 0);
    struct transfer transfer = {.env = env, .io = {.done = transfer_done}};
    char path[] = "/tmp/kist-test-disk-XXXXXX";
    char *bytes = mem_alloc_raw(LARGE_BYTES);
    char *back = mem_alloc(LARGE_BYTES + 100);
    int file = -1;

    close(mkstemp(path));
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        bytes[i] = (char)(i * 2654435761U >> 13);
    }
    assert_int_equal(env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_WRITE, &file, NULL),
                     RC_OK);
    env->disk->write(env, &transfer.io, file, slice_of(bytes, LARGE_BYTES), 4096);
    env_uv_run(env);
    assert_int_equal(transfer.io.rc, RC_OK);
    assert_int_equal(transfer.io.len, LARGE_BYTES);
    env->disk->sync(env, &transfer.io, file);
    env_uv_run(env);
    assert_int_equal(transfer.io.rc, RC_OK);
    env->disk->read(env, &transfer.io, file, back, LARGE_BYTES + 100, 4096);
    env_uv_run(env);
    assert_int_equal(transfer.io.rc, RC_OK);
    assert_int_equal(transfer.io.len, LARGE_BYTES); /* short at the end of the file */
    assert_memory_equal(bytes, back, LARGE_BYTES);
    env->file->close(env, file);
    assert_int_equal(env->file->unlink(env, path), RC_OK);
    mem_free(bytes);
    mem_free(back);
    env_uv_close(world);
}

/* Shards go through here: every byte must come back, a read past the end is short. */
static void disk_round_trip_with_uring(void **state)
{
    (void)state;
    disk_round_trip(false);
}

/* Containers often forbid io_uring: the pool must behave the same. */
static void disk_round_trip_with_pool(void **state)
{
    (void)state;
    disk_round_trip(true);
}

struct many {
    struct env_io io;
    struct env *env;
    int *left;
    char byte;
};

static void many_done(struct env_io *io)
{
    struct many *many = CONTAINER_OF(io, struct many, io);

    assert_int_equal(io->rc, RC_OK);
    assert_int_equal(io->len, 1);
    *many->left -= 1;
    if (*many->left == 0) {
        env_uv_stop(many->env);
    }
}

/* More requests than the ring has entries: the rest waits and none is lost. */
static void disk_takes_more_requests_than_the_ring_holds(void **state)
{
    struct env_uv *world = world_new(1, false);
    struct env *env = env_uv_env(world, 0);
    char path[] = "/tmp/kist-test-many-XXXXXX";
    struct many *many = mem_alloc(3000 * sizeof(*many));
    char content[256];
    const struct slice slice = slice_of(content, sizeof(content));
    int left = 3000;
    int file = -1;

    (void)state;
    for (int i = 0; i < 256; i++) {
        content[i] = (char)i;
    }
    close(mkstemp(path));
    assert_int_equal(env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_WRITE, &file, NULL),
                     RC_OK);
    assert_int_equal(env->file->write(env, file, &slice, 1, 0), RC_OK);
    for (int i = 0; i < 3000; i++) {
        many[i].env = env;
        many[i].left = &left;
        many[i].io.done = many_done;
        env->disk->read(env, &many[i].io, file, &many[i].byte, 1, (uint64_t)(i & 255));
    }
    env_uv_run(env);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(many[i].byte, (char)(i & 255));
    }
    env->file->close(env, file);
    (void)env->file->unlink(env, path);
    mem_free(many);
    env_uv_close(world);
}

/* Two processes on one directory would destroy it: the lock also refuses a second open of this
 * process. */
static void lock_is_exclusive(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    char path[] = "/tmp/kist-test-lock-XXXXXX";
    struct error error = {0};
    int first = -1;
    int second = -1;

    (void)state;
    close(mkstemp(path));
    assert_int_equal(env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_WRITE, &first, &error),
                     RC_OK);
    assert_int_equal(env->file->open(env, path, ENV_OPEN_READ | ENV_OPEN_WRITE, &second, &error),
                     RC_OK);
    assert_int_equal(env->file->lock(env, first), RC_OK);
    assert_int_equal(env->file->lock(env, second), RC_LOCKED);
    env->file->close(env, first);
    assert_int_equal(env->file->lock(env, second), RC_OK);
    env->file->close(env, second);
    (void)env->file->unlink(env, path);
    assert_int_equal(env->file->open(env, path, ENV_OPEN_READ, &first, &error), RC_NOT_FOUND);
    assert_non_null(strstr(error.text, path));
    env_uv_close(world);
}

static void name_found(void *list, const char *name)
{
    int *found = list;

    *found += strcmp(name, "inner") == 0 ? 1 : 100;
}

/* Recovery lists directories and trusts sizes: what allocate reserved is what stat says. */
static void directories_and_sizes(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    char path[] = "/tmp/kist-test-dir-XXXXXX";
    char inner[64];
    struct env_stat stat;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    int found = 0;
    int file = -1;

    (void)state;
    assert_non_null(mkdtemp(path));
    (void)snprintf(inner, sizeof(inner), "%s/inner", path);
    assert_int_equal(env->file->mkdir(env, path), RC_EXISTS);
    assert_int_equal(env->file->open(env, inner,
                                     ENV_OPEN_WRITE | ENV_OPEN_CREATE | ENV_OPEN_EXCLUSIVE, &file,
                                     NULL),
                     RC_OK);
    assert_int_equal(env->file->allocate(env, file, 123456), RC_OK);
    assert_int_equal(env->file->sync(env, file), RC_OK);
    assert_int_equal(env->file->sync_directory(env, path), RC_OK);
    assert_int_equal(env->file->stat(env, inner, &stat), RC_OK);
    assert_int_equal(stat.size_bytes, 123456);
    assert_false(stat.is_directory);
    assert_int_equal(env->file->list(env, path, name_found, &found), RC_OK);
    assert_int_equal(found, 1);
    assert_int_equal(env->file->space(env, path, &free_bytes, &total_bytes), RC_OK);
    assert_true(free_bytes <= total_bytes && total_bytes > 0);
    env->file->close(env, file);
    assert_int_equal(env->file->unlink(env, inner), RC_OK);
    assert_int_equal(env->file->rmdir(env, path), RC_OK);
    env_uv_close(world);
}

/* ---- Network ---- */

/* An echo server and a client that sends LARGE_BYTES and compares what comes back. */
struct echo {
    struct env *env;
    struct env_listener listener;
    struct env_stream server;
    struct env_stream client;
    struct env_write connect;
    struct env_write write;
    struct env_write back;
    char *sent;
    char *received;
    size_t received_len;
    char *pending; /* what the server has read and not sent back yet */
    size_t pending_len;
    int closed;
    bool server_ended;
};

static void echo_closed_one(struct echo *echo)
{
    echo->closed += 1;
    if (echo->closed == 3) {
        env_uv_stop(echo->env);
    }
}

static void echo_server_closed(struct env_stream *stream)
{
    echo_closed_one(CONTAINER_OF(stream, struct echo, server));
}

static void echo_client_closed(struct env_stream *stream)
{
    echo_closed_one(CONTAINER_OF(stream, struct echo, client));
}

static void echo_listener_closed(struct env_listener *listener)
{
    echo_closed_one(CONTAINER_OF(listener, struct echo, listener));
}

static void echo_back_done(struct env_write *write)
{
    struct echo *echo = CONTAINER_OF(write, struct echo, back);

    assert_int_equal(write->rc, RC_OK);
    echo->pending_len = 0;
    echo->env->net->read_start(echo->env, &echo->server);
}

static void echo_server_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct echo *echo = CONTAINER_OF(stream, struct echo, server);
    struct slice rest;
    size_t taken;

    if (rc != RC_OK) {
        assert_int_equal(rc, RC_CLOSED);
        echo->server_ended = true;
        echo->env->net->shutdown(echo->env, stream);
        return;
    }
    taken = echo->env->net->try_write(echo->env, stream, &bytes, 1);
    if (taken == bytes.len) {
        return;
    }
    /* Back-pressure: what the kernel does not take is kept, and nothing more is read meanwhile. */
    echo->pending_len = bytes.len - taken;
    memcpy(echo->pending, bytes.data + taken, echo->pending_len);
    echo->env->net->read_stop(echo->env, stream);
    rest = slice_of(echo->pending, echo->pending_len);
    echo->env->net->write(echo->env, &echo->back, stream, &rest, 1);
}

static void echo_client_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct echo *echo = CONTAINER_OF(stream, struct echo, client);

    if (rc != RC_OK) {
        assert_int_equal(rc, RC_CLOSED);
        echo->env->net->close(echo->env, &echo->client);
        echo->env->net->close(echo->env, &echo->server);
        echo->env->net->listener_close(echo->env, &echo->listener);
        return;
    }
    assert_true(echo->received_len + bytes.len <= LARGE_BYTES);
    memcpy(echo->received + echo->received_len, bytes.data, bytes.len);
    echo->received_len += bytes.len;
}

static void echo_on_accept(struct env_listener *listener)
{
    struct echo *echo = CONTAINER_OF(listener, struct echo, listener);
    char peer[ENV_ADDRESS_MAX];

    assert_int_equal(echo->env->net->accept(echo->env, listener, &echo->server), RC_OK);
    echo->env->net->peer_address(echo->env, &echo->server, peer);
    assert_true(strncmp(peer, "127.0.0.1:", 10) == 0 || strncmp(peer, "[::1]:", 6) == 0);
    echo->env->net->read_start(echo->env, &echo->server);
}

static void echo_write_done(struct env_write *write)
{
    struct echo *echo = CONTAINER_OF(write, struct echo, write);

    assert_int_equal(write->rc, RC_OK);
    echo->env->net->shutdown(echo->env, &echo->client);
}

static void echo_connected(struct env_write *write)
{
    struct echo *echo = CONTAINER_OF(write, struct echo, connect);
    struct slice parts[2];

    assert_int_equal(write->rc, RC_OK);
    parts[0] = slice_of(echo->sent, 10);
    parts[1] = slice_of(echo->sent + 10, LARGE_BYTES - 10);
    echo->env->net->read_start(echo->env, &echo->client);
    echo->env->net->write(echo->env, &echo->write, &echo->client, parts, 2);
}

static void echo_over(const char *listen)
{
    struct env_uv *world = world_new(1, true);
    struct echo *echo = mem_alloc(sizeof(*echo));
    char address[ENV_ADDRESS_MAX];
    struct error error = {0};

    echo->env = env_uv_env(world, 0);
    echo->sent = mem_alloc_raw(LARGE_BYTES);
    echo->received = mem_alloc(LARGE_BYTES);
    echo->pending = mem_alloc(1 << 20);
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        echo->sent[i] = (char)(i * 40503U >> 7);
    }
    echo->listener.on_accept = echo_on_accept;
    echo->listener.on_close = echo_listener_closed;
    echo->server.on_read = echo_server_read;
    echo->server.on_close = echo_server_closed;
    echo->client.on_read = echo_client_read;
    echo->client.on_close = echo_client_closed;
    echo->connect.done = echo_connected;
    echo->write.done = echo_write_done;
    echo->back.done = echo_back_done;
    assert_int_equal(echo->env->net->listen(echo->env, &echo->listener, listen, &error), RC_OK);
    echo->env->net->listener_address(echo->env, &echo->listener, address);
    echo->env->net->connect(echo->env, &echo->connect, &echo->client, address);
    env_uv_run(echo->env);
    assert_int_equal(echo->received_len, LARGE_BYTES);
    assert_memory_equal(echo->sent, echo->received, LARGE_BYTES);
    assert_true(echo->server_ended);
    mem_free(echo->sent);
    mem_free(echo->received);
    mem_free(echo->pending);
    mem_free(echo);
    env_uv_close(world);
}

/* Bodies of any size pass with back-pressure, in order, and the end of each side is seen by the
 * other. */
static void stream_echoes_everything(void **state)
{
    (void)state;
    echo_over("127.0.0.1:0");
}

/* The same over IPv6. */
static void stream_echoes_over_ipv6(void **state)
{
    (void)state;
    echo_over("[::1]:0");
}

static void listener_gone(struct env_listener *listener)
{
    (void)listener;
}

/* All loops of one process share a port; another process must be told that it is taken. */
static void port_of_another_process_is_refused(void **state)
{
    struct env_uv *ours = world_new(2, true);
    struct env_uv *other = world_new(1, true);
    struct env *env = env_uv_env(ours, 0);
    struct env_listener listeners[3];
    char address[ENV_ADDRESS_MAX];
    struct error error = {0};

    (void)state;
    memset(listeners, 0, sizeof(listeners));
    for (int i = 0; i < 3; i++) {
        listeners[i].on_close = listener_gone;
    }
    assert_int_equal(env->net->listen(env, &listeners[0], "127.0.0.1:0", &error), RC_OK);
    env->net->listener_address(env, &listeners[0], address);
    env = env_uv_env(ours, 1);
    assert_int_equal(env->net->listen(env, &listeners[1], address, &error), RC_OK);
    env = env_uv_env(other, 0);
    assert_int_equal(env->net->listen(env, &listeners[2], address, &error), RC_LOCKED);
    assert_non_null(strstr(error.text, "in use"));
    assert_int_equal(env->net->listen(env, &listeners[2], "127.0.0.1", &error), RC_INVALID);
    assert_int_equal(env->net->listen(env, &listeners[2], "::1:80", &error), RC_INVALID);
    env = env_uv_env(ours, 0);
    env->net->listener_close(env, &listeners[0]);
    env_uv_env(ours, 1)->net->listener_close(env_uv_env(ours, 1), &listeners[1]);
    env_uv_close(ours);
    env_uv_close(other);
}

struct refused {
    struct env *env;
    struct env_stream stream;
    struct env_write connect;
    int completions;
};

static void refused_closed(struct env_stream *stream)
{
    env_uv_stop(CONTAINER_OF(stream, struct refused, stream)->env);
}

static void refused_done(struct env_write *write)
{
    struct refused *refused = CONTAINER_OF(write, struct refused, connect);

    refused->completions += 1;
    assert_int_not_equal(write->rc, RC_OK);
    if (write->rc != RC_CANCELLED) {
        refused->env->net->close(refused->env, &refused->stream);
    }
}

/* A peer that is down must be an error, not a hang; a connect given up early completes too. */
static void connect_failures_complete_once(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct refused refused = {.env = env_uv_env(world, 0)};

    (void)state;
    refused.stream.on_close = refused_closed;
    refused.connect.done = refused_done;
    refused.env->net->connect(refused.env, &refused.connect, &refused.stream, "127.0.0.1:1");
    env_uv_run(refused.env);
    assert_int_equal(refused.completions, 1);
    refused.env->net->connect(refused.env, &refused.connect, &refused.stream, "localhost:1");
    refused.env->net->close(refused.env, &refused.stream); /* while the name is looked up */
    env_uv_run(refused.env);
    assert_int_equal(refused.completions, 2);
    assert_int_equal(refused.connect.rc, RC_CANCELLED);
    env_uv_close(world);
}

/* Ids are made of these: two threads or two calls must not see the same. */
static void random_differs(void **state)
{
    struct env_uv *world = world_new(1, true);
    struct env *env = env_uv_env(world, 0);
    uint64_t last = env->random(env);

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint64_t next = env->random(env);

        assert_true(next != last);
        last = next;
    }
    env_uv_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_and_not_when_stopped),
        cmocka_unit_test(timer_is_never_early),
        cmocka_unit_test(queue_keeps_the_order),
        cmocka_unit_test(batch_serves_all_that_is_pending),
        cmocka_unit_test(posts_keep_their_order),
        cmocka_unit_test(posts_cross_loops_without_losing_wakeups),
        cmocka_unit_test(disk_round_trip_with_uring),
        cmocka_unit_test(disk_round_trip_with_pool),
        cmocka_unit_test(disk_takes_more_requests_than_the_ring_holds),
        cmocka_unit_test(lock_is_exclusive),
        cmocka_unit_test(directories_and_sizes),
        cmocka_unit_test(stream_echoes_everything),
        cmocka_unit_test(stream_echoes_over_ipv6),
        cmocka_unit_test(port_of_another_process_is_refused),
        cmocka_unit_test(connect_failures_complete_once),
        cmocka_unit_test(random_differs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
