/* What operators see must be what happened: sums over threads, cumulative buckets, the text format.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "common/metrics/metrics.h"

enum { THREADS = 12, ADDS = 20000 };

static void *count_main(void *arg)
{
    for (int i = 0; i < ADDS; i++) {
        metric_add(METRIC_RECEIVED_BYTES, 0, 3);
        metric_gauge_add(METRIC_CONNECTIONS, i % 2 == 0 ? 1 : -1);
    }
    return arg;
}

/* More threads than shards share cells: nothing may be lost, and a gauge comes back to zero. */
static void threads_add_up(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_main, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(metric_value(METRIC_RECEIVED_BYTES, 0), THREADS * ADDS * 3);
    assert_int_equal(metric_value(METRIC_CONNECTIONS, 0), 0);
}

static bool page_has(const char *line)
{
    struct buffer out;
    bool found;

    buffer_init(&out);
    metrics_write(&out);
    buffer_append_byte(&out, '\0');
    found = strstr(out.data, line) != NULL;
    buffer_deinit(&out);
    return found;
}

/* Dashboards compute percentiles from cumulative buckets: a value on a bound belongs to that bound.
 */
static void histogram_is_cumulative(void **state)
{
    (void)state;
    metric_label(METRIC_REQUEST_SECONDS, 2, "GetObject");
    metric_observe_ns(METRIC_REQUEST_SECONDS, 2, 1000000);     /* 1 ms exactly */
    metric_observe_ns(METRIC_REQUEST_SECONDS, 2, 1000001);     /* just above */
    metric_observe_ns(METRIC_REQUEST_SECONDS, 2, 60000000000); /* beyond the last bound */
    assert_true(page_has("kist_request_seconds_bucket{operation=\"GetObject\",le=\"0.0005\"} 0\n"));
    assert_true(page_has("kist_request_seconds_bucket{operation=\"GetObject\",le=\"0.001\"} 1\n"));
    assert_true(page_has("kist_request_seconds_bucket{operation=\"GetObject\",le=\"0.0025\"} 2\n"));
    assert_true(page_has("kist_request_seconds_bucket{operation=\"GetObject\",le=\"10\"} 2\n"));
    assert_true(page_has("kist_request_seconds_bucket{operation=\"GetObject\",le=\"+Inf\"} 3\n"));
    assert_true(page_has("kist_request_seconds_count{operation=\"GetObject\"} 3\n"));
    assert_true(page_has("kist_request_seconds_sum{operation=\"GetObject\"} 60.002000001\n"));
}

/* Label values go out escaped, series that never counted stay away, one beyond the table is not
 * lost. */
static void labels_are_shown_when_counted(void **state)
{
    (void)state;
    metric_label(METRIC_ERRORS, 0, "a\"b\\c");
    metric_label(METRIC_ERRORS, 1, "Never");
    metric_label(METRIC_ERRORS, 127, "Last");
    metric_add(METRIC_ERRORS, 0, 7);
    metric_add(METRIC_ERRORS, 100000, 1);
    assert_true(page_has("kist_errors_total{code=\"a\\\"b\\\\c\"} 7\n"));
    assert_false(page_has("Never"));
    assert_true(page_has("kist_errors_total{code=\"Last\"} 1\n"));
    assert_true(page_has("# TYPE kist_errors_total counter\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_add_up),
        cmocka_unit_test(histogram_is_cumulative),
        cmocka_unit_test(labels_are_shown_when_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
