/* Bodies in all five forms: what passes, what is refused and why, at every way to split the bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* After the four above. */
#include <cmocka.h>

#include "common/codec/hex.h"
#include "gateway/auth/payload.h"
#include "tests/unit/gateway/fake_http.h"
#include "tests/unit/gateway/request_text.h"

#define HELLO_SHA   "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define HELLO_MD5   "XUFAKrxLKna5cZ2REBfFkg=="
#define HELLO_CRC32 "NhCmhg=="

struct fixture {
    struct fake_http http;
    struct sigv4_result auth;
    struct payload payload;
    struct payload_read read;
    const char *text;
    bool done;
    size_t piece; /* bytes of one payload_read() */
    char body[70000];
    size_t body_len;
};

static int setup(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    fake_http_init(&f->http);
    f->piece = 1000;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    payload_deinit(&f->payload);
    fake_http_deinit(&f->http);
    mem_free(f);
    return 0;
}

static void again(struct fixture *f)
{
    payload_deinit(&f->payload);
    fake_http_deinit(&f->http);
    fake_http_init(&f->http);
    memset(&f->payload, 0, sizeof(f->payload));
    f->body_len = 0;
}

static void on_read(struct payload_read *read)
{
    struct fixture *f = CONTAINER_OF(read, struct fixture, read);

    f->done = true;
}

static enum s3_error begin(struct fixture *f, const char *headers, struct slice body)
{
    struct payload_options options = {
        .auth = &f->auth, .md5 = true, .also = 1U << CHECKSUM_CRC64NVME, .length_max = 65000};
    struct slice head;

    head = arena_printf(&f->http.arena, "PUT /b/k HTTP/1.1\r\nhost: h\r\n%s", headers);
    request_from_text(&f->http.arena, head.data, &f->http.exchange.request);
    f->http.body = body;
    f->read.done = on_read;
    return payload_init(&f->payload, &f->http.exchange, &options, &f->text);
}

/* Reads to the end; returns what the payload says then. */
static enum s3_error drain(struct fixture *f)
{
    do {
        f->done = false;
        if (!payload_read(&f->payload, &f->read, f->body + f->body_len, f->piece)) {
            while (!f->done) {
                assert_true(fake_http_run(&f->http));
            }
        }
        f->body_len += f->read.len;
        assert_true(f->read.len == f->piece || f->read.end);
    } while (!f->read.end);
    return f->payload.error;
}

static enum s3_error whole(struct fixture *f, enum payload_mode mode, const char *headers,
                           const char *body)
{
    enum s3_error error;

    again(f);
    f->auth.mode = mode;
    error = begin(f, headers, slice_str(body));
    return error == S3_OK ? drain(f) : error;
}

/* ---- Plain bodies ---- */

/* The everyday PUT: bytes arrive as sent, with ETag, digests and length. */
static void plain_body(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(hex_decode(SLICE(HELLO_SHA), f->auth.payload_sha256, 32), true);
    assert_int_equal(whole(f, PAYLOAD_SHA256,
                           "content-length: 5\r\ncontent-md5: " HELLO_MD5
                           "\r\nx-amz-checksum-crc32: " HELLO_CRC32
                           "\r\nx-amz-sdk-checksum-algorithm: CRC32\r\n",
                           "hello"),
                     S3_OK);
    assert_int_equal(f->body_len, 5);
    assert_memory_equal(f->body, "hello", 5);
    assert_true(f->payload.has_length);
    assert_int_equal(f->payload.length, 5);
    assert_int_equal(f->payload.received, 5);
    assert_int_equal(f->payload.algorithm, CHECKSUM_CRC32);
    assert_memory_equal(f->payload.md5, "\x5d\x41\x40\x2a", 4);
    assert_int_equal(f->payload.checksums[CHECKSUM_CRC32].algorithm, CHECKSUM_CRC32);
    assert_int_equal(f->payload.checksums[CHECKSUM_CRC64NVME].algorithm, CHECKSUM_CRC64NVME);
    assert_int_equal(f->payload.checksums[CHECKSUM_SHA256].algorithm, CHECKSUM_NONE);
}

/* Zero bytes are an object too. */
static void empty_bodies(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, "content-length: 0\r\n", ""), S3_OK);
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, "transfer-encoding: chunked\r\n", ""), S3_OK);
    assert_false(f->payload.has_length);
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED_TRAILER,
                           "transfer-encoding: chunked\r\nx-amz-decoded-content-length: 0\r\n",
                           "0\r\n\r\n"),
                     S3_OK);
    assert_int_equal(f->payload.received, 0);
}

