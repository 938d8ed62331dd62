/* What every request goes through: signature, bucket, permission, error documents, new judgements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "tests/lib/s3_fixture.h"

static int setup(void **state)
{
    struct s3_fixture *f = mem_alloc(sizeof(*f));

    s3_fixture_init(f);
    *state = f;
    return 0;
}

/* The same with a metad that never answers at once. */
static int setup_later(void **state)
{
    (void)setup(state);
    ((struct s3_fixture *)*state)->meta.later = true;
    return 0;
}

static int teardown(void **state)
{
    s3_fixture_deinit(*state);
    mem_free(*state);
    return 0;
}

static void make_bucket(struct s3_fixture *f, const char *name)
{
    const char *target = arena_printf(&f->arena, "/%s", name).data;

    assert_int_equal(s3_send(f, "PUT", target, "", SLICE_EMPTY), 200);
}

static void assert_error(struct s3_fixture *f, int status, const char *code)
{
    if (f->status != status) {
        print_error("%d\n%s\n", f->status, f->body.data);
    }
    assert_int_equal(f->status, status);
    assert_string_equal(s3_error_of(f), code);
}

/* A bucket made through another gateway is not in our view yet: a request for it must not get 404.
 */
static void a_no_is_confirmed_by_a_refresh(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "fresh");
    assert_null(view_bucket(f->meta.view, SLICE("fresh")));
    assert_int_equal(s3_send(f, "PUT", "/fresh/key", "", SLICE("body")), 200);
    assert_int_equal(f->meta.refreshes, 1);
    assert_int_equal(s3_send(f, "GET", "/fresh/key", "", SLICE_EMPTY), 200);
    assert_int_equal(f->meta.refreshes, 1);
}

/* What does not exist after the refresh either gets its 404, with the name, and no second refresh.
 */
static void missing_bucket(void **state)
{
    struct s3_fixture *f = *state;

    s3_send(f, "GET", "/missing/key", "", SLICE_EMPTY);
    assert_error(f, 404, "NoSuchBucket");
    assert_string_equal(s3_body_element(f, "BucketName"), "missing");
    assert_string_equal(s3_body_element(f, "Resource"), "/missing/key");
    assert_string_equal(s3_body_element(f, "RequestId"), s3_reply_value(f, "x-amz-request-id"));
    assert_string_equal(s3_body_element(f, "HostId"), s3_reply_value(f, "x-amz-id-2"));
    assert_string_equal(s3_reply_value(f, "Content-Type"), "application/xml");
    assert_int_equal(f->meta.refreshes, 1);
}

/* HEAD has no body to carry an error: the status must say it alone, and the connection stays in
 * step. */
static void head_errors_have_no_body(void **state)
{
    struct s3_fixture *f = *state;

    assert_int_equal(s3_send(f, "HEAD", "/missing/key", "", SLICE_EMPTY), 404);
    assert_int_equal(f->body.len, 0);
    assert_non_null(s3_reply_value(f, "x-amz-request-id"));
}

/* Nobody gets in without credentials, or into another's bucket. */
static void strangers_are_denied(void **state)
{
    struct s3_fixture *f = *state;

    f->user = 1;
    make_bucket(f, "of-alice");
    assert_int_equal(s3_send(f, "PUT", "/of-alice/k", "", SLICE("x")), 200);
    f->user = 2;
    s3_send(f, "GET", "/of-alice/k", "", SLICE_EMPTY);
    assert_error(f, 403, "AccessDenied");
    f->user = -1;
    s3_send(f, "GET", "/of-alice/k", "", SLICE_EMPTY);
    assert_error(f, 403, "AccessDenied");
    s3_send(f, "GET", "/", "", SLICE_EMPTY);
    assert_error(f, 403, "AccessDenied");
    f->user = 0; /* root may */
    assert_int_equal(s3_send(f, "GET", "/of-alice/k", "", SLICE_EMPTY), 200);
}

