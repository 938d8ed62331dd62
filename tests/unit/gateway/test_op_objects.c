/* PutObject, GetObject, HeadObject, DeleteObject, DeleteObjects, CopyObject and the operations on
 * buckets, as a client sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "tests/unit/gateway/s3_cases.h"

#define HELLO_MD5   "\"5d41402abc4b2a76b9719d911017c592\"" /* "hello" */
#define HELLO_CRC32 "NhCmhg=="
#define HELLO_CRC64 "M3eFcAZSQlc="

/* ---- Buckets ---- */

/* What a client does first: make one, see it in the list, ask where it is, delete it. */
static void bucket_life(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/second", "", SLICE_EMPTY);
    assert_header(f, "Location", "/second");
    want(f, 200, "GET", "/", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Name>bucket</Name>"));
    assert_true(s3_body_has(f, "<Name>second</Name>"));
    assert_true(s3_body_has(f, "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""));
    want(f, 200, "HEAD", "/second", "", SLICE_EMPTY);
    assert_header(f, "x-amz-bucket-region", "us-east-1");
    want(f, 200, "GET", "/second?location", "", SLICE_EMPTY);
    assert_true(s3_body_has(f, "LocationConstraint"));
    assert_false(s3_body_has(f, "us-east-1"));
    want(f, 204, "DELETE", "/second", "", SLICE_EMPTY);
    want_error(f, "NoSuchBucket", "DELETE", "/second", "", SLICE_EMPTY);
    want(f, 404, "HEAD", "/second", "", SLICE_EMPTY);
}

/* A bucket with something in it must not vanish. */
static void full_buckets_stay(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "x");
    want_error(f, "BucketNotEmpty", "DELETE", "/bucket", "", SLICE_EMPTY);
    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    want(f, 204, "DELETE", "/bucket", "", SLICE_EMPTY);
}

/* Whose name it is decides between success, 409 and another 409; AWS's us-east-1 forgives the
 * owner. */
static void names_are_taken(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket", "", SLICE_EMPTY);
    f->user = 1;
    want_error(f, "BucketAlreadyExists", "PUT", "/bucket", "", SLICE_EMPTY);
    assert_int_equal(f->status, 409);
    f->user = 0;
    want_error(f, "InvalidBucketName", "PUT", "/Bad_Name", "", SLICE_EMPTY);
}

/* Buckets live in one region: another one is refused, not silently ignored. */
static void location_constraints(void **state)
{
    static const struct {
        const char *body;
        const char *code; /* NULL: 200 */
    } rows[] = {
        {"<CreateBucketConfiguration "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>"
         "us-east-1</LocationConstraint></CreateBucketConfiguration>", NULL                                },
        {"<CreateBucketConfiguration/>",                                        NULL                                },
        {"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
         "</CreateBucketConfiguration>",                               "IllegalLocationConstraintException"},
        {"<CreateBucketConfiguration><LocationConstraint>moon</LocationConstraint>"
         "</CreateBucketConfiguration>",                               "InvalidLocationConstraint"         },
        {"<CreateBucketConfiguration>",                                         "MalformedXML"                      },
        {"<Other/>",                                                            "MalformedXML"                      },
    };
    struct s3_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == NULL) {
            want(f, 200, "PUT", "/placed", "", slice_str(rows[i].body));
        } else {
            want_error(f, rows[i].code, "PUT", "/placed", "", slice_str(rows[i].body));
        }
    }
}

/* Users see their own buckets, page by page. */
static void bucket_list_pages(void **state)
{
    struct s3_fixture *f = *state;
    const char *token;

    f->user = 1;
    want(f, 200, "PUT", "/alice-a", "", SLICE_EMPTY);
    want(f, 200, "PUT", "/alice-b", "", SLICE_EMPTY);
    want(f, 200, "PUT", "/alice-c", "", SLICE_EMPTY);
    want(f, 200, "GET", "/?max-buckets=2", "", SLICE_EMPTY);
    assert_false(s3_body_has(f, "<Name>bucket</Name>"));
    assert_true(s3_body_has(f, "<Name>alice-b</Name>"));
    assert_false(s3_body_has(f, "<Name>alice-c</Name>"));
    token = s3_body_element(f, "ContinuationToken");
    assert_non_null(token);
    want(f, 200, "GET",
         arena_printf(&f->arena, "/?max-buckets=2&continuation-token=%s", token).data, "",
         SLICE_EMPTY);
    assert_true(s3_body_has(f, "<Name>alice-c</Name>"));
    assert_null(s3_body_element(f, "ContinuationToken"));
    want(f, 200, "GET", "/?prefix=alice-b", "", SLICE_EMPTY);
    assert_false(s3_body_has(f, "<Name>alice-a</Name>"));
    want_error(f, "InvalidArgument", "GET", "/?max-buckets=0", "", SLICE_EMPTY);
}

