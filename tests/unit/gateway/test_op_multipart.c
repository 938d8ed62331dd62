/* Multipart uploads as a client sees them (user-reports B9-B13). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "tests/unit/gateway/s3_cases.h"

enum { PART_BYTES = 40000 };

static char part_body[PART_BYTES];

/* Parts of 40,000 bytes instead of 5 MiB: the model's bound is set to it. */
static int setup(void **state)
{
    int rc = cases_setup(state);

    ((struct s3_fixture *)*state)->meta.part_bytes_min = PART_BYTES;
    memset(part_body, 'p', sizeof(part_body));
    return rc;
}

static int setup_later(void **state)
{
    int rc = setup(state);

    ((struct s3_fixture *)*state)->meta.later = true;
    return rc;
}

static const char *create(struct s3_fixture *f, const char *headers)
{
    want(f, 200, "POST", "/bucket/key?uploads", headers, SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "Bucket"), "bucket");
    assert_string_equal(s3_body_element(f, "Key"), "key");
    return s3_body_element(f, "UploadId");
}

static const char *target(struct s3_fixture *f, const char *id, const char *more)
{
    return arena_printf(&f->arena, "/bucket/key?uploadId=%s%s", id, more).data;
}

/* Returns the ETag with its quotes. */
static const char *send_part(struct s3_fixture *f, const char *id, unsigned number,
                             struct slice body)
{
    want(f, 200, "PUT", target(f, id, arena_printf(&f->arena, "&partNumber=%u", number).data), "",
         body);
    return s3_reply_value(f, "ETag");
}

static struct slice whole_part(void)
{
    return slice_of(part_body, sizeof(part_body));
}

static struct slice manifest(struct s3_fixture *f, const char *parts)
{
    return arena_printf(&f->arena, "<CompleteMultipartUpload>%s</CompleteMultipartUpload>", parts);
}

static const char *listed(struct s3_fixture *f, unsigned number, const char *etag)
{
    return arena_printf(&f->arena, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
                        number, etag)
        .data;
}

/* The usual life: gaps in the numbers are legal, unlisted parts go, the object reads back whole and
 * by part. */
static void life(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "x-amz-meta-a: 1\r\nContent-Type: text/plain\r\n");
    const char *first = send_part(f, id, 2, whole_part());
    const char *last = send_part(f, id, 7, SLICE("tail"));
    const char *etag;
    struct slice list;

    (void)send_part(f, id, 9, SLICE("unlisted"));
    list =
        manifest(f, arena_printf(&f->arena, "%s%s", listed(f, 2, first), listed(f, 7, last)).data);
    want(f, 200, "POST", target(f, id, ""), "", list);
    assert_string_equal(s3_body_element(f, "Location"), "http://server/bucket/key");
    etag = s3_body_element(f, "ETag");
    assert_non_null(strstr(etag, "-2&quot;"));
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_int_equal(f->body.len, PART_BYTES + 4);
    assert_string_equal(f->body.data + PART_BYTES, "tail");
    assert_header(f, "x-amz-meta-a", "1");
    assert_header(f, "Content-Type", "text/plain");
    want(f, 206, "GET", "/bucket/key?partNumber=2", "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "tail");
    assert_header(f, "Content-Range", "bytes 40000-40003/40004");
    assert_header(f, "x-amz-mp-parts-count", "2");
    want(f, 206, "HEAD", "/bucket/key?partNumber=1", "", SLICE_EMPTY);
    assert_header(f, "Content-Length", "40000");
    want_error(f, "InvalidPartNumber", "GET", "/bucket/key?partNumber=3", "", SLICE_EMPTY);
    want(f, 206, "GET", "/bucket/key", "Range: bytes=39999-40000\r\n", SLICE_EMPTY);
    assert_string_equal(f->body.data, "pt");
}

/* A client that lost the answer of its Complete asks again: it must not be told that its upload is
 * gone. */
static void complete_is_repeatable(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    const char *etag = send_part(f, id, 1, SLICE("only"));
    struct slice list = manifest(f, listed(f, 1, etag));
    const char *first;

    want(f, 200, "POST", target(f, id, ""), "", list);
    first = s3_body_element(f, "ETag");
    want(f, 200, "POST", target(f, id, ""), "", list);
    assert_string_equal(s3_body_element(f, "ETag"), first);
    want_error(f, "NoSuchUpload", "POST", target(f, id, ""), "",
               manifest(f, listed(f, 1, "00000000000000000000000000000000")));
}

