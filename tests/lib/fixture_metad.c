#include "tests/lib/fixture_metad.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "metad/apply/machine_files.h"
#include "tests/lib/sim_kv_paths.h"

enum { CALL_SECONDS = 120, ID_LEN = 24 };

static void data_remove(struct data_client *data, struct shard_delete *call);

static void fixture_env(struct metad_fixture *f)
{
    f->env = sim_env_new(f->node);
}

void metad_fixture_init(struct metad_fixture *f, uint32_t directories)
{
    *f = (struct metad_fixture){.directory_count = directories, .grace_ms = 3600000};
    f->sim = sim_new(7);
    f->node = sim_node_new(f->sim, "host");
    fixture_env(f);
    sim_kv_paths_open(f->sim);
    arena_init(&f->arena);
    f->data.remove = data_remove;
    for (uint32_t i = 0; i < directories; i++) {
        char path[16];

        (void)snprintf(path, sizeof(path), "/d%u", i);
        ASSERT(f->env->file->mkdir(f->env, path) == RC_OK);
        ASSERT(f->env->file->sync_directory(f->env, "/") == RC_OK);
    }
}

void metad_fixture_deinit(struct metad_fixture *f)
{
    metad_fixture_close(f);
    sim_kv_paths_close();
    sim_free(f->sim);
    arena_deinit(&f->arena);
}

/* ---- Life ---- */

static void on_open(struct metad_open *open)
{
    CONTAINER_OF(open, struct metad_fixture, open)->done = true;
}

static bool is_done(void *arg)
{
    return ((struct metad_fixture *)arg)->done;
}

enum rc metad_fixture_open(struct metad_fixture *f, bool first_start)
{
    static char paths[METAD_DIRECTORIES_MAX][16];

    f->open = (struct metad_open){.done = on_open};
    f->open.options.env = f->env;
    f->open.options.directory_count = f->directory_count;
    f->open.options.first_start = first_start;
    f->open.options.kv_open = sim_kv_paths_kv_open;
    f->open.options.reclaim_grace_ms = f->grace_ms;
    f->open.options.data = &f->data;
    for (uint32_t i = 0; i < f->directory_count; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "/d%u", i);
        f->open.options.directories[i] = paths[i];
    }
    f->done = false;
    metad_open(&f->open);
    ASSERT(sim_run_until(f->sim, is_done, f, CALL_SECONDS * SIM_S));
    f->metad = f->open.metad;
    if (f->metad != NULL) {
        f->meta = metad_client(f->metad, f->env);
    }
    return f->open.error.rc;
}

static void on_close(void *arg)
{
    ((struct metad_fixture *)arg)->done = true;
}

void metad_fixture_close(struct metad_fixture *f)
{
    if (f->metad == NULL) {
        return;
    }
    f->done = false;
    metad_close(f->metad, on_close, f);
    ASSERT(sim_run_until(f->sim, is_done, f, CALL_SECONDS * SIM_S));
    f->metad = NULL;
}

void metad_fixture_crash(struct metad_fixture *f, enum sim_crash how)
{
    sim_crash(f->node, how);
    for (uint32_t i = 0; i < f->directory_count; i++) {
        char path[16];

        (void)snprintf(path, sizeof(path), "/d%u", i);
        sim_kv_paths_crash(path, how);
    }
    f->metad = NULL;
    fixture_env(f);
}

void metad_fixture_lose(struct metad_fixture *f, uint32_t directory, bool again)
{
    char path[16];

    (void)snprintf(path, sizeof(path), "/d%u", directory);
    machine_remove_directory(f->env, path);
    sim_kv_paths_wipe(path);
    if (again) {
        ASSERT(f->env->file->mkdir(f->env, path) == RC_OK);
    }
}

/* ---- Calls ---- */

static enum step_result (*call_start)(struct task *task);

static enum step_result call_run(struct task *task)
{
    return call_start(task);
}

static const struct step call_steps[] = {
    {"call", call_run},
    {NULL,   NULL    }
};

