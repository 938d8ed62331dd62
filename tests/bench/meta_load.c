/*
 * Writes to metad by its own RPC, for measurements and for tests that kill it:
 *
 *     meta_load write  KEYFILE ADDRESSES BUCKET WRITERS SECONDS BYTES [JOURNAL]
 *     meta_load verify KEYFILE ADDRESSES BUCKET JOURNAL
 *
 * `write`: so many writers, each with one PUT_OBJECT of an inline body under way at a time; one
 * line of JSON at the end. JOURNAL: a line for each key that was answered. `verify`: every key of
 * the journal is read back, with its bytes. Exit 0: all went well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/admin/cluster_ask.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/meta_rpc/meta_remote.h"
#include "common/meta_rpc/wire.h"
#include "common/rpc/security.h"

enum { WRITERS_MAX = 4096, ADDRESSES_MAX = META_REMOTE_NODES_MAX, SAMPLES_MAX = 4000000 };

static const uint64_t NS_PER_S = 1000000000ULL;

struct load;

struct writer {
    struct load *load;
    struct task task;
    struct arena arena;
    struct meta_write write;
    struct meta_get get;
    Kist__PutObject put;
    Kist__Record record;
    char key[64];
    uint64_t number;
    uint64_t began_ns;
};

struct load {
    struct env_uv *world;
    struct env *env;
    struct rpc_security *security;
    struct rpc *rpc;
    struct meta_remote *remote;
    struct meta_client *meta;
    const char *bucket_name;
    uint64_t bucket_id;
    uint64_t generation;
    struct writer *writers;
    uint32_t writer_count;
    uint32_t running;
    uint64_t end_ns;
    uint64_t seed;
    uint64_t next;
    size_t bytes;
    char *body;
    FILE *journal;
    bool verify;
    uint64_t done;
    uint64_t failed;
    uint64_t ambiguous;
    uint64_t longest_ns; /* between two answers */
    uint64_t answered_ns;
    uint32_t *latency_us;
    /* Preparing. */
    struct task task;
    struct arena arena;
    struct meta_write write;
    struct meta_refresh refresh;
    Kist__PutUser put_user;
    Kist__User user;
    Kist__CreateBucket create;
    enum rc rc;
};

static uint64_t now_ns(const struct load *load)
{
    return load->env->clock->mono_ns(load->env);
}

/* ---- One write, or one read, after the other ---- */

static void writer_next(struct writer *writer);

static enum step_result writer_step(struct task *task)
{
    struct writer *writer = CONTAINER_OF(task, struct writer, task);
    struct meta_client *meta = writer->load->meta;

    return writer->load->verify ? meta->get(meta, &writer->get, task)
                                : meta->write(meta, &writer->write, task);
}

static const struct step writer_steps[] = {
    {"call", writer_step},
    {NULL,   NULL       }
};

static void writer_count(struct writer *writer)
{
    struct load *load = writer->load;
    uint64_t now = now_ns(load);

    if (now - load->answered_ns > load->longest_ns) {
        load->longest_ns = now - load->answered_ns;
    }
    load->answered_ns = now;
    if (load->done < SAMPLES_MAX) {
        load->latency_us[load->done] = (uint32_t)((now - writer->began_ns) / 1000);
    }
    load->done += 1;
}

static void write_done(struct writer *writer)
{
    struct load *load = writer->load;
    enum rc rc = writer->task.error.rc;

    if (rc == RC_OK && writer->write.reply->outcome == KIST__OUTCOME__OUTCOME_OK) {
        writer_count(writer);
        if (load->journal != NULL) {
            (void)fprintf(load->journal, "%s %zu\n", writer->key, load->bytes);
            (void)fflush(load->journal);
        }
        return;
    }
    load->failed += 1;
    load->ambiguous += rc == RC_AMBIGUOUS ? 1 : 0;
    (void)fprintf(stderr, "write %s: %s, outcome %d\n", writer->key, rc_text(rc),
                  rc == RC_OK ? (int)writer->write.reply->outcome : -1);
}

