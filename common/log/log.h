/*
 * One line per event: time, level, a stable name, then key=value pairs (values with blanks are
 * quoted by the caller's format). To stderr, or as JSON lines. Any thread; one write(2) a line, so
 * lines never mix.
 *
 *     LOG_WARN("segment_sealed_early", "disk=%llu segment=%08x rc=%s", ...);
 */
#ifndef COMMON_LOG_LOG_H
#define COMMON_LOG_LOG_H

enum log_level {
    LOG_LEVEL_ERROR = 0, /* someone must act */
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO, /* state changes */
    LOG_LEVEL_DEBUG
};

void log_set_level(enum log_level level); /* default INFO */
void log_set_json(int on);
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define LOG_ERROR(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(...)  log_event(LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(...)  log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
