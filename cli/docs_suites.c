/*
 * Results: one line a test, `VERDICT NAME`; what follows is not read. Reasons: `NAME REASON`, where
 * a name that ends in '*' stands for all that begin so. Tests that fail are named below the reason
 * that they share.
 */
#include "cli/docs_suites.h"

#include <stdio.h>

#include "cli/options.h"
#include "common/base/assert.h"
#include "common/base/error.h"
#include "common/base/mem.h"

enum { SUITES_FILE_MAX = 1048576 };

static const struct suite {
    const char *title;
    const char *run;
    const char *results;
    const char *reasons;
} suites[] = {
    {
     .title = "ceph/s3-tests",
     .run = "`make test-s3tests DIR=<a copy of it>`: its cases that AWS passes, without bucket "
               "logging and cloud tiers",                 .results = "docs/results/s3tests.txt",
     .reasons = "tests/s3/s3tests-not-passed.txt",
     },
    {
     .title = "versitygw's S3 client",
     .run = "`tests/clients/versity.py`: `full-flow` with versioning, `website-hosting`",
     .results = "docs/results/versity.txt",
     .reasons = "tests/clients/versity-not-claimed.txt",
     },
    {
     .title = "S3A contract tests of Hadoop",
     .run = "`tests/clients/s3a.py`: hadoop-aws 3.4.1",
     .results = "docs/results/s3a.txt",
     .reasons = "tests/clients/s3a-not-passed.txt",
     },
};

struct suites_text {
    const struct suite *suite;
    char *results;
    char *reasons;
    struct slice result_lines;
    struct slice reason_lines;
};

/* The next line of `text`, without its end; false when there is none. */
static bool suites_line(struct slice *text, struct slice *line)
{
    size_t end = slice_find(*text, '\n');

    if (text->len == 0) {
        return false;
    }
    *line = slice_of(text->data, end);
    *text = slice_after(*text, end + 1);
    return true;
}

/* Cuts the first word off a line. */
static struct slice suites_word(struct slice *line)
{
    size_t end = slice_find(*line, ' ');
    struct slice word = slice_of(line->data, end);

    *line = slice_trim(slice_after(*line, end));
    return word;
}

/* The last part of "file.py::test". */
static struct slice suites_name(struct slice name)
{
    for (size_t at = slice_find(name, ':'); at + 1 < name.len; at = slice_find(name, ':')) {
        name = slice_after(name, name.data[at + 1] == ':' ? at + 2 : at + 1);
    }
    return name;
}

static bool suites_failed(struct slice verdict)
{
    return slice_starts(verdict, SLICE("FAIL")) || slice_starts(verdict, SLICE("ERROR"));
}

static bool suites_reason_fits(struct slice pattern, struct slice name)
{
    if (pattern.len > 0 && pattern.data[pattern.len - 1] == '*') {
        return slice_starts(name, slice_of(pattern.data, pattern.len - 1));
    }
    return slice_eq(pattern, name);
}

/* Why a test fails; empty: nobody said. The first row that fits counts. */
static struct slice suites_reason(struct slice rows, struct slice name)
{
    struct slice line;

    while (suites_line(&rows, &line)) {
        struct slice pattern = suites_word(&line);

        if (!slice_starts(pattern, SLICE("#")) && suites_reason_fits(pattern, name)) {
            return line;
        }
    }
    return SLICE_EMPTY;
}

/* The next test that failed. */
static bool suites_next_failure(struct slice *lines, struct slice *name)
{
    struct slice line;

    while (suites_line(lines, &line)) {
        struct slice verdict = suites_word(&line);

        *name = suites_name(suites_word(&line));
        if (suites_failed(verdict)) {
            return true;
        }
    }
    return false;
}

/* Was this reason given for a failure before this one? Then it was written with that. */
static bool suites_reason_written(const struct suites_text *text, struct slice name,
                                  struct slice reason)
{
    struct slice lines = text->result_lines;
    struct slice other;