static void call_done(struct task *task)
{
    struct metad_fixture *f = CONTAINER_OF(task, struct metad_fixture, task);

    f->error = task->error;
    f->done = true;
}

enum rc metad_fixture_call(struct metad_fixture *f, enum step_result (*start)(struct task *task))
{
    f->done = false;
    call_start = start;
    task_start(&f->task, call_steps, call_done);
    ASSERT(sim_run_until(f->sim, is_done, f, CALL_SECONDS * SIM_S));
    return f->error.rc;
}

static struct meta_write write_call;

static enum step_result write_start(struct task *task)
{
    struct metad_fixture *f = CONTAINER_OF(task, struct metad_fixture, task);

    return f->meta->write(f->meta, &write_call, task);
}

enum rc metad_fixture_write(struct metad_fixture *f, enum meta_command command,
                            const ProtobufCMessage *message, struct slice body, Kist__Reply **reply)
{
    enum rc rc;

    write_call = (struct meta_write){
        .command = command, .message = message, .body = body, .arena = &f->arena};
    rc = metad_fixture_call(f, write_start);
    *reply = rc == RC_OK ? write_call.reply : NULL;
    return rc;
}

static struct meta_refresh refresh_call;

static enum step_result refresh_start(struct task *task)
{
    struct metad_fixture *f = CONTAINER_OF(task, struct metad_fixture, task);

    return f->meta->refresh(f->meta, &refresh_call, task);
}

enum rc metad_fixture_refresh(struct metad_fixture *f)
{
    return metad_fixture_call(f, refresh_start);
}

static struct meta_get get_call;

static enum step_result get_start(struct task *task)
{
    struct metad_fixture *f = CONTAINER_OF(task, struct metad_fixture, task);

    return f->meta->get(f->meta, &get_call, task);
}

Kist__Record *metad_fixture_get(struct metad_fixture *f, const char *key, struct slice *body,
                                enum rc *rc)
{
    get_call = (struct meta_get){.bucket_id = f->bucket_id,
                                 .generation = f->generation,
                                 .key = slice_str(key),
                                 .want_body = body != NULL,
                                 .arena = &f->arena};
    *rc = metad_fixture_call(f, get_start);
    if (*rc != RC_OK) {
        return NULL;
    }
    if (body != NULL) {
        *body = arena_copy(&f->arena, get_call.body);
    }
    f->meta->release(f->meta, &get_call);
    return get_call.record;
}

/* ---- Short forms ---- */

static ProtobufCBinaryData text_of(const char *text)
{
    return message_field(slice_str(text));
}

void metad_fixture_bucket(struct metad_fixture *f)
{
    Kist__PutUser put_user = KIST__PUT_USER__INIT;
    Kist__User user = KIST__USER__INIT;
    Kist__CreateBucket create = KIST__CREATE_BUCKET__INIT;
    Kist__Reply *reply;

    user.name = text_of("root");
    put_user.user = &user;
    ASSERT(metad_fixture_write(f, META_PUT_USER, &put_user.base, SLICE_EMPTY, &reply) == RC_OK);
    create.name = text_of("box");
    create.owner = text_of("root");
    ASSERT(metad_fixture_write(f, META_CREATE_BUCKET, &create.base, SLICE_EMPTY, &reply) == RC_OK);
    ASSERT(reply->outcome == KIST__OUTCOME__OUTCOME_OK);
    f->bucket_id = reply->bucket->id;
    f->generation = reply->bucket->generation;
}

static ProtobufCBinaryData fixture_id(struct metad_fixture *f)
{
    uint8_t *id = arena_alloc(&f->arena, ID_LEN);

    be32_put(id, 1);
    be32_put(id + 4, 1);
    be64_put(id + 8, f->env->clock->wall_ns(f->env) / SIM_MS);
    be64_put(id + 16, ++f->ids);
    return (ProtobufCBinaryData){.len = ID_LEN, .data = id};
}

