/* From a request's head to bucket, key and row of op.def. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/s3/router.h"
#include "tests/unit/gateway/request_text.h"

struct fixture {
    struct arena arena;
    struct router *router;
    struct s3_route route;
};

static int setup(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    struct error error;

    arena_init(&f->arena);
    f->router = router_new(SLICE("s3.example"), SLICE_EMPTY, &error);
    assert_non_null(f->router);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    router_free(f->router);
    arena_deinit(&f->arena);
    mem_free(f);
    return 0;
}

static void match(struct fixture *f, enum http_method method, const char *target,
                  const char *headers)
{
    struct http_request request;
    struct slice text = arena_printf(&f->arena, "GET %s HTTP/1.1\r\n%s", target, headers);

    request_from_text(&f->arena, text.data, &request);
    request.method = method;
    router_match(f->router, &request, false, &f->arena, &f->route);
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

/* Otherwise DELETE /bkt?versioning would delete the bucket, and PUT /bkt/k?uploads write the key.
 */
static void a_plain_write_has_no_strange_sub_resource(void **state)
{
    static const struct {
        enum http_method method;
        const char *target;
        bool stray;
    } rows[] = {
        {HTTP_DELETE, "/bkt",                         false},
        {HTTP_DELETE, "/bkt?x-id=DeleteBucket",       false},
        {HTTP_DELETE, "/bkt?list-type=2",             false},
        {HTTP_DELETE, "/bkt?versioning",              true },
        {HTTP_DELETE, "/bkt?inventory",               true },
        {HTTP_DELETE, "/bkt?inventory&id=1",          false},
        {HTTP_DELETE, "/bkt/k?versionId=null",        false},
        {HTTP_DELETE, "/bkt/k?uploads",               true },
        {HTTP_PUT,    "/bkt/k?acl",                   false},
        {HTTP_PUT,    "/bkt/k?uploads=",              true },
        {HTTP_PUT,    "/bkt/k?partNumber=1&uploadId", false},
        {HTTP_GET,    "/bkt/k?uploads",               false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture *f = *state;

        match(f, rows[i].method, rows[i].target, "");
        if (f->route.stray != rows[i].stray) {
            fail_msg("%s", rows[i].target);
        }
    }
}

/* A wrong row means a wrong operation: every kind of demand must choose as AWS does. */
static void the_row_that_demands_most_wins(void **state)
{
    static const struct {
        enum http_method method;
        const char *target;
        const char *headers;
        const char *name;
    } rows[] = {
        {HTTP_GET,     "/",                              "",                            "ListBuckets"                      },
        {HTTP_GET,     "/bkt",                           "",                            "ListObjects"                      },
        {HTTP_GET,     "/bkt/",                          "",                            "ListObjects"                      },
        {HTTP_GET,     "/bkt?list-type=2&prefix=x",      "",                            "ListObjectsV2"                    },
        {HTTP_GET,     "/bkt?list-type=1",               "",                            "ListObjects"                      },
        {HTTP_GET,     "/bkt?unknown",                   "",                            "ListObjects"                      },
        {HTTP_GET,     "/bkt?location",                  "",                            "GetBucketLocation"                },
        {HTTP_GET,     "/bkt?location=",                 "",                            "GetBucketLocation"                },
        {HTTP_GET,     "/bkt?uploads",                   "",                            "ListMultipartUploads"             },
        {HTTP_GET,     "/bkt?versioning",                "",                            "GetBucketVersioning"              },
        {HTTP_GET,     "/bkt?inventory",                 "",                            "ListBucketInventoryConfigurations"},
        {HTTP_GET,     "/bkt?inventory&id=1",            "",                            "GetBucketInventoryConfiguration"  },
        {HTTP_HEAD,    "/bkt",                           "",                            "HeadBucket"                       },
        {HTTP_PUT,     "/bkt",                           "",                            "CreateBucket"                     },
        {HTTP_DELETE,  "/bkt",                           "",                            "DeleteBucket"                     },
        {HTTP_POST,    "/bkt?delete",                    "",                            "DeleteObjects"                    },
        {HTTP_POST,    "/bkt",                           "",                            "PostObject"                       },
        {HTTP_GET,     "/bkt/k",                         "",                            "GetObject"                        },
        {HTTP_GET,     "/bkt/k?partNumber=1",            "",                            "GetObject"                        },
        {HTTP_GET,     "/bkt/k?uploadId=u",              "",                            "ListParts"                        },
        {HTTP_GET,     "/bkt/k?acl",                     "",                            "GetObjectAcl"                     },
        {HTTP_HEAD,    "/bkt/k",                         "",                            "HeadObject"                       },
        {HTTP_PUT,     "/bkt/k",                         "",                            "PutObject"                        },
        {HTTP_PUT,     "/bkt/k",                         "x-amz-copy-source: /a/b\r\n", "CopyObject"                       },
        {HTTP_PUT,     "/bkt/k?partNumber=1&uploadId=u", "",                            "UploadPart"                       },
        {HTTP_PUT,     "/bkt/k?partNumber=1&uploadId=u", "x-amz-copy-source: /a/b\r\n",
         "UploadPartCopy"                                                                                                  },
        {HTTP_PUT,     "/bkt/k?tagging",                 "x-amz-copy-source: /a/b\r\n", "PutObjectTagging"                 },
        {HTTP_POST,    "/bkt/k?uploads",                 "",                            "CreateMultipartUpload"            },
        {HTTP_POST,    "/bkt/k?uploadId=u",              "",                            "CompleteMultipartUpload"          },
        {HTTP_DELETE,  "/bkt/k?uploadId=u",              "",                            "AbortMultipartUpload"             },
        {HTTP_DELETE,  "/bkt/k",                         "",                            "DeleteObject"                     },
        {HTTP_OPTIONS, "/bkt/k",                         "",                            "PreflightRequest"                 },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        match(f, rows[i].method, rows[i].target, rows[i].headers);
        assert_non_null(f->route.op);
        assert_string_equal(f->route.op->name, rows[i].name);
        assert_null(f->route.op_conflict);
    }
}

/* POST on a key without a sub-resource is no operation at all: 405, not a guess. */
static void no_row_no_operation(void **state)
{
    struct fixture *f = *state;

    match(f, HTTP_POST, "/bkt/k", "");
    assert_null(f->route.op);
    match(f, HTTP_PUT, "/", "");
    assert_null(f->route.op);
    match(f, HTTP_OTHER, "/bkt/k", "");
    assert_null(f->route.op);
}

/* Two sub-resources at once must not be decided by the order of a table. */
static void conflicting_sub_resources_are_seen(void **state)
{
    struct fixture *f = *state;

    match(f, HTTP_GET, "/bkt?acl&policy", "");
    assert_non_null(f->route.op_conflict);
    match(f, HTTP_GET, "/bkt?location", "");
    assert_null(f->route.op_conflict);
}

/* Keys are bytes, not paths: nothing may be collapsed, resolved, stripped or decoded twice. */
static void keys_stay_as_they_are(void **state)
{
    static const struct {
        const char *target;
        const char *key;
    } rows[] = {
        {"/bkt/a",            "a"               },
        {"/bkt//a",           "/a"              },
        {"/bkt/a/",           "a/"              },
        {"/bkt/a//b",         "a//b"            },
        {"/bkt/.",            "."               },
        {"/bkt/..",           ".."              },
        {"/bkt/a/../b",       "a/../b"          },
        {"/bkt/a%2Fb",        "a/b"             },
        {"/bkt/a%252Fb",      "a%2Fb"           },
        {"/bkt/a+b",          "a+b"             },
        {"/bkt/a%20b",        "a b"             },
        {"/bkt/%61.txt",      "a.txt"           },
        {"/bkt/x=y&z",        "x=y&z"           },
        {"/bkt/%F0%9F%98%80", "\xF0\x9F\x98\x80"},
        {"/bkt/%01",          "\x01"            },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        match(f, HTTP_GET, rows[i].target, "");
        assert_int_equal(f->route.error, S3_OK);
        assert_slice(f->route.bucket, "bkt");
        assert_slice(f->route.key, rows[i].key);
    }
}

/* Clients that use bucket.domain must reach the same objects as those that use /bucket. */
static void both_styles_meet(void **state)
{
    static const struct {
        const char *host;
        const char *target;
        const char *bucket;
        const char *key;
    } rows[] = {
        {"s3.example",          "/bkt/k", "bkt", "k" },
        {"s3.example:9000",     "/bkt/k", "bkt", "k" },
        {"bkt.s3.example",      "/k",     "bkt", "k" },
        {"BKT.S3.Example:9000", "/k",     "bkt", "k" },
        {"a.b.s3.example",      "/k/",    "a.b", "k/"},
        {"bkt.s3.example",      "/",      "bkt", ""  },
        {"bkt.s3.example",      "//k",    "bkt", "/k"},
        {"other.example",       "/bkt/k", "bkt", "k" },
        {"xs3.example",         "/bkt/k", "bkt", "k" },
        {"[::1]:9000",          "/bkt/k", "bkt", "k" },
        {"127.0.0.1:9000",      "/bkt/k", "bkt", "k" },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        match(f, HTTP_GET, rows[i].target,
              arena_printf(&f->arena, "host: %s\r\n", rows[i].host).data);
        assert_int_equal(f->route.error, S3_OK);
        assert_slice(f->route.bucket, rows[i].bucket);
        assert_slice(f->route.key, rows[i].key);
    }
}

/* What cannot be a key or a bucket is refused here, so no handler ever sees it. */
static void impossible_targets_are_refused(void **state)
{
    struct fixture *f = *state;
    char longest[1024 + 1];
    char one_more[1025 + 1];

    memset(longest, 'k', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memset(one_more, 'k', sizeof(one_more) - 1);
    one_more[sizeof(one_more) - 1] = '\0';
    match(f, HTTP_GET, arena_printf(&f->arena, "/bkt/%s", longest).data, "");
    assert_int_equal(f->route.error, S3_OK);
    match(f, HTTP_GET, arena_printf(&f->arena, "/bkt/%s", one_more).data, "");
    assert_int_equal(f->route.error, S3_KeyTooLongError);
    match(f, HTTP_GET, "/bkt/%ff", "");
    assert_int_equal(f->route.error, S3_InvalidURI);
    match(f, HTTP_GET, "/bkt/%c0%af", "");
    assert_int_equal(f->route.error, S3_InvalidURI);
    match(f, HTTP_GET, "/bkt/%zz", "");
    assert_int_equal(f->route.error, S3_InvalidURI);
    match(f, HTTP_GET, "/bkt!d/k", "");
    assert_int_equal(f->route.error, S3_InvalidBucketName);
    match(f, HTTP_GET, "//k", "");
    assert_int_equal(f->route.error, S3_InvalidBucketName);
}

/* Query values reach handlers decoded; an empty value is not an absent one. */
static void parameters_are_decoded(void **state)
{
    struct fixture *f = *state;

    match(f, HTTP_GET, "/bkt?prefix=a%2Fb%20c+d&delimiter=&marker", "");
    assert_int_equal(f->route.param_count, 3);
    assert_slice(f->route.params[0].name, "prefix");
    assert_slice(f->route.params[0].value, "a/b c d");
    assert_slice(f->route.params[1].name, "delimiter");
    assert_int_equal(f->route.params[1].value.len, 0);
    assert_non_null(f->route.params[1].value.data);
    assert_non_null(f->route.params[2].value.data);
}

/* AWS's naming rules: what it refuses to create, clients cannot rely on elsewhere. */
static void bucket_names(void **state)
{
    static const char *const good[] = {"abc", "a-b.c", "123", "a.b.c", "1.2.3.4.5", "my--bucket"};
    static const char *const bad[] = {
        "ab",   "Abc",         "a_b",         "-abc",       "abc-",    ".abc",
        "abc.", "a..b",        "192.168.5.4", "a b",        "xn--abc", "sthree-a",
        "",     "abc-s3alias", "abc--x-s3",   "abc--ol-s3", "a/b",     "amzn-s3-demo-a"};
    char too_long[64 + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(router_bucket_name_valid(slice_str(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (router_bucket_name_valid(slice_str(bad[i]))) {
            print_error("accepted: row %zu\n", i);
        }
        assert_false(router_bucket_name_valid(slice_str(bad[i])));
    }
    memset(too_long, 'a', sizeof(too_long) - 1);
    assert_false(router_bucket_name_valid(slice_of(too_long, 64)));
    assert_true(router_bucket_name_valid(slice_of(too_long, 63)));
}

/* The page of compatibility, IAM and metrics come from the table: its rows must be whole. */
static void every_row_is_whole(void **state)
{
    (void)state;
    assert_true(s3_op_count > 100);
    for (size_t i = 0; i < s3_op_count; i++) {
        const struct s3_op *op = &s3_ops[i];

        assert_non_null(op->name);
        if (op->handler == NULL) {
            continue;
        }
        assert_non_null(op->action);
        assert_true(op->handler->state_size >= sizeof(struct s3_request));
        assert_non_null(op->handler->steps[0].run);
        assert_null(op->handler->steps[S3_STEPS_MAX].run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_row_that_demands_most_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(no_row_no_operation, setup, teardown),
        cmocka_unit_test_setup_teardown(conflicting_sub_resources_are_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_stay_as_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(both_styles_meet, setup, teardown),
        cmocka_unit_test_setup_teardown(impossible_targets_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_are_decoded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plain_write_has_no_strange_sub_resource, setup, teardown),
        cmocka_unit_test(bucket_names),
        cmocka_unit_test(every_row_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
