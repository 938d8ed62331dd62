/*
 * OpenSSL behind tls_session.h. A session reads from the slice that just came and writes to the
 * caller's buffer through a BIO of our own, so no ciphertext is copied on the way in: OpenSSL takes
 * all of it at once.
 */
#include "common/crypto/tls_session.h"

#include <stdatomic.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

struct tls_session {
    SSL *ssl;
    struct slice in;    /* during a call: what has come */
    struct buffer *out; /* during a call: where records go */
    bool ready;
    const char *reason; /* of the failure */
};

/* ---- The BIO of a session ---- */

static int session_bio_read(BIO *bio, char *to, int len)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t take;

    BIO_clear_retry_flags(bio);
    if (session->in.len == 0 || len <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    take = session->in.len < (size_t)len ? session->in.len : (size_t)len;
    memcpy(to, session->in.data, take);
    session->in = slice_after(session->in, take);
    return (int)take;
}

static int session_bio_write(BIO *bio, const char *from, int len)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (session->out == NULL || len <= 0) {
        return -1;
    }
    buffer_append(session->out, slice_of(from, (size_t)len));
    return len;
}

static long session_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int session_bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

/* One for the process: OpenSSL has few type numbers to give. */
static BIO_METHOD *session_bio_method(void)
{
    static _Atomic(BIO_METHOD *) shared;
    BIO_METHOD *before = NULL;
    BIO_METHOD *method = atomic_load(&shared);

    if (method != NULL) {
        return method;
    }
    method = BIO_meth_new(BIO_get_new_index() + BIO_TYPE_SOURCE_SINK, "kist session");

    ASSERT(method != NULL);
    BIO_meth_set_read(method, session_bio_read);
    BIO_meth_set_write(method, session_bio_write);
    BIO_meth_set_ctrl(method, session_bio_ctrl);
    BIO_meth_set_create(method, session_bio_create);
    if (!atomic_compare_exchange_strong(&shared, &before, method)) {
        BIO_meth_free(method);
        return before;
    }
    return method;
}

/* ---- Sessions ---- */

struct tls_session *tls_session_start(struct ssl_ctx_st *context, bool client)
{
    struct tls_session *session = mem_alloc(sizeof(*session));
    BIO *bio = BIO_new(session_bio_method());

    session->ssl = SSL_new(context);
    ASSERT(session->ssl != NULL && bio != NULL);
    BIO_set_data(bio, session);
    ASSERT(BIO_up_ref(bio) == 1); /* one for each direction */
    SSL_set0_rbio(session->ssl, bio);
    SSL_set0_wbio(session->ssl, bio);
    if (client) {
        SSL_set_connect_state(session->ssl);
    } else {
        SSL_set_accept_state(session->ssl);
    }
    return session;
}

struct ssl_st *tls_session_ssl(struct tls_session *session)
{
    return session->ssl;
}

void tls_session_free(struct tls_session *session)
{
    if (session != NULL) {
        SSL_free(session->ssl);
        mem_free(session);
    }
}

bool tls_session_ready(const struct tls_session *session)
{
    return session->ready;
}

bool tls_session_resumed(const struct tls_session *session)
{
    return SSL_session_reused(session->ssl) == 1;
}

static enum rc session_rc(struct tls_session *session, int result)
{
    const char *reason;

    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_NONE:
    case SSL_ERROR_WANT_READ:
        return RC_OK;
    case SSL_ERROR_ZERO_RETURN:
        return RC_CLOSED;
    default:
        reason = ERR_reason_error_string(ERR_peek_error());
        session->reason = reason != NULL ? reason : "broken off";
        return RC_INVALID;
    }
}

static enum rc session_handshake(struct tls_session *session)
{
    int result = SSL_do_handshake(session->ssl);

    session->ready = result == 1;
    return session_rc(session, result);
}

/* Opens records until `to` is full or none is complete. */
static enum rc session_read(struct tls_session *session, char *to, size_t len, size_t *got)
{
    while (*got < len) {
        size_t step = 0;
        int result = SSL_read_ex(session->ssl, to + *got, len - *got, &step);

        if (result != 1) {
            enum rc rc = session_rc(session, result);

            /* What came before the end is handed over first; the next call finds the end again. */
            return rc == RC_CLOSED && *got > 0 ? RC_OK : rc;
        }
        *got += step;
    }
    return RC_OK;
}

enum rc tls_session_open(struct tls_session *session, struct slice *in, char *to, size_t len,
                         size_t *got, struct buffer *out)
{
    enum rc rc = RC_OK;

    *got = 0;
    ERR_clear_error();
    session->in = *in;
    session->out = out;
    if (!session->ready) {
        rc = session_handshake(session);
    }
    if (rc == RC_OK && session->ready) {
        rc = session_read(session, to, len, got);
    }
    ASSERT(rc != RC_OK || *got == len || session->in.len == 0);
    *in = session->in;
    session->in = SLICE_EMPTY;
    session->out = NULL;
    ERR_clear_error();
    return rc;
}

enum rc tls_session_seal(struct tls_session *session, struct slice bytes, struct buffer *out)
{
    size_t taken = 0;
    int result;

    ASSERT(session->ready);
    if (bytes.len == 0) {
        return RC_OK;
    }
    ERR_clear_error();
    session->out = out;
    result = SSL_write_ex(session->ssl, bytes.data, bytes.len, &taken);
    session->out = NULL;
    ERR_clear_error();
    return result == 1 && taken == bytes.len ? RC_OK : RC_IO;
}

void tls_session_end(struct tls_session *session, struct buffer *out)
{
    if (session->ready) {
        ERR_clear_error();
        session->out = out;
        (void)SSL_shutdown(session->ssl);
        session->out = NULL;
        ERR_clear_error();
    }
}

const char *tls_session_reason(const struct tls_session *session)
{
    return session->reason;
}
