/*
 * `kist metad`: options -> directory made and locked -> node (metad/cluster) -> admin port. SIGTERM
 * and SIGINT hand leadership over and end it with exit 0; a second signal ends it at once.
 */
#include "cli/metad.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/admin/api.h"
#include "cli/directory_files.h"
#include "cli/metad_options.h"
#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "gateway/http/http.h"
#include "metad/rpc/meta_service.h"

enum {
    EXIT_OPERATING = 1,
    EXIT_USAGE = 2,
    EXIT_FORCED = 130,
    ADMIN_CONNECTIONS_MAX = 64,
    ADMIN_TIMEOUT_MS = 15000,
    ADMIN_DRAIN_MS = 500
};

struct metad_process {
    struct metad_settings settings;
    struct env_uv *world;
    struct env *env;
    struct env_uv_signals signals;
    struct http_server *http;
    struct node *node;
    struct meta_service *service; /* of a member: what gateways and datads ask */
    struct node *member;          /* on whose rpc it is */
    void (*left)(struct node *node);
    int lock_file;
    bool stopping;
    struct error error; /* why it ended */
};

/* ---- Admin port ---- */

static void page_metrics(struct metad_process *process, struct buffer *out)
{
    struct metad_status status = {0};

    metrics_write(out);
    metrics_write_head(out, "kist_metad_member", "gauge", "1: the node is of a cluster.");
    buffer_printf(out, "kist_metad_member %d\n", node_state(process->node) == NODE_MEMBER ? 1 : 0);
    if (node_metad(process->node) == NULL) {
        return;
    }
    metad_status(node_metad(process->node), &status);
    metrics_write_head(out, "kist_metad_leader", "gauge", "1: it leads and may answer.");
    buffer_printf(out, "kist_metad_leader %d\n", status.writable ? 1 : 0);
    metrics_write_head(out, "kist_metad_applied", "gauge", "Log index applied by its replica.");
    buffer_printf(out, "kist_metad_applied %llu\n", (unsigned long long)status.replicas[0].applied);
}

static void admin_page(struct metad_process *process, struct http_exchange *exchange, bool metrics)
{
    struct buffer out;

    buffer_init(&out);
    if (metrics) {
        page_metrics(process, &out);
    } else {
        node_write_status(process->node, &out);
    }
    admin_reply(exchange, 200,
                metrics ? "text/plain; version=0.0.4; charset=utf-8" : "application/json",
                arena_copy(exchange->arena, buffer_slice(&out)));
    buffer_deinit(&out);
}

/* Ready is a member that knows a leader; one that waits is alive only. */
static void admin_ready(struct metad_process *process, struct http_exchange *exchange)
{
    struct node_leader leader;

    if (process->stopping) {
        admin_reply(exchange, 503, "text/plain", SLICE("stopping\n"));
    } else if (node_state(process->node) != NODE_MEMBER) {
        admin_reply(exchange, 503, "text/plain", SLICE("waiting for init or join\n"));
    } else if (!node_leader(process->node, &leader)) {
        admin_reply(exchange, 503, "text/plain", SLICE("no leader\n"));
    } else {
        admin_reply(exchange, 200, "text/plain", SLICE("ready\n"));
    }
}

static void admin_on_request(struct http_server *http, struct http_exchange *exchange)
{
    struct metad_process *process = http_server_user(http);
    const struct http_request *request = &exchange->request;

    if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        admin_reply(exchange, 405, "text/plain", SLICE("only GET and HEAD\n"));
    } else if (slice_eq_str(request->path, "/health/live")) {
        admin_reply(exchange, 200, "text/plain", SLICE("live\n"));
    } else if (process->node == NULL) {
        admin_reply(exchange, 503, "text/plain", SLICE("starting or stopping\n"));
    } else if (slice_eq_str(request->path, "/health/ready")) {
        admin_ready(process, exchange);
    } else if (slice_eq_str(request->path, "/metrics")) {
        admin_page(process, exchange, true);
    } else if (slice_eq_str(request->path, "/status.json")) {
        admin_page(process, exchange, false);
    } else {
        admin_reply(exchange, 404, "text/plain", SLICE("not found\n"));
    }
}

static enum rc admin_open(struct metad_process *process, struct error *error)
{
    const struct http_options http = {.address = process->settings.admin_listen,
                                      .idle_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .header_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .body_timeout_ms = ADMIN_TIMEOUT_MS,
                                      .connections_max = ADMIN_CONNECTIONS_MAX,
                                      .on_request = admin_on_request,
                                      .user = process};

    if (http_server_open(&process->http, process->env, &http, error) != RC_OK) {
        process->http = NULL;
        return error_prefix(error, "--admin-listen");
    }
    return RC_OK;
}

/* ---- What gateways and datads ask ---- */

static bool service_leader_of(void *owner, uint64_t *node_id, char address[ENV_ADDRESS_MAX])
{
    const struct metad_process *process = owner;
    struct node_leader leader;

    if (!node_leader(process->member, &leader) || leader.self) {
        return false;
    }
    *node_id = leader.node_id;
    (void)snprintf(address, ENV_ADDRESS_MAX, "%s", leader.address);
    return true;
}

static void on_member(struct node *node, struct rpc *rpc, struct metad *metad)
{
    struct metad_process *process = node_owner(node);

    process->member = node;
    process->service = meta_service_open(&(struct meta_service_options){
        .rpc = rpc, .metad = metad, .owner = process, .leader = service_leader_of});
}

static void service_left(void *owner)
{
    struct metad_process *process = owner;

    process->service = NULL;
    process->left(process->member);
}

