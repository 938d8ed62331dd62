/* Signature Version 4: AWS's published examples, botocore's signatures, and every way to be
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/codec/hex.h"
#include "common/codec/time_format.h"
#include "common/crypto/hash.h"
#include "gateway/auth/sigv4.h"
#include "tests/unit/gateway/request_text.h"

#define EMPTY_SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define AWS_SCOPE "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"

enum { MAY_24_2013 = 1369353600 };

struct fixture {
    struct arena arena;
    struct view *view;
    struct sigv4_cache *cache;
    struct sigv4_result result;
    bool sigv2;
    struct slice virtual_bucket;
};

static int setup(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    arena_init(&f->arena);
    f->view = request_view();
    f->cache = sigv4_cache_new();
    f->sigv2 = true;
    f->virtual_bucket = SLICE_EMPTY;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    sigv4_cache_free(f->cache);
    view_unref(f->view);
    arena_deinit(&f->arena);
    mem_free(f);
    return 0;
}

static void verify_at(struct fixture *f, const char *head, uint64_t now_s)
{
    struct sigv4_options options = {.region = SLICE("us-east-1"),
                                    .now_s = now_s,
                                    .cache = f->cache,
                                    .sigv2 = f->sigv2,
                                    .sigv2_ahead = f->sigv2,
                                    .virtual_bucket = f->virtual_bucket};
    struct http_request request;

    request_from_text(&f->arena, head, &request);
    sigv4_verify(&request, f->view, &options, &f->arena, &f->result);
}

static void assert_text(struct fixture *f, const char *want)
{
    assert_string_equal(arena_copy(&f->arena, f->result.text).data, want);
}

static void assert_refused(struct fixture *f, const char *head, enum s3_error error,
                           const char *text)
{
    verify_at(f, head, MAY_24_2013);
    if (f->result.error != error) {
        print_error("%s\n-> %d %.*s\n", head, (int)f->result.error, (int)f->result.text.len,
                    f->result.text.data == NULL ? "" : f->result.text.data);
    }
    assert_int_equal(f->result.error, error);
    assert_int_equal(f->result.user.len, 0);
    if (text != NULL) {
        assert_text(f, text);
    }
}

/* ---- What must pass ---- */

#define AWS_HEADERS "host: examplebucket.s3.amazonaws.com\r\nx-amz-date: 20130524T000000Z\r\n"
#define AWS_AUTH(signed_headers, signature)                                                        \
    "authorization: AWS4-HMAC-SHA256 Credential=" AWS_SCOPE ",SignedHeaders=" signed_headers       \
    ",Signature=" signature "\r\n"
#define AWS_PRESIGNED                                                                              \
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-" \
    "1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders="   \
    "host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
