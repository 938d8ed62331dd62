/* Dates out and in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/codec/time_format.h"

/* Known instants, around every rule of the calendar. */
static void known_instants(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *http;
        const char *amz;
    } rows[] = {
        {0,            "Thu, 01 Jan 1970 00:00:00 GMT", "19700101T000000Z"},
        {784111777,    "Sun, 06 Nov 1994 08:49:37 GMT", "19941106T084937Z"},
        {951782400,    "Tue, 29 Feb 2000 00:00:00 GMT", "20000229T000000Z"},
        {951868800,    "Wed, 01 Mar 2000 00:00:00 GMT", "20000301T000000Z"},
        {1369353600,   "Fri, 24 May 2013 00:00:00 GMT", "20130524T000000Z"},
        {4107542399,   "Sun, 28 Feb 2100 23:59:59 GMT", "21000228T235959Z"},
        {4107542400,   "Mon, 01 Mar 2100 00:00:00 GMT", "21000301T000000Z"},
        {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT", "99991231T235959Z"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char http[TIME_HTTP_BYTES + 1];
        char amz[TIME_AMZ_BYTES + 1];
        uint64_t back = 1;

        time_format_http(rows[i].seconds, http);
        assert_string_equal(http, rows[i].http);
        time_format_amz(rows[i].seconds, amz);
        assert_string_equal(amz, rows[i].amz);
        assert_true(time_parse_http(slice_str(http), 0, &back));
        assert_true(back == rows[i].seconds);
        assert_true(time_parse_amz(slice_str(amz), &back));
        assert_true(back == rows[i].seconds);
    }
}

/* Every day of four centuries survives the round trip: conditional requests compare these. */
static void every_day_comes_back(void **state)
{
    (void)state;
    for (uint64_t day = 0; day < 146097; day++) {
        struct civil_time time;
        uint64_t back = 0;

        civil_from_seconds(day * 86400 + 86399, &time);
        assert_true(civil_to_seconds(&time, &back));
        assert_true(back == day * 86400 + 86399);
    }
}

/* Listings show milliseconds. */
static void iso8601_both_ways(void **state)
{
    char text[TIME_ISO8601_BYTES + 1];
    uint64_t ns;

    (void)state;
    time_format_iso8601(1255369830ULL * 1000000000U + 12345678U, text);
    assert_string_equal(text, "2009-10-12T17:50:30.012Z");
    assert_true(time_parse_iso8601(slice_str(text), &ns));
    assert_true(ns == 1255369830ULL * 1000000000U + 12000000U);
    assert_true(time_parse_iso8601(SLICE("2009-10-12T17:50:30Z"), &ns));
    assert_true(time_parse_iso8601(SLICE("2009-10-12"), &ns));
    assert_true(ns == 1255305600ULL * 1000000000U);
    assert_false(time_parse_iso8601(SLICE("2009-10-12T"), &ns));
    assert_false(time_parse_iso8601(SLICE("2009-10-12T17:50:30.Z"), &ns));
    assert_false(time_parse_iso8601(SLICE("9009-10-12T17:50:30Z"), &ns));
}

/* RFC 9110 5.6.7: recipients accept all three forms. */
static void three_http_forms(void **state)
{
    const uint64_t now = 1700000000; /* 2023 */
    uint64_t seconds = 0;

    (void)state;
    assert_true(time_parse_http(SLICE("Sunday, 06-Nov-94 08:49:37 GMT"), now, &seconds));
    assert_true(seconds == 784111777);
    assert_true(time_parse_http(SLICE("Sun Nov  6 08:49:37 1994"), now, &seconds));
    assert_true(seconds == 784111777);
    assert_true(time_parse_http(SLICE("Sun Nov 16 08:49:37 1994"), now, &seconds));
    assert_true(seconds == 784111777 + 864000);
    assert_true(time_parse_http(SLICE("Wednesday, 06-Nov-30 08:49:37 GMT"), now, &seconds));
    assert_true(seconds == 1920185377);
}

/* Garbage must not pass for a date: If-Modified-Since would answer 304 for it. */
static void bad_dates_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 29 Feb 2100 00:00:00 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
    };
    uint64_t seconds;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(time_parse_http(slice_str(bad[i]), 0, &seconds));
    }
    assert_false(time_parse_amz(SLICE("20130524T000000"), &seconds));
    assert_false(time_parse_amz(SLICE("20131324T000000Z"), &seconds));
    assert_false(time_parse_amz(SLICE("20130524T000000ZZ"), &seconds));
    assert_false(time_parse_amz(SLICE("2013-5-4T000000Z"), &seconds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_instants),        cmocka_unit_test(every_day_comes_back),
        cmocka_unit_test(iso8601_both_ways),     cmocka_unit_test(three_http_forms),
        cmocka_unit_test(bad_dates_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
