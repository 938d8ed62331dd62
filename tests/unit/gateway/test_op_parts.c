/* The small decisions of object operations: ranges, conditions, copy sources, metadata text,
 * tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/mem.h"
#include "gateway/s3/conditions.h"
#include "gateway/s3/copy_source.h"
#include "gateway/s3/list_params.h"
#include "gateway/s3/metadata_text.h"
#include "gateway/s3/page_token.h"
#include "gateway/s3/range.h"

static int setup(void **state)
{
    struct arena *arena = mem_alloc(sizeof(*arena));

    arena_init(arena);
    *state = arena;
    return 0;
}

static int teardown(void **state)
{
    arena_deinit(*state);
    mem_free(*state);
    return 0;
}

static void assert_slice(struct slice got, const char *want)
{
    struct slice text = slice_str(want);

    if (!slice_eq(got, text)) {
        print_error("got \"%.*s\", want \"%.*s\"\n", (int)got.len, got.len > 0 ? got.data : "",
                    (int)text.len, text.len > 0 ? text.data : "");
    }
    assert_true(slice_eq(got, text));
}

/* Every row was measured at AWS or stands in RFC 9110 (user-reports D17): media players and Parquet
 * readers live on these edges. */
static void range_table(void **state)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum range_kind kind;
        uint64_t offset;
        uint64_t length;
    } rows[] = {
        {NULL,                              10, RANGE_WHOLE,         0, 10},
        {"bytes=0-0",                       10, RANGE_PART,          0, 1 },
        {"bytes=9-",                        10, RANGE_PART,          9, 1 },
        {"bytes=10-",                       10, RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=5-3",                       10, RANGE_WHOLE,         0, 10},
        {"bytes=-0",                        10, RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=-4",                        10, RANGE_PART,          6, 4 },
        {"bytes=-400",                      10, RANGE_PART,          0, 10},
        {"bytes=0-400",                     10, RANGE_PART,          0, 10},
        {"bytes=3-3,5-5",                   10, RANGE_WHOLE,         0, 10},
        {"bytes=x",                         10, RANGE_WHOLE,         0, 10},
        {"bytes=1-x",                       10, RANGE_WHOLE,         0, 10},
        {"bytes=",                          10, RANGE_WHOLE,         0, 10},
        {"bytes=-",                         10, RANGE_WHOLE,         0, 10},
        {"lines=1-2",                       10, RANGE_WHOLE,         0, 10},
        {"BYTES=1-2",                       10, RANGE_PART,          1, 2 },
        {"bytes=0-0",                       0,  RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=0-",                        0,  RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=-4",                        0,  RANGE_WHOLE,         0, 0 },
        {"bytes=-0",                        0,  RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=0-99999999999999999999999", 10, RANGE_PART,          0, 10},
        {"bytes=99999999999999999999999-",  10, RANGE_UNSATISFIABLE, 0, 0 },
        {"bytes=-99999999999999999999999",  10, RANGE_PART,          0, 10},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct range range = range_parse(slice_str(rows[i].header), rows[i].size);

        if (range.kind != rows[i].kind) {
            print_error("row %zu\n", i);
        }
        assert_int_equal(range.kind, rows[i].kind);
        if (range.kind != RANGE_UNSATISFIABLE) {
            assert_int_equal(range.offset, rows[i].offset);
            assert_int_equal(range.length, rows[i].length);
        }
    }
}

/* A part copied from a wrong range would be silent damage: both ends must be there. */
static void copy_range_is_strict(void **state)
{
    static const char *const bad[] = {"bytes=0-", "bytes=-5",      "bytes=5-3",
                                      "0-5",      "bytes=0-5,7-8", ""};
    uint64_t first;
    uint64_t last;

    (void)state;
    assert_true(range_parse_strict(SLICE("bytes=2-7"), &first, &last));
    assert_int_equal(first, 2);
    assert_int_equal(last, 7);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(range_parse_strict(slice_str(bad[i]), &first, &last));
    }
}

#define T0 "Wed, 21 Oct 2015 07:28:00 GMT"
#define T1 "Wed, 21 Oct 2015 07:28:01 GMT"
enum { T0_S = 1445412480 };

/* The order of RFC 9110 13.2.2: caches that get this wrong serve stale data or never a 304. */
static void read_condition_table(void **state)
{
    static const struct {
        const char *match;
        const char *none_match;
        const char *modified;
        const char *unmodified;
        enum condition_result result;
    } rows[] = {
        {NULL,           NULL,           NULL,                            NULL,                            CONDITION_TRUE        },
        {"\"e\"",        NULL,           NULL,                            NULL,                            CONDITION_TRUE        },
        {"e",            NULL,           NULL,                            NULL,                            CONDITION_TRUE        },
        {"*",            NULL,           NULL,                            NULL,                            CONDITION_TRUE        },
        {"\"x\"",        NULL,           NULL,                            NULL,                            CONDITION_FAILED      },
        {"\"x\", \"e\"", NULL,           NULL,                            NULL,                            CONDITION_TRUE        },
        {"W/\"e\"",      NULL,           NULL,                            NULL,                            CONDITION_FAILED      },
        {NULL,           "\"e\"",        NULL,                            NULL,                            CONDITION_NOT_MODIFIED},
        {NULL,           "W/\"e\"",      NULL,                            NULL,                            CONDITION_NOT_MODIFIED},
        {NULL,           "\"x\", \"y\"", NULL,                            NULL,                            CONDITION_TRUE        },
        {NULL,           "*",            NULL,                            NULL,                            CONDITION_NOT_MODIFIED},
        {NULL,           NULL,           T0,                              NULL,                            CONDITION_NOT_MODIFIED},
        {NULL,           NULL,           T1,                              NULL,                            CONDITION_NOT_MODIFIED},
        {NULL,           NULL,           "Wed, 21 Oct 2015 07:27:59 GMT", NULL,                            CONDITION_TRUE        },
        {NULL,           NULL,           "soon",                          NULL,                            CONDITION_TRUE        },
        {NULL,           NULL,           NULL,                            T0,                              CONDITION_TRUE        },
        {NULL,           NULL,           NULL,                            "Wed, 21 Oct 2015 07:27:59 GMT", CONDITION_FAILED      },
        /* the ETag form silences the date form of the same question */
        {"\"e\"",        NULL,           NULL,                            "Wed, 21 Oct 2015 07:27:59 GMT", CONDITION_TRUE        },
        {NULL,           "\"x\"",        T1,                              NULL,                            CONDITION_TRUE        },
        {"\"e\"",        "\"e\"",        NULL,                            NULL,                            CONDITION_NOT_MODIFIED},
        {"\"x\"",        "\"e\"",        NULL,                            NULL,                            CONDITION_FAILED      },
    };
    const struct condition_target target = {.etag = SLICE("e"), .modified_s = T0_S};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct read_conditions conditions = {
            .if_match = slice_str(rows[i].match),
            .if_none_match = slice_str(rows[i].none_match),
            .if_modified_since = slice_str(rows[i].modified),
            .if_unmodified_since = slice_str(rows[i].unmodified),
        };

        if (read_conditions_check(&conditions, &target, T0_S + 100) != rows[i].result) {
            print_error("row %d\n", (int)i);
        }
        assert_int_equal(read_conditions_check(&conditions, &target, T0_S + 100), rows[i].result);
    }
}

