/* TLS towards clients: handshakes in any pieces, certificates exchanged while serving, no way
 * around. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "gateway/http/tls.h"
#include "tests/lib/fixture_http.h"

/* ---- Certificates, made on the spot, in the files of a simulated machine ---- */

static void file_write(struct env *env, const char *path, BIO *pem)
{
    char *data = NULL;
    long len = BIO_get_mem_data(pem, &data);
    struct slice bytes = slice_of(data, (size_t)len);
    int file = -1;

    assert_int_equal(env->file->open(env, path, ENV_OPEN_WRITE + ENV_OPEN_CREATE, &file, NULL),
                     RC_OK);
    assert_int_equal(env->file->truncate(env, file, 0), RC_OK);
    assert_int_equal(env->file->write(env, file, &bytes, 1, 0), RC_OK);
    env->file->close(env, file);
    BIO_free(pem);
}

static void certificate_make(struct env *env, const char *name, const char *cert_path,
                             const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    BIO *cert_pem = BIO_new(BIO_s_mem());
    BIO *key_pem = BIO_new(BIO_s_mem());

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    PEM_write_bio_X509(cert_pem, certificate);
    PEM_write_bio_PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL);
    file_write(env, cert_path, cert_pem);
    file_write(env, key_path, key_pem);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

/* ---- A client beside a session, joined by two buffers ---- */

struct fixture {
    struct env *env;
    struct tls_context *context;
    SSL_CTX *client_context;
};

struct pair {
    struct tls_session *server;
    SSL *client;
    struct buffer to_client;
    struct buffer opened; /* what the server has read */
    enum rc rc;
    size_t step; /* bytes given to the server at a time */
};

static int setup(void **state)
{
    static struct fixture fixture;
    struct tls_options options = {.certificate_path = "/cert.pem", .key_path = "/key.pem"};
    struct error error;

    fixture.env = sim_env_alone(1);
    certificate_make(fixture.env, "first", "/cert.pem", "/key.pem");
    assert_int_equal(tls_context_open(&fixture.context, fixture.env, &options, &error), RC_OK);
    fixture.client_context = SSL_CTX_new(TLS_client_method());
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    SSL_CTX_free(fixture->client_context);
    tls_context_close(fixture->context);
    sim_free(sim_of(fixture->env));
    return 0;
}

static void pair_open(struct pair *pair, struct fixture *fixture, size_t step)
{
    *pair = (struct pair){.step = step, .rc = RC_OK};
    buffer_init(&pair->to_client);
    buffer_init(&pair->opened);
    pair->server = tls_session_new(fixture->context);
    pair->client = SSL_new(fixture->client_context);
    SSL_set_bio(pair->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(pair->client);
}

static void pair_close(struct pair *pair)
{
    tls_session_free(pair->server);
    SSL_free(pair->client);
    buffer_deinit(&pair->to_client);
    buffer_deinit(&pair->opened);
}

/* Server's records to the client, client's to the server; true when something moved. */
static bool pair_move(struct pair *pair)
{
    char *data = NULL;
    long len = BIO_get_mem_data(SSL_get_wbio(pair->client), &data);
    struct slice in = slice_of(data, (size_t)len);
    bool moved = len > 0 || pair->to_client.len > 0;

    if (pair->to_client.len > 0) {
        BIO_write(SSL_get_rbio(pair->client), pair->to_client.data, (int)pair->to_client.len);
        buffer_clear(&pair->to_client);
    }
    while (in.len > 0 && pair->rc == RC_OK) {
        struct slice piece = slice_of(in.data, in.len < pair->step ? in.len : pair->step);
        size_t all = piece.len;
        size_t got = 1;

        while (pair->rc == RC_OK && (piece.len > 0 || got > 0)) {
            char to[5000];

            pair->rc =
                tls_session_open(pair->server, &piece, to, sizeof(to), &got, &pair->to_client);
            buffer_append(&pair->opened, slice_of(to, got));
        }
        in = slice_after(in, all);
    }
    (void)BIO_reset(SSL_get_wbio(pair->client));
    return moved;
}

static bool pair_handshake(struct pair *pair)
{
    for (size_t i = 0; i < 20; i++) {
        (void)SSL_do_handshake(pair->client);
        if (!pair_move(pair) || pair->rc != RC_OK) {
            break;
        }
    }
    return SSL_is_init_finished(pair->client) && tls_session_ready(pair->server);
}

static void check_subject(struct pair *pair, const char *want)
{
    X509 *certificate = SSL_get1_peer_certificate(pair->client);
    char name[64] = "";

    assert_non_null(certificate);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof(name));
    assert_string_equal(name, want);
    X509_free(certificate);
}

