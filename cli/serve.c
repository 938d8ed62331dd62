/*
 * `kist serve`: all roles in one process.
 *
 *     options -> directories (look, lock) -> ports free? -> form -> metad -> incarnation, disks,
 * placement, root, buckets -> datad -> identities committed -> gateways on every loop -> admin port
 * -> ready
 *
 * Nothing is written before everything that can be refused has been looked at. SIGTERM and SIGINT
 * lead through serve_stop.c to exit 0; a start that fails says one line and exits 1, or 2 when the
 * command line is wrong.
 */
#include "cli/serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"

enum { EXIT_OPERATING = 1, EXIT_USAGE = 2, EXIT_FORCED = 130 };

/* ---- Steps of the start ---- */

static void meta_on_open(struct metad_open *open)
{
    struct serve *serve = CONTAINER_OF(open, struct serve, meta_open);

    if (open->error.rc != RC_OK) {
        serve->start.error = open->error;
    } else {
        serve->metad = open->metad;
    }
    task_resume(&serve->start, open->error.rc);
}

static enum step_result serve_open_meta(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    struct metad_options *options = &serve->meta_open.options;

    *options = (struct metad_options){
        .env = serve->env,
        .directory_count = serve->directories.count,
        .first_start = serve->directories.first_start,
        .cache_bytes = serve->options->meta_cache,
        .reclaim_grace_ms = serve->options->reclaim_grace,
    };
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        options->directories[i] = serve->directories.items[i].path;
    }
    serve->meta_open.done = meta_on_open;
    metad_open(&serve->meta_open);
    return STEP_WAIT;
}

static enum step_result serve_make_clients(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    for (uint32_t i = 0; i < env_uv_count(serve->world); i++) {
        serve->metas[i] = metad_client(serve->metad, env_uv_env(serve->world, i));
    }
    serve->meta = serve->metas[0];
    return STEP_NEXT;
}

static enum step_result serve_open_data(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    struct datad_options *options = mem_alloc(sizeof(*options));
    enum rc rc;

    options->env = serve->env;
    options->disk_count = serve->directories.count;
    options->segment_bytes = serve->options->segment_size;
    options->free_bytes_min = serve->options->free_space_min;
    options->cache_bytes = serve->options->index_cache;
    options->cluster_epoch = serve->directories.cluster_epoch;
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        options->disks[i].id = serve->directories.items[i].disk_id;
        options->disks[i].path = serve->directories.items[i].path;
    }
    rc = datad_open(&serve->datad, options, &task->error);
    mem_free(options);
    if (rc != RC_OK) {
        serve->datad = NULL;
        return STEP_FAIL;
    }
    for (uint32_t i = 0; i < env_uv_count(serve->world); i++) {
        serve->datas[i] = datad_client(serve->datad, env_uv_env(serve->world, i));
    }
    metad_set_data(serve->metad, serve->datas[0]);
    return STEP_NEXT;
}

static enum step_result serve_commit(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    return directories_commit(serve->env, &serve->directories, &task->error) == RC_OK ? STEP_NEXT
                                                                                      : STEP_FAIL;
}

/* Refills new disks, and rebuilds what reads or audits find missing. */
static enum step_result serve_open_repair(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    const struct repair_options options = {.env = serve->env,
                                           .meta = serve->meta,
                                           .data = serve->datas[0],
                                           .datad = serve->datad,
                                           .bytes_per_s = serve->options->repair_rate};

    if (!serve->read_only) {
        serve->repair = repair_open(&options);
    }
    return STEP_NEXT;
}

static enum step_result serve_open_tls(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    const struct tls_options options = {.certificate_path = serve->options->tls_cert,
                                        .key_path = serve->options->tls_key};

    if (options.certificate_path == NULL) {
        return STEP_NEXT;
    }
    if (tls_context_open(&serve->tls, serve->env, &options, &task->error) != RC_OK) {
        serve->tls = NULL;
        return STEP_FAIL;
    }
    return STEP_NEXT;
}

