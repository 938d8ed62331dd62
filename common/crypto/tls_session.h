/*
 * TLS for one side of a connection, without any input or output: ciphertext in, plaintext out, and
 * the reverse. Who makes contexts (gateway/http/tls.c, common/crypto/tls_psk.c) starts sessions on
 * them. A session belongs to one loop.
 */
#ifndef COMMON_CRYPTO_TLS_SESSION_H
#define COMMON_CRYPTO_TLS_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/base/slice.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct ssl_st;     /* OpenSSL's SSL */
struct tls_session;

/* Takes a reference of its own on the context. */
struct tls_session *tls_session_start(struct ssl_ctx_st *context, bool client);
struct ssl_st *tls_session_ssl(struct tls_session *session); /* for who made the context */
void tls_session_free(struct tls_session *session);
/* The handshake is done. */
bool tls_session_ready(const struct tls_session *session);
/* Takes ciphertext from the front of `*in` (all of it unless `to` fills up) and opens it into `to`.
 * RC_OK with *got 0: more is needed. RC_CLOSED: the peer ended its side. RC_INVALID: not TLS, or
 * refused. `out` receives what the protocol itself has to send, also on failure (an alert). */
enum rc tls_session_open(struct tls_session *session, struct slice *in, char *to, size_t len,
                         size_t *got, struct buffer *out);
/* Seals plaintext (after the handshake) and appends the records to `out`. */
enum rc tls_session_seal(struct tls_session *session, struct slice bytes, struct buffer *out);
/* Appends the notice that our side ends. */
void tls_session_end(struct tls_session *session, struct buffer *out);
/* The session was resumed from a ticket. */
bool tls_session_resumed(const struct tls_session *session);

/* Why it was refused: a static text; NULL: it was not. */
const char *tls_session_reason(const struct tls_session *session);

#endif
