/* The simulated world keeps the promises of env.h, and breaks everything that env.h does not
 * promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "tests/lib/env_sim.h"

/* ---- Clock, work, posts ---- */

struct fired {
    struct env_timer timer;
    unsigned count;
    uint64_t at;
    struct env *env;
};

static void on_fire(struct env_timer *timer)
{
    struct fired *fired = CONTAINER_OF(timer, struct fired, timer);

    fired->count += 1;
    fired->at = fired->env->clock->mono_ns(fired->env);
}

/* A timer is never early, can be moved, and is silent once stopped. */
static void test_timers(void **state)
{
    struct env *env = sim_env_alone(1);
    struct fired kept = {.timer = {.fire = on_fire}, .env = env};
    struct fired stopped = {.timer = {.fire = on_fire}, .env = env};
    uint64_t start = env->clock->mono_ns(env);

    (void)state;
    env->clock->timer_start(env, &kept.timer, 10 * SIM_MS);
    env->clock->timer_start(env, &kept.timer, 50 * SIM_MS);
    env->clock->timer_start(env, &stopped.timer, 10 * SIM_MS);
    env->clock->timer_stop(env, &stopped.timer);
    env->clock->timer_stop(env, &stopped.timer);
    assert_int_equal(kept.count, 0);
    sim_run_for(sim_of(env), SIM_S);
    assert_int_equal(kept.count, 1);
    assert_true(kept.at >= start + 50 * SIM_MS);
    assert_int_equal(stopped.count, 0);
    sim_free(sim_of(env));
}

struct job {
    struct env_work work;
    unsigned ran;
    unsigned done;
    unsigned order;
};

static unsigned next_order;

static void job_run(struct env_work *work)
{
    CONTAINER_OF(work, struct job, work)->ran += 1;
}

static void job_done(struct env_work *work)
{
    struct job *job = CONTAINER_OF(work, struct job, work);

    job->done += 1;
    job->order = next_order++;
}

static unsigned batches;

static void batch_run(struct env_queue *queue, struct list *works)
{
    (void)queue;
    assert_false(list_empty(works));
    batches += 1;
    while (!list_empty(works)) {
        job_run(CONTAINER_OF(list_pop_front(works), struct env_work, link));
    }
}

/* Each job runs and completes once, never inside submit; a queue keeps order, the pool need not. */
static void test_work_completes_once_and_later(void **state)
{
    bool pool_reordered = false;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct env *env = sim_env_alone(seed);
        struct env_queue queue = {.name = "q"};
        struct job jobs[16] = {0};

        next_order = 0;
        env->worker->queue_open(env, &queue);
        for (unsigned i = 0; i < 16; i++) {
            jobs[i].work = (struct env_work){.run = job_run, .done = job_done};
            env->worker->submit(env, i < 8 ? &queue : NULL, &jobs[i].work);
            assert_int_equal(jobs[i].ran + jobs[i].done, 0);
        }
        sim_run_for(sim_of(env), SIM_S);
        for (unsigned i = 0; i < 16; i++) {
            assert_int_equal(jobs[i].ran, 1);
            assert_int_equal(jobs[i].done, 1);
            assert_true(i == 0 || i >= 8 || jobs[i].order > jobs[i - 1].order);
            pool_reordered = pool_reordered || (i > 8 && jobs[i].order < jobs[i - 1].order);
        }
        env->worker->queue_close(env, &queue);
        sim_free(sim_of(env));
    }
    assert_true(pool_reordered);
}

/* Group commit rests on this: what is submitted while a batch runs is served by the next one
 * together. */
static void test_batches_take_all_that_is_pending(void **state)
{
    struct env *env = sim_env_alone(3);
    struct env_queue queue = {.name = "q", .batch = batch_run};
    struct job jobs[10] = {0};

    (void)state;
    batches = 0;
    env->worker->queue_open(env, &queue);
    for (unsigned i = 0; i < 10; i++) {
        jobs[i].work = (struct env_work){.done = job_done};
        env->worker->submit(env, &queue, &jobs[i].work);
    }
    sim_run_for(sim_of(env), SIM_S);
    assert_int_equal(batches, 1);
    assert_int_equal(jobs[9].done, 1);
    env->worker->queue_close(env, &queue);
    sim_free(sim_of(env));
}