static void read_done(struct writer *writer)
{
    struct load *load = writer->load;
    const struct meta_get *get = &writer->get;
    bool good = writer->task.error.rc == RC_OK && get->record != NULL &&
                get->body.len == load->bytes &&
                memcmp(get->body.data, load->body, load->bytes) == 0;

    if (writer->task.error.rc == RC_OK) {
        load->meta->release(load->meta, &writer->get);
    }
    if (good) {
        writer_count(writer);
        return;
    }
    load->failed += 1;
    (void)fprintf(stderr, "lost: %s (%s)\n", writer->key, writer->task.error.text);
}

static void writer_done(struct task *task)
{
    struct writer *writer = CONTAINER_OF(task, struct writer, task);

    if (writer->load->verify) {
        read_done(writer);
    } else {
        write_done(writer);
    }
    writer_next(writer);
}

static bool writer_prepare(struct writer *writer)
{
    struct load *load = writer->load;

    if (load->verify) {
        size_t bytes;

        if (fscanf(load->journal, "%63s %zu", writer->key, &bytes) != 2 || bytes > load->bytes) {
            return false;
        }
        load->bytes = bytes;
        writer->get = (struct meta_get){.bucket_id = load->bucket_id,
                                        .generation = load->generation,
                                        .key = slice_str(writer->key),
                                        .want_body = true,
                                        .arena = &writer->arena};
        return true;
    }
    if (now_ns(load) >= load->end_ns) {
        return false;
    }
    (void)snprintf(writer->key, sizeof(writer->key), "%016llx-%llu",
                   (unsigned long long)(load->seed + load->next * 0x9e3779b97f4a7c15ULL),
                   (unsigned long long)load->next);
    load->next += 1;
    writer->record = (Kist__Record)KIST__RECORD__INIT;
    writer->record.size = load->bytes;
    writer->record.inline_body = true;
    writer->record.etag = wire_field(SLICE("0123456789abcdef"));
    writer->put = (Kist__PutObject)KIST__PUT_OBJECT__INIT;
    writer->put.bucket_id = load->bucket_id;
    writer->put.generation = load->generation;
    writer->put.key = wire_field(slice_str(writer->key));
    writer->put.record = &writer->record;
    writer->write = (struct meta_write){.command = META_PUT_OBJECT,
                                        .message = &writer->put.base,
                                        .body = slice_of(load->body, load->bytes),
                                        .arena = &writer->arena};
    return true;
}

static void writer_next(struct writer *writer)
{
    struct load *load = writer->load;

    arena_reset(&writer->arena);
    if (!writer_prepare(writer)) {
        load->running -= 1;
        if (load->running == 0) {
            env_uv_stop(load->env);
        }
        return;
    }
    writer->began_ns = now_ns(load);
    task_start(&writer->task, writer_steps, writer_done);
}

/* ---- The bucket ---- */

static enum step_result prepare_user(struct task *task)
{
    struct load *load = CONTAINER_OF(task, struct load, task);

    load->user = (Kist__User)KIST__USER__INIT;
    load->user.name = wire_field(SLICE("load"));
    load->put_user = (Kist__PutUser)KIST__PUT_USER__INIT;
    load->put_user.user = &load->user;
    load->write = (struct meta_write){
        .command = META_PUT_USER, .message = &load->put_user.base, .arena = &load->arena};
    return load->meta->write(load->meta, &load->write, task);
}

static enum step_result prepare_bucket(struct task *task)
{
    struct load *load = CONTAINER_OF(task, struct load, task);

    load->create = (Kist__CreateBucket)KIST__CREATE_BUCKET__INIT;
    load->create.name = wire_field(slice_str(load->bucket_name));
    load->create.owner = wire_field(SLICE("load"));
    load->write = (struct meta_write){
        .command = META_CREATE_BUCKET, .message = &load->create.base, .arena = &load->arena};
    return load->meta->write(load->meta, &load->write, task);
}

static enum step_result prepare_refresh(struct task *task)
{
    struct load *load = CONTAINER_OF(task, struct load, task);

    return load->meta->refresh(load->meta, &load->refresh, task);
}