/* ---- Put, get, head ---- */

/* The reply of a PUT is what clients verify their upload with. */
static void put_reply(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "hello");
    assert_header(f, "ETag", HELLO_MD5);
    assert_header(f, "x-amz-checksum-crc64nvme", HELLO_CRC64);
    assert_header(f, "x-amz-checksum-type", "FULL_OBJECT");
    want(f, 200, "PUT", "/bucket/key", "x-amz-checksum-crc32: " HELLO_CRC32 "\r\n", SLICE("hello"));
    assert_header(f, "x-amz-checksum-crc32", HELLO_CRC32);
    assert_header(f, "x-amz-checksum-crc64nvme", NULL);
}

/* Everything that came with the object comes back with it. */
static void headers_come_back(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/key",
         "Content-Type: text/plain\r\nCache-Control: no-cache\r\nContent-Disposition: inline\r\n"
         "Content-Encoding: gzip, aws-chunked\r\nContent-Language: de\r\nExpires: 0\r\n"
         "x-amz-meta-Name: value\r\nx-amz-meta-umlaut: =?UTF-8?B?w6Q=?=\r\nx-amz-meta-empty:\r\n"
         "x-amz-website-redirect-location: /other\r\nx-amz-storage-class: REDUCED_REDUNDANCY\r\n",
         SLICE("hello"));
    for (int head = 0; head < 2; head++) {
        want(f, 200, head ? "HEAD" : "GET", "/bucket/key", "", SLICE_EMPTY);
        assert_header(f, "Content-Length", "5");
        assert_header(f, "Content-Type", "text/plain");
        assert_header(f, "Cache-Control", "no-cache");
        assert_header(f, "Content-Disposition", "inline");
        assert_header(f, "Content-Encoding", "gzip");
        assert_header(f, "Content-Language", "de");
        assert_header(f, "Expires", "0");
        assert_header(f, "x-amz-meta-name", "value");
        assert_header(f, "x-amz-meta-umlaut", "=?UTF-8?B?w6Q=?=");
        assert_header(f, "x-amz-meta-empty", "");
        assert_header(f, "x-amz-website-redirect-location", "/other");
        assert_header(f, "x-amz-storage-class", "REDUCED_REDUNDANCY");
        assert_header(f, "ETag", HELLO_MD5);
        assert_header(f, "Accept-Ranges", "bytes");
        assert_non_null(s3_reply_value(f, "Last-Modified"));
        assert_header(f, "x-amz-checksum-crc64nvme", NULL);
    }
}

/* Without a Content-Type AWS says so itself; an aws-chunked alone leaves no Content-Encoding at
 * all. */
static void defaults(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/key", "Content-Encoding: aws-chunked\r\n", SLICE_EMPTY);
    want(f, 200, "GET", "/bucket/key", "x-amz-checksum-mode: ENABLED\r\n", SLICE_EMPTY);
    assert_header(f, "Content-Type", "binary/octet-stream");
    assert_header(f, "Content-Encoding", NULL);
    assert_header(f, "Content-Length", "0");
    assert_header(f, "x-amz-checksum-crc64nvme", "AAAAAAAAAAA=");
}

/* 2 KB of user metadata is AWS's limit: one byte more must not be stored. */
static void metadata_limit(void **state)
{
    struct s3_fixture *f = *state;
    char value[2049];

    memset(value, 'v', sizeof(value));
    value[2047] = '\0';
    want(f, 200, "PUT", "/bucket/key", arena_printf(&f->arena, "x-amz-meta-a: %s\r\n", value).data,
         SLICE("x"));
    value[2047] = 'v';
    value[2048] = '\0';
    want_error(f, "MetadataTooLarge", "PUT", "/bucket/key",
               arena_printf(&f->arena, "x-amz-meta-a: %s\r\n", value).data, SLICE("x"));
}

/* A stored checksum is given when asked for, and never for a piece of the object: clients would
 * compare it. */