struct posted {
    struct env_post post;
    unsigned order;
};

static void on_post(struct env_post *post)
{
    CONTAINER_OF(post, struct posted, post)->order = next_order++;
}

/* Loops tell one another things in order. */
static void test_posts_keep_their_order(void **state)
{
    struct env *env = sim_env_alone(4);
    struct env *other = sim_env_new(sim_node_of(env));
    struct posted posts[20] = {0};

    (void)state;
    next_order = 1;
    for (unsigned i = 0; i < 20; i++) {
        posts[i].post.run = on_post;
        env->post(other, &posts[i].post);
        assert_int_equal(posts[i].order, 0);
    }
    sim_run_for(sim_of(env), SIM_S);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(posts[i].order, i + 1);
    }
    sim_free(sim_of(env));
}

/* One seed, one run: a failure that cannot be replayed cannot be fixed. */
static void test_seed_decides(void **state)
{
    struct env *a = sim_env_alone(9);
    struct env *b = sim_env_alone(9);
    struct env *c = sim_env_alone(10);

    (void)state;
    assert_int_equal(a->random(a), b->random(b));
    assert_int_not_equal(a->random(a), c->random(c));
    sim_free(sim_of(a));
    sim_free(sim_of(b));
    sim_free(sim_of(c));
}

/* ---- Files ---- */

static int file_make(struct env *env, const char *path, unsigned more)
{
    int file = -1;

    assert_int_equal(env->file->open(env, path,
                                     ENV_OPEN_READ | ENV_OPEN_WRITE | ENV_OPEN_CREATE | more, &file,
                                     NULL),
                     RC_OK);
    return file;
}

static void file_fill(struct env *env, int file, uint64_t at, char byte)
{
    char page[4096] = {0};
    struct slice from = slice_of(page, sizeof(page));

    memset(page, byte, sizeof(page));
    assert_int_equal(env->file->write(env, file, &from, 1, at), RC_OK);
}

static char file_byte(struct env *env, int file, uint64_t at)
{
    char byte = 0;
    size_t got = 0;

    assert_int_equal(env->file->read(env, file, &byte, 1, at, &got), RC_OK);
    return got == 1 ? byte : '!';
}

/* The one promise that everything rests on: synced bytes under a synced name are there after a
 * power cut, and what was written after the sync is there, absent or torn. */
static void test_power_cut(void **state)
{
    unsigned old = 0;
    unsigned fresh = 0;
    unsigned torn = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct env *env = sim_env_alone(seed);
        struct sim_node *node = sim_node_of(env);
        int file = file_make(env, "/f", 0);

        file_fill(env, file, 0, 'a');
        file_fill(env, file, 4096, 'a');
        assert_int_equal(env->file->sync(env, file), RC_OK);
        assert_int_equal(env->file->sync_directory(env, "/"), RC_OK);
        file_fill(env, file, 4096, 'b');
        sim_crash(node, SIM_POWER);

        env = sim_env_new(node);
        file = file_make(env, "/f", 0);
        assert_int_equal(file_byte(env, file, 0), 'a');
        assert_int_equal(file_byte(env, file, 4095), 'a');
        unsigned b = 0;
        for (unsigned i = 0; i < 8; i++) {
            b += file_byte(env, file, 4096 + i * 512) == 'b';
        }
        old += b == 0;
        fresh += b == 8;
        torn += b != 0 && b != 8;
        env->file->close(env, file);
        sim_free(sim_of(env));
    }
    assert_true(old > 20);
    assert_true(fresh > 20);
    assert_true(torn > 20);
}

