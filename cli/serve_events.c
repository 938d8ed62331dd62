/* The deliverer of notifications, and its sinks as the options name them. On loop 0, where metad
 * is. */
#include "cli/serve.h"
#include "common/base/assert.h"

static void sink_on_close(void *owner)
{
    (void)owner;
}

static enum rc sinks_add(struct serve *serve, const struct config_list *list, enum sink_type type,
                         struct events_options *events, struct error *error)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct sink_options *options = &serve->sinks[serve->sink_count];
        struct sink **sink = &events->sinks[events->sink_count];
        enum rc rc = sink_options_parse(type, slice_str(list->items[i]), options, error);

        ASSERT(rc == RC_OK); /* as when the options were read */
        rc = type == SINK_WEBHOOK ? sink_webhook_open(sink, serve->env, options, error)
                                  : sink_kafka_open(sink, serve->env, options, error);
        if (rc != RC_OK) {
            return rc;
        }
        serve->sink_names[serve->sink_count] = slice_str(options->arn_name);
        events->names[events->sink_count] = serve->sink_names[serve->sink_count];
        events->sink_count += 1;
        serve->sink_count += 1;
    }
    return RC_OK;
}

enum step_result serve_open_events(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    struct events_options events = {.env = serve->env,
                                    .meta = serve->meta,
                                    .region = slice_str(serve->options->region),
                                    .feed_bytes_max = serve->options->feed_size,
                                    .feed_age_ms = serve->options->feed_age};

    if (sinks_add(serve, &serve->options->webhook, SINK_WEBHOOK, &events, &task->error) != RC_OK ||
        sinks_add(serve, &serve->options->kafka, SINK_KAFKA, &events, &task->error) != RC_OK) {
        for (uint32_t i = 0; i < events.sink_count; i++) {
            events.sinks[i]->ops->close(events.sinks[i], sink_on_close, NULL);
        }
        return STEP_FAIL;
    }
    serve->events = events_open(&events);
    return STEP_NEXT;
}
