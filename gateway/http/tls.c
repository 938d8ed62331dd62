/*
 * Certificates, keys and tickets behind tls.h: what an SSL_CTX is made of, and made of anew.
 */
#include "gateway/http/tls.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum {
    PEM_BYTES_MAX = 1024 * 1024,
    TICKET_KEY_BYTES = 80, /* name, HMAC and AES key */
    TICKETS = 1
};

struct tls_context {
    struct tls_options options; /* paths point below */
    char certificate_path[TLS_PATH_MAX];
    char key_path[TLS_PATH_MAX];
    atomic_flag lock; /* held for the few instructions that swap `ssl` or take a reference to it */
    SSL_CTX *ssl;
};

/* ---- Certificates ---- */

static enum rc ssl_error(struct error *error, const char *what, const char *path)
{
    char reason[128] = "no reason given";

    if (ERR_peek_last_error() != 0) {
        ERR_error_string_n(ERR_peek_last_error(), reason, sizeof(reason));
    }
    ERR_clear_error();
    return error_set(error, RC_INVALID, "tls: %s %s: %s", what, path, reason);
}

static enum rc file_load(struct env *env, const char *path, struct buffer *to, struct error *error)
{
    size_t got = 1;
    int file = -1;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);

    if (rc != RC_OK) {
        return error != NULL ? error_prefix(error, "tls") : rc;
    }
    while (rc == RC_OK && got > 0 && to->len <= PEM_BYTES_MAX) {
        char *room = buffer_reserve(to, 4096);

        rc = env->file->read(env, file, room, 4096, to->len, &got);
        to->len += rc == RC_OK ? got : 0;
    }
    env->file->close(env, file);
    if (rc != RC_OK || to->len > PEM_BYTES_MAX) {
        return error_set(error, rc != RC_OK ? rc : RC_LIMIT, "tls: read %s: %s", path,
                         rc != RC_OK ? rc_text(rc) : "too large");
    }
    return RC_OK;
}

/* The server's certificate, then those that lead to the root. */
static bool chain_use(SSL_CTX *ssl, BIO *pem)
{
    X509 *certificate = PEM_read_bio_X509_AUX(pem, NULL, NULL, NULL);
    bool ok = certificate != NULL && SSL_CTX_use_certificate(ssl, certificate) == 1;

    X509_free(certificate);
    if (!ok) {
        return false;
    }
    while ((certificate = PEM_read_bio_X509(pem, NULL, NULL, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(ssl, certificate) != 1) {
            X509_free(certificate);
            return false;
        }
    }
    ERR_clear_error(); /* the end of the file */
    return true;
}

static bool key_use(SSL_CTX *ssl, BIO *pem)
{
    char no_passphrase[1] = "";
    EVP_PKEY *key = PEM_read_bio_PrivateKey(pem, NULL, NULL, no_passphrase);
    bool ok = key != NULL && SSL_CTX_use_PrivateKey(ssl, key) == 1;

    EVP_PKEY_free(key);
    return ok;
}

static enum rc pem_use(SSL_CTX *ssl, struct env *env, const char *path,
                       bool (*use)(SSL_CTX *ssl, BIO *pem), struct error *error)
{
    struct buffer pem;
    enum rc rc;

    buffer_init(&pem);
    rc = file_load(env, path, &pem, error);
    if (rc == RC_OK) {
        BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);

        ASSERT(bio != NULL);
        ERR_clear_error();
        if (!use(ssl, bio)) {
            rc = ssl_error(error, "use", path);
        }
        BIO_free(bio);
        OPENSSL_cleanse(pem.data, pem.len);
    }
    buffer_deinit(&pem);
    return rc;
}

/* ---- Contexts ---- */

static void context_lock(struct tls_context *context)
{
    while (atomic_flag_test_and_set_explicit(&context->lock, memory_order_acquire)) {
        /* a few instructions */
    }
}

static void context_unlock(struct tls_context *context)
{
    atomic_flag_clear_explicit(&context->lock, memory_order_release);
}

/* Returns owned (a reference). */
static SSL_CTX *context_ref(struct tls_context *context)
{
    SSL_CTX *ssl;

    context_lock(context);
    ssl = context->ssl;
    ASSERT(SSL_CTX_up_ref(ssl) == 1);
    context_unlock(context);
    return ssl;
}