/* What a handler itself refuses rests on the view as well: a right that was given through another
 * gateway counts at once. */
static void a_handlers_no_is_confirmed(void **state)
{
    static const char reads[] =
        "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":\"bob\"},"
        "\"Action\":[\"s3:GetObject\"],\"Resource\":\"arn:aws:s3:::of-alice/*\"}]}";
    static const char tags[] =
        "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":\"bob\"},"
        "\"Action\":[\"s3:GetObject\",\"s3:GetObjectTagging\"],"
        "\"Resource\":\"arn:aws:s3:::of-alice/*\"}]}";
    static const char source[] = "x-amz-copy-source: /of-alice/k\r\n";
    struct s3_fixture *f = *state;

    f->user = 2;
    make_bucket(f, "of-bob");
    f->user = 1;
    make_bucket(f, "of-alice");
    assert_int_equal(s3_send(f, "PUT", "/of-alice/k", "x-amz-tagging: a=b\r\n", SLICE("x")), 200);
    assert_int_equal(s3_send(f, "PUT", "/of-alice?policy", "", slice_str(reads)), 204);
    fake_meta_publish(&f->meta);
    f->user = 2;
    s3_send(f, "PUT", "/of-bob/copy", source, SLICE_EMPTY);
    assert_error(f, 403, "AccessDenied");
    f->user = 1;
    assert_int_equal(s3_send(f, "PUT", "/of-alice?policy", "", slice_str(tags)), 204);
    f->user = 2;
    assert_int_equal(s3_send(f, "PUT", "/of-bob/copy", source, SLICE_EMPTY), 200);
}

/* The caller names whose bucket it expects: a bucket re-made by somebody else must not be written
 * to. */
static void expected_owner(void **state)
{
    struct s3_fixture *f = *state;

    f->user = 1;
    make_bucket(f, "of-alice");
    assert_int_equal(
        s3_send(f, "PUT", "/of-alice/k", "x-amz-expected-bucket-owner: alice\r\n", SLICE("x")),
        200);
    s3_send(f, "PUT", "/of-alice/k", "x-amz-expected-bucket-owner: bob\r\n", SLICE("y"));
    assert_error(f, 403, "AccessDenied");
}

/* A wrong signature shows what was signed here: the reader can find the difference. */
static void signature_errors_explain(void **state)
{
    struct s3_fixture *f = *state;
    struct fake_user wrong[] = {
        {"AKROOT", "other secret", "root"}
    };

    f->meta.users = wrong;
    f->meta.user_count = 1;
    fake_meta_publish(&f->meta);
    s3_send(f, "GET", "/bucket/key", "", SLICE_EMPTY);
    assert_error(f, 403, "SignatureDoesNotMatch");
    assert_non_null(s3_body_element(f, "CanonicalRequest"));
    assert_non_null(s3_body_element(f, "StringToSign"));
    assert_non_null(s3_body_element(f, "StringToSignBytes"));
    assert_non_null(s3_body_element(f, "SignatureProvided"));
    assert_string_equal(s3_body_element(f, "AWSAccessKeyId"), "AKROOT");
}

/* A key made a moment ago through another gateway must work at once. */
static void a_new_access_key_is_found(void **state)
{
    struct s3_fixture *f = *state;

    f->meta.user_count = 1;
    fake_meta_publish(&f->meta);
    f->meta.user_count = 3;
    f->user = 1;
    assert_int_equal(s3_send(f, "GET", "/", "", SLICE_EMPTY), 200);
}

/* One that is not there after the refresh is named. */
static void unknown_access_key(void **state)
{
    struct s3_fixture *f = *state;

    f->meta.user_count = 1;
    fake_meta_publish(&f->meta);
    f->user = 1;
    s3_send(f, "GET", "/", "", SLICE_EMPTY);
    assert_error(f, 403, "InvalidAccessKeyId");
    assert_string_equal(s3_body_element(f, "AWSAccessKeyId"), "AKALICE");
    assert_true(f->meta.refreshes >= 1);
}

