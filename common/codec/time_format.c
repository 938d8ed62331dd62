/*
 * Days from a date and back by Howard Hinnant's algorithms: years begin in March, so the leap day
 * is the last of a year and an era of 400 years has a fixed number of days.
 */
#include "common/codec/time_format.h"

#include <string.h>

#include "common/base/assert.h"

enum { DAY_S = 86400, ERA_DAYS = 146097, EPOCH_OFFSET_DAYS = 719468, YEAR_MAX = 9999 };
static const uint64_t time_seconds_max = 253402300799ULL; /* 9999-12-31T23:59:59Z */

static const char time_days[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
static const char time_months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void civil_from_seconds(uint64_t seconds, struct civil_time *out)
{
    if (seconds > time_seconds_max) {
        seconds = time_seconds_max;
    }
    unsigned second_of_day = (unsigned)(seconds % DAY_S);
    unsigned days = (unsigned)(seconds / DAY_S);
    unsigned shifted = days + EPOCH_OFFSET_DAYS;
    unsigned era = shifted / ERA_DAYS;
    unsigned of_era = shifted % ERA_DAYS;
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month_from_march = (5 * of_year + 2) / 153;

    out->day = (int)(of_year - (153 * month_from_march + 2) / 5 + 1);
    out->month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    out->year = (int)(year_of_era + era * 400) + (out->month <= 2 ? 1 : 0);
    out->weekday = (int)((days + 4) % 7); /* 1970-01-01 was a Thursday */
    out->hour = (int)(second_of_day / 3600);
    out->minute = (int)(second_of_day / 60 % 60);
    out->second = (int)(second_of_day % 60);
}

static int civil_month_days(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

bool civil_to_seconds(const struct civil_time *time, uint64_t *seconds)
{
    if (time->year < 1970 || time->year > YEAR_MAX || time->month < 1 || time->month > 12 ||
        time->day < 1 || time->day > civil_month_days(time->year, time->month)) {
        return false;
    }
    if (time->hour < 0 || time->hour > 23 || time->minute < 0 || time->minute > 59 ||
        time->second < 0 || time->second > 60) {
        return false;
    }
    unsigned year = (unsigned)time->year - (time->month <= 2 ? 1 : 0);
    unsigned month_from_march = (unsigned)(time->month > 2 ? time->month - 3 : time->month + 9);
    unsigned era = year / 400;
    unsigned year_of_era = year % 400;
    unsigned of_year = (153 * month_from_march + 2) / 5 + (unsigned)time->day - 1;
    unsigned of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    uint64_t days = (uint64_t)era * ERA_DAYS + of_era - EPOCH_OFFSET_DAYS;
    int second = time->second == 60 ? 59 : time->second;

    *seconds =
        days * DAY_S + (uint64_t)time->hour * 3600 + (uint64_t)time->minute * 60 + (uint64_t)second;
    return true;
}

/* ---- Writing ---- */

static char *time_digits(char *to, unsigned value, unsigned width)
{
    for (unsigned i = width; i > 0; i--) {
        to[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return to + width;
}

static char *time_text(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

void time_format_http(uint64_t seconds, char out[TIME_HTTP_BYTES + 1])
{
    struct civil_time time;
    char *at = out;

    civil_from_seconds(seconds, &time);
    at = time_text(at, time_days[time.weekday], 3);
    at = time_text(at, ", ", 2);
    at = time_digits(at, (unsigned)time.day, 2);
    *at++ = ' ';
    at = time_text(at, time_months[time.month - 1], 3);
    *at++ = ' ';
    at = time_digits(at, (unsigned)time.year, 4);
    *at++ = ' ';
    at = time_digits(at, (unsigned)time.hour, 2);
    *at++ = ':';
    at = time_digits(at, (unsigned)time.minute, 2);
    *at++ = ':';
    at = time_digits(at, (unsigned)time.second, 2);
    at = time_text(at, " GMT", 5);
    ASSERT(at == out + TIME_HTTP_BYTES + 1);
}

void time_format_iso8601(uint64_t nanoseconds, char out[TIME_ISO8601_BYTES + 1])
{
    struct civil_time time;
    char *at = out;

    civil_from_seconds(nanoseconds / 1000000000U, &time);
    at = time_digits(at, (unsigned)time.year, 4);
    *at++ = '-';
    at = time_digits(at, (unsigned)time.month, 2);
    *at++ = '-';
    at = time_digits(at, (unsigned)time.day, 2);
    *at++ = 'T';
    at = time_digits(at, (unsigned)time.hour, 2);
    *at++ = ':';
    at = time_digits(at, (unsigned)time.minute, 2);
    *at++ = ':';
    at = time_digits(at, (unsigned)time.second, 2);
    *at++ = '.';
    at = time_digits(at, (unsigned)(nanoseconds / 1000000U % 1000U), 3);
    at = time_text(at, "Z", 2);
    ASSERT(at == out + TIME_ISO8601_BYTES + 1);
}

void time_format_amz(uint64_t seconds, char out[TIME_AMZ_BYTES + 1])
{
    struct civil_time time;
    char *at = out;

    civil_from_seconds(seconds, &time);
    at = time_digits(at, (unsigned)time.year, 4);
    at = time_digits(at, (unsigned)time.month, 2);
    at = time_digits(at, (unsigned)time.day, 2);
    *at++ = 'T';
    at = time_digits(at, (unsigned)time.hour, 2);
    at = time_digits(at, (unsigned)time.minute, 2);
    at = time_digits(at, (unsigned)time.second, 2);
    at = time_text(at, "Z", 2);
    ASSERT(at == out + TIME_AMZ_BYTES + 1);
}

/* ---- Reading: each step takes its token off the front, or fails ---- */

static bool time_take(struct slice *text, const char *token)
{
    struct slice want = slice_str(token);

    if (!slice_starts(*text, want)) {
        return false;
    }
    *text = slice_after(*text, want.len);
    return true;
}

static bool time_take_number(struct slice *text, size_t width, int *out)
{
    int value = 0;

    if (text->len < width) {
        return false;
    }
    for (size_t i = 0; i < width; i++) {
        char c = text->data[i];

        if (c < '0' || c > '9') {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    *out = value;
    *text = slice_after(*text, width);
    return true;
}

static bool time_take_month(struct slice *text, int *out)
{
    for (int i = 0; i < 12; i++) {
        if (time_take(text, time_months[i])) {
            *out = i + 1;
            return true;
        }
    }
    return false;
}

static bool time_take_clock(struct slice *text, struct civil_time *time)
{
    return time_take_number(text, 2, &time->hour) && time_take(text, ":") &&
           time_take_number(text, 2, &time->minute) && time_take(text, ":") &&
           time_take_number(text, 2, &time->second);
}

/* What stands for UTC in the wild; "-0000" is what Python's formatdate writes (RFC 5322 3.3). */
static bool time_take_zone(struct slice *text)
{
    return time_take(text, " GMT") || time_take(text, " UTC") || time_take(text, " +0000") ||
           time_take(text, " -0000");
}

/* "06 Nov 1994 08:49:37 GMT" */
static bool time_parse_fixdate(struct slice text, struct civil_time *time)
{
    return time_take_number(&text, 2, &time->day) && time_take(&text, " ") &&
           time_take_month(&text, &time->month) && time_take(&text, " ") &&
           time_take_number(&text, 4, &time->year) && time_take(&text, " ") &&
           time_take_clock(&text, time) && time_take_zone(&text) && text.len == 0;
}

/* "06-Nov-94 08:49:37 GMT" */
static bool time_parse_rfc850(struct slice text, uint64_t now_s, struct civil_time *time)
{
    struct civil_time now;

    if (!(time_take_number(&text, 2, &time->day) && time_take(&text, "-") &&
          time_take_month(&text, &time->month) && time_take(&text, "-") &&
          time_take_number(&text, 2, &time->year) && time_take(&text, " ") &&
          time_take_clock(&text, time) && time_take(&text, " GMT") && text.len == 0)) {
        return false;
    }
    civil_from_seconds(now_s, &now);
    time->year += now.year / 100 * 100;
    if (time->year > now.year + 50) {
        time->year -= 100;
    }
    return true;
}

/* "Nov  6 08:49:37 1994" */
static bool time_parse_asctime(struct slice text, struct civil_time *time)
{
    return time_take_month(&text, &time->month) && time_take(&text, " ") &&
           (time_take(&text, " ") ? time_take_number(&text, 1, &time->day)
                                  : time_take_number(&text, 2, &time->day)) &&
           time_take(&text, " ") && time_take_clock(&text, time) && time_take(&text, " ") &&
           time_take_number(&text, 4, &time->year) && text.len == 0;
}

bool time_parse_http(struct slice text, uint64_t now_s, uint64_t *seconds)
{
    struct civil_time time = {0};
    bool ok = false;

    for (int i = 0; i < 7 && !ok; i++) {
        struct slice rest = text;

        if (time_take(&rest, time_days[i])) {
            ok = time_take(&rest, ", ") && time_parse_rfc850(rest, now_s, &time);
        } else if (text.len > 3 && memcmp(text.data, time_days[i], 3) == 0) {
            rest = slice_after(text, 3);
            ok = time_take(&rest, ", ") ? time_parse_fixdate(rest, &time)
                                        : time_take(&rest, " ") && time_parse_asctime(rest, &time);
        }
    }
    return ok && civil_to_seconds(&time, seconds);
}

bool time_parse_amz(struct slice text, uint64_t *seconds)
{
    struct civil_time time = {0};

    return time_take_number(&text, 4, &time.year) && time_take_number(&text, 2, &time.month) &&
           time_take_number(&text, 2, &time.day) && time_take(&text, "T") &&
           time_take_number(&text, 2, &time.hour) && time_take_number(&text, 2, &time.minute) &&
           time_take_number(&text, 2, &time.second) && time_take(&text, "Z") && text.len == 0 &&
           civil_to_seconds(&time, seconds);
}

/* ".5", ".123456789": what follows the ninth digit is dropped. */
static bool time_take_fraction(struct slice *text, uint64_t *nanoseconds)
{
    uint64_t weight = 100000000;
    size_t digits = 0;

    while (digits < text->len && text->data[digits] >= '0' && text->data[digits] <= '9') {
        *nanoseconds += (uint64_t)(text->data[digits] - '0') * weight;
        weight /= 10;
        digits += 1;
    }
    *text = slice_after(*text, digits);
    return digits > 0;
}

bool time_parse_iso8601(struct slice text, uint64_t *nanoseconds)
{
    struct civil_time time = {0};
    uint64_t seconds;
    uint64_t fraction = 0;

    if (!(time_take_number(&text, 4, &time.year) && time_take(&text, "-") &&
          time_take_number(&text, 2, &time.month) && time_take(&text, "-") &&
          time_take_number(&text, 2, &time.day))) {
        return false;
    }
    if (text.len > 0) {
        if (!time_take(&text, "T") || !time_take_clock(&text, &time)) {
            return false;
        }
        if (time_take(&text, ".") && !time_take_fraction(&text, &fraction)) {
            return false;
        }
        if (!time_take(&text, "Z") && !time_take(&text, "+00:00")) {
            return false;
        }
    }
    /* Nanoseconds since 1970 end in the year 2554. */
    if (text.len != 0 || !civil_to_seconds(&time, &seconds) ||
        seconds > UINT64_MAX / 1000000000U - 1) {
        return false;
    }
    *nanoseconds = seconds * 1000000000U + fraction;
    return true;
}