static void checksum_mode(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "hello");
    want(f, 200, "GET", "/bucket/key", "x-amz-checksum-mode: ENABLED\r\n", SLICE_EMPTY);
    assert_header(f, "x-amz-checksum-crc64nvme", HELLO_CRC64);
    want(f, 206, "GET", "/bucket/key", "x-amz-checksum-mode: ENABLED\r\nRange: bytes=1-2\r\n",
         SLICE_EMPTY);
    assert_header(f, "x-amz-checksum-crc64nvme", NULL);
}

/* Ranges on the wire: status, Content-Range, bytes. */
static void ranges(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "0123456789");
    want(f, 206, "GET", "/bucket/key", "Range: bytes=2-4\r\n", SLICE_EMPTY);
    assert_header(f, "Content-Range", "bytes 2-4/10");
    assert_string_equal(f->body.data, "234");
    want(f, 206, "HEAD", "/bucket/key", "Range: bytes=-3\r\n", SLICE_EMPTY);
    assert_header(f, "Content-Range", "bytes 7-9/10");
    assert_header(f, "Content-Length", "3");
    want_error(f, "InvalidRange", "GET", "/bucket/key", "Range: bytes=10-\r\n", SLICE_EMPTY);
    assert_int_equal(f->status, 416);
    assert_header(f, "Content-Range", "bytes */10");
    want(f, 200, "GET", "/bucket/key", "Range: bytes=2-4\r\nIf-Range: \"other\"\r\n", SLICE_EMPTY);
    assert_int_equal(f->body.len, 10);
    want(f, 206, "GET", "/bucket/key?partNumber=1", "", SLICE_EMPTY);
    assert_header(f, "Content-Range", "bytes 0-9/10");
    want_error(f, "InvalidPartNumber", "GET", "/bucket/key?partNumber=2", "", SLICE_EMPTY);
    want_error(f, "InvalidRequest", "GET", "/bucket/key?partNumber=1", "Range: bytes=0-1\r\n",
               SLICE_EMPTY);
}

/* Every size class of the layouts reads back byte for byte, whole and in ranges across its seams.
 */
static void bodies_of_every_layout(void **state)
{
    static const size_t sizes[] = {1, 16384, 16385, 131072, 131073, 3 * 1024 * 1024 + 5};
    struct s3_fixture *f = *state;
    char *body = malloc(sizes[5]);

    assert_non_null(body);
    for (size_t i = 0; i < sizes[5]; i++) {
        body[i] = (char)(i * 2654435761U >> 13);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        want(f, 200, "PUT", "/bucket/key", "", slice_of(body, sizes[i]));
        want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
        assert_int_equal(f->body.len, sizes[i]);
        assert_memory_equal(f->body.data, body, sizes[i]);
        want(f, 206, "GET", "/bucket/key",
             arena_printf(&f->arena, "Range: bytes=%zu-\r\n", sizes[i] / 2).data, SLICE_EMPTY);
        assert_int_equal(f->body.len, sizes[i] - sizes[i] / 2);
        assert_memory_equal(f->body.data, body + sizes[i] / 2, f->body.len);
    }
    free(body);
}

/* Caches live on 304 with its validators, editors on 412. */
static void conditional_reads(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/key", "Cache-Control: max-age=5\r\n", SLICE("hello"));
    want(f, 304, "GET", "/bucket/key", "If-None-Match: " HELLO_MD5 "\r\n", SLICE_EMPTY);
    assert_header(f, "ETag", HELLO_MD5);
    assert_header(f, "Cache-Control", "max-age=5");
    assert_int_equal(f->body.len, 0);
    want_error(f, "PreconditionFailed", "GET", "/bucket/key", "If-Match: \"x\"\r\n", SLICE_EMPTY);
    assert_int_equal(f->status, 412);
    want(f, 412, "HEAD", "/bucket/key", "If-Match: \"x\"\r\n", SLICE_EMPTY);
    want(f, 200, "GET", "/bucket/key", "If-Match: 5d41402abc4b2a76b9719d911017c592\r\n",
         SLICE_EMPTY);
}

