/* One event a line, made on the stack and written by one write(2): lines of different threads never
 * mix. */
#include "common/log/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048, TEXT_MAX_BYTES = 1024 };

static atomic_int log_level = LOG_LEVEL_INFO;
static atomic_int log_json;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

void log_set_json(int on)
{
    atomic_store_explicit(&log_json, on, memory_order_relaxed);
}

/* A line ends where we say it does: control characters of names and keys become spaces. */
static void log_clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = ' ';
        }
    }
}

/* As the inside of a JSON string; cut when it does not fit. */
static size_t log_json_text(char *to, size_t to_len, const char *from)
{
    size_t at = 0;

    for (; *from != '\0' && at + 3 < to_len; from++) {
        if (*from == '"' || *from == '\\') {
            to[at] = '\\';
            at += 1;
        }
        to[at] = *from;
        at += 1;
    }
    to[at] = '\0';
    return at;
}

static void log_write(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return; /* nobody reads the log: that must not stop the service */
        }
        line += n;
        len -= (size_t)n;
    }
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char text[TEXT_MAX_BYTES];
    char quoted[TEXT_MAX_BYTES + TEXT_MAX_BYTES / 2];
    char line[LINE_MAX_BYTES];
    char stamp[32];
    struct timespec now;
    struct tm utc;
    va_list args;
    int len;

    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_clean(text);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
    if (atomic_load_explicit(&log_json, memory_order_relaxed) != 0) {
        (void)log_json_text(quoted, sizeof(quoted), text);
        len =
            snprintf(line, sizeof(line),
                     "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\",\"text\":\"%s\"}\n",
                     stamp, now.tv_nsec / 1000000, level_names[level], event, quoted);
    } else {
        len = snprintf(line, sizeof(line), "%s.%03ldZ %s %s%s%s\n", stamp, now.tv_nsec / 1000000,
                       level_names[level], event, text[0] != '\0' ? " " : "", text);
    }
    if (len > 0) {
        log_write(line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
    }
}