/* A name is durable only after its directory was synced; a rename happens whole or not at all. */
static void test_names_at_a_power_cut(void **state)
{
    unsigned lost = 0;
    unsigned renamed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct env *env = sim_env_alone(seed);
        struct sim_node *node = sim_node_of(env);
        struct env_stat stat;
        int file;

        assert_int_equal(env->file->mkdir(env, "/d"), RC_OK);
        assert_int_equal(env->file->mkdir(env, "/d"), RC_EXISTS);
        file = file_make(env, "/d/tmp", 0);
        file_fill(env, file, 0, 'x');
        assert_int_equal(env->file->sync(env, file), RC_OK);
        env->file->close(env, file);
        assert_int_equal(env->file->sync_directory(env, "/"), RC_OK);
        assert_int_equal(env->file->sync_directory(env, "/d"), RC_OK);
        assert_int_equal(env->file->rename(env, "/d/tmp", "/d/final"), RC_OK);
        file = file_make(env, "/d/unsynced", 0);
        sim_crash(node, SIM_POWER);

        env = sim_env_new(node);
        bool tmp = env->file->stat(env, "/d/tmp", &stat) == RC_OK;
        bool final = env->file->stat(env, "/d/final", &stat) == RC_OK;
        assert_true(tmp != final);
        assert_int_equal(stat.size_bytes, final ? 4096 : stat.size_bytes);
        renamed += final;
        lost += env->file->stat(env, "/d/unsynced", &stat) == RC_NOT_FOUND;
        sim_free(sim_of(env));
    }
    assert_in_range(renamed, 20, 90);
    assert_in_range(lost, 20, 90);
}

/* kill -9 loses nothing that a write call took. */
static void test_kill_keeps_the_page_cache(void **state)
{
    struct env *env = sim_env_alone(5);
    struct sim_node *node = sim_node_of(env);
    int file = file_make(env, "/f", 0);

    (void)state;
    assert_int_equal(env->file->lock(env, file), RC_OK);
    file_fill(env, file, 0, 'k');
    sim_crash(node, SIM_KILL);
    env = sim_env_new(node);
    file = file_make(env, "/f", 0);
    assert_int_equal(file_byte(env, file, 0), 'k');
    assert_int_equal(env->file->lock(env, file), RC_OK); /* locks end with the process */
    assert_int_equal(sim_open_files(node), 1);
    sim_free(sim_of(env));
}

/* After a failed sync the cache shows what the platter lacks: only direct reads tell the truth. */
static void test_failed_sync(void **state)
{
    struct env *env = sim_env_alone(6);
    struct sim_node *node = sim_node_of(env);
    int file = file_make(env, "/f", 0);
    int direct = file_make(env, "/f", ENV_OPEN_DIRECT);
    char *page = mem_alloc_pages(4096);
    size_t got;

    (void)state;
    file_fill(env, file, 0, 'a');
    assert_int_equal(env->file->sync(env, file), RC_OK);
    file_fill(env, file, 0, 'b');
    sim_disk_faults(node, "/")->sync_error_ppm = 1000000;
    assert_int_equal(env->file->sync(env, file), RC_IO);
    sim_disk_faults(node, "/")->sync_error_ppm = 0;
    assert_int_equal(env->file->sync(env, file),
                     RC_OK); /* and lies: the page is not dirty any more */
    assert_int_equal(file_byte(env, file, 0), 'b');
    assert_int_equal(env->file->read(env, direct, page, 4096, 0, &got), RC_OK);
    assert_int_equal(page[0], 'a');
    mem_free(page);
    sim_free(sim_of(env));
}

/* Full, failed, slow and rotten disks, each on its own device. */
static void test_disk_faults(void **state)
{
    struct env *env = sim_env_alone(8);
    struct sim_node *node = sim_node_of(env);
    struct env_stat a;
    struct env_stat b;
    uint64_t free_bytes;
    uint64_t total_bytes;
    int file;
    char byte;
    size_t got;

    (void)state;
    sim_mount(node, "/d1");
    sim_mount(node, "/d2");
    file = file_make(env, "/d1/f", 0);
    (void)file_make(env, "/d2/f", 0);
    assert_int_equal(env->file->stat(env, "/d1/f", &a), RC_OK);
    assert_int_equal(env->file->stat(env, "/d2/f", &b), RC_OK);
    assert_int_not_equal(a.device, b.device);

    sim_disk_faults(node, "/d1")->capacity_bytes = 8192;
    assert_int_equal(env->file->allocate(env, file, 8192), RC_OK);
    assert_int_equal(env->file->allocate(env, file, 12288), RC_FULL);
    assert_int_equal(env->file->space(env, "/d1", &free_bytes, &total_bytes), RC_OK);
    assert_int_equal(free_bytes, 0);
    assert_int_equal(env->file->punch(env, file, 0, 4096), RC_OK);
    assert_int_equal(env->file->space(env, "/d1", &free_bytes, &total_bytes), RC_OK);
    assert_int_equal(free_bytes, 4096);

    file_fill(env, file, 4096, 'r');
    assert_true(sim_file_flip(node, "/d1/f", 5000, 0));
    assert_int_equal(file_byte(env, file, 5000), 'r' ^ 1);
    assert_true(sim_file_bad(node, "/d1/f", 6000, 10));
    assert_int_equal(env->file->read(env, file, &byte, 1, 6005, &got), RC_IO);

    sim_disk_faults(node, "/d2")->failed = true;
    assert_int_equal(env->file->stat(env, "/d2/f", &b), RC_IO);
    assert_int_equal(env->file->stat(env, "/d1/f", &a), RC_OK);
    assert_int_equal(sim_file_count(node, "/d1"), 1);
    sim_file_wipe(node, "/d1");
    assert_int_equal(env->file->stat(env, "/d1", &a), RC_NOT_FOUND);
    sim_free(sim_of(env));
}