/* A body that fills the read exactly ends with it when the length is known, else with the next one.
 */
static void exact_fit(void **state)
{
    struct fixture *f = *state;

    f->piece = 5;
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, "content-length: 5\r\n", "hello"), S3_OK);
    assert_int_equal(f->read.len, 5);
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, "transfer-encoding: chunked\r\n", "hello"), S3_OK);
    assert_int_equal(f->read.len, 0);
    assert_int_equal(f->body_len, 5);
}

#define LENGTH "content-length: 5\r\n"

/* What the headers alone give away is refused before the body is asked for. */
static void refused_by_headers(void **state)
{
    static const struct {
        enum payload_mode mode;
        const char *headers;
        enum s3_error error;
    } rows[] = {
        {PAYLOAD_UNSIGNED,         "",                                                             S3_MissingContentLength},
        {PAYLOAD_UNSIGNED,         "content-length: 65001\r\n",                                    S3_EntityTooLarge      },
        {PAYLOAD_UNSIGNED_TRAILER, LENGTH,                                                         S3_MissingContentLength},
        {PAYLOAD_UNSIGNED_TRAILER, LENGTH "x-amz-decoded-content-length: x\r\n",
         S3_MissingContentLength                                                                                          },
        {PAYLOAD_UNSIGNED_TRAILER, LENGTH "x-amz-decoded-content-length: 65001\r\n",
         S3_EntityTooLarge                                                                                                },
        {PAYLOAD_UNSIGNED,         LENGTH "content-md5: \r\n",                                     S3_InvalidDigest       },
        {PAYLOAD_UNSIGNED,         LENGTH "content-md5: abc\r\n",                                  S3_InvalidDigest       },
        {PAYLOAD_UNSIGNED,         LENGTH "content-md5: " HELLO_CRC32 "\r\n",                      S3_InvalidDigest       },
        {PAYLOAD_UNSIGNED,         LENGTH "x-amz-checksum-crc32: abc\r\n",                         S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED,         LENGTH "x-amz-checksum-sha256: " HELLO_CRC32 "\r\n",            S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED,
         LENGTH "x-amz-checksum-crc32: " HELLO_CRC32 "\r\nx-amz-checksum-crc32c: " HELLO_CRC32
                "\r\n",                                                                            S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED,
         LENGTH "x-amz-checksum-crc32: " HELLO_CRC32 "\r\nx-amz-sdk-checksum-algorithm: SHA1\r\n",
         S3_InvalidRequest                                                                                                },
        {PAYLOAD_UNSIGNED,         LENGTH "x-amz-sdk-checksum-algorithm: SHA1\r\n",                S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED,         LENGTH "x-amz-trailer: x-amz-checksum-crc32\r\n",               S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED_TRAILER,
         LENGTH "x-amz-decoded-content-length: 5\r\nx-amz-trailer: etag\r\n",                      S3_InvalidRequest      },
        {PAYLOAD_UNSIGNED_TRAILER,
         LENGTH "x-amz-decoded-content-length: 5\r\nx-amz-trailer: x-amz-checksum-crc32\r\n"
                "x-amz-checksum-crc32c: " HELLO_CRC32 "\r\n",
         S3_InvalidRequest                                                                                                },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        again(f);
        f->auth.mode = rows[i].mode;
        assert_int_equal(begin(f, rows[i].headers, SLICE("hello")), rows[i].error);
        assert_int_equal(f->http.given, 0);
    }
}

/* In CompleteMultipartUpload the checksum headers describe the object: the XML must not be
 * compared. */
static void complete_keeps_object_checksums(void **state)
{
    struct payload_options options = {.length_max = 1000};
    struct fixture *f = *state;

    options.auth = &f->auth;
    request_from_text(&f->http.arena,
                      "POST /b/k?uploadId=x HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n"
                      "x-amz-checksum-sha256: abc-2\r\n",
                      &f->http.exchange.request);
    f->http.exchange.request.method = HTTP_POST;
    f->http.body = SLICE("hello");
    f->read.done = on_read;
    assert_int_equal(payload_init(&f->payload, &f->http.exchange, &options, &f->text), S3_OK);
    assert_int_equal(drain(f), S3_OK);
    assert_int_equal(f->payload.algorithm, CHECKSUM_NONE);
}

