/*
 * Who may speak: keys, clusters, protocols, identities. Each refusal is tried against a real
 * server, which must go on serving those who belong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "common/codec/hex.h"
#include "common/crypto/hkdf.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/rpc/cluster_key.h"
#include "common/rpc/frame.h"
#include "proto/rpc.pb-c.h"
#include "tests/lib/rpc_certificates.h"
#include "tests/lib/rpc_pair.h"

/* ---- Keys ---- */

/* The key's text survives copying, and a typing error is found before it costs an evening. */
static void cluster_key_as_text(void **state)
{
    struct cluster_key key;
    struct cluster_key again;
    struct cluster_key other;
    char text[CLUSTER_KEY_TEXT_BYTES + 1];
    char padded[CLUSTER_KEY_TEXT_BYTES + 5] = " \t";
    struct error error;

    (void)state;
    cluster_key_generate(&key);
    cluster_key_generate(&other);
    assert_memory_not_equal(&key, &other, sizeof(key));
    cluster_key_format(&key, text);
    assert_int_equal(strlen(text), CLUSTER_KEY_TEXT_BYTES);
    memcpy(padded + 2, text, CLUSTER_KEY_TEXT_BYTES);
    memcpy(padded + 2 + CLUSTER_KEY_TEXT_BYTES, "\r\n", 3);
    assert_int_equal(cluster_key_parse(slice_str(padded), &again, &error), RC_OK);
    assert_memory_equal(&key, &again, sizeof(key));
    for (size_t i = 0; i < CLUSTER_KEY_TEXT_BYTES; i++) {
        char was = text[i];

        text[i] = was == '7' ? '8' : '7';
        assert_int_equal(cluster_key_parse(slice_str(text), &again, &error), RC_INVALID);
        assert_null(strstr(error.text, text + 10)); /* never in a log */
        text[i] = was;
    }
    assert_int_equal(cluster_key_parse(slice_of(text, 77), &again, &error), RC_INVALID);
    assert_int_equal(cluster_key_parse(SLICE(""), &again, &error), RC_INVALID);
    memset(&key, 0, sizeof(key));
    cluster_key_format(&key, text);
    assert_int_equal(cluster_key_parse(slice_str(text), &again, &error), RC_INVALID);
}

/* The derivation is RFC 5869's (its test cases 1 and 3), and this key's is pinned: another release
 * must derive the same. */