/* Locks and commits of data lakes: the second writer must lose. */
static void conditional_writes(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/key", "If-None-Match: *\r\n", SLICE("hello"));
    want_error(f, "PreconditionFailed", "PUT", "/bucket/key", "If-None-Match: *\r\n",
               SLICE("other"));
    want(f, 200, "PUT", "/bucket/key", "If-Match: " HELLO_MD5 "\r\n", SLICE("other"));
    want_error(f, "PreconditionFailed", "PUT", "/bucket/key", "If-Match: " HELLO_MD5 "\r\n",
               SLICE("third"));
    want_error(f, "NoSuchKey", "PUT", "/bucket/none", "If-Match: " HELLO_MD5 "\r\n", SLICE("x"));
    want_error(f, "NotImplemented", "PUT", "/bucket/key", "If-None-Match: \"x\", \"y\"\r\n",
               SLICE("x"));
    want_error(f, "NotImplemented", "PUT", "/bucket/key",
               "If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT\r\n", SLICE("x"));
    want_error(f, "PreconditionFailed", "DELETE", "/bucket/key", "If-Match: \"x\"\r\n",
               SLICE_EMPTY);
    want(f, 204, "DELETE", "/bucket/key", "If-Match: *\r\n", SLICE_EMPTY);
}

/* Links that name the file for the browser; and a value that would split the header is refused. */
static void response_overrides(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "hello");
    want(f, 200, "GET",
         "/bucket/key?response-content-type=text%2Fhtml&response-content-disposition=attachment%3B"
         "%20filename%3D%22a.txt%22&response-cache-control=no-store",
         "", SLICE_EMPTY);
    assert_header(f, "Content-Type", "text/html");
    assert_header(f, "Content-Disposition", "attachment; filename=\"a.txt\"");
    assert_header(f, "Cache-Control", "no-store");
    want_error(f, "InvalidArgument", "GET", "/bucket/key?response-content-type=a%0D%0Ab%3A%20c", "",
               SLICE_EMPTY);
}

/* A feature that is not enforced must be refused by name, never stored silently. */
static void unsupported_headers(void **state)
{
    static const char *const headers[] = {
        "x-amz-server-side-encryption: AES256\r\n",
        "x-amz-server-side-encryption-customer-algorithm: AES256\r\n",
        "x-amz-storage-class: GLACIER\r\n",
    };
    struct s3_fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        want_error(f, "NotImplemented", "PUT", "/bucket/key", headers[i], SLICE("x"));
        assert_int_equal(f->status, 501);
        assert_non_null(s3_body_element(f, "Header"));
        assert_int_equal(
            strncmp(s3_body_element(f, "Header"), headers[i], strlen(s3_body_element(f, "Header"))),
            0);
    }
    want_error(f, "InvalidStorageClass", "PUT", "/bucket/key", "x-amz-storage-class: FAST\r\n",
               SLICE("x"));
    want_error(f, "InvalidArgument", "PUT", "/bucket/key", "x-amz-acl: everybody\r\n", SLICE("x"));
    want_error(f, "AccessControlListNotSupported", "PUT", "/bucket/key",
               "x-amz-acl: public-read\r\n", SLICE("x"));
    want_error(f, "AccessControlListNotSupported", "PUT", "/bucket/key",
               "x-amz-grant-read: id=1\r\n", SLICE("x"));
    want(f, 200, "PUT", "/bucket/key", "x-amz-acl: private\r\nx-amz-storage-class: STANDARD\r\n",
         SLICE("x"));
    want_error(f, "InvalidArgument", "GET", "/bucket/key?versionId=abc", "", SLICE_EMPTY);
    want(f, 200, "GET", "/bucket/key?versionId=null", "", SLICE_EMPTY);
}

/* A body that is not what was announced never becomes visible, nor replaces what was there. */
static void broken_bodies_are_not_stored(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "hello");
    want_error(f, "BadDigest", "PUT", "/bucket/key", "x-amz-checksum-crc32: AAAAAA==\r\n",
               SLICE("other"));
    want_error(f, "InvalidDigest", "PUT", "/bucket/key", "Content-MD5: short\r\n", SLICE("other"));
    want_error(f, "BadDigest", "PUT", "/bucket/key", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
               SLICE("other"));
    want(f, 200, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "hello");
}

/* ---- Delete ---- */

/* A client that lost our first reply deletes again: that must not look like an error. */
static void delete_is_repeatable(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "key", "x");
    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    want(f, 204, "DELETE", "/bucket/key", "", SLICE_EMPTY);
    want_error(f, "NoSuchKey", "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "Key"), "key");
}