/* One flipped bit must never be stored as if it were right. */
static void plain_mismatches(void **state)
{
    struct fixture *f = *state;

    memset(f->auth.payload_sha256, 0, 32);
    assert_int_equal(whole(f, PAYLOAD_SHA256, LENGTH, "hello"), S3_XAmzContentSHA256Mismatch);
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, LENGTH "content-md5: " HELLO_MD5 "\r\n", "hellp"),
                     S3_BadDigest);
    assert_int_equal(
        whole(f, PAYLOAD_UNSIGNED, LENGTH "x-amz-checksum-crc32: " HELLO_CRC32 "\r\n", "hellp"),
        S3_BadDigest);
    assert_string_equal(f->payload.error_text,
                        "The CRC32 you specified did not match the calculated checksum.");
}

/* A client that hangs up has not sent an object. */
static void cut_short(void **state)
{
    struct fixture *f = *state;

    again(f);
    f->auth.mode = PAYLOAD_UNSIGNED;
    assert_int_equal(begin(f, "content-length: 9\r\n", SLICE("hello")), S3_OK);
    f->http.cut = true;
    assert_int_equal(drain(f), S3_IncompleteBody);
    assert_int_equal(whole(f, PAYLOAD_UNSIGNED, "content-length: 9\r\n", "hello"),
                     S3_IncompleteBody);
}

/* Without an announced length the limit shows only on the way. */
static void too_long_on_the_way(void **state)
{
    struct fixture *f = *state;

    again(f);
    f->auth.mode = PAYLOAD_UNSIGNED;
    assert_int_equal(begin(f, "transfer-encoding: chunked\r\n", SLICE("0123456789")), S3_OK);
    f->http.repeat = true;
    f->http.body_bytes = 66000;
    assert_int_equal(drain(f), S3_EntityTooLarge);
}

/* ---- Chunks and trailers ---- */

#define DECODED "content-length: 100\r\nx-amz-decoded-content-length: 5\r\n"
#define TRAILED DECODED "x-amz-trailer: x-amz-checksum-crc32\r\n"