/* Truthful: what is not built says so and names itself; what does not exist is another answer. */
static void not_implemented_and_not_allowed(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    s3_send(f, "GET", "/bucket?abac", "", SLICE_EMPTY);
    assert_error(f, 501, "NotImplemented");
    assert_true(s3_body_has(f, "GetBucketAbac"));
    s3_send(f, "POST", "/bucket/key", "", SLICE_EMPTY);
    assert_error(f, 405, "MethodNotAllowed");
    s3_send(f, "GET", "/bucket?acl&policy", "", SLICE_EMPTY);
    assert_error(f, 400, "InvalidArgument");
}

/* The bucket changed between judgement and commit: judged again, the write goes through, once. */
static void stale_generation_is_judged_again(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    f->meta.stale_writes = 2;
    assert_int_equal(s3_send(f, "PUT", "/bucket/key", "", SLICE("body")), 200);
    assert_non_null(fake_meta_object(&f->meta, "bucket", "key"));
    f->meta.stale_reads = 1;
    assert_int_equal(s3_send(f, "GET", "/bucket/key", "", SLICE_EMPTY), 200);
    assert_true(s3_body_has(f, "body"));
    f->meta.stale_writes = 1;
    assert_int_equal(s3_send(f, "DELETE", "/bucket/key", "", SLICE_EMPTY), 204);
}

/* A bucket that never settles must not keep a request for ever. */
static void judging_ends(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    f->meta.stale_writes = 1000;
    s3_send(f, "PUT", "/bucket/key", "", SLICE("body"));
    assert_error(f, 503, "ServiceUnavailable");
    assert_true(f->meta.writes < 100);
}

/* The bucket was deleted and made again while the body came: its bytes belong to nobody. */
static void a_bucket_made_again_is_another(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    assert_int_equal(s3_send(f, "HEAD", "/bucket", "", SLICE_EMPTY), 200);
    f->meta.buckets[0].id = ++f->meta.last_id;
    s3_send(f, "PUT", "/bucket/key", "", SLICE("body"));
    assert_error(f, 503, "ServiceUnavailable");
    assert_null(fake_meta_object(&f->meta, "bucket", "key"));
}

/* Every way a write can fail, and what the client is told: retryable things are 503. */
static void write_failures(void **state)
{
    static const struct {
        enum rc rc;
        int status;
        const char *code;
    } rows[] = {
        {RC_NO_QUORUM,  503, "ServiceUnavailable" },
        {RC_NOT_LEADER, 503, "ServiceUnavailable" },
        {RC_AMBIGUOUS,  503, "ServiceUnavailable" },
        {RC_BUSY,       503, "SlowDown"           },
        {RC_FULL,       507, "InsufficientStorage"},
        {RC_IO,         500, "InternalError"      },
    };
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        f->meta.write_rc = rows[i].rc;
        s3_send(f, "PUT", "/bucket/key", "", SLICE("body"));
        assert_error(f, rows[i].status, rows[i].code);
    }
}

/* After an unknown outcome the object's shards may be named already: they must stay. */
static void ambiguous_writes_discard_nothing(void **state)
{
    struct s3_fixture *f = *state;
    char body[40000];

    memset(body, 'b', sizeof(body));
    make_bucket(f, "bucket");
    f->meta.write_rc = RC_AMBIGUOUS;
    s3_send(f, "PUT", "/bucket/key", "", slice_of(body, sizeof(body)));
    assert_error(f, 503, "ServiceUnavailable");
    assert_int_equal(f->data.removed, 0);
    assert_int_equal(s3_send(f, "GET", "/bucket/key", "", SLICE_EMPTY), 200);
    f->meta.write_rc = RC_NO_QUORUM;
    s3_send(f, "PUT", "/bucket/other", "", slice_of(body, sizeof(body)));
    assert_error(f, 503, "ServiceUnavailable");
    sim_run_for(f->sim, SIM_S);
    assert_true(f->data.removed > 0);
}