/* A batch says what became of each key; without any digest it is refused whole. */
static void batch_delete(void **state)
{
    const struct slice body = SLICE("<Delete><Object><Key>a</Key></Object><Object><Key>none</Key>"
                                    "</Object><Object><Key>v</Key><VersionId>x</VersionId></Object>"
                                    "<Object><Key>c</Key><ETag>\"zz\"</ETag></Object></Delete>");
    struct s3_fixture *f = *state;

    put(f, "a", "x");
    put(f, "c", "x");
    want_error(f, "InvalidRequest", "POST", "/bucket?delete", "", body);
    want_error(f, "BadDigest", "POST", "/bucket?delete", "x-amz-checksum-crc32: AAAAAA==\r\n",
               body);
    assert_non_null(fake_meta_object(&f->meta, "bucket", "a"));
    want(f, 200, "POST", "/bucket?delete", crc32_header(f, body), body);
    assert_true(s3_body_has(f, "<Deleted><Key>a</Key></Deleted>"));
    assert_true(s3_body_has(f, "<Deleted><Key>none</Key></Deleted>"));
    assert_true(
        s3_body_has(f, "<Error><Key>v</Key><VersionId>x</VersionId><Code>NoSuchVersion</Code>"));
    assert_true(s3_body_has(f, "<Error><Key>c</Key><Code>PreconditionFailed</Code>"));
    assert_null(fake_meta_object(&f->meta, "bucket", "a"));
    assert_non_null(fake_meta_object(&f->meta, "bucket", "c"));
}

/* 1,000 keys are one command when they fit, as few as need be when they do not; 1,001 are refused.
 */
static void batch_limits(void **state)
{
    struct s3_fixture *f = *state;
    struct slice body = SLICE("<Delete><Quiet>true</Quiet>");
    struct buffer text;
    char long_key[1000];

    memset(long_key, 'k', sizeof(long_key) - 1);
    long_key[sizeof(long_key) - 1] = '\0';
    buffer_init(&text);
    for (int which = 0; which < 3; which++) {
        uint32_t writes = f->meta.writes;

        buffer_clear(&text);
        buffer_append(&text, body);
        for (int i = 0; i < (which == 2 ? 1001 : 1000); i++) {
            buffer_printf(&text, "<Object><Key>%s%d</Key></Object>", which == 1 ? long_key : "key-",
                          i);
        }
        buffer_append(&text, SLICE("</Delete>"));
        s3_send(f, "POST", "/bucket?delete", crc32_header(f, buffer_slice(&text)),
                buffer_slice(&text));
        if (which == 2) {
            assert_string_equal(s3_error_of(f), "MalformedXML");
            assert_int_equal(f->meta.writes, writes);
        } else {
            assert_int_equal(f->status, 200);
            assert_false(s3_body_has(f, "<Deleted>"));
            assert_true(which == 0 ? f->meta.writes == writes + 1 : f->meta.writes <= writes + 20);
        }
    }
    buffer_deinit(&text);
}

/* ---- Copy ---- */

/* A copy takes the metadata along, or replaces all of it; the bytes are the same. */
static void copies(void **state)
{
    struct s3_fixture *f = *state;

    want(f, 200, "PUT", "/bucket/from", "x-amz-meta-a: 1\r\nContent-Type: text/plain\r\n",
         SLICE("hello"));
    want(f, 200, "PUT", "/bucket/to", "x-amz-copy-source: /bucket/from\r\n", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "ETag"), "&quot;5d41402abc4b2a76b9719d911017c592&quot;");
    assert_string_equal(s3_body_element(f, "ChecksumCRC64NVME"), HELLO_CRC64);
    want(f, 200, "GET", "/bucket/to", "", SLICE_EMPTY);
    assert_string_equal(f->body.data, "hello");
    assert_header(f, "x-amz-meta-a", "1");
    want(f, 200, "PUT", "/bucket/to",
         "x-amz-copy-source: bucket/from\r\nx-amz-metadata-directive: REPLACE\r\nx-amz-meta-b: "
         "2\r\n",
         SLICE_EMPTY);
    want(f, 200, "GET", "/bucket/to", "", SLICE_EMPTY);
    assert_header(f, "x-amz-meta-a", NULL);
    assert_header(f, "x-amz-meta-b", "2");
    assert_header(f, "Content-Type", "binary/octet-stream");
}