/* Bytes pass both ways, whatever the version and however the records are cut. */
static void test_round_trip(void **state)
{
    static const struct {
        int version;
        size_t step;
    } rows[] = {
        {TLS1_2_VERSION, 1    },
        {TLS1_2_VERSION, 65536},
        {TLS1_3_VERSION, 1    },
        {TLS1_3_VERSION, 65536}
    };
    struct fixture *fixture = *state;
    static char bytes[50000];

    memset(bytes, 'b', sizeof(bytes));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pair pair;
        static char back[60000];
        int got = 0;

        SSL_CTX_set_min_proto_version(fixture->client_context, rows[i].version);
        SSL_CTX_set_max_proto_version(fixture->client_context, rows[i].version);
        pair_open(&pair, fixture, rows[i].step);
        assert_true(pair_handshake(&pair));
        check_subject(&pair, "first");
        assert_int_equal(SSL_write(pair.client, bytes, sizeof(bytes)), sizeof(bytes));
        (void)pair_move(&pair);
        assert_int_equal(pair.opened.len, sizeof(bytes));
        assert_int_equal(
            tls_session_seal(pair.server, slice_of(bytes, sizeof(bytes)), &pair.to_client), RC_OK);
        assert_null(memmem(pair.to_client.data, pair.to_client.len, "bbbbbbbb", 8));
        tls_session_end(pair.server, &pair.to_client);
        (void)pair_move(&pair);
        while (got < (int)sizeof(bytes)) {
            int step = SSL_read(pair.client, back + got, (int)sizeof(back) - got);

            assert_true(step > 0);
            got += step;
        }
        assert_memory_equal(back, bytes, sizeof(bytes));
        assert_int_equal(SSL_read(pair.client, back, 1), 0);
        assert_int_equal(SSL_get_error(pair.client, 0), SSL_ERROR_ZERO_RETURN);
        (void)SSL_shutdown(pair.client);
        (void)pair_move(&pair);
        assert_int_equal(pair.rc, RC_CLOSED);
        pair_close(&pair);
    }
}

/* A renewed certificate is used without a restart; those connected go on; clients resume. */
static void test_reload_serves_the_new_certificate(void **state)
{
    struct fixture *fixture = *state;
    struct pair before;
    struct pair after;
    struct pair resumed;
    SSL_SESSION *session;
    char byte;

    SSL_CTX_set_max_proto_version(fixture->client_context, TLS1_3_VERSION);
    pair_open(&before, fixture, 65536);
    assert_true(pair_handshake(&before));
    (void)pair_move(&before);
    (void)SSL_read(before.client, &byte, 1); /* takes in the ticket */
    session = SSL_get1_session(before.client);
    certificate_make(fixture->env, "second", "/cert.pem", "/key.pem");
    assert_int_equal(tls_context_reload(fixture->context, fixture->env, NULL), RC_OK);
    pair_open(&after, fixture, 65536);
    assert_true(pair_handshake(&after));
    check_subject(&after, "second");
    pair_open(&resumed, fixture, 65536);
    SSL_set_session(resumed.client, session);
    assert_true(pair_handshake(&resumed));
    assert_true(tls_session_resumed(resumed.server));
    assert_int_equal(SSL_write(before.client, "x", 1), 1);
    (void)pair_move(&before);
    assert_int_equal(before.opened.len, 1);
    SSL_SESSION_free(session);
    pair_close(&before);
    pair_close(&after);
    pair_close(&resumed);
}

