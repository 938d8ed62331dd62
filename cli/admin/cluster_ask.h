/* One call of `kist admin` to a metad, waited for: proves the cluster key only. */
#ifndef CLI_ADMIN_CLUSTER_ASK_H
#define CLI_ADMIN_CLUSTER_ASK_H

#include "common/base/arena.h"
#include "common/env/env_uv.h"
#include "common/rpc/cluster_key.h"
#include "common/rpc/rpc.h"
#include "proto/cluster.pb-c.h"

struct cluster_asker;

struct cluster_asker *cluster_asker_open(const struct cluster_key *key, struct error *error);
void cluster_asker_close(struct cluster_asker *asker);
struct env *cluster_asker_env(struct cluster_asker *asker);
/* The answer's head lies in the arena, also with an rc that the other side answered. */
enum rc cluster_ask(struct cluster_asker *asker, const char *address, enum rpc_method method,
                    const ProtobufCMessage *message, struct arena *arena, struct slice *head);
/* NULL: not reached (`*rc` says why). */
Kist__ClusterStatus *cluster_ask_status(struct cluster_asker *asker, const char *address,
                                        struct arena *arena, enum rc *rc);
void cluster_pause(struct cluster_asker *asker, uint64_t ms);

#endif
