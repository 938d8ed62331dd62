/*
 * TLS 1.2 and 1.3 for one side of a connection, without any input or output: ciphertext in,
 * plaintext out, and the reverse. The only file besides common/crypto that includes OpenSSL.
 *
 * A context (certificate, key, ticket keys) is shared by all loops; any thread may reload it:
 * handshakes that begin afterwards use the new certificate, open connections stay. A session
 * belongs to one loop.
 */
#ifndef GATEWAY_HTTP_TLS_H
#define GATEWAY_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/base/slice.h"
#include "common/env/env.h"

struct tls_context;
struct tls_session;

struct tls_options {
    const char *certificate_path; /* PEM: the server's first, then the chain */
    const char *key_path;         /* PEM, without passphrase */
    /* A name was asked for (SNI): another context to answer with, or NULL for this one. It must
     * outlive the handshake. Called on the session's loop. May be NULL. */
    struct tls_context *(*select)(struct tls_context *context, struct slice name);
};

enum { TLS_PATH_MAX = 512 };

/* Reads both files now (blocking: start-up, or a work job). Takes copies of the paths. */
enum rc tls_context_open(struct tls_context **out, struct env *env,
                         const struct tls_options *options, struct error *error);
/* Reads the files again. On failure the old certificate stays in use. Tickets stay valid. Any
 * thread, one caller at a time. */
enum rc tls_context_reload(struct tls_context *context, struct env *env, struct error *error);
/* No session may be left. */
void tls_context_close(struct tls_context *context);

struct tls_session *tls_session_new(struct tls_context *context);
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

#endif
