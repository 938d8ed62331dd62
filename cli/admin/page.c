/* `/` of the admin port: the state of this process for a reader, without secrets. */
#include <inttypes.h>

#include "cli/serve.h"
#include "common/metrics/metrics.h"

enum { BUCKETS_SHOWN = 100 };

static void write_text(struct buffer *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '<':
            buffer_printf(out, "&lt;");
            break;
        case '>':
            buffer_printf(out, "&gt;");
            break;
        case '&':
            buffer_printf(out, "&amp;");
            break;
        case '"':
            buffer_printf(out, "&quot;");
            break;
        default:
            buffer_append_byte(out, text.data[i]);
        }
    }
}

/* 1.5 GiB */
static void write_size(struct buffer *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit += 1;
    }
    buffer_printf(out, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void write_redundancy(const struct serve *serve, struct buffer *out)
{
    struct place_scheme scheme = place_scheme_for(serve->directories.count);

    buffer_printf(
        out,
        "<h2>Redundancy</h2><p>%u+%u over %u directories: survives the loss of any <b>%u</b> "
        "directories, of any <b>%u</b> block devices.</p>",
        scheme.data_shards, scheme.parity_shards, serve->directories.count,
        serve_losses_directories(serve), serve_losses_devices(serve));
    if (serve->directories.count == 1) {
        buffer_printf(out, "<p class=bad>One directory, one copy: when this disk is lost, "
                           "everything is lost.</p>");
    }
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        if (serve->directories.items[i].state == DIRECTORY_MISSING) {
            buffer_printf(out, "<p class=bad>Missing: ");
            write_text(out, slice_str(serve->directories.items[i].path));
            buffer_printf(out, "</p>");
        }
    }
}

static void write_disks(const struct serve *serve, struct buffer *out)
{
    struct datad_disk_status disks[DATAD_DISKS_MAX];
    uint32_t count = datad_status(serve->datad, disks, DATAD_DISKS_MAX);

    buffer_printf(
        out, "<h2>Disks</h2><table><tr><th>disk<th>path<th>state<th>free<th>size<th>live<th>deleted"
             "<th>segments<th>bad blocks</tr>");
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "<tr><td>%" PRIu64 "<td>", disks[i].id);
        write_text(out, slice_str(disks[i].path));
        buffer_printf(out, "<td%s>%s<td>", disks[i].healthy ? "" : " class=bad", disks[i].state);
        write_size(out, disks[i].free_bytes);
        buffer_printf(out, "<td>");
        write_size(out, disks[i].total_bytes);
        buffer_printf(out, "<td>");
        write_size(out, disks[i].live_bytes);
        buffer_printf(out, "<td>");
        write_size(out, disks[i].dead_bytes);
        buffer_printf(out, "<td>%" PRIu64 "<td>%" PRIu64 "</tr>", disks[i].segment_count,
                      disks[i].bad_blocks);
    }
    buffer_printf(out, "</table>");
}

static void write_repair(const struct serve *serve, struct buffer *out)
{
    struct repair_status status = {0};

    if (serve->repair == NULL) {
        return;
    }
    repair_status(serve->repair, &status);
    buffer_printf(out, "<h2>Repair</h2><p>");
    if (status.walking) {
        buffer_printf(out, "Looking at everything: %" PRIu64 " of about %" PRIu64 " extents. ",
                      status.walk_done, status.walk_total);
    }
    buffer_printf(out, "Missing shards: <b>%" PRIu64 "</b>; rebuilt since start: %" PRIu64 ".</p>",
                  status.deficit, status.rebuilt_shards);
    if (status.lost_extents > 0) {
        buffer_printf(out,
                      "<p class=bad>%" PRIu64
                      " extents cannot be read: too few of their shards are left.</p>",
                      status.lost_extents);
    }
}

static void write_replicas(const struct serve *serve, struct buffer *out)
{
    struct metad_status status = {0};

    metad_status(serve->metad, &status);
    buffer_printf(
        out,
        "<h2>Metadata</h2><p>%s</p><table><tr><th>replica<th>directory<th>state<th>applied"
        "<th>error</tr>",
        status.writable ? "takes reads and writes" : "<span class=bad>takes no writes</span>");
    for (uint32_t i = 0; i < status.replica_count; i++) {
        buffer_printf(out, "<tr><td>%" PRIu64 "<td>", status.replicas[i].id);
        write_text(out, slice_str(status.replicas[i].directory));
        buffer_printf(out, "<td>%s<td>%" PRIu64 "<td>", status.replicas[i].state,
                      status.replicas[i].applied);
        write_text(out, slice_str(status.replicas[i].error));
        buffer_printf(out, "</tr>");
    }
    buffer_printf(out, "</table>");
}