/* A stop in the middle of a job: nothing more reaches the disk, and `done` is never heard. */
static void test_stop_after(void **state)
{
    struct env *env = sim_env_alone(11);
    struct sim_node *node = sim_node_of(env);
    int file = file_make(env, "/f", 0);
    struct job job = {
        .work = {.run = job_run, .done = job_done}
    };
    char page[4096] = {'z'};
    struct slice from = slice_of(page, sizeof(page));

    (void)state;
    file_fill(env, file, 0, 'a');
    assert_int_equal(env->file->sync(env, file), RC_OK);
    assert_int_equal(env->file->sync_directory(env, "/"), RC_OK);
    env->worker->submit(env, NULL, &job.work);
    sim_stop_after(node, 2);
    file_fill(env, file, 4096, 'b');
    assert_int_equal(env->file->write(env, file, &from, 1, 8192), RC_IO);
    assert_true(sim_stopped(node));
    assert_int_equal(env->file->sync(env, file), RC_IO);
    sim_run_for(sim_of(env), SIM_S);
    assert_int_equal(job.ran + job.done, 0);
    sim_crash(node, SIM_POWER);
    env = sim_env_new(node);
    file = file_make(env, "/f", 0);
    assert_int_equal(file_byte(env, file, 0), 'a');
    sim_free(sim_of(env));
}

struct io {
    struct env_io io;
    unsigned done;
};

static void on_io(struct env_io *io)
{
    CONTAINER_OF(io, struct io, io)->done += 1;
}

/* A sync covers what had completed when it began, and nothing that was still under way. */
static void test_async_sync_covers_completed_writes_only(void **state)
{
    unsigned lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct env *env = sim_env_alone(seed);
        struct sim_node *node = sim_node_of(env);
        int file = file_make(env, "/f", 0);
        static char page[4096];
        struct io first = {.io = {.done = on_io}};
        struct io second = {.io = {.done = on_io}};
        struct io sync = {.io = {.done = on_io}};

        assert_int_equal(env->file->sync_directory(env, "/"), RC_OK);
        memset(page, 's', sizeof(page));
        env->disk->write(env, &first.io, file, slice_of(page, 4096), 0);
        sim_run_for(sim_of(env), SIM_S);
        assert_int_equal(first.done, 1);
        assert_int_equal(first.io.len, 4096);
        env->disk->write(env, &second.io, file, slice_of(page, 4096), 4096);
        env->disk->sync(env, &sync.io, file);
        sim_run_for(sim_of(env), SIM_S);
        assert_int_equal(second.done + sync.done, 2);
        assert_int_equal(sync.io.rc, RC_OK);
        sim_crash(node, SIM_POWER);
        env = sim_env_new(node);
        file = file_make(env, "/f", 0);
        assert_int_equal(file_byte(env, file, 4095), 's');
        lost += file_byte(env, file, 4096) != 's';
        sim_free(sim_of(env));
    }
    assert_true(lost > 5);
}

/* ---- Network ---- */

struct peer {
    struct env *env;
    struct env_listener listener;
    struct env_stream stream;
    struct env_write connect;
    struct env_write write;
    struct buffer got;
    unsigned reads;
    unsigned accepted;
    unsigned connected;
    unsigned written;
    unsigned closed;
    enum rc end;
};

