/* ListObjects v1 and v2, and the listings of uploads: paging, encoding, parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/codec/percent.h"
#include "tests/unit/gateway/s3_cases.h"

/* All keys and common prefixes of a listing, page by page, joined by blanks ("b/" is a prefix). */
static const char *walk(struct s3_fixture *f, const char *query, unsigned max, bool v2)
{
    struct slice all = SLICE("");
    struct slice from = SLICE("");

    for (int page = 0; page < 100; page++) {
        const char *at;
        const char *next;
        struct slice encoded;

        want(f, 200, "GET",
             arena_printf(&f->arena, "/bucket?%s%s&max-keys=%u%s", v2 ? "list-type=2&" : "", query,
                          max, from.data)
                 .data,
             "", SLICE_EMPTY);
        for (at = f->body.data; (at = strchr(at, '<')) != NULL; at++) {
            bool key = strncmp(at, "<Key>", 5) == 0;
            bool prefix = strncmp(at, "<CommonPrefixes><Prefix>", 24) == 0;
            const char *text = at + (key ? 5 : 24);

            if (key || prefix) {
                all = arena_printf(&f->arena, "%s%.*s ", all.data, (int)(strchr(text, '<') - text),
                                   text);
            }
        }
        if (!s3_body_has(f, "<IsTruncated>true</IsTruncated>")) {
            return all.data;
        }
        next = s3_body_element(f, v2 ? "NextContinuationToken" : "NextMarker");
        assert_non_null(next);
        encoded = percent_encode(&f->arena, slice_str(next), false);
        from = arena_printf(&f->arena, "&%s=%.*s", v2 ? "continuation-token" : "marker",
                            (int)encoded.len, encoded.data);
    }
    fail();
    return NULL;
}

static void fill(struct s3_fixture *f)
{
    static const char *const keys[] = {"a", "b/1", "b/2", "c/1", "c/2", "d"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        put(f, keys[i], "x");
    }
}

/* Each key and each common prefix exactly once, whatever the page size (user-reports C14). */
static void every_entry_once(void **state)
{
    struct s3_fixture *f = *state;

    fill(f);
    for (unsigned max = 1; max < 7; max++) {
        /* A page shows its keys before its prefixes: the order differs, the set does not. */
        const char *v1 = walk(f, "delimiter=%2F", max, false);
        const char *v2 = walk(f, "delimiter=%2F", max, true);

        assert_int_equal(strlen(v1), strlen("a b/ c/ d "));
        assert_string_equal(v1, v2);
        assert_non_null(strstr(v1, "b/ "));
        assert_string_equal(walk(f, "prefix=b%2F", max, true), "b/1 b/2 ");
        assert_string_equal(walk(f, "prefix=", max, true), "a b/1 b/2 c/1 c/2 d ");
    }
    assert_string_equal(walk(f, "delimiter=%2F", 1, true), "a b/ c/ d ");
}

/* Where a listing begins: start-after and marker inside, at and behind a prefix. */
static void beginnings(void **state)
{
    static const struct {
        const char *query;
        const char *want;
    } rows[] = {
        {"delimiter=%2F&start-after=b%2F",   "c/ d "               },
        {"delimiter=%2F&start-after=b%2F1",  "c/ d "               },
        {"delimiter=%2F&start-after=b%2Fzz", "c/ d "               },
        {"delimiter=%2F&start-after=b",      "b/ c/ d "            },
        {"delimiter=%2F&start-after=a",      "b/ c/ d "            },
        {"start-after=b%2F1",                "b/2 c/1 c/2 d "      },
        {"prefix=b%2F&delimiter=%2F",        "b/1 b/2 "            },
        {"prefix=b&delimiter=%2F",           "b/ "                 },
        {"prefix=%2F&delimiter=%2F",         ""                    },
        {"delimiter=",                       "a b/1 b/2 c/1 c/2 d "},
        {"delimiter=%2F1",                   "a b/1 b/2 c/1 c/2 d "},
        {"delimiter=1",                      "a b/1 b/2 c/1 c/2 d "},
        {"start-after=zzz",                  ""                    },
        {"prefix=c%2F&start-after=b",        "c/1 c/2 "            },
    };
    struct s3_fixture *f = *state;

    fill(f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *got = walk(f, rows[i].query, 1, true);

        if (strcmp(got, rows[i].want) != 0) {
            print_error("%s -> \"%s\"\n", rows[i].query, got);
        }
        assert_string_equal(got, rows[i].want);
    }
}