static void write_buckets(const struct serve *serve, struct buffer *out)
{
    const struct view *view = serve->meta->view(serve->meta);
    size_t count = view_bucket_count(view);

    buffer_printf(out, "<h2>Buckets</h2><p>%zu, of %zu users.</p><table><tr><th>name<th>owner</tr>",
                  count, view_user_count(view));
    for (size_t i = 0; i < count && i < BUCKETS_SHOWN; i++) {
        const Kist__Bucket *bucket = view_bucket_at(view, i);

        buffer_printf(out, "<tr><td>");
        write_text(out, slice_of(bucket->name.data, bucket->name.len));
        buffer_printf(out, "<td>");
        write_text(out, slice_of(bucket->owner.data, bucket->owner.len));
        buffer_printf(out, "</tr>");
    }
    buffer_printf(out, "</table>%s", count > BUCKETS_SHOWN ? "<p>and more</p>" : "");
}

static void write_sink(struct buffer *out, const struct events_sink_status *sink)
{
    buffer_printf(out, "<tr><td>");
    write_text(out, sink->name);
    buffer_printf(out, "<td>%" PRIu64 "<td>%" PRIu64 " s<td%s>%" PRIu64 "<td>", sink->delivered,
                  sink->lag_ms / 1000, sink->lost > 0 ? " class=bad" : "", sink->lost);
    write_text(out, slice_str(sink->error));
    buffer_printf(out, "</tr>");
}

static void write_events(const struct serve *serve, struct buffer *out)
{
    uint32_t count;

    if (serve->events == NULL) {
        return;
    }
    buffer_printf(out, "<h2>Changes and notifications</h2><p>Change feed: %" PRIu64 " changes, ",
                  events_feed_count(serve->events));
    write_size(out, events_feed_bytes(serve->events));
    buffer_printf(out, ".</p>");
    count = events_sink_count(serve->events);
    if (count == 0) {
        return;
    }
    buffer_printf(out, "<table><tr><th>target<th>delivered since start<th>oldest waits<th>lost"
                       "<th>error</tr>");
    for (uint32_t i = 0; i < count; i++) {
        struct events_sink_status sink;

        events_sink_status(serve->events, i, &sink);
        write_sink(out, &sink);
    }
    buffer_printf(out, "</table>");
}

static void write_requests(struct buffer *out)
{
    static const char *const classes[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};

    buffer_printf(out, "<h2>Requests since start</h2><table><tr><th>replies");
    for (uint32_t i = 2; i < 6; i++) {
        buffer_printf(out, "<td>%s: %" PRIu64, classes[i], metric_value(METRIC_STATUS, i));
    }
    buffer_printf(out,
                  "</tr><tr><th>under way<td>%" PRIu64 "</tr><tr><th>connections<td>%" PRIu64
                  "</tr><tr><th>received<td>",
                  metric_value(METRIC_REQUESTS_ACTIVE, 0), metric_value(METRIC_CONNECTIONS, 0));
    write_size(out, metric_value(METRIC_RECEIVED_BYTES, 0));
    buffer_printf(out, "</tr><tr><th>sent<td>");
    write_size(out, metric_value(METRIC_SENT_BYTES, 0));
    buffer_printf(out, "</tr></table>");
}

void admin_write_page(const struct serve *serve, struct buffer *out)
{
    buffer_printf(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8><title>kist</title><style>"
        "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em "
        ".6em;text-align:left}"
        ".bad{color:#b00;font-weight:bold}</style><h1>kist %s</h1><p>S3 on %s, region ",
        KIST_VERSION, serve->listen);
    write_text(out, slice_str(serve->options->region));
    buffer_printf(out, "%s</p>", serve->stop_asked ? ", <b>stopping</b>" : "");
    write_redundancy(serve, out);
    write_disks(serve, out);
    write_repair(serve, out);
    write_replicas(serve, out);
    write_buckets(serve, out);
    write_events(serve, out);
    write_requests(out);
    buffer_printf(
        out, "<p><a href=/metrics>metrics</a> · <a href=/health/ready>readiness</a></p></html>\n");
}