static void on_leaving(struct node *node, void (*done)(struct node *node))
{
    struct metad_process *process = node_owner(node);

    process->left = done;
    meta_service_close(process->service, service_left);
}

/* ---- Stop ---- */

static void stop_http_done(struct http_server *http)
{
    struct metad_process *process = http_server_user(http);

    env_uv_stop(process->env);
}

static void stop_node_done(void *owner)
{
    struct metad_process *process = owner;

    process->node = NULL;
    if (process->http != NULL) {
        http_server_close(process->http, ADMIN_DRAIN_MS, stop_http_done);
    } else {
        env_uv_stop(process->env);
    }
}

static void stop(struct metad_process *process)
{
    if (process->stopping) {
        return;
    }
    process->stopping = true;
    if (process->node != NULL) {
        node_close(process->node, stop_node_done);
    } else {
        stop_node_done(process);
    }
}

static void on_failed(struct node *node, const struct error *error)
{
    struct metad_process *process = node_owner(node);

    process->error = *error;
    process->node = node;
    stop(process);
}

static void on_signal(struct env_uv_signals *signals, int number)
{
    struct metad_process *process = CONTAINER_OF(signals, struct metad_process, signals);

    if (process->stopping) {
        LOG_WARN("stop_forced", "signal=%d", number);
        _exit(EXIT_FORCED);
    }
    LOG_INFO("stopping", "signal=%d", number);
    stop(process);
}

/* ---- Start ---- */

static enum rc start_directory(struct metad_process *process, struct error *error)
{
    const char *path = process->settings.data;
    char other[DIRECTORY_PATH_BYTES_MAX + 1];
    struct env *env = process->env;
    struct env_stat stat;
    uint64_t device;
    enum rc rc;

    if (strlen(path) + 16 > DIRECTORY_PATH_BYTES_MAX) {
        return error_set(error, RC_INVALID, "--data: the path is too long");
    }
    (void)snprintf(other, sizeof(other), "%s/identity", path);
    if (env->file->stat(env, other, &stat) == RC_OK) {
        return error_set(error, RC_INVALID, "data directory %s is of kist serve", path);
    }
    rc = directory_files_make(env, path, &device, error);
    return rc == RC_OK ? directory_files_lock(env, path, &process->lock_file, error) : rc;
}

static enum rc start_node(struct metad_process *process, struct error *error)
{
    const struct metad_settings *settings = &process->settings;
    struct node_options options = {.env = process->env,
                                   .directory = settings->data,
                                   .name = settings->name,
                                   .listen = settings->listen,
                                   .advertise = settings->advertise,
                                   .key = settings->key,
                                   .cache_bytes = settings->meta_cache,
                                   .reclaim_grace_ms = settings->reclaim_grace,
                                   .election_timeout_ms = settings->election_timeout,
                                   .owner = process,
                                   .on_failed = on_failed,
                                   .on_member = on_member,
                                   .on_leaving = on_leaving};

    for (uint32_t i = 0; i < settings->peers.count; i++) {
        options.peers[options.peer_count++] = settings->peers.items[i];
    }
    return node_open(&process->node, &options, error);
}

static int run(struct metad_process *process)
{
    const struct env_uv_options world = {.loop_count = 1, .without_uring = true};
    struct error error = {.rc = RC_OK};
    enum rc rc;

    process->lock_file = -1;
    process->world = env_uv_open(&world, &error);
    if (process->world == NULL) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return EXIT_OPERATING;
    }
    process->env = env_uv_env(process->world, 0);
    rc = start_directory(process, &error);
    rc = rc == RC_OK ? admin_open(process, &error) : rc;
    rc = rc == RC_OK ? start_node(process, &error) : rc;
    if (rc == RC_OK) {
        process->signals.on_signal = on_signal;
        env_uv_watch_signals(process->world, &process->signals);
        env_uv_start(process->world);
        env_uv_run(process->env);
    } else {
        process->error = error;
        if (process->http != NULL) {
            stop(process);
            env_uv_run(process->env);
        }
    }
    if (process->lock_file >= 0) {
        process->env->file->close(process->env, process->lock_file);
    }
    env_uv_close(process->world);
    if (process->error.rc == RC_OK) {
        LOG_INFO("stopped", "node=%s", process->settings.name);
        return 0;
    }
    (void)fprintf(stderr, "kist: %s\n", process->error.text);
    return process->error.rc == RC_INVALID ? EXIT_USAGE : EXIT_OPERATING;
}

static enum rc read_options(struct config_arguments *arguments, struct metad_settings *settings,
                            struct error *error)
{
    const struct env_uv_options world = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct env_uv *uv = env_uv_open(&world, error);
    enum rc rc = RC_IO;

    if (uv != NULL) {
        rc = metad_options_read(env_uv_env(uv, 0), arguments, settings, error);
        env_uv_close(uv);
    }
    return rc;
}

int metad_main(int argc, char *const *argv)
{
    struct metad_process *process = mem_alloc(sizeof(*process));
    struct config_arguments arguments = {.argv = (const char *const *)argv, .argc = argc};
    struct error error = {.rc = RC_OK};
    int code = 0;

    if (read_options(&arguments, &process->settings, &error) != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        code = EXIT_USAGE;
    } else if (arguments.help) {
        struct buffer out;

        buffer_init(&out);
        config_write_help(&metad_options_table, &out);
        (void)fwrite(out.data, 1, out.len, stdout);
        buffer_deinit(&out);
    } else {
        log_set_level((enum log_level)process->settings.log_level);
        log_set_json(process->settings.log_json);
        code = run(process);
    }
    cluster_key_wipe(&process->settings.key);
    config_free(&metad_options_table, &process->settings);
    mem_free(process);
    return code;
}
