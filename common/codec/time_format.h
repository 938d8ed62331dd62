/*
 * Dates as S3 and HTTP write them. Own calendar arithmetic (proleptic Gregorian, UTC): no locale,
 * no time zone files, a few nanoseconds each. Seconds count from 1970; years run from 1970 to 9999.
 */
#ifndef COMMON_CODEC_TIME_FORMAT_H
#define COMMON_CODEC_TIME_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"

enum {
    TIME_HTTP_BYTES = 29,    /* "Sun, 06 Nov 1994 08:49:37 GMT" */
    TIME_ISO8601_BYTES = 24, /* "2009-10-12T17:50:30.000Z" */
    TIME_AMZ_BYTES = 16,     /* "20130524T000000Z" */
    TIME_DAY_BYTES = 8       /* "20130524" */
};

struct civil_time {
    int year;
    int month; /* 1 .. 12 */
    int day;   /* 1 .. 31 */
    int hour;
    int minute;
    int second;  /* 0 .. 59 */
    int weekday; /* 0 Sunday; not read by civil_to_seconds() */
};

void civil_from_seconds(uint64_t seconds, struct civil_time *out);
/* False when a field is out of range, the day does not exist, or the year is before 1970. A second
 * of 60 (a leap second) counts as 59. */
bool civil_to_seconds(const struct civil_time *time, uint64_t *seconds);

/* Each writes exactly its number of characters and a NUL. */
void time_format_http(uint64_t seconds, char out[TIME_HTTP_BYTES + 1]);
void time_format_iso8601(uint64_t nanoseconds, char out[TIME_ISO8601_BYTES + 1]);
void time_format_amz(uint64_t seconds, char out[TIME_AMZ_BYTES + 1]);

/* The three forms of RFC 9110 5.6.7: IMF-fixdate, RFC 850, asctime. `now_s` places two-digit years:
 * more than 50 years ahead means the past century. */
bool time_parse_http(struct slice text, uint64_t now_s, uint64_t *seconds);
/* "20130524T000000Z" exactly. */
bool time_parse_amz(struct slice text, uint64_t *seconds);
/* "2009-10-12T17:50:30Z", with or without a fraction, or a date alone. */
bool time_parse_iso8601(struct slice text, uint64_t *nanoseconds);

#endif
