/*
 * See tls_psk.h. OpenSSL takes an external key as a session that was never established: a callback
 * on each side makes one from the key. That both sides have the key is proved by the binder in the
 * client's first flight and by the server's Finished, which only that key gives.
 */
#include "common/crypto/tls_psk.h"

#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/crypto/hmac.h"

struct tls_peers {
    SSL_CTX *client;
    SSL_CTX *server;
    struct tls_psk_key keys[TLS_PSK_KEYS_MAX];
    uint32_t key_count; /* 0: certificates */
};

/* ---- External keys ---- */

static struct tls_peers *peers_of(SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* Returns owned: what OpenSSL takes for an earlier session under this key. NULL: out of luck. */
static SSL_SESSION *psk_session(SSL *ssl, const struct tls_psk_key *key)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();

    if (cipher == NULL || session == NULL ||
        SSL_SESSION_set1_master_key(session, key->key, sizeof(key->key)) != 1 ||
        SSL_SESSION_set_cipher(session, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int on_psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
                      SSL_SESSION **out)
{
    const struct tls_psk_key *key = &peers_of(ssl)->keys[0];

    *out = NULL;
    *id = (const unsigned char *)key->name;
    *id_len = strlen(key->name);
    if (md != NULL && EVP_MD_get_type(md) != NID_sha256) {
        return 1; /* the server insists on another hash: go on without, and be refused */
    }
    *out = psk_session(ssl, key);
    return *out != NULL;
}

static int on_psk_find(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **out)
{
    struct tls_peers *peers = peers_of(ssl);

    *out = NULL;
    for (uint32_t i = 0; i < peers->key_count; i++) {
        if (slice_eq_str(slice_of(id, id_len), peers->keys[i].name)) {
            *out = psk_session(ssl, &peers->keys[i]);
            (void)SSL_set_app_data(ssl, &peers->keys[i]);
            return *out != NULL;
        }
    }
    return 1; /* unknown: there is no certificate to go on with, so it ends as refused */
}

/* ---- Contexts ---- */

static SSL_CTX *context_new(struct tls_peers *peers, bool client)
{
    SSL_CTX *ssl = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
    char groups[] = "X25519:P-256"; /* a macro of OpenSSL casts const away */

    ASSERT(ssl != NULL);
    ASSERT(SSL_CTX_set_app_data(ssl, peers) == 1);
    ASSERT(SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") == 1);
    ASSERT(SSL_CTX_set1_groups_list(ssl, groups) == 1);
    ASSERT(SSL_CTX_set_num_tickets(ssl, 0) == 1);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_options(ssl,
                              SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* With keys nobody has a certificate, and none is trusted: one that is shown is refused. */
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return ssl;
}

struct tls_peers *tls_peers_psk(const struct tls_psk_key *keys, uint32_t count)
{
    struct tls_peers *peers = mem_alloc(sizeof(*peers));

    ASSERT(count > 0 && count <= TLS_PSK_KEYS_MAX);
    memcpy(peers->keys, keys, count * sizeof(*keys));
    peers->key_count = count;
    peers->client = context_new(peers, true);
    peers->server = context_new(peers, false);
    SSL_CTX_set_psk_use_session_callback(peers->client, on_psk_use);
    SSL_CTX_set_psk_find_session_callback(peers->server, on_psk_find);
    /* An authenticated key stands for the certificate; without one the handshake has none. */
    SSL_CTX_set_verify(peers->server, SSL_VERIFY_NONE, NULL);
    return peers;
}

static bool chain_use(SSL_CTX *ssl, BIO *pem)
{
    X509 *certificate = PEM_read_bio_X509(pem, NULL, NULL, NULL);
    bool ok = certificate != NULL && SSL_CTX_use_certificate(ssl, certificate) == 1;

    X509_free(certificate);
    while (ok && (certificate = PEM_read_bio_X509(pem, NULL, NULL, NULL)) != NULL) {
        ok = SSL_CTX_add0_chain_cert(ssl, certificate) == 1;
        if (!ok) {
            X509_free(certificate);
        }
    }
    return ok;
}

static bool key_use(SSL_CTX *ssl, BIO *pem)
{
    char no_passphrase[1] = "";
    EVP_PKEY *key = PEM_read_bio_PrivateKey(pem, NULL, NULL, no_passphrase);
    bool ok =
        key != NULL && SSL_CTX_use_PrivateKey(ssl, key) == 1 && SSL_CTX_check_private_key(ssl) == 1;

    EVP_PKEY_free(key);
    return ok;
}

static bool authority_use(SSL_CTX *ssl, BIO *pem)
{
    X509 *authority;
    bool any = false;

    while ((authority = PEM_read_bio_X509(pem, NULL, NULL, NULL)) != NULL) {
        any = X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), authority) == 1;
        X509_free(authority);
        if (!any) {
            return false;
        }
    }
    return any;
}

static enum rc pem_use(SSL_CTX *ssl, struct slice text, bool (*use)(SSL_CTX *ssl, BIO *pem),
                       const char *what, struct error *error)
{
    BIO *pem = BIO_new_mem_buf(text.data, (int)text.len);
    const char *reason;
    bool ok;

    ASSERT(pem != NULL);
    ERR_clear_error();
    ok = use(ssl, pem);
    reason = ERR_reason_error_string(ERR_peek_error());
    BIO_free(pem);
    ERR_clear_error();
    return ok ? RC_OK
              : error_set(error, RC_INVALID, "tls: %s: %s", what,
                          reason != NULL ? reason : "nothing of the kind in it");
}

enum rc tls_peers_certificates(struct tls_peers **out, struct slice certificate, struct slice key,
                               struct slice authority, struct error *error)
{
    struct tls_peers *peers = mem_alloc(sizeof(*peers));
    enum rc rc = RC_OK;

    peers->client = context_new(peers, true);
    peers->server = context_new(peers, false);
    for (int i = 0; i < 2 && rc == RC_OK; i++) {
        SSL_CTX *ssl = i == 0 ? peers->client : peers->server;

        rc = pem_use(ssl, certificate, chain_use, "certificate", error);
        rc = rc != RC_OK ? rc : pem_use(ssl, key, key_use, "key", error);
        rc = rc != RC_OK ? rc : pem_use(ssl, authority, authority_use, "authority", error);
    }
    if (rc != RC_OK) {
        tls_peers_free(peers);
        return rc;
    }
    *out = peers;
    return RC_OK;
}

void tls_peers_free(struct tls_peers *peers)
{
    if (peers != NULL) {
        SSL_CTX_free(peers->client);
        SSL_CTX_free(peers->server);
        crypto_wipe(peers->keys, sizeof(peers->keys));
        mem_free(peers);
    }
}

/* ---- Sessions ---- */

struct tls_session *tls_peers_session(struct tls_peers *peers, bool client)
{
    return tls_session_start(client ? peers->client : peers->server, client);
}

bool tls_peers_proved(struct tls_peers *peers, struct tls_session *session, uint32_t *key)
{
    SSL *ssl = tls_session_ssl(session);
    X509 *shown;

    *key = 0;
    if (!tls_session_ready(session) || SSL_version(ssl) != TLS1_3_VERSION) {
        return false;
    }
    if (peers->key_count > 0) {
        const struct tls_psk_key *used = SSL_get_app_data(ssl);

        *key = used != NULL ? (uint32_t)(used - peers->keys) : 0;
        return SSL_session_reused(ssl) == 1;
    }
    shown = SSL_get1_peer_certificate(ssl);
    X509_free(shown);
    return shown != NULL && SSL_get_verify_result(ssl) == X509_V_OK;
}
