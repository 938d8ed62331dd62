/*
 * Counters, gauges and histograms of the process, from the table metrics.def; as Prometheus text.
 *
 * Any thread may count: each thread has a shard of cells of its own (relaxed atomics, no shared
 * cache lines as long as there are no more threads than shards), and the page adds them up.
 */
#ifndef COMMON_METRICS_METRICS_H
#define COMMON_METRICS_METRICS_H

#include <stdint.h>

#include "common/base/buffer.h"

enum metric {
#define METRIC(id, kind, name, label, series, help) METRIC_##id,
#include "common/metrics/metrics.def"
#undef METRIC
    METRIC_COUNT
};

/* Gives series `index` of a labelled metric its label value (borrowed for ever: a literal or
 * static). At start-up, before any thread counts. Series without a value, or never counted, are not
 * shown. */
void metric_label(enum metric metric, uint32_t index, const char *value);

/* `series` is 0 for metrics without a label; one beyond the table's number counts as the last. */
void metric_add(enum metric metric, uint32_t series, uint64_t by);
void metric_gauge_add(enum metric metric, int64_t by);
/* Of a histogram: a duration. */
void metric_observe_ns(enum metric metric, uint32_t series, uint64_t ns);
/* Sum over all threads: a counter's or gauge's value, a histogram's count. */
uint64_t metric_value(enum metric metric, uint32_t series);

/* Everything in the Prometheus text format 0.0.4. */
void metrics_write(struct buffer *out);

/* For values that are asked for when scraped: the HELP and TYPE lines of a gauge, then its lines.
 */
void metrics_write_head(struct buffer *out, const char *name, const char *kind, const char *help);
/* A label value with what the format demands escaped. */
void metrics_write_label_value(struct buffer *out, const char *value);

#endif