#define AWS_GET                                                                                    \
    "GET /test.txt HTTP/1.1\r\n" AWS_HEADERS                                                       \
    "range: bytes=0-9\r\nx-amz-content-sha256: " EMPTY_SHA                                         \
    "\r\n" AWS_AUTH("host;range;x-amz-content-sha256;x-amz-date",                                  \
                    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")

/* The examples of AWS's documentation, byte for byte. */
static void published_examples(void **state)
{
    static const char *const heads[] = {
        AWS_GET,
        "PUT /test%24file.text HTTP/1.1\r\n" AWS_HEADERS
        "date: Fri, 24 May 2013 00:00:00 GMT\r\nx-amz-storage-class: REDUCED_REDUNDANCY\r\n"
        "x-amz-content-sha256: "
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\r\n" AWS_AUTH(
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
        "GET /?lifecycle HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA
        "\r\n" AWS_AUTH("host;x-amz-content-sha256;x-amz-date",
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        "GET /?prefix=J&max-keys=2 HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA
        "\r\n" AWS_AUTH("host;x-amz-content-sha256;x-amz-date",
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        "GET /test.txt?" AWS_PRESIGNED " HTTP/1.1\r\nhost: examplebucket.s3.amazonaws.com\r\n",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        verify_at(f, heads[i], MAY_24_2013);
        assert_int_equal(f->result.error, S3_OK);
        assert_false(f->result.anonymous);
        assert_int_equal(f->result.presigned, i == ARRAY_LEN(heads) - 1);
        assert_true(slice_eq_str(f->result.user, "root"));
        assert_true(slice_eq_str(f->result.access_key, "AKIAIOSFODNN7EXAMPLE"));
    }
}

/* The chunked examples of the documentation: the seed, then each chunk from the one before. */
static void published_chunks(void **state)
{
    static const char head[] =
        "PUT /examplebucket/chunkObject.txt HTTP/1.1\r\nhost: s3.amazonaws.com\r\n"
        "x-amz-date: 20130524T000000Z\r\nx-amz-storage-class: REDUCED_REDUNDANCY\r\n"
        "content-encoding: aws-chunked\r\nx-amz-decoded-content-length: 66560\r\n"
        "content-length: 66824\r\n"
        "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n" AWS_AUTH(
            "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
            "x-amz-decoded-content-length;x-amz-storage-class",
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    static const struct {
        size_t len;
        const char *signature;
    } chunks[] = {
        {65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"},
        {1024,  "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"},
        {0,     "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"},
    };
    static char body[65536];
    struct fixture *f = *state;
    char previous[64];

    memset(body, 'a', sizeof(body));
    verify_at(f, head, MAY_24_2013);
    assert_int_equal(f->result.error, S3_OK);
    assert_int_equal(f->result.mode, PAYLOAD_SIGNED_CHUNKS);
    memcpy(previous, f->result.seed_signature, sizeof(previous));
    for (size_t i = 0; i < ARRAY_LEN(chunks); i++) {
        uint8_t sha256[HASH_SHA256_BYTES];
        char signature[64];

        sha256_of(body, chunks[i].len, sha256);
        sigv4_chunk_signature(&f->result, previous, sha256, signature);
        assert_memory_equal(signature, chunks[i].signature, sizeof(signature));
        memcpy(previous, signature, sizeof(previous));
    }
}

/* The trailer example of the documentation. */
static void published_trailer(void **state)
{
    static const char trailer[] = "x-amz-checksum-crc32c:sOO8/Q==\n";
    static const char last_chunk[] =
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992";
    static const char head[] =
        "PUT /examplebucket/chunkObject.txt HTTP/1.1\r\nhost: s3.amazonaws.com\r\n"
        "x-amz-date: 20130524T000000Z\r\nx-amz-storage-class: REDUCED_REDUNDANCY\r\n"
        "content-encoding: aws-chunked\r\nx-amz-decoded-content-length: 66560\r\n"
        "x-amz-trailer: x-amz-checksum-crc32c\r\n"
        "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\r\n" AWS_AUTH(
            "content-encoding;host;x-amz-content-sha256;x-amz-date;"
            "x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
            "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
    struct fixture *f = *state;
    uint8_t sha256[HASH_SHA256_BYTES];
    char signature[64];

    verify_at(f, head, MAY_24_2013);
    assert_int_equal(f->result.error, S3_OK);
    assert_int_equal(f->result.mode, PAYLOAD_SIGNED_TRAILER);
    sha256_of(trailer, sizeof(trailer) - 1, sha256);
    sigv4_trailer_signature(&f->result, last_chunk, sha256, signature);
    assert_memory_equal(signature,
                        "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
                        sizeof(signature));
}

/* Keys that broke other servers, signed by the client that most people use. */
static void botocore_vectors(void **state)
{
    static const struct {
        const char *name;
        const char *head;
    } vectors[] = {
#define SIGV4_VECTOR(name, head) {name, head},
#include "tests/unit/gateway/sigv4_vectors.def"
#undef SIGV4_VECTOR
    };
    struct fixture *f = *state;
    uint64_t now_s = 0;

    assert_true(time_parse_amz(SLICE("20261130T125255Z"), &now_s));
    assert_in_range(ARRAY_LEN(vectors), 60, 1000);
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        verify_at(f, vectors[i].head, now_s);
        if (f->result.error != S3_OK) {
            print_error("%s\n%.*s\n", vectors[i].name, (int)f->result.canonical_request.len,
                        f->result.canonical_request.data);
        }
        assert_int_equal(f->result.error, S3_OK);
    }
}

/* Whoever signs nothing is nobody; dispatch decides what nobody may do. */
static void anonymous(void **state)
{
    struct fixture *f = *state;

    verify_at(f, "GET /a?versionId=1 HTTP/1.1\r\nhost: a\r\n", MAY_24_2013);
    assert_int_equal(f->result.error, S3_OK);
    assert_true(f->result.anonymous);
    assert_int_equal(f->result.mode, PAYLOAD_UNSIGNED);
    verify_at(f,
              "PUT /a HTTP/1.1\r\nhost: a\r\nx-amz-content-sha256: "
              "STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n",
              MAY_24_2013);
    assert_int_equal(f->result.mode, PAYLOAD_UNSIGNED_TRAILER);
    assert_refused(f,
                   "PUT /a HTTP/1.1\r\nhost: a\r\nx-amz-content-sha256: "
                   "STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n",
                   S3_InvalidRequest, NULL);
}

/* ---- What must not ---- */

/* One bit of the signature, the request or the secret: all the same to the caller, with the texts
 * that help to find out. */
static void any_change_is_a_mismatch(void **state)
{
    struct fixture *f = *state;
    char head[2000];
    size_t len = sizeof(AWS_GET);
    static const char *const spots[] = {"/test.txt", "=0-9", "s3.amazon", "b41\r\n", "f0e8bdb"};

    for (size_t i = 0; i < ARRAY_LEN(spots); i++) {
        memcpy(head, AWS_GET, len);
        char *spot = strstr(head, spots[i]);

        assert_non_null(spot);
        spot[1] = spot[1] == '1' ? '2' : '1';
        assert_refused(f, head, S3_SignatureDoesNotMatch, NULL);
        assert_int_not_equal(f->result.canonical_request.len, 0);
        assert_true(
            slice_starts(f->result.string_to_sign, SLICE("AWS4-HMAC-SHA256\n20130524T000000Z\n")));
        assert_int_equal(f->result.signature_provided.len, 64);
    }
}

/* A raw "+" in a path is a plus, in a query a blank: the key that is signed is the key that is
 * used. */
static void raw_plus(void **state)
{
    struct fixture *f = *state;

    verify_at(f,
              "GET /a+b?prefix=a+b HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA
              "\r\n" AWS_AUTH("host;x-amz-content-sha256;x-amz-date", "00"),
              MAY_24_2013);
    assert_int_equal(f->result.error, S3_SignatureDoesNotMatch);
    assert_true(slice_starts(f->result.canonical_request, SLICE("GET\n/a%2Bb\nprefix=a%20b\n")));
}

/* AWS: "Create a canonical request", every rule in one request. */
static void canonical_form(void **state)
{
    static const char want[] =
        "GET\n//a/./b%20%C3%A9/~x\na=&a=1&a-b=%2F%2A&b=c%3Dd\n"
        "host:h:9000\nx-amz-a:one two\nx-amz-b:1,2 3\nx-amz-content-sha256:" EMPTY_SHA
        "\nx-amz-date:20130524T000000Z\n\nhost;x-amz-a;x-amz-b;x-amz-content-sha256;x-amz-"
        "date\n" EMPTY_SHA;
    struct fixture *f = *state;

    verify_at(
        f,
        "GET //a/./b%20%c3%a9/%7Ex?b=c=d&a=1&&a&a-b=/%2a HTTP/1.1\r\nx-amz-b: 1\r\nhost: h:9000\r\n"
        "x-amz-b: 2 \t 3\r\nx-amz-date: 20130524T000000Z\r\nx-amz-a:   one   two  \r\n"
        "x-amz-content-sha256: " EMPTY_SHA
        "\r\n" AWS_AUTH("host;x-amz-a;x-amz-b;x-amz-content-sha256;x-amz-date", "00"),
        MAY_24_2013);
    assert_string_equal(arena_copy(&f->arena, f->result.canonical_request).data, want);
}

/* Headers that nobody signed may come from anybody; AWS names them. */
static void unsigned_amz_headers(void **state)
{
    struct fixture *f = *state;

    assert_refused(f,
                   "GET /test.txt?" AWS_PRESIGNED
                   " HTTP/1.1\r\nhost: examplebucket.s3.amazonaws.com\r\nx-amz-acl: public-read\r\n"
                   "x-amz-meta-a: b\r\n",
                   S3_AccessDenied,
                   "There were headers present in the request which were not signed");
    assert_true(slice_eq_str(f->result.headers_not_signed, "x-amz-acl, x-amz-meta-a"));
    assert_refused(f,
                   "GET / HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA
                   "\r\n" AWS_AUTH("x-amz-date", "00"),
                   S3_AccessDenied,
                   "There were headers present in the request which were not signed");
    assert_true(slice_eq_str(f->result.headers_not_signed, "host, x-amz-content-sha256"));
    verify_at(
        f,
        "GET /test.txt?" AWS_PRESIGNED
        " HTTP/1.1\r\nhost: examplebucket.s3.amazonaws.com\r\nrange: bytes=0-1\r\nuser-agent: x\r\n"
        "content-type: text/plain\r\n",
        MAY_24_2013);
    assert_int_equal(f->result.error, S3_OK);
}

/* A presigned URL works for as long as it says, and no longer. */
static void presigned_times(void **state)
{
    static const char head[] =
        "GET /test.txt?" AWS_PRESIGNED " HTTP/1.1\r\nhost: examplebucket.s3.amazonaws.com\r\n";
    struct fixture *f = *state;

    verify_at(f, head, MAY_24_2013 + 86400);
    assert_int_equal(f->result.error, S3_OK);
    verify_at(f, head, MAY_24_2013 + 86401);
    assert_int_equal(f->result.error, S3_AccessDenied);
    assert_text(f, "Request has expired.");
    assert_int_equal(f->result.expired_s, MAY_24_2013 + 86400);
    assert_int_equal(f->result.expired_after_s, 86400);
    verify_at(f, head, MAY_24_2013 - 900);
    assert_int_equal(f->result.error, S3_OK);
    verify_at(f, head, MAY_24_2013 - 901);
    assert_int_equal(f->result.error, S3_AccessDenied);
}

/* Fifteen minutes either way. */
static void clock_skew(void **state)
{
    struct fixture *f = *state;

    verify_at(f, AWS_GET, MAY_24_2013 + 900);
    assert_int_equal(f->result.error, S3_OK);
    verify_at(f, AWS_GET, MAY_24_2013 + 901);
    assert_int_equal(f->result.error, S3_RequestTimeTooSkewed);
    verify_at(f, AWS_GET, MAY_24_2013 - 900);
    assert_int_equal(f->result.error, S3_OK);
    verify_at(f, AWS_GET, MAY_24_2013 - 901);
    assert_int_equal(f->result.error, S3_RequestTimeTooSkewed);
}

#define HEAD(credential, rest)                                                                     \
    "GET / HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA "\r\n"                     \
    "authorization: AWS4-HMAC-SHA256 Credential=" credential rest "\r\n"
#define SIGNED ", SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=00"
#define THREE                                                                                      \
    "The authorization header is malformed; the authorization header requires three components: "  \
    "Credential, SignedHeaders, and Signature."
#define BAD "The authorization header is malformed; "
#define QUERY(algorithm, credential, date, expires)                                                \
    "GET /?X-Amz-Algorithm=" algorithm "&X-Amz-Credential=" credential "&X-Amz-Date=" date         \
    "&X-Amz-Expires=" expires "&X-Amz-SignedHeaders=host&X-Amz-Signature=00"                       \
    " HTTP/1.1\r\nhost: h\r\n"
#define OK_CREDENTIAL "AKIDEXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"

static const struct {
    const char *head;
    enum s3_error error;
    const char *text;
} malformed_rows[] = {
    {HEAD("a", SIGNED), S3_AuthorizationHeaderMalformed,
     BAD "the Credential is mal-formed; expecting "
         "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."},
    {HEAD("/20130524/us-east-1/s3/aws4_request", SIGNED), S3_AuthorizationHeaderMalformed, NULL},
    {HEAD("AKIDEXAMPLE/20130524/eu-west-1/s3/aws4_request", SIGNED),
     S3_AuthorizationHeaderMalformed, BAD "the region 'eu-west-1' is wrong; expecting 'us-east-1'"},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/ec2/aws4_request", SIGNED),
     S3_AuthorizationHeaderMalformed, BAD "incorrect service \"ec2\". This endpoint belongs to \"s3\"."},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4", SIGNED), S3_AuthorizationHeaderMalformed,
     BAD "incorrect terminal \"aws4\". This endpoint uses \"aws4_request\"."},
    {HEAD("AKIDEXAMPLE/2013/us-east-1/s3/aws4_request", SIGNED), S3_AuthorizationHeaderMalformed,
     BAD "incorrect date format \"2013\". This date in the credential must be in the format "
         "\"yyyyMMdd\"."},
    {HEAD("AKIDEXAMPLE/20130525/us-east-1/s3/aws4_request", SIGNED),
     S3_AuthorizationHeaderMalformed, BAD BAD "Invalid credential date. Date is not the same as X-Amz-Date."},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4_request", ""), S3_AuthorizationHeaderMalformed,
     THREE},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4_request", SIGNED ",Signature=00"),
     S3_AuthorizationHeaderMalformed, THREE},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4_request", SIGNED ",Other=1"),
     S3_AuthorizationHeaderMalformed, THREE},
    {HEAD("NOBODY/20130524/us-east-1/s3/aws4_request", SIGNED), S3_InvalidAccessKeyId, NULL},
    {HEAD("ORPHAN/20130524/us-east-1/s3/aws4_request", SIGNED), S3_InvalidAccessKeyId, NULL},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4_request",
     ", SignedHeaders=host;missing;x-amz-content-sha256;x-amz-date, Signature=00"),
     S3_SignatureDoesNotMatch, "A header named in SignedHeaders is empty, repeated, or not in the request: 'missing'"},
    {HEAD("AKIDEXAMPLE/20130524/us-east-1/s3/aws4_request",
     ", SignedHeaders=host;host;x-amz-content-sha256;x-amz-date, Signature=00"),
     S3_SignatureDoesNotMatch, NULL},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: AWS4-HMAC-SHA256\r\n", S3_InvalidArgument,
     "Authorization header is invalid -- one and only one ' ' (space) required."},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: AWS AKID:c2ln\r\n", S3_AccessDenied,
     "AWS authentication requires a valid Date or x-amz-date header."},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: AWS HAHAHA\r\n", S3_InvalidArgument,
     "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature"},
    {"GET / HTTP/1.1\r\nhost: h\r\ndate: Fri, 24 May 2013 00:00:00 GMT\r\nauthorization: AWS "
     "AKID:c2ln\r\n", S3_InvalidAccessKeyId, NULL},
    {"GET / HTTP/1.1\r\nhost: h\r\ndate: Fri, 24 May 2013 01:00:00 GMT\r\nauthorization: AWS "
     "AKID:c2ln\r\n", S3_RequestTimeTooSkewed, NULL},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: Bearer x\r\n", S3_InvalidArgument,
     "Unsupported Authorization Type"},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: AWS4-ECDSA-P256-SHA256 Credential=a\r\n",
     S3_NotImplemented, NULL},
    {"GET /?AWSAccessKeyId=a&Signature=b&Expires=1 HTTP/1.1\r\nhost: h\r\n", S3_InvalidAccessKeyId,
     NULL},
    {"GET /?AWSAccessKeyId=a&Signature=b HTTP/1.1\r\nhost: h\r\n", S3_AccessDenied,
     "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters"},
    {"GET /?AWSAccessKeyId=a&Signature=b&Expires=x HTTP/1.1\r\nhost: h\r\n", S3_AccessDenied,
     "Invalid date (should be seconds since epoch)"},
    {"GET /?AWSAccessKeyId=a&Signature=b&Expires=1&attributes HTTP/1.1\r\nhost: h\r\n",
     S3_AccessDenied, "Signature Version 2 does not sign the parameter attributes. Please use AWS4-HMAC-SHA256."},
    {"GET /?X-Amz-Signature=a HTTP/1.1\r\nhost: h\r\nauthorization: Bearer x\r\n",
     S3_InvalidArgument, "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature "
     "query string "
     "parameter or the Authorization header should be specified"},
    {"GET / HTTP/1.1\r\nhost: h\r\nauthorization: Bearer x\r\nauthorization: Bearer x\r\n",
     S3_InvalidArgument, NULL},
    {"GET / HTTP/1.1\r\nhost: h\r\nx-amz-date: a\r\nx-amz-date: a\r\n", S3_InvalidRequest,
     "The header x-amz-date was given more than once."},
    {"GET /%zz HTTP/1.1\r\n" AWS_HEADERS "x-amz-content-sha256: " EMPTY_SHA
     "\r\n" AWS_AUTH("host;x-amz-content-sha256;x-amz-date", "00"),
     S3_InvalidURI, NULL},
    {"GET /?a=%4 HTTP/1.1\r\nhost: h\r\n", S3_InvalidURI, NULL},
    {"GET / HTTP/1.1\r\n" AWS_HEADERS AWS_AUTH("host;x-amz-date", "00"), S3_InvalidRequest,
     "Missing required header for this request: x-amz-content-sha256"},
    {"GET / HTTP/1.1\r\n" AWS_HEADERS
     "x-amz-content-sha256: abc\r\n" AWS_AUTH("host;x-amz-date", "00"),
     S3_InvalidArgument, NULL},
    {"GET / HTTP/1.1\r\n" AWS_HEADERS
     "x-amz-content-sha256: STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER\r\n" AWS_AUTH(
         "host;x-amz-date", "00"),
     S3_NotImplemented, NULL},
    {"GET / HTTP/1.1\r\nhost: h\r\nx-amz-date: yesterday\r\nx-amz-content-sha256: " EMPTY_SHA
     "\r\n" AWS_AUTH("host;x-amz-date", "00"),
     S3_AccessDenied, "AWS authentication requires a valid Date or x-amz-date header."},
    {"GET / HTTP/1.1\r\n" AWS_HEADERS "x-amz-security-token: t\r\nx-amz-content-sha256: " EMPTY_SHA
     "\r\n" AWS_AUTH("host;x-amz-date", "00"),
     S3_InvalidToken, NULL},
    {QUERY("AWS4-HMAC-SHA1", OK_CREDENTIAL, "20130524T000000Z", "60"),
     S3_AuthorizationQueryParametersError, NULL},
    {QUERY("AWS4-HMAC-SHA256", "a", "20130524T000000Z", "60"), S3_AuthorizationQueryParametersError,
     NULL},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524", "60"),
     S3_AuthorizationQueryParametersError, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "a"),
     S3_AuthorizationQueryParametersError, "X-Amz-Expires should be a number"},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "-1"),
     S3_AuthorizationQueryParametersError, "X-Amz-Expires must be non-negative"},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "0"), S3_AccessDenied,
     "Request has expired."},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "604801"),
     S3_AuthorizationQueryParametersError, "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires "
     "must be less "
     "than 604800 seconds"},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "60&X-Amz-Expires=60"),
     S3_AuthorizationQueryParametersError, NULL},
    {QUERY("AWS4-HMAC-SHA256", "AKIDEXAMPLE%2F20130524%2Fx%2Fs3%2Faws4_request", "20130524T000000Z",
     "60"),
     S3_AuthorizationQueryParametersError, "Error parsing the X-Amz-Credential parameter; the region 'x' is wrong; expecting "
     "'us-east-1'"},
    {QUERY("AWS4-HMAC-SHA256", OK_CREDENTIAL, "20130524T000000Z", "60&X-Amz-Security-Token=t"),
     S3_InvalidToken, NULL},
    {"GET /?X-Amz-Algorithm=AWS4-HMAC-SHA256 HTTP/1.1\r\nhost: h\r\n",
     S3_AuthorizationQueryParametersError, "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
     "X-Amz-Signature, "
     "X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."},
};