/* Reports A2 and A3: every fault of the framing has its answer, and none is stored. */
static void unsigned_framing(void **state)
{
    static const struct {
        const char *headers;
        const char *body;
        enum s3_error error;
    } rows[] = {
        {DECODED, "5\r\nhello\r\n0\r\n\r\n",                                           S3_OK                   },
        {DECODED, "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",                                  S3_InvalidChunkSizeError},
        {DECODED, "0005\r\nhello\r\n000\r\n\r\n",                                      S3_OK                   },
        {TRAILED, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" HELLO_CRC32 "\r\n\r\n",   S3_OK                   },
        {TRAILED, "5\r\nhello\r\n0\r\nX-Amz-Checksum-Crc32: " HELLO_CRC32 " \r\n\r\n", S3_OK                   },
        {TRAILED, "5\r\nhellp\r\n0\r\nx-amz-checksum-crc32:" HELLO_CRC32 "\r\n\r\n",   S3_BadDigest            },
        {TRAILED, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:abc\r\n\r\n",               S3_InvalidRequest       },
        {TRAILED, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:" HELLO_CRC32 "\r\n\r\n",
         S3_MalformedTrailerError                                                                              },
        {TRAILED, "5\r\nhello\r\n0\r\n\r\n",                                           S3_MalformedTrailerError},
        {TRAILED, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32\r\n\r\n",                   S3_MalformedTrailerError},
        {TRAILED,
         "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" HELLO_CRC32
         "\r\nx-amz-checksum-crc32:" HELLO_CRC32 "\r\n\r\n",
         S3_MalformedTrailerError                                                                              },
        {DECODED, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" HELLO_CRC32 "\r\n\r\n",
         S3_MalformedTrailerError                                                                              },
        {DECODED, "5\r\nhello\r\n0\r\n\r",                                             S3_IncompleteBody       },
        {DECODED, "5\r\nhello\r\n0\r\n",                                               S3_IncompleteBody       },
        {DECODED, "5\r\nhello\r\n0\r\n\rx",                                            S3_IncompleteBody       },
        {DECODED, "5\r\nhello\r\n0\r\n\r\nx",                                          S3_IncompleteBody       },
        {DECODED, "5\r\nhello\r\n",                                                    S3_IncompleteBody       },
        {DECODED, "5\r\nhel",                                                          S3_IncompleteBody       },
        {DECODED, "5\r\nhello0\r\n\r\n",                                               S3_IncompleteBody       },
        {DECODED, "5\nhello\n0\n\n",                                                   S3_IncompleteBody       },
        {DECODED, "6\r\nhello!\r\n0\r\n\r\n",                                          S3_IncompleteBody       },
        {DECODED, "4\r\nhell\r\n0\r\n\r\n",                                            S3_IncompleteBody       },
        {DECODED, "-5\r\nhello\r\n0\r\n\r\n",                                          S3_IncompleteBody       },
        {DECODED, " 5\r\nhello\r\n0\r\n\r\n",                                          S3_IncompleteBody       },
        {DECODED, "5;a=b\r\nhello\r\n0\r\n\r\n",                                       S3_IncompleteBody       },
        {DECODED, "\r\nhello\r\n0\r\n\r\n",                                            S3_IncompleteBody       },
        {DECODED, "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",                           S3_IncompleteBody       },
        {DECODED, "hello",                                                             S3_IncompleteBody       },
        {DECODED, "",                                                                  S3_IncompleteBody       },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum s3_error error = whole(f, PAYLOAD_UNSIGNED_TRAILER, rows[i].headers, rows[i].body);

        if (error != rows[i].error) {
            print_error("row %zu: %s\n", i, rows[i].body);
        }
        assert_int_equal(error, rows[i].error);
        if (error == S3_OK) {
            assert_int_equal(f->body_len, 5);
            assert_memory_equal(f->body, "hello", 5);
        }
    }
}

/* AWS's published upload: two chunks of 'a', signed. */
static void aws_seed(struct fixture *f, enum payload_mode mode, const char *seed)
{
    f->auth.mode = mode;
    f->auth.date = SLICE("20130524T000000Z");
    f->auth.scope = SLICE("20130524/us-east-1/s3/aws4_request");
    assert_true(
        hex_decode(SLICE("dbb893acc010964918f1fd433add87c70e8b0db6be30c1fbeafefa5ec6ba8378"),
                   f->auth.signing_key, 32));
    memcpy(f->auth.seed_signature, seed, 64);
}

static struct slice aws_body(struct fixture *f, const char *one, const char *two, const char *last,
                             const char *end)
{
    char *data = arena_alloc(&f->http.arena, 70000);
    size_t at = (size_t)snprintf(data, 1000, "10000;chunk-signature=%s\r\n", one);

    memset(data + at, 'a', 65536);
    at += 65536;
    at += (size_t)snprintf(data + at, 1000, "\r\n400;chunk-signature=%s\r\n", two);
    memset(data + at, 'a', 1024);
    at += 1024;
    at += (size_t)snprintf(data + at, 1000, "\r\n0;chunk-signature=%s\r\n%s\r\n", last, end);
    return slice_of(data, at);
}

static enum s3_error aws_upload(struct fixture *f, const char *trailer, struct slice body)
{
    struct payload_options options = {.auth = &f->auth, .length_max = 100000};

    request_from_text(
        &f->http.arena,
        arena_printf(&f->http.arena,
                     "PUT /examplebucket/chunkObject.txt HTTP/1.1\r\nhost: h\r\n"
                     "content-length: 66824\r\nx-amz-decoded-content-length: 66560\r\n%s",
                     trailer)
            .data,
        &f->http.exchange.request);
    f->http.body = body;
    f->read.done = on_read;
    assert_int_equal(payload_init(&f->payload, &f->http.exchange, &options, &f->text), S3_OK);
    return drain(f);
}

#define SEED "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
#define ONE  "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
#define TWO  "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
#define LAST "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"

/* The documented upload passes; any changed digit, byte or order does not. */
static void signed_chunks(void **state)
{
    struct fixture *f = *state;
    struct slice body;

    aws_seed(f, PAYLOAD_SIGNED_CHUNKS, SEED);
    body = aws_body(f, ONE, TWO, LAST, "");
    assert_int_equal(body.len, 66824);
    assert_int_equal(aws_upload(f, "", body), S3_OK);
    assert_int_equal(f->body_len, 66560);
    again(f);
    assert_int_equal(aws_upload(f, "", aws_body(f, TWO, TWO, LAST, "")), S3_SignatureDoesNotMatch);
    again(f);
    assert_int_equal(aws_upload(f, "", aws_body(f, ONE, ONE, LAST, "")), S3_SignatureDoesNotMatch);
    again(f);
    assert_int_equal(aws_upload(f, "", aws_body(f, ONE, TWO, ONE, "")), S3_SignatureDoesNotMatch);
    again(f);
    assert_int_equal(aws_upload(f, "", aws_body(f, ONE, TWO, LAST, "x:y\r\n")), S3_IncompleteBody);
    again(f);
    memcpy(f->auth.seed_signature, ONE, 64);
    assert_int_equal(aws_upload(f, "", aws_body(f, ONE, TWO, LAST, "")), S3_SignatureDoesNotMatch);
}

#define T_SEED "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
#define T_ONE  "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"
#define T_TWO  "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"
#define T_LAST "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"
#define T_CRC  "x-amz-checksum-crc32c:sOO8/Q==\r\n"
#define T_SIGN                                                                                     \
    "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"

/* The documented trailer passes; without its signature, or with another, it does not. */
static void signed_trailer(void **state)
{
    static const struct {
        const char *end;
        enum s3_error error;
    } rows[] = {
        {T_CRC T_SIGN,                                  S3_OK                   },
        {T_CRC,                                         S3_MalformedTrailerError},
        {T_SIGN,                                        S3_MalformedTrailerError},
        {"",                                            S3_MalformedTrailerError},
        {T_SIGN T_CRC,                                  S3_MalformedTrailerError},
        {"x-amz-checksum-crc32c:sOO8/A==\r\n" T_SIGN,   S3_SignatureDoesNotMatch},
        {T_CRC "x-amz-trailer-signature:" ONE "\r\n",   S3_SignatureDoesNotMatch},
        {T_CRC "x-amz-trailer-signature:12\r\n",        S3_IncompleteBody       },
        {T_CRC "x-amz-trailer-signatures:12\r\n",       S3_IncompleteBody       },
        /* As minio-go writes it. A line feed elsewhere is none. */
        {"x-amz-checksum-crc32c:sOO8/Q==\n\r\n" T_SIGN, S3_OK                   },
        {"x-amz-checksum-crc32c:sOO8\n/Q==\r\n" T_SIGN, S3_MalformedTrailerError},
        {"\n\r\n" T_CRC T_SIGN,                         S3_MalformedTrailerError},
    };
    struct fixture *f = *state;

    aws_seed(f, PAYLOAD_SIGNED_TRAILER, T_SEED);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        again(f);
        assert_int_equal(aws_upload(f, "x-amz-trailer: x-amz-checksum-crc32c\r\n",
                                    aws_body(f, T_ONE, T_TWO, T_LAST, rows[i].end)),
                         rows[i].error);
    }
    assert_int_equal(f->payload.algorithm, CHECKSUM_CRC32C);
}

/* TCP cuts where it likes: every split, at once or later, gives the same. */
static void any_split(void **state)
{
    static const char body[] = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" HELLO_CRC32 "\r\n\r\n";
    struct fixture *f = *state;

    for (size_t step = 1; step < sizeof(body); step++) {
        for (size_t piece = 1; piece < 8; piece++) {
            for (int later = 0; later < 2; later++) {
                again(f);
                f->piece = piece;
                f->auth.mode = PAYLOAD_UNSIGNED_TRAILER;
                assert_int_equal(begin(f, TRAILED, SLICE(body)), S3_OK);
                f->http.step = step;
                f->http.later = later != 0;
                assert_int_equal(drain(f), S3_OK);
                assert_int_equal(f->body_len, 5);
                assert_memory_equal(f->body, "hello", 5);
            }
        }
    }
}

/* A client that sends framing and never data must not fill memory. */
static void endless_lines(void **state)
{
    struct fixture *f = *state;

    again(f);
    f->auth.mode = PAYLOAD_UNSIGNED_TRAILER;
    assert_int_equal(begin(f, DECODED, SLICE("0")), S3_OK);
    f->http.repeat = true;
    f->http.body_bytes = 10000000;
    assert_int_equal(drain(f), S3_IncompleteBody);
    assert_in_range(f->http.given, 1, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_body, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(exact_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_by_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(complete_keeps_object_checksums, setup, teardown),
        cmocka_unit_test_setup_teardown(plain_mismatches, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(too_long_on_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(unsigned_framing, setup, teardown),
        cmocka_unit_test_setup_teardown(signed_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(signed_trailer, setup, teardown),
        cmocka_unit_test_setup_teardown(any_split, setup, teardown),
        cmocka_unit_test_setup_teardown(endless_lines, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
