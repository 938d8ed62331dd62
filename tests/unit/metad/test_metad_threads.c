/*
 * metad on real threads and real stores: several loops read and write while replicas, the leader
 * among them, are thrown away and refilled. Made for the thread sanitizer; what it checks by itself
 * is that every answered write is read back by whichever loop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "metad/apply/machine_files.h"
#include "metad/server_private.h"
#include "metad/store/message.h"

enum { LOOPS = 3, CLIENTS = 4, ROUNDS = 60, DIRECTORIES = 3, DAMAGES = 6 };

struct client {
    struct task task;
    struct threads *threads;
    struct meta_client *meta;
    struct env_post post;
    struct arena arena;
    uint32_t loop;
    uint32_t number;
    uint32_t round;
    char key[32];
    Kist__Record record;
    Kist__PutObject put;
    uint8_t etag[16];
    struct meta_write write;
    struct meta_get get;
    struct meta_list list;
    struct meta_refresh refresh;
};

struct threads {
    struct env_uv *world;
    struct metad_open open;
    struct metad *metad;
    char paths[DIRECTORIES][64];
    struct client clients[LOOPS * CLIENTS];
    _Atomic uint32_t running;
    _Atomic uint32_t failures;
    struct env_post ended; /* to loop 0 */
    struct env_timer damage;
    _Atomic uint32_t damages;
    uint64_t bucket_id;
    /* Set-up. */
    struct task task;
    struct arena arena;
    struct meta_write write;
    Kist__User user;
    Kist__PutUser put_user;
    Kist__CreateBucket create;
    bool closed;
};

static void check(struct threads *threads, bool good)
{
    if (!good) {
        atomic_fetch_add(&threads->failures, 1);
    }
}

/* ---- One client: put, get, list, refresh, again ---- */

static struct client *client_of(struct task *task)
{
    return CONTAINER_OF(task, struct client, task);
}

static enum step_result client_put(struct task *task)
{
    struct client *client = client_of(task);

    arena_reset(&client->arena);
    (void)snprintf(client->key, sizeof(client->key), "%u/%u/%u", client->loop, client->number,
                   client->round);
    kist__record__init(&client->record);
    kist__put_object__init(&client->put);
    client->record.size = strlen(client->key);
    client->record.inline_body = true;
    client->record.etag = (ProtobufCBinaryData){.len = 16, .data = client->etag};
    client->put.bucket_id = client->threads->bucket_id;
    client->put.generation = 1;
    client->put.key = message_field(slice_str(client->key));
    client->put.record = &client->record;
    client->write = (struct meta_write){.command = META_PUT_OBJECT,
                                        .message = &client->put.base,
                                        .body = slice_str(client->key),
                                        .arena = &client->arena};
    return client->meta->write(client->meta, &client->write, task);
}

static enum step_result client_get(struct task *task)
{
    struct client *client = client_of(task);

    check(client->threads, client->write.reply->outcome == KIST__OUTCOME__OUTCOME_OK);
    client->get = (struct meta_get){.bucket_id = client->threads->bucket_id,
                                    .generation = 1,
                                    .key = slice_str(client->key),
                                    .want_body = true,
                                    .arena = &client->arena};
    return client->meta->get(client->meta, &client->get, task);
}

static enum step_result client_list(struct task *task)
{
    struct client *client = client_of(task);

    check(client->threads,
          client->get.record != NULL && slice_eq(client->get.body, slice_str(client->key)));
    client->meta->release(client->meta, &client->get);
    client->list = (struct meta_list){.bucket_id = client->threads->bucket_id,
                                      .generation = 1,
                                      .delimiter = SLICE("/"),
                                      .limit = 100,
                                      .arena = &client->arena};
    return client->meta->list(client->meta, &client->list, task);
}

static enum step_result client_refresh(struct task *task)
{
    struct client *client = client_of(task);

    check(client->threads, client->list.entry_count >= 1);
    return client->meta->refresh(client->meta, &client->refresh, task);
}

static enum step_result client_end(struct task *task)
{
    struct client *client = client_of(task);
    struct view *view = client->meta->view(client->meta);

    check(client->threads, view_bucket(view, SLICE("box")) != NULL);
    return STEP_NEXT;
}

static const struct step client_steps[] = {
    {"put",     client_put    },
    {"get",     client_get    },
    {"list",    client_list   },
    {"refresh", client_refresh},
    {"end",     client_end    },
    {NULL,      NULL          }
};

static void client_done(struct task *task)
{
    struct client *client = client_of(task);
    struct threads *threads = client->threads;

    if (task->error.rc != RC_OK) {
        (void)fprintf(stderr, "client %u/%u round %u: %s\n", client->loop, client->number,
                      client->round, task->error.text);
        check(threads, false);
    }
    client->round += 1;
    if (task->error.rc == RC_OK && (client->round < ROUNDS || threads->damages < DAMAGES)) {
        env_uv_env(threads->world, client->loop)
            ->post(env_uv_env(threads->world, client->loop), &client->post);
    } else if (atomic_fetch_sub(&threads->running, 1) == 1) {
        env_uv_env(threads->world, 0)->post(env_uv_env(threads->world, 0), &threads->ended);
    }
}

static void client_run(struct env_post *post)
{
    struct client *client = CONTAINER_OF(post, struct client, post);

    task_start(&client->task, client_steps, client_done);
}

/* ---- Damage, on metad's loop ---- */