/* A range of a changed object must not be glued to what the client has: then the whole is sent. */
static void if_range(void **state)
{
    const struct condition_target target = {.etag = SLICE("e"), .modified_s = T0_S};

    (void)state;
    assert_true(condition_if_range(SLICE_EMPTY, &target, T0_S));
    assert_true(condition_if_range(SLICE("\"e\""), &target, T0_S));
    assert_false(condition_if_range(SLICE("\"x\""), &target, T0_S));
    assert_false(condition_if_range(SLICE("W/\"e\""), &target, T0_S));
    assert_true(condition_if_range(SLICE(T0), &target, T0_S));
    assert_false(condition_if_range(SLICE(T1), &target, T0_S));
}

/* Clients write this header in many ways; all must name the same object. */
static void copy_source_forms(void **state)
{
    static const struct {
        const char *header;
        bool ok;
        const char *bucket;
        const char *key;
        const char *version; /* NULL: none named */
    } rows[] = {
        {"bucket/key",                           true,  "bucket", "key",           NULL  },
        {"/bucket/key",                          true,  "bucket", "key",           NULL  },
        {"/bucket/a%20b%2Fc",                    true,  "bucket", "a b/c",         NULL  },
        {"bucket%2Fkey",                         true,  "bucket", "key",           NULL  },
        {"/bucket//key",                         true,  "bucket", "/key",          NULL  },
        {"/bucket/key?versionId=null",           true,  "bucket", "key",           "null"},
        {"/bucket/what?is",                      true,  "bucket", "what?is",       NULL  },
        {"/bucket/a?versionId=x?versionId=null", true,  "bucket", "a?versionId=x", "null"},
        {"/bucket/a+b",                          true,  "bucket", "a+b",           NULL  },
        {"/bucket/key?versionId=abc",            true,  "bucket", "key",           "abc" },
        {"/bucket/key?versionId=",               true,  "bucket", "key",           ""    },
        {"bucket",                               false, NULL,     NULL,            NULL  },
        {"/bucket/",                             false, NULL,     NULL,            NULL  },
        {"//key",                                false, NULL,     NULL,            NULL  },
        {"",                                     false, NULL,     NULL,            NULL  },
        {"/bucket/%zz",                          false, NULL,     NULL,            NULL  },
        {"/bucket/%ff",                          false, NULL,     NULL,            NULL  },
    };
    struct arena *arena = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct copy_source source = {0};
        struct slice version;
        bool ok = copy_source_split(arena, slice_str(rows[i].header), &source, &version) == NULL;

        if (ok != rows[i].ok) {
            print_error("row %zu\n", i);
        }
        assert_int_equal(ok, rows[i].ok);
        if (ok) {
            assert_slice(source.bucket_name, rows[i].bucket);
            assert_slice(source.key, rows[i].key);
            assert_int_equal(version.data == NULL, rows[i].version == NULL);
            assert_true(version.data == NULL || slice_eq_str(version, rows[i].version));
        }
    }
}

