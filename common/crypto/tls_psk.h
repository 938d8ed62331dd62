/*
 * TLS 1.3 between processes that share a secret: an external pre-shared key under a name, with
 * ephemeral keys (X25519), TLS_AES_128_GCM_SHA256, no certificates, no tickets, no early data. Or,
 * with the same sessions, mutual certificates. Contexts are read only once made: any thread.
 */
#ifndef COMMON_CRYPTO_TLS_PSK_H
#define COMMON_CRYPTO_TLS_PSK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/crypto/tls_session.h"

enum { TLS_PSK_KEY_BYTES = 32, TLS_PSK_NAME_MAX = 64, TLS_PSK_KEYS_MAX = 2 };

struct tls_psk_key {
    char name[TLS_PSK_NAME_MAX]; /* sent in the clear: no secret */
    uint8_t key[TLS_PSK_KEY_BYTES];
};

struct tls_peers; /* contexts for both directions */

/* A client proves the first key; a server accepts any of them. Copies. */
struct tls_peers *tls_peers_psk(const struct tls_psk_key *keys, uint32_t count);
/* All in PEM: what this end shows, its key, and the authority that the other end must be of. */
enum rc tls_peers_certificates(struct tls_peers **out, struct slice certificate, struct slice key,
                               struct slice authority, struct error *error);
void tls_peers_free(struct tls_peers *peers); /* no session may be left */

struct tls_session *tls_peers_session(struct tls_peers *peers, bool client);
/* After the handshake: the other end proved that it belongs. Must be asked: a handshake alone says
 * only that somebody is there. `key`: which one (0 with certificates). */
bool tls_peers_proved(struct tls_peers *peers, struct tls_session *session, uint32_t *key);

#endif