static enum step_result prepare_look(struct task *task)
{
    struct load *load = CONTAINER_OF(task, struct load, task);
    const Kist__Bucket *bucket =
        view_bucket(load->meta->view(load->meta), slice_str(load->bucket_name));

    if (bucket == NULL) {
        return task_fail(task, RC_NOT_FOUND, "no bucket %s", load->bucket_name);
    }
    load->bucket_id = bucket->id;
    load->generation = bucket->generation;
    return STEP_NEXT;
}

static const struct step prepare_steps[] = {
    {"user",    prepare_user   },
    {"bucket",  prepare_bucket },
    {"refresh", prepare_refresh},
    {"look",    prepare_look   },
    {NULL,      NULL           }
};

static void prepared(struct task *task)
{
    struct load *load = CONTAINER_OF(task, struct load, task);

    load->rc = task->error.rc;
    if (load->rc != RC_OK) {
        (void)fprintf(stderr, "prepare: %s\n", task->error.text);
    }
    env_uv_stop(load->env);
}

/* ---- Life ---- */

static void on_closed(void *owner)
{
    struct load *load = owner;

    env_uv_stop(load->env);
}

static void on_open(struct meta_remote *remote, void *owner)
{
    struct load *load = owner;

    (void)remote;
    env_uv_stop(load->env);
}

/* The cluster's id, as any of them says. */
static bool find_cluster(const struct cluster_key *key, char *const *addresses, uint32_t count,
                         struct rpc_identity *identity)
{
    struct error error = {0};
    struct cluster_asker *asker = cluster_asker_open(key, &error);
    struct arena arena;
    bool found = false;

    ASSERT(asker != NULL);
    arena_init(&arena);
    for (uint32_t i = 0; !found && i < count; i++) {
        enum rc rc;
        const Kist__ClusterStatus *status = cluster_ask_status(asker, addresses[i], &arena, &rc);

        if (status != NULL && status->cluster_id.len == sizeof(identity->cluster_id)) {
            memcpy(identity->cluster_id, status->cluster_id.data, sizeof(identity->cluster_id));
            identity->cluster_epoch = status->cluster_epoch;
            found = true;
        }
    }
    arena_deinit(&arena);
    cluster_asker_close(asker);
    return found;
}

static bool load_connect(struct load *load, const char *key_path, char *list)
{
    const struct env_uv_options world = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    char *addresses[ADDRESSES_MAX];
    uint32_t count = 0;
    struct cluster_key key;
    struct error error = {0};
    struct rpc_options options = {.owner = load};

    for (char *save = NULL, *at = strtok_r(list, ",", &save); at != NULL && count < ADDRESSES_MAX;
         at = strtok_r(NULL, ",", &save)) {
        addresses[count++] = at;
    }
    load->world = env_uv_open(&world, &error);
    ASSERT(load->world != NULL && count > 0);
    load->env = env_uv_env(load->world, 0);
    if (cluster_key_read(load->env, key_path, &key, &error) != RC_OK) {
        (void)fprintf(stderr, "%s\n", error.text);
        return false;
    }
    if (!find_cluster(&key, addresses, count, &options.identity)) {
        (void)fprintf(stderr, "no metad answers\n");
        return false;
    }
    load->security = rpc_security_psk(&key, options.identity.cluster_id, false);
    options.env = load->env;
    options.security = load->security;
    options.identity.role = RPC_ROLE_GATEWAY;
    options.identity.node_id = load->env->random(load->env) >> 1;
    options.identity.incarnation = load->env->random(load->env) >> 1;
    load->rpc = rpc_open(&options);
    load->remote =
        meta_remote_open(&(struct meta_remote_options){.rpc = load->rpc,
                                                       .addresses = (const char *const *)addresses,
                                                       .address_count = count,
                                                       .owner = load,
                                                       .on_open = on_open});
    load->meta = meta_remote_client(load->remote);
    env_uv_start(load->world);
    env_uv_run(load->env);
    return true;
}

static int order_u32(const void *a, const void *b)
{
    const uint32_t *left = a;
    const uint32_t *right = b;

    return (*left > *right) - (*left < *right);
}

