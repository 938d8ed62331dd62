/* Operators grep the log: one event is one line, whatever a client put into a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log/log.h"

static char captured[8192];

/* Runs with stderr going to a file, then reads what came. */
static void capture(void (*act)(void))
{
    char path[] = "/tmp/kist-test-log-XXXXXX";
    int file = mkstemp(path);
    int saved = dup(STDERR_FILENO);
    ssize_t got;

    assert_true(file >= 0 && saved >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    act();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    got = pread(file, captured, sizeof(captured) - 1, 0);
    assert_true(got >= 0);
    captured[got] = '\0';
    close(saved);
    close(file);
    unlink(path);
}

static void act_plain(void)
{
    log_set_level(LOG_LEVEL_INFO);
    log_set_json(0);
    LOG_INFO("disk_found", "disk=%d path=%s", 3, "a\nb\x1b[1m");
    LOG_DEBUG("not_shown", "x=1");
}

/* A key with a line break must not forge a line of its own, and debug is silent by default. */
static void one_line_an_event(void **state)
{
    (void)state;
    capture(act_plain);
    assert_non_null(strstr(captured, " info disk_found disk=3 path=a b [1m\n"));
    assert_null(strstr(captured, "not_shown"));
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void act_json(void)
{
    log_set_json(1);
    LOG_WARN("odd", "name=\"a\\b\"");
    log_set_json(0);
}

/* Collectors parse JSON: quotes and backslashes are escaped. */
static void json_is_escaped(void **state)
{
    (void)state;
    capture(act_json);
    assert_non_null(strstr(
        captured, "\"level\":\"warn\",\"event\":\"odd\",\"text\":\"name=\\\"a\\\\b\\\"\"}\n"));
}

static void act_long(void)
{
    char text[6000];

    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_set_json(1);
    LOG_ERROR("long", "%s", text);
    log_set_json(0);
    LOG_ERROR("long", "%s", text);
}

/* Whatever the length, the line ends and the next event begins a new one. */
static void long_text_is_cut(void **state)
{
    (void)state;
    capture(act_long);
    assert_int_equal(captured[strlen(captured) - 1], '\n');
    assert_true(strlen(captured) < 2 * 2048);
    assert_non_null(strstr(captured, "\"}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_an_event),
        cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(long_text_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