/* ETags with, without, and with escaped quotes are the same ETag. */
static void quotes_are_optional(void **state)
{
    static const char *const forms[] = {"%s", "\"%s\"", "&quot;%s&quot;", " %s "};
    struct s3_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const char *id = create(f, "");
        const char *etag = send_part(f, id, 1, SLICE("only"));
        struct slice bare = slice_of(etag + 1, strlen(etag) - 2);
        struct slice text = SLICE("");

        for (const char *at = forms[i]; *at != '\0'; at++) {
            if (at[0] == '%' && at[1] == 's') {
                text = arena_printf(&f->arena, "%s%.*s", text.data, (int)bare.len, bare.data);
                at += 1;
            } else {
                text = arena_printf(&f->arena, "%s%c", text.data, *at);
            }
        }
        want(f, 200, "POST", target(f, id, ""), "", manifest(f, listed(f, 1, text.data)));
    }
}

/* A wrong list must never make an object. */
static void wrong_lists(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    const char *one = listed(f, 1, send_part(f, id, 1, whole_part()));
    const char *two = listed(f, 2, send_part(f, id, 2, SLICE("small")));
    const char *three = listed(f, 3, send_part(f, id, 3, SLICE("last")));
    const struct {
        struct slice list;
        const char *code;
    } rows[] = {
        {manifest(f, arena_printf(&f->arena, "%s%s", two, one).data), "InvalidPartOrder"},
        {manifest(f, arena_printf(&f->arena, "%s%s", one, one).data), "InvalidPartOrder"},
        {manifest(f, listed(f, 5, "5d41402abc4b2a76b9719d911017c592")), "InvalidPart"},
        {manifest(f, listed(f, 1, "5d41402abc4b2a76b9719d911017c592")), "InvalidPart"},
        {manifest(f, listed(f, 1, "nonsense")), "InvalidPart"},
        {manifest(f, arena_printf(&f->arena, "%s%s%s", one, two, three).data), "EntityTooSmall"},
        {manifest(f, listed(f, 10001, "5d41402abc4b2a76b9719d911017c592")), "InvalidArgument"},
        {manifest(f, ""), "MalformedXML"},
        {SLICE("<CompleteMultipartUpload>"), "MalformedXML"},
        {SLICE("<Other/>"), "MalformedXML"},
        {SLICE_EMPTY, "MalformedXML"},
        {manifest(f, "<Part><PartNumber>1</PartNumber></Part>"), "MalformedXML"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        want_error(f, rows[i].code, "POST", target(f, id, ""), "", rows[i].list);
        assert_int_equal(f->status, 400);
    }
    assert_null(fake_meta_object(&f->meta, "bucket", "key"));
}

/* Ids and numbers that cannot be. */
static void unknown_uploads(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");

    want_error(f, "NoSuchUpload", "PUT", "/bucket/key?uploadId=none&partNumber=1", "", SLICE("x"));
    want_error(f, "NoSuchUpload", "GET", "/bucket/key?uploadId=none", "", SLICE_EMPTY);
    want_error(f, "InvalidArgument", "PUT", target(f, id, "&partNumber=0"), "", SLICE("x"));
    want_error(f, "InvalidArgument", "PUT", target(f, id, "&partNumber=10001"), "", SLICE("x"));
    want_error(f, "MethodNotAllowed", "PUT", target(f, id, ""), "", SLICE("x"));
    want(f, 204, "DELETE", target(f, id, ""), "", SLICE_EMPTY);
    want_error(f, "NoSuchUpload", "DELETE", target(f, id, ""), "", SLICE_EMPTY);
    want_error(f, "NoSuchUpload", "PUT", target(f, id, "&partNumber=1"), "", SLICE("x"));
}

/* Which algorithms go with which type is AWS's table (user-reports B9). */
static void checksum_types(void **state)
{
    static const struct {
        const char *algorithm;
        const char *type;
        const char *result; /* NULL: refused */
    } rows[] = {
        {"CRC32",     NULL,          "COMPOSITE"  },
        {"CRC32C",    NULL,          "COMPOSITE"  },
        {"CRC64NVME", NULL,          "FULL_OBJECT"},
        {"SHA1",      NULL,          "COMPOSITE"  },
        {"SHA256",    NULL,          "COMPOSITE"  },
        {"CRC32",     "FULL_OBJECT", "FULL_OBJECT"},
        {"CRC64NVME", "COMPOSITE",   NULL         },
        {"SHA1",      "FULL_OBJECT", NULL         },
        {"SHA256",    "FULL_OBJECT", NULL         },
        {"MD4",       NULL,          NULL         },
        {NULL,        "COMPOSITE",   NULL         },
        {"CRC32",     "HALF",        NULL         },
    };
    struct s3_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice headers = SLICE("");

        if (rows[i].algorithm != NULL) {
            headers =
                arena_printf(&f->arena, "x-amz-checksum-algorithm: %s\r\n", rows[i].algorithm);
        }
        if (rows[i].type != NULL) {
            headers = arena_printf(&f->arena, "%sx-amz-checksum-type: %s\r\n", headers.data,
                                   rows[i].type);
        }
        if (rows[i].result == NULL) {
            want_error(f, "InvalidRequest", "POST", "/bucket/key?uploads", headers.data,
                       SLICE_EMPTY);
        } else {
            (void)create(f, headers.data);
            assert_header(f, "x-amz-checksum-algorithm", rows[i].algorithm);
            assert_header(f, "x-amz-checksum-type", rows[i].result);
        }
    }
}