static int on_server_name(SSL *ssl, int *alert, void *user)
{
    struct tls_context *context = user;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct tls_context *other;

    (void)alert;
    if (name == NULL || context->options.select == NULL) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    other = context->options.select(context, slice_str(name));
    if (other != NULL && other != context) {
        SSL_CTX *other_ssl = context_ref(other);

        (void)SSL_set_SSL_CTX(ssl, other_ssl);
        SSL_CTX_free(other_ssl);
    }
    return SSL_TLSEXT_ERR_OK;
}

/* HTTP/1.1 is what we speak; a client that offers nothing of the kind goes on without. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *picked = NULL;

    (void)ssl;
    (void)user;
    if (SSL_select_next_proto(&picked, out_len, ours, sizeof(ours) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = picked;
    return SSL_TLSEXT_ERR_OK;
}

static void ssl_configure(SSL_CTX *ssl, struct tls_context *context)
{
    static const unsigned char id[] = "kist";

    ASSERT(SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    /* Tickets only: no sessions are stored here, and all loops share the ticket keys. */
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    ASSERT(SSL_CTX_set_session_id_context(ssl, id, sizeof(id) - 1) == 1);
    ASSERT(SSL_CTX_set_num_tickets(ssl, TICKETS) == 1);
    (void)SSL_CTX_set_tlsext_servername_callback(ssl, on_server_name);
    (void)SSL_CTX_set_tlsext_servername_arg(ssl, context);
    SSL_CTX_set_alpn_select_cb(ssl, on_alpn, NULL);
}

static enum rc context_load(struct tls_context *context, struct env *env, SSL_CTX **out,
                            struct error *error)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    enum rc rc;

    ASSERT(ssl != NULL);
    ssl_configure(ssl, context);
    rc = pem_use(ssl, env, context->certificate_path, chain_use, error);
    if (rc == RC_OK) {
        rc = pem_use(ssl, env, context->key_path, key_use, error);
    }
    if (rc == RC_OK && SSL_CTX_check_private_key(ssl) != 1) {
        rc = ssl_error(error, "the key does not belong to the certificate", context->key_path);
    }
    if (rc != RC_OK) {
        SSL_CTX_free(ssl);
        return rc;
    }
    *out = ssl;
    return RC_OK;
}

static bool path_copy(char to[TLS_PATH_MAX], const char *path)
{
    size_t len = strlen(path);

    if (len >= TLS_PATH_MAX) {
        return false;
    }
    memcpy(to, path, len + 1);
    return true;
}

enum rc tls_context_open(struct tls_context **out, struct env *env,
                         const struct tls_options *options, struct error *error)
{
    struct tls_context *context = mem_alloc(sizeof(*context));
    enum rc rc;

    ASSERT(options->certificate_path != NULL && options->key_path != NULL);
    *out = NULL;
    context->options = *options;
    if (!path_copy(context->certificate_path, options->certificate_path) ||
        !path_copy(context->key_path, options->key_path)) {
        mem_free(context);
        return error_set(error, RC_LIMIT, "tls: path longer than %d bytes", TLS_PATH_MAX - 1);
    }
    context->options.certificate_path = context->certificate_path;
    context->options.key_path = context->key_path;
    atomic_flag_clear(&context->lock);
    rc = context_load(context, env, &context->ssl, error);
    if (rc != RC_OK) {
        mem_free(context);
        return rc;
    }
    *out = context;
    return RC_OK;
}

enum rc tls_context_reload(struct tls_context *context, struct env *env, struct error *error)
{
    unsigned char keys[TICKET_KEY_BYTES];
    SSL_CTX *fresh = NULL;
    SSL_CTX *old;
    enum rc rc = context_load(context, env, &fresh, error);

    if (rc != RC_OK) {
        return rc;
    }
    old = context->ssl;
    if (SSL_CTX_get_tlsext_ticket_keys(old, keys, sizeof(keys)) == 1) {
        (void)SSL_CTX_set_tlsext_ticket_keys(fresh, keys, sizeof(keys));
    }
    OPENSSL_cleanse(keys, sizeof(keys));
    context_lock(context);
    context->ssl = fresh;
    context_unlock(context);
    SSL_CTX_free(old);
    return RC_OK;
}

void tls_context_close(struct tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl);
        mem_free(context);
    }
}

/* ---- Sessions ---- */

struct tls_session *tls_session_new(struct tls_context *context)
{
    SSL_CTX *ssl = context_ref(context);
    struct tls_session *session = tls_session_start(ssl, false);

    SSL_CTX_free(ssl);
    return session;
}