static enum step_result serve_open_admin(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    const struct admin_options options = {.env = serve->env,
                                          .meta = serve->meta,
                                          .address = serve->options->admin_listen,
                                          .serve = serve};

    if (admin_server_open(&serve->admin, &options, &task->error) != RC_OK) {
        serve->admin = NULL;
        return STEP_FAIL;
    }
    admin_server_address(serve->admin, serve->admin_listen);
    return STEP_NEXT;
}

static const struct step serve_steps[] = {
    {"open meta",         serve_open_meta       },
    {"clients",           serve_make_clients    },
    {"meta rpc",          serve_open_rpc        },
    {"mint incarnation",  serve_mint_incarnation},
    {"note incarnation",  serve_note_incarnation},
    {"mint disks",        serve_mint_disks      },
    {"note disks",        serve_note_disks      },
    {"refresh",           serve_refresh         },
    {"place",             serve_place           },
    {"placed",            serve_placed          },
    {"root user",         serve_root_user       },
    {"root key",          serve_root_key        },
    {"root done",         serve_root_done       },
    {"buckets",           serve_buckets         },
    {"open data",         serve_open_data       },
    {"commit identities", serve_commit          },
    {"refresh again",     serve_refresh         },
    {"open repair",       serve_open_repair     },
    {"open events",       serve_open_events     },
    {"open tls",          serve_open_tls        },
    {"open gateways",     serve_gateways_open   },
    {"gateways opened",   serve_gateways_opened },
    {"open admin",        serve_open_admin      },
    {NULL,                NULL                  },
};

static void serve_on_started(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    if (task->error.rc != RC_OK) {
        serve->error = task->error;
        serve_stop(serve);
        return;
    }
    serve->started = true;
    serve_print_banner(serve);
    arena_reset(&serve->arena);
    LOG_INFO("ready", "listen=%s admin=%s incarnation=%u io=%s", serve->listen, serve->admin_listen,
             serve->incarnation, env_uv_has_uring(serve->world) ? "io_uring" : "threads");
    if (serve->stop_asked) {
        serve_stop(serve);
    }
}

static void serve_on_signal(struct env_uv_signals *signals, int number)
{
    struct serve *serve = CONTAINER_OF(signals, struct serve, signals);

    if (serve->stop_asked) {
        LOG_WARN("stop_forced", "signal=%d", number);
        _exit(EXIT_FORCED);
    }
    serve->stop_asked = true;
    LOG_INFO("stopping", "signal=%d", number);
    if (serve->started) {
        serve_stop(serve);
    }
}

/* ---- Before the start: what can be refused without touching anything ---- */

static void probe_on_accept(struct env_listener *listener)
{
    (void)listener;
}

static enum rc serve_probe(struct serve *serve, const char *address, const char *option,
                           struct env_listener *listener, struct error *error)
{
    enum rc rc;

    listener->on_accept = probe_on_accept;
    rc = serve->env->net->listen(serve->env, listener, address, error);
    if (rc != RC_OK) {
        (void)error_prefix(error, "%s", option);
        if (rc == RC_LOCKED) {
            size_t len = strlen(error->text);

            (void)snprintf(error->text + len, sizeof(error->text) - len,
                           "; stop that one or choose another with %s", option);
        }
    }
    return rc;
}

/* Listens and lets go again: a port in use must be told before a directory is made. Both are held
 * at once, so that each is in the other's way as it would be later. */
static enum rc serve_probe_both(struct serve *serve, struct env_listener listeners[2],
                                struct error *error)
{
    const struct serve_options *options = serve->options;
    const struct env_net *net = serve->env->net;
    char first[ENV_ADDRESS_MAX];
    char second[ENV_ADDRESS_MAX];
    enum rc rc = serve_probe(serve, options->listen, "--listen", &listeners[0], error);

    if (rc != RC_OK) {
        return rc;
    }
    net->listener_address(serve->env, &listeners[0], first);
    rc = serve_probe(serve, options->admin_listen, "--admin-listen", &listeners[1], error);
    if (rc == RC_OK) {
        net->listener_address(serve->env, &listeners[1], second);
        net->listener_close(serve->env, &listeners[1]);
        if (strcmp(first, second) == 0) {
            rc = error_set(error, RC_INVALID,
                           "--listen and --admin-listen are both %s; choose another with "
                           "--admin-listen",
                           first);
        }
    }
    net->listener_close(serve->env, &listeners[0]);
    return rc;
}

