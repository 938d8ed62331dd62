/* Versions, tags, locks and attributes of objects, as a client sees them; each test runs a second
 * time with a metad that never answers at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "tests/unit/gateway/s3_cases.h"

#define NO_SUCH_ID "AAAAAAAAAAAAAAAA"

static int versions_setup_in(void **state, bool later)
{
    const struct slice enable = SLICE("<VersioningConfiguration><Status>Enabled</Status>"
                                      "</VersioningConfiguration>");
    struct s3_fixture *f;

    if (cases_setup(state) != 0) {
        return -1;
    }
    f = *state;
    s3_send(f, "PUT", "/bucket?versioning", crc32_header(f, enable), enable);
    fake_meta_publish(&f->meta);
    f->meta.later = later;
    return f->status == 200 ? 0 : -1;
}

static int versions_setup(void **state)
{
    return versions_setup_in(state, false);
}

static int versions_setup_later(void **state)
{
    return versions_setup_in(state, true);
}

/* PUT of `body`; the id that the reply names. */
static const char *put_version(struct s3_fixture *f, const char *body)
{
    const char *id;

    put(f, "key", body);
    id = s3_reply_value(f, "x-amz-version-id");
    assert_non_null(id);
    return arena_copy(&f->arena, slice_str(id)).data;
}

static const char *versioned(struct s3_fixture *f, const char *sub, const char *id)
{
    return arena_printf(&f->arena, "/bucket/key?%sversionId=%s", sub, id).data;
}

