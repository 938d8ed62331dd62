/*
 * Links between replicas of different processes, over common/rpc. All on one loop.
 *
 *     send -> the peer of the node that holds the replica -> frames of one turn together
 *          -> RAFT_MESSAGES on the control connections; copies of the state on the bulk ones
 *
 * One message carries frames of all groups to a node: u64 group, u64 from, u64 to, u32 length, the
 * frame; again (little endian). What does not get away is lost, as a network would lose it: the
 * core sends again. Copies are acknowledged by the receiver in windows of two chunks, so nothing
 * grows here.
 *
 * Of two processes with one identity only the newer is heard: a node's messages with an older
 * incarnation than the newest seen are dropped.
 */
#ifndef METAD_RAFT_RPC_TRANSPORT_H
#define METAD_RAFT_RPC_TRANSPORT_H

#include "common/rpc/rpc.h"
#include "metad/raft/replica.h"

enum {
    RPC_TRANSPORT_NODES_MAX = 16,
    RPC_TRANSPORT_RECORD_BYTES = 28 /* before each frame */
};

struct rpc_transport;

/* `rpc` may be replaced by rpc_transport_serve() later; NULL: none yet. */
struct rpc_transport *rpc_transport_new(struct env *env);
/* Takes RAFT_MESSAGES of `rpc`. */
void rpc_transport_serve(struct rpc_transport *transport, struct rpc *rpc);
/* No replica may be in it. `done` from the loop. */
void rpc_transport_close(struct rpc_transport *transport, void (*done)(void *owner), void *owner);
struct raft_transport *rpc_transport_base(struct rpc_transport *transport);

void rpc_transport_add(struct rpc_transport *transport, uint64_t group, uint64_t id,
                       struct replica *replica);
void rpc_transport_remove(struct rpc_transport *transport, uint64_t group, uint64_t id);

/* Where a node is: `peer` is borrowed until it is taken back (NULL). */
void rpc_transport_set_peer(struct rpc_transport *transport, uint64_t node_id,
                            struct rpc_peer *peer);
/* Which node holds a replica. */
void rpc_transport_set_route(struct rpc_transport *transport, uint64_t replica_id,
                             uint64_t node_id);
/* False: an older process of this node than one that was heard. */
bool rpc_transport_accepts(struct rpc_transport *transport, uint64_t node_id, uint64_t incarnation);
/* Any process of this node was heard since this one started. */
bool rpc_transport_heard(struct rpc_transport *transport, uint64_t node_id);

#endif
