/* Matching of CORS rules, and where a website's redirects lead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "gateway/web/cors.h"
#include "gateway/web/website.h"

/* A star stands for any run of bytes, also none; origins are compared as they are, headers without
 * case. A match too many opens a bucket to a foreign page. */
static void cors_rules(void **state)
{
    static const struct {
        const char *pattern;
        const char *header;
        const char *origin;
        const char *method;
        const char *headers;
        bool allowed;
    } rows[] = {
        {"*",           "*",       "https://a",       "GET", "x, y",              true },
        {"https://a",   "*",       "https://a",       "GET", NULL,                true },
        {"https://a",   "*",       "https://A",       "GET", NULL,                false},
        {"https://a",   "*",       "https://ab",      "GET", NULL,                false},
        {"https://a",   "*",       "https://",        "GET", NULL,                false},
        {"https://*.a", "*",       "https://.a",      "GET", NULL,                true },
        {"https://*.a", "*",       "https://b.c.a",   "GET", NULL,                true },
        {"https://*.a", "*",       "https://.a.evil", "GET", NULL,                false},
        {"start*end",   "*",       "startend",        "GET", NULL,                true },
        {"start*end",   "*",       "starend",         "GET", NULL,                false},
        {"aba*aba",     "*",       "abaXaba",         "GET", NULL,                true },
        {"aba*aba",     "*",       "ababa",           "GET", NULL,                false},
        {"*",           "*",       "https://a",       "PUT", NULL,                false},
        {"*",           "*",       "https://a",       "get", NULL,                false},
        {"*",           "X-Amz-*", "https://a",       "GET", "x-amz-date",        true },
        {"*",           "X-Amz-*", "https://a",       "GET", "x-amz-a,, X-AMZ-B", true },
        {"*",           "X-Amz-*", "https://a",       "GET", "x-amz-date, other", false},
        {"*",           "X-Amz-*", "https://a",       "GET", "x-amz",             false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ProtobufCBinaryData origin = s3_bytes(slice_str(rows[i].pattern));
        ProtobufCBinaryData method = s3_bytes(SLICE("GET"));
        ProtobufCBinaryData header = s3_bytes(slice_str(rows[i].header));
        Kist__CorsRule rule = KIST__CORS_RULE__INIT;
        Kist__CorsRule *list[] = {&rule};
        Kist__Cors cors = KIST__CORS__INIT;

        rule.n_origins = rule.n_methods = rule.n_allowed_headers = 1;
        rule.origins = &origin;
        rule.methods = &method;
        rule.allowed_headers = &header;
        cors.n_rules = 1;
        cors.rules = list;
        if ((cors_match(&cors, slice_str(rows[i].origin), slice_str(rows[i].method),
                        slice_str(rows[i].headers)) != NULL) != rows[i].allowed) {
            fail_msg("row %zu", i);
        }
    }
}

/* Names of headers go into replies: nothing but a token may. */
static void header_names(void **state)
{
    (void)state;
    assert_true(cors_header_name_valid(SLICE("x-amz-Meta_1!"), false));
    assert_true(cors_header_name_valid(SLICE("x-*"), true));
    assert_false(cors_header_name_valid(SLICE("x-*"), false));
    assert_false(cors_header_name_valid(SLICE("a b"), true));
    assert_false(cors_header_name_valid(SLICE("a:b"), true));
    assert_false(cors_header_name_valid(SLICE("a\r\nb"), true));
    assert_false(cors_header_name_valid(SLICE(""), true));
}

/* What was configured stays, what was asked is escaped: a key must not add a query or a header. */
static void locations(void **state)
{
    static const struct {
        const char *prefix;
        const char *replace_prefix;
        const char *replace_key;
        const char *host;
        const char *key;
        const char *query;
        bool secure;
        const char *want;
    } rows[] = {
        {"",     NULL,   NULL,    NULL, "a/b",      NULL,  false, "http://asked:1/a/b"             },
        {"",     NULL,   NULL,    "h",  "a b?#%\r", "q=1", true,  "https://h/a%20b%3F%23%25%0D?q=1"},
        {"old/", "new/", NULL,    NULL, "old/x",    NULL,  false, "http://asked:1/new/x"           },
        {"",     "#!/",  NULL,    NULL, "x",        NULL,  false, "http://asked:1/#!/x"            },
        {"old/", "",     NULL,    NULL, "old/x",    NULL,  false, "http://asked:1/x"               },
        {"old/", NULL,   "k?a=b", NULL, "old/x",    NULL,  false, "http://asked:1/k?a=b"           },
    };
    struct arena arena;

    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Kist__RoutingRule rule = KIST__ROUTING_RULE__INIT;
        struct slice got;

        rule.prefix = s3_bytes(slice_str(rows[i].prefix));
        rule.host = s3_bytes(slice_str(rows[i].host));
        rule.has_replace_prefix = rows[i].replace_prefix != NULL;
        rule.replace_prefix = s3_bytes(slice_str(rows[i].replace_prefix));
        rule.has_replace_key = rows[i].replace_key != NULL;
        rule.replace_key = s3_bytes(slice_str(rows[i].replace_key));
        got = website_rule_location(&arena, &rule, slice_str(rows[i].key), slice_str(rows[i].query),
                                    SLICE("asked:1"), rows[i].secure);
        assert_string_equal(got.data, rows[i].want);
    }
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cors_rules),
        cmocka_unit_test(header_names),
        cmocka_unit_test(locations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