/* A renewal that went wrong must not take the service down. */
static void test_failed_reload_keeps_the_old_certificate(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair;
    struct error error;

    certificate_make(fixture->env, "other", "/other.pem", "/key.pem");
    assert_int_equal(tls_context_reload(fixture->context, fixture->env, &error), RC_INVALID);
    assert_non_null(strstr(error.text, "/key.pem"));
    pair_open(&pair, fixture, 65536);
    assert_true(pair_handshake(&pair));
    check_subject(&pair, "first");
    pair_close(&pair);
}

/* Mistakes in the configuration are named. */
static void test_unusable_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct tls_options absent = {.certificate_path = "/absent.pem", .key_path = "/key.pem"};
    struct tls_options swapped = {.certificate_path = "/key.pem", .key_path = "/cert.pem"};
    struct tls_context *context;
    struct error error;

    assert_int_equal(tls_context_open(&context, fixture->env, &absent, &error), RC_NOT_FOUND);
    assert_non_null(strstr(error.text, "/absent.pem"));
    assert_int_equal(tls_context_open(&context, fixture->env, &swapped, &error), RC_INVALID);
    assert_null(context);
}

/* What is not TLS, or too old, ends there; the client is told by an alert. */
static void test_refuses_old_versions_and_garbage(void **state)
{
    struct fixture *fixture = *state;
    struct slice garbage = SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    struct pair pair;
    char to[100];
    size_t got = 0;

    SSL_CTX_set_security_level(fixture->client_context, 0);
    SSL_CTX_set_min_proto_version(fixture->client_context, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(fixture->client_context, TLS1_1_VERSION);
    pair_open(&pair, fixture, 65536);
    assert_false(pair_handshake(&pair));
    assert_int_equal(pair.rc, RC_INVALID);
    pair_close(&pair);
    pair_open(&pair, fixture, 65536);
    assert_int_equal(tls_session_open(pair.server, &garbage, to, sizeof(to), &got, &pair.to_client),
                     RC_INVALID);
    assert_int_equal(got, 0);
    pair_close(&pair);
}

/* Renegotiation costs the server far more than the client: it is not done. */
static void test_renegotiation_is_off(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair;

    SSL_CTX_set_min_proto_version(fixture->client_context, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(fixture->client_context, TLS1_2_VERSION);
    pair_open(&pair, fixture, 65536);
    assert_true(pair_handshake(&pair));
    assert_int_equal(SSL_renegotiate(pair.client), 1);
    assert_false(SSL_do_handshake(pair.client) == 1);
    (void)pair_move(&pair);
    (void)pair_move(&pair);
    assert_false(SSL_do_handshake(pair.client) == 1);
    pair_close(&pair);
}

/* SSL_set_tlsext_host_name() casts a constant away. */
static void server_name_set(SSL *ssl, const char *name)
{
    char copy[32];
    size_t len = strlen(name);

    assert_true(len < sizeof(copy));
    memcpy(copy, name, len + 1);
    assert_int_equal(SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, copy),
                     1);
}

static struct tls_context *second_context;

static struct tls_context *select_context(struct tls_context *context, struct slice name)
{
    return slice_eq_str(name, "two.example") ? second_context : context;
}

/* One port, several names. */
static void test_name_selects_the_certificate(void **state)
{
    struct fixture *fixture = *state;
    struct tls_options options = {
        .certificate_path = "/cert.pem", .key_path = "/key.pem", .select = select_context};
    struct tls_options second = {.certificate_path = "/cert2.pem", .key_path = "/key2.pem"};
    struct tls_context *first = fixture->context;
    struct pair pair;

    certificate_make(fixture->env, "two", "/cert2.pem", "/key2.pem");
    assert_int_equal(tls_context_open(&second_context, fixture->env, &second, NULL), RC_OK);
    assert_int_equal(tls_context_open(&fixture->context, fixture->env, &options, NULL), RC_OK);
    tls_context_close(first);
    pair_open(&pair, fixture, 65536);
    server_name_set(pair.client, "two.example");
    assert_true(pair_handshake(&pair));
    check_subject(&pair, "two");
    pair_close(&pair);
    pair_open(&pair, fixture, 65536);
    server_name_set(pair.client, "one.example");
    assert_true(pair_handshake(&pair));
    check_subject(&pair, "first");
    pair_close(&pair);
    tls_context_close(second_context);
}

/* ---- Whole connections ---- */

struct tls_client {
    struct http_client raw;
    SSL *ssl;
    size_t given; /* of raw.got */
    struct buffer got;
};

static void tls_client_turn(struct tls_client *client)
{
    char *data = NULL;
    long len;
    int step = 1;

    BIO_write(SSL_get_rbio(client->ssl), client->raw.got.data + client->given,
              (int)(client->raw.got.len - client->given));
    client->given = client->raw.got.len;
    (void)SSL_do_handshake(client->ssl);
    while (step > 0 && SSL_is_init_finished(client->ssl)) {
        char *to = buffer_reserve(&client->got, 16384);

        step = SSL_read(client->ssl, to, 16384);
        client->got.len += step > 0 ? (size_t)step : 0;
    }
    len = BIO_get_mem_data(SSL_get_wbio(client->ssl), &data);
    if (len > 0) {
        http_client_send(&client->raw, slice_of(data, (size_t)len));
        (void)BIO_reset(SSL_get_wbio(client->ssl));
    }
}

static void tls_client_run(struct tls_client *client, struct http_fixture *http, unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        tls_client_turn(client);
        http_fixture_run(http, SIM_MS);
    }
}

