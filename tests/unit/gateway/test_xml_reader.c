/* Documents come from anyone: exact text for the right ones, a bounded refusal for all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "gateway/xml/xml_reader.h"

struct fixture {
    struct arena arena;
    const struct xml_node *root;
    struct error error;
};

static int setup(void **state)
{
    static struct fixture fixture;

    arena_init(&fixture.arena);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    arena_deinit(&fixture->arena);
    return 0;
}

static enum rc parse(struct fixture *fixture, struct slice document)
{
    return xml_reader_parse(document, &fixture->arena, &fixture->root, &fixture->error);
}

static void check_text(struct slice got, const char *want)
{
    assert_non_null(got.data);
    assert_true(slice_eq_str(got, want));
}

/* SDKs differ in namespaces and prefixes: all of them name the same elements. */
static void test_ignores_namespaces_and_prefixes(void **state)
{
    static const char *documents[] = {
        "<Delete><Object><Key>k</Key></Object></Delete>",
        "<Delete "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>k</Key></Object></Delete>",
        "<s3:Delete xmlns:s3=\"urn:x\"><s3:Object><s3:Key>k</s3:Key></s3:Object></s3:Delete>",
        "<?xml version=\"1.0\"?>\n<!-- c --><Delete>\n <Object a=\"b\">\n <Key>k</Key>\n "
        "</Object></Delete>",
    };

    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct fixture *fixture = *state;

        assert_int_equal(parse(fixture, slice_str(documents[i])), RC_OK);
        assert_true(xml_is(fixture->root, "Delete"));
        check_text(xml_child_text(xml_child(fixture->root, "Object"), "Key"), "k");
    }
}

/* A key may consist of blanks, markup or entities; deleting another key instead would lose data. */
static void test_keeps_text_exact(void **state)
{
    struct fixture *fixture = *state;
    const struct xml_node *node;

    assert_int_equal(
        parse(fixture, SLICE("<D><K>  </K><K>a&amp;&#13;&#x41;&lt;</K><K><![CDATA[<x>]]></K>"
                             "<K/><K>\xF0\x9F\x98\x80</K><K> a<!-- x -->b </K></D>")),
        RC_OK);
    node = xml_child(fixture->root, "K");
    check_text(node->text, "  ");
    node = xml_next(node, "K");
    check_text(node->text, "a&\rA<");
    node = xml_next(node, "K");
    check_text(node->text, "<x>");
    node = xml_next(node, "K");
    check_text(node->text, "");
    node = xml_next(node, "K");
    check_text(node->text, "\xF0\x9F\x98\x80");
    node = xml_next(node, "K");
    check_text(node->text, " ab ");
    assert_null(xml_next(node, "K"));
    assert_null(xml_child_text(fixture->root, "Absent").data);
}

/* Anything that is not plain XML is refused: external entities read files, nested ones eat memory.
 */
static void test_refuses_what_is_not_plain_xml(void **state)
{
    static const char *documents[] = {
        "",
        "x",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a>&#x1;</a>",
        "<a>\x01</a>",
        "<a>\xFF</a>",
        "<a>&unknown;</a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY x \"y\"><!ENTITY z \"&x;&x;\">]><a>&z;</a>",
    };

    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct fixture *fixture = *state;

        assert_int_equal(parse(fixture, slice_str(documents[i])), RC_INVALID);
        assert_null(fixture->root);
    }
}

static void build_nested(struct buffer *to, size_t depth)
{
    for (size_t i = 0; i < depth; i++) {
        buffer_append(to, SLICE("<a>"));
    }
    for (size_t i = 0; i < depth; i++) {
        buffer_append(to, SLICE("</a>"));
    }
}

/* Depth, elements and bytes are bounded, whatever a client sends. */
static void test_bounds_depth_elements_and_size(void **state)
{
    struct fixture *fixture = *state;
    struct buffer document;

    buffer_init(&document);
    build_nested(&document, LIMIT_XML_DEPTH);
    assert_int_equal(parse(fixture, buffer_slice(&document)), RC_OK);
    buffer_clear(&document);
    build_nested(&document, LIMIT_XML_DEPTH + 1);
    assert_int_equal(parse(fixture, buffer_slice(&document)), RC_LIMIT);
    buffer_clear(&document);
    buffer_append(&document, SLICE("<a>"));
    for (size_t i = 0; i < 100001; i++) {
        buffer_append(&document, SLICE("<b/>"));
    }
    buffer_append(&document, SLICE("</a>"));
    assert_int_equal(parse(fixture, buffer_slice(&document)), RC_LIMIT);
    (void)buffer_reserve(&document, LIMIT_XML_BODY_BYTES);
    document.len = LIMIT_XML_BODY_BYTES + 1;
    assert_int_equal(parse(fixture, buffer_slice(&document)), RC_LIMIT);
    buffer_deinit(&document);
}

/* The largest document that S3 allows: 10,000 parts with checksums. */
static void test_reads_ten_thousand_parts(void **state)
{
    struct fixture *fixture = *state;
    struct buffer document;
    uint64_t count = 0;

    buffer_init(&document);
    buffer_append(&document, SLICE("<CompleteMultipartUpload>"));
    for (unsigned i = 1; i <= LIMIT_PARTS; i++) {
        buffer_printf(&document,
                      "<Part><ETag>&quot;%032x&quot;</ETag><ChecksumSHA256>%044x</ChecksumSHA256>"
                      "<PartNumber>%u</PartNumber></Part>\n",
                      i, i, i);
    }
    buffer_append(&document, SLICE("</CompleteMultipartUpload>"));
    assert_int_equal(parse(fixture, buffer_slice(&document)), RC_OK);
    for (const struct xml_node *part = xml_child(fixture->root, "Part"); part != NULL;
         part = xml_next(part, "Part")) {
        uint64_t number = 0;

        count += 1;
        assert_true(slice_to_u64(xml_child_text(part, "PartNumber"), LIMIT_PARTS, &number));
        assert_int_equal(number, count);
        assert_int_equal(xml_child_text(part, "ETag").len, 34);
    }
    assert_int_equal(count, LIMIT_PARTS);
    assert_true(fixture->arena.used_bytes < (size_t)8 * 1024 * 1024);
    buffer_deinit(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ignores_namespaces_and_prefixes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keeps_text_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_what_is_not_plain_xml, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_depth_elements_and_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reads_ten_thousand_parts, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
