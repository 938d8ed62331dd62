/*
 * Gateways on all loops. Loop 0 opens its own first (it names the metrics, and with port 0 the
 * kernel chooses the port the others then take), the others open theirs when a message asks them
 * to.
 *
 *     loop 0 --go--> loop n: open or close --back--> loop 0: the last one resumes the task that
 * waits
 */
#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/log/log.h"

#include <stdio.h>

static enum rc gateway_open_here(struct serve_gateway *gateway)
{
    const struct serve *serve = gateway->serve;
    const struct serve_options *options = serve->options;
    uint32_t loops = env_uv_count(serve->world);
    const struct gateway_server_options open = {
        .env = gateway->env,
        .meta = serve->metas[gateway->loop],
        .data = serve->datas[gateway->loop],
        .config = &serve->gateway_config,
        .address = serve->listen,
        .tls = serve->tls,
        .loop = gateway->loop,
        .memory_budget = options->stream_memory / loops,
        .idle_timeout_ms = options->idle_timeout,
        .header_timeout_ms = options->header_timeout,
        .body_timeout_ms = options->body_timeout,
        .connections_max = (uint32_t)((options->connections_max + loops - 1) / loops),
    };

    return gateway_server_open(&gateway->server, &open, &gateway->error);
}

static void gateway_opened(struct env_post *post)
{
    struct serve_gateway *gateway = CONTAINER_OF(post, struct serve_gateway, back);
    struct serve *serve = gateway->serve;

    serve->gateways_pending -= 1;
    if (serve->gateways_pending == 0) {
        task_resume(&serve->start, RC_OK);
    }
}

static void gateway_go_open(struct env_post *post)
{
    struct serve_gateway *gateway = CONTAINER_OF(post, struct serve_gateway, go);

    if (gateway_open_here(gateway) != RC_OK) {
        gateway->server = NULL;
    }
    gateway->serve->env->post(gateway->serve->env, &gateway->back);
}

static void gateways_configure(struct serve *serve)
{
    const struct serve_options *options = serve->options;

    serve->stream_pool.budget_bytes = options->stream_memory;
    serve->gateway_config = (struct gateway_config){
        .stream_pool = &serve->stream_pool,
        .region = slice_str(options->region),
        .domain = slice_str(options->domain),
        .website_domain = slice_str(options->website_domain),
        .sigv2 = (enum sigv2_use)options->sigv2,
        .default_ownership = (uint32_t)options->default_ownership + 1,
        .copy_bytes_max = options->copy_size_max,
        .inline_bytes_max = options->inline_size_max,
        .replica_bytes_max = options->replica_size_max,
        .extent_bytes_max = LIMIT_EXTENT_BYTES,
        .hedge_ms = options->hedge_after,
        .lifecycle_day_ms = options->lifecycle_day,
        .keep_alive_ms = options->keep_alive_after,
        .sinks = serve->sink_names,
        .sink_count = serve->sink_count,
        .incarnation = serve->incarnation,
        .cluster_epoch = serve->directories.cluster_epoch,
    };
    for (uint32_t i = 0; i < env_uv_count(serve->world); i++) {
        struct serve_gateway *gateway = &serve->gateways[i];

        *gateway =
            (struct serve_gateway){.serve = serve, .env = env_uv_env(serve->world, i), .loop = i};
        gateway->go.run = gateway_go_open;
        gateway->back.run = gateway_opened;
    }
}

enum step_result serve_gateways_open(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    uint32_t loops = env_uv_count(serve->world);

    (void)snprintf(serve->listen, sizeof(serve->listen), "%s", serve->options->listen);
    gateways_configure(serve);
    if (gateway_open_here(&serve->gateways[0]) != RC_OK) {
        serve->gateways[0].server = NULL;
        task->error = serve->gateways[0].error;
        return STEP_FAIL;
    }
    gateway_server_address(serve->gateways[0].server, serve->listen);
    if (loops == 1) {
        return STEP_NEXT;
    }
    serve->gateways_pending = loops - 1;
    for (uint32_t i = 1; i < loops; i++) {
        serve->gateways[i].env->post(serve->gateways[i].env, &serve->gateways[i].go);
    }
    return STEP_WAIT;
}

enum step_result serve_gateways_opened(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    for (uint32_t i = 0; i < env_uv_count(serve->world); i++) {
        if (serve->gateways[i].server == NULL) {
            task->error = serve->gateways[i].error;
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

/* ---- Close ---- */

static void gateway_closed(struct env_post *post)
{
    struct serve_gateway *gateway = CONTAINER_OF(post, struct serve_gateway, back);
    struct serve *serve = gateway->serve;

    gateway->server = NULL;
    serve->gateways_pending -= 1;
    if (serve->gateways_pending == 0) {
        task_resume(&serve->stop, RC_OK);
    }
}

static void gateway_on_done(void *arg)
{
    struct serve_gateway *gateway = arg;

    gateway->serve->env->post(gateway->serve->env, &gateway->back);
}

static void gateway_go_close(struct env_post *post)
{
    struct serve_gateway *gateway = CONTAINER_OF(post, struct serve_gateway, go);

    gateway_server_close(gateway->server, gateway->serve->options->drain_timeout, gateway_on_done,
                         gateway);
}

/* serve->gateways_pending is 0 afterwards when none was open; else the stop task is resumed. */
void serve_gateways_close(struct serve *serve)
{
    ASSERT(serve->gateways_pending == 0);
    for (uint32_t i = 0; i < env_uv_count(serve->world); i++) {
        struct serve_gateway *gateway = &serve->gateways[i];

        if (gateway->server != NULL) {
            serve->gateways_pending += 1;
            gateway->go.run = gateway_go_close;
            gateway->back.run = gateway_closed;
            gateway->env->post(gateway->env, &gateway->go);
        }
    }
}