static void tls_client_open(struct tls_client *client, struct http_fixture *http, SSL_CTX *context)
{
    *client = (struct tls_client){0};
    http_client_open(&client->raw, http);
    buffer_init(&client->got);
    client->ssl = SSL_new(context);
    SSL_set_bio(client->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(client->ssl), -1);
    SSL_set_connect_state(client->ssl);
}

static void tls_client_close(struct tls_client *client, struct http_fixture *http)
{
    SSL_free(client->ssl);
    buffer_deinit(&client->got);
    http_client_close(&client->raw, http);
}

static void http_open(struct http_fixture *http, struct fixture *fixture, uint64_t seed)
{
    const struct http_options options = {.idle_timeout_ms = 60000,
                                         .header_timeout_ms = 10000,
                                         .body_timeout_ms = 20000,
                                         .connections_max = 10,
                                         .tls = fixture->context};

    http_fixture_open(http, seed, &options);
}

/* The same connection code over TLS: uploads, large replies, a kernel that takes little at a time.
 */
static void test_requests_over_tls(void **state)
{
    static const size_t partial[] = {0, 1000};
    static const char requests[] =
        "PUT /echo HTTP/1.1\r\nHost: s3\r\nContent-Length: 5\r\n\r\nhello"
        "GET /write/1000000 HTTP/1.1\r\nHost: s3\r\n\r\n"
        "GET /end/7 HTTP/1.1\r\nHost: s3\r\nConnection: close\r\n\r\n";

    for (size_t i = 0; i < ARRAY_LEN(partial); i++) {
        static struct http_fixture http;
        static struct tls_client client;
        struct fixture *fixture = *state;

        http_open(&http, fixture, 1);
        sim_net_faults(http.sim)->partial_bytes = partial[i];
        tls_client_open(&client, &http, fixture->client_context);
        tls_client_run(&client, &http, 50);
        assert_true(SSL_is_init_finished(client.ssl));
        assert_int_equal(SSL_write(client.ssl, requests, sizeof(requests) - 1),
                         sizeof(requests) - 1);
        tls_client_run(&client, &http, 2000);
        assert_int_equal(http.requests, 3);
        assert_true(client.got.len > 1000000 && client.got.len < 1001000);
        assert_memory_equal(client.got.data + client.got.len - 11, "\r\n\r\nfffffff", 11);
        assert_int_equal((unsigned)SSL_get_shutdown(client.ssl) & SSL_RECEIVED_SHUTDOWN,
                         SSL_RECEIVED_SHUTDOWN);
        tls_client_close(&client, &http);
        http_fixture_close(&http);
    }
}

