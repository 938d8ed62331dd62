/* /metrics: what was counted, and what each request looks up: disks, replicas, redundancy. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli/serve.h"
#include "common/metrics/metrics.h"

static void write_replicas(const struct serve *serve, struct buffer *out)
{
    struct metad_status status = {0};

    metad_status(serve->metad, &status);
    metrics_write_head(out, "kist_metadata_writable", "gauge",
                       "1: a quorum of the metadata replicas takes writes.");
    buffer_printf(out, "kist_metadata_writable %d\n", status.writable ? 1 : 0);
    metrics_write_head(out, "kist_metadata_replica_applied", "gauge",
                       "Log index applied by a metadata replica.");
    for (uint32_t i = 0; i < status.replica_count; i++) {
        buffer_printf(out, "kist_metadata_replica_applied{directory=\"");
        metrics_write_label_value(out, status.replicas[i].directory);
        buffer_printf(out, "\",state=\"%s\"} %" PRIu64 "\n", status.replicas[i].state,
                      status.replicas[i].applied);
    }
}

static void write_disk_gauge(struct buffer *out, const char *name,
                             const struct datad_disk_status *disk, uint64_t value)
{
    buffer_printf(out, "%s{disk=\"%" PRIu64 "\",path=\"", name, disk->id);
    metrics_write_label_value(out, disk->path);
    buffer_printf(out, "\"} %" PRIu64 "\n", value);
}

static void write_disks(const struct serve *serve, struct buffer *out)
{
    struct datad_disk_status disks[DATAD_DISKS_MAX];
    uint32_t count = datad_status(serve->datad, disks, DATAD_DISKS_MAX);

    metrics_write_head(out, "kist_disk_healthy", "gauge", "1: the disk takes reads and writes.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_healthy", &disks[i], disks[i].healthy ? 1 : 0);
    }
    metrics_write_head(out, "kist_disk_free_bytes", "gauge", "Free space of the file system.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_free_bytes", &disks[i], disks[i].free_bytes);
    }
    metrics_write_head(out, "kist_disk_size_bytes", "gauge", "Size of the file system.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_size_bytes", &disks[i], disks[i].total_bytes);
    }
    metrics_write_head(out, "kist_disk_live_bytes", "gauge", "Bytes of shards that exist.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_live_bytes", &disks[i], disks[i].live_bytes);
    }
    metrics_write_head(out, "kist_disk_dead_bytes", "gauge",
                       "Bytes deleted and not yet compacted away.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_dead_bytes", &disks[i], disks[i].dead_bytes);
    }
    metrics_write_head(out, "kist_disk_bad_blocks_total", "counter",
                       "Checksum failures seen since start.");
    for (uint32_t i = 0; i < count; i++) {
        write_disk_gauge(out, "kist_disk_bad_blocks_total", &disks[i], disks[i].bad_blocks);
    }
}

static void write_repair_row(struct buffer *out, const char *name, const char *kind,
                             const char *help, uint64_t value)
{
    metrics_write_head(out, name, kind, help);
    buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_repair(const struct serve *serve, struct buffer *out)
{
    struct repair_status status = {0};

    if (serve->repair == NULL) {
        return;
    }
    repair_status(serve->repair, &status);
    write_repair_row(out, "kist_repair_deficit_shards", "gauge",
                     "Shards missing, as of the last complete walk.", status.deficit);
    write_repair_row(out, "kist_repair_lost_extents", "gauge",
                     "Extents of which too few shards can be read.", status.lost_extents);
    write_repair_row(out, "kist_repair_walking", "gauge", "1: a walk over everything is under way.",
                     status.walking ? 1 : 0);
    write_repair_row(out, "kist_repair_rebuilt_shards_total", "counter",
                     "Shards rebuilt since start.", status.rebuilt_shards);
    write_repair_row(out, "kist_repair_rebuilt_bytes_total", "counter",
                     "Bytes rebuilt since start.", status.rebuilt_bytes);
    write_repair_row(out, "kist_repair_failures_total", "counter",
                     "Extents that could not be looked at or repaired since start.",
                     status.failures);
}

static void write_sink_row(const struct serve *serve, struct buffer *out, const char *name,
                           const char *kind, const char *help, size_t offset)
{
    metrics_write_head(out, name, kind, help);
    for (uint32_t i = 0; i < events_sink_count(serve->events); i++) {
        struct events_sink_status sink;
        uint64_t value;

        events_sink_status(serve->events, i, &sink);
        memcpy(&value, (const char *)&sink + offset, sizeof(value));
        buffer_printf(out, "%s{sink=\"%.*s\"} %" PRIu64 "\n", name, (int)sink.name.len,
                      sink.name.data, value);
    }
}

static void write_events(const struct serve *serve, struct buffer *out)
{
    if (serve->events == NULL) {
        return;
    }
    write_repair_row(out, "kist_feed_bytes", "gauge", "Size of the change feed.",
                     events_feed_bytes(serve->events));
    write_repair_row(out, "kist_feed_changes", "gauge", "Changes in the change feed.",
                     events_feed_count(serve->events));
    if (events_sink_count(serve->events) == 0) {
        return;
    }
    write_sink_row(serve, out, "kist_notifications_delivered_total", "counter",
                   "Events delivered since start.", offsetof(struct events_sink_status, delivered));
    write_sink_row(serve, out, "kist_notifications_failures_total", "counter",
                   "Batches that a sink did not take whole, since start.",
                   offsetof(struct events_sink_status, failures));
    write_sink_row(serve, out, "kist_notifications_lost_total", "counter",
                   "Events that the bounds of the feed dropped before they were delivered.",
                   offsetof(struct events_sink_status, lost));
    write_sink_row(serve, out, "kist_notifications_lag_milliseconds", "gauge",
                   "Age of the oldest event that waits for a sink; 0: none does.",
                   offsetof(struct events_sink_status, lag_ms));
}

void admin_write_metrics(const struct serve *serve, struct buffer *out)
{
    metrics_write_head(out, "kist_build_info", "gauge", "1, with the version.");
    buffer_printf(out, "kist_build_info{version=\"%s\"} 1\n", KIST_VERSION);
    metrics_write_head(out, "kist_losses_tolerated", "gauge",
                       "How many of a kind may be lost, whichever, without losing data.");
    buffer_printf(out, "kist_losses_tolerated{of=\"block_device\"} %u\n",
                  serve_losses_devices(serve));
    buffer_printf(out, "kist_losses_tolerated{of=\"directory\"} %u\n",
                  serve_losses_directories(serve));
    write_replicas(serve, out);
    write_disks(serve, out);
    write_repair(serve, out);
    write_events(serve, out);
    metrics_write(out);
}
