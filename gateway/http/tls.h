/*
 * The gateway's side of TLS 1.2 and 1.3: certificates, names, tickets. The connections themselves
 * are common/crypto/tls_session.h. The only file besides common/crypto that includes OpenSSL.
 *
 * A context (certificate, key, ticket keys) is shared by all loops; any thread may reload it:
 * handshakes that begin afterwards use the new certificate, open connections stay. A session
 * belongs to one loop.
 */
#ifndef GATEWAY_HTTP_TLS_H
#define GATEWAY_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/slice.h"
#include "common/crypto/tls_session.h"
#include "common/env/env.h"

struct tls_context;

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

/* A server's session: tls_session.h says how it is used. Borrows the context until the handshake is
 * done. */
struct tls_session *tls_session_new(struct tls_context *context);

#endif
