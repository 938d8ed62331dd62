/* What clients parse: escaping must keep every key exact, whatever bytes it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/xml/xml_writer.h"

static void check_escape(struct slice from, const char *want)
{
    struct buffer to;

    buffer_init(&to);
    xml_escape(&to, from);
    buffer_append_byte(&to, '\0');
    assert_string_equal(to.data, want);
    buffer_deinit(&to);
}

/* A key is told apart from its neighbours only if each special byte has its own spelling. */
static void test_escapes_markup_and_control_characters(void **state)
{
    (void)state;
    check_escape(SLICE("plain"), "plain");
    check_escape(SLICE("a&b<c>d\"e'f"), "a&amp;b&lt;c&gt;d&quot;e'f");
    check_escape(SLICE("\x01"), "&#x1;");
    check_escape(SLICE("a\tb\nc\rd"), "a&#x9;b&#xa;c&#xd;d");
    check_escape(SLICE("x\0y"), "x&#x0;y");
    check_escape(SLICE("\x7f"), "\x7f");
    check_escape(SLICE(""), "");
}

/* Runs are copied eight bytes at a time: a special byte must be seen at every offset of a word. */
static void test_escapes_at_every_offset(void **state)
{
    (void)state;
    for (size_t at = 0; at < 40; at++) {
        char from[40];
        char want[48];

        memset(from, 'x', sizeof(from));
        memset(want, 'x', sizeof(want));
        from[at] = '<';
        memcpy(want + at, "&lt;", 4);
        want[43] = '\0';
        check_escape(slice_of(from, sizeof(from)), want);
    }
}

/* Non-BMP and combining keys pass unchanged; broken UTF-8 must not make the document unreadable. */
static void test_keeps_utf8_and_replaces_what_is_not(void **state)
{
    static const struct {
        struct slice from;
        const char *want;
    } rows[] = {
        {{"\xC3\xA9", 2},         "\xC3\xA9"                                        },
        {{"\xE6\x97\xA5", 3},     "\xE6\x97\xA5"                                    },
        {{"\xF0\x9F\x98\x80", 4}, "\xF0\x9F\x98\x80"                                },
        {{"\xEF\xBF\xBE", 3},     "&#xfffe;"                                        },
        {{"\xEF\xBF\xBF", 3},     "&#xffff;"                                        },
        {{"\xFF", 1},             "\xEF\xBF\xBD"                                    },
        {{"a\xC3", 2},            "a\xEF\xBF\xBD"                                   },
        {{"\xC0\xAF", 2},         "\xEF\xBF\xBD\xEF\xBF\xBD"                        },
        {{"\xED\xA0\x80", 3},     "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"            },
        {{"\xF4\x90\x80\x80", 4}, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_escape(rows[i].from, rows[i].want);
    }
}

/* The shape that clients' parsers expect: declaration, namespace on the root, nesting in order. */
static void test_writes_a_document(void **state)
{
    struct buffer to;
    struct xml_writer xml;

    (void)state;
    buffer_init(&to);
    xml_writer_init(&xml, &to);
    xml_writer_open_ns(&xml, "R", XML_NS_S3);
    xml_writer_text(&xml, "K", SLICE("a b"));
    xml_writer_text(&xml, "K", SLICE("<"));
    xml_writer_text(&xml, "E", SLICE_EMPTY);
    xml_writer_open(&xml, "C");
    xml_writer_u64(&xml, "N", 18446744073709551615ULL);
    xml_writer_bool(&xml, "T", false);
    xml_writer_quoted(&xml, "ETag", SLICE("abc-1"));
    xml_writer_close(&xml);
    xml_writer_close(&xml);
    buffer_append_byte(&to, '\0');
    assert_string_equal(to.data,
                        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<R xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><K>a b</K><K>&lt;</K>"
                        "<E></E><C><N>18446744073709551615</N><T>false</T>"
                        "<ETag>&quot;abc-1&quot;</ETag></C></R>");
    buffer_deinit(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes_markup_and_control_characters),
        cmocka_unit_test(test_escapes_at_every_offset),
        cmocka_unit_test(test_keeps_utf8_and_replaces_what_is_not),
        cmocka_unit_test(test_writes_a_document),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
