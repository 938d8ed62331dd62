/*
 * Cells lie in one array per shard: cell_base[metric] + series (a histogram's series has
 * HISTOGRAM_CELLS of them). A thread picks its shard once. A gauge is a counter whose additions
 * wrap: the sum over the shards, taken as signed, is right even when one thread adds and another
 * subtracts.
 */
#include "common/metrics/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

enum { SHARDS = 8, BOUNDS = 16, HISTOGRAM_CELLS = BOUNDS + 2, LABELS_MAX = 160 };

#define NS_PER_US 1000ULL

/* Upper bounds in microseconds; the cell after the last counts the rest, the one after that sums
 * ns. */
static const uint64_t bounds_us[BOUNDS] = {100,     250,     500,     1000,    2500,   5000,
                                           10000,   25000,   50000,   100000,  250000, 500000,
                                           1000000, 2500000, 5000000, 10000000};

struct metric_row {
    const char *name;
    const char *label;
    const char *help;
    uint32_t series;
    enum metric_kind kind;
};

static const struct metric_row rows[METRIC_COUNT] = {
#define METRIC(id, kind, name, label, series, help) {(name), (label), (help), (series), (kind)},
#include "common/metrics/metrics.def"
#undef METRIC
};

enum {
#define CELLS_COUNTER   1
#define CELLS_GAUGE     1
#define CELLS_HISTOGRAM HISTOGRAM_CELLS
    CELL_COUNT = 0
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term of the sum */
#define METRIC(id, kind, name, label, series, help) +(series) * CELLS_##kind
#include "common/metrics/metrics.def"
#undef METRIC
};

static _Alignas(64) atomic_uint_fast64_t cells[SHARDS][(CELL_COUNT + 7) / 8 * 8];
static const char *labels[METRIC_COUNT][LABELS_MAX];
static atomic_uint next_shard;

static uint32_t metric_cells(const struct metric_row *row)
{
    return row->kind == HISTOGRAM ? HISTOGRAM_CELLS : 1;
}

/* First cell of a series. */
static uint32_t metric_cell(enum metric metric, uint32_t series)
{
    static _Thread_local uint32_t bases[METRIC_COUNT + 1];

    if (bases[METRIC_COUNT] == 0) {
        for (uint32_t i = 0; i < METRIC_COUNT; i++) {
            bases[i + 1] = bases[i] + rows[i].series * metric_cells(&rows[i]);
        }
    }
    if (series >= rows[metric].series) {
        series = rows[metric].series - 1;
    }
    return bases[metric] + series * metric_cells(&rows[metric]);
}

static atomic_uint_fast64_t *metric_shard(void)
{
    static _Thread_local uint32_t shard; /* 1 + index; 0: not chosen yet */

    if (shard == 0) {
        shard = 1 + atomic_fetch_add_explicit(&next_shard, 1, memory_order_relaxed) % SHARDS;
    }
    return cells[shard - 1];
}

static void cell_add(uint32_t cell, uint64_t by)
{
    (void)atomic_fetch_add_explicit(&metric_shard()[cell], by, memory_order_relaxed);
}

static uint64_t cell_sum(uint32_t cell)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < SHARDS; i++) {
        sum += atomic_load_explicit(&cells[i][cell], memory_order_relaxed);
    }
    return sum;
}

void metric_label(enum metric metric, uint32_t index, const char *value)
{
    ASSERT(metric < METRIC_COUNT && index < rows[metric].series && index < LABELS_MAX);
    labels[metric][index] = value;
}

void metric_add(enum metric metric, uint32_t series, uint64_t by)
{
    ASSERT(metric < METRIC_COUNT && rows[metric].kind == COUNTER);
    cell_add(metric_cell(metric, series), by);
}

void metric_gauge_add(enum metric metric, int64_t by)
{
    ASSERT(metric < METRIC_COUNT && rows[metric].kind == GAUGE);
    cell_add(metric_cell(metric, 0), (uint64_t)by);
}

void metric_observe_ns(enum metric metric, uint32_t series, uint64_t ns)
{
    uint32_t cell;
    uint32_t bound = 0;

    ASSERT(metric < METRIC_COUNT && rows[metric].kind == HISTOGRAM);
    while (bound < BOUNDS && ns > bounds_us[bound] * NS_PER_US) {
        bound += 1;
    }
    cell = metric_cell(metric, series);
    cell_add(cell + bound, 1);
    cell_add(cell + BOUNDS + 1, ns);
}

uint64_t metric_value(enum metric metric, uint32_t series)
{
    uint32_t cell = metric_cell(metric, series);
    uint64_t sum = cell_sum(cell);

    for (uint32_t i = 1; rows[metric].kind == HISTOGRAM && i <= BOUNDS; i++) {
        sum += cell_sum(cell + i);
    }
    return sum;
}

void metrics_write_label_value(struct buffer *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"') {
            buffer_append_byte(out, '\\');
        }
        buffer_append_byte(out, *value == '\n' ? ' ' : *value);
    }
}

void metrics_write_head(struct buffer *out, const char *name, const char *kind, const char *help)
{
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* name{label="value",le="bound"}; parts that are NULL are left out. */
static void write_name(struct buffer *out, const struct metric_row *row, const char *suffix,
                       const char *value, const char *bound)
{
    buffer_printf(out, "%s%s", row->name, suffix);
    if (value == NULL && bound == NULL) {
        return;
    }
    buffer_append_byte(out, '{');
    if (value != NULL) {
        buffer_printf(out, "%s=\"", row->label);
        metrics_write_label_value(out, value);
        buffer_append_byte(out, '"');
    }
    if (bound != NULL) {
        buffer_printf(out, "%sle=\"%s\"", value != NULL ? "," : "", bound);
    }
    buffer_append_byte(out, '}');
}

static void write_histogram(struct buffer *out, const struct metric_row *row, uint32_t cell,
                            const char *value)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i <= BOUNDS; i++) {
        char bound[32] = "+Inf";

        count += cell_sum(cell + i);
        if (i < BOUNDS) {
            (void)snprintf(bound, sizeof(bound), "%g", (double)bounds_us[i] / 1e6);
        }
        write_name(out, row, "_bucket", value, bound);
        buffer_printf(out, " %" PRIu64 "\n", count);
    }
    write_name(out, row, "_sum", value, NULL);
    buffer_printf(out, " %.9f\n", (double)cell_sum(cell + BOUNDS + 1) / 1e9);
    write_name(out, row, "_count", value, NULL);
    buffer_printf(out, " %" PRIu64 "\n", count);
}

static void write_metric(struct buffer *out, enum metric metric)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const struct metric_row *row = &rows[metric];

    metrics_write_head(out, row->name, kinds[row->kind], row->help);
    for (uint32_t i = 0; i < row->series; i++) {
        bool labelled = row->label[0] != '\0';
        const char *value = labelled ? labels[metric][i] : NULL;
        uint32_t cell = metric_cell(metric, i);

        if (labelled && (value == NULL || metric_value(metric, i) == 0)) {
            continue;
        }
        if (row->kind == HISTOGRAM) {
            write_histogram(out, row, cell, value);
            continue;
        }
        write_name(out, row, "", value, NULL);
        buffer_printf(out, " %" PRId64 "\n", (int64_t)cell_sum(cell));
    }
}

void metrics_write(struct buffer *out)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        write_metric(out, (enum metric)i);
    }
}
