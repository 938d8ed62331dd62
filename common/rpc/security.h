/*
 * What proves that both ends are of the cluster, shared by all loops of a process (read only once
 * made). Three kinds:
 *
 *   PSK          TLS 1.3, external key derived from cluster key and cluster id: no certificates
 *   certificates TLS 1.3, both ends show one of the cluster's own authority
 *   plain        no TLS, bodies carry CRC32C: for the simulator (OpenSSL draws its own randomness,
 *                so that a run would not follow from its seed) and to measure what TLS costs
 */
#ifndef COMMON_RPC_SECURITY_H
#define COMMON_RPC_SECURITY_H

#include "common/base/error.h"
#include "common/env/env.h"
#include "common/rpc/cluster_key.h"

struct rpc_security;

/* `cluster_id` NULL: a node that joins: proves the key only, and may call JOIN methods only. Such
 * nodes are let in by a process that knows its cluster id when `allow_join`. */
struct rpc_security *rpc_security_psk(const struct cluster_key *key, const uint8_t *cluster_id,
                                      bool allow_join);
/* PEM files: own certificate with its chain, its key, and the authority the other must be of. */
enum rc rpc_security_certificates(struct rpc_security **out, struct env *env,
                                  const char *certificate_path, const char *key_path,
                                  const char *authority_path, struct error *error);
struct rpc_security *rpc_security_plain(void);
void rpc_security_free(struct rpc_security *security); /* no rpc may use it */

#endif