/* A token is stronger than start-after, and what was asked is echoed. */
static void tokens_and_echoes(void **state)
{
    struct s3_fixture *f = *state;
    const char *token;

    fill(f);
    want(f, 200, "GET", "/bucket?list-type=2&max-keys=2&start-after=a", "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "KeyCount"), "2");
    assert_string_equal(s3_body_element(f, "MaxKeys"), "2");
    assert_string_equal(s3_body_element(f, "StartAfter"), "a");
    assert_null(s3_body_element(f, "Owner"));
    token = s3_body_element(f, "NextContinuationToken");
    want(f, 200, "GET",
         arena_printf(&f->arena, "/bucket?list-type=2&start-after=zzz&continuation-token=%s", token)
             .data,
         "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Key>c/1</Key>"));
    assert_string_equal(s3_body_element(f, "ContinuationToken"), token);
    want_error(f, "InvalidArgument", "GET", "/bucket?list-type=2&continuation-token=bad%21", "",
               SLICE_EMPTY);
    want(f, 200, "GET", "/bucket?list-type=2&fetch-owner=true&max-keys=1", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Owner><ID>root</ID>"));
    want(f, 200, "GET", "/bucket?max-keys=1", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Owner><ID>root</ID>"));
    assert_null(s3_body_element(f, "NextMarker"));
    assert_true(s3_body_has(f, "<ETag>&quot;"));
    assert_string_equal(s3_body_element(f, "StorageClass"), "STANDARD");
}

/* max-keys: nothing, too much, and nonsense, as AWS answers them. */
static void page_sizes(void **state)
{
    struct s3_fixture *f = *state;

    fill(f);
    want(f, 200, "GET", "/bucket?list-type=2&max-keys=0", "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "KeyCount"), "0");
    assert_string_equal(s3_body_element(f, "IsTruncated"), "false");
    want(f, 200, "GET", "/bucket?max-keys=1001", "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "MaxKeys"), "1000");
    want_error(f, "InvalidArgument", "GET", "/bucket?max-keys=-1", "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "GET", "/bucket?max-keys=ten", "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "GET", "/bucket?encoding-type=base64", "", SLICE_EMPTY);
}

/* encoding-type=url, measured at AWS (user-reports C15): boto3 and rclone always ask for it. */
static void url_encoding(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "a%20b%2Bc%25/%C3%A4", "x");
    put(f, "z%01", "x");
    want(f, 200, "GET", "/bucket?encoding-type=url&delimiter=%2F&prefix=a%20b&marker=a%20a", "",
         SLICE_EMPTY);
    assert_true(s3_body_has(f, "<CommonPrefixes><Prefix>a+b%2Bc%25/</Prefix>"));
    assert_true(s3_body_has(f, "<EncodingType>url</EncodingType>"));
    assert_true(s3_body_has(f, "<Prefix>a+b</Prefix>"));
    assert_true(s3_body_has(f, "<Marker>a+a</Marker>"));
    assert_true(s3_body_has(f, "<Delimiter>/</Delimiter>"));
    want(f, 200, "GET", "/bucket?encoding-type=url&list-type=2&start-after=a%20", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Key>a+b%2Bc%25/%C3%A4</Key>"));
    assert_true(s3_body_has(f, "<Key>z%01</Key>"));
    assert_true(s3_body_has(f, "<StartAfter>a+</StartAfter>"));
    want(f, 200, "GET", "/bucket?list-type=2", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Key>z&#x1;</Key>"));
    assert_null(s3_body_element(f, "EncodingType"));
}

/* Uploads of one key in order of their beginning, pages by key and id, prefixes rolled up. */
static void uploads_page(void **state)
{
    struct s3_fixture *f = *state;
    const char *key;
    const char *id;
    unsigned seen = 0;

    for (int i = 0; i < 3; i++) {
        want(f, 200, "POST", "/bucket/k?uploads", "", SLICE_EMPTY);
    }
    want(f, 200, "POST", "/bucket/x/1?uploads", "", SLICE_EMPTY);
    want(f, 200, "GET", "/bucket?uploads&max-uploads=1&delimiter=%2F", "", SLICE_EMPTY);
    for (seen = 1; s3_body_has(f, "<IsTruncated>true</IsTruncated>"); seen++) {
        key = s3_body_element(f, "NextKeyMarker");
        id = s3_body_element(f, "NextUploadIdMarker");
        want(f, 200, "GET",
             arena_printf(&f->arena,
                          "/bucket?uploads&max-uploads=1&delimiter=%%2F&key-marker=%s%s%s", key,
                          id != NULL ? "&upload-id-marker=" : "", id != NULL ? id : "")
                 .data,
             "", SLICE_EMPTY);
        assert_true(seen < 10);
    }
    assert_int_equal(seen, 4);
    assert_true(s3_body_has(f, "<CommonPrefixes><Prefix>x/</Prefix>"));
    want(f, 200, "GET", "/bucket?uploads&key-marker=k", "", SLICE_EMPTY);
    assert_false(s3_body_has(f, "<Key>k</Key>"));
    want_error(f, "InvalidArgument", "GET", "/bucket?uploads&key-marker=k&upload-id-marker=x", "",
               SLICE_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(every_entry_once), BOTH(beginnings),   BOTH(tokens_and_echoes),
        BOTH(page_sizes),       BOTH(url_encoding), BOTH(uploads_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
