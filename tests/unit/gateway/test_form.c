/* Bodies of form uploads: fields, the end of the file, policies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/codec/base64.h"
#include "gateway/web/form_policy.h"
#include "gateway/web/form_source.h"

#define PART(name)      "--B\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART(more) "--B\r\nContent-Disposition: form-data; name=\"file\"" more "\r\n\r\n"

struct fixture {
    struct arena arena;
    struct form_parser parser;
};

static int setup(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    arena_init(&f->arena);
    form_parser_init(&f->parser, &f->arena, SLICE("B"));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    arena_deinit(&f->arena);
    mem_free(f);
    return 0;
}

static struct slice with_line(struct fixture *f, struct slice body)
{
    return arena_printf(&f->arena, "\r\n%.*s", (int)body.len, body.data);
}

/* As a slow client sends it: the same bytes, one more each time. */
static enum form_result parse(struct fixture *f, struct slice body)
{
    struct slice whole = with_line(f, body);
    enum form_result result = FORM_MORE;

    for (size_t len = 2; len <= whole.len && result == FORM_MORE; len++) {
        result = form_parser_run(&f->parser, slice_of(whole.data, len));
    }
    return result;
}

static void assert_field(struct fixture *f, const char *name, const char *want)
{
    struct slice got = form_field(&f->parser, name);

    assert_non_null(got.data);
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
}

/* Values may hold anything but the delimiter, and may be empty. */
static void fields_and_file(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        parse(f, SLICE("preamble\r\n" PART("Key") "a\r\n--\r\nb\r\n" PART(
                     "empty") "\r\n"
                              "--B \t\r\ncontent-disposition:form-data;name=plain\r\nX: y\r\n\r\nv"
                              "\r\n" FILE_PART("; filename=\"C:\\d\\f \\\"1\\\".txt\"") "x")),
        FORM_FILE);
    assert_int_equal(f->parser.count, 3);
    assert_field(f, "key", "a\r\n--\r\nb");
    assert_field(f, "empty", "");
    assert_field(f, "plain", "v");
    assert_null(form_field(&f->parser, "file").data);
    assert_true(slice_eq(f->parser.file_name, SLICE("f \"1\".txt")));
}

/* What is refused must be refused as soon as it is known, not after the whole body. */
static void refusals(void **state)
{
    static const struct {
        const char *body;
        enum form_result result;
    } rows[] = {
        {"--B--",                                                    FORM_NO_FILE  },
        {PART("a") "1\r\n--B--\r\n",                                 FORM_NO_FILE  },
        {"--BB\r\n",                                                 FORM_MALFORMED},
        {"--B\r\n\r\nx\r\n--B--",                                    FORM_MALFORMED},
        {"--B\r\nContent-Disposition: form-data\r\n\r\nx",           FORM_MALFORMED},
        {"--B\r\nContent-Disposition: attachment; name=a\r\n\r\nx",  FORM_MALFORMED},
        {"--B\r\nno colon\r\n\r\nx",                                 FORM_MALFORMED},
        {"--B\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx", FORM_MALFORMED},
        {PART("a") "1\r\n" PART("A") "2\r\n--B",                     FORM_DUPLICATE},
        {PART("a") "1\r\n--",                                        FORM_MORE     },
        {"",                                                         FORM_MORE     },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *f = *state;

        form_parser_init(&f->parser, &f->arena, SLICE("B"));
        if (parse(f, slice_str(rows[i].body)) != rows[i].result) {
            fail_msg("%s", rows[i].body);
        }
    }
}

/* Memory of a stranger's form is bounded in every way that it can grow. */
static void bounds(void **state)
{
    struct fixture *f = *state;
    char *long_value = arena_alloc(&f->arena, LIMIT_FORM_BYTES + 100);
    struct slice body;

    memset(long_value, 'x', LIMIT_FORM_BYTES + 99);
    body = with_line(f, arena_printf(&f->arena, PART("a") "%s", long_value));
    assert_int_equal(form_parser_run(&f->parser, body), FORM_TOO_LARGE);
    form_parser_init(&f->parser, &f->arena, SLICE("B"));
    body = with_line(
        f, arena_printf(&f->arena, "--B\r\nX: %.*s", FORM_PART_HEADER_BYTES_MAX, long_value));
    assert_int_equal(form_parser_run(&f->parser, body), FORM_TOO_LARGE);
    form_parser_init(&f->parser, &f->arena, SLICE("B"));
    body = SLICE("");
    for (int i = 0; i <= FORM_FIELDS_MAX; i++) {
        body = arena_printf(&f->arena, "%.*s" PART("f%d") "\r\n", (int)body.len, body.data, i);
    }
    body = with_line(f, arena_printf(&f->arena, "%.*s--B", (int)body.len, body.data));
    assert_int_equal(form_parser_run(&f->parser, body), FORM_TOO_LARGE);
}

