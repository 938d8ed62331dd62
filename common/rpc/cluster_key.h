/*
 * The secret that makes processes a cluster: 32 random bytes, given as text by --cluster-key-file
 * or KIST_CLUSTER_KEY. Never logged, never in an error's text. What the wire uses is derived from
 * it.
 */
#ifndef COMMON_RPC_CLUSTER_KEY_H
#define COMMON_RPC_CLUSTER_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"
#include "common/env/env.h"

enum {
    CLUSTER_KEY_BYTES = 32,
    CLUSTER_KEY_TEXT_BYTES = 78, /* "kist1-", 64 hexadecimal digits, 8 of check (CRC32C) */
    CLUSTER_KEY_PSK_BYTES = 32
};

struct cluster_key {
    uint8_t bytes[CLUSTER_KEY_BYTES];
};

void cluster_key_generate(struct cluster_key *key);
/* With a NUL. */
void cluster_key_format(const struct cluster_key *key, char out[CLUSTER_KEY_TEXT_BYTES + 1]);
/* Blanks and line ends around it are ignored. A typing error is found (check characters), and so is
 * a key of equal bytes. */
enum rc cluster_key_parse(struct slice text, struct cluster_key *key, struct error *error);
/* Reads a file (blocking: at start). */
enum rc cluster_key_read(struct env *env, const char *path, struct cluster_key *key,
                         struct error *error);
/* `cluster_id` NULL: of nodes that join. HKDF-SHA256(key, salt = cluster id, info = "kist rpc 1").
 */
void cluster_key_psk(const struct cluster_key *key, const uint8_t *cluster_id, size_t id_len,
                     uint8_t out[CLUSTER_KEY_PSK_BYTES]);
void cluster_key_wipe(struct cluster_key *key);

#endif
