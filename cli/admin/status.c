/* /status.json: the state of this process for programs; what page.c shows to readers. No secrets.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve.h"
#include "common/base/assert.h"

/* Paths need not be UTF-8. */
static json_t *json_text(const char *text)
{
    json_t *value = json_string(text);

    return value != NULL ? value : json_string("?");
}

static json_t *status_metad(const struct serve *serve)
{
    struct metad_status status = {0};
    json_t *replicas = json_array();

    metad_status(serve->metad, &status);
    for (uint32_t i = 0; i < status.replica_count; i++) {
        json_array_append_new(replicas, json_pack("{s:I,s:o,s:s,s:I,s:o}", "id",
                                                  (json_int_t)status.replicas[i].id, "directory",
                                                  json_text(status.replicas[i].directory), "state",
                                                  status.replicas[i].state, "applied",
                                                  (json_int_t)status.replicas[i].applied, "error",
                                                  json_text(status.replicas[i].error)));
    }
    return json_pack("{s:b,s:o}", "writable", status.writable ? 1 : 0, "replicas", replicas);
}

static json_t *status_disks(const struct serve *serve)
{
    struct datad_disk_status disks[DATAD_DISKS_MAX];
    uint32_t count = datad_status(serve->datad, disks, DATAD_DISKS_MAX);
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++) {
        json_t *row = json_pack("{s:I,s:o,s:b,s:s,s:o}", "id", (json_int_t)disks[i].id, "path",
                                json_text(disks[i].path), "healthy", disks[i].healthy ? 1 : 0,
                                "state", disks[i].state, "why", json_text(disks[i].why));

        json_object_set_new(row, "total_bytes", json_integer((json_int_t)disks[i].total_bytes));
        json_object_set_new(row, "free_bytes", json_integer((json_int_t)disks[i].free_bytes));
        json_object_set_new(row, "live_bytes", json_integer((json_int_t)disks[i].live_bytes));
        json_object_set_new(row, "dead_bytes", json_integer((json_int_t)disks[i].dead_bytes));
        json_object_set_new(row, "segments", json_integer((json_int_t)disks[i].segment_count));
        json_object_set_new(row, "bad_blocks", json_integer((json_int_t)disks[i].bad_blocks));
        json_array_append_new(list, row);
    }
    return list;
}

/* `running`: something is being looked at or rebuilt, or has not been looked at yet though a disk
 * is new. */
static json_t *status_repair(const struct serve *serve)
{
    struct repair_status status = {0};
    bool due = serve->repair != NULL && datad_needs_refill(serve->datad);

    if (serve->repair != NULL) {
        repair_status(serve->repair, &status);
    }
    return json_pack(
        "{s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "running", status.walking || due ? 1 : 0,
        "deficit", (json_int_t)status.deficit, "lost_extents", (json_int_t)status.lost_extents,
        "walks", (json_int_t)status.walks, "walk_done", (json_int_t)status.walk_done, "walk_total",
        (json_int_t)status.walk_total, "rebuilt_shards", (json_int_t)status.rebuilt_shards,
        "failures", (json_int_t)status.failures, "error", json_text(status.error));
}

static json_t *status_events(const struct serve *serve)
{
    json_t *sinks = json_array();
    uint32_t count = serve->events != NULL ? events_sink_count(serve->events) : 0;

    for (uint32_t i = 0; i < count; i++) {
        struct events_sink_status sink;

        events_sink_status(serve->events, i, &sink);
        json_array_append_new(
            sinks, json_pack("{s:s#,s:I,s:I,s:I,s:I,s:o}", "name", sink.name.data,
                             (int)sink.name.len, "delivered", (json_int_t)sink.delivered,
                             "failures", (json_int_t)sink.failures, "lost", (json_int_t)sink.lost,
                             "lag_ms", (json_int_t)sink.lag_ms, "error", json_text(sink.error)));
    }
    return json_pack(
        "{s:I,s:I,s:o}", "bytes",
        (json_int_t)(serve->events != NULL ? events_feed_bytes(serve->events) : 0), "changes",
        (json_int_t)(serve->events != NULL ? events_feed_count(serve->events) : 0), "sinks", sinks);
}

void admin_write_status(const struct serve *serve, struct buffer *out)
{
    struct place_scheme scheme = place_scheme_for(serve->directories.count);
    json_t *redundancy =
        json_pack("{s:i,s:i,s:i,s:i,s:i}", "data_shards", (int)scheme.data_shards, "parity_shards",
                  (int)scheme.parity_shards, "directories", (int)serve->directories.count,
                  "losses_tolerated_directories", (int)serve_losses_directories(serve),
                  "losses_tolerated_block_devices", (int)serve_losses_devices(serve));
    json_t *status = json_pack("{s:s,s:o,s:s,s:o,s:o,s:o,s:o}", "version", KIST_VERSION, "region",
                               json_text(serve->options->region), "listen", serve->listen,
                               "redundancy", redundancy, "metad", status_metad(serve), "disks",
                               status_disks(serve), "repair", status_repair(serve));
    char *text;

    ASSERT(status != NULL);
    json_object_set_new(status, "feed", status_events(serve));
    text = json_dumps(status, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    ASSERT(text != NULL);
    buffer_append(out, slice_str(text));
    buffer_append_byte(out, '\n');
    free(text);
    json_decref(status);
}