/* A reader that stops holds one piece of records, not the whole reply. */
static void test_stopped_reader_over_tls(void **state)
{
    static struct http_fixture http;
    static struct tls_client client;
    struct fixture *fixture = *state;
    static const char request[] = "GET /write/3000000 HTTP/1.1\r\nHost: s3\r\n\r\n";

    http_open(&http, fixture, 1);
    tls_client_open(&client, &http, fixture->client_context);
    tls_client_run(&client, &http, 50);
    http_client_pause(&client.raw, true);
    assert_true(SSL_write(client.ssl, request, sizeof(request) - 1) > 0);
    tls_client_run(&client, &http, 100);
    assert_int_equal(http.ended, 0);
    http_fixture_run(&http, 25 * SIM_S);
    assert_int_equal(http.ended, 1);
    assert_int_equal(http.write_rc, RC_TIMEOUT);
    tls_client_close(&client, &http);
    http_fixture_close(&http);
}

enum { FAULT_SEEDS = 60, FAULT_ROUNDS = 60 };

/* Requests at random over a network at random: as test_http_faults.c, through the seals. */
static void run_faults(struct fixture *fixture, uint64_t seed)
{
    static const char *requests[] = {"GET /write/90000 HTTP/1.1\r\nHost: s3\r\n\r\n",
                                     "GET /chunked/70000 HTTP/1.1\r\nHost: s3\r\n\r\n",
                                     "PUT /echo HTTP/1.1\r\nHost: s3\r\nContent-Length: 5\r\n"
                                     "Expect: 100-continue\r\n\r\nhello",
                                     "GET /abort HTTP/1.1\r\nHost: s3\r\n\r\n"};
    static struct http_fixture http;
    static struct tls_client client;
    struct sim_net_faults *faults;

    http_open(&http, fixture, seed);
    faults = sim_net_faults(http.sim);
    faults->partial_bytes = 1 + sim_below(http.sim, 20000);
    faults->window_bytes = 2000 + sim_below(http.sim, 60000);
    faults->pieces = SIM_PIECES_RANDOM;
    faults->reset_ppm = sim_chance(http.sim, 300) ? 5000 : 0;
    tls_client_open(&client, &http, fixture->client_context);
    for (size_t i = 0; i < FAULT_ROUNDS && !client.raw.ended; i++) {
        const char *request = requests[sim_below(http.sim, sim_chance(http.sim, 50) ? 4 : 3)];

        tls_client_run(&client, &http, (unsigned)sim_below(http.sim, 10));
        if (SSL_is_init_finished(client.ssl)) {
            (void)SSL_write(client.ssl, request, (int)strlen(request));
        }
        http_client_pause(&client.raw, sim_chance(http.sim, 100));
    }
    http_client_pause(&client.raw, sim_chance(http.sim, 500));
    tls_client_run(&client, &http, 500);
    tls_client_close(&client, &http);
    http_fixture_close(&http); /* asserts: all ended, all closed */
}

static void test_faults_over_tls(void **state)
{
    for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++) {
        run_faults(*state, seed);
    }
}

/* Half a handshake does not hold a connection, nor does plain HTTP on this port. */
static void test_handshakes_end_in_time(void **state)
{
    static struct http_fixture http;
    static struct http_client plain;
    static struct http_client silent;

    http_open(&http, *state, 1);
    http_client_open(&plain, &http);
    http_client_open(&silent, &http);
    http_client_send(&plain, SLICE("GET / HTTP/1.1\r\nHost: s3\r\n\r\n"));
    http_client_send(&silent, SLICE("\x16\x03\x01"));
    http_fixture_run(&http, SIM_S);
    assert_true(plain.ended);
    assert_false(silent.ended);
    http_fixture_run(&http, 10 * SIM_S);
    assert_true(silent.ended);
    assert_int_equal(http.requests, 0);
    http_client_close(&plain, &http);
    http_client_close(&silent, &http);
    http_fixture_close(&http);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_reload_serves_the_new_certificate),
        TEST(test_failed_reload_keeps_the_old_certificate),
        TEST(test_unusable_files_are_refused),
        TEST(test_refuses_old_versions_and_garbage),
        TEST(test_renegotiation_is_off),
        TEST(test_name_selects_the_certificate),
        TEST(test_requests_over_tls),
        TEST(test_stopped_reader_over_tls),
        TEST(test_faults_over_tls),
        TEST(test_handshakes_end_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
