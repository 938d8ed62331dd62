/*
 * Links between the replicas of one process: messages are copied and delivered on the next turn of
 * the loop, in order. All on one loop. A queue that is full drops the newest message, as a network
 * would.
 */
#ifndef METAD_RAFT_TRANSPORT_H
#define METAD_RAFT_TRANSPORT_H

#include "metad/raft/replica.h"

struct local_transport;

struct local_transport *local_transport_new(struct env *env);
/* No replica may be in it. Call when its last post has run: after the replicas' `done`s. */
void local_transport_close(struct local_transport *transport, void (*done)(void *owner),
                           void *owner);
struct raft_transport *local_transport_base(struct local_transport *transport);
void local_transport_add(struct local_transport *transport, uint64_t group, uint64_t id,
                         struct replica *replica);
/* Before the replica's memory goes: at the latest in the `done` of its close. */
void local_transport_remove(struct local_transport *transport, uint64_t group, uint64_t id);

#endif