/* RFC 2047 both ways: what a client stored as text comes back as text, and no value can break the
 * header. */
static void metadata_words(void **state)
{
    static const struct {
        const char *sent;
        const char *stored;
        const char *given;
    } rows[] = {
        {"plain",                             "plain",           "plain"                   },
        {"",                                  "",                ""                        },
        {"=?UTF-8?B?w6Q=?=",                  "\xc3\xa4",        "=?UTF-8?B?w6Q=?="        },
        {"=?utf-8?q?=C3=A4_b?=",              "\xc3\xa4 b",      "=?UTF-8?B?w6QgYg==?="    },
        {"=?UTF-8?B?YQ==?= =?UTF-8?B?Yg==?=", "ab",              "ab"                      },
        {"=?ISO-8859-1?Q?=E4?=",              "\xc3\xa4",        "=?UTF-8?B?w6Q=?="        },
        {"=?UTF-8?X?abc?=",                   "=?UTF-8?X?abc?=", "=?UTF-8?X?abc?="         },
        {"=?broken",                          "=?broken",        "=?broken"                },
        {"\xc3\xa4",                          "\xc3\xa4",        "=?UTF-8?B?w6Q=?="        },
        {"\xe4",                              "\xe4",            "=?ISO-8859-1?B?5A==?="   },
        {"=?UTF-8?B?YQ0KYjogYw==?=",          "a\r\nb: c",       "=?UTF-8?B?YQ0KYjogYw==?="},
    };
    struct arena *arena = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice stored = metadata_text_decode(arena, slice_str(rows[i].sent));

        assert_slice(stored, rows[i].stored);
        assert_slice(metadata_text_encode(arena, stored), rows[i].given);
    }
}