/* Composite: every listed part brings its checksum, and it must be that of the part. */
static void composite_checksums(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "x-amz-checksum-algorithm: CRC32\r\n");
    const char *etag;
    const char *sum;

    want(f, 200, "PUT", target(f, id, "&partNumber=1"), crc32_header(f, SLICE("only")),
         SLICE("only"));
    etag = s3_reply_value(f, "ETag");
    sum = s3_reply_value(f, "x-amz-checksum-crc32");
    assert_non_null(sum);
    want_error(f, "InvalidRequest", "PUT", target(f, id, "&partNumber=2"),
               "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n", SLICE_EMPTY);
    want_error(f, "InvalidRequest", "POST", target(f, id, ""), "", manifest(f, listed(f, 1, etag)));
    assert_true(s3_body_has(f, "part 1"));
    want_error(
        f, "InvalidPart", "POST", target(f, id, ""), "",
        arena_printf(&f->arena,
                     "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag>"
                     "<ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>",
                     etag));
    want_error(f, "InvalidRequest", "POST", target(f, id, ""),
               "x-amz-checksum-type: FULL_OBJECT\r\n", manifest(f, listed(f, 1, etag)));
    want(f, 200, "POST", target(f, id, ""), "",
         arena_printf(&f->arena,
                      "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag>"
                      "<ChecksumCRC32>%s</ChecksumCRC32></Part></CompleteMultipartUpload>",
                      etag, sum));
}

/* What the client says the whole must be is compared before it exists. */
static void object_size_header(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    struct slice list = manifest(f, listed(f, 1, send_part(f, id, 1, SLICE("only"))));

    want_error(f, "InvalidRequest", "POST", target(f, id, ""), "x-amz-mp-object-size: 5\r\n", list);
    want_error(f, "InvalidRequest", "POST", target(f, id, ""), "x-amz-mp-object-size: x\r\n", list);
    want(f, 200, "POST", target(f, id, ""), "x-amz-mp-object-size: 4\r\n", list);
}

