/*
 * DIR/node: which cluster and which node a directory of `kist metad` is (FORMAT.md). Replaced
 * whole: written aside, synced, renamed, the directory synced. Blocking: small, and rarely written.
 */
#ifndef METAD_CLUSTER_NODE_IDENTITY_H
#define METAD_CLUSTER_NODE_IDENTITY_H

#include "metad/cluster/node_table.h"

struct node_identity {
    uint8_t cluster_id[RPC_CLUSTER_ID_BYTES];
    uint64_t cluster_epoch;
    uint64_t node_id;
    uint64_t replica_id;
    uint64_t incarnation; /* of the process that wrote it last */
    uint8_t uuid[NODE_UUID_BYTES];
    uint64_t recovered_ns;
    bool founder;
    bool ready;
    struct node_table table; /* as known last */
};

/* From CLUSTER_FORM, or the answer to CLUSTER_JOIN. False: malformed. */
bool node_identity_from_form(const Kist__ClusterForm *form, struct node_identity *out);
/* RC_NOT_FOUND: none. RC_CORRUPT, RC_UNSUPPORTED: not to be touched. */
enum rc node_identity_read(struct env *env, const char *directory, struct node_identity *out,
                           struct error *error);
/* Durable on return. */
enum rc node_identity_write(struct env *env, const char *directory,
                            const struct node_identity *identity, struct error *error);

#endif