/* Tokens carry any key through any client; a foreign one is refused instead of listing from a wrong
 * place. */
static void tokens_round_trip(void **state)
{
    static const char *const bad[] = {"",     "a",   "!!!!", "AAAA", "EA", "aGVsbG8gd29ybGQ",
                                      "EGE=", "EG+/"};
    struct arena *arena = *state;
    struct page_token token = {.after = SLICE("a/\xf0\x9f\x98\x80 ?&="), .after_prefix = true};
    struct page_token back;

    assert_true(page_token_decode(arena, page_token_encode(arena, &token), &back));
    assert_true(slice_eq(back.after, token.after));
    assert_true(back.after_prefix);
    token.after_prefix = false;
    assert_true(page_token_decode(arena, page_token_encode(arena, &token), &back));
    assert_false(back.after_prefix);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (page_token_decode(arena, slice_str(bad[i]), &back)) {
            print_error("accepted: row %zu\n", i);
        }
        assert_false(page_token_decode(arena, slice_str(bad[i]), &back));
    }
}

/* A format that clients keep: written by this release, read by all later ones. */
static void token_format_is_fixed(void **state)
{
    struct arena *arena = *state;
    struct page_token token = {.after = SLICE("photos/2026/"), .after_prefix = true};

    assert_slice(page_token_encode(arena, &token), "EXBob3Rvcy8yMDI2Lw");
    token = (struct page_token){.after = SLICE("a")};
    assert_slice(page_token_encode(arena, &token), "EGE");
}

/* Upload ids are 24 bytes; anything else cannot be one of ours. */
static void upload_ids(void **state)
{
    struct arena *arena = *state;
    uint8_t raw[24] = {0, 0, 0, 1, 0xff, 0xfe};
    struct slice text = upload_id_encode(arena, slice_of(raw, sizeof(raw)));
    struct slice id;

    assert_int_equal(text.len, 32);
    assert_true(upload_id_decode(arena, text, &id));
    assert_memory_equal(id.data, raw, sizeof(raw));
    assert_false(upload_id_decode(arena, SLICE("short"), &id));
    assert_false(upload_id_decode(arena, SLICE("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), &id));
}

/* A marker inside a rolled-up prefix must not bring that prefix again (user-reports C14). */
static void marker_inside_a_prefix(void **state)
{
    static const struct {
        const char *prefix;
        const char *delimiter;
        const char *marker;
        const char *after;
        bool after_prefix;
    } rows[] = {
        {"",   "",   "b/1",  "b/1",  false},
        {"",   "/",  "b",    "b",    false},
        {"",   "/",  "b/",   "b/",   true },
        {"",   "/",  "b/1",  "b/",   true },
        {"b/", "/",  "b/1",  "b/1",  false},
        {"b/", "/",  "b/1/", "b/1/", true },
        {"b/", "/",  "a/1",  "a/1",  false},
        {"",   "--", "x--y", "x--",  true },
        {"",   "/",  "",     "",     false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct list_params params = {.prefix = slice_str(rows[i].prefix),
                                     .delimiter = slice_str(rows[i].delimiter)};
        struct list_position position = list_position_of(&params, slice_str(rows[i].marker));

        assert_slice(position.after, rows[i].after);
        assert_int_equal(position.after_prefix, rows[i].after_prefix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_table),
        cmocka_unit_test(copy_range_is_strict),
        cmocka_unit_test(read_condition_table),
        cmocka_unit_test(if_range),
        cmocka_unit_test_setup_teardown(copy_source_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_words, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(token_format_is_fixed, setup, teardown),
        cmocka_unit_test_setup_teardown(upload_ids, setup, teardown),
        cmocka_unit_test(marker_inside_a_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
