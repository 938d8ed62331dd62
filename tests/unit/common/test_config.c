/* One table, several sources: an operator must get the value that is strongest, or one line saying
 * what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/config/config.h"

struct values {
    char *name;
    char *secret;
    struct config_list data;
    uint64_t count;
    uint64_t size;
    uint64_t wait;
    uint64_t level;
    bool json;
};

static const struct config_option options[] = {
    {"test-name",   CONFIG_TEXT,   offsetof(struct values, name),   "anna",  0,    0,          "NAME",            false,
     "a name"                                                                                                                     },
    {"test-secret", CONFIG_SECRET, offsetof(struct values, secret), "",      0,    0,          "S",               false,
     "a secret"                                                                                                                   },
    {"test-data",   CONFIG_LIST,   offsetof(struct values, data),   "",      0,    0,          "DIR",             false,
     "directories"                                                                                                                },
    {"test-count",  CONFIG_NUMBER, offsetof(struct values, count),  "3",     1,    10,         "N",               false,
     "a count"                                                                                                                    },
    {"test-size",   CONFIG_SIZE,   offsetof(struct values, size),   "64K",   1024, 1ULL << 50, "SIZE",
     false,                                                                                                              "a size" },
    {"test-wait",   CONFIG_TIME,   offsetof(struct values, wait),   "2s",    0,    100000000,  "TIME",            false,
     "a time"                                                                                                                     },
    {"test-level",  CONFIG_CHOICE, offsetof(struct values, level),  "warn",  0,    0,          "error|warn|info",
     false,                                                                                                              "level"  },
    {"test-json",   CONFIG_BOOL,   offsetof(struct values, json),   "false", 0,    0,          "",                false, "as JSON"},
};

static const struct config_table table = {options, ARRAY_LEN(options), "test [options]"};

static enum rc read_all(struct values *values, const char *const *argv, const char *file,
                        struct error *error)
{
    struct config_seen seen = {0};
    struct config_arguments arguments = {.argv = argv};
    enum rc rc;

    memset(values, 0, sizeof(*values));
    while (argv[arguments.argc] != NULL) {
        arguments.argc += 1;
    }
    rc = config_flags(&table, values, &seen, &arguments, error);
    rc = rc == RC_OK ? config_environment(&table, values, &seen, error) : rc;
    rc = rc == RC_OK ? config_file(&table, values, &seen, "test.conf", slice_str(file), error) : rc;
    return rc == RC_OK ? config_defaults(&table, values, &seen, error) : rc;
}

/* Flag over variable over file over default. */
static void stronger_sources_win(void **state)
{
    const char *const argv[] = {"--test-name", "flag", NULL};
    struct error error = {0};
    struct values values;

    (void)state;
    setenv("KIST_TEST_NAME", "variable", 1);
    setenv("KIST_TEST_COUNT", "7", 1);
    assert_int_equal(
        read_all(&values, argv,
                 "[serve]\ntest-name = file\ntest-count = 9\ntest-size = 1M ; comment\n", &error),
        RC_OK);
    unsetenv("KIST_TEST_NAME");
    unsetenv("KIST_TEST_COUNT");
    assert_string_equal(values.name, "flag");
    assert_int_equal(values.count, 7);
    assert_int_equal(values.size, 1 << 20);
    assert_int_equal(values.wait, 2000);
    assert_int_equal(values.level, 1);
    assert_false(values.json);
    config_free(&table, &values);
}

/* Four --data flags are four directories; a weaker source must not add a fifth. */
static void lists_come_from_one_source(void **state)
{
    const char *const argv[] = {"--test-data", "/a", "--test-data=/b,/c", "--test-json", NULL};
    struct error error = {0};
    struct values values;

    (void)state;
    assert_int_equal(read_all(&values, argv, "test-data = /x\n", &error), RC_OK);
    assert_int_equal(values.data.count, 3);
    assert_string_equal(values.data.items[2], "/c");
    assert_true(values.json);
    config_free(&table, &values);
}

static void expect_error(const char *argument, const char *value, const char *file,
                         const char *text)
{
    const char *const argv[] = {argument, value, NULL};
    struct error error = {0};
    struct values values;

    assert_int_equal(read_all(&values, argv, file, &error), RC_INVALID);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
    config_free(&table, &values);
}

/* A typing error must stop the start and name itself, not silently become a default. */
static void mistakes_are_named(void **state)
{
    (void)state;
    expect_error("--test-nam", "x", "", "unknown option '--test-nam'");
    expect_error("test-name", "x", "", "unknown option");
    expect_error("--test-count", "11", "", "--test-count: 11 is out of range: 1 to 10");
    expect_error("--test-count", "3x", "", "not a number");
    expect_error("--test-size", "64Q", "", "not a size");
    expect_error("--test-size", "99999999999999999999", "", "not a size");
    expect_error("--test-size", "99999999999T", "", "not a size");
    expect_error("--test-wait", "-1", "", "not a time");
    expect_error("--test-level", "loud", "", "none of error|warn|info");
    expect_error("--test-json=maybe", NULL, "", "not true or false");
    expect_error("--test-name", NULL, "", "needs a value");
    expect_error("--test-secret", "x", "", "would show the secret");
    expect_error(NULL, NULL, "test-nam = x\n", "test.conf:1: unknown option 'test-nam'");
    expect_error(NULL, NULL, "\n\ntest-count = 0\n", "test.conf:3: test-count: 0 is out of range");
    expect_error(NULL, NULL, "[other]\ntest-count = 1\n", "unknown section [other]");
    expect_error(NULL, NULL, "no equals sign\n", "test.conf:1");
}

/* Help and pages name every option, but no flag for a secret. */
static void texts_come_from_the_table(void **state)
{
    struct buffer out;

    (void)state;
    buffer_init(&out);
    config_write_help(&table, &out);
    buffer_append_byte(&out, '\0');
    assert_non_null(strstr(out.data, "--test-wait TIME"));
    assert_non_null(strstr(out.data, "[64K]"));
    assert_null(strstr(out.data, "--test-secret"));
    buffer_clear(&out);
    config_write_sample(&table, &out);
    buffer_append_byte(&out, '\0');
    assert_non_null(strstr(out.data, ";test-size = 64K"));
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stronger_sources_win),
        cmocka_unit_test(lists_come_from_one_source),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(texts_come_from_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