/* Both styles reach the same object. */
static void virtual_hosts(void **state)
{
    struct s3_fixture *f = *state;

    make_bucket(f, "bucket");
    assert_int_equal(s3_send(f, "PUT", "/key", "Host: bucket.s3.example\r\n", SLICE("body")), 200);
    assert_int_equal(s3_send(f, "GET", "/bucket/key", "Host: s3.example:9000\r\n", SLICE_EMPTY),
                     200);
    assert_true(s3_body_has(f, "body"));
}

/* Requests can be told apart by their ids. */
static void request_ids_differ(void **state)
{
    struct s3_fixture *f = *state;
    const char *first;

    s3_send(f, "GET", "/", "", SLICE_EMPTY);
    first = s3_reply_value(f, "x-amz-request-id");
    assert_int_equal(strlen(first), 16);
    s3_send(f, "GET", "/", "", SLICE_EMPTY);
    assert_string_not_equal(first, s3_reply_value(f, "x-amz-request-id"));
    assert_string_equal(s3_reply_value(f, "Server"), "kist");
}

/* Clients go away at any moment: nothing stays pinned or open, and what was answered or not is
 * whole (the fixture checks at its end that the server gave everything back). */
static void clients_that_leave(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        const char *headers;
        size_t body;
    } rows[] = {
        {"PUT",    "/bucket/small",       "",                                   100   },
        {"PUT",    "/bucket/striped",     "",                                   300000},
        {"GET",    "/bucket/big",         "",                                   0     },
        {"GET",    "/bucket/inline",      "",                                   0     },
        {"GET",    "/bucket?list-type=2", "",                                   0     },
        {"PUT",    "/bucket/copy",        "x-amz-copy-source: /bucket/big\r\n", 0     },
        {"POST",   "/bucket/k?uploads",   "",                                   0     },
        {"DELETE", "/bucket/small",       "",                                   0     },
    };
    static char body[300000];
    struct s3_fixture *f = *state;

    memset(body, 'b', sizeof(body));
    make_bucket(f, "bucket");
    assert_int_equal(s3_send(f, "PUT", "/bucket/big", "", slice_of(body, sizeof(body))), 200);
    assert_int_equal(s3_send(f, "PUT", "/bucket/inline", "", slice_of(body, 9000)), 200);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (uint64_t ns = 0; ns < 12 * SIM_MS; ns += SIM_MS / 4) {
            s3_send_and_leave(f, rows[i].method, rows[i].target, rows[i].headers,
                              slice_of(body, rows[i].body), ns);
        }
    }
    assert_int_equal(s3_send(f, "GET", "/bucket/big", "", SLICE_EMPTY), 200);
    assert_int_equal(f->body.len, sizeof(body));
    assert_int_equal(gateway_server_requests(f->server), 0);
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, setup, teardown),                                        \
        cmocka_unit_test_setup_teardown(test, setup_later, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_no_is_confirmed_by_a_refresh),
        BOTH(missing_bucket),
        BOTH(head_errors_have_no_body),
        BOTH(strangers_are_denied),
        BOTH(a_handlers_no_is_confirmed),
        BOTH(expected_owner),
        BOTH(signature_errors_explain),
        BOTH(a_new_access_key_is_found),
        BOTH(unknown_access_key),
        BOTH(not_implemented_and_not_allowed),
        BOTH(stale_generation_is_judged_again),
        BOTH(judging_ends),
        BOTH(a_bucket_made_again_is_another),
        BOTH(write_failures),
        BOTH(ambiguous_writes_discard_nothing),
        BOTH(virtual_hosts),
        BOTH(request_ids_differ),
        BOTH(clients_that_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#undef BOTH