/* A part that is sent again replaces the first; pages of parts come by number. */
static void parts_page(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");

    (void)send_part(f, id, 1, SLICE("old"));
    (void)send_part(f, id, 1, SLICE("newer"));
    (void)send_part(f, id, 3, SLICE("three"));
    want(f, 200, "GET", target(f, id, "&max-parts=1"), "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "Size"), "5");
    assert_string_equal(s3_body_element(f, "IsTruncated"), "true");
    assert_string_equal(s3_body_element(f, "NextPartNumberMarker"), "1");
    want(f, 200, "GET", target(f, id, "&max-parts=1&part-number-marker=1"), "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "PartNumber"), "3");
    assert_string_equal(s3_body_element(f, "IsTruncated"), "false");
    want_error(f, "InvalidArgument", "GET", target(f, id, "&part-number-marker=x"), "",
               SLICE_EMPTY);
}

/* A part made of another object's range: by reference when it has extents, by its bytes when
 * inline. */
static void part_copies(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    const char *first;
    const char *second;

    want(f, 200, "PUT", "/bucket/big", "", whole_part());
    put(f, "small", "0123456789");
    want(f, 200, "PUT", target(f, id, "&partNumber=1"), "x-amz-copy-source: /bucket/big\r\n",
         SLICE_EMPTY);
    first = s3_body_element(f, "ETag");
    want(f, 200, "PUT", target(f, id, "&partNumber=2"),
         "x-amz-copy-source: /bucket/small\r\nx-amz-copy-source-range: bytes=2-4\r\n", SLICE_EMPTY);
    second = s3_body_element(f, "ETag");
    want(f, 200, "POST", target(f, id, ""), "",
         manifest(f,
                  arena_printf(&f->arena, "%s%s", listed(f, 1, first), listed(f, 2, second)).data));
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_int_equal(f->body.len, PART_BYTES + 3);
    assert_string_equal(f->body.data + PART_BYTES, "234");
}

/* An upload that wants checksums gets them for copied ranges too, and then the ETag is the MD5. */
static void part_copies_with_checksums(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "x-amz-checksum-algorithm: CRC32\r\n");
    const char *etag;
    const char *sum;

    want(f, 200, "PUT", "/bucket/big", "", whole_part());
    want(f, 200, "PUT", target(f, id, "&partNumber=1"),
         "x-amz-copy-source: /bucket/big\r\nx-amz-copy-source-range: bytes=10-30000\r\n",
         SLICE_EMPTY);
    sum =
        arena_printf(&f->arena, "x-amz-checksum-crc32: %s\r\n", s3_body_element(f, "ChecksumCRC32"))
            .data;
    etag = s3_body_element(f, "ETag");
    assert_string_equal(sum, crc32_header(f, slice_of(part_body, 29991)));
    want(f, 200, "PUT", "/bucket/same", "", slice_of(part_body, 29991));
    assert_memory_equal(etag + strlen("&quot;"), s3_reply_value(f, "ETag") + 1, 32);
}

/* What may be wrong with the copy of a part. */
static void part_copy_refusals(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    const char *part = target(f, id, "&partNumber=1");

    put(f, "small", "0123456789");
    want_error(f, "InvalidArgument", "PUT", part,
               "x-amz-copy-source: /bucket/small\r\nx-amz-copy-source-range: bytes=2-10\r\n",
               SLICE_EMPTY);
    want_error(f, "InvalidArgument", "PUT", part,
               "x-amz-copy-source: /bucket/small\r\nx-amz-copy-source-range: bytes=2-\r\n",
               SLICE_EMPTY);
    want_error(f, "NoSuchKey", "PUT", part, "x-amz-copy-source: /bucket/none\r\n", SLICE_EMPTY);
    want_error(f, "PreconditionFailed", "PUT", part,
               "x-amz-copy-source: /bucket/small\r\nx-amz-copy-source-if-match: \"x\"\r\n",
               SLICE_EMPTY);
    want_error(f, "NoSuchUpload", "PUT", "/bucket/key?uploadId=none&partNumber=1",
               "x-amz-copy-source: /bucket/small\r\n", SLICE_EMPTY);
}

/* A part whose commit is refused leaves no shards behind. */
static void refused_parts_are_discarded(void **state)
{
    struct s3_fixture *f = *state;
    const char *id = create(f, "");
    uint32_t before = f->data.shard_count;

    f->meta.write_rc = RC_NO_QUORUM;
    want_error(f, "ServiceUnavailable", "PUT", target(f, id, "&partNumber=1"), "", whole_part());
    sim_run_for(f->sim, SIM_S);
    assert_int_equal(f->data.shard_count, before);
}

#undef BOTH
#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, setup, cases_teardown),                                  \
        cmocka_unit_test_setup_teardown(test, setup_later, cases_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(life),
        BOTH(complete_is_repeatable),
        BOTH(quotes_are_optional),
        BOTH(wrong_lists),
        BOTH(unknown_uploads),
        BOTH(checksum_types),
        BOTH(composite_checksums),
        BOTH(object_size_header),
        BOTH(parts_page),
        BOTH(part_copies),
        BOTH(part_copies_with_checksums),
        BOTH(part_copy_refusals),
        BOTH(refused_parts_are_discarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