static void peer_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct peer *peer = CONTAINER_OF(stream, struct peer, stream);

    if (rc != RC_OK) {
        peer->end = rc;
        return;
    }
    assert_true(bytes.len > 0);
    peer->reads += 1;
    buffer_append(&peer->got, bytes);
}

static void peer_on_close(struct env_stream *stream)
{
    CONTAINER_OF(stream, struct peer, stream)->closed += 1;
}

static void peer_on_accept(struct env_listener *listener)
{
    struct peer *peer = CONTAINER_OF(listener, struct peer, listener);

    assert_int_equal(peer->env->net->accept(peer->env, listener, &peer->stream), RC_OK);
    peer->accepted += 1;
}

static void peer_on_listener_close(struct env_listener *listener)
{
    (void)listener;
}

static void peer_connected(struct env_write *write)
{
    CONTAINER_OF(write, struct peer, connect)->connected += 1;
}

static void peer_written(struct env_write *write)
{
    CONTAINER_OF(write, struct peer, write)->written += 1;
}

static void peer_init(struct peer *peer, struct env *env)
{
    *peer = (struct peer){.env = env};
    peer->stream.on_read = peer_on_read;
    peer->stream.on_close = peer_on_close;
    peer->listener.on_accept = peer_on_accept;
    peer->listener.on_close = peer_on_listener_close;
    peer->connect.done = peer_connected;
    peer->write.done = peer_written;
    buffer_init(&peer->got);
}

struct pair {
    struct sim *sim;
    struct sim_node *nodes[2];
    struct peer server;
    struct peer client;
};

static void pair_open(struct pair *pair, uint64_t seed)
{
    pair->sim = sim_new(seed);
    pair->nodes[0] = sim_node_new(pair->sim, "server");
    pair->nodes[1] = sim_node_new(pair->sim, "client");
    peer_init(&pair->server, sim_env_new(pair->nodes[0]));
    peer_init(&pair->client, sim_env_new(pair->nodes[1]));
    assert_int_equal(pair->server.env->net->listen(pair->server.env, &pair->server.listener,
                                                   "0.0.0.0:9000", NULL),
                     RC_OK);
    pair->client.env->net->connect(pair->client.env, &pair->client.connect, &pair->client.stream,
                                   "server:9000");
    assert_int_equal(pair->client.connected, 0);
    sim_run_for(pair->sim, SIM_S);
    assert_int_equal(pair->client.connect.rc, RC_OK);
    assert_int_equal(pair->client.connected, 1);
    assert_int_equal(pair->server.accepted, 1);
}

static void pair_close(struct pair *pair)
{
    buffer_deinit(&pair->server.got);
    buffer_deinit(&pair->client.got);
    sim_free(pair->sim);
}

/* Bytes arrive in order and whole, in whatever pieces, and then the end. */
static void test_stream(void **state)
{
    static const enum sim_pieces pieces[] = {SIM_PIECES_WHOLE, SIM_PIECES_RANDOM, SIM_PIECES_BYTES};
    char body[3000];

    (void)state;
    for (unsigned i = 0; i < sizeof(body); i++) {
        body[i] = (char)(i * 7);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct pair pair;
        struct slice from[2] = {slice_of(body, 1000), slice_of(body + 1000, 2000)};

        pair_open(&pair, 20 + i);
        sim_net_faults(pair.sim)->pieces = pieces[i];
        pair.server.env->net->read_start(pair.server.env, &pair.server.stream);
        pair.client.env->net->write(pair.client.env, &pair.client.write, &pair.client.stream, from,
                                    2);
        assert_int_equal(pair.client.written, 0);
        pair.client.env->net->shutdown(pair.client.env, &pair.client.stream);
        sim_run_for(pair.sim, SIM_S);
        assert_int_equal(pair.client.written, 1);
        assert_int_equal(pair.client.write.rc, RC_OK);
        assert_true(slice_eq(buffer_slice(&pair.server.got), slice_of(body, sizeof(body))));
        assert_true(pieces[i] != SIM_PIECES_BYTES || pair.server.reads == sizeof(body));
        assert_int_equal(pair.server.end, RC_CLOSED);
        pair.client.env->net->close(pair.client.env, &pair.client.stream);
        pair.server.env->net->close(pair.server.env, &pair.server.stream);
        sim_run_for(pair.sim, SIM_S);
        assert_int_equal(pair.client.closed + pair.server.closed, 2);
        assert_int_equal(sim_open_streams(pair.nodes[0]) + sim_open_streams(pair.nodes[1]), 0);
        pair_close(&pair);
    }
}