/* Clients and people act on these codes and texts: they are AWS's. */
static void malformed(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(malformed_rows); i++) {
        assert_refused(f, malformed_rows[i].head, malformed_rows[i].error, malformed_rows[i].text);
    }
}

/* A client in the wrong region is told the right one and tries again. */
static void wrong_region_names_ours(void **state)
{
    struct fixture *f = *state;

    assert_refused(f, HEAD("AKIDEXAMPLE/20130524/eu-west-1/s3/aws4_request", SIGNED),
                   S3_AuthorizationHeaderMalformed, NULL);
    assert_true(slice_eq_str(f->result.expected_region, "us-east-1"));
}

/* A key cached for one secret must not verify for another (a key made anew under its old name). */
static void cache_minds_the_secret(void **state)
{
    struct fixture *f = *state;
    Kist__User *user = malloc(sizeof(*user));
    Kist__AccessKey *key = request_key("AKIAIOSFODNN7EXAMPLE", "another secret", "root");
    struct view_parts parts = {.users = &user, .user_count = 1, .keys = &key, .key_count = 1};

    kist__user__init(user);
    user->name = request_bytes("root");
    verify_at(f, AWS_GET, MAY_24_2013);
    assert_int_equal(f->result.error, S3_OK);
    view_unref(f->view);
    f->view = view_new(&parts);
    assert_refused(f, AWS_GET, S3_SignatureDoesNotMatch, NULL);
}