static void derived_keys(void **state)
{
    uint8_t secret[22];
    uint8_t salt[13];
    uint8_t info[10];
    uint8_t out[42];
    uint8_t want[42];
    struct cluster_key key;

    (void)state;
    memset(secret, 0x0b, sizeof(secret));
    for (size_t i = 0; i < sizeof(salt); i++) {
        salt[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof(info); i++) {
        info[i] = (uint8_t)(0xf0 + i);
    }
    hkdf_sha256(slice_of(secret, 22), slice_of(salt, 13), slice_of(info, 10), out, 42);
    assert_true(hex_decode(SLICE("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf3"
                                 "4007208d5b887185865"),
                           want, 42));
    assert_memory_equal(out, want, 42);
    hkdf_sha256(slice_of(secret, 22), SLICE_EMPTY, SLICE_EMPTY, out, 42);
    assert_true(hex_decode(SLICE("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9"
                                 "d201395faa4b61a96c8"),
                           want, 42));
    assert_memory_equal(out, want, 42);
    memset(&key, 1, sizeof(key));
    cluster_key_psk(&key, salt, 13, out);
    cluster_key_psk(&key, NULL, 0, want);
    assert_memory_not_equal(out, want, CLUSTER_KEY_PSK_BYTES);
}

/* ---- Who is refused ---- */

struct echo {
    struct rpc_service service;
};

static void echo_on_request(struct rpc_service *service, struct rpc_request *request)
{
    (void)service;
    rpc_reply_rc(request, RC_OK);
}

struct tried {
    struct rpc_call call;
    bool done;
};

static void tried_done(struct rpc_call *call)
{
    CONTAINER_OF(call, struct tried, call)->done = true;
}

static bool tried_is_done(void *arg)
{
    return ((struct tried *)arg)->done;
}

static enum rc try_echo(struct pair *pair)
{
    struct tried tried = {
        .call = {.method = RPC_PROBE_ECHO, .timeout_ms = 5000, .done = tried_done}
    };

    rpc_call(pair->peer, &tried.call);
    assert_true(pair_run(pair, tried_is_done, &tried, 20000));
    return tried.call.rc;
}

static const uint8_t cluster_a[RPC_CLUSTER_ID_BYTES] = {0xaa, 1};
static const uint8_t cluster_b[RPC_CLUSTER_ID_BYTES] = {0xbb, 2};

struct who {
    const char *key; /* 32 bytes; NULL: no TLS */
    const uint8_t *cluster;
};

/* Server and client as said; returns what a call gets. `why` of the client in `pair.why`. */
static enum rc meet(struct pair *pair, enum pair_world world, const struct who *server,
                    const struct who *client, bool allow_join)
{
    struct pair_options options = {.world = world, .seed = 3, .tls = false};
    static struct echo echo = {.service.on_request = echo_on_request};
    const struct who *whos[] = {server, client};

    pair_init(pair, &options);
    for (int i = 0; i < 2; i++) {
        struct rpc_security **security = i == 0 ? &pair->server_security : &pair->client_security;
        struct rpc_identity *identity = i == 0 ? &pair->server_identity : &pair->client_identity;
        struct cluster_key key;

        memset(identity->cluster_id, 0, sizeof(identity->cluster_id));
        if (whos[i]->cluster != NULL) {
            memcpy(identity->cluster_id, whos[i]->cluster, RPC_CLUSTER_ID_BYTES);
        }
        if (whos[i]->key != NULL) {
            memcpy(key.bytes, whos[i]->key, sizeof(key.bytes));
            rpc_security_free(*security);
            *security = rpc_security_psk(&key, whos[i]->cluster, allow_join && i == 0);
        }
    }
    pair_start(pair);
    rpc_serve(pair->server, RPC_PROBE_ECHO, &echo.service);
    return try_echo(pair);
}

#define KEY_1 "one key that is of 32 bytes, yes"
#define KEY_2 "two key that is of 32 bytes, yes"

/* Only the same key and the same cluster meet; nobody gets in by leaving TLS out. */
static void keys_and_clusters(void **state)
{
    static const struct {
        struct who server;
        struct who client;
        bool meets;
    } rows[] = {
        {{KEY_1, cluster_a}, {KEY_1, cluster_a}, true },
        {{KEY_1, cluster_a}, {KEY_2, cluster_a}, false},
        {{KEY_1, cluster_a}, {KEY_1, cluster_b}, false},
        {{KEY_1, cluster_a}, {NULL, cluster_a},  false},
        {{NULL, cluster_a},  {KEY_1, cluster_a}, false},
        {{NULL, cluster_a},  {NULL, cluster_a},  true },
        {{NULL, cluster_a},  {NULL, cluster_b},  false},
        {{KEY_1, cluster_a}, {KEY_1, NULL},      false}, /* joins where nobody may */
    };

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct rpc_stats stats;
        struct pair pair;
        enum rc rc = meet(&pair, i % 2 == 0 ? PAIR_SIM : PAIR_REAL, &rows[i / 2].server,
                          &rows[i / 2].client, false);

        assert_int_equal(rc, rows[i / 2].meets ? RC_OK : RC_CLOSED);
        assert_int_equal(pair.ups, rows[i / 2].meets ? 1 : 0);
        assert_int_equal(rpc_peer_why(pair.peer, RPC_CONTROL)->rc == RC_OK, rows[i / 2].meets);
        pair_run_for(&pair, 1500); /* the server gives up on what says nothing, too */
        rpc_stats(pair.server, &stats);
        assert_int_equal(stats.handshakes_failed > 0, !rows[i / 2].meets);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* A node that joins has the key and knows no cluster: it learns which one, and may ask for little.
 */
static void joining(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct who server = {KEY_1, cluster_a};
        struct who client = {KEY_1, NULL};
        struct pair pair;

        assert_int_equal(meet(&pair, i == 0 ? PAIR_SIM : PAIR_REAL, &server, &client, true), RC_OK);
        assert_memory_equal(rpc_peer_identity(pair.peer)->cluster_id, cluster_a, sizeof(cluster_a));
        assert_int_equal(rpc_peer_identity(pair.peer)->node_id, 22);
        pair_deinit(&pair);
    }
}

static enum rc judge_epoch(struct rpc *rpc, const struct rpc_identity *other, struct error *error)
{
    return other->cluster_epoch >= rpc_self(rpc)->cluster_epoch
               ? RC_OK
               : error_set(error, RC_STALE, "epoch %llu is over",
                           (unsigned long long)other->cluster_epoch);
}

/* An owner's own rule refuses, and the refused one can read why. */
static void judged(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (int tls = 0; tls < 2; tls++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4, .tls = tls == 1};
        struct pair pair;

        pair_init(&pair, &options);
        pair.judge = judge_epoch;
        pair.server_identity.cluster_epoch = 5;
        pair.client_identity.cluster_epoch = 4;
        pair_start(&pair);
        assert_int_equal(try_echo(&pair), RC_CLOSED);
        assert_int_equal(pair.ups, 0);
        rpc_set_epoch(pair.client, 5); /* it learned: the next attempt succeeds */
        pair_run_for(&pair, 5000);
        assert_int_equal(pair.ups, 1);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* Another node at the expected address (a pod's address used again) is noticed, and so is a
 * connection that leads back to ourselves. */
static void wrong_node_and_self(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (int self = 0; self < 2; self++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4, .tls = true};
        struct pair pair;

        pair_init(&pair, &options);
        if (self == 1) {
            pair.client_identity = pair.server_identity;
        } else {
            pair.expect_node = 23;
        }
        pair_start(&pair);
        assert_int_equal(try_echo(&pair), RC_CLOSED);
        assert_int_equal(pair.ups, 0);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* ---- Certificates ---- */

static void put_file(struct env *env, const char *path, const char *text)
{
    struct slice bytes = slice_str(text);
    int file;

    assert_int_equal(env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, NULL),
                     RC_OK);
    assert_int_equal(env->file->write(env, file, &bytes, 1, 0), RC_OK);
    env->file->close(env, file);
}

static struct rpc_security *certified(struct env *env, const char *certificate, const char *key)
{
    struct rpc_security *security = NULL;
    struct error error = {0};

    put_file(env, "/node.pem", certificate);
    put_file(env, "/node.key", key);
    put_file(env, "/ca.pem", test_authority_pem);
    assert_int_equal(
        rpc_security_certificates(&security, env, "/node.pem", "/node.key", "/ca.pem", &error),
        RC_OK);
    return security;
}

/* With certificates both ends must be of the authority; a cluster's key helps nobody there. */
static void certificates(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (int i = 0; i < 4; i++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4, .tls = true};
        bool client_belongs = i != 1 && i != 3;
        bool server_belongs = i != 2;
        static struct echo echo = {.service.on_request = echo_on_request};
        struct pair pair;
        struct error error;
        struct rpc_security *none = NULL;

        pair_init(&pair, &options);
        rpc_security_free(pair.server_security);
        pair.server_security =
            certified(pair.server_env, server_belongs ? test_node_pem : test_stranger_pem,
                      server_belongs ? test_node_key_pem : test_stranger_key_pem);
        if (i != 3) { /* 3: comes with a key instead */
            rpc_security_free(pair.client_security);
            pair.client_security =
                certified(pair.client_env, client_belongs ? test_node_pem : test_stranger_pem,
                          client_belongs ? test_node_key_pem : test_stranger_key_pem);
        }
        pair_start(&pair);
        rpc_serve(pair.server, RPC_PROBE_ECHO, &echo.service);
        if (client_belongs && server_belongs) {
            assert_int_equal(try_echo(&pair), RC_OK);
        } else {
            /* The client may believe for a moment that it is up: TLS 1.3 refuses a client's
             * certificate after the server spoke. It never gets an answer. */
            assert_int_not_equal(try_echo(&pair), RC_OK);
            assert_int_equal(pair.ups, 0);
        }
        put_file(pair.client_env, "/node.key", "-----BEGIN NOTHING-----\n");
        assert_int_not_equal(rpc_security_certificates(&none, pair.client_env, "/node.pem",
                                                       "/node.key", "/ca.pem", &error),
                             RC_OK);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* ---- Other releases, and things that are not kist ---- */

struct raw {
    struct pair *pair;
    struct env_stream stream;
    struct env_write connect;
    struct env_write write;
    struct buffer out;
    struct buffer got;
    bool ended;
    bool closed;
};

static void raw_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct raw *raw = CONTAINER_OF(stream, struct raw, stream);

    buffer_append(&raw->got, bytes);
    raw->ended = raw->ended || rc != RC_OK;
}

static void raw_on_close(struct env_stream *stream)
{
    CONTAINER_OF(stream, struct raw, stream)->closed = true;
}

static void raw_on_written(struct env_write *write)
{
    (void)write;
}

static void raw_on_connect(struct env_write *write)
{
    struct raw *raw = CONTAINER_OF(write, struct raw, connect);
    struct env *env = raw->pair->client_env;
    struct slice bytes = buffer_slice(&raw->out);

    assert_int_equal(write->rc, RC_OK);
    env->net->read_start(env, &raw->stream);
    raw->write.done = raw_on_written;
    env->net->write(env, &raw->write, &raw->stream, &bytes, 1);
}

static bool raw_ended(void *arg)
{
    return ((struct raw *)arg)->ended;
}

static bool raw_closed(void *arg)
{
    return ((struct raw *)arg)->closed;
}

/* Says `out` to a fresh server and waits for what it answers. True: it hung up. */
static bool raw_say(struct pair *pair, struct raw *raw)
{
    struct env *env = pair->client_env;
    bool ended;

    raw->pair = pair;
    raw->stream.on_read = raw_on_read;
    raw->stream.on_close = raw_on_close;
    raw->connect.done = raw_on_connect;
    env->net->connect(env, &raw->connect, &raw->stream, pair->address);
    ended = pair_run(pair, raw_ended, raw, 500);
    env->net->close(env, &raw->stream);
    assert_true(pair_run(pair, raw_closed, raw, 5000));
    return ended;
}

static void hello_append(struct buffer *to, uint8_t version, uint32_t min, uint32_t max)
{
    Kist__RpcHello hello = KIST__RPC_HELLO__INIT;
    struct rpc_frame frame = {.version = version, .kind = RPC_FRAME_HELLO};
    static uint8_t cluster[RPC_CLUSTER_ID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8};
    char *at;

    hello.cluster_id.data = cluster;
    hello.cluster_id.len = sizeof(cluster);
    hello.node_id = 77;
    hello.protocol_min = min;
    hello.protocol_max = max;
    hello.inflight_max = 10;
    hello.inflight_bytes_max = 100000000;
    frame.head_len = (uint32_t)kist__rpc_hello__get_packed_size(&hello);
    at = buffer_reserve(to, RPC_FRAME_HEADER_BYTES + frame.head_len);
    (void)kist__rpc_hello__pack(&hello, (uint8_t *)at + RPC_FRAME_HEADER_BYTES);
    rpc_frame_seal(&frame, at);
    to->len += RPC_FRAME_HEADER_BYTES + frame.head_len;
}

/* The kind of the first frame that came back; 0: none. */
static int raw_answer(const struct raw *raw, char *text, size_t len)
{
    struct rpc_frame frame;
    size_t need;

    text[0] = '\0';
    if (rpc_frame_parse(buffer_slice(&raw->got), &frame, &need, NULL) != RC_OK) {
        return 0;
    }
    if (frame.kind == RPC_FRAME_GOODBYE) {
        Kist__RpcGoodbye *goodbye = kist__rpc_goodbye__unpack(
            NULL, frame.head_len, (const uint8_t *)raw->got.data + RPC_FRAME_HEADER_BYTES);

        assert_non_null(goodbye);
        assert_true(goodbye->text.len < len);
        memcpy(text, goodbye->text.data, goodbye->text.len);
        text[goodbye->text.len] = '\0';
        kist__rpc_goodbye__free_unpacked(goodbye, NULL);
    }
    return frame.kind;
}

/* One release newer or older that still speaks ours is understood; one that does not is told what
 * we speak. Upgrades roll on this. */
static void other_releases(void **state)
{
    static const struct {
        uint8_t version;
        uint32_t min;
        uint32_t max;
        int answer;
        const char *text;
    } rows[] = {
        {1, 1, 1, RPC_FRAME_HELLO,   ""                         },
        {1, 1, 2, RPC_FRAME_HELLO,   ""                         },
        {1, 0, 9, RPC_FRAME_HELLO,   ""                         },
        {1, 2, 3, RPC_FRAME_GOODBYE, "protocol 2 to 3 there"    },
        {1, 0, 0, RPC_FRAME_GOODBYE, "protocol 0 to 0 there"    },
        {2, 1, 2, RPC_FRAME_GOODBYE, "version 2, understood are"},
    };

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4};
        struct raw raw = {0};
        char text[300];
        struct pair pair;

        pair_init(&pair, &options);
        pair_start_server(&pair);
        hello_append(&raw.out, rows[i].version, rows[i].min, rows[i].max);
        assert_int_equal(raw_say(&pair, &raw), rows[i].answer == RPC_FRAME_GOODBYE);
        assert_int_equal(raw_answer(&raw, text, sizeof(text)), rows[i].answer);
        assert_non_null(strstr(text, rows[i].text));
        buffer_deinit(&raw.out);
        buffer_deinit(&raw.got);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* Frames out of place, of no known kind, or against the rules of streams end the connection. */
static void frames_out_of_place(void **state)
{
    static const struct rpc_frame frames[] = {
        {.kind = RPC_FRAME_REPLY, .id = 5},
        {.kind = RPC_FRAME_ACCEPT, .id = 1 << 16},
        {.kind = RPC_FRAME_DRAIN},
        {.kind = RPC_FRAME_HELLO},
        {.kind = RPC_FRAME_KIND_END},
        {.kind = 0},
        {.kind = RPC_FRAME_PING, .flags = 0x8000},
        {.kind = RPC_FRAME_REQUEST, .method = RPC_PROBE_ECHO, .id = 7}, /* number 0 */
        {.kind = RPC_FRAME_REQUEST,
         .method = RPC_PROBE_ECHO,
         .id = 1 << 16 | 5000}, /* no such slot */
        {.kind = RPC_FRAME_OPEN, .method = RPC_PROBE_STREAM, .id = 1 << 16, .value = UINT32_MAX},
        {.version = 2, .kind = RPC_FRAME_PING},
    };

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4};
        struct rpc_frame frame = frames[i];
        struct rpc_stats stats;
        struct raw raw = {0};
        struct pair pair;

        pair_init(&pair, &options);
        pair_start_server(&pair);
        hello_append(&raw.out, 1, 1, 1);
        frame.version = frame.version == 0 ? 1 : frame.version;
        rpc_frame_seal(&frame, buffer_reserve(&raw.out, RPC_FRAME_HEADER_BYTES));
        raw.out.len += RPC_FRAME_HEADER_BYTES;
        assert_true(raw_say(&pair, &raw));
        rpc_stats(pair.server, &stats);
        assert_int_equal(stats.frames_refused, 1);
        buffer_deinit(&raw.out);
        buffer_deinit(&raw.got);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

/* A browser, a port scanner, silence: refused or timed out, and forgotten. */
static void things_that_are_not_kist(void **state)
{
    static const char *const says[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n........................................", "\x16\x03\x01",
        "", "kRPC\x01\x01...................................................................."};

    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < 2 * ARRAY_LEN(says); i++) {
        struct pair_options options = {.world = PAIR_SIM, .seed = 4, .tls = i % 2 == 1};
        struct rpc_stats stats;
        struct raw raw = {0};
        struct pair pair;
        uint64_t before = metric_value(METRIC_RPC_REFUSED, 0);

        pair_init(&pair, &options);
        pair_start_server(&pair);
        buffer_append(&raw.out, slice_str(says[i / 2]));
        (void)raw_say(&pair, &raw);
        pair_run_for(&pair, 1500);
        /* Noted once each, but for one that said nothing. */
        assert_int_equal(metric_value(METRIC_RPC_REFUSED, 0) - before, raw.out.len > 0 ? 1 : 0);
        rpc_stats(pair.server, &stats);
        assert_int_equal(stats.connections, 0);
        assert_int_equal(stats.handshakes_failed, 1);
        buffer_deinit(&raw.out);
        buffer_deinit(&raw.got);
        pair_deinit(&pair);
    }
    log_set_level(LOG_LEVEL_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_key_as_text),
        cmocka_unit_test(derived_keys),
        cmocka_unit_test(keys_and_clusters),
        cmocka_unit_test(joining),
        cmocka_unit_test(judged),
        cmocka_unit_test(wrong_node_and_self),
        cmocka_unit_test(certificates),
        cmocka_unit_test(other_releases),
        cmocka_unit_test(frames_out_of_place),
        cmocka_unit_test(things_that_are_not_kist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