/* What may go wrong with a copy, and what each is called. */
static void copy_refusals(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "from", "hello");
    want_error(f, "InvalidRequest", "PUT", "/bucket/from", "x-amz-copy-source: /bucket/from\r\n",
               SLICE_EMPTY);
    want(f, 200, "PUT", "/bucket/from",
         "x-amz-copy-source: /bucket/from\r\nx-amz-metadata-directive: REPLACE\r\n", SLICE_EMPTY);
    want_error(f, "NoSuchKey", "PUT", "/bucket/to", "x-amz-copy-source: /bucket/none\r\n",
               SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "Key"), "none");
    want_error(f, "NoSuchBucket", "PUT", "/bucket/to", "x-amz-copy-source: /nowhere/k\r\n",
               SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "BucketName"), "nowhere");
    want_error(f, "InvalidArgument", "PUT", "/bucket/to", "x-amz-copy-source: nokey\r\n",
               SLICE_EMPTY);
    want_error(f, "InvalidArgument", "PUT", "/bucket/to",
               "x-amz-copy-source: /bucket/from\r\nx-amz-metadata-directive: MERGE\r\n",
               SLICE_EMPTY);
    want_error(f, "InvalidArgument", "PUT", "/bucket/to",
               "x-amz-copy-source: /bucket/from?versionId=abc\r\n", SLICE_EMPTY);
    want_error(f, "PreconditionFailed", "PUT", "/bucket/to",
               "x-amz-copy-source: /bucket/from\r\nx-amz-copy-source-if-match: \"x\"\r\n",
               SLICE_EMPTY);
    want_error(f, "PreconditionFailed", "PUT", "/bucket/to",
               "x-amz-copy-source: /bucket/from\r\nx-amz-copy-source-if-none-match: " HELLO_MD5
               "\r\n",
               SLICE_EMPTY);
    f->config.copy_bytes_max = 4;
    want_error(f, "InvalidRequest", "PUT", "/bucket/to", "x-amz-copy-source: /bucket/from\r\n",
               SLICE_EMPTY);
}

/* A checksum that the source does not have is computed from its bytes, inline or not. */
static void copy_computes_checksums(void **state)
{
    static char big[200000];
    struct s3_fixture *f = *state;
    const char *sum;

    memset(big, 'b', sizeof(big));
    put(f, "from", "hello");
    want(f, 200, "PUT", "/bucket/to",
         "x-amz-copy-source: /bucket/from\r\nx-amz-checksum-algorithm: CRC32\r\n", SLICE_EMPTY);
    assert_string_equal(s3_body_element(f, "ChecksumCRC32"), HELLO_CRC32);
    want(f, 200, "PUT", "/bucket/from", "", slice_of(big, sizeof(big)));
    want(f, 200, "PUT", "/bucket/to",
         "x-amz-copy-source: /bucket/from\r\nx-amz-checksum-algorithm: CRC32\r\n", SLICE_EMPTY);
    sum =
        arena_printf(&f->arena, "x-amz-checksum-crc32: %s\r\n", s3_body_element(f, "ChecksumCRC32"))
            .data;
    assert_string_equal(sum, crc32_header(f, slice_of(big, sizeof(big))));
    want(f, 200, "GET", "/bucket/to", "", SLICE_EMPTY);
    assert_int_equal(f->body.len, sizeof(big));
}

/* Reading another's object through a copy needs the right to read it. */
static void copy_needs_the_source(void **state)
{
    struct s3_fixture *f = *state;

    put(f, "from", "hello");
    f->user = 1;
    want(f, 200, "PUT", "/of-alice", "", SLICE_EMPTY);
    want_error(f, "AccessDenied", "PUT", "/of-alice/k", "x-amz-copy-source: /bucket/from\r\n",
               SLICE_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(bucket_life),
        BOTH(full_buckets_stay),
        BOTH(names_are_taken),
        BOTH(location_constraints),
        BOTH(bucket_list_pages),
        BOTH(put_reply),
        BOTH(headers_come_back),
        BOTH(defaults),
        BOTH(metadata_limit),
        BOTH(checksum_mode),
        BOTH(ranges),
        BOTH(bodies_of_every_layout),
        BOTH(conditional_reads),
        BOTH(conditional_writes),
        BOTH(response_overrides),
        BOTH(unsupported_headers),
        BOTH(broken_bodies_are_not_stored),
        BOTH(delete_is_repeatable),
        BOTH(batch_delete),
        BOTH(batch_limits),
        BOTH(copies),
        BOTH(copy_refusals),
        BOTH(copy_computes_checksums),
        BOTH(copy_needs_the_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