/* AWS: "Signing and authenticating REST requests", its example "Object GET". */
static void version_2_header(void **state)
{
    static const char head[] = "GET /photos/puppy.jpg HTTP/1.1\r\n"
                               "host: awsexamplebucket1.us-west-1.s3.amazonaws.com\r\n"
                               "date: Tue, 27 Mar 2007 19:36:42 +0000\r\n"
                               "authorization: AWS AKIAIOSFODNN7EXAMPLE:"
                               "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=\r\n";
    struct fixture *f = *state;

    f->virtual_bucket = SLICE("awsexamplebucket1");
    verify_at(f, head, 1175024202);
    assert_int_equal(f->result.error, S3_OK);
    f->virtual_bucket = SLICE("another");
    verify_at(f, head, 1175024202);
    assert_int_equal(f->result.error, S3_SignatureDoesNotMatch);
    f->sigv2 = false;
    assert_refused(f, head, S3_InvalidRequest,
                   "The authorization mechanism you have provided is not supported. Please use "
                   "AWS4-HMAC-SHA256.");
    assert_refused(f, "GET /?AWSAccessKeyId=a&Signature=b&Expires=1 HTTP/1.1\r\nhost: h\r\n",
                   S3_InvalidRequest, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_examples, setup, teardown),
        cmocka_unit_test_setup_teardown(published_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(published_trailer, setup, teardown),
        cmocka_unit_test_setup_teardown(botocore_vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(anonymous, setup, teardown),
        cmocka_unit_test_setup_teardown(any_change_is_a_mismatch, setup, teardown),
        cmocka_unit_test_setup_teardown(raw_plus, setup, teardown),
        cmocka_unit_test_setup_teardown(canonical_form, setup, teardown),
        cmocka_unit_test_setup_teardown(unsigned_amz_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(presigned_times, setup, teardown),
        cmocka_unit_test_setup_teardown(clock_skew, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_region_names_ours, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_minds_the_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(version_2_header, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