static enum rc fixture_put(struct metad_fixture *f, const char *key, Kist__Record *record,
                           struct slice body)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Reply *reply;
    enum rc rc;

    record->etag = message_field(SLICE("0123456789abcdef"));
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = text_of(key);
    put.record = record;
    rc = metad_fixture_write(f, META_PUT_OBJECT, &put.base, body, &reply);
    return rc != RC_OK || reply->outcome == KIST__OUTCOME__OUTCOME_OK ? rc : RC_INVALID;
}

enum rc metad_fixture_put_inline(struct metad_fixture *f, const char *key, const char *body)
{
    Kist__Record record = KIST__RECORD__INIT;

    record.size = strlen(body);
    record.inline_body = record.size > 0;
    return fixture_put(f, key, &record, slice_str(body));
}

enum rc metad_fixture_put(struct metad_fixture *f, const char *key, uint64_t size)
{
    Kist__Record record = KIST__RECORD__INIT;
    Kist__Piece piece = KIST__PIECE__INIT;
    Kist__Piece *pieces = &piece;
    Kist__Extent extent = KIST__EXTENT__INIT;

    extent.id = fixture_id(f);
    extent.pg = 1;
    extent.kind = 1;
    extent.data_shards = 1;
    extent.parity_shards = 1;
    extent.length = size;
    extent.durable = 3;
    piece.length = size;
    piece.extent = &extent;
    record.size = size;
    record.layout_id = fixture_id(f);
    record.pieces = &pieces;
    record.n_pieces = 1;
    return fixture_put(f, key, &record, SLICE_EMPTY);
}

enum rc metad_fixture_delete(struct metad_fixture *f, const char *key)
{
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item item = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items = &item;
    Kist__Reply *reply;

    item.key = text_of(key);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = &items;
    call.n_items = 1;
    return metad_fixture_write(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY, &reply);
}

/* ---- States ---- */

struct wait_for {
    struct metad_fixture *f;
    const char *const *states;
};

static bool states_are(void *arg)
{
    const struct wait_for *wait = arg;
    struct metad_status status;

    metad_status(wait->f->metad, &status);
    for (uint32_t i = 0; i < status.replica_count; i++) {
        bool any = wait->states[i] == NULL;

        /* A leader counts as a follower that serves. */
        if (!any && strcmp(status.replicas[i].state, wait->states[i]) != 0 &&
            !(strcmp(wait->states[i], "follower") == 0 &&
              strcmp(status.replicas[i].state, "serving") == 0)) {
            return false;
        }
    }
    return true;
}

bool metad_fixture_wait(struct metad_fixture *f, const char *const *states, uint32_t seconds)
{
    struct wait_for wait = {.f = f, .states = states};

    return sim_run_until(f->sim, states_are, &wait, seconds * SIM_S);
}

uint32_t metad_fixture_count(struct metad_fixture *f, const char *state)
{
    struct metad_status status;
    uint32_t count = 0;

    metad_status(f->metad, &status);
    for (uint32_t i = 0; i < status.replica_count; i++) {
        count += strcmp(status.replicas[i].state, state) == 0 ? 1 : 0;
    }
    return count;
}

/* ---- A data service that only counts ---- */

struct remove_post {
    struct env_post post;
    struct shard_delete *call;
    enum rc rc;
};

static void remove_answer(struct env_post *post)
{
    struct remove_post *remove = CONTAINER_OF(post, struct remove_post, post);

    remove->call->rc = remove->rc;
    remove->call->done(remove->call);
}

static void data_remove(struct data_client *data, struct shard_delete *call)
{
    struct metad_fixture *f = CONTAINER_OF(data, struct metad_fixture, data);
    struct remove_post *remove = arena_alloc(&f->arena, sizeof(*remove));

    f->shards_removed += f->remove_rc == RC_OK ? 1 : 0;
    remove->post.run = remove_answer;
    remove->call = call;
    remove->rc = f->remove_rc;
    f->env->post(f->env, &remove->post);
}