    while (suites_next_failure(&lines, &other) && other.data != name.data) {
        if (slice_eq(suites_reason(text->reason_lines, other), reason)) {
            return true;
        }
    }
    return false;
}

static void suites_write_reason(const struct suites_text *text, struct slice lines,
                                struct slice first, struct slice reason, struct buffer *out)
{
    struct buffer names;
    struct slice name;
    size_t count = 1;

    buffer_init(&names);
    buffer_printf(&names, "`%.*s`", (int)first.len, first.data);
    while (suites_next_failure(&lines, &name)) {
        if (slice_eq(suites_reason(text->reason_lines, name), reason)) {
            buffer_printf(&names, ", `%.*s`", (int)name.len, name.data);
            count++;
        }
    }
    buffer_printf(out, "| %.*s | %zu | ", (int)reason.len, reason.data, count);
    buffer_append(out, buffer_slice(&names));
    buffer_append(out, SLICE(" |\n"));
    buffer_deinit(&names);
}

static bool suites_failures(const struct suites_text *text, struct buffer *out)
{
    struct slice lines = text->result_lines;
    struct slice name;
    bool good = true;

    buffer_append(out, SLICE("\n| why they fail | tests | names |\n|---|---|---|\n"));
    while (suites_next_failure(&lines, &name)) {
        struct slice reason = suites_reason(text->reason_lines, name);

        if (reason.len == 0) {
            (void)fprintf(stderr, "kist: docs: %s: %.*s fails, and %s has no reason\n",
                          text->suite->results, (int)name.len, name.data, text->suite->reasons);
            good = false;
        } else if (!suites_reason_written(text, name, reason)) {
            suites_write_reason(text, lines, name, reason, out);
        }
    }
    return good;
}

static bool suites_write(const struct suites_text *text, struct buffer *out)
{
    struct slice lines = text->result_lines;
    struct slice line;
    size_t passed = 0;
    size_t failed = 0;
    size_t skipped = 0;

    while (suites_line(&lines, &line)) {
        struct slice verdict = suites_word(&line);

        if (line.len == 0) {
            (void)fprintf(stderr, "kist: docs: %s: a line without a name\n", text->suite->results);
            return false;
        }
        passed += slice_starts(verdict, SLICE("PASS")) ? 1 : 0;
        skipped += slice_starts(verdict, SLICE("SKIP")) ? 1 : 0;
        failed += suites_failed(verdict) ? 1 : 0;
    }
    buffer_printf(out, "\n### %s\n\n%s. %zu passed, %zu failed", text->suite->title,
                  text->suite->run, passed, failed);
    if (skipped > 0) {
        buffer_printf(out, ", %zu skipped themselves", skipped);
    }
    buffer_append(out, SLICE(".\n"));
    return failed == 0 || suites_failures(text, out);
}

static char *suites_read(struct env *env, const char *path, struct slice *out)
{
    struct error error = {0};
    size_t len = 0;
    char *content = file_read_all(env, path, SUITES_FILE_MAX, &len, &error);

    if (content == NULL) {
        (void)fprintf(stderr, "kist: docs: %s: %s\n", path, error.text);
    }
    *out = slice_of(content, content != NULL ? len : 0);
    return content;
}

bool docs_write_suites(struct env *env, struct buffer *out)
{
    bool good = true;

    buffer_append(out, SLICE("\n## Client suites\n\nThird-party suites, unchanged, against one "
                             "process of this version. Real clients that `make test-clients` runs "
                             "stand in\n`tests/README.md`.\n"));
    for (size_t i = 0; i < ARRAY_LEN(suites); i++) {
        struct suites_text text = {.suite = &suites[i]};

        text.results = suites_read(env, suites[i].results, &text.result_lines);
        text.reasons = suites_read(env, suites[i].reasons, &text.reason_lines);
        good = text.results != NULL && text.reasons != NULL && suites_write(&text, out) && good;
        mem_free(text.results);
        mem_free(text.reasons);
    }
    return good;
}