static void load_print(struct load *load, double seconds, double cpu_s)
{
    size_t count = load->done < SAMPLES_MAX ? (size_t)load->done : SAMPLES_MAX;
    struct meta_remote_stats stats;

    meta_remote_stats(load->remote, &stats);
    qsort(load->latency_us, count, sizeof(uint32_t), order_u32);
    (void)printf(
        "{\"done\": %llu, \"failed\": %llu, \"ambiguous\": %llu, \"per_s\": %.0f, "
        "\"p50_us\": %u, \"p99_us\": %u, \"longest_gap_ms\": %.0f, \"client_cpu_s\": %.2f, "
        "\"repeats\": %llu, \"redirects\": %llu}\n",
        (unsigned long long)load->done, (unsigned long long)load->failed,
        (unsigned long long)load->ambiguous, (double)load->done / seconds,
        count > 0 ? load->latency_us[count / 2] : 0,
        count > 0 ? load->latency_us[count * 99 / 100] : 0, (double)load->longest_ns / 1e6, cpu_s,
        (unsigned long long)stats.repeats, (unsigned long long)stats.redirects);
}

static double cpu_seconds(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
}

static void load_run(struct load *load, uint64_t seconds)
{
    double cpu_s = cpu_seconds();
    uint64_t began = now_ns(load);

    load->end_ns = began + seconds * NS_PER_S;
    load->answered_ns = began;
    load->running = load->writer_count;
    for (uint32_t i = 0; i < load->writer_count; i++) {
        load->writers[i].load = load;
        arena_init(&load->writers[i].arena);
        writer_next(&load->writers[i]);
    }
    env_uv_run(load->env);
    load_print(load, (double)(now_ns(load) - began) / 1e9, cpu_seconds() - cpu_s);
}

static void load_close(struct load *load)
{
    meta_remote_close(load->remote, on_closed);
    env_uv_run(load->env);
    rpc_close(load->rpc, on_closed);
    env_uv_run(load->env);
    rpc_security_free(load->security);
    env_uv_close(load->world);
}

static bool load_arguments(struct load *load, int argc, char **argv, uint64_t *seconds)
{
    uint64_t writers = 64;
    uint64_t bytes = LIMIT_INLINE_BYTES;

    load->verify = strcmp(argv[1], "verify") == 0;
    if (load->verify ? argc != 6 : (argc != 8 && argc != 9)) {
        return false;
    }
    if (!load->verify && (!slice_to_u64(slice_str(argv[5]), WRITERS_MAX, &writers) ||
                          !slice_to_u64(slice_str(argv[6]), 86400, seconds) ||
                          !slice_to_u64(slice_str(argv[7]), LIMIT_INLINE_BYTES, &bytes))) {
        return false;
    }
    load->bucket_name = argv[4];
    load->writer_count = (uint32_t)writers;
    load->bytes = (size_t)bytes;
    if (load->verify || argc == 9) {
        load->journal = fopen(argv[load->verify ? 5 : 8], load->verify ? "r" : "a");
        return load->journal != NULL;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct load *load = mem_alloc(sizeof(*load));
    uint64_t seconds = 0;
    int code = 1;

    if (argc < 6 || !load_arguments(load, argc, argv, &seconds)) {
        (void)fprintf(stderr, "usage: see the head of tests/bench/meta_load.c\n");
        return 2;
    }
    arena_init(&load->arena);
    load->writers = mem_alloc(load->writer_count * sizeof(*load->writers));
    load->latency_us = mem_alloc_raw(SAMPLES_MAX * sizeof(uint32_t));
    load->body = mem_alloc_raw(LIMIT_INLINE_BYTES);
    for (size_t i = 0; i < LIMIT_INLINE_BYTES; i++) {
        load->body[i] = (char)(i * 31 + i / 97);
    }
    if (load_connect(load, argv[2], argv[3])) {
        load->seed = load->env->random(load->env);
        task_start(&load->task, prepare_steps, prepared);
        env_uv_run(load->env);
        if (load->rc == RC_OK) {
            load_run(load, seconds);
            code = load->failed == 0 ? 0 : 1;
        }
        load_close(load);
    }
    if (load->journal != NULL) {
        (void)fclose(load->journal);
    }
    return code;
}