/* A reader that stops holds the writer: this is the back-pressure that bounds memory. */
static void test_slow_reader_holds_the_writer(void **state)
{
    struct pair pair;
    static char body[100000];
    struct slice from = slice_of(body, sizeof(body));
    size_t taken;

    (void)state;
    pair_open(&pair, 30);
    sim_net_faults(pair.sim)->window_bytes = 10000;
    taken = pair.client.env->net->try_write(pair.client.env, &pair.client.stream, &from, 1);
    assert_int_equal(taken, 10000);
    from = slice_after(from, taken);
    pair.client.env->net->write(pair.client.env, &pair.client.write, &pair.client.stream, &from, 1);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.client.written, 0);
    pair.server.env->net->read_start(pair.server.env, &pair.server.stream);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.client.written, 1);
    assert_int_equal(pair.server.got.len, sizeof(body));
    pair_close(&pair);
}

/* Close cancels what is under way before on_close; the other side sees a reset if it had sent more.
 */
static void test_close_completes_writes_first(void **state)
{
    struct pair pair;
    static char body[100000];
    struct slice from = slice_of(body, sizeof(body));

    (void)state;
    pair_open(&pair, 31);
    sim_net_faults(pair.sim)->window_bytes = 1000;
    pair.client.env->net->write(pair.client.env, &pair.client.write, &pair.client.stream, &from, 1);
    sim_run_for(pair.sim, SIM_S);
    pair.client.env->net->close(pair.client.env, &pair.client.stream);
    assert_int_equal(pair.client.written, 0);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.client.write.rc, RC_CANCELLED);
    assert_int_equal(pair.client.closed, 1);
    pair_close(&pair);
}

/* The peers of a crashed node see a reset, a new connection is refused, and a cut link stalls. */
static void test_crash_and_cut(void **state)
{
    struct pair pair;
    struct peer again;
    struct slice from = SLICE("x");

    (void)state;
    pair_open(&pair, 32);
    pair.client.env->net->read_start(pair.client.env, &pair.client.stream);
    pair.server.env->net->read_start(pair.server.env, &pair.server.stream);
    sim_cut(pair.nodes[0], pair.nodes[1], true);
    pair.client.env->net->write(pair.client.env, &pair.client.write, &pair.client.stream, &from, 1);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.server.got.len, 0);
    sim_cut(pair.nodes[0], pair.nodes[1], false);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.server.got.len, 1);

    sim_crash(pair.nodes[0], SIM_KILL);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(pair.client.end, RC_IO);
    peer_init(&again, pair.client.env);
    again.env->net->connect(again.env, &again.connect, &again.stream, "server:9000");
    sim_run_for(pair.sim, 10 * SIM_S);
    assert_int_equal(again.connect.rc, RC_IO);
    again.env->net->close(again.env, &again.stream);
    pair.client.env->net->close(pair.client.env, &pair.client.stream);
    sim_run_for(pair.sim, SIM_S);
    assert_int_equal(again.closed + pair.client.closed, 2);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_work_completes_once_and_later),
        cmocka_unit_test(test_batches_take_all_that_is_pending),
        cmocka_unit_test(test_posts_keep_their_order),
        cmocka_unit_test(test_seed_decides),
        cmocka_unit_test(test_power_cut),
        cmocka_unit_test(test_names_at_a_power_cut),
        cmocka_unit_test(test_kill_keeps_the_page_cache),
        cmocka_unit_test(test_failed_sync),
        cmocka_unit_test(test_disk_faults),
        cmocka_unit_test(test_stop_after),
        cmocka_unit_test(test_async_sync_covers_completed_writes_only),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_slow_reader_holds_the_writer),
        cmocka_unit_test(test_close_completes_writes_first),
        cmocka_unit_test(test_crash_and_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