static enum rc serve_prepare(struct serve *serve, struct env_listener listeners[2],
                             struct error *error)
{
    const struct serve_options *options = serve->options;
    enum rc rc = directories_open(serve->env, &options->data, options->free_space_min,
                                  &serve->directories, error);

    if (rc != RC_OK) {
        return rc;
    }
    rc = serve_probe_both(serve, listeners, error);
    if (rc == RC_OK && options->tls_cert != NULL) {
        const struct tls_options tls = {.certificate_path = options->tls_cert,
                                        .key_path = options->tls_key};
        struct tls_context *context;

        rc = tls_context_open(&context, serve->env, &tls, error);
        if (rc == RC_OK) {
            tls_context_close(context);
        } else {
            error->rc = RC_INVALID; /* a wrong setting: exit 2 */
            rc = error_prefix(error, "--tls-cert, --tls-key");
        }
    }
    rc = rc == RC_OK ? directories_form(serve->env, &serve->directories, error) : rc;
    if (rc != RC_OK) {
        directories_close(serve->env, &serve->directories);
    }
    return rc;
}

static int serve_exit_code(const struct error *error)
{
    return error->rc == RC_OK ? 0 : error->rc == RC_INVALID ? EXIT_USAGE : EXIT_OPERATING;
}

static int serve_run(const struct serve_options *options)
{
    static struct env_listener listeners[2]; /* closed by the first turn of the loop */
    struct serve *serve = mem_alloc(sizeof(*serve));
    const struct env_uv_options world = {.loop_count = (uint32_t)options->threads};
    struct error error = {0};
    int code;

    serve->options = options;
    serve->world = env_uv_open(&world, &error);
    if (serve->world == NULL) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        mem_free(serve);
        return EXIT_OPERATING;
    }
    serve->env = env_uv_env(serve->world, 0);
    arena_init(&serve->arena);
    if (serve_prepare(serve, listeners, &error) != RC_OK) {
        serve->error = error;
    } else {
        serve->signals.on_signal = serve_on_signal;
        env_uv_watch_signals(serve->world, &serve->signals);
        env_uv_start(serve->world);
        task_start(&serve->start, serve_steps, serve_on_started);
        env_uv_run(serve->env);
    }
    code = serve_exit_code(&serve->error);
    if (code != 0) {
        (void)fprintf(stderr, "kist: %s\n", serve->error.text);
    }
    env_uv_close(serve->world);
    arena_deinit(&serve->arena);
    mem_free(serve);
    return code;
}

/* The options are read through a small world of their own: how many loops there will be stands in
 * them. */
static int serve_read_options(struct config_arguments *arguments, struct serve_options *options)
{
    const struct env_uv_options world = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct error error = {0};
    struct env_uv *uv = env_uv_open(&world, &error);
    enum rc rc = RC_IO;

    if (uv != NULL) {
        rc = serve_options_read(env_uv_env(uv, 0), arguments, options, &error);
        env_uv_close(uv);
    }
    if (rc != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return EXIT_USAGE;
    }
    return 0;
}

int serve_main(int argc, char *const *argv)
{
    struct serve_options options = {0};
    struct config_arguments arguments = {.argv = (const char *const *)argv, .argc = argc};
    int code = serve_read_options(&arguments, &options);

    if (code == 0 && arguments.help) {
        struct buffer out;

        buffer_init(&out);
        config_write_help(&serve_options_table, &out);
        (void)fwrite(out.data, 1, out.len, stdout);
        buffer_deinit(&out);
    } else if (code == 0) {
        log_set_level((enum log_level)options.log_level);
        log_set_json(options.log_json);
        serve_options_warn();
        code = serve_run(&options);
    }
    config_free(&serve_options_table, &options);
    return code;
}