static bool group_whole(struct metad *metad)
{
    uint32_t voters;
    uint32_t here;

    metad_voters(metad, &voters, &here);
    return metad->leader != NULL && voters == DIRECTORIES && here == DIRECTORIES && !metad->busy &&
           !metad->changing;
}

static void damage(struct env_timer *timer)
{
    struct threads *threads = CONTAINER_OF(timer, struct threads, damage);
    struct metad *metad = threads->metad;

    if (group_whole(metad) && threads->damages < DAMAGES) {
        struct slot *slot = threads->damages % 2 == 0 ? metad->leader : &metad->slots[1];

        (void)error_set(&slot->error, RC_CORRUPT, "said by the test");
        slot->corrupt = true;
        threads->damages += 1;
        metad_look(metad);
    }
    metad->env->clock->timer_start(metad->env, timer, 20 * 1000000ULL);
}

/* ---- Set-up and end ---- */

static void on_closed(void *arg)
{
    struct threads *threads = arg;

    threads->closed = true;
    env_uv_stop(env_uv_env(threads->world, 0));
}

static void on_ended(struct env_post *post)
{
    struct threads *threads = CONTAINER_OF(post, struct threads, ended);

    threads->metad->env->clock->timer_stop(threads->metad->env, &threads->damage);
    metad_close(threads->metad, on_closed, threads);
}

static enum step_result make_user(struct task *task)
{
    struct threads *threads = CONTAINER_OF(task, struct threads, task);
    struct meta_client *meta = threads->clients[0].meta;

    kist__user__init(&threads->user);
    kist__put_user__init(&threads->put_user);
    threads->user.name = message_field(SLICE("root"));
    threads->put_user.user = &threads->user;
    threads->write = (struct meta_write){
        .command = META_PUT_USER, .message = &threads->put_user.base, .arena = &threads->arena};
    return meta->write(meta, &threads->write, task);
}

static enum step_result make_bucket(struct task *task)
{
    struct threads *threads = CONTAINER_OF(task, struct threads, task);
    struct meta_client *meta = threads->clients[0].meta;

    kist__create_bucket__init(&threads->create);
    threads->create.name = message_field(SLICE("box"));
    threads->create.owner = message_field(SLICE("root"));
    threads->write = (struct meta_write){
        .command = META_CREATE_BUCKET, .message = &threads->create.base, .arena = &threads->arena};
    return meta->write(meta, &threads->write, task);
}

static const struct step make_steps[] = {
    {"user",   make_user  },
    {"bucket", make_bucket},
    {NULL,     NULL       }
};

static void made(struct task *task)
{
    struct threads *threads = CONTAINER_OF(task, struct threads, task);

    ASSERT(task->error.rc == RC_OK);
    threads->bucket_id = threads->write.reply->bucket->id;
    threads->damage.fire = damage;
    threads->metad->env->clock->timer_start(threads->metad->env, &threads->damage, 1);
    atomic_store(&threads->running, LOOPS * CLIENTS);
    for (uint32_t i = 0; i < LOOPS * CLIENTS; i++) {
        struct client *client = &threads->clients[i];
        struct env *env = env_uv_env(threads->world, client->loop);

        env->post(env, &client->post);
    }
}

static void on_open(struct metad_open *open)
{
    struct threads *threads = CONTAINER_OF(open, struct threads, open);
    struct meta_client *metas[LOOPS];

    ASSERT(open->error.rc == RC_OK);
    threads->metad = open->metad;
    for (uint32_t i = 0; i < LOOPS; i++) {
        metas[i] = metad_client(threads->metad, env_uv_env(threads->world, i));
    }
    for (uint32_t i = 0; i < LOOPS * CLIENTS; i++) {
        struct client *client = &threads->clients[i];

        client->threads = threads;
        client->loop = i % LOOPS;
        client->number = i / LOOPS;
        client->meta = metas[client->loop];
        client->post.run = client_run;
        arena_init(&client->arena);
    }
    env_uv_start(threads->world);
    task_start(&threads->task, make_steps, made);
}

/* Loops must never come upon a replica or state that was closed, nor miss what was answered. */
static void refills_under_load(void **state)
{
    static const struct env_uv_options options = {.loop_count = LOOPS};
    struct threads *threads = mem_alloc(sizeof(*threads));
    struct error error;
    struct env *env;

    (void)state;
    threads->world = env_uv_open(&options, &error);
    assert_non_null(threads->world);
    env = env_uv_env(threads->world, 0);
    threads->ended.run = on_ended;
    arena_init(&threads->arena);
    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        (void)snprintf(threads->paths[i], sizeof(threads->paths[i]), "/tmp/kist-metad-XXXXXX");
        assert_non_null(mkdtemp(threads->paths[i]));
        threads->open.options.directories[i] = threads->paths[i];
    }
    threads->open.options.env = env;
    threads->open.options.directory_count = DIRECTORIES;
    threads->open.options.first_start = true;
    threads->open.options.election_timeout_ms = 200;
    threads->open.options.reclaim_grace_ms = 3600000;
    threads->open.done = on_open;
    metad_open(&threads->open);
    env_uv_run(env);
    assert_true(threads->closed);
    assert_int_equal(threads->failures, 0);
    assert_int_equal(threads->damages, DAMAGES);
    for (uint32_t i = 0; i < LOOPS * CLIENTS; i++) {
        arena_deinit(&threads->clients[i].arena);
    }
    arena_deinit(&threads->arena);
    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        machine_remove_directory(env, threads->paths[i]);
    }
    env_uv_close(threads->world);
    mem_free(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refills_under_load)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
