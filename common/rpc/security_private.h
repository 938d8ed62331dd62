/* How connections use a struct rpc_security. */
#ifndef COMMON_RPC_SECURITY_PRIVATE_H
#define COMMON_RPC_SECURITY_PRIVATE_H

#include "common/crypto/tls_session.h"
#include "common/rpc/security.h"

/* NULL: plain. */
struct tls_session *rpc_security_session(struct rpc_security *security, bool client);
/* After the handshake: does the other end belong? `joining`: it proved the key only. */
bool rpc_security_proved(struct rpc_security *security, struct tls_session *session, bool *joining);

#endif