/* An overwrite keeps what it replaces, and each is read by its id. */
static void versions_are_read_by_id(void **state)
{
    struct s3_fixture *f = *state;
    const char *first = put_version(f, "first");
    const char *second = put_version(f, "second");

    assert_string_not_equal(first, second);
    want(f, 200, "GET", versioned(f, "", first), "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "first");
    assert_header(f, "x-amz-version-id", first);
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "second");
    assert_header(f, "x-amz-version-id", second);
    want(f, 200, "HEAD", versioned(f, "", first), "", SLICE_EMPTY);
    want_error(f, "NoSuchVersion", "GET", versioned(f, "", NO_SUCH_ID), "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "VersionId"), NO_SUCH_ID);
    want_error(f, "InvalidArgument", "GET", versioned(f, "", "x"), "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "GET", versioned(f, "", ""), "", SLICE_EMPTY);
}

/* What tells a client that the object is hidden, not gone. */
static void markers_speak(void **state)
{
    struct s3_fixture *f = *state;
    const char *first = put_version(f, "first");
    const char *marker;

    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-delete-marker", "true");
    marker = arena_copy(&f->arena, slice_str(s3_reply_value(f, "x-amz-version-id"))).data;
    want_error(f, "NoSuchKey", "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-delete-marker", "true");
    assert_header(f, "x-amz-version-id", marker);
    want_error(f, "MethodNotAllowed", "GET", versioned(f, "", marker), "", SLICE_EMPTY);
    assert_header(f, "Allow", "DELETE");
    assert_string_equal(s3_body_element(f, "ResourceType"), "DeleteMarker");
    assert_non_null(s3_reply_value(f, "Last-Modified"));
    want(f, 405, "HEAD", versioned(f, "", marker), "", SLICE_EMPTY);
    want(f, 204, "DELETE", versioned(f, "", marker), "", SLICE_EMPTY);
    assert_header(f, "x-amz-delete-marker", "true");
    assert_header(f, "x-amz-version-id", marker);
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-version-id", first);
}

/* Every way to read finds the marker, and none keeps it pinned (the fixture counts). */
static void readers_meet_a_marker(void **state)
{
    static const char *const subs[] = {"tagging&", "attributes&", "retention&", "legal-hold&"};
    struct s3_fixture *f = *state;
    const char *marker;

    put_version(f, "first");
    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    marker = arena_copy(&f->arena, slice_str(s3_reply_value(f, "x-amz-version-id"))).data;
    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        want_error(f, "MethodNotAllowed", "GET", versioned(f, subs[i], marker),
                   "x-amz-object-attributes: ETag\r\n", SLICE_EMPTY);
        want_error(f, "NoSuchKey", "GET", arena_printf(&f->arena, "/bucket/key?%s", subs[i]).data,
                   "x-amz-object-attributes: ETag\r\n", SLICE_EMPTY);
    }
    want_error(
        f, "InvalidRequest", "PUT", "/bucket/copy",
        arena_printf(&f->arena, "x-amz-copy-source: /bucket/key?versionId=%s\r\n", marker).data,
        SLICE_EMPTY);
    want_error(f, "NoSuchKey", "PUT", "/bucket/copy", "x-amz-copy-source: /bucket/key\r\n",
               SLICE_EMPTY);
}

/* A copy says which version it is, and of which it was made. */
static void copies_name_versions(void **state)
{
    struct s3_fixture *f = *state;
    const char *first = put_version(f, "first");
    const char *second = put_version(f, "second");

    want(f, 200, "PUT", "/bucket/copy",
         arena_printf(&f->arena, "x-amz-copy-source: /bucket/key?versionId=%s\r\n", first).data,
         SLICE_EMPTY);
    assert_header(f, "x-amz-copy-source-version-id", first);
    assert_non_null(s3_reply_value(f, "x-amz-version-id"));
    want(f, 200, "GET", "/bucket/copy", "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "first");
    want(f, 200, "PUT", "/bucket/copy", "x-amz-copy-source: /bucket/key\r\n", SLICE_EMPTY);
    assert_header(f, "x-amz-copy-source-version-id", second);
}

/* Each key of a batch has a version of its own, and says what became of it. */
static void batches_name_versions(void **state)
{
    struct s3_fixture *f = *state;
    const char *first = put_version(f, "first");
    struct slice body =
        arena_printf(&f->arena,
                     "<Delete><Object><Key>key</Key><VersionId>%s</VersionId></Object>"
                     "<Object><Key>key</Key><VersionId>x</VersionId></Object>"
                     "<Object><Key>none</Key></Object></Delete>",
                     first);

    want(f, 200, "POST", "/bucket?delete", crc32_header(f, body), body);
    assert_true(s3_body_has(
        f,
        arena_printf(&f->arena, "<Deleted><Key>key</Key><VersionId>%s</VersionId></Deleted>", first)
            .data));
    assert_true(s3_body_has(f, "<Error><Key>key</Key><VersionId>x</VersionId>"
                               "<Code>NoSuchVersion</Code>"));
    assert_true(s3_body_has(f, "<Deleted><Key>none</Key><DeleteMarker>true</DeleteMarker>"
                               "<DeleteMarkerVersionId>"));
}

/* The document of a page, and where the next one begins. */
static void lists(void **state)
{
    struct s3_fixture *f = *state;
    const char *first = put_version(f, "first");
    const char *second = put_version(f, "second");
    const char *next;

    want(f, 204, "DELETE", "/bucket/other", "", SLICE_EMPTY);
    want(f, 200, "GET", "/bucket?versions", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<ListVersionsResult xmlns="));
    assert_true(s3_body_has(
        f, arena_printf(&f->arena, "<VersionId>%s</VersionId><IsLatest>true</IsLatest>", second)
               .data));
    assert_true(s3_body_has(
        f, arena_printf(&f->arena, "<VersionId>%s</VersionId><IsLatest>false</IsLatest>", first)
               .data));
    assert_true(s3_body_has(f, "<DeleteMarker><Key>other</Key>"));
    want(f, 200, "GET", "/bucket?versions&max-keys=1", "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "NextKeyMarker"), "key");
    next = arena_copy(&f->arena, slice_str(s3_body_element(f, "NextVersionIdMarker"))).data;
    assert_string_equal(next, second);
    want(f, 200, "GET",
         arena_printf(&f->arena, "/bucket?versions&key-marker=key&version-id-marker=%s", next).data,
         "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "VersionId"), first);
    want_error(f, "InvalidArgument", "GET", "/bucket?versions&version-id-marker=null", "",
               SLICE_EMPTY);
    want_error(f, "InvalidArgument", "GET", "/bucket?versions&key-marker=k&version-id-marker=x", "",
               SLICE_EMPTY);
}

/* Tags by every way they come; what cannot be kept refuses the request. */
static void tags(void **state)
{
    static const struct {
        const char *header;
        const char *code;
    } bad[] = {
        {"a=1&a=2", "InvalidArgument"},
        {"=1",      "InvalidArgument"},
        {"a=%zz",   "InvalidArgument"},
        {"a%FF=1",  "InvalidTag"     },
        {"a;=1",    "InvalidTag"     },
        {"aws:a=1", "InvalidTag"     },
        {"a=1;",    "InvalidTag"     },
    };
    const struct slice body = SLICE("<Tagging><TagSet><Tag><Key>b</Key><Value>2</Value></Tag>"
                                    "</TagSet></Tagging>");
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/key", "x-amz-tagging: b=&a=1\r\n", SLICE("x"));
    want(f, 200, "HEAD", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-tagging-count", "2");
    want(f, 200, "GET", "/bucket/key?tagging", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key>"
                               "<Value></Value></Tag></TagSet>"));
    want_error(f, "InvalidRequest", "PUT", "/bucket/key?tagging", "", body);
    want(f, 200, "PUT", "/bucket/key?tagging", crc32_header(f, body), body);
    want(f, 200, "GET", "/bucket/key?tagging", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<TagSet><Tag><Key>b</Key><Value>2</Value></Tag></TagSet>"));
    want(f, 204, "DELETE", "/bucket/key?tagging", "", SLICE_EMPTY);
    want(f, 200, "HEAD", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-tagging-count", NULL);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        want_error(f, bad[i].code, "PUT", "/bucket/key",
                   arena_printf(&f->arena, "x-amz-tagging: %s\r\n", bad[i].header).data,
                   SLICE("x"));
    }
}

/* A lock whose form is wrong never reaches metad. */
static void lock_headers(void **state)
{
    static const struct {
        const char *headers;
        const char *code;
    } bad[] = {
        {"x-amz-object-lock-mode: GOVERNANCE\r\n",                                 "InvalidArgument"},
        {"x-amz-object-lock-retain-until-date: 2999-01-01T00:00:00Z\r\n",          "InvalidArgument"},
        {"x-amz-object-lock-mode: x\r\n"
         "x-amz-object-lock-retain-until-date: 2999-01-01T00:00:00Z\r\n", "InvalidArgument"},
        {"x-amz-object-lock-mode: COMPLIANCE\r\n"
         "x-amz-object-lock-retain-until-date: 1999-01-01T00:00:00Z\r\n", "InvalidArgument"},
        {"x-amz-object-lock-mode: COMPLIANCE\r\n"
         "x-amz-object-lock-retain-until-date: soon\r\n",                 "InvalidArgument"},
        {"x-amz-object-lock-legal-hold: yes\r\n",                                  "InvalidArgument"},
        {"x-amz-object-lock-legal-hold: ON\r\n",                                   "InvalidRequest" },
    };
    struct s3_fixture *f = *state;
    uint32_t writes = f->meta.writes;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        want_error(f, bad[i].code, "PUT", "/bucket/key", bad[i].headers, SLICE("x"));
    }
    assert_int_equal(f->meta.writes, writes);
    put_version(f, "x");
    want_error(f, "InvalidRequest", "GET", "/bucket/key?retention", "", SLICE_EMPTY);
    want_error(f, "InvalidRequest", "GET", "/bucket/key?legal-hold", "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "DELETE", "/bucket/key",
               "x-amz-bypass-governance-retention: true\r\n", SLICE_EMPTY);
}

/* What is asked is answered, what is misspelt refused. */
static void attributes(void **state)
{
    struct s3_fixture *f = *state;

    put_version(f, "hello");
    want(f, 200, "GET", "/bucket/key?attributes",
         "x-amz-object-attributes: ETag, ObjectSize,StorageClass\r\n", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "ETag"), "5d41402abc4b2a76b9719d911017c592");
    assert_string_equal(s3_body_element(f, "ObjectSize"), "5");
    assert_string_equal(s3_body_element(f, "StorageClass"), "STANDARD");
    assert_null(s3_body_element(f, "Checksum"));
    want_error(f, "InvalidRequest", "GET", "/bucket/key?attributes", "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "GET", "/bucket/key?attributes",
               "x-amz-object-attributes: Size\r\n", SLICE_EMPTY);
}

/* Nothing is archived: the answer for an object at hand, in AWS's words. */
static void restore(void **state)
{
    struct s3_fixture *f = *state;
    const struct slice body = SLICE("<RestoreRequest><Days>1</Days></RestoreRequest>");

    put_version(f, "hello");
    want_error(f, "InvalidObjectState", "POST", "/bucket/key?restore", "", body);
    assert_int_equal(f->status, 403);
    want_error(f, "NoSuchKey", "POST", "/bucket/none?restore", "", body);
    want_error(f, "MalformedXML", "POST", "/bucket/key?restore", "", SLICE("<Other/>"));
}

/* A client that hangs up at any moment leaves nothing pinned (the fixture counts). */
static void hang_ups(void **state)
{
    static const char *const targets[] = {"/bucket/key?tagging", "/bucket/key?attributes",
                                          "/bucket?versions", "/bucket/key"};
    struct s3_fixture *f = *state;

    put_version(f, "hello");
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        for (uint64_t ns = 0; ns < 3000000; ns += 100000) {
            s3_send_and_leave(f, "GET", targets[i], "x-amz-object-attributes: ETag\r\n",
                              SLICE_EMPTY, ns);
        }
    }
}

/* In a bucket that was never versioned no reply names a version, but for one that was named. */
static void unversioned(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "x");
    assert_header(f, "x-amz-version-id", NULL);
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-version-id", NULL);
    want(f, 200, "GET", "/bucket/key?versionId=null", "", SLICE_EMPTY);
    assert_header(f, "x-amz-version-id", "null");
    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    assert_header(f, "x-amz-version-id", NULL);
    assert_header(f, "x-amz-delete-marker", NULL);
}

#define VERSIONED(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, versions_setup, cases_teardown),                         \
        cmocka_unit_test_setup_teardown(test, versions_setup_later, cases_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERSIONED(versions_are_read_by_id),
        VERSIONED(markers_speak),
        VERSIONED(readers_meet_a_marker),
        VERSIONED(copies_name_versions),
        VERSIONED(batches_name_versions),
        VERSIONED(lists),
        VERSIONED(tags),
        VERSIONED(lock_headers),
        VERSIONED(attributes),
        VERSIONED(restore),
        VERSIONED(hang_ups),
        cmocka_unit_test_setup_teardown(unversioned, cases_setup, cases_teardown),
        cmocka_unit_test_setup_teardown(unversioned, cases_setup_later, cases_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
