/*
 * See security.h. The names of the keys are sent in the clear and are no secrets: a process of
 * another cluster offers another name and is refused by name, one with another key by its binder.
 */
#include "common/rpc/security.h"

#include <assert.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "common/codec/hex.h"
#include "common/crypto/hmac.h"
#include "common/crypto/tls_psk.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security_private.h"

enum { PEM_FILE_BYTES_MAX = 1024 * 1024 };

struct rpc_security {
    struct tls_peers *peers; /* NULL: plain */
    bool joins;              /* we ourselves know the key only */
    bool psk;
};

static const char member_name[] = "kist/1/";
static const char join_name[] = "kist/1/join";

static_assert(sizeof(member_name) + 2 * (size_t)RPC_CLUSTER_ID_BYTES <= TLS_PSK_NAME_MAX, "fits");
static_assert((int)CLUSTER_KEY_PSK_BYTES == (int)TLS_PSK_KEY_BYTES, "one size");

struct rpc_security *rpc_security_psk(const struct cluster_key *key, const uint8_t *cluster_id,
                                      bool allow_join)
{
    struct rpc_security *security = mem_alloc(sizeof(*security));
    struct tls_psk_key keys[TLS_PSK_KEYS_MAX] = {0};
    uint32_t count = 0;

    if (cluster_id != NULL) {
        memcpy(keys[0].name, member_name, sizeof(member_name));
        hex_encode(keys[0].name + sizeof(member_name) - 1, cluster_id, RPC_CLUSTER_ID_BYTES);
        cluster_key_psk(key, cluster_id, RPC_CLUSTER_ID_BYTES, keys[0].key);
        count = 1;
    }
    if (cluster_id == NULL || allow_join) {
        memcpy(keys[count].name, join_name, sizeof(join_name));
        cluster_key_psk(key, NULL, 0, keys[count].key);
        count += 1;
    }
    security->peers = tls_peers_psk(keys, count);
    security->psk = true;
    security->joins = cluster_id == NULL;
    crypto_wipe(keys, sizeof(keys));
    return security;
}

static enum rc pem_read(struct env *env, const char *path, struct buffer *to, struct error *error)
{
    size_t got = 1;
    int file = -1;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);

    if (rc != RC_OK) {
        return error != NULL ? error_prefix(error, "rpc") : rc;
    }
    while (rc == RC_OK && got > 0 && to->len <= PEM_FILE_BYTES_MAX) {
        rc = env->file->read(env, file, buffer_reserve(to, 4096), 4096, to->len, &got);
        to->len += rc == RC_OK ? got : 0;
    }
    env->file->close(env, file);
    if (rc != RC_OK || to->len > PEM_FILE_BYTES_MAX) {
        return error_set(error, rc != RC_OK ? rc : RC_LIMIT, "rpc: read %s: %s", path,
                         rc != RC_OK ? rc_text(rc) : "too large");
    }
    return RC_OK;
}

enum rc rpc_security_certificates(struct rpc_security **out, struct env *env,
                                  const char *certificate_path, const char *key_path,
                                  const char *authority_path, struct error *error)
{
    const char *const paths[] = {certificate_path, key_path, authority_path};
    struct buffer texts[ARRAY_LEN(paths)];
    struct tls_peers *peers = NULL;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        buffer_init(&texts[i]);
        rc = rc != RC_OK ? rc : pem_read(env, paths[i], &texts[i], error);
    }
    if (rc == RC_OK) {
        rc = tls_peers_certificates(&peers, buffer_slice(&texts[0]), buffer_slice(&texts[1]),
                                    buffer_slice(&texts[2]), error);
    }
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (texts[i].len > 0) {
            crypto_wipe(texts[i].data, texts[i].len);
        }
        buffer_deinit(&texts[i]);
    }
    if (rc == RC_OK) {
        *out = mem_alloc(sizeof(**out));
        (*out)->peers = peers;
    }
    return rc;
}

struct rpc_security *rpc_security_plain(void)
{
    return mem_alloc(sizeof(struct rpc_security));
}

void rpc_security_free(struct rpc_security *security)
{
    if (security != NULL) {
        tls_peers_free(security->peers);
        mem_free(security);
    }
}

struct tls_session *rpc_security_session(struct rpc_security *security, bool client)
{
    return security->peers != NULL ? tls_peers_session(security->peers, client) : NULL;
}

bool rpc_security_proved(struct rpc_security *security, struct tls_session *session, bool *joining)
{
    uint32_t key = 0;

    *joining = false;
    if (security->peers == NULL) {
        return true;
    }
    if (!tls_peers_proved(security->peers, session, &key)) {
        return false;
    }
    *joining = security->psk && (key == 1 || security->joins);
    return true;
}