/* Every library writes Content-Type in its own way. */
static void boundaries(void **state)
{
    static const struct {
        const char *type;
        const char *want; /* NULL: no form at all */
    } rows[] = {
        {"multipart/form-data; boundary=abc",                 "abc"},
        {"Multipart/Form-Data;boundary=\"a b\"",              "a b"},
        {"multipart/form-data; charset=utf-8; Boundary=--x ", "--x"},
        {"multipart/form-data",                               ""   },
        {"multipart/form-data; boundary=",                    ""   },
        {"multipart/form-data; boundary=\"a",                 ""   },
        {"multipart/mixed; boundary=a",                       NULL },
        {"",                                                  NULL },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice got = form_boundary(&f->arena, slice_str(rows[i].type));

        assert_int_equal(got.data == NULL, rows[i].want == NULL);
        assert_true(slice_eq(got, slice_str(rows[i].want)));
    }
}

/* The object ends before the delimiter, and what may be the beginning of one is not yet its. */
static void the_end_of_the_file(void **state)
{
    static const struct {
        const char *bytes;
        size_t safe;
        bool ends;
    } rows[] = {
        {"",                0, false},
        {"abc",             3, false},
        {"abc\r",           3, false},
        {"abc\r\n--",       3, false},
        {"abc\r\n--B",      3, true },
        {"abc\r\n-\r\n--B", 6, true },
        {"\r\r\r\n--B",     2, true },
        {"\r\n--C\r\n--",   5, false},
        {"\r\n--B",         0, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool ends;

        assert_int_equal(form_source_safe(slice_str(rows[i].bytes), SLICE("\r\n--B"), &ends),
                         rows[i].safe);
        assert_int_equal(ends, rows[i].ends);
    }
}

static enum s3_error judge(struct fixture *f, const char *json, struct form_limits *limits,
                           struct slice *text)
{
    char encoded[1024];
    struct form_policy_input input = {
        .form = &f->parser,
        .policy = slice_of(encoded, base64_encode(encoded, json, strlen(json))),
        .bucket = SLICE("bkt"),
        .key = SLICE("user/file.txt"),
        .now_ns = 1700000000000000000U,
        .arena = &f->arena,
    };

    *limits = (struct form_limits){.length_max = UINT64_MAX};
    *text = SLICE_EMPTY;
    return form_policy_check(&input, limits, text);
}

#define UNTIL "{\"expiration\":\"2144-01-01T00:00:00Z\",\"conditions\":[{\"bucket\":\"bkt\"},"

/* The key that is judged is the one that is written, and ranges of length narrow one another. */
static void policies(void **state)
{
    struct fixture *f = *state;
    struct form_limits limits;
    struct slice text;

    assert_int_equal(
        parse(f, SLICE(PART("key") "user/${filename}\r\n" PART("Signature") "s\r\n" PART(
                     "x-ignore-a") "1\r\n" FILE_PART("") "x")),
        FORM_FILE);
    assert_int_equal(judge(f, UNTIL "[\"eq\",\"$key\",\"user/file.txt\"]]}", &limits, &text),
                     S3_OK);
    assert_int_equal(judge(f, UNTIL "[\"eq\",\"$key\",\"user/${filename}\"]]}", &limits, &text),
                     S3_AccessDenied);
    assert_int_equal(judge(f,
                           UNTIL
                           "[\"starts-with\",\"$key\",\"user/\"],[\"content-length-range\",2,9],"
                           "[\"content-length-range\",\"1\",\"5\"]]}",
                           &limits, &text),
                     S3_OK);
    assert_int_equal(limits.length_min, 2);
    assert_int_equal(limits.length_max, 5);
    assert_int_equal(
        judge(f, UNTIL "{\"acl\":\"private\"},[\"starts-with\",\"$key\",\"\"]]}", &limits, &text),
        S3_AccessDenied);
    assert_int_equal(
        judge(f, "{\"expiration\":\"2001-01-01T00:00:00Z\",\"conditions\":[]}", &limits, &text),
        S3_AccessDenied);
    assert_int_equal(judge(f,
                           "{\"expiration\":\"2144-01-01T00:00:00Z\",\"conditions\":[],"
                           "\"conditions\":[]}",
                           &limits, &text),
                     S3_InvalidPolicyDocument);
    assert_true(text.len > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_and_file, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(boundaries, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(policies, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
